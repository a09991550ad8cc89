# expect: value "blocked"
# proves: E9
# tries: read the kernel's log, addresses and hardware by the host's own programs
fail() { wrong="$wrong $1"; }
refused() { # NAME PATTERN COMMAND…
  name=$1 pattern=$2
  shift 2
  if out=$("$@" 2>&1 </dev/null); then fail "ESCAPED($name:$out)"; return; fi
  printf '%s' "$out" | grep -Eqi "$pattern" || fail "$name($out)"
}
refused dmesg "not permitted|denied" dmesg
refused kmsg "No such|denied" cat /dev/kmsg /proc/kmsg
refused kcore "denied|not permitted|No such" head -c 1 /proc/kcore
refused sys "No such" ls /sys/class
refused disks "No such|denied" head -c 1 /dev/vda /dev/sda
printf '%s' "${wrong:-blocked}" | python3 -I -c 'import json, sys; print(json.dumps(sys.stdin.read()))'
