"""Reads what a guest reports of a program, within bounds: it is a hostile text."""

import msgspec

from gloveport.model.json_value import JsonValue

_ESCAPED = 6  # most bytes of JSON that one byte of text becomes
_REPORT_BYTES = 512 * 1024  # most of a report besides its value


def report_bytes(value_bytes: int) -> int:
    """Most that is read of a report whose value may have so many bytes."""
    return _ESCAPED * value_bytes + _REPORT_BYTES


def exit_code_in(report: JsonValue) -> int | None:
    """The exit code that a report tells, as far as it can be one."""
    code = report.get("exit_code") if isinstance(report, dict) else None
    return code & 0xFF if isinstance(code, int) else 1


def bound_value(report: JsonValue, value_bytes: int) -> JsonValue:
    """``report`` with a value that can be written as JSON, and no larger than an honest guest's.

    The guest limits a text before it is quoted. A number beyond every float was read as infinity: it becomes null.
    """
    if not isinstance(report, dict) or report.get("value") is None:
        return report
    value = msgspec.json.encode(report["value"])
    if len(value) > 2 * value_bytes + 2:
        return {**report, "value": None, "value_truncated": True}
    return {**report, "value": msgspec.json.decode(value)}
