# expect: value "blocked"
# proves: E9
# tries: become root by su, newgrp, chsh, passwd, sudo, pkexec, and by a shell with a setuid bit of its own
fail() { wrong="$wrong $1"; }
refused() { # NAME PATTERN COMMAND…
  name=$1 pattern=$2
  shift 2
  if out=$("$@" 2>&1 </dev/null); then fail "ESCAPED($name:$out)"; return; fi
  printf '%s' "$out" | grep -Eqi "$pattern" || fail "$name($out)"
}
for program in su sudo pkexec newgrp chsh passwd gpasswd; do
  command -v $program >/dev/null || continue
  out=$(timeout 3 $program -c id </dev/null 2>&1) && case $out in *uid=0*) fail "ESCAPED($program)";; esac
done
cp /bin/bash /tmp/sh || fail copy
refused chmod "not permitted" chmod 6755 /tmp/sh
refused install "not permitted" install -m 4755 /bin/bash /tmp/other
id=$(/tmp/sh -p -c 'id -u; id -g; id -G')
[ "$id" = "$(printf '1000\n1000\n1000')" ] || [ "$id" = "$(printf '1000\n1000\n1000 65534')" ] || fail "ESCAPED(ids:$id)"
refused chown "not permitted|Invalid" chown 0:0 /tmp/sh
printf '%s' "${wrong:-blocked}" | python3 -I -c 'import json, sys; print(json.dumps(sys.stdin.read()))'
