"""Renders the state of a session as a few lines for a model. Texts of its interpreter are bounded, one line each."""

from collections.abc import Sequence

from gloveport.model import SessionState, Variable

_MOST_NAMES = 20


def session_lines(session: SessionState) -> list[str]:
    """Render id, state, what happened to the session, and what the call changed."""
    head = f"session {session.id}: {session.state}, generation {session.generation}"
    if session.expires_at:
        head += f", expires {session.expires_at}"
    lines = [head]
    if session.why:
        undone = f"; {session.undone} call{'' if session.undone == 1 else 's'} undone" if session.undone else ""
        lines.append(f"{'note' if session.state == 'kept' else 'why'}: {session.why}{undone}")
    if session.narrowed:
        lines.append(f"taken back by the configuration: {', '.join(session.narrowed[:_MOST_NAMES])}")
    if session.variables:
        lines.append(f"changed: {variables_text(session.variables)}")
    if session.removed:
        lines.append(f"removed: {', '.join(session.removed[:_MOST_NAMES])}")
    if session.checkpoint:
        lines.append(f"can't be rewound to: {session.checkpoint}")
    return lines


def variables_text(variables: Sequence[Variable]) -> str:
    """Render variables in one line."""
    texts = [_variable_text(one) for one in variables[:_MOST_NAMES]]
    more = len(variables) - _MOST_NAMES
    return "; ".join([*texts, *([f"and {more} more"] if more > 0 else [])])


def _variable_text(one: Variable) -> str:
    size = f" {one.bytes} bytes" if one.bytes is not None else ""
    shape = f"[{one.shape}]" if one.shape else ""
    preview = f" = {one.preview}" if one.preview else ""
    return f"{one.name}: {one.type}{shape}{size}{preview}"
