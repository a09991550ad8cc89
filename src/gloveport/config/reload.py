"""A new configuration while the old one is in use: what may change at once does, the rest waits for a restart."""

from collections.abc import Mapping
from pathlib import Path

from gloveport.config.apis import secret_files
from gloveport.config.load import Loaded, load
from gloveport.config.mounts import exposed
from gloveport.config.schema import Config, leaves
from gloveport.config.wording import printable
from gloveport.errors import ConfigError
from gloveport.model import Value

_LIVE = frozenset({"api", "egress"})
"""Tables that are looked up for each run. What is made of the others at the start stays as it is."""


class Reloaded(Value):
    """What counts from now on."""

    loaded: Loaded
    """The old configuration with the new tables ``api`` and ``egress``."""

    postponed: tuple[str, ...]
    """Other keys whose value has changed: they count after a restart."""


def reload(old: Loaded, given: Path | None, *, cwd: Path, environ: Mapping[str, str]) -> Reloaded:
    """Load the configuration again. It reads files: call it in a worker thread.

    Args:
        old: What counts until now.
        given: As for ``load``.
        cwd: As for ``load``.
        environ: As for ``load``.

    Raises:
        ConfigError: As ``load``; or a new secret would be shown by an old mount. What counted goes on counting.
    """
    new = load(given, cwd=cwd, environ=environ)
    config = old.config.model_copy(update={name: getattr(new.config, name) for name in _LIVE})
    _refuse_exposed(config)
    now = dict(leaves(config))
    origins = {key: (new if key.partition(".")[0] in _LIVE else old).origins[key] for key in now}
    return Reloaded(
        loaded=Loaded(config=config, files=new.files, origins=origins),
        postponed=tuple(key for key, value in leaves(new.config) if now[key] != value),
    )


def _refuse_exposed(config: Config) -> None:
    # The new files are sound by themselves. But they may put a secret where the mounts of before still show it.
    files = secret_files(config.model_dump(mode="json", include={"api"}))
    if file := next(exposed([mount.source for mount in config.policy.mounts], files), None):
        raise ConfigError(
            f"programs can read {printable(str(file))} until Gloveport is restarted: policy.mounts shows it",
            hint="restart Gloveport, or keep the secret elsewhere",
        )
