# expect: value "blocked"
# proves: E9, T4
# runs: 3
# tries: leave something for the next run: files, shared memory, hidden mounts, the guest's files, loaders in /tmp
import os
MARKS = ("/tmp/mark", "/tmp/sitecustomize.py", "/tmp/.bashrc", "/dev/shm/mark", "/run/gloveport/mark", "/tmp/usercustomize.py", "/tmp/.local/lib/x.pth")
left = [path for path in MARKS if os.path.exists(path)]
left += [place for place, own in (("/tmp", ["program.py"]), ("/dev/shm", [])) if os.listdir(place) != own]
for path in MARKS:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write("import os; os.environ['GLOVEPORT_MARK'] = '1'")
    os.chmod(path, 0o777)
if "GLOVEPORT_MARK" in os.environ:
    left.append("the environment")
f"ESCAPED: {left}" if left else "blocked"
