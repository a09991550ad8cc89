# expect: value "blocked"
# proves: E9
# tries: gain privileges by exec: the host's setuid programs, a setuid bit or file capabilities of its own making
import errno, os
wrong = {}


def refused(what, expected, attempt, *arguments, **options):
    try:
        got = f"ESCAPED: {attempt(*arguments, **options)!r}"
    except OSError as error:
        got = errno.errorcode[error.errno]
    if got not in expected.split():
        wrong[what] = got


import shutil, subprocess
shutil.copy("/usr/bin/id", "/tmp/id")
for mode in (0o4755, 0o2755, 0o6000):
    refused(f"mode {mode:o}", "EPERM", os.chmod, "/tmp/id", mode)
    refused(f"new file of mode {mode:o}", "EPERM", os.open, f"/tmp/{mode}", os.O_CREAT | os.O_WRONLY, mode)
ids = subprocess.run(["/tmp/id"], capture_output=True, text=True).stdout
if not ids.startswith("uid=1000(agent) gid=1000(agent)") or "euid" in ids:
    wrong["copy"] = f"ESCAPED: {ids}"
capability = bytes.fromhex("0100000200002000000000000000000000000000")  # cap_sys_admin, effective
refused("file capability", "EPERM", os.setxattr, "/tmp/id", "security.capability", capability)
refused("trusted attribute", "EPERM", os.setxattr, "/tmp/id", "trusted.x", b"x")
for program in ("/usr/bin/su", "/usr/bin/mount", "/usr/bin/umount", "/usr/bin/passwd", "/usr/bin/newgrp", "/usr/bin/sudo", "/usr/bin/pkexec"):
    if os.path.exists(program):
        script = "import os, sys; print(os.geteuid(), open('/proc/self/status').read())"
        done = subprocess.run([program, "-c", "id"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if "uid=0" in done.stdout or done.returncode == 0 and program.endswith("su"):
            wrong[program] = f"ESCAPED: {done}"
with open("/proc/self/mountinfo") as file:
    for line in file:
        options = line.split()[5].split(",")
        if "nosuid" not in options or ("nodev" not in options and not line.split()[4].startswith("/dev/")):
            wrong[line.split()[4]] = options
wrong or "blocked"
