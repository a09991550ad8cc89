# expect: alike
# proves: E4, E9
# tries: the same from a shell
{ ulimit -aH; ulimit -aS; umask; pwd; env | sort | grep -v "^_="; grep -E "^(Umask|NoNewPrivs|Seccomp|Cap|Sig[BIC]|Uid|Gid|Groups)" /proc/self/status; trap; cat /proc/self/coredump_filter; ls -l /proc/self/fd | awk '{print $9}' | wc -l; } |
  python3 -I -c 'import json, sys; print(json.dumps(sys.stdin.read()))'
