# expect: value "blocked"
# proves: E2
# tries: send the reader's terminal escape sequences, and characters cut in two; the answer must hold none of the escapes
import os
os.write(1, b"\x1b]0;title\x07\x1b[2J\x1b[31m\x9b5n\x1bP\x1b\\" * 100 + "ü".encode()[:1])
os.write(2, b"\x1b]52;c;RVNDQVBFRA==\x07\x1b[6n" * 100)
"blocked"
