"""Many cases in one test: to collect, start and report one costs pytest more than most of them take."""

import functools
from collections.abc import Callable, Iterable


def for_each(names: str, cases: Iterable) -> Callable[[Callable], Callable]:
    """As ``pytest.mark.parametrize``, but one test. Of a case that fails, the report says which it is."""
    arguments = [name.strip() for name in names.split(",")]
    known = [case if len(arguments) > 1 else (case,) for case in cases]
    assert known

    def decorate(test: Callable) -> Callable:
        def try_each(*own, **outer) -> None:
            for case in known:
                given = dict(zip(arguments, case, strict=True))
                try:
                    test(*own, **outer, **given)
                except BaseException as error:
                    error.add_note(f"with {given!r}")
                    raise

        # Without __wrapped__, in whose signature pytest would look for fixtures.
        for name in functools.WRAPPER_ASSIGNMENTS:
            setattr(try_each, name, getattr(test, name))
        return try_each

    return decorate
