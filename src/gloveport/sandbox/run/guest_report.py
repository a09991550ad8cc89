"""Reads a guest's report about a program, within bounds: it is a hostile text."""

import msgspec

from gloveport.model.json_value import JsonValue

_ESCAPED = 6  # the most bytes of JSON for one byte of text
_REPORT_BYTES = 512 * 1024  # the largest report, without its value


def report_bytes(value_bytes: int) -> int:
    """The most bytes to read of a report whose value may have so many."""
    return _ESCAPED * value_bytes + _REPORT_BYTES


def exit_code_in(report: JsonValue) -> int | None:
    """The exit code in a report, if it is a possible one."""
    code = report.get("exit_code") if isinstance(report, dict) else None
    return code & 0xFF if isinstance(code, int) else 1


def bound_value(report: JsonValue, value_bytes: int) -> JsonValue:
    """``report`` with a value that can be encoded as JSON, and is no larger than an honest guest's.

    The guest limits a text before it is quoted. A number beyond every float was read as infinity: it becomes null.
    """
    if not isinstance(report, dict) or report.get("value") is None:
        return report
    value = msgspec.json.encode(report["value"])
    if len(value) > 2 * value_bytes + 2:
        return {**report, "value": None, "value_truncated": True}
    return {**report, "value": msgspec.json.decode(value)}
