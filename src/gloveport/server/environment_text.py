"""Describes the environments to a client, in few words: a client pays for each word with every request."""

from typing import Final

from gloveport.config import Config
from gloveport.model.packages import Environment
from gloveport.policy.npm_requests import normalize_npm_requirement
from gloveport.policy.package_requests import name_of

_MOST_PACKAGES: Final = 12
_CHARACTERS: Final = 120


def environments_text(config: Config) -> str:
    """List the environments with their packages, and say whether a program may ask for more; empty for neither."""
    there = [_words(name, one) for name, one in sorted(config.environments.items())]
    named = f" Environments: {'; '.join(there)}." if there else ""
    asks = (
        " Python may ask for packages in a PEP 723 block, TypeScript by npm: imports."
        if config.packages.enabled
        else ""
    )
    return named + asks


def _words(name: str, one: Environment) -> str:
    packages = [name_of(requirement) for requirement in one.python]
    packages += [name_of(normalize_npm_requirement(requirement)) for requirement in one.npm]
    listed = ", ".join(packages[:_MOST_PACKAGES]) + (" …" if len(packages) > _MOST_PACKAGES else "")
    what = one.description[:_CHARACTERS] or listed
    return f"{name} ({what}; default)" if one.default else f"{name} ({what})" if what else name
