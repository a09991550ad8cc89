# takes: what /proc has to compute: maps, smaps, stat, locks and net of every process of the sandbox, again and again
# needs: cgroups
def work(index):
    area = [mmap.mmap(-1, 4096, prot=1 + number % 2) for number in range(200)]
    while True:
        for pid in [name for name in os.listdir("/proc") if name.isdigit()][index::8]:
            for name in ("smaps", "maps", "stat", "status", "mountinfo", "net/tcp", "net/dev", "cgroup", "wchan", "pagemap"):
                try:
                    with open(f"/proc/{pid}/{name}", "rb") as file:
                        file.read(1 << 16)
                except OSError:
                    pass
        for name in ("locks", "stat", "meminfo", "interrupts", "softirqs", "vmstat", "zoneinfo", "buddyinfo", "diskstats",
                     "slabinfo", "vmallocinfo", "kallsyms", "filesystems", "sys/kernel/pty/nr", "sys/net/ipv4/tcp_mem"):
            try:
                with open(f"/proc/{name}", "rb") as file:
                    file.read(1 << 16)
            except OSError:
                pass
        yield


swarm(work)
