"""Writes the API reference from the op specification and the public names of `pullback`.

    uv run docs/generate.py                  brings the table of promotion in docs/dtypes.md up to date
    uv run docs/generate.py --out FOLDER     writes the pages of the reference there, as Markdown

mkdocs calls the hooks at the end of this file: the pages are made in memory when the site is built,
so they are never out of date and nothing generated is kept. A page of a family of ops is made from
the definitions alone; classes and plain functions are left to mkdocstrings.
"""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pullback as pb
from pullback import dtypes, errors, ops, spec
from pullback.conformance import samples
from pullback.dtypes import DType
from pullback.spec import OPS, Op, Tier

DOCS = Path(__file__).parent
#: Modules whose public names are not all in `pullback` itself.
MODULES = (
    "linalg", "fft", "random", "layers", "losses", "metrics", "optimizers", "data", "checkpoint",
    "summary", "errors", "backend", "array_api", "conformance",
)  # fmt: skip
#: How a name in `pullback` is written.
SHORT = "pb"


# ---------------------------------------------------------------------------------------------
# What the definitions say, in words.


def examples(doc: str) -> str:
    """A docstring as Markdown: its examples, arguments and errors as blocks of their own."""
    lines: list[str] = []
    inside = False
    for line in inspect.cleandoc(doc).splitlines():
        starts = line.lstrip().startswith(">>>")
        if starts and not inside:
            lines += ["", "```pycon"]
        if inside and not line.strip():
            lines.append("```")
        inside = (inside or starts) and bool(line.strip())
        section = re.fullmatch(r"(Args|Raises|Returns|Yields):", line)
        if section:
            lines += [f"**{'Arguments' if section[1] == 'Args' else section[1]}**", ""]
            continue
        entry = re.match(r" {4}([\w*]+(?:, \w+)*): (.*)", line)
        if entry and not inside:
            lines.append(f"- `{entry[1]}`: {entry[2]}")
        else:
            lines.append(line if inside else re.sub(r"^ {4,}", "  ", line))
    return "\n".join([*lines, "```"] if inside else lines).strip()


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
    made = inspect.getclosurevars(rule).nonlocals if inspect.isfunction(rule) else {}
    says = lower(first_line(rule))
    if "allowed" in made:
        says = f"{made['allowed']} inputs, promoted to one dtype"
        if made["lift"]:
            says += f"; integers and booleans are taken as {dtypes.DEFAULT_FLOAT}"
        if made["to"] is not None:
            says += f"; the result is {made['to']}"
    elif "classes" in made:
        result = made["result"]
        position = f"that of input {result + 1}" if isinstance(result, int) else str(result)
        says = f"each input its own dtype ({', '.join(made['classes'])}); the result has {position}"
    name = named[0].rstrip("_") if named else rule.__name__.lstrip("_")
    shown = "" if name == "rule" else f"`{name}`"
    return ": ".join(part for part in (shown, says) if part)


def lower(sentence: str) -> str:
    """A sentence as it goes on after a colon."""
    return (sentence[:1].lower() + sentence[1:]).rstrip(".")


def gradient(op: Op) -> str:
    """How the op is differentiated, and what is kept for that."""
    if not op.differentiable:
        return "not differentiable"
    if not op.rules:
        return "through its body"
    parts = []
    for target, rule in op.rules.items():
        if rule is None:
            parts.append(f"none in `{target}`")
        else:
            needs = [f"`{need}`" for need in rule.needs if need != "wanted"]
            together = f" (with {', '.join(rule.targets)})" if rule.joint else ""
            kept = f", keeps {', '.join(needs)}" if needs else ", keeps nothing"
            parts.append(f"rule for `{target}`{together}{kept}")
    return "; ".join(parts)


def home(op: Op) -> str:
    """The name under which a reader finds an op."""
    name = op.body.__name__
    for module in ("", "linalg", "fft", "random"):
        where = pb if not module else getattr(pb, module, None)
        if getattr(where, name, None) is op.function:
            return ".".join(part for part in (SHORT, module, name) if part)
    return f"{op.family}.{name}"


def public_function(op: Op) -> Any:
    """What a reader calls: the op, or the plain function of its name that prepares its inputs."""
    return getattr(pb, op.name, op.function) if home(op).startswith(op.family) else op.function


def signature(function: Any) -> str:
    """The signature without quotes round annotations."""
    return str(inspect.signature(function)).replace("'", "")


# ---------------------------------------------------------------------------------------------
# Pages.


def op_section(op: Op) -> Iterator[str]:
    """All that there is to say of one op."""
    yield f"## {op.name} {{ #{op.name} }}\n"
    name = home(op)
    yield f"```python\n{name}{signature(op.function)}\n```\n"
    yield examples(op.doc) + "\n"
    kind = "primitive" if op.primitive else "composite"
    rows = {
        "Kind": f"{kind}, {op.tier} tier",
        "Shape": shape_rule(op),
        "Dtypes": dtype_rule(op),
        "Gradient": gradient(op),
        "Accuracy": f"{op.accuracy.name}: {op.accuracy.value}",
    }
    if len(op.outputs) > 1:
        rows["Results"] = ", ".join(f"`{one}`" for one in op.outputs)
    if op.residuals:
        rows["Residuals"] = ", ".join(f"`{one}`" for one in op.residuals)
    yield "| | |\n|---|---|"
    for label, value in rows.items():
        yield f"| {label} | {value.replace('|', chr(92) + '|')} |"
    yield ""


def family_page(family: str, found: list[Op]) -> str:
    """The page of one family: its plain functions, then its ops."""
    module = import_module(found[0].body.__module__)
    lines = [f"# {family.replace('_', ' ').capitalize()}\n", examples(module.__doc__ or "") + "\n"]
    listed = [f"[{op.name}](#{op.name})" for op in found]
    lines.append("Ops: " + ", ".join(listed) + "\n")
    is_op = {op.function for op in found}
    plain = [
        name
        for name in getattr(module, "__all__", ())
        if inspect.isroutine(getattr(module, name)) and getattr(module, name) not in is_op
    ]
    for op in found:
        lines += op_section(op)
    if plain:
        lines.append("## Functions that are no ops of their own\n")
    for name in plain:
        function = getattr(module, name)
        lines.append(f"### {name}\n\n```python\n{SHORT}.{name}{signature(function)}\n```\n")
        lines.append(examples(function.__doc__ or "") + "\n")
    return "\n".join(lines)


def primitives_page() -> str:
    """Every primitive by tier: what a backend must serve."""
    lines = [
        "# Primitives by tier\n",
        "A primitive has no body: a backend that claims a tier has a kernel for each of the "
        "primitives in it, and every other op follows from them. "
        "[Writing a backend](../backends/writing.md) says how.\n",
    ]
    for tier in Tier:
        found = sorted(
            (op for op in OPS.values() if op.primitive and op.tier is tier),
            key=lambda op: (family_order(op.family), op.index),
        )
        if not found:
            continue
        lines.append(f"## {str(tier).capitalize()} ({len(found)})\n")
        lines.append("| op | family | what it computes |\n|---|---|---|")
        for op in found:
            says = first_line(op.body).replace("|", "\\|")
            lines.append(f"| [{op.name}]({op.family}.md#{op.name}) | {op.family} | {says} |")
        lines.append("")
    return "\n".join(lines)


def family_order(family: str) -> tuple[int, str]:
    """Where a family stands in the reference: as the specification lists them."""
    order = list(ops.FAMILIES)
    return (order.index(family) if family in order else len(order), family)


def families() -> dict[str, list[Op]]:
    """The ops of pullback itself by family."""
    found: dict[str, list[Op]] = {}
    for op in sorted(OPS.values(), key=lambda op: op.index):
        if op.body.__module__.startswith("pullback."):
            found.setdefault(op.family, []).append(op)
    return dict(sorted(found.items(), key=lambda item: family_order(item[0])))


def objects() -> dict[str, list[str]]:
    """The public classes and functions that are no ops, by page, as the modules define them."""
    found: dict[str, list[str]] = {}
    op_modules = {op.body.__module__ for op in OPS.values()}
    spaces = [("pullback", pb.__all__)]
    for name in MODULES:
        try:
            module = import_module(f"pullback.{name}")
        except ModuleNotFoundError:
            continue
        spaces.append((name, getattr(module, "__all__", [n for n in vars(module) if own(module, n)])))
    for space, names in spaces:
        module = import_module("pullback" if space == "pullback" else f"pullback.{space}")
        for name in names:
            value = getattr(module, name)
            if not (inspect.isclass(value) or inspect.isroutine(value)):
                continue
            where = getattr(value, "__module__", "")
            if where in op_modules or not where.startswith("pullback"):
                continue
            page = page_of(space, where)
            path = f"{where}.{value.__name__}"
            if all(path not in listed for listed in found.values()):
                found.setdefault(page, []).append(path)
    return found


def own(module: Any, name: str) -> bool:
    """Whether a public name is defined in a module without `__all__`."""
    value = getattr(module, name)
    return not name.startswith("_") and getattr(value, "__module__", None) == module.__name__


def page_of(space: str, module: str) -> str:
    """The page of a name: that of its namespace, or of the module for names of `pullback`."""
    return space if space != "pullback" else module.split(".")[1]


TITLES = {
    "gradients": "Gradients of functions",
    "custom": "Custom gradients",
    "tape": "Tapes",
    "plugins": "Backends that are installed",
    "backend": "What a backend is",
    "dispatch": "Defining ops",
    "array_api": "Kernels for any array API namespace",
}


def title(page: str) -> str:
    """The title of a page of classes and functions."""
    return TITLES.get(page, page.replace("_", " ").capitalize())


def object_page(page: str, paths: list[str]) -> str:
    """A page for mkdocstrings to fill."""
    module = import_module(f"pullback.{page}")
    lines = [f"# {title(page)}\n", examples(module.__doc__ or "") + "\n"]
    lines += [f"::: {path}\n" for path in paths]
    return "\n".join(lines)


def index_page(pages: dict[str, list[str]]) -> str:
    """Everything public, one line each."""
    lines = [
        "# API reference\n",
        "Everything that `import pullback as pb` gives. Ops are listed by family, as the "
        "specification defines them; [primitives by tier](primitives.md) are what a backend "
        "implements. `help(pb.softmax)` shows the same at a prompt.\n",
        "## Classes and functions\n",
    ]
    for page, paths in pages.items():
        names = ", ".join(f"[{path.rpartition('.')[2]}]({page}.md#{path})" for path in paths)
        lines.append(f"- **{title(page)}**: {names}")
    lines.append("\n## Ops\n")
    for family, found in families().items():
        names = ", ".join(f"[{op.name}]({family}.md#{op.name})" for op in found)
        lines.append(f"- **{family.replace('_', ' ').capitalize()}**: {names}")
    constants = [n for n in pb.__all__ if isinstance(getattr(pb, n), DType | float | type(None))]
    names = ", ".join(f"`{SHORT}.{name}`" for name in constants)
    lines.append(f"\n## Dtypes and constants\n\n{names}. See [dtypes](../dtypes.md).\n")
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """Every page of the reference: its path under docs, and its Markdown."""
    listed = objects()
    made = {"reference/index.md": index_page(listed), "reference/primitives.md": primitives_page()}
    for page, paths in listed.items():
        made[f"reference/{page}.md"] = object_page(page, paths)
    for family, found in families().items():
        made[f"reference/{family}.md"] = family_page(family, found)
    return made
