"""The words of the reference: what docstrings, signatures and the definitions of ops say."""

from __future__ import annotations

import inspect
import re
from typing import Any

from pullback.spec import Op
from pullback_conformance.cli import contract
from pullback_conformance.cli.contract import (
    accuracy,
    dtype_rule,
    first_line,
    gradient,
    kernel_signature,
    shape_rule,
)

__all__ = ["dtype_rule", "first_line", "shape_rule"]

#: The columns of code that fit a page.
WIDTH = 88


def markdown(doc: str | None) -> str:
    """A docstring as Markdown: examples as code, arguments and errors as lists."""
    lines: list[str] = []
    inside = False
    for line in inspect.cleandoc(doc or "").splitlines():
        starts = line.lstrip().startswith(">>>")
        if starts and not inside:
            lines += ["", "```pycon"]
        elif inside and not line.strip():
            lines.append("```")
        inside = (inside or starts) and bool(line.strip())
        if inside:
            lines.append(line)
        elif section := re.fullmatch(r"(Args|Raises|Returns):", line):
            lines += [
                "",
                f"**{'Arguments' if section[1] == 'Args' else section[1]}**",
                "",
            ]
        elif entry := re.match(r" {4}([*\w]+(?:, \w+)*): (.*)", line):
            lines.append(f"- `{entry[1]}`: {plain(entry[2])}")
        else:
            # Under an entry the line goes on; under a heading it is text, not code.
            lines.append(
                plain(re.sub(r"^ {8}(?=\S)", "  ", re.sub(r"^ {4}(?=\S)", "", line)))
            )
    return "\n".join([*lines, "```"] if inside else lines).strip()


def plain(line: str) -> str:
    """A line of text in which an asterisk is an asterisk."""
    parts = line.split("`")
    return "`".join(p if i % 2 else p.replace("*", "\\*") for i, p in enumerate(parts))


def call(name: str, function: Any) -> str:
    """The signature as a block of code; one parameter a line where it is long."""
    text = contract.call(name, function)
    if len(text) > WIDTH:
        parts = re.match(r"(.*?\()(.*)(\).*)", text)
        assert parts is not None
        # Commas inside brackets belong to an annotation.
        inner = re.sub(r", (?![^\[(]*[\])])", ",\n    ", parts[2])
        text = f"{parts[1]}\n    {inner},\n{parts[3]}"
    return f"```python\n{text}\n```\n"


def facts(op: Op) -> str:
    """The table of what the definition says of an op."""
    rows = {
        "Dtypes": dtype_rule(op),
        "Shape": shape_rule(op),
        "Gradient": gradient(op),
    }
    if len(op.outputs) > 1:
        rows["Results"] = ", ".join(f"`{one}`" for one in op.outputs)
    if op.residuals:
        rows["Residuals"] = ", ".join(f"`{one}`" for one in op.residuals)
    rows["Accuracy"] = accuracy(op)
    rows["Kind"] = kind(op)
    rows["Kernel"] = f"`{kernel_signature(op)}`"
    lines = [f"| {label} | {escaped(value)} |" for label, value in rows.items()]
    return "\n".join(["| the op | |", "|---|---|", *lines, ""])


def kind(op: Op) -> str:
    """Primitive, with its tier and reason, or composite."""
    return (
        f"primitive, {op.tier} tier. {plain(op.why)}".strip()
        if op.primitive
        else "composite"
    )


def escaped(text: str) -> str:
    """Markdown for a cell of a table."""
    return text.replace("|", "\\|")


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return escaped(plain(text))
