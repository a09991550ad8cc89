# expect: value "blocked"
# proves: E9, T4
# tries: find a variable of the server's environment, a bash start-up file, an exported function, a changed loader
fail() { wrong="$wrong $1"; }
refused() { # NAME PATTERN COMMAND…
  name=$1 pattern=$2
  shift 2
  if out=$("$@" 2>&1 </dev/null); then fail "ESCAPED($name:$out)"; return; fi
  printf '%s' "$out" | grep -Eqi "$pattern" || fail "$name($out)"
}
for name in $(env | cut -d= -f1); do
  case $name in
    HOME | LANG | LOGNAME | NO_COLOR | PATH | PWD | SHELL | SHLVL | TERM | TMPDIR | USER | OLDPWD | _) ;;
    MALLOC_ARENA_MAX | MPLBACKEND | MPLCONFIGDIR | MPL_IGNORE_SYSTEM_FONTS | OPENBLAS_NUM_THREADS | PYTHONPATH) ;;
    *) fail "ESCAPED($name)" ;;
  esac
done
[ -z "$BASH_ENV$ENV$LD_PRELOAD$LD_LIBRARY_PATH" ] || fail loader
[ "${PYTHONPATH:-/opt/data}" = /opt/data ] || fail "PYTHONPATH($PYTHONPATH)"
[ "$(umask)" = 0022 ] || fail "umask($(umask))"
[ -r /proc/1/environ ] && cat /proc/1/environ >/dev/null 2>&1 && fail "ESCAPED(environ of 1)"
[ "$(id -u):$(id -g):$(hostname 2>/dev/null || cat /proc/sys/kernel/hostname)" = 1000:1000:gloveport ] || fail "identity"
printf '%s' "${wrong:-blocked}" | python3 -I -c 'import json, sys; print(json.dumps(sys.stdin.read()))'
