# expect: value "blocked"
# proves: E4
# tries: take every pseudo-terminal that the host has
import errno, os
kept = []
try:
    while len(kept) < 120:
        kept.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError as error:
    if error.errno != errno.ENOSPC:
        raise
"blocked" if 8 <= len(kept) <= 64 else f"ESCAPED: {len(kept)}"
