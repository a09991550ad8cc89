"""Points the package tools of a workspace's commands to the indexes and registries that their owner's tools use.

Only addresses are taken over, of hosts that an API grants, and with the lowest precedence: settings of a project or a
command override them. Credentials are added by the API on the way (``egress``).
"""

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from msgspec import Struct, field

from gloveport.late_module import late_module
from gloveport.late_pattern import late_pattern
from gloveport.untrusted_text import is_visible
from gloveport.workspace.protected import config_text

if TYPE_CHECKING:
    from gloveport.environments import indexes, registries
else:
    indexes = late_module("gloveport.environments.indexes")
    registries = late_module("gloveport.environments.registries")

_GO_VARIABLES: Final = ("GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB")
_GO_PROXY: Final = "https://proxy.golang.org"
"""Go's default proxy."""

_CARGO_NAME: Final = late_pattern(r"[A-Za-z0-9_-]{1,64}")
_MOST_BYTES: Final = 1 << 18


class OwnerRegistries(Struct, frozen=True, kw_only=True):
    """Settings for commands.

    Attributes:
        files: Files of their ``/etc``, with their texts.
        gitconfig: Additions to git's system configuration.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    gitconfig: str = ""


def find_owner_registries(environ: Mapping[str, str], granted: Collection[str]) -> OwnerRegistries:
    """The registries of the owner's tools whose hosts are among those ``granted``."""
    if not granted:
        return OwnerRegistries()

    def is_granted(url: str) -> bool:
        try:
            place = urlsplit(url)
        except ValueError:
            return False
        plain = place.scheme in {"http", "https"} and "@" not in place.netloc and is_visible(url)
        return plain and place.hostname in granted

    files: dict[str, str] = {}
    package_indexes = indexes.find_indexes((), environ)
    if package_indexes.urls != (indexes.PUBLIC,) and all(map(is_granted, package_indexes.urls)):
        *more, default = package_indexes.urls
        extra = f"extra-index-url = {' '.join(more)}\n" if more else ""
        files["pip.conf"] = f"[global]\nindex-url = {default}\n{extra}"
        tables = [f"[[index]]\nurl = {json.dumps(url)}\n" for url in more]
        files["uv/uv.toml"] = "".join([*tables, f"[[index]]\nurl = {json.dumps(default)}\ndefault = true\n"])
    found = registries.find_registries(None, {}, environ)
    scopes = {scope: url for scope, url in found.scopes.items() if is_granted(url)}
    url = found.url if is_granted(found.url) else registries.PUBLIC_REGISTRY
    if scopes or url != registries.PUBLIC_REGISTRY:
        files["npmrc"] = found.model_copy(update={"url": url, "scopes": scopes}).to_npmrc()
    if crates := "".join(_cargo_tables(environ, is_granted)):
        files["cargo/config.toml"] = crates
    go = dict(_go_variables(environ))
    proxies = [one for one in re.split(r"[,|]", go.get("GOPROXY", _GO_PROXY)) if one not in {"direct", "off", ""}]
    return OwnerRegistries(
        files=files,
        variables={
            **({"npm_config_globalconfig": "/etc/npmrc"} if "npmrc" in files else {}),
            **(go if proxies and all(map(is_granted, proxies)) else {}),
        },
        gitconfig="".join(_rewritten(environ, is_granted)),
    )


def _cargo_tables(environ: Mapping[str, str], is_granted: Callable[[str], bool]) -> Iterator[str]:
    """Cargo's replacement of its public registry, and further registries by name."""
    home = environ.get("CARGO_HOME") or (environ.get("HOME") and f"{environ['HOME']}/.cargo")
    try:
        settings = tomllib.loads(_read(Path(home, "config.toml"))) if home else {}
    except (ValueError, RecursionError):
        return

    def url_of(table: Mapping[str, Any], key: str) -> str:
        url = table.get(key)
        return url if isinstance(url, str) and is_granted(url.removeprefix("sparse+")) and _is_plain(url) else ""

    def table_of(table: object, name: object) -> dict[str, Any]:
        found = table.get(name) if isinstance(table, dict) and isinstance(name, str) else None
        return found if isinstance(found, dict) else {}

    sources = table_of(settings, "source")
    name = table_of(sources, "crates-io").get("replace-with")
    if url := url_of(table_of(sources, name), "registry"):
        yield f'[source.crates-io]\nreplace-with = "owner"\n[source.owner]\nregistry = "{url}"\n'
    registries = table_of(settings, "registries")
    for name in registries:
        if (url := url_of(table_of(registries, name), "index")) and _CARGO_NAME.fullmatch(name):
            yield f'[registries.{name}]\nindex = "{url}"\n'


def _go_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Go's settings, from the file that ``go env -w`` writes, overridden by the environment."""
    home = environ.get("XDG_CONFIG_HOME") or (environ.get("HOME") and f"{environ['HOME']}/.config")
    for line in _read(Path(home, "go/env")).splitlines() if home else ():
        name, _, value = line.partition("=")
        if name in _GO_VARIABLES and is_visible(value):
            yield name, value
    for name in _GO_VARIABLES:
        if environ.get(name) and is_visible(environ[name]):
            yield name, environ[name]


def _rewritten(environ: Mapping[str, str], is_granted: Callable[[str], bool]) -> Iterator[str]:
    """Git's address rewrites (``url.….insteadOf``), those of ssh addresses too."""
    try:
        values = config_text.read_values(_read(Path(environ.get("HOME", "/nonexistent"), ".gitconfig")))
    except ValueError:
        return
    for (section, base, name), addresses in values.items():
        if (section, name) == ("url", "insteadof") and base and is_granted(base) and _is_plain(base):
            plain = [one for one in addresses if one and _is_plain(one)]
            yield f'[url "{base}"]\n' + "".join(f'\tinsteadOf = "{one}"\n' for one in plain)


def _is_plain(address: str) -> bool:
    return is_visible(address) and not {'"', "\\"} & {*address}


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return config_text.decode(file.read(_MOST_BYTES))
    except OSError:
        return ""
