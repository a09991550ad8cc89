"""Encodes JSON in ASCII, as ``json.dumps`` does, without its detours: on the way of a short run these take longer."""

import json
from json import encoder

_default = json.JSONEncoder().default
_SORTS_KEYS = _SKIPS_KEYS = _ALLOWS_NAN = False


def encode_json(value: object) -> str:
    """The value without a space outside of its strings, all of it ASCII.

    Raises:
        TypeError: It is no JSON value.
        ValueError: It holds itself, or a number that is none or infinite.
        RecursionError: It nests too deeply.
    """
    make_parts = encoder.c_make_encoder(  # type: ignore[attr-defined]
        {}, _default, encoder.encode_basestring_ascii, None, ":", ",", _SORTS_KEYS, _SKIPS_KEYS, _ALLOWS_NAN
    )
    return "".join(make_parts(value, 0))
