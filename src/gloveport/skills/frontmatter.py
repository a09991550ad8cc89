"""Reads and writes ``SKILL.md``: YAML frontmatter of the standard fields alone, and Markdown below it.

The YAML is untrusted, so only the part that the format needs is accepted: a mapping of texts, and in it ``metadata``, a
mapping of texts. Anchors, aliases and tags are refused before anything is built from them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from gloveport.errors import Denied
from gloveport.late_libraries import yaml
from gloveport.late_pattern import late_pattern
from gloveport.model.reading import read_value
from gloveport.model.value import Value
from gloveport.policy.wording import join_listed, quote_sent

FILE: Final = "SKILL.md"
FIELDS: Final = ("name", "description", "license", "compatibility", "allowed-tools", "metadata")
MOST_BYTES: Final = 64 * 1024
"""Of ``SKILL.md``."""

_HEAD_CHARACTERS: Final = 16 * 1024
_MOST_EVENTS: Final = 2000
_LONGEST: Final = {"name": 64, "description": 1024, "compatibility": 500, "license": 500, "allowed-tools": 2000}
_NAME: Final = late_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_HEAD: Final = late_pattern(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n|\Z)(.*)", re.DOTALL)
_BARE: Final = late_pattern(rf"^({'|'.join(FIELDS[:-1])}):[ \t]+([^\"'>|\[{{&*!\n][^\n]*)$", re.MULTILINE)


class Frontmatter(Value):
    """The frontmatter of a skill: its own claims."""

    name: str
    description: str
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""
    """Passed on without any effect here: a file grants nothing."""
    metadata: Mapping[str, str] = {}

    def as_written(self) -> dict[str, object]:
        """The fields that are present, by their names in the file."""
        fields = {
            "name": self.name,
            "description": self.description,
            "license": self.license,
            "compatibility": self.compatibility,
            "allowed-tools": self.allowed_tools,
        }
        written: dict[str, object] = {name: text for name, text in fields.items() if text}
        return {**written, "metadata": dict(self.metadata)} if self.metadata else written


def is_name(name: str) -> bool:
    """Whether a text is a valid name of a skill."""
    return len(name) <= _LONGEST["name"] and _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """Check a skill's name, and return it. Raises Denied if it is no valid name."""
    if not is_name(name):
        raise Denied(
            "bad_skill_name",
            f"{quote_sent(name)} is no name of a skill.",
            hint="A name has 1 to 64 of a-z, 0-9 and hyphens, none at an end and no two together.",
        )
    return name


def read_skill_md(text: str, directory: str) -> tuple[Frontmatter, str]:
    """Parse the file in a directory of this name: its frontmatter, and the body below.

    Raises:
        Denied: It is no valid ``SKILL.md``.
    """
    match = _HEAD.fullmatch(text.replace("\r\n", "\n"))
    if match is None:
        raise bad_skill("SKILL.md does not begin with frontmatter between two lines `---`")
    head, body = match.groups()
    if len(head) > _HEAD_CHARACTERS:
        raise bad_skill(f"its frontmatter has more than {_HEAD_CHARACTERS} characters")
    fields = _read_fields(head)
    if fields.get("name") != directory:
        raise bad_skill(f"its name is {quote_sent(str(fields.get('name')))}, and its directory {quote_sent(directory)}")
    check_name(directory)
    if not str(fields.get("description", "")).strip():
        raise bad_skill("it has no description")
    _check_lengths(fields)
    renamed = {name.replace("-", "_"): value for name, value in fields.items()}
    return read_value(Frontmatter, renamed), body


def write_skill_md(head: Frontmatter, body: str) -> str:
    """The text of a ``SKILL.md``. Raises Denied if a field is too long."""
    _check_lengths(head.as_written())  # a long text takes seconds to write
    written = yaml.safe_dump(head.as_written(), sort_keys=False, allow_unicode=True, width=100)
    return f"---\n{written}---\n\n{body.strip()}\n"


def bad_skill(why: str, hint: str = "") -> Denied:
    """The refusal of a directory that is no valid skill."""
    return Denied("bad_skill", f"This is no skill that can be used: {why}.", hint=hint)


def _check_lengths(fields: Mapping[str, object]) -> None:
    for name, most in _LONGEST.items():
        if len(str(fields.get(name, ""))) > most:
            raise bad_skill(f"its {name} has more than {most} characters")


def _read_fields(head: str) -> dict[str, object]:
    try:
        fields = _mapping_of(head)
    except yaml.YAMLError:
        # Other clients accept a colon in an unquoted text.
        try:
            fields = _mapping_of(_BARE.sub(lambda bare: f"{bare[1]}: {_quote(bare[2])}", head))
        except yaml.YAMLError as error:
            problem = str(getattr(error, "problem", "")) or type(error).__name__
            raise bad_skill(f"its frontmatter is no YAML: {problem[:200]!a}") from error
    if unknown := fields.keys() - {*FIELDS}:
        raise bad_skill(
            f"the format knows no field {join_listed(sorted(map(quote_sent, unknown)))}",
            hint=f"There are: {', '.join(FIELDS)}. Others go below metadata.",
        )
    for name, value in fields.items():
        if isinstance(value, dict) != (name == "metadata"):
            raise bad_skill(f"its {name} is {'a mapping' if isinstance(value, dict) else 'no mapping'}")
    return fields


def _quote(text: str) -> str:
    return "'" + text.strip().replace("'", "''") + "'"


def _mapping_of(head: str) -> dict[str, object]:
    events = _events(head)
    for event in events:
        if isinstance(event, yaml.MappingStartEvent):
            fields = _read_mapping(events, depth=1)
            if any(isinstance(further, yaml.DocumentStartEvent) for further in events):
                break
            return fields
        if isinstance(event, yaml.ScalarEvent | yaml.SequenceStartEvent):
            break
    raise bad_skill("its frontmatter is not one mapping")


def _events(head: str) -> "Iterator[yaml.Event]":
    """The events of the YAML; refused if it uses more than texts in mappings."""
    for number, event in enumerate(yaml.parse(head, Loader=yaml.CSafeLoader)):
        if number > _MOST_EVENTS:
            raise bad_skill(f"its frontmatter has more than {_MOST_EVENTS} parts")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise bad_skill("its frontmatter has anchors or aliases")
        if getattr(event, "tag", None) not in (None, "!"):
            raise bad_skill("its frontmatter has tags")
        yield event


def _read_mapping(events: "Iterator[yaml.Event]", depth: int) -> dict[str, object]:
    fields: dict[str, object] = {}
    for event in events:
        if isinstance(event, yaml.MappingEndEvent):
            return fields
        if not isinstance(event, yaml.ScalarEvent):
            raise bad_skill("a key of its frontmatter is no text")
        if event.value in fields:
            raise bad_skill(f"{quote_sent(event.value)} stands twice in its frontmatter")
        value = next(events)
        if isinstance(value, yaml.ScalarEvent):
            fields[event.value] = value.value
        elif isinstance(value, yaml.MappingStartEvent) and depth == 1:
            fields[event.value] = _read_mapping(events, depth + 1)
        else:
            raise bad_skill(f"{quote_sent(event.value)} in its frontmatter is no text")
    raise bad_skill("its frontmatter ends in a mapping")
