"""HTML of tensors and of tables, as notebooks show them: `_repr_html_` of public classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Literal

import numpy as np

from pullback._printing import printed

__all__ = ["array_html", "table_html"]

#: Rows and columns of values that are all shown; of more the first and the last ones.
_ALL = 12
_EDGE = 5
#: The most rows of any other table.
_ROWS = 200
_GAP = "…"


def array_html(title: str, values: np.ndarray[Any, Any]) -> str:
    """The HTML of an array: a table for one or two axes, NumPy's text for any other number.

    The size of the HTML does not grow with that of the array.
    """
    if values.ndim not in (1, 2) or not values.size:
        return f"{_title(title)}<pre>{escape(printed(values))}</pre>"
    matrix = values if values.ndim == 2 else values[None]
    rows, columns = _shown(len(matrix)), _shown(matrix.shape[1])
    kept = [i for i in rows if i is not None]
    part = matrix[[[i] for i in kept], [j for j in columns if j is not None]]
    cells = iter(_texts(part))

    def row(i: int | None) -> list[str]:
        if i is None:
            return [_GAP for _ in columns]
        return [_GAP if j is None else next(cells) for j in columns]

    head = [_GAP if j is None else str(j) for j in columns]
    labels = [_GAP if i is None else str(i) for i in rows] if values.ndim == 2 else [""]
    return _title(title) + _table(
        ["", *head], [[label, *row(i)] for label, i in zip(labels, rows, strict=True)], "right"
    )


def table_html(
    title: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    align: Literal["left", "right"] = "left",
) -> str:
    """The HTML of a table with a line of text above it; of many rows the first and last ones."""
    listed = list(rows)
    if len(listed) > _ROWS:
        half = _ROWS // 2
        listed = [*listed[:half], [_GAP for _ in head], *listed[-half:]]
    return _title(title) + _table(head, listed, align)


def _shown(size: int) -> list[int | None]:
    """The indices to show; None for those that are left out."""
    if size <= _ALL:
        return list(range(size))
    return [*range(_EDGE), None, *range(size - _EDGE, size)]


def _texts(values: np.ndarray[Any, Any]) -> list[str]:
    """The text of each value, with the digits that NumPy chooses for all of them."""
    text = printed(
        values.reshape(-1), separator="\t", threshold=values.size + 1, max_line_width=10**9
    )
    return [cell.strip() for cell in text[1:-1].split("\t")]


def _title(text: str) -> str:
    return f"<div>{escape(text)}</div>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    lines = [_row("th", head, align), *[_row("td", row, align) for row in rows]]
    return f"<table><thead>{lines[0]}</thead><tbody>{''.join(lines[1:])}</tbody></table>"


def _row(tag: str, cells: Sequence[str], align: str) -> str:
    # In each cell, or the notebook's own style counts. Leading blanks show what is inside what.
    style = f"text-align:{align};white-space:pre"
    parts = [f'<{tag} style="{style}">{escape(cell)}</{tag}>' for cell in cells]
    return f"<tr>{''.join(parts)}</tr>"
