# expect: value "blocked"
# proves: E9
# tries: mount and umount by the host's own setuid programs, and by fuse
fail() { wrong="$wrong $1"; }
refused() { # NAME PATTERN COMMAND…
  name=$1 pattern=$2
  shift 2
  if out=$("$@" 2>&1 </dev/null); then fail "ESCAPED($name:$out)"; return; fi
  printf '%s' "$out" | grep -Eqi "$pattern" || fail "$name($out)"
}
refused tmpfs "permission|only root|denied|superuser|not permitted" mount -t tmpfs tmpfs /tmp
refused remount "permission|only root|denied|superuser|not permitted|find" mount -o remount,rw /
refused bind "permission|only root|denied|superuser|not permitted" mount --bind / /tmp
refused proc "permission|only root|denied|superuser|not permitted" mount -t proc proc /tmp
refused umount "not mounted|permission|only root|denied|not permitted|superuser|No such file" umount /proc/sys
refused overlay "permission|only root|denied|superuser|not permitted" mount -t overlay -o lowerdir=/usr overlay /tmp
grep " /proc/sys" /proc/self/mountinfo | grep -qv " /sys /proc/sys ro," && fail "something-of-the-host-is-mounted-below-proc-sys"
printf '%s' "${wrong:-blocked}" | python3 -I -c 'import json, sys; print(json.dumps(sys.stdin.read()))'
