# expect: value "blocked"
# proves: E9, T4
# tries: read the host's files by cat, cp, links, tar and redirection
fail() { wrong="$wrong $1"; }
refused() { # NAME PATTERN COMMAND…
  name=$1 pattern=$2
  shift 2
  if out=$("$@" 2>&1 </dev/null); then fail "ESCAPED($name:$out)"; return; fi
  printf '%s' "$out" | grep -Eqi "$pattern" || fail "$name($out)"
}
for path in @secret@ /proc/1/root@secret@ /proc/self/root@secret@ /oldroot@secret@ /etc/shadow /etc/sudoers /root/.bash_history /run/gloveport.uids; do
  refused "cat:$path" "No such|Permission denied" cat $path
  refused "cp:$path" "No such|Permission denied|cannot" cp $path /tmp/stolen
done
ln -s @secret@ /tmp/link
refused link "No such" cat /tmp/link
ln -s /proc/1/root /tmp/root
refused root "No such|Permission denied" cat /tmp/root@secret@
refused hard "No such|cross-device|Read-only|not permitted|denied" ln /opt/gloveport/init.py /tmp/hard
grep -rl "canary-[0-9a-f]\{32\}" /etc /run /tmp /dev/shm /opt/gloveport /proc/self/environ /proc/1/environ 2>/dev/null | grep -q . && fail "ESCAPED(secret-found)"
printf '%s' "${wrong:-blocked}" | python3 -I -c 'import json, sys; print(json.dumps(sys.stdin.read()))'
