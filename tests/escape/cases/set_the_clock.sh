# expect: value "blocked"
# proves: E9
# tries: set clock, host name and limits by the host's own programs
fail() { wrong="$wrong $1"; }
refused() { # NAME PATTERN COMMAND…
  name=$1 pattern=$2
  shift 2
  if out=$("$@" 2>&1 </dev/null); then fail "ESCAPED($name:$out)"; return; fi
  printf '%s' "$out" | grep -Eqi "$pattern" || fail "$name($out)"
}
before=$(date +%Y)
refused date "not permitted" date -s 2001-01-01
refused hwclock "access|not permitted|not found|No such|denied" /usr/bin/env hwclock -w
refused hostname "not permitted|must be root|not found|No such" /usr/bin/env hostname escaped
refused ulimit "not permitted|cannot modify" bash -c "ulimit -u 100000"
[ "$(bash -c 'ulimit -c 0; ulimit -Hc unlimited; awk "/core file/ { print \$5, \$6 }" /proc/self/limits')" = "1 1" ] ||
  fail "ESCAPED(core)"
refused nice "denied|not permitted|cannot set" bash -c "renice -n -10 \$\$"
[ "$(date +%Y)" = "$before" ] || fail "ESCAPED(the clock)"
printf '%s' "${wrong:-blocked}" | python3 -I -c 'import json, sys; print(json.dumps(sys.stdin.read()))'
