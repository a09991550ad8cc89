# expect: timeout
# proves: E4, E5
# limits: wall_seconds=1
# tries: stop the first process, so that nobody reports the end
kill -STOP $PPID
exit 0
