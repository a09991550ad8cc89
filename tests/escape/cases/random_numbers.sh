# expect: fresh
# proves: E9
# runs: 3
# tries: guess what another shell's random numbers are
printf '{"random": "%s %s", "srandom": "%s", "uuid": "%s", "file": "%s"}' $RANDOM $RANDOM $SRANDOM "$(cat /proc/sys/kernel/random/uuid)" "$(mktemp)"
