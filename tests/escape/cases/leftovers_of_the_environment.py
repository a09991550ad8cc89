# expect: alike
# proves: E9, T4
# tries: find in the environment, its bytes in memory, the arguments and paths what another kind of sandbox does not have
import os, sys
start, end = (int(open("/proc/self/stat").read().rpartition(")")[2].split()[number - 3]) for number in (50, 51))
{
    "environ": sorted(os.environ.items()),
    "bytes": sorted(open("/proc/self/environ").read().split("\0")),
    "argv": [sys.argv, sys.orig_argv[:-2]],
    "path": sys.path,
    "flags": str(sys.flags),
    "prefix": [sys.prefix, sys.exec_prefix, sys.executable, sys.pycache_prefix],
    "globals": sorted(globals()),
    "files": {place: sorted(os.listdir(place)) for place in ("/dev", "/run/gloveport", "/tmp", "/etc", "/opt/data")},
    "comm": open("/proc/self/comm").read(),
}
