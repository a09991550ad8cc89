# expect: value "blocked"
# proves: E4
# limits: processes=24
# tries: start threads until it is refused, then count
import threading
stop, threads, refused = threading.Event(), [], False
threading.stack_size(65536)
for _ in range(1000):
    thread = threading.Thread(target=stop.wait, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        refused = True
        break
    threads.append(thread)
stop.set()
"blocked" if refused and 5 < len(threads) <= 24 else f"ESCAPED: {len(threads)} threads, refused: {refused}"
