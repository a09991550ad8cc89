# expect: value "blocked"
# proves: E9, T4
# runs: 2
# tries: plant start-up files and loaders for the next run of any language
fail() { wrong="$wrong $1"; }
refused() { # NAME PATTERN COMMAND…
  name=$1 pattern=$2
  shift 2
  if out=$("$@" 2>&1 </dev/null); then fail "ESCAPED($name:$out)"; return; fi
  printf '%s' "$out" | grep -Eqi "$pattern" || fail "$name($out)"
}
[ -z "$(ls -A /tmp /dev/shm | grep -v :)" ] || fail "ESCAPED($(ls -A /tmp /dev/shm))"
mkdir -p /tmp/.config /tmp/.local/lib/python3.11/site-packages /run/gloveport/deno /tmp/bin
for file in .bashrc .profile .bash_profile .inputrc .pythonrc .npmrc deno.json .gitconfig .config/x sitecustomize.py; do
  echo 'echo ESCAPED' > /tmp/$file || fail write
done
echo 'print("ESCAPED")' > /tmp/.local/lib/python3.11/site-packages/usercustomize.py
printf '#!/bin/sh\necho ESCAPED\n' > /tmp/bin/ls; chmod 755 /tmp/bin/ls
refused preload "Read-only|denied" bash -c 'echo /tmp/x.so > /etc/ld.so.preload'
refused profile "Read-only|denied|No such" bash -c 'echo x > /etc/profile'
printf '%s' "${wrong:-blocked}" | python3 -I -c 'import json, sys; print(json.dumps(sys.stdin.read()))'
