"""The module ``skills``: ``from skills import sales_report``, and ``sales_report(month=11)`` runs that skill.

It runs in a sandbox of its own, under rights of its own, and its value comes back. The host is not asked before a skill
is called or looked at.
"""

import sys
from types import ModuleType

from gloveport_tools.results import SkillError
from gloveport_tools.tree import check_name, documentation_of, merge_arguments, parameters_of, text_or_error


class SkillsFinder:
    """Makes the module when a program imports it, unless another module has that name."""

    def __init__(self, host):
        self._host = host

    def find_spec(self, name, _path=None, _target=None):
        """See ``importlib.abc.MetaPathFinder``."""
        return type(sys.__spec__)(name, self) if name == "skills" else None

    def create_module(self, _spec):
        """See ``importlib.abc.Loader``."""
        return SkillsModule(self._host)

    def exec_module(self, _module):
        """See ``importlib.abc.Loader``: there is nothing left to do."""


class SkillsModule(ModuleType):
    """Skills by attribute, with ``_`` for each hyphen, or by their own name: ``skills["sales-report"]``."""

    def __init__(self, host):
        super().__init__("skills", "The skills that this program may call. `print(skills)` shows their names.")
        self.__dict__.update(SkillError=SkillError, _host=host)

    def __getattr__(self, name):
        return Skill(self._host, check_name(self, name))

    def __getitem__(self, name):
        return Skill(self._host, name)

    def __dir__(self):
        return [name.replace("-", "_") for name in self._host.ask("skills", "skills")["names"]]

    def __repr__(self):
        return text_or_error("skills", names_of, self._host)


class Skill:
    """A skill. Call it with its parameters by name; ``await skill.aio(…)`` does without blocking."""

    def __init__(self, host, name):
        self._host = host
        self.__name__ = self.__qualname__ = name

    def __call__(self, *arguments, **named):
        """Run it, and return its value, or what it printed where it has none."""
        return self._host.ask(self.__name__, "run_skill", **self._request(arguments, named))["value"]

    async def aio(self, *arguments, **named):
        """Run it while others go on."""
        return (await self._host.aio(self.__name__, "run_skill", **self._request(arguments, named)))["value"]

    def _request(self, arguments, named):
        return {"skill": self.__name__, "arguments": merge_arguments(self.__name__, arguments, named)}

    def describe(self):
        """All that is known of it, its schema and whether it is approved among that."""
        return self._host.ask(self.__name__, "describe_skill", skill=self.__name__)

    __doc__ = property(documentation_of)
    __signature__ = property(parameters_of)

    def __repr__(self):
        return text_or_error(f"skills.{self.__name__}", declaration_of, self)


def names_of(host):
    """The names of all skills as a text."""
    answer = host.ask("skills", "skills")
    more = f"\nand {answer['total'] - len(answer['names'])} more" if answer["total"] > len(answer["names"]) else ""
    return "\n".join(answer["names"]) + more if answer["names"] else "There are no skills."


def declaration_of(skill):
    """A skill as a text: its typed declaration."""
    return skill.describe()["python"].rstrip()
