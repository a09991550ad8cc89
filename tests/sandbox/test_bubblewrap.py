"""Plans and command lines are pure, so the whole of them is asserted."""

import socket

import pytest

from gloveport.errors import SandboxError
from gloveport.model import Grant, Limits, Mount, Program, Symlink
from gloveport.sandbox.launch import bubblewrap
from gloveport.sandbox.plan import Network, System, TextFile, make_plan, same_walls

SYSTEM = System(
    binds=(Mount(source="/usr/lib", target="/usr/lib"), Mount(source="/x/guest", target="/opt/gloveport")),
    symlinks=(Symlink(path="/lib", target="usr/lib"),),
    masked=("/proc/keys",),
    python="/usr/bin/python3",
    most_by_rlimit={"RLIMIT_NOFILE": 512},
    counts_memory=True,
)
SHELL = Program(
    name="/program.sh", argv=("/usr/bin/bash",), symlinks=(Symlink(path="/program.sh", target="/proc/self/fd/3"),)
)
GRANT = Grant(languages=frozenset({"shell"}), mounts=(Mount(source="/srv/data", target="/data"),))


def test_the_whole_command_line_is_as_expected():
    """E9: every namespace, no capability, no nested user namespace, sized and read-only file systems, filter."""
    plan = make_plan(SHELL, GRANT, SYSTEM)
    descriptors = bubblewrap.Descriptors(seccomp=11, info=12, control=13, files=(21, 22, 23, 24))
    line = bubblewrap.arguments(plan, descriptors, {"/srv/data": "/run/3"})
    assert line == [
        *["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"],
        *["--unshare-cgroup", "--die-with-parent", "--new-session", "--disable-userns", "--assert-userns-disabled"],
        *["--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--hostname", "gloveport", "--clearenv"],
        *["--setenv", "HOME", "/tmp", "--setenv", "LANG", "C.UTF-8", "--setenv", "LOGNAME", "agent"],
        *["--setenv", "NO_COLOR", "1", "--setenv", "PATH", "/usr/bin:/usr/local/bin:/bin:/opt/gloveport/shell"],
        *["--setenv", "SHELL", "/bin/bash", "--setenv", "TERM", "dumb", "--setenv", "TMPDIR", "/tmp"],
        *["--setenv", "USER", "agent"],
        *["--perms", "0444", "--file", "21", "/etc/passwd", "--perms", "0444", "--file", "22", "/etc/group"],
        *["--perms", "0444", "--file", "23", "/etc/hosts", "--perms", "0444", "--file", "24", "/etc/nsswitch.conf"],
        *["--ro-bind", "/usr/lib", "/usr/lib", "--ro-bind", "/x/guest", "/opt/gloveport"],
        *["--ro-bind", "/run/3", "/data"],
        *["--symlink", "usr/lib", "/lib", "--symlink", "/proc/self/fd/3", "/program.sh"],
        *["--symlink", "/out", "/mnt/data", "--symlink", "/out", "/mnt/user-data/outputs"],
        *["--proc", "/proc"],
        *["--dev", "/dev"],
        *["--perms", "0700", "--size", str(64 << 20), "--tmpfs", "/dev/shm"],
        *["--perms", "0700", "--size", str(64 << 20), "--tmpfs", "/tmp"],
        *["--perms", "0700", "--size", str(32 << 20), "--tmpfs", "/out"],
        *["--perms", "0700", "--size", str(8 << 20), "--tmpfs", "/run/gloveport"],
        *["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"],
        *["--add-seccomp-fd", "11", "--info-fd", "12"],
    ]
    assert plan.interpreter == ("/usr/bin/python3", "-I", "-B", "-S")
    of_python = SHELL.model_copy(update={"argv": (), "preload": ("json",)})
    assert make_plan(of_python, GRANT, SYSTEM).interpreter == ("/usr/bin/python3", "-I", "-B")
    uncounted = make_plan(SHELL, GRANT, SYSTEM.model_copy(update={"counts_memory": False}))
    assert [one.size for one in uncounted.tmpfs if one.path == "/dev/shm"] == [16 << 20]


def test_a_fork_server_has_three_capabilities_and_the_same_files():
    """E9: what its command line lacks of a sandbox's is what each child does to itself; see test_zygote."""
    plan = make_plan(SHELL, GRANT, SYSTEM)
    descriptors = bubblewrap.Descriptors(seccomp=11, info=12, control=13, files=(21, 22, 23, 24))
    cold = bubblewrap.arguments(plan, descriptors, {})
    zygote = bubblewrap.arguments_of_zygote(plan, descriptors, {})
    start = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup"]
    start += ["--die-with-parent", "--new-session"]
    assert cold[: len(start)] == zygote[: len(start)] == start
    files = cold[cold.index("--hostname") : cold.index("--add-seccomp-fd")]
    assert zygote[len(start) :] == [
        *["--cap-drop", "ALL", "--uid", "0", "--gid", "0"],
        *["--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_NET_ADMIN", "--cap-add", "CAP_SETFCAP"],
        *files,
        *["--info-fd", "12"],
    ]


NETWORK = Network(
    hosts={"one.test": "127.0.1.1", "localhost": "127.0.1.2", "a.localhost": "127.0.1.3", "gloveport": "127.0.1.4"},
    doors=(("127.0.0.2", 3128), ("0.0.0.0", 443)),
    env={"HTTPS_PROXY": "http://127.0.0.2:3128"},
    files=(TextFile(path="/etc/gloveport/ca.pem", text="certificate"),),
    placeholders=("ONE_KEY",),
)


def test_no_network_is_the_plan_without_one():
    """N1: not an option, not a file, not a capability more."""
    assert make_plan(SHELL, GRANT, SYSTEM, Network()) == make_plan(SHELL, GRANT, SYSTEM)


def test_a_network_is_a_few_files_and_variables_and_a_capability_of_the_fork_servers():
    """N1: a program gets nothing by which it could listen or reach further."""
    plan, plain = make_plan(SHELL, GRANT, SYSTEM, NETWORK), make_plan(SHELL, GRANT, SYSTEM)
    fewer = bubblewrap.Descriptors(seccomp=11, info=12, control=13, files=(21, 22, 23, 24))
    more = fewer._replace(files=(21, 22, 23, 24, 25))

    def completed(line):
        variable, file = line.index("LANG") - 1, line.index("/etc/nsswitch.conf") + 1
        return [
            *line[:variable],
            *["--setenv", "HTTPS_PROXY", "http://127.0.0.2:3128"],
            *line[variable:file],
            *["--perms", "0444", "--file", "25", "/etc/gloveport/ca.pem"],
            *line[file:],
        ]

    assert bubblewrap.arguments(plan, more, {}) == completed(bubblewrap.arguments(plain, fewer, {}))
    zygote = bubblewrap.arguments_of_zygote(plan, more, {})
    at = zygote.index("CAP_NET_BIND_SERVICE") - 1
    assert zygote[at] == "--cap-add"
    assert zygote[:at] + zygote[at + 2 :] == completed(bubblewrap.arguments_of_zygote(plain, fewer, {}))
    (hosts,) = (file.text for file in plan.files if file.path == "/etc/hosts")
    assert hosts == "127.0.0.1 localhost gloveport\n::1 localhost\n127.0.1.1 one.test\n"


@pytest.mark.parametrize("change", [{"doors": ()}, {"placeholders": ()}, {"env": {}}, {"hosts": {}}, {"files": ()}])
def test_a_waiting_sandbox_of_another_network_does_not_fit(change):
    """N1."""
    other = NETWORK.model_copy(update=change)
    assert not same_walls(make_plan(SHELL, GRANT, SYSTEM, NETWORK), make_plan(SHELL, GRANT, SYSTEM, other))


@pytest.mark.parametrize("name", ["a\n127.0.0.1 b", "a b", "a#", ""])
def test_a_name_adds_one_line_to_the_hosts_and_no_more(name):
    with pytest.raises(ValueError, match=r"(?s)hosts\..*: name"):
        Network(hosts={name: "127.0.1.1"})


def test_landlock_grants_no_more_than_the_plan_shows():
    """E9: the second wall names every path by itself, and only the private file systems can be written."""
    plan = make_plan(SHELL, GRANT, SYSTEM)
    assert plan.landlock == (
        ("/usr/lib", "run"),
        ("/opt/gloveport", "run"),
        ("/data", "read"),
        ("/etc", "read"),
        ("/proc", "read"),
        ("/dev", "device"),
        ("/dev/shm", "write"),
        ("/tmp", "write"),
        ("/out", "write"),
        ("/run/gloveport", "write"),
    )


def test_unix_sockets_are_in_the_filter_only_when_the_operator_opens_them():
    """T5: the knob ``unix_sockets``."""
    assert make_plan(SHELL, Grant(), SYSTEM).families == {socket.AF_INET, socket.AF_INET6}
    opened = make_plan(SHELL, Grant(unix_sockets=True), SYSTEM).families
    assert opened == {socket.AF_INET, socket.AF_INET6, socket.AF_UNIX}


@pytest.mark.parametrize(
    "target", ["/tmp/x", "/dev/shm/x", "/dev", "/proc/x", "/run/gloveport/x", "/usr/lib/x", "/usr", "/opt/gloveport/x"]
)
def test_no_mount_lies_beneath_or_above_another(target):
    """E9, CVE-2026-87766: bubblewrap would create the mount point through a link planted there."""
    grant = Grant(mounts=(Mount(source="/srv/data", target=target),))
    with pytest.raises(SandboxError, match="collides"):
        make_plan(SHELL, grant, SYSTEM)


def test_two_mounts_of_the_operator_do_not_nest():
    grant = Grant(mounts=(Mount(source="/a", target="/data"), Mount(source="/b", target="/data/inner")))
    with pytest.raises(SandboxError, match="/data/inner collides with /data"):
        make_plan(SHELL, grant, SYSTEM)


def test_limits_of_each_process_follow_the_grant():
    limits = Limits(processes=8, open_files=40, file_bytes=1 << 20, cpu_seconds=1.2, memory_bytes=1 << 27)
    plan = make_plan(SHELL, Grant(limits=limits), SYSTEM)
    assert plan.rlimits == {
        "RLIMIT_NPROC": (8 + 16, 8 + 16),
        "RLIMIT_NOFILE": (40, 40),
        "RLIMIT_FSIZE": (1 << 20, 1 << 20),
        "RLIMIT_SIGPENDING": (1024, 1024),
        "RLIMIT_CPU": (2, 3),
        "RLIMIT_MEMLOCK": (65536, 65536),
        "RLIMIT_MSGQUEUE": (0, 0),
        "RLIMIT_NICE": (0, 0),
        "RLIMIT_RTPRIO": (0, 0),
    }


def test_no_program_has_more_descriptors_than_this_host_can_give():
    """E4: see ``under_few_descriptors.py``."""
    assert make_plan(SHELL, Grant(limits=Limits(open_files=4096)), SYSTEM).rlimits["RLIMIT_NOFILE"] == (512, 512)


def test_no_limit_is_above_what_this_process_may_set():
    """E4: a hard limit of the server's (``limits.conf``, a unit) is below what the configuration says."""
    most = {"RLIMIT_NPROC": 30, "RLIMIT_FSIZE": 4096, "RLIMIT_CPU": 2, "RLIMIT_MEMLOCK": 0, "RLIMIT_SIGPENDING": 4096}
    rlimits = make_plan(SHELL, GRANT, SYSTEM.model_copy(update={"most_by_rlimit": most})).rlimits
    assert {name: rlimits[name] for name in most} == {
        "RLIMIT_NPROC": (30, 30),
        "RLIMIT_FSIZE": (4096, 4096),
        "RLIMIT_CPU": (2, 2),
        "RLIMIT_MEMLOCK": (0, 0),
        "RLIMIT_SIGPENDING": (1024, 1024),
    }


def test_without_cgroups_memory_is_limited_process_by_process():
    system = SYSTEM.model_copy(update={"counts_memory": False})
    limits = Limits(memory_bytes=1 << 27)
    plan = make_plan(SHELL, Grant(limits=limits), system)
    assert plan.rlimits["RLIMIT_AS"] == (1 << 27, 1 << 27)
    assert plan.env["MALLOC_ARENA_MAX"] == "2"
    engine = Program(name="x", argv=("/x",), reserved_bytes=1 << 20)
    rlimits = make_plan(engine, Grant(limits=limits), system).rlimits
    assert "RLIMIT_AS" not in rlimits
    assert rlimits["RLIMIT_DATA"] == ((1 << 27) + (1 << 20),) * 2
