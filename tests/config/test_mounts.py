"""Which host paths may be shown in a sandbox, and where."""

import os
import pwd
import socket
from pathlib import Path

import pytest
from tests.cases import for_each

from gloveport.config.checks.mounts import home_directories, mount_faults
from gloveport.model import Mount


def problems(*mounts, own=()):
    return [
        (fault.keys[0][2:], fault.problem)
        for fault in mount_faults({n: (m.source, m.target) for n, m in enumerate(mounts)}, own=own)
    ]


def source_problem(source, own=()):
    ((key, problem),) = problems(Mount(source=str(source), target="/data"), own=own)
    assert key == (0, "source")
    return problem


def target_problem(target):
    ((key, problem),) = problems(Mount(source="/usr/share", target=target))
    assert key == (0, "target")
    return problem


def test_a_directory_and_a_file_may_be_shown(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "directory").mkdir()
    assert (
        problems(
            Mount(source=str(tmp_path / "file"), target="/data/file"),
            Mount(source=str(tmp_path / "directory"), target="/data/directory"),
            Mount(source=str(tmp_path / "directory"), target="/srv/..odd name"),
        )
        == []
    )


@for_each(
    "target",
    [
        *("/proc", "/sys/fs", "/dev/shm", "/tmp", "/tmp/x", "/run/x", "/etc", "/etc/ssl", "/usr/local/x"),
        *("/bin", "/bin/x", "/lib", "/lib64", "/lib32/x", "/libx32", "/sbin"),
        *("/opt/gloveport", "/opt/gloveport/x", "/opt/data", "/opt/data/x", "/opt"),
    ],
)
def test_a_target_that_overlaps_the_system_of_a_sandbox_is_refused(target):
    """CVE-2026-87766: no mount point beneath what a program may write; and none that hides what it runs on."""
    assert "which overlaps /" in target_problem(target)


@for_each("target", ["/library", "/etcetera", "/opt/gloveporter", "/home/x", "/data"])
def test_a_target_that_only_begins_alike_is_fine(target):
    assert problems(Mount(source="/usr/share", target=target)) == []


@for_each("target", ["//", "//data", "/a/../etc", "/a/..", "/a//b", "/a/", "/./a", "/a\nb", "/a\x7f"])
def test_a_target_has_one_spelling(target):
    assert "expected an absolute path in its one spelling" in target_problem(target)


@pytest.mark.parametrize("other", ["/data", "/data/below", "/data/below/deep"])
def test_targets_lie_side_by_side(other):
    """CVE-2026-87766: a link planted in one mount would choose where the next is made, on the host."""
    one, two = Mount(source="/usr/share", target="/data"), Mount(source="/usr/share", target=other)
    for mounts in ((one, two), (two, one)):
        ((key, problem),) = problems(*mounts)
        assert key == (1, "target")
        assert "overlaps that of policy.mounts[0]" in problem


@for_each("source", ["/", "//", "/usr/../root", "/usr/share/", "/usr//share", "/usr/./share", "/usr\n"])
def test_a_source_has_one_spelling(source):
    assert "expected an absolute path in its one spelling" in source_problem(source)


@for_each(
    "source",
    ["/proc", "/proc/1/root", "/proc/self/cwd", "/sys", "/sys/kernel", "/dev", "/dev/shm", "/run", "/run/user"],
)
def test_a_source_where_the_kernel_or_services_answer_is_refused(source):
    assert "where the kernel or services answer" in source_problem(source)


@for_each("source", ["/etc", "/root", "/home", "/var", "/var/lib", "/tmp", "/var/tmp"])
def test_a_source_that_holds_something_of_everybodys_is_refused(source):
    assert "expected a directory of one purpose" in source_problem(source)


def test_a_whole_home_directory_is_refused():
    homes = home_directories()
    assert Path(pwd.getpwuid(0).pw_dir).resolve() in homes
    for home in homes:
        assert source_problem(home).startswith("expected")
    assert "expected less than a home directory" in source_problem("/home/of-a-directory-service")


@for_each("home", ["/root", "/home/somebody"])
@for_each("name", [".ssh", ".ssh/id_ed25519", ".aws", ".config/gcloud", ".netrc", ".gnupg"])
def test_credentials_in_a_home_directory_are_refused(home, name):
    """T4: no secret inside."""
    assert "expected no place of credentials" in source_problem(f"{home}/{name}")


def test_a_source_that_does_not_exist_is_refused(tmp_path):
    assert "(No such file or directory)" in source_problem(tmp_path / "gone")


def test_a_source_through_a_symbolic_link_is_refused_wherever_it_leads(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real/home").symlink_to("/")
    assert "without symbolic links" in source_problem(tmp_path / "link")
    assert "without symbolic links" in source_problem(tmp_path / "real/home/etc")
    ((fault),) = mount_faults({0: (str(tmp_path / "link"), "/data")}, own=())
    assert fault.hint == f"write what it leads to: {tmp_path.resolve()}/real"


def test_a_loop_of_links_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "loop" in source_problem(tmp_path / "loop")


def test_sockets_devices_and_fifos_are_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    assert "expected a directory or a regular file" in source_problem(tmp_path / "fifo")
    monkeypatch.chdir(tmp_path)  # the path of a socket has at most 107 bytes
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        assert "expected a directory or a regular file" in source_problem(tmp_path / "socket")


@pytest.mark.parametrize("source", ["state", "state/audit", ""])
def test_gloveports_own_directories_are_never_shown(tmp_path, source):
    """A program must not read the audit log, nor whatever else is kept."""
    (tmp_path / "state/audit").mkdir(parents=True)
    own = (tmp_path / "state",)
    assert "expected nothing of Gloveport's own" in source_problem(tmp_path / source, own=own)


def test_an_own_directory_that_is_reached_by_a_link_is_not_shown_either(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "real")
    assert "expected nothing of Gloveport's own" in source_problem(tmp_path / "real", own=(Path(tmp_path / "state"),))
