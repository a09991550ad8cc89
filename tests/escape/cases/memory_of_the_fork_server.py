# expect: value "blocked"
# proves: E9, T4
# runs: 2
# tries: read all of its own memory for what an earlier program, the host or another sandbox left in it
import os, re
PATTERNS = {
    "secret": b"canary" + rb"-[0-9a-f]{32}",
    "program": b"left-by-a" + rb"-program-[0-9a-f]{16}",
    "server": b"GLOVEPORT" + rb"_(?!HUB\b)[A-Z]{3,}",
    "cgroup": b"run" + rb"-[0-9a-f]{16}",
    "checkout": rb"tests[/]escape[/]",
}
wrong, size = {}, 0
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in maps.readlines():
        area, modes, *rest = line.split()
        if modes.startswith("rw") and not (rest[3:] and rest[3].startswith("[v")):
            start, end = (int(part, 16) for part in area.split("-"))
            try:
                memory.seek(start)
                data = memory.read(end - start)
            except OSError:
                continue
            size += len(data)
            for name, pattern in PATTERNS.items():
                if found := re.search(pattern, data):
                    wrong[name] = f"ESCAPED: {found[0]!r} in {line.strip()}"
if size < 1 << 20:
    wrong["evidence"] = size
mark = "left-by-a" + "-program-" + os.urandom(8).hex()
wrong or "blocked"
