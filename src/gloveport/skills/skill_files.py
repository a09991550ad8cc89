"""Parses and checks the files of a skill, and makes the files of a new one.

SKILL.md                            for any client: what, when, and how to run it, with Gloveport or without
scripts/main.py                     the program (.ts, .js, .sh)
references/parameters.schema.json   its parameters
references/grant.json               the rights it needs, at most those of the policy
references/examples.json            successful runs
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import pydantic_core
from msgspec import Struct
from pydantic import ValidationError

from gloveport.limits.untrusted_json import has_many_values
from gloveport.model import LANGUAGES, Language
from gloveport.model.json_value import JsonValue
from gloveport.model.pydantic_models import validate
from gloveport.model.skill import SkillGrant, SkillParameter
from gloveport.model.value import Value
from gloveport.skills.frontmatter import FILE, MOST_BYTES, Frontmatter, bad_skill, read_skill_md, write_skill_md
from gloveport.skills.parameters import ParameterLiteral, find_parameters, schema_of
from gloveport.skills.snapshot import Snapshot

ENTRY, LANGUAGE, GRANT, SCHEMA, VERSION, MADE_BY, EXAMPLES = (
    f"gloveport.{name}" for name in ("entry", "language", "grant", "parameters", "version", "made-by", "examples")
)
"""Keys of ours, below ``metadata``."""

GRANT_FILE: Final = "references/grant.json"
SCHEMA_FILE: Final = "references/parameters.schema.json"
EXAMPLES_FILE: Final = "references/examples.json"
MOST_EXAMPLES: Final = 16

_SUFFIXES: Final[Mapping[Language, str]] = {"python": "py", "typescript": "ts", "javascript": "js", "shell": "sh"}
_ALONE: Final[Mapping[Language, str]] = {
    "python": "uv run scripts/main.py",
    "typescript": "deno run scripts/main.ts",
    "javascript": "deno run scripts/main.js",
    "shell": "bash scripts/main.sh",
}
_MOST_VALUES: Final = 50_000

Parsed = TypeVar("Parsed")


class Example(Value):
    """An example: a successful run of a skill."""

    arguments: Mapping[str, JsonValue] = {}
    files: Mapping[str, str] = {}
    """Files in its working directory, in base64 by relative path."""
    value: JsonValue = None
    stdout: str = ""
    """Empty if there is a value; long output is cut."""
    exact: bool = True
    """Whether each run has this very result, since it used no rights. Else the result has the same shape."""


class Skill(Struct, frozen=True, kw_only=True):
    """A skill, read as a whole at one moment.

    Attributes:
        snapshot: All of its files.
        head: The frontmatter of ``SKILL.md``.
        body: The text below.
        language: Language of its program; None if it has none that can be run here.
        marked: Its parameters, with their places in the program.
    """

    snapshot: Snapshot
    head: Frontmatter
    body: str
    language: Language | None
    code: str
    marked: Sequence[ParameterLiteral]
    grant: SkillGrant
    examples: tuple[Example, ...]

    @property
    def name(self) -> str:
        """Its name, the same as its directory's."""
        return self.head.name

    @property
    def parameters(self) -> Sequence[SkillParameter]:
        """Its parameters, in order."""
        return [one.parameter for one in self.marked]

    @property
    def version(self) -> int:
        """Its own claim of a version."""
        text = self.head.metadata.get(VERSION, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 1


def parse_skill(snapshot: Snapshot) -> Skill:
    """Parse the files of a skill's directory. Raises Denied if it is no skill, or contradicts itself."""
    if len(snapshot.files.get(FILE, b"")) > MOST_BYTES:
        raise bad_skill(f"{FILE} has more than {MOST_BYTES} bytes")
    head, body = read_skill_md(snapshot.text(FILE), snapshot.name)
    metadata = head.metadata
    language = next((one for one in LANGUAGES if one == metadata.get(LANGUAGE)), None)
    if LANGUAGE in metadata and language is None:
        raise bad_skill(f"its language is none of {', '.join(LANGUAGES)}")
    code = snapshot.text(metadata.get(ENTRY, "")) if language else ""
    return Skill(
        snapshot=snapshot,
        head=head,
        body=body,
        language=language,
        code=code,
        marked=find_parameters(language, code) if language else (),
        grant=_read_json(snapshot, metadata.get(GRANT), SkillGrant, SkillGrant()),
        examples=_read_json(snapshot, metadata.get(EXAMPLES), tuple[Example, ...], ()),
    )


def make_files(
    name: str,
    description: str,
    language: Language,
    code: str,
    *,
    grant: SkillGrant,
    examples: Sequence[Example] = (),
    version: int = 1,
    made_by: str = "",
) -> dict[str, bytes]:
    """The files of a new skill.

    Raises:
        Denied: They would be no valid skill: the description is too long or no text, a parameter is no literal.
    """
    try:
        description.encode()
    except UnicodeEncodeError:
        raise bad_skill("its description is no UTF-8 text") from None
    entry = f"scripts/main.{_SUFFIXES[language]}"
    metadata = {ENTRY: entry, LANGUAGE: language, SCHEMA: SCHEMA_FILE, GRANT: GRANT_FILE, VERSION: str(version)}
    metadata |= {EXAMPLES: EXAMPLES_FILE} if examples else {}
    metadata |= {MADE_BY: made_by} if made_by else {}
    parameters = [one.parameter for one in find_parameters(language, code)]
    head = Frontmatter(name=name, description=" ".join(description.split()), metadata=metadata)
    files = {
        FILE: write_skill_md(head, _body(head, language, parameters)).encode(),
        entry: code.encode("utf-8", "replace"),
        SCHEMA_FILE: _as_json(schema_of(parameters)),
        GRANT_FILE: _as_json(_plain(grant)),
    }
    if examples:
        files[EXAMPLES_FILE] = _as_json([_plain(one) for one in examples[:MOST_EXAMPLES]])
    parse_skill(Snapshot(name, files))  # write nothing that can't be parsed
    return files


def with_grant(skill: Skill, grant: SkillGrant, example: Example) -> dict[str, bytes]:
    """The files of a skill's next version, with another grant, and with the run that it was learned from as an example.

    Raises:
        Denied: It would be none.
    """
    others = [one for one in skill.examples if one.arguments != example.arguments]
    examples = [_plain(one) for one in (example, *others)[:MOST_EXAMPLES]]
    files = {GRANT_FILE: _as_json(_plain(grant)), EXAMPLES_FILE: _as_json(examples)}
    return _next_version(skill, skill.body, {GRANT: GRANT_FILE, EXAMPLES: EXAMPLES_FILE}, files)


def with_code(skill: Skill, code: str) -> dict[str, bytes]:
    """The files of a skill's next version, with another program and the same grant.

    Raises:
        Denied: It would be none.
    """
    if skill.language is None:
        raise bad_skill("it has no program", hint="Save another.")
    metadata = skill.head.metadata
    parameters = [one.parameter for one in find_parameters(skill.language, code)]
    generated_body = _body(skill.head, skill.language, skill.parameters).strip()
    body = _body(skill.head, skill.language, parameters) if skill.body.strip() == generated_body else skill.body
    files = {metadata[ENTRY]: code.encode("utf-8", "replace")}
    if SCHEMA in metadata:
        files[metadata[SCHEMA]] = _as_json(schema_of(parameters))
    return _next_version(skill, body, {}, files)


def _next_version(skill: Skill, body: str, metadata: Mapping[str, str], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a skill, with these in place of those of the same names."""
    metadata = {**skill.head.metadata, VERSION: str(skill.version + 1), **metadata}
    text = write_skill_md(skill.head.model_copy(update={"metadata": metadata}), body)
    every = {**skill.snapshot.files, FILE: text.encode(), **files}
    parse_skill(Snapshot(skill.name, every))
    return every


def _body(head: Frontmatter, language: Language, parameters: Sequence[SkillParameter]) -> str:
    arguments = json.dumps({one.name: one.default for one in parameters}, ensure_ascii=False)
    options = "".join(f" --set {one.name}={shlex.quote(json.dumps(one.default))}" for one in parameters)
    rows = "".join(
        f"| `{one.name}` | {one.type} | `{json.dumps(one.default)}` | {one.description} |\n" for one in parameters
    )
    table = f"\n| parameter | type | default | |\n|---|---|---|---|\n{rows}" if parameters else ""
    return f"""# {head.name}

{head.description}
{table}
With Gloveport, call the tool `run_skill` with this name and `arguments`, such as `{arguments}`; in a
terminal, `gloveport skills run {head.name}{options}`.

Without Gloveport: `{_ALONE[language]}`, with the parameters as they stand in the file.
"""


def _plain(value: Value) -> JsonValue:
    return value.model_dump(mode="json", exclude_defaults=True)


def _as_json(value: object) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _read_json(snapshot: Snapshot, path: str | None, form: type[Parsed], default: Parsed) -> Parsed:
    if path is None:
        return default
    text = snapshot.text(path)
    try:
        if has_many_values(text.encode(), _MOST_VALUES):
            raise bad_skill(f"{path} has more than {_MOST_VALUES} values")
        found: Parsed = validate(form, pydantic_core.from_json(text))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise bad_skill(f"{path} is not what it should be: {where[:80]!a}: {fault['msg'][:200]}") from error
    except ValueError as error:
        raise bad_skill(f"{path} is no JSON") from error
    return found
