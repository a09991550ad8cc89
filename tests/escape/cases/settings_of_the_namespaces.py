# expect: value "blocked"
# proves: E9
# tries: write any file below /proc/sys, also reached by other paths and descriptors; none of its namespaces is its own
import errno, os
written, tried = [], 0
for place in ("/proc/sys", "/proc/self/root/proc/sys", "/proc/thread-self/cwd/../proc/sys"):
    for directory, _, names in os.walk(place):
        for name in names:
            tried += 1
            path = os.path.join(directory, name)
            try:
                descriptor = os.open(path, os.O_WRONLY)
                os.close(descriptor)
                written.append(path)
            except OSError:
                pass
for name in ("user/max_user_namespaces", "user/max_net_namespaces", "net/ipv4/ip_forward", "net/core/somaxconn", "net/ipv4/ping_group_range", "kernel/hostname", "kernel/msgmax", "kernel/core_pattern", "kernel/ns_last_pid", "kernel/randomize_va_space", "fs/mqueue/msg_max"):
    directory = os.open("/proc/sys", os.O_PATH)
    try:
        os.chmod(f"/proc/sys/{name}", 0o666)
        written.append(f"the mode of {name}")
    except OSError:
        pass
    try:
        os.write(os.open(name, os.O_RDWR, dir_fd=directory), b"1")
        written.append(name)
    except OSError:
        pass
f"ESCAPED: {written[:20]}" if written else "blocked" if tried > 100 else f"{tried} tried"
