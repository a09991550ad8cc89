"""What a failed program is told to do instead points where something can be done."""

import time

import pytest

from gloveport.engine.hints import find_hint, find_missing_modules
from gloveport.model import Failure, Grant
from gloveport.model.egress import Api, Egress
from gloveport.runtimes import shell, typescript

PYTHON = "Python 3.11 has its standard library, numpy and pandas"
PYPI = Grant(egress=Egress(apis={"pypi": Api(hosts=("pypi.org",))}))
OTHER = Grant(egress=Egress(apis={"other": Api(hosts=("other.test",))}))


def hint(message="", stderr="", grant=OTHER, packages=PYTHON, kind="ModuleNotFoundError"):
    return find_hint(Failure(type=kind, message=message), stderr, grant, packages)


def test_a_package_that_is_not_there_is_told_what_is_there_and_nothing_of_the_network():
    assert hint("No module named 'requests'", grant=Grant()) == f"{PYTHON}; nothing can be installed"
    assert hint("No module named 'requests'").endswith(
        "nothing can be installed but from an index that list_apis names"
    )


@pytest.mark.parametrize(
    "said", ["ERROR: No matching distribution found for x", "error: externally-managed-environment"]
)
def test_where_pypi_is_granted_the_way_to_install_is_told(said):
    assert "pip install --target /tmp/packages" in hint("exit code 1", said, grant=PYPI)
    assert "nothing can be installed" not in hint("exit code 1", said, grant=PYPI)


def test_deno_can_install_nothing_even_where_pypi_is_granted():
    packages = typescript.find(None, "typescript").packages
    assert hint("npm specifiers ...: --no-npm is specified", grant=PYPI, packages=packages).startswith("Deno has ")
    assert hint("Cannot find module 'lodash'", packages=packages).endswith("; nothing can be installed")


def test_a_message_that_stands_there_thousands_of_times_is_read_in_linear_time():
    """P38: the program writes it."""
    text = "Cannot find module\n" + 'Import "a"' * 6500
    began = time.process_time()
    for _ in range(10):
        assert find_missing_modules(Failure(type="Error", message=text, traceback=text)) == ()
    assert time.process_time() - began < 4  # 0.2; before, 8
    said = 'Import "zod@3/v4" not a dependency and not in import map from "file:///run/program.ts"'
    assert find_missing_modules(Failure(type="Error", message=said)) == ("npm:zod",)


def test_who_may_not_write_a_file_hears_where_files_are_kept():
    python = hint("[Errno 30] Read-only file system: '/workspace/a'", kind="OSError")
    assert python == hint("exit code 1", "bash: line 1: /workspace/a: Read-only file system", kind="ExitCode")
    assert python == hint('Requires write access to "/workspace/a"', kind="NotCapable")
    assert "/out" in python


def test_a_shell_program_is_not_told_of_packages_of_its_own():
    told = hint(stderr="No module named requests", packages=shell.find(None).packages, grant=PYPI)
    assert told.startswith("pip install")


def test_what_pandas_would_read_a_file_with_is_to_lie_beside_pandas():
    parquet = "Unable to find a usable engine; tried using: 'pyarrow', 'fastparquet'.\n - `Import pyarrow` failed."
    for said, module in ((parquet, "pyarrow"), ("Missing optional dependency 'openpyxl'.  Use pip", "openpyxl")):
        assert hint(said, kind="ImportError")
        assert find_missing_modules(Failure(type="ImportError", message=said)) == ("pandas", module)
    assert not find_missing_modules(Failure(type="ImportError", message="cannot import name 'x' from 'y'"))


def test_who_looks_for_the_network_is_told_whether_there_is_one():
    said = "[Errno -2] Name or service not known"
    assert hint(said, grant=Grant()).startswith("there is no network here")
    assert "list_apis" in hint(said)


def test_who_looks_for_tools_is_told_how_they_come_and_an_error_of_a_tool_says_it_itself():
    assert "gloveport import" in hint("name 'tools' is not defined", kind="NameError")
    assert hint("Network is unreachable", kind="ToolError") == ""


def test_another_failure_has_no_hint():
    assert hint("division by zero", kind="ZeroDivisionError") == ""
