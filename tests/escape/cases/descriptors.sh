# expect: value "blocked"
# proves: E9
# tries: use descriptors beyond the standard three; the third is the program itself, sealed
fail() { wrong="$wrong $1"; }
refused() { # NAME PATTERN COMMAND…
  name=$1 pattern=$2
  shift 2
  if out=$("$@" 2>&1 </dev/null); then fail "ESCAPED($name:$out)"; return; fi
  printf '%s' "$out" | grep -Eqi "$pattern" || fail "$name($out)"
}
for path in /proc/$$/fd/*; do
  readlink $path > /tmp/target 2>/dev/null || continue
  read -r target < /tmp/target
  fd=${path##*/}
  case $fd:$target in
    0:/dev/null | 1:pipe:* | 2:pipe:* | 3:/memfd:program* | 255:/memfd:program* | 255:*) ;;
    *) fail "ESCAPED($fd:$target)" ;;
  esac
done
refused rewrite "not permitted|denied|Text file|Invalid|failed" bash -c 'echo "echo ESCAPED" > /proc/'$$'/fd/3'
readlink /proc/$$/fd/255 | grep -q memfd:program || fail "no-evidence"
printf '%s' "${wrong:-blocked}" | python3 -I -c 'import json, sys; print(json.dumps(sys.stdin.read()))'
