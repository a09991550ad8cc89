"""Checks environments and rules for packages: malformed requirements, and contradictions in an environment."""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from gloveport.config.schema import KeyPath
from gloveport.config.sources.layers import Table
from gloveport.config.toml_text import as_toml, printable
from gloveport.config.validation.faults import Fault
from gloveport.model.packages import Environment
from gloveport.policy.hosts.authorities import canonical_host, find_loopback
from gloveport.policy.npm_requests import MetadataError, normalize_npm_requirement
from gloveport.policy.package_requests import is_pattern, name_of, normalize_pin, normalize_requirement

_LISTS: Final = ("allow", "ask", "deny")


def package_faults(data: Table) -> Iterator[Fault]:
    """Name the faults in ``[packages]`` and each ``[environments.NAME]``."""
    packages = data.get("packages")
    for name in _LISTS:
        yield from _pattern_faults(packages, ("packages", name))
    yield from _index_faults(packages)
    environments = data.get("environments")
    tables = environments.items() if isinstance(environments, Mapping) else ()
    defaults: dict[str, str] = {}
    for name, table in tables:
        key = ("environments", str(name))
        yield from _pattern_faults(table, (*key, "allow"))
        for index, text in enumerate(_texts(table, "python")):
            try:
                normalize_requirement(text)
            except MetadataError as error:
                yield Fault(
                    keys=((*key, "python", index),),
                    problem=printable(f"expected a requirement: {error}"),
                    hint="write a name and perhaps versions, such as requests>=2.32",
                )
        yield from _build_faults(table, key)
        if isinstance(table, Mapping) and "lock" in table and table.get("python"):
            yield Fault(
                keys=((*key, "lock"), (*key, "python")),
                problem="found both: the lock says all that is installed",
                hint="remove the one or the other",
            )
        yield from _npm_faults(table, key)
        yield from _language_faults(table, key)
        for language in _list_languages(table) if isinstance(table, Mapping) and table.get("default") is True else ():
            if (other := defaults.setdefault(language, str(name))) != name:
                yield Fault(
                    keys=((*key, "default"), ("environments", other, "default")),
                    problem=f"two environments can't both be the default of programs in {language}",
                    hint="leave it to one of them, or name the languages of each",
                )
                break


def _index_faults(packages: object) -> Iterator[Fault]:
    """Name the indexes and registries by whose hosts a sandbox means itself."""
    table = packages if isinstance(packages, Mapping) else {}
    scopes = table.get("npm_scopes")
    urls: dict[KeyPath, object] = {
        **{("indexes", number): url for number, url in enumerate(_texts(table, "indexes"))},
        **{(name,): table.get(name) for name in ("npm_registry", "advisories")},
        **{("npm_scopes", str(name)): url for name, url in (scopes if isinstance(scopes, Mapping) else {}).items()},
    }
    for key, url in urls.items():
        try:
            host = canonical_host(urlsplit(url).hostname or "") if isinstance(url, str) else ""
        except ValueError:
            continue
        address = find_loopback(host) if host else None
        if address is not None:
            yield Fault(
                keys=(("packages", *key),),
                problem=f"builds run in a sandbox, which means itself by {as_toml(host)}",
                hint="give this host another name, such as service.example, here and in the hosts of an [api.NAME] "
                f'with addresses = ["{address}"]',
            )


def _build_faults(table: object, key: KeyPath) -> Iterator[Fault]:
    seen = set()
    for index, text in enumerate(_texts(table, "build")):
        try:
            name = normalize_pin(text).partition("==")[0]
        except MetadataError as error:
            yield Fault(keys=((*key, "build", index),), problem=printable(f"{error}"), hint="write docopt==0.6.2")
            continue
        if name in seen:
            yield Fault(keys=((*key, "build", index),), problem="found it twice", hint="leave one of them")
        seen.add(name)
    if seen and isinstance(table, Mapping) and not table.get("python"):
        yield Fault(
            keys=((*key, "build"),),
            problem="nothing of it is built: only what python requires is",
            hint="add python, or leave it out",
        )


def _npm_faults(table: object, key: KeyPath) -> Iterator[Fault]:
    seen = set()
    for index, text in enumerate(_texts(table, "npm")):
        try:
            name = name_of(normalize_npm_requirement(text))
        except MetadataError as error:
            yield Fault(
                keys=((*key, "npm", index),),
                problem=printable(f"expected a package of npm: {error}"),
                hint="write a name and perhaps versions, such as csv-parse@5",
            )
            continue
        if name in seen:
            yield Fault(keys=((*key, "npm", index),), problem="found it twice", hint="leave one of them")
        seen.add(name)
    if not seen and isinstance(table, Mapping) and "npm_lock" in table:
        yield Fault(keys=((*key, "npm_lock"),), problem="it has no npm, which says what is required", hint="add npm")


def _language_faults(table: object, key: KeyPath) -> Iterator[Fault]:
    packaged = _list_packaged(table)
    for index, language in enumerate(_texts(table, "languages")):
        if language not in packaged:
            yield Fault(
                keys=((*key, "languages", index),),
                problem=f"it has no packages for {printable(language)}",
                hint=f"leave it out; there are some for {', '.join(sorted(packaged))}",
            )


def _list_packaged(table: object) -> frozenset[str]:
    """The languages that an environment has packages for."""
    lock = "/" if isinstance(table, Mapping) and table.get("lock") else None
    settings = Environment(python=tuple(_texts(table, "python")), npm=tuple(_texts(table, "npm")), lock=lock)
    return frozenset(settings.packaged_languages)


def _list_languages(table: object) -> frozenset[str]:
    """The languages whose programs may run in an environment."""
    return frozenset(_texts(table, "languages")) or _list_packaged(table)


def _pattern_faults(table: object, key: KeyPath) -> Iterator[Fault]:
    for index, text in enumerate(_texts(table, str(key[-1]))):
        if not is_pattern(text):
            yield Fault(
                keys=((*key, index),),
                problem=f"expected a name, and perhaps versions, found {printable(text)}",
                hint='write "requests", "azure-*" or "numpy>=2,<3"',
            )


def _texts(table: object, name: str) -> list[str]:
    listed = table.get(name) if isinstance(table, Mapping) else None
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
