"""The cases of `ops.py`: expressions in tables, and the sizes, dtypes and layouts of each.

A table is a text file. A line has the expression of pullback, and after `||` those of PyTorch and
of NumPy, and options of its own. An expression that is left out is pullback's with the other name,
and `-` says that there is none. A line in brackets says what holds for those below it:

    [rows: float, int; no gradient]

the family of shapes (`inputs.py` says what each name is), the dtypes, and options: `no gradient`;
`up to N` elements; `random` for values that cannot be compared; `uncaptured` for what no program
can hold; `no numpy`. After `where` stands what is made once, before anything is timed.
"""

from __future__ import annotations

import ast
import functools
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ops_cases.inputs import DIFFERENTIABLE, DTYPES, FAMILIES, specs

SIZES = (10, 1_000, 100_000, 1_000_000)
LARGEST = 10_000_000
#: Of so many cases of the elementwise tables one is repeated with as many elements as `LARGEST`.
SAMPLED = 12
FRAMEWORKS = {"pullback": "pb", "torch": "torch", "numpy": "np"}


class Row(NamedTuple):
    """A line of a table."""

    table: str
    family: str
    dtypes: tuple[str, ...]
    options: tuple[str, ...]
    expressions: dict[str, str]  # by framework; without those that have none

    @property
    def most(self) -> int:
        """The most elements that it runs with."""
        found = [option for option in self.options if option.startswith("up to ")]
        return int(float(found[0][6:])) if found else LARGEST

    @property
    def gradient(self) -> bool:
        return "no gradient" not in self.options


class Case(NamedTuple):
    """An expression with inputs of one size, dtype and layout."""

    row: Row
    n: int
    dtype: str
    layout: str

    @property
    def key(self) -> str:
        expression = self.row.expressions["pullback"]
        return f"{expression} | {self.row.family} {self.n:.0e} {self.dtype} {self.layout}"

    def question(self, framework: str) -> dict[str, Any]:
        """The case as a worker reads it."""
        return {
            "expression": self.row.expressions[framework],
            "family": self.row.family, "n": self.n, "dtype": self.dtype, "layout": self.layout,
            "gradient": self.row.gradient and bool(self.sources()),
            "captured": "uncaptured" not in self.row.options,
            "sources": self.sources(),
        }  # fmt: skip

    def sources(self) -> list[str]:
        """The inputs that have a gradient."""
        if not self.dtype.startswith(("float", "bfloat", "complex")):
            return []
        known = specs(self.row.family, self.n, self.layout)
        used = names(self.row.expressions["pullback"])
        if "torch" in self.row.expressions:
            used &= names(self.row.expressions["torch"])
        return sorted(name for name in used if name in known and known[name].kind in DIFFERENTIABLE)


@functools.cache
def parts(expression: str) -> tuple[str, str]:
    """The expression that is timed, and the statements that run once before."""
    body, _, setup = expression.partition(" where ")
    return body, setup


@functools.cache
def names(expression: str) -> frozenset[str]:
    """The names that an expression reads, and does not make itself."""
    body, setup = parts(expression)
    nodes = list(ast.walk(ast.parse(f"{setup}\n{body}")))
    found = [node for node in nodes if isinstance(node, ast.Name)]
    changed = {n.target.id for n in nodes if isinstance(n, ast.AugAssign)}
    own = {one.id for one in found if isinstance(one.ctx, ast.Store)} - changed
    own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return frozenset({one.id for one in found} - own)


@functools.cache
def changes(expression: str) -> bool:
    """True for an expression that writes into its inputs."""
    return any(
        isinstance(node, ast.AugAssign)
        or (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store))
        for node in ast.walk(ast.parse(parts(expression)[0]))
    )


def translated(expression: str, framework: str) -> str:
    return re.sub(r"\bpb\.", FRAMEWORKS[framework] + ".", expression)


def read(path: Path) -> Iterator[Row]:
    """The rows of a table."""
    family, dtypes, options = "", (), ()
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("["):
            head, *options = (part.strip() for part in line.strip("[]").split(";"))
            family, _, kinds = head.partition(": ")
            dtypes = tuple(dtype for kind in kinds.split(", ") for dtype in DTYPES[kind])
            continue
        cells = [cell.strip() for cell in line.split("||")]
        expressions = {"pullback": cells[0]}
        for framework, position in (("torch", 1), ("numpy", 2)):
            cell = cells[position] if position < len(cells) and cells[position] else None
            if cell != "-" and f"no {framework}" not in options:
                expressions[framework] = cell or translated(cells[0], framework)
        more = [part.strip() for part in cells[3].split(";")] if len(cells) > 3 else []
        yield Row(path.stem, family, dtypes, (*options, *more), expressions)


@functools.cache
def table() -> tuple[Row, ...]:
    """All rows."""
    return tuple(row for path in sorted(Path(__file__).parent.glob("*.txt")) for row in read(path))


def design(seed: int = 0) -> list[Case]:
    """Every row with every size and every dtype, not with every pair of them.

    The first dtype has all sizes, every other one a small or a large one. Every other case is
    contiguous; the rest take the layouts of their family in turn.
    """
    random_ = random.Random(seed)
    cases = []
    for row in table():
        layouts = FAMILIES[row.family][1]
        sizes = [size for size in SIZES if size <= row.most]
        first, *others = row.dtypes
        chosen = [(size, first) for size in sizes]
        halves = [sizes[: (len(sizes) + 1) // 2], sizes[len(sizes) // 2 :]]
        turn = random_.randrange(2)
        chosen += [
            (random_.choice(halves[(turn + i) % 2]), dtype) for i, dtype in enumerate(others)
        ]
        if row.most >= LARGEST and not random_.randrange(SAMPLED):
            chosen.append((LARGEST, first))
        plain = random_.randrange(2)
        start = random_.randrange(len(layouts))
        for i, (size, dtype) in enumerate(chosen):
            other = layouts[1:][(start + i // 2) % (len(layouts) - 1)] if layouts[1:] else ""
            # Nobody can write into an array whose elements share their memory.
            shared = other == "broadcast" and changes(row.expressions["pullback"])
            layout = layouts[0] if i % 2 == plain or not other or shared else other
            cases.append(Case(row, size, dtype, layout))
    random_.shuffle(cases)
    return cases
