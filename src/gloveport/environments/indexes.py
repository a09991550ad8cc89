"""Chooses the package indexes: the configured ones, or else those of this user's uv and pip.

Only addresses are taken over. Passwords in them are dropped, since no sandbox may see one, and the operator is told to
write an ``[api.NAME]`` for the host, whose credential is added on the way.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from gloveport.late_libraries import configparser
from gloveport.model.value import Value

PUBLIC: Final = "https://pypi.org/simple"
_FILES_OF: Final = {"pypi.org": ("files.pythonhosted.org",), "test.pypi.org": ("test-files.pythonhosted.org",)}
"""The hosts of files that well-known indexes link to."""


class Indexes(Value):
    """Where packages come from.

    Only the first index that has a name is asked for it: so nobody can shadow an internal package with a higher version
    on a public index.
    """

    urls: tuple[str, ...]
    """In order of precedence."""

    origin: str
    """Where these settings come from."""

    warnings: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that builds reach, as in ``[api.NAME]``."""
        reached = [url for url in self.urls if not url.startswith("file:")]
        files = [f"https://{host}" for url in reached for host in _FILES_OF.get(urlsplit(url).hostname or "", ())]
        return hosts_of([*reached, *files])

    @property
    def directories(self) -> tuple[str, ...]:
        """Host directories that serve as indexes."""
        return tuple(urlsplit(url).path for url in self.urls if url.startswith("file:"))


def hosts_of(urls: Iterable[str]) -> tuple[str, ...]:
    """The hosts of these URLs, as in ``[api.NAME]``."""
    places = map(urlsplit, urls)
    return tuple(
        dict.fromkeys(f"{'http://' if place.scheme == 'http' else ''}{_host_and_port(place)}" for place in places)
    )


def without_password(url: str) -> str:
    """The address without user and password; empty if it is none of a web server."""
    try:
        place = urlsplit(url)
        host = _host_and_port(place) if place.hostname else ""
    except ValueError:
        return ""
    return f"{place.scheme}://{host}{place.path}".rstrip("/") if place.scheme in {"http", "https"} and host else ""


def _host_and_port(place: SplitResult) -> str:
    return f"{place.hostname}:{place.port}" if place.port else f"{place.hostname}"


def find_indexes(configured: tuple[str, ...], environ: Mapping[str, str]) -> Indexes:
    """Find the indexes to use."""
    if configured:
        return Indexes(urls=configured, origin="packages.indexes")
    for find in (_of_uv, _of_pip):
        urls, origin = find(environ)
        plain, warnings = _without_passwords(urls, origin)
        if plain:
            return Indexes(urls=plain, origin=origin, warnings=warnings)
    return Indexes(urls=(PUBLIC,), origin="the public index")


def _without_passwords(urls: list[str], origin: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    plain, warnings = [], []
    for url in urls:
        if not (bare := without_password(url)):  # a user's own directory is for that user
            continue
        plain.append(bare)
        if "@" in urlsplit(url).netloc:
            host = urlsplit(bare).netloc
            warnings.append(
                f"{origin} has a user name or a password for {host}, which no sandbox gets: "
                f'write an [api.NAME] with hosts = ["{host}"] and auth'
            )
    return tuple(dict.fromkeys(plain)), tuple(warnings)


def _of_uv(environ: Mapping[str, str]) -> tuple[list[str], str]:
    """The indexes of uv's variables, else of its file for this user."""
    default = environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL")
    more = (environ.get("UV_INDEX", "") + " " + environ.get("UV_EXTRA_INDEX_URL", "")).split()
    if default or more:
        return [_strip_name(url) for url in [*more, default or PUBLIC]], "the variables of uv"
    for path in (*_files_of_user("uv/uv.toml", environ), Path("/etc/uv/uv.toml")):
        try:
            settings = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        listed = settings.get("index", [])
        tables = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        urls = [str(one.get("url", "")) for one in sorted(tables, key=lambda one: bool(one.get("default")))]
        if not any(one.get("default") for one in tables):
            urls.append(str(settings.get("index-url", PUBLIC)))
        if tables or "index-url" in settings:
            return urls, str(path)
    return [], ""


def _of_pip(environ: Mapping[str, str]) -> tuple[list[str], str]:
    """The indexes of pip's variables, else of its files: extra indexes before the index, as in uv."""
    if environ.get("PIP_INDEX_URL") or environ.get("PIP_EXTRA_INDEX_URL"):
        return [
            *environ.get("PIP_EXTRA_INDEX_URL", "").split(),
            environ.get("PIP_INDEX_URL") or PUBLIC,
        ], "the variables of pip"
    for path in _files_of_pip(environ):
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(path.read_text("utf-8"))
        except (OSError, ValueError, configparser.Error):
            continue
        sections = [parser[name] for name in ("global", "install") if parser.has_section(name)]
        section = {name: text for one in sections for name, text in one.items()}
        extra = [url for url in section.get("extra-index-url", "").split() if not url.startswith("file:")]
        if extra or section.get("index-url"):
            return [*extra, section.get("index-url") or PUBLIC], str(path)
    return [], ""


def _files_of_pip(environ: Mapping[str, str]) -> Iterator[Path]:
    """The files of pip that apply, the highest precedence first."""
    named = environ.get("PIP_CONFIG_FILE")
    if named:
        yield from [] if named == os.devnull else [Path(named)]
        return
    yield from _files_of_user("pip/pip.conf", environ)
    if home := environ.get("HOME"):
        yield Path(home, ".pip/pip.conf")
    listed = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    yield from (Path(one, "pip/pip.conf") for one in listed if one.startswith("/"))
    yield Path("/etc/pip.conf")


def _strip_name(url: str) -> str:
    """The URL without uv's optional name: ``name=url``."""
    name, equals, rest = url.partition("=")
    return rest if equals and "/" not in name else url


def _files_of_user(path: str, environ: Mapping[str, str]) -> list[Path]:
    """A file below this user's configuration directory; none for a user that has no home."""
    home = environ.get("HOME")
    directory = environ.get("XDG_CONFIG_HOME") or (home and f"{home}/.config")
    return [Path(directory, path)] if directory else []
