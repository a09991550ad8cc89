"""What a program has written itself: of secrets it may have guessed, its own text tells it nothing when it comes back.

A server that echoes what it is sent would else tell of thousands of guesses at once which one is a secret: by the name
that stands in its place. So where no credential goes, what the program has sent in this run comes back as it was. From
where a credential goes everything is scrubbed, for there the secret may come from the server.
"""

from collections.abc import Collection

from gloveport.secrets.scrub import Finder, Needles
from gloveport.secrets.vault import Vault


class OwnText:
    """The secrets that one execution has itself sent to where no credential goes."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._needles: Needles | None = None
        self._found: set[str] = set()

    @property
    def names(self) -> Collection[str]:
        """Their names. None after a secret was exchanged: a name may be another value's by then."""
        return self._found if self._needles is self._vault.needles else ()

    def finder(self) -> Finder:
        """What has to see all that is sent on one stream, before it is sent."""
        needles = self._vault.needles
        if needles is not self._needles:
            self._needles, self._found = needles, set()
        return Finder(needles, self._found)
