# takes: whatever it finds: a random mixture of all system calls that the filter allows, with their arguments
# seconds: 24
# needs: cgroups
# What an argument is, by letter: f descriptor, p path, b buffer, n size, s address, v vector, t times, i a number, . any.
# A call that has no line here gets six of any kind.
SHAPES = dict(line.split() for line in """
read fbn|write fbn|readv fvi|writev fvi|pread64 fbni|pwrite64 fbni|preadv fvii|pwritev fvii|preadv2 fviiii|pwritev2 fviiii
lseek fii|sendfile ffbn|splice fbfbni|tee ffni|copy_file_range fbfbni|pipe b|pipe2 bi|dup f|dup2 ff|dup3 ffi|close f
close_range ffi|flock fi|fsync f|fdatasync f|sync_file_range fnni|fadvise64 fnni|readahead fnn|fallocate finn|truncate pn
ftruncate fn|access pi|faccessat fpi|faccessat2 fpii|stat pb|fstat fb|lstat pb|newfstatat fpbi|statx fpiib|statfs pb
fstatfs fb|getdents fbn|getdents64 fbn|readlink pbn|readlinkat fpbn|getcwd bn|getxattr ppbn|fgetxattr fpbn|listxattr pbn
rename pp|renameat fpfp|renameat2 fpfpi|mkdir pi|mkdirat fpi|rmdir p|link pp|linkat fpfpi|unlink p|unlinkat fpi|symlink pp
symlinkat pfp|chown pii|fchown fii|fchownat fpiii|utimensat fpti|utimes pt|chdir p|fchdir f|setxattr ppbni|fsetxattr fpbni
removexattr pp|fremovexattr fp|mprotect bni|munmap bn|mremap bnni.|msync bni|mincore bnb|madvise bni|mlock bn|mlock2 bni
munlock bn|mlockall i|membarrier iii|memfd_create pi|mmap .niifi|open pii|openat fpii|creat pi|mknod pii|mknodat fpii
chmod pi|fchmod fi|fchmodat fpi|fchmodat2 fpii|fcntl fi.|ioctl fi.|socket iii|socketpair iiib|connect fsn|bind fsn
listen fi|accept fbb|accept4 fbbi|shutdown fi|getsockname fbb|getpeername fbb|getsockopt fiibb|setsockopt fiibn
sendto fbnisn|recvfrom fbnibb|sendmsg fbi|recvmsg fbi|sendmmsg fbni|recvmmsg fbnit|poll bnt|ppoll bntbn|select nbbbt
epoll_create i|epoll_create1 i|epoll_ctl fifb|epoll_wait fbni|epoll_pwait fbnibn|eventfd i|eventfd2 ii|signalfd4 fbni
timerfd_create ii|timerfd_settime fitb|timerfd_gettime fb|timer_create ibb|timer_settime iitb|setitimer itb|nanosleep tb
clock_nanosleep iitb|futex biitbi|futex_waitv bniti|prctl iiiii|arch_prctl ib|sched_setaffinity inb|sched_setscheduler iib
sched_setattr ibi|setpriority iii|prlimit64 iibb|seccomp iib|landlock_create_ruleset bni|landlock_add_rule fibi
landlock_restrict_self fi|getrandom bni|execve pvv|execveat fpvvi|rt_sigaction ibbn|rt_sigprocmask ibbn|sigaltstack bb
pidfd_open ii|pidfd_send_signal fibi|wait4 ibib|waitid iibib|clone ibbbb|personality i|pkey_mprotect bnii|capset bb
""".replace("|", "\n").split("\n") if line)
NAMES = sorted(set(NUMBERS) - {"exit", "exit_group", "pause", "rt_sigreturn"})
PATHS = [b"/tmp", b"/tmp/a", b"/tmp/b", b"/tmp/d/e", b".", b"..", b"/", b"/usr/lib", b"/usr/bin/env", b"/bin/true", b"/dev/null",
         b"/dev/shm/x", b"/dev/ptmx", b"/proc/self/fd/3", b"/proc/self/mem", b"/proc/self/maps", b"/proc/sys/kernel/pid_max",
         b"/proc/1/status", b"user.x", b"x" * 255, b"/tmp/" + b"y/" * 2000]
NUMBERS_POOL = [0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 41, 64, 127, 255, 511, 4095, 4096, 65535, 1 << 20, (1 << 31) - 1, 1 << 31,
                (1 << 32) - 1, -1, -100, -(1 << 31), 1 << 32, (1 << 63) - 1, 1031, 1024, 1026, 0x5401, 0x5413, 0x541B, 0x80000]
SIZES = [0, 1, 4, 8, 12, 16, 24, 28, 64, 128, 4096, 4097, 65536, 1 << 20, (1 << 31) - 1, -1]


class Mixture:
    """Random calls of one process."""

    def __init__(self, seed):
        self.choose = random.Random(seed)
        self.area = mmap.mmap(-1, 1 << 20)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.area))
        self.paths = [ctypes.create_string_buffer(path) for path in PATHS]
        self.files = [*range(3, 40), 0, -1, -100]
        for make in (lambda: os.open("/tmp/a", os.O_RDWR | os.O_CREAT), lambda: os.open("/tmp", os.O_RDONLY), os.pipe,
                     lambda: os.eventfd(0), lambda: os.memfd_create("x"), lambda: os.open("/usr/bin/env", os.O_RDONLY),
                     lambda: socket.socket().detach(), lambda: socket.socket(2, 2).detach(), lambda: os.openpty(),
                     lambda: socket.socket(10, 2).detach(), lambda: libc.epoll_create1(0), lambda: libc.timerfd_create(1, 0),
                     lambda: os.pidfd_open(os.getpid()), lambda: [end.detach() for end in socket.socketpair()]):
            try:
                make()
            except OSError:
                pass

    def buffer(self):
        """Somewhere in memory, with something in it: pointers to more, small numbers, or anything."""
        place = self.choose.randrange(0, 1 << 20, 512)
        kind = self.choose.randrange(5)
        if kind == 0:
            content = struct.pack("8Q", *(self.start + self.choose.randrange(1 << 19) if part % 2 == 0 else
                                          self.choose.choice((1, 8, 4096)) for part in range(8)))
        elif kind == 1:
            content = struct.pack("16I", *(self.choose.choice((0, 1, 2, 4, 8, 40)) for _ in range(16)))
        elif kind == 2:
            content = self.choose.randbytes(64)
        elif kind == 3:
            content = struct.pack("iiQiiQ", *[self.choose.choice(self.files), 1, 1] * 2)
        else:
            content = bytes(64)
        self.area[place:place + 64] = content
        return self.start + place

    def argument(self, letter, pool):
        choose = self.choose
        if pool and choose.random() < 0.3:  # what the filter looks for, and what is next to it
            return choose.choice(pool) ^ choose.choice((0, 0, 0, 1, 1 << 32))
        if letter == "." or choose.random() < 0.05:
            letter = choose.choice("fpbnsvti")
        if letter == "f":
            return choose.choice(self.files)
        if letter == "p":
            return ctypes.addressof(choose.choice(self.paths))
        if letter == "n":
            return choose.choice(SIZES)
        if letter == "i":
            return choose.choice(NUMBERS_POOL) if choose.random() < 0.5 else 1 << choose.randrange(64) | choose.randrange(64)
        place = self.buffer()
        offset = place - self.start
        if letter == "s":
            self.area[offset:offset + 16] = choose.choice((
                struct.pack("=HH4s8x", 2, socket.htons(3128), bytes([127, 0, 0, choose.randrange(4)])),
                struct.pack("=HHI8s", 10, socket.htons(choose.randrange(65536)), 0, bytes(8)),
                struct.pack("=H14s", 1, b"/tmp/socket"), choose.randbytes(16)))
        elif letter == "t":
            self.area[offset:offset + 32] = struct.pack("4q", 0, choose.choice((0, 1, 1000, 1_000_000)), 0, 1000)
        elif letter == "v":
            self.area[offset:offset + 32] = struct.pack("4Q", self.start, 4096, self.start + 8192, 64)
        return choose.choice((place, place, place, place, 0, 1, place + 507))

    def go_on(self, times):
        for _ in range(times):
            name = self.choose.choice(NAMES)
            pools = POOLS.get(name, {})
            arguments = [self.argument(letter, pools.get(place)) for place, letter in enumerate(SHAPES.get(name, "......"))]
            if name in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
                arguments[0] = os.getpid()  # else most end the whole run
            answer = libc.syscall(NUMBERS[name], *map(ctypes.c_long, arguments))
            if answer == 0 and name in ("fork", "vfork", "clone"):
                libc.syscall(231, 0)


def work(index):
    number = 0
    while True:
        number += 1
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                Mixture(f"{SEED} {index} {number}").go_on(500)
            finally:
                os._exit(0)
        until = time.monotonic() + 0.5
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)
        yield


swarm(work, 16)
