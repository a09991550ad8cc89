# expect: value null
# proves: E2, E9
# tries: rewrite the first process's memory from the shell; what it reports is not believed, and it has no more rights
python3 - <<'END'
import os
maps = open(f"/proc/{os.getppid()}/maps").read() and open(f"/proc/2/maps").read()
try:
    with open("/proc/2/mem", "r+b", buffering=0) as memory:
        for line in maps.splitlines():
            if "[heap]" in line:
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                memory.seek(start)
                text = memory.read(end - start)
                memory.seek(start)
                memory.write(text.replace(b"report", b"escape"))
except OSError:
    pass
END
true
