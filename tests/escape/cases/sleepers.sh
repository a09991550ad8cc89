# expect: timeout or error exit or value null
# proves: E4, E5
# limits: wall_seconds=1 processes=32
# tries: fill the process table with sleepers and wait
for n in $(seq 100); do sleep 1000 & done 2>/dev/null
wait
