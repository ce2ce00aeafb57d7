"""Tables on a terminal, with rich if it is installed; the type of subcommands."""

from __future__ import annotations

import shutil
import sys
import textwrap
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Protocol


class Subcommands(Protocol):
    """The subcommands of a command line, as argparse makes them."""

    def add_parser(self, name: str, /, *, help: str, description: str) -> ArgumentParser:
        """Adds the parser of a subcommand."""


#: The minimal width of the last column on a narrow terminal.
_LEAST = 24


def show(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table. The last column takes the remaining width, and wraps."""
    if sys.stdout.isatty() and _fits(header, rows):
        try:
            from rich import box
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
        except ImportError:
            pass
        else:
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
            for title in header[:-1]:
                table.add_column(title, no_wrap=True)
            table.add_column(header[-1], overflow="fold")
            for *cells, last in rows:
                # Text, not str: square brackets in a message are not markup.
                style = "green" if last == "ready" else ""
                table.add_row(*map(Text, cells), Text(last, style=style))
            Console().print(table)
            return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(plain(header, rows, width))


def _fits(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Returns whether the table fits the terminal: rich silently drops columns otherwise."""
    *widths, last = (max(map(len, column)) for column in zip(header, *rows, strict=True))
    needed = sum(widths) + 2 * len(widths) + min(last, _LEAST)
    return needed + 2 <= shutil.get_terminal_size().columns


def plain(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Returns the table as text, at most `width` wide; None does not wrap.

    >>> print(plain(["backend", "state"], [["mine", "ready"], ["other", "no driver"]], None))
    backend  state
    mine     ready
    other    no driver
    """
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header) - 1)]
    indent = sum(widths) + 2 * len(widths)
    text: list[str] = []
    for *cells, last in lines:
        start = "".join(f"{cell:<{size}}  " for cell, size in zip(cells, widths, strict=True))
        parts = [last] if width is None else textwrap.wrap(last, max(width - indent, _LEAST))
        first, *others = parts or [""]
        text.append((start + first).rstrip())
        text.extend(" " * indent + other for other in others)
    return "\n".join(text)
