"""Keeps the tables of docs/dtypes.md as `pullback.dtypes` has it: uv run docs/dtype_tables.py

The tables stand in the page, for it is read without the site too; a test compares them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pullback import dtypes, errors
from pullback.dtypes import ALL

PAGE = Path(__file__).parent / "dtypes.md"


def brief(dtype: Any) -> str:
    """A dtype in the table of promotion."""
    return re.sub(r"^([a-z]+?)(loat|nt|omplex|ool)(?=\d|$)", r"\1", dtype.name)


def promotion() -> str:
    """The dtype of a result, for every pair."""
    lines = ["| | " + " | ".join(map(brief, ALL)) + " |", "|---|" + "---|" * len(ALL)]
    for a in ALL:
        cells = []
        for b in ALL:
            try:
                cells.append(brief(dtypes.promote_types(a, b)))
            except errors.DTypeError:
                cells.append("-")
        lines.append(f"| **{brief(a)}** | {' | '.join(cells)} |")
    return "\n".join(lines)


def scalars() -> str:
    """The dtype of a tensor and a Python number."""
    kinds = (bool, int, float, complex)
    lines = [
        "| | " + " | ".join(f"`{kind.__name__}`" for kind in kinds) + " |",
        "|---|---|---|---|---|",
    ]
    for a in ALL:
        lines.append(
            f"| {a} | {' | '.join(str(dtypes.promote([a, kind])) for kind in kinds)} |"
        )
    return "\n".join(lines)


def sums() -> str:
    """The dtype of a sum."""
    changed = [a for a in ALL if dtypes.accumulated(a) != a]
    lines = ["| values | sum, prod |", "|---|---|"]
    lines += [f"| {a} | {dtypes.accumulated(a)} |" for a in changed]
    return "\n".join([*lines, "| every other | its own |"])


def with_tables(text: str) -> str:
    """The text with its tables up to date."""
    for table in (promotion, scalars, sums):
        text, count = re.subn(
            rf"(<!-- {table.__name__} -->).*?(<!-- end -->)",
            lambda match, table=table: f"{match[1]}\n{table()}\n{match[2]}",
            text,
            flags=re.DOTALL,
        )
        if count != 1:
            raise SystemExit(
                f"docs/dtypes.md has no place for the table {table.__name__}"
            )
    return text


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
