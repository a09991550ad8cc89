"""Chooses the npm registries: the configured ones, or else those of this user's npm.

As for Python indexes (``indexes``), only addresses are taken over, and no tokens.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gloveport.environments.indexes import hosts_of, without_password
from gloveport.late_pattern import late_pattern
from gloveport.model.value import Value

PUBLIC_REGISTRY: Final = "https://registry.npmjs.org"
_SCOPE: Final = late_pattern(r"(@[a-z0-9~-][a-z0-9._~-]{0,99}):registry")
_TOKEN: Final = late_pattern(r"//(?P<host>[^/:]+(?::\d+)?)/.*:(?:_authToken|_auth|_password)", re.DOTALL)


class Registries(Value):
    """Where packages of npm come from. Packages of a scope with its own registry are asked for only there."""

    url: str
    scopes: Mapping[str, str] = {}
    warnings: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that builds reach, as in ``[api.NAME]``."""
        return hosts_of([self.url, *self.scopes.values()])

    def to_npmrc(self) -> str:
        """The registries as an ``.npmrc``."""
        lines = [f"registry={self.url}/", *(f"{scope}:registry={url}/" for scope, url in self.scopes.items())]
        return "\n".join(lines) + "\n"


def find_registries(url: str | None, scopes: Mapping[str, str], environ: Mapping[str, str]) -> Registries:
    """Find the registries to use: the configured ones, or else those of this user's npm."""
    if url is not None or scopes:
        plain = {scope: one.rstrip("/") for scope, one in scopes.items()}
        return Registries(url=(url or PUBLIC_REGISTRY).rstrip("/"), scopes=plain)
    settings: dict[str, str] = {}
    warnings: list[str] = []
    for path in _files_of_npm(environ):
        for key, text in _read_npmrc(path):
            settings.setdefault(key, text)
            if found := _TOKEN.fullmatch(key):
                warnings.append(
                    f"{path} has a token for {found['host']}, which no sandbox gets: "
                    f'write an [api.NAME] with hosts = ["{found["host"]}"] and auth'
                )
    default = environ.get("npm_config_registry") or environ.get("NPM_CONFIG_REGISTRY") or settings.get("registry", "")
    named = {found[1]: without_password(text) for key, text in settings.items() if (found := _SCOPE.fullmatch(key))}
    return Registries(
        url=without_password(default) or PUBLIC_REGISTRY,
        scopes={scope: one for scope, one in named.items() if one},
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _files_of_npm(environ: Mapping[str, str]) -> Iterator[Path]:
    """The files of npm that apply, the highest precedence first. A file in the current directory is a project's."""
    user = environ.get("npm_config_userconfig") or environ.get("NPM_CONFIG_USERCONFIG")
    if user:
        yield Path(user)
    elif home := environ.get("HOME"):
        yield Path(home, ".npmrc")
    yield Path("/etc/npmrc")


def _read_npmrc(path: Path) -> Iterator[tuple[str, str]]:
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError):
        return
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not key.lstrip().startswith(("#", ";")):
            yield key.strip(), value.strip().strip("\"'")
