"""Which headers of a request may hold a credential. Pure."""

import re

from gloveport.late_pattern import late_pattern

# Headers with the length, addressee, sender or subject of a message, or of a single connection; and headers that
# servers log and pass on.
_RESERVED_HEADERS = late_pattern(
    r"host|cookie|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|http2-settings"
    r"|forwarded|via|referer|origin|user-agent|x-real-ip|x-http-method(?:-override)?|x-method-override"
    r"|(?:content|proxy|x-forwarded)-.*",
    re.IGNORECASE,
)


def may_hold_a_credential(name: str) -> bool:
    """Whether a credential may be put into a header of this name."""
    return _RESERVED_HEADERS.fullmatch(name) is None
