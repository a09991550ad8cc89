# expect: value "blocked"
# proves: E9, E5
# tries: signal pid 1, the runner and others; the shell survives because there is nobody to reach
fail() { wrong="$wrong $1"; }
refused() { # NAME PATTERN COMMAND…
  name=$1 pattern=$2
  shift 2
  if out=$("$@" 2>&1 </dev/null); then fail "ESCAPED($name:$out)"; return; fi
  printf '%s' "$out" | grep -Eqi "$pattern" || fail "$name($out)"
}
for signal in KILL STOP TERM HUP TSTP; do # refused, or taken and dropped: nothing of a pid namespace can end its init
  out=$(kill -$signal 1 2>&1) || printf '%s' "$out" | grep -q "not permitted" || fail "$signal($out)"
done
grep -q "^State:.S" /proc/1/status || fail "ESCAPED(the init is stopped or dead)"
ps=$(ls -d /proc/[0-9]* | wc -l)
[ "$ps" -lt 12 ] || fail "ESCAPED($ps processes seen)"
[ -e /proc/@pid@/status ] && [ "@pid@" -gt 50 ] && fail "ESCAPED(the runner is seen)"
refused runner "No such" kill -0 $((@pid@ + 100000))
printf '%s' "${wrong:-blocked}" | python3 -I -c 'import json, sys; print(json.dumps(sys.stdin.read()))'
