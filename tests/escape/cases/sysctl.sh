# expect: value "blocked"
# proves: E9
# tries: write kernel settings by redirection, the case where bubblewrap under the host's root leaves the door open
fail() { wrong="$wrong $1"; }
refused() { # NAME PATTERN COMMAND…
  name=$1 pattern=$2
  shift 2
  if out=$("$@" 2>&1 </dev/null); then fail "ESCAPED($name:$out)"; return; fi
  printf '%s' "$out" | grep -Eqi "$pattern" || fail "$name($out)"
}
for path in kernel/printk_ratelimit kernel/core_pattern kernel/modprobe vm/drop_caches net/ipv4/ip_forward fs/suid_dumpable; do
  [ -e /proc/sys/$path ] || { [ $path = net/ipv4/ip_forward ] || [ $path = kernel/modprobe ] || fail "no-$path"; continue; }
  before=$(cat /proc/sys/$path 2>/dev/null)
  refused $path "Read-only|Permission denied" bash -c "echo 7 > /proc/sys/$path"
done
for file in sysrq-trigger self/oom_score_adj self/uid_map self/setgroups; do
  refused $file "Read-only|Permission denied|No such" bash -c "echo 0 > /proc/$file"
done
printf '%s' "${wrong:-blocked}" | python3 -I -c 'import json, sys; print(json.dumps(sys.stdin.read()))'
