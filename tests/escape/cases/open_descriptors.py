# expect: value "blocked"
# proves: E9
# tries: use a descriptor that the host left open: nothing but /dev/null, two pipes and the report's socket may be there
import os, socket, stat
wrong, sockets = {}, 0
for name in os.listdir("/proc/self/fd"):
    try:
        target = os.readlink(f"/proc/self/fd/{name}")
    except FileNotFoundError:
        continue
    number = int(name)
    if target == "/dev/null":
        if os.fstat(number).st_rdev != os.makedev(1, 3):
            wrong[name] = target
    elif target.startswith("pipe:") and number in (1, 2):
        pass
    elif target.startswith("socket:"):
        sockets += 1
        with socket.socket(fileno=os.dup(number)) as found:
            if found.family != socket.AF_UNIX or found.getsockname() or found.getpeername():
                wrong[name] = f"{found}"
    else:
        wrong[name] = f"ESCAPED: {target}"
if sockets != 1:
    wrong["sockets"] = sockets
wrong or "blocked"
