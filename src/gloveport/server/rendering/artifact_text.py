"""Renders a program's artifacts as a few lines of text for a model."""

from gloveport.model.artifact import Artifact, Artifacts

_MOST_FILES = 24


def artifact_lines(artifacts: Artifacts) -> list[str]:
    """Write a line for each file: path, type, size, URI, and a note."""
    if not artifacts.files and not artifacts.left_out:
        return []
    lines: list[str] = []
    if artifacts.files:
        minutes, first = artifacts.expires_in_seconds / 60, artifacts.files[0].uri
        lines.append(f"artifacts, kept {minutes:g} min; read_artifact(uri={first!r}) reads the first:")
    lines += [f"{number}. {describe_artifact(one)}" for number, one in enumerate(artifacts.files[:_MOST_FILES], 1)]
    if (more := len(artifacts.files) - _MOST_FILES) > 0:
        lines.append(f"and {more} more")
    if artifacts.directory:
        lines.append(f"in the workspace, too: {artifacts.directory}/")
    lines += [f"not written to the workspace: {line}" for line in artifacts.not_written]
    lines += [f"not kept: {line}" for line in artifacts.left_out]
    if (more := artifacts.left_out_total - len(artifacts.left_out)) > 0:
        lines.append(f"not kept: {more} more")
    return lines


def describe_artifact(one: Artifact) -> str:
    """Describe one file in one line."""
    size = f", {one.width}x{one.height}" if one.width is not None else ""
    line = f"{one.path} ({one.mime_type}{size}, {one.bytes} bytes)"
    if one.about:
        line += f": {one.about}"
    return f"{line} (not shown: {one.not_shown})" if one.not_shown else line
