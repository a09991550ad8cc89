# expect: value "blocked"
# proves: E5
# tries: leave processes behind: nohup, setsid, disown, a coprocess, a trap on exit
trap 'sleep 1000 & disown' EXIT
nohup sleep 1000 >/dev/null 2>&1 &
setsid sleep 1000 </dev/null >/dev/null 2>&1 &
(setsid nohup sh -c 'trap "" TERM HUP INT; while :; do sleep 1000; done' &) >/dev/null 2>&1
coproc sleep 1000
disown -a
echo '"blocked"'
exec 1>&-
