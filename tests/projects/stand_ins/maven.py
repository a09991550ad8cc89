"""The registry of Java: the repository that Debian's packages make up, as Maven Central serves one."""

import hashlib
from pathlib import Path
from typing import Final

SOURCES: Final = Path("/usr/share/maven-repo")
HOSTS: Final = ("repo.maven.apache.org", "repo1.maven.org", "plugins.gradle.org", "plugins-artifacts.gradle.org")


def answer(_: str, path: str) -> bytes | None:
    """The file at a path, or its digest; nothing where there is none."""
    name = path.removeprefix("/maven2/")
    file = SOURCES / name.removesuffix(".sha1")
    if name == path or ".." in file.parts or not file.is_file():
        return None
    content = file.read_bytes()
    return hashlib.sha1(content).hexdigest().encode() if name.endswith(".sha1") else content
