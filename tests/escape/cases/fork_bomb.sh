# expect: killed memory_bytes or timeout or error exit or error signal
# proves: E4
# limits: wall_seconds=1 processes=32
# tries: a fork bomb
bomb() { bomb | bomb & }
bomb
sleep 10
