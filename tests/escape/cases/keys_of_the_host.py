# expect: value "blocked"
# proves: E9, T4
# tries: read which keys the server's user keeps in the kernel's keyrings; the runner has put one there
import os
text = ""
for name in ("keys", "key-users"):
    try:
        with open(f"/proc/{name}") as file:
            text += file.read()
    except OSError:
        pass
f"ESCAPED: {text}" if "@key@" in text else "blocked"
