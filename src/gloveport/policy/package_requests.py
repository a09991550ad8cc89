"""Decides about packages that programs request: reads PEP 723 blocks, compares names, and applies rules. Pure.

Names of npm begin with ``npm:`` (``npm_requests`` reads them); no pattern without that prefix matches them.

The program is not executed for it. A name that nobody has allowed, and that looks like a well-known one, is denied
before anybody is asked: a typo-squatter counts on a person who overlooks the difference.
"""

import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final

from gloveport.late_libraries import requirements, resources, specifiers, version
from gloveport.late_pattern import late_pattern
from gloveport.model import Allow, Ask, Decision, Deny
from gloveport.model.packages import Install, LockedPackage, PackagePattern, PackageRules
from gloveport.policy.npm_requests import MOST_REQUIREMENTS, NPM, SPECIFIER, MetadataError
from gloveport.policy.wildcards import matches
from gloveport.policy.wording import FINAL, join_listed, quote_sent

_BEGIN: Final = late_pattern(r"# /// (?P<type>[a-zA-Z0-9-]+)")
_END: Final = "# ///"
_MOST_BLOCK_CHARACTERS: Final = 16_384
_MOST_DOTS: Final = 500
"""In a line of TOML: the parser takes quadratic time for the parts of a key."""

_PATTERN: Final = late_pattern(r"((?:npm:)?[A-Za-z0-9@*._/-]+)(.*)", re.DOTALL)
_MOST_CHARACTERS: Final = 200
_PACKAGES: Final = {
    "Crypto": "pycryptodome",
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "jwt": "pyjwt",
    "pptx": "python-pptx",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Well-known modules whose packages have other names."""


def read_metadata(source: str) -> tuple[str, ...]:
    """The requirements in a program's ``# /// script`` block, sorted, without duplicates; empty without a block.

    Raises:
        MetadataError: There are several blocks, or a block violates PEP 723, or has a URL instead of versions.
    """
    if "# /// script" not in source:
        return ()
    blocks = [content for kind, content in _find_blocks(source) if kind == "script"]
    if not blocks:
        raise MetadataError("it has no end: a line with # /// alone")
    if len(blocks) > 1:
        raise MetadataError("there is more than one")
    dependencies = parse_toml(blocks[0], _MOST_BLOCK_CHARACTERS).get("dependencies", [])
    if (
        not isinstance(dependencies, list)
        or len(dependencies) > MOST_REQUIREMENTS
        or not all(isinstance(one, str) for one in dependencies)
    ):
        raise MetadataError(f"dependencies is no list of at most {MOST_REQUIREMENTS} texts")
    return tuple(sorted({normalize_requirement(one) for one in dependencies}))


def _find_blocks(source: str) -> Iterator[tuple[str, str]]:
    """Type and content of each block of PEP 723, in linear time, unlike by its regular expression.

    A block has a line of content at least, and extends to the last end that only comments stand before.
    """
    lines = source.split("\n")
    for is_comment, numbers in itertools.groupby(range(len(lines)), lambda at: f"{lines[at]} ".startswith("# ")):
        if not is_comment:
            continue
        comments = [lines[at] for at in numbers]
        end = max((at for at, line in enumerate(comments) if line == _END), default=0)
        for at in range(end - 1):
            if found := _BEGIN.fullmatch(comments[at]):
                yield found["type"], "".join(f"{line[2:]}\n" for line in comments[at + 1 : end])
                break


def parse_toml(text: str, most: int) -> dict[str, Any]:
    """Parse an untrusted text of at most so many characters, in bounded time.

    Raises:
        MetadataError: It is too long, or no TOML.
    """
    if len(text) > most:
        raise MetadataError(f"it has more than {most} characters")
    if any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
        raise MetadataError(f"a line has more than {_MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a ValueError: also where a number has too many digits
        raise MetadataError(f"it is no TOML: {error}") from error


def normalize_requirement(text: str) -> str:
    """Normalize a requirement. Raises MetadataError if it is none, or says where to get the package."""
    if len(text) > _MOST_CHARACTERS:
        raise MetadataError(f"{text[:40]!a}… is longer than {_MOST_CHARACTERS} characters")
    try:
        one = requirements.Requirement(text)
        one.name = canonical_name(one.name)
        spelling = str(one)
        requirements.Requirement(spelling)  # escapes in a marker may have become quotes and line breaks
    except (ValueError, SyntaxError) as error:  # the latter of packaging before 26
        raise MetadataError(f"{text!a} is no requirement") from error
    if one.url is not None:
        raise MetadataError(f"{text!a} says where to get the package: only the owner's index is asked")
    return spelling


def normalize_pin(text: str) -> str:
    """Normalize ``NAME==VERSION``. Raises MetadataError if it is none."""
    name, _, pinned = text.partition("==")
    try:
        return f"{canonical_name(name)}=={version.Version(pinned)}"
    except version.InvalidVersion as error:
        raise MetadataError(f"{text!a} is no package in a version") from error


def canonical_name(name: str) -> str:
    """The canonical spelling of a package's name. Names of npm have only one."""
    return name if name.startswith(NPM) else re.sub(r"[-_.]+", "-", name).lower()


def package_of(module: str) -> str:
    """The name of the package that most likely provides a module."""
    return _PACKAGES.get(module, canonical_name(module))


def name_of(requirement: str) -> str:
    """The canonical package name in a requirement."""
    if found := SPECIFIER.fullmatch(requirement):
        return found["package"]
    return canonical_name(requirements.Requirement(requirement).name)


def refuse_names(rules: PackageRules, names: Iterable[str]) -> Deny | None:
    """The refusal of names of which no version can be allowed: not even the index hears of them."""
    for name in names:
        if any(_has_name(pattern, name) for pattern in rules.deny if not _specifier(pattern)):
            return Deny(
                code="package_denied",
                reason=f"The owner does not allow the package {quote_sent(name)}.",
                hint=f"Do without it. {FINAL}",
            )
        if any(_has_name(pattern, name) and "*" not in pattern for pattern in (*rules.allow, *rules.ask)):
            continue
        if likeness := find_likeness(name):
            return Deny(
                code="package_resembles",
                reason=f"The package {quote_sent(name)} is not well known, and its name looks like {likeness}.",
                hint=f"If you mean {likeness}, write that. {FINAL}",
            )
        if not any(_has_name(pattern, name) for pattern in (*rules.allow, *rules.ask)):
            allowed = join_listed(sorted({*rules.allow, *rules.ask}))
            return Deny(
                code="package_not_allowed",
                reason=f"The owner's rules do not name the package {quote_sent(name)}.",
                hint=f"Programs may ask for: {allowed}. {FINAL}",
            )
    return None


def decide_install(rules: PackageRules, action: Install) -> Decision:
    """Decide about the packages of a lock. Dependencies of others are only checked against the denied ones."""
    if action.environment is not None:
        return Allow(rule=f"environments.{action.environment}")
    if refusal := refuse_names(rules, action.requested_names):
        return refusal
    for one in action.packages:
        if covers(rules.deny, one, unknown=True):
            return Deny(
                code="package_denied",
                reason=f"It needs {one.name} {one.version}, which the owner does not allow.",
                hint=f"Do without what needs it. {FINAL}",
            )
    requested_packages = [one for one in action.packages if one.name in action.requested_names]
    ask = [one for one in requested_packages if not covers(rules.allow, one)]
    refused = next((one for one in ask if not covers(rules.ask, one)), None)
    if refused is not None or len(requested_packages) < len(action.requested_names):
        what = f"{refused.name} in version {refused.version}" if refused else "all that is asked for"
        return Deny(
            code="package_not_allowed",
            reason=f"The owner's rules do not name {what}.",
            hint=f"Ask for another version. {FINAL}",
        )
    if not ask:
        return Allow(rule="packages.allow")
    others = len(action.packages) - len(action.requested_names)
    more = f" {others} more come with them." if others else ""
    question = f"A program asks for the packages {join_listed([f'{one.name} {one.version}' for one in ask])}.{more}"
    return Ask(rule="packages.ask", question=question)


def covers(patterns: Sequence[PackagePattern], one: LockedPackage, *, unknown: bool = False) -> bool:
    """Whether one of the patterns matches this package in this version. ``unknown``: the answer if a pattern has
    versions with which this one can't be compared, as some of npm's.
    """
    return any(_has_name(pattern, one.name) and _has_version(pattern, one.version, unknown) for pattern in patterns)


def is_pattern(pattern: str) -> bool:
    """Whether a pattern is a name and comparable versions."""
    try:
        specifiers.SpecifierSet(_specifier(pattern))
    except specifiers.InvalidSpecifier:
        return False
    return True


def find_likeness(name: str) -> str:
    """The well-known name that ``name`` could be mistaken for; empty if there is none, or ``name`` is well known."""
    prefix = NPM if name.startswith(NPM) else ""
    known, name = well_known(prefix), name.removeprefix(prefix)
    if name in known:
        return ""
    plain = name.replace("-", "")
    for other in known:
        if other.replace("-", "") == plain or (len(other) > 3 and _is_one_edit(name, other)):
            return f"{prefix}{other}"
    return ""


@cache
def well_known(prefix: str) -> tuple[str, ...]:
    """Names of popular packages, the most popular first; those of npm with the prefix ``npm:``."""
    file = "well_known_npm_packages.txt" if prefix else "well_known_packages.txt"
    return tuple(resources.files("gloveport.policy").joinpath(file).read_text("ascii").split())


def _has_name(pattern: str, name: str) -> bool:
    found = _PATTERN.match(pattern)
    if found is None or found[1].startswith(NPM) != name.startswith(NPM):
        return False
    return matches(canonical_name(found[1]), name)


def _specifier(pattern: str) -> str:
    found = _PATTERN.match(pattern)
    return found[2].strip() if found is not None else ""


def _has_version(pattern: str, text: str, unknown: bool) -> bool:  # noqa: FBT001 - as in ``covers``
    specifier = _specifier(pattern)
    try:
        if not specifier:
            return True
        return specifiers.SpecifierSet(specifier).contains(version.Version(text), prereleases=True)
    except (specifiers.InvalidSpecifier, version.InvalidVersion):
        return unknown


def _is_one_edit(one: str, other: str) -> bool:
    """Whether two names differ in one letter added, removed, changed, or swapped with the next."""
    if abs(len(one) - len(other)) > 1 or one == other:
        return False
    start = next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return any(one[start + skipped :] == other[start + added :] for skipped, added in ((1, 1), (0, 1), (1, 0))) or (
        one[start : start + 2] == other[start : start + 2][::-1] and one[start + 2 :] == other[start + 2 :]
    )
