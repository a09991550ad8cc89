"""The programs that are measured, each with what it must print."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Unavailable
from gloveport.model import Language


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program and the proof that it ran."""

    language: Language
    code: str
    prints: str


PYTHON = Program(language="python", code="print(1)", prints="1\n")

ASYNCIO = Program(language="python", code="import asyncio\nprint(1)", prints="1\n")

PANDAS = Program(
    language="python",
    code="""import pandas
sales = pandas.DataFrame({"shop": ["a", "b", "a"], "sum": [1, 2, 3]})
print(sales.groupby("shop")["sum"].sum().to_dict())""",
    prints="{'a': 4, 'b': 2}\n",
)

TYPESCRIPT = Program(
    language="typescript",
    code="""interface Sale {
  shop: string;
  sum: number;
}

function total(sales: Sale[]): Map<string, number> {
  const totals = new Map<string, number>();
  for (const { shop, sum } of sales) totals.set(shop, (totals.get(shop) ?? 0) + sum);
  return totals;
}

const sales: Sale[] = [{ shop: "a", sum: 1 }, { shop: "b", sum: 2 }, { shop: "a", sum: 3 }];
console.log(JSON.stringify([...total(sales)]));
""",
    prints='[["a",4],["b",2]]\n',
)

SHELL = Program(language="shell", code="echo 1", prints="1\n")


def every_kind() -> list[Program]:
    """A program for each kind of sandbox that waits on this host."""
    return [PYTHON, ASYNCIO, SHELL, TYPESCRIPT, *([PANDAS] if importlib.util.find_spec("pandas") else [])]


def packages() -> Path:
    """The directory that holds pandas, which programs see too.

    Raises:
        Unavailable: It is not installed.
    """
    found = importlib.util.find_spec("pandas")
    if found is None or found.origin is None:
        raise Unavailable("pandas is not installed", "pip install 'gloveport[data]'")
    return Path(found.origin).parent.parent
