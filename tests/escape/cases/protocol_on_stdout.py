# expect: value "blocked"
# proves: A4
# tries: speak the server's own protocol on stdout and stderr; the runner looks whether a line comes out of the server
import os, sys
for number in (1, 2):
    os.write(number, b'{"jsonrpc": "2.0", "id": 1, "result": {"content": []}}\nContent-Length: 2\r\n\r\n{}\n')
"blocked"
