# expect: value "blocked"
# proves: E9
# tries: nested namespaces by the host's own programs: unshare, bwrap in bwrap, nsenter, setpriv, chroot
fail() { wrong="$wrong $1"; }
refused() { # NAME PATTERN COMMAND…
  name=$1 pattern=$2
  shift 2
  if out=$("$@" 2>&1 </dev/null); then fail "ESCAPED($name:$out)"; return; fi
  printf '%s' "$out" | grep -Eqi "$pattern" || fail "$name($out)"
}
refused unshare "Operation not permitted" unshare -Ur id
refused unshare-mount "Operation not permitted" unshare -m true
refused unshare-net "Operation not permitted" unshare -rn true
refused unshare-pid "Operation not permitted" unshare -rpf --mount-proc true
refused nsenter "Operation not permitted|Permission denied|cannot open" nsenter -t 1 -m -u -i -n -p id
command -v bwrap >/dev/null && refused bwrap "permissions|not permitted|No space|denied" bwrap --ro-bind / / --unshare-all true
refused setpriv "not permitted|failed" setpriv --reuid 0 id
refused chroot "Operation not permitted|not found|No such" /usr/bin/env chroot / true
printf '%s' "${wrong:-blocked}" | python3 -I -c 'import json, sys; print(json.dumps(sys.stdin.read()))'
