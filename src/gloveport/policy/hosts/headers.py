"""Which headers of a request may hold a credential. Pure."""

import re

from gloveport.late_pattern import late_pattern

# They say how long a message is, whom it is for, from whom, or what is asked, or belong to one connection alone; or
# servers write them to logs and pass them on.
_TAKEN = late_pattern(
    r"host|cookie|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|http2-settings"
    r"|forwarded|via|referer|origin|user-agent|x-real-ip|x-http-method(?:-override)?|x-method-override"
    r"|(?:content|proxy|x-forwarded)-.*",
    re.IGNORECASE,
)


def may_hold_a_credential(name: str) -> bool:
    """Whether a header of this name may be a credential's place."""
    return _TAKEN.fullmatch(name) is None
