"""First process of a sandbox built for one program: enforces Landlock, confirms it, runs the program, and reports.

    init → host   a byte               as soon as this process runs
    host → init   {"landlock": [[path, kind]…], "mounts": [path…], "python": whether a Python program will come}, with
                                       descriptors of the cgroups that this process enters by itself, if any
    init → host   {"ready": …}         what is enforced, as the kernel says; carries our pid as credentials, and
                                       descriptors of the directories of ``DIRECTORIES``
    host → init   {"program": …}       with descriptors of stdout and stderr, and of the "inputs" of an interpreter
                                       that waits for its program, or of a session's direct channel; by now this
                                       process is in a cgroup
    init → host   a descriptor         if the interpreter reports: the reading end of its reports
    init → host   a descriptor         if the program has a terminal: the master side
    init → host   a descriptor         if the program is a person's: a pipe with a byte for each time that it is stopped
    init → host   {"report": …}        the outcome, if there is any; the host trusts none of it

A frame is four bytes of length, most significant first, and JSON. Up to the program's first line this code is trusted;
after it the process belongs to the program. Runs under the seccomp filter already, as uid 1000 of a user namespace
without capabilities. Standard library only. ``zygote.py`` shares the code for all that follows the confinement.
"""

import posix  # and not ``os``, which takes longer to import than all else here
import sys

if __name__ == "__main__":  # the host prepares our network meanwhile
    posix.write(int(sys.argv[1]), b"\0")

import _ctypes  # without the packages around these, for the same reason
import _json
import _signal
import _socket
import _struct
from _frozen_importlib_external import SourceFileLoader
from posix import _exit

F_ADD_SEALS, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE = 1033, 1, 2, 4, 8
HEAD_BYTES, MAX_FRAME_BYTES = 4, 16 << 20
ANCILLARY_BYTES = _socket.CMSG_SPACE(8 * 4)
CAPABILITY_LINES = [b"\nCap%s:\t%016x\n" % (kind, 0) for kind in (b"Inh", b"Prm", b"Eff", b"Bnd", b"Amb")]
IUTF8 = 0o40000  # of <asm-generic/termbits.h>
CHANNEL, MAX_DESCRIPTOR = 3, (1 << 31) - 1
HERE = __file__.rpartition("/")[0]
DIRECTORIES = ("/out", "/tmp", "/run/gloveport")  # where the host reads output files, and writes input files
ENVIRONMENT = "/opt/environment/python"  # an environment's packages, built for this interpreter
AS_OS = "utf-8", "surrogateescape"
TOOLS_DOOR = "GLOVEPORT_HUB"  # the environment variable with the address of the door to tools


class JsonOptions:
    """The options with which ``json.loads`` makes its parser."""

    strict, object_hook, object_pairs_hook = True, None, None
    parse_float, parse_int, parse_constant = float, int, float


parse_json = _json.make_scanner(JsonOptions)
encode_json = _json.make_encoder({}, None, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True)  # noqa: FBT003 - as ``json.dumps`` has it

loaded = {}
prepared = []


def import_rest():
    """Import the modules that are not needed before the program has come."""
    global fcntl, resource  # noqa: PLW0603 - where all of this file looks for them
    import fcntl
    import resource


def load(name, path):
    """Import a file of ours by its path: isolated mode keeps our directories off ``sys.path``, as it should."""
    module = loaded.get(name)
    if module is None:
        module = loaded[name] = type(sys)(name)
        loader = SourceFileLoader(name, f"{HERE}/{path}")
        module.__file__ = loader.path
        loader.exec_module(module)
    return module


def receive(host):
    """Receive one frame, and the descriptors that came with it. If the host is gone, end quietly.

    The host sends the next frame only after an answer, so no bytes of another can follow this one.
    """
    frame, size, descriptors = bytearray(), HEAD_BYTES, ()
    while len(frame) < size:
        data, ancillary, _, _ = host.recvmsg(1 << 16, ANCILLARY_BYTES, _socket.MSG_CMSG_CLOEXEC)
        if not data:
            _exit(0)
        frame += data
        for level, kind, payload in ancillary:
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                descriptors += _struct.unpack(f"{len(payload) // 4}i", payload[: len(payload) // 4 * 4])
        if size == HEAD_BYTES and len(frame) >= HEAD_BYTES:
            size += int.from_bytes(frame[:HEAD_BYTES], "big")
            if size > MAX_FRAME_BYTES:
                sys.exit(f"a frame of {size} bytes: the host sends none of more than {MAX_FRAME_BYTES}")
    message, _ = parse_json(frame[HEAD_BYTES:].decode("utf-8", "surrogatepass"), 0)
    return message, descriptors


def send(host, message):
    """Send one frame."""
    host.sendall(pack(message))


def pack(message):
    """The bytes of a frame."""
    body = "".join(encode_json(message, 0)).encode("ascii")
    return len(body).to_bytes(HEAD_BYTES, "big") + body


def send_descriptors(host, data, descriptors):
    """Send bytes, and descriptors with the first of them; how many bytes were taken."""
    rights = _struct.pack(f"{len(descriptors)}i", *descriptors)
    return host.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])


def send_ready(host, ready):
    """Say what is enforced, and give the host our directories: it can still use them when this process is dead."""
    directories = [posix.open(path, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC) for path in DIRECTORIES]
    frame = pack({"ready": ready})
    host.sendall(frame[send_descriptors(host, frame, directories) :])
    for directory in directories:
        posix.close(directory)


def open_channel(number):
    """Move the socket to the host to ``CHANNEL``, and close any descriptors that leaked in."""
    posix.dup2(number, CHANNEL)
    posix.set_inheritable(CHANNEL, False)  # noqa: FBT003 - dup2 onto itself leaves it as it is
    posix.closerange(CHANNEL + 1, MAX_DESCRIPTOR)
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, CHANNEL)


def identities(paths):
    """Device and inode of the file at each path."""
    return [[status.st_dev, status.st_ino] for status in map(posix.stat, paths)]


def perform(calls):
    """Make prepared calls: pairs of a function and its arguments. A result of -1 is a failure."""
    for call, arguments in calls:
        if call(*arguments) == -1:
            code = _ctypes.get_errno()
            raise OSError(code, f"{call.__name__}{arguments}: {posix.strerror(code)}")


def in_force(version):
    """What the kernel says is enforced on this process; of Landlock the ABI, since the kernel does not say."""
    status = posix.open("/proc/self/status", posix.O_RDONLY | posix.O_CLOEXEC)
    text = posix.read(status, 1 << 16)
    posix.close(status)
    return {
        "landlock": version,
        "seccomp": b"\nSeccomp:\t2\n" in text,
        "no_new_privs": b"\nNoNewPrivs:\t1\n" in text,
        "no_capabilities": all(line in text for line in CAPABILITY_LINES),
    }


def add_packages(*, environment=True):
    """Add PYTHONPATH, which isolated mode ignores, to ``sys.path``: last, so that it shadows nothing installed.

    An environment comes before the packages installed for all, since it may have another version of them. A fork server
    gets no environment: it has more rights than programs, so it imports nothing that others have put there.
    """
    import os

    for path in os.environ.get("PYTHONPATH", "").split(":"):
        if path and path not in sys.path and (environment or path != ENVIRONMENT):
            installed = (place for place, other in enumerate(sys.path) if other.endswith("-packages"))
            sys.path.insert(next(installed, len(sys.path)) if path == ENVIRONMENT else len(sys.path), path)


def prepare_python():
    """Prepare for a Python program, once, if possible before it comes. Returns the address of the door to tools.

    The program may import modules that it writes itself; installed ones come first.
    """
    if not prepared:
        import os

        add_packages()
        sys.path.append(posix.getcwd())
        load("program", "python/program.py").load_notebook().install()
        prepared.append(os.environ.get(TOOLS_DOOR))
    return prepared[0]


def install_tools(address):
    """If there is a door: the names by which programs call tools, and the further types that count as JSON."""
    return (load_tools().install(address), load_tools().PLAIN) if address else ({}, ())


def load_tools():
    """Import the package ``gloveport_tools``, under its name (unlike ``load``), by which it finds its own parts."""
    module = sys.modules.get("gloveport_tools")
    if module is None:
        from importlib.util import module_from_spec, spec_from_file_location

        path = f"{HERE}/python/gloveport_tools/__init__.py"
        spec = spec_from_file_location("gloveport_tools", path)
        module = sys.modules[spec.name] = module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def write_source(program):
    """Write the program to its ``__file__``: processes that multiprocessing spawns read it there.

    By system calls: Python's file objects touch so much memory that a short program would take a tenth longer.
    """
    try:
        file = posix.open(program["name"], posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o644)
        try:
            posix.write(file, program["source"].encode("utf-8", "surrogatepass"))
        finally:
            posix.close(file)
    except OSError:  # no room is left, or the directory is the owner's
        pass


def run_here(program):
    """Run a Python program in this very process."""
    address = prepare_python()
    write_source(program)
    names, plain = install_tools(address)
    return load("program", "python/program.py").run(
        program["source"], program["name"], program["value_bytes"], names=names, plain=plain
    )


SESSION = {
    "session.supervisor": "session/supervisor.py",
    "session.link": "session/link.py",
    "session.files": "session/files.py",
    "session.process": "session/process.py",
    "session.python": "session/python.py",
    "session.shell": "session/shell.py",
    "session.deno": "session/deno.py",
    "interpreter": "python/interpreter.py",
    "variables": "python/variables.py",
    "program": "python/program.py",
}


def load_session():
    """Import a session's modules before it begins: to compile them takes longer than to begin a session."""
    for name, path in SESSION.items():
        load(name, path)


def start_python(link, direct):
    """Run as a Python interpreter that takes one call after another. Never returns."""
    names, plain = install_tools(prepare_python())
    program, interpreter, variables = (load(name, SESSION[name]) for name in ("program", "interpreter", "variables"))
    interpreter.Interpreter(link, direct, program, variables.Variables, names, plain).serve()


def write_sealed(text):
    """A descriptor, at offset 0, of sealed memory that holds ``text``: nobody can change it."""
    memory = posix.memfd_create("program", posix.MFD_CLOEXEC | posix.MFD_ALLOW_SEALING)
    with open(memory, "wb", closefd=False) as file:
        file.write(text.encode("utf-8", "surrogatepass"))
    fcntl.fcntl(memory, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
    posix.lseek(memory, 0, 0)
    return memory


def open_terminal(host, rows, columns):
    """Make a controlling terminal the program's standard streams, and send the host the master side."""
    import termios  # few programs have one

    ours, theirs = posix.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, _struct.pack("HHHH", rows, columns, 0, 0))
    modes = termios.tcgetattr(theirs)
    modes[0] |= IUTF8  # to erase a character erases all of its bytes
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    send_descriptors(host, b"\0", [ours])
    posix.close(ours)
    if posix.getsid(0) != posix.getpid():
        posix.setsid()
    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    for number in range(3):
        posix.dup2(theirs, number)
    posix.close(theirs)


def read_environment():
    """All environment variables, as text."""
    os = sys.modules.get("os")  # which knows of changes
    if os is not None:
        return os.environ
    return {name.decode(*AS_OS): value.decode(*AS_OS) for name, value in posix.environ.items()}


def begin(argv, variables):
    """Become another program. Raises OSError."""
    if "/" in argv[0]:
        posix.execve(argv[0], argv, variables)
    import os

    os.execvpe(argv[0], argv, variables)


def execute(program, inputs):
    """Become the program's interpreter. ``inputs``: descriptors by the numbers that it expects."""
    try:
        for number, descriptor in inputs.items():
            posix.dup2(descriptor, number)
            posix.set_inheritable(number, True)  # noqa: FBT003 - dup2 onto itself leaves it closing on exec
        if program["directory"]:
            posix.chdir(program["directory"])
        begin(program["argv"], {**read_environment(), **program["variables"]})
    except OSError as error:
        posix.write(2, f"{program['argv'][0]}: {error.strerror}\n".encode())
    finally:
        _exit(127)


def send_reports(host, path):
    """Make the FIFO of an interpreter's reports, and send the host its reading end."""
    posix.mkfifo(path, 0o600)
    reports = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)
    send_descriptors(host, b"\0", [reports])
    posix.close(reports)


def open_notices(host):
    """A pipe whose reading end the host gets."""
    reading, writing = posix.pipe()
    send_descriptors(host, b"\0", [reading])
    posix.close(reading)
    return writing


def run_child(program, inputs):
    """Run an interpreter as a child until it has ended."""
    child = posix.fork()
    if child == 0:
        execute(program, inputs)
    for descriptor in inputs.values():
        posix.close(descriptor)
    code = posix.waitstatus_to_exitcode(posix.waitpid(child, 0)[1])
    return {"exit_code": code, "signal": None} if code >= 0 else {"exit_code": 128 - code, "signal": -code}


def run_interpreter(program, ahead, notices):
    """Become the program's interpreter; return only if it is to report. ``ahead``: its inputs, if they have come."""
    inputs = {}
    if not program["terminal"]:
        inputs = dict(zip(program["inputs"], ahead, strict=True))
        inputs = inputs or {program["descriptor"]: write_sealed(program["text"])}
    if notices is not None:
        load("foreground", "foreground.py").lead(execute, program, inputs, notices)
    if not program["report"]:
        execute(program, inputs)
    return run_child(program, inputs)


def rehearse():
    """Warm up what ``run`` does before the program begins, without a trace: see ``python/program.py``, ``rehearse``."""
    parse_json(pack({"program": {"text": "", "rlimits": {}}})[HEAD_BYTES:].decode("utf-8", "surrogatepass"), 0)
    posix.close(write_sealed(""))
    dict(read_environment())


def run(host):
    """Wait for the program, run it, and end as it ends."""
    me = posix.getpid()
    message, (stdout, stderr, *ahead) = receive(host)
    program = message["program"]
    posix.dup2(stdout, 1)
    posix.dup2(stderr, 2)
    posix.close(stdout)
    posix.close(stderr)
    if program["argv"]:
        _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)  # which Python ignores
    if program["env"]:  # to add nothing takes a thirtieth of a short run
        import os

        os.environ.update(program["env"])
    # Before the limits: descriptors in flight of all processes of a user count against the limit of each sender.
    if program["report"]:
        send_reports(host, program["report"])
    if program["terminal"]:
        open_terminal(host, *program["terminal"])
    notices = open_notices(host) if program["foreground"] else None
    for name, (soft, hard) in program["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (soft, hard))
    if program["session"]:  # many calls, none of which is this process
        supervisor = load("session.supervisor", SESSION["session.supervisor"])
        supervisor.serve(host, load, program["session"], start_python, *ahead)
    report = run_here(program) if not program["argv"] else run_interpreter(program, ahead, notices)
    if posix.getpid() == me:  # a program that forks comes here twice; only the first process speaks for it
        send(host, {"report": report})
    code = report.get("exit_code")  # an interpreter's last report may be its program's own work
    _exit(code & 0xFF if isinstance(code, int) else 1)


def main():
    """See the module."""
    host = open_channel(int(sys.argv[1]))
    with open("/dev/null", "rb") as null:  # the sandbox's own, instead of the one inherited from the host
        posix.dup2(null.fileno(), 0)
    setup, groups = receive(host)
    for group in groups:
        posix.write(group, b"0")
        posix.close(group)
    mounts = identities(setup["mounts"])
    version, calls = load("landlock", "landlock.py").calls(setup["landlock"], CHANNEL + 1, CHANNEL + 2)
    perform(calls)
    send_ready(host, {"mounts": mounts, **in_force(version)})
    import_rest()  # while the host checks what is enforced
    if setup["python"]:
        load("program", "python/program.py").load_notebook()
    run(host)


if __name__ == "__main__":
    main()
