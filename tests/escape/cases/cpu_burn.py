# expect: killed cpu_seconds or error signal
# without-cgroups: killed cpu_seconds or error signal
# proves: E4
# limits: cpu_seconds=1 wall_seconds=60
# tries: use more processor time than granted
while True:
    pass
