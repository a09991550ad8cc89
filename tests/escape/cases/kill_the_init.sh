# expect: error exit or error signal or timeout
# proves: E5, E2
# limits: wall_seconds=1
# tries: kill or stop every other process from the shell, the init first
for pid in $(cd /proc && ls -d [0-9]*); do
  [ $pid != $$ ] && kill -9 $pid 2>/dev/null
done
sleep 100
