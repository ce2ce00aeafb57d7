"""The words of the reference: what docstrings, signatures and the definitions of ops say."""

from __future__ import annotations

import inspect
import re
from typing import Any

from pullback import dtypes
from pullback.spec import Op

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


def first_line(thing: Any) -> str:
    """The first line of a docstring; nothing where there is none."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def shape_rule(op: Op) -> str:
    """The shape rule: its name, and what it says of itself."""
    says = first_line(op.shape)
    return f"`{op.shape.__name__.lstrip('_')}`" + (f": {lower(says)}" if says else "")


def dtype_rule(op: Op) -> str:
    """The dtype rule: its name where `pullback.dtypes` gives it one, and what it says."""
    rule = op.dtype
    named = [name for name, value in vars(dtypes).items() if value is rule]
    function = rule.function
    made = (
        inspect.getclosurevars(function).nonlocals
        if inspect.isfunction(function)
        else {}
    )
    says = lower(first_line(function))
    if "allowed" in made:
        says = f"{made['allowed']} inputs, promoted to one dtype"
        if made["lift"]:
            says += f"; integers and booleans are taken as {dtypes.DEFAULT_FLOAT}"
        if made["to"] is not None:
            says += f"; the result is {made['to']}"
    elif "classes" in made:
        result = made["result"]
        position = (
            f"that of input {result + 1}" if isinstance(result, int) else str(result)
        )
        says = f"each input its own dtype ({', '.join(made['classes'])}); the result has {position}"
    name = named[0].rstrip("_") if named else function.__name__.lstrip("_")
    shown = "" if name == "rule" else f"`{name}`"
    return ": ".join(part for part in (shown, says) if part)


def lower(sentence: str) -> str:
    """A sentence as it goes on after a colon."""
    return (sentence[:1].lower() + sentence[1:]).rstrip(".")


def gradient(op: Op) -> str:
    """The kind of derivative of the op, and the arrays that it keeps."""
    if not op.differentiable:
        return "not differentiable"
    if not op.rules:
        return "through its body"
    arrays = {*(one.name for one in op.inputs), *op.outputs, *op.residuals}
    parts = []
    for target, rule in op.rules.items():
        if rule is None:
            parts.append(f"none in `{target}`")
            continue
        kept = ", ".join(f"`{need}`" for need in rule.needs if need in arrays)
        shared = " (one rule for several)" if rule.joint else ""
        parts.append(f"rule for `{target}`{shared}, keeps {kept or 'no array'}")
    return "; ".join(parts)


def call(name: str, function: Any) -> str:
    """The signature as a block of code; one parameter a line where it is long."""
    # Annotations are strings, for they are not evaluated; defaults keep their quotes.
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", f"{name}{inspect.signature(function)}")
    if len(text) > WIDTH:
        parts = re.match(r"(.*?\()(.*)(\).*)", text)
        assert parts is not None
        # Commas inside brackets belong to an annotation.
        inner = re.sub(r", (?![^\[(]*[\])])", ",\n    ", parts[2])
        text = f"{parts[1]}\n    {inner},\n{parts[3]}"
    return f"```python\n{text}\n```\n"


def facts(op: Op) -> str:
    """The table of what the definition says of an op."""
    inputs = [one.name for one in op.inputs]
    attributes = [one.name for one in op.attributes]
    kernel = ", ".join([*inputs, *(["*", *attributes] if attributes else [])])
    rows = {
        "Dtypes": dtype_rule(op),
        "Shape": shape_rule(op),
        "Gradient": gradient(op),
    }
    if len(op.outputs) > 1:
        rows["Results"] = ", ".join(f"`{one}`" for one in op.outputs)
    if op.residuals:
        rows["Residuals"] = ", ".join(f"`{one}`" for one in op.residuals)
    rows["Accuracy"] = f"{op.accuracy.name}: {op.accuracy.value}"
    rows["Kind"] = kind(op)
    rows["Kernel"] = f"`{op.name}({kernel})`"
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
