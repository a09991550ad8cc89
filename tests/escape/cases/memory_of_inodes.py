# expect: killed memory_bytes
# without-cgroups: timeout 2
# proves: E4
# limits: memory_bytes=48MiB wall_seconds=60
# tries: fill the kernel's memory by empty files and directories, which take no space of the file system
import os
os.mkdir("/tmp/d")
for number in range(1 << 30):
    os.close(os.open(f"/tmp/d/{number}", os.O_CREAT | os.O_WRONLY))
