# takes: the host's memory: the most commands that there may be, each with all the memory that one may have
# tool: exec_command
# runs: 16
# seconds: 16
# needs: cgroups
def work(index):
    area = mmap.mmap(-1, 1 << 28)
    for place in range(0, scaled(1 << 28), 1 << 20):
        with open("/proc/meminfo") as file:
            memory = {line.split(":")[0]: int(line.split()[1]) for line in file}
        if memory["MemAvailable"] < memory["MemTotal"] // 25:  # the siege has seen it by now, and is to live
            return
        area[place:place + (1 << 20)] = b"x" * (1 << 20)
        yield


swarm(work, 7)
