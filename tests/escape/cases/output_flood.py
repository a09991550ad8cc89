# expect: killed stored_output_bytes
# proves: E4
# tries: flood stdout and stderr at once
import os, threading
def flood(number):
    while True:
        os.write(number, b"x" * 65536)
for number in (1, 2):
    threading.Thread(target=flood, args=(number,)).start()
