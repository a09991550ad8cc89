"""Reloads the configuration while the old one is in use: some tables change at once, the others after a restart."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gloveport.config.checks.mounts import find_exposed
from gloveport.config.checks.secret_places import secret_files
from gloveport.config.host_paths.toolchains import find_toolchains
from gloveport.config.loading.load import Loaded, load
from gloveport.config.schema import Config, KeyPath, leaves
from gloveport.config.toml_text import printable, spell_key
from gloveport.errors import ConfigError

_LIVE = frozenset({"api", "egress", "environments", "packages", "proxy"})
"""Tables that are looked up for each run or connection. The others are only used at the start."""


class Reloaded(Struct, frozen=True, kw_only=True):
    """The configuration that counts from now on, and the changes that don't yet."""

    loaded: Loaded
    """The old configuration with those new tables that count at once."""

    postponed: tuple[str, ...]
    """Other keys whose value has changed, and servers of which anything has: they count after a restart."""


def reload(old: Loaded, config_path: Path | None, *, cwd: Path, environ: Mapping[str, str]) -> Reloaded:
    """Load the configuration again, as ``load`` does. It reads files: call it in a worker thread.

    Raises:
        ConfigError: As ``load``; or a new secret would be shown by an old mount. The old configuration stays in use.
    """
    new = load(config_path, cwd=cwd, environ=environ, former=old)
    config = old.config.model_copy(update={name: getattr(new.config, name) for name in _LIVE})
    _refuse_exposed(old.config, config, environ)
    origins = {key: (new if key[0] in _LIVE else old).find_origin(key) for key, _ in leaves(config)}
    return Reloaded(
        loaded=replace(new, config=config, find_origin=origins.__getitem__),
        postponed=tuple(dict.fromkeys(spell_key(_name_owner(key)) for key in _find_changes(config, new.config))),
    )


def _find_changes(old: Config, new: Config) -> Iterator[KeyPath]:
    """Yield the keys whose values differ, and those that only one of the two has."""
    before, after = dict(leaves(old)), dict(leaves(new))
    for key in before | after:
        if (key in before) != (key in after) or before[key] != after[key]:
            yield key


def _name_owner(key: KeyPath) -> KeyPath:
    return key[:2] if key[0] == "servers" else key


def _refuse_exposed(old: Config, config: Config, environ: Mapping[str, str]) -> None:
    # The new files are consistent, but may put a secret where the old mounts, still in use, show it.
    files = [*secret_files({name: config.secret_tables[name] for name in ("api", "proxy")})]
    if not files:
        return
    toolchains = find_toolchains(old, environ).shown_paths
    sources = [*(mount.source for mount in old.policy.mounts), *map(str, toolchains)]
    if file := next(find_exposed(sources, files), None):
        raise ConfigError(
            f"programs can read {printable(str(file))} until Gloveport is restarted: policy.mounts, or "
            "workspace.toolchains, shows it",
            hint="restart Gloveport, or keep the secret elsewhere",
        )
