# expect: value null or timeout
# proves: E4, E5
# limits: wall_seconds=1
# tries: stop the parent, so that nobody reports the end: the init does not stop, and where it is not the init it is nobody
kill -STOP $PPID
exit 0
