# expect: value "blocked"
# proves: E9, T4
# tries: find the secret of the server's environment in any environment, command line, open descriptor or own memory
import os, re, subprocess
from pathlib import Path
PATTERN = re.compile(rb"canary-[0-9a-f]{32}")
wrong = {}
known = {"HOME", "LANG", "LOGNAME", "NO_COLOR", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "USER", "LC_CTYPE"}
known |= {"MALLOC_ARENA_MAX", "MPLBACKEND", "MPLCONFIGDIR", "MPL_IGNORE_SYSTEM_FONTS", "OPENBLAS_NUM_THREADS", "PYTHONPATH"}
if extra := set(os.environ) - known:
    wrong["environment"] = sorted(extra)
decoy = b"canary-" + b"0" * 32
child = subprocess.Popen(["sleep", "30"], env={"DECOY": decoy.decode()})
while not Path(f"/proc/{child.pid}/environ").read_bytes():
    pass  # its files are closed on exec before its environment can be read
found = 0
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    for name in ("environ", "cmdline", "mountinfo", "status"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                for match in PATTERN.findall(file.read()):
                    if match == decoy:
                        found += 1
                    else:
                        wrong[f"{pid}/{name}"] = "ESCAPED: the secret"
        except OSError:
            pass
child.kill()
if found != 1:
    wrong["evidence"] = f"the decoy was found {found} times"
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in maps:
        area, modes, *_ = line.split()
        if modes.startswith("rw"):
            start, end = (int(part, 16) for part in area.split("-"))
            try:
                memory.seek(start)
                for match in PATTERN.findall(memory.read(end - start)):
                    if match != decoy:
                        wrong["memory"] = "ESCAPED: the secret"
            except OSError:
                pass
wrong or "blocked"
