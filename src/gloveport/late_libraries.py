# ruff: noqa: PLC0414 - an import under its own name is exported
"""Libraries that are imported when they are first used (``late_module``): most programs start without them."""

from typing import TYPE_CHECKING, Final

from gloveport.late_module import late_module

if TYPE_CHECKING:
    import configparser as configparser
    import csv as csv
    import difflib as difflib
    import secrets as secrets
    import shutil as shutil
    import sqlite3 as sqlite3
    import tempfile as tempfile
    import tomllib as tomllib
    from importlib import resources as resources

    import deno as deno
    import idna as idna
    import jsonschema_rs as jsonschema_rs
    import mcp_types as mcp_types
    import platformdirs as platformdirs
    import pydantic as pydantic
    import pydantic_core as pydantic_core
    import yaml as yaml
    from anyio import to_thread as to_thread
    from cryptography import x509 as x509
    from cryptography.hazmat.primitives import serialization as serialization
    from cryptography.hazmat.primitives.serialization import pkcs12 as pkcs12
    from packaging import requirements as requirements
    from packaging import specifiers as specifiers
    from packaging import tags as tags
    from packaging import utils as utils
    from packaging import version as version
    from pydantic_core import core_schema as core_schema
else:
    _PARENTS: Final = {
        "core_schema": "pydantic_core",
        "pkcs12": "cryptography.hazmat.primitives.serialization",
        "requirements": "packaging",
        "resources": "importlib",
        "serialization": "cryptography.hazmat.primitives",
        "specifiers": "packaging",
        "tags": "packaging",
        "to_thread": "anyio",
        "utils": "packaging",
        "version": "packaging",
        "x509": "cryptography",
    }

    def __getattr__(name: str) -> object:
        if name.startswith("__"):  # the import system looks for some
            raise AttributeError(name)
        return late_module(f"{_PARENTS[name]}.{name}" if name in _PARENTS else name)
