"""Shell runtime: bash, reading the program from a descriptor of sealed memory."""

from collections.abc import Mapping

from gloveport.errors import ConfigError
from gloveport.executables import find_executable
from gloveport.model import GUEST, SCRATCH, Grant, Mount, Program, Symlink, Value
from gloveport.model.json_value import JsonValue

_DESCRIPTOR = 3
_NAME = "/program.sh"


class Bash(Value):
    """The shell of the system directories that every sandbox shows."""

    executable: str
    packages: str = ""
    binds: tuple[Mount, ...] = ()

    def prepare(self, source: str, grant: Grant, types: str = "") -> Program:  # noqa: ARG002 - asked as every runtime
        """Prepare ``source`` to run. Pure.

        Bash reads a script by its name while it runs. The name is a link to the descriptor, so that messages say
        ``/program.sh: line 3`` though the text is in no file.
        """
        command = (self.executable, "--noprofile", "--norc", _NAME)
        return Program(
            name=_NAME,
            argv=command,
            waiting=("/usr/bin/env", f"BASH_ENV={GUEST}/shell/wait.sh", *command),
            text=source,
            descriptor=_DESCRIPTOR,
            symlinks=(Symlink(path=_NAME, target=f"/proc/self/fd/{_DESCRIPTOR}"),),
        )

    def setup_session(self, grant: Grant, types: str = "") -> Mapping[str, JsonValue]:  # noqa: ARG002 - as above
        """See ``Runtime``: bash reads commands from the descriptor."""
        argv = [self.executable, "--noprofile", "--norc", f"/proc/self/fd/{_DESCRIPTOR}"]
        return {"argv": [*argv], "setup": f"{GUEST}/shell/session.sh", "variables": {}, "directory": SCRATCH}


def find(configured: str | None) -> Bash:
    """Find bash. Raises ConfigError if bash is not in a directory that sandboxes show."""
    path = configured or find_executable("bash", "/usr/bin:/bin")
    if path is None or not path.startswith(("/usr/bin/", "/bin/")):
        raise ConfigError(
            f"runtimes.bash: {path or 'bash'} is not in /usr/bin or /bin, the only places sandboxes show",
            hint="install bash from the distribution",
        )
    return Bash(executable=path)
