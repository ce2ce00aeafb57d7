"""Writes the API reference from the op specification and the public names of `pullback`.

    uv run docs/generate.py FOLDER     writes its pages there, as Markdown

mkdocs calls the hooks at the end of this file: the pages are made in memory when the site is built,
so they are never out of date and nothing generated is kept. A page of a family of ops is made from
the definitions alone; classes and plain functions are left to mkdocstrings.
"""

from __future__ import annotations

import argparse
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import pullback as pb
from pullback import dtypes, ops
from pullback.spec import OPS, Op, Tier

#: Modules whose public names are not all in `pullback` itself.
MODULES = (
    "random", "layers", "losses", "metrics", "optimizers", "data", "checkpoint", "state",
    "training", "callbacks", "summary", "errors", "plugins.backend", "array_api",
)  # fmt: skip
#: How a name in `pullback` is written.
SHORT = "pb"


# ---------------------------------------------------------------------------------------------
# What the definitions say, in words.


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
    if len(text) > 96:
        parts = re.match(r"(.*?\()(.*)(\).*)", text)
        assert parts is not None
        # Commas inside brackets belong to an annotation.
        inner = re.sub(r", (?![^\[(]*[\])])", ",\n    ", parts[2])
        text = f"{parts[1]}\n    {inner},\n{parts[3]}"
    return f"```python\n{text}\n```\n"


# ---------------------------------------------------------------------------------------------
# Pages.


def section(name: str, function: Any) -> str:
    """The signature and docstring of a function."""
    return f"{call(name, function)}\n{markdown(function.__doc__)}\n"


def facts(op: Op) -> str:
    """The table of what the definition says of an op."""
    inputs = [one.name for one in op.inputs]
    attributes = [one.name for one in op.attributes]
    kernel = ", ".join([*inputs, *(["*", *attributes] if attributes else [])])
    rows = {
        "Kind": kind(op),
        "Shape": shape_rule(op),
        "Dtypes": dtype_rule(op),
        "Gradient": gradient(op),
        "Accuracy": f"{op.accuracy.name}: {op.accuracy.value}",
        "Kernel": f"`{op.name}({kernel})`",
    }
    if len(op.outputs) > 1:
        rows["Results"] = ", ".join(f"`{one}`" for one in op.outputs)
    if op.residuals:
        rows["Residuals"] = ", ".join(f"`{one}`" for one in op.residuals)
    lines = [f"| {label} | {escaped(value)} |" for label, value in rows.items()]
    return "\n".join(["| | |", "|---|---|", *lines, ""])


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


def contents(found: list[Op]) -> dict[str, tuple[Any, Op | None]]:
    """The public functions of a family by name, each with its op if it has one."""
    module = import_module(found[0].body.__module__)
    by_function = {op.function: op for op in found}
    by_name = {op.name: op for op in found}
    listed: dict[str, tuple[Any, Op | None]] = {}
    for name in (*getattr(module, "__all__", ()), *by_name):
        function = getattr(module, name, None) or by_name[name].function
        if name not in listed and inspect.isroutine(function):
            # A plain function that prepares its inputs stands for the op of its name.
            listed[name] = (function, by_function.get(function) or by_name.get(name))
    return listed


def family_page(family: str, found: list[Op]) -> str:
    """The page of one family: what its module offers, in its order, then what rules use."""
    module = import_module(found[0].body.__module__)
    lines = [
        f"# {family.replace('_', ' ').capitalize()}\n",
        markdown(module.__doc__) + "\n",
    ]
    for name, (function, op) in contents(found).items():
        lines.append(f"## {name} {{ #{name} }}\n")
        lines.append(section(f"{space(name, function)}.{name}", function))
        if op is not None:
            lines.append(facts(op))
    return "\n".join(lines)


def space(name: str, function: Any) -> str:
    """The namespace in which a reader finds a function."""
    if getattr(pb, name, None) is function:
        return SHORT
    for module in ("linalg", "fft", "ops"):
        if getattr(getattr(pb, module), name, None) is function:
            return f"{SHORT}.{module}"
    return str(function.__module__)


def primitives_page() -> str:
    """Every primitive by tier: what a backend must serve."""
    lines = [
        "# Primitives by tier\n",
        "A primitive has no body: a backend that claims a tier has a kernel for each of the "
        "primitives in it, and every other op follows from them. "
        "[Writing a backend](../backends/writing.md) says how.\n",
        "An op is one where no body made of others would do. A body would, if its result were "
        "within the op's class of accuracy for every input that the op takes, in a number of "
        "passes over the data that does not grow with it, and without looking at values. "
        "Integers are taken modulo a power of two where they overflow, on every backend, so "
        "a body may.\n",
    ]
    for tier in Tier:
        found = sorted(
            (op for op in OPS.values() if op.primitive and op.tier is tier),
            key=lambda op: (family_order(op.family), op.index),
        )
        if not found:
            continue
        lines.append(f"## {str(tier).capitalize()} ({len(found)})\n")
        lines.append(
            "| op | what it computes | why no body can replace it |\n|---|---|---|"
        )
        for op in found:
            link = f"[{op.name}](ops/{op.family}.md#{op.name})"
            lines.append(f"| {link} | {cell(first_line(op.body))} | {cell(op.why)} |")
        lines.append("")
    return "\n".join(lines)


def family_order(family: str) -> tuple[int, str]:
    """The place of a family in the reference: as the specification lists them."""
    order = [module.rpartition(".")[2] for module in ops.FAMILIES]
    return (order.index(family) if family in order else len(order), family)


def families() -> dict[str, list[Op]]:
    """The ops of pullback itself by family."""
    found: dict[str, list[Op]] = {}
    for op in sorted(OPS.values(), key=lambda op: op.index):
        if op.body.__module__.startswith("pullback."):
            found.setdefault(op.family, []).append(op)
    return dict(sorted(found.items(), key=lambda item: family_order(item[0])))


#: The page for the public names of a module or package; those without an entry have their own.
PAGES = {
    "tensor": "tensors", "variable": "tensors", "_autodiff": "gradients", "_dispatch": "plugins",
    "_namespace": "namespace", "array_api": "plugins",
}  # fmt: skip
TITLES = {"tensors": "Tensors and variables", "plugins": "Ops and backends of your own"}


def objects() -> dict[str, list[str]]:
    """The paths of public classes and functions that are not ops, by page."""
    found: dict[str, list[str]] = {}
    of_ops = [contents(listed).values() for listed in families().values()]
    seen = {id(function) for listed in of_ops for function, _ in listed}
    for module in modules():
        for name in public_names(module):
            value = getattr(module, name)
            where = getattr(value, "__module__", "") or ""
            # Bound methods are documented with their class.
            if (
                not (inspect.isclass(value) or inspect.isfunction(value))
                or id(value) in seen
            ):
                continue
            if where.startswith("pullback.") and not name.startswith("_"):
                seen.add(id(value))
                part = (where if module is pb else module.__name__).split(".")[1]
                found.setdefault(PAGES.get(part, part), []).append(
                    f"{where}.{value.__name__}"
                )
    return found


def modules() -> list[Any]:
    """`pullback` and the modules in it that have public names of their own."""
    return [pb, *(import_module(f"pullback.{name}") for name in MODULES)]


def public_names(module: Any) -> list[str]:
    """The names that a module offers."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
    ]
    return list(getattr(module, "__all__", own))


def title(page: str) -> str:
    """The title of a page of classes and functions."""
    return TITLES.get(page, page.replace("_", " ").capitalize())


def object_page(page: str, paths: list[str]) -> str:
    """A page for mkdocstrings to fill."""
    says = (
        markdown(import_module(f"pullback.{page}").__doc__) if page in MODULES else ""
    )
    return "\n".join(
        [f"# {title(page)}\n", f"{says}\n", *(f"::: {path}\n" for path in paths)]
    )


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
        names = ", ".join(
            f"[{path.rpartition('.')[2]}]({page}.md#{path})" for path in paths
        )
        lines.append(f"- **{title(page)}**: {names}")
    lines.append("\n## Ops\n")
    for family, found in families().items():
        names = ", ".join(
            f"[{name}](ops/{family}.md#{name})" for name in contents(found)
        )
        lines.append(f"- **{family.replace('_', ' ').capitalize()}**: {names}")
    constants = [name for name in pb.__all__ if is_constant(getattr(pb, name))]
    names = ", ".join(f"`{SHORT}.{name}`" for name in constants)
    lines.append(f"\n## Dtypes and constants\n\n{names}. See [dtypes](../dtypes.md).\n")
    return "\n".join(lines)


def is_constant(value: Any) -> bool:
    """Returns whether a public name is a dtype, a number or None."""
    return value is None or isinstance(value, float | np.dtype)


def pages() -> dict[str, str]:
    """Every page of the reference: its path under docs, and its Markdown."""
    listed = objects()
    made = {
        "reference/index.md": index_page(listed),
        "reference/primitives.md": primitives_page(),
    }
    for page, paths in listed.items():
        made[f"reference/{page}.md"] = object_page(page, paths)
    for family, found in families().items():
        made[f"reference/ops/{family}.md"] = family_page(family, found)
    return made


# ---------------------------------------------------------------------------------------------
# Hooks of mkdocs.


def on_config(config: Any) -> Any:
    """Puts the generated pages into the navigation, where mkdocs.yml has "Reference"."""
    config["_reference"] = made = pages()
    inner = [
        name
        for name in made
        if not name.startswith(("reference/ops/", "reference/index"))
    ]
    section = [
        "reference/index.md",
        {"Ops": [n for n in made if n.startswith("reference/ops/")]},
    ]
    for entry in config["nav"]:
        if "Reference" in entry:
            entry["Reference"] = [*section, *inner]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the generated pages to those of the folder."""
    from mkdocs.structure.files import File

    for name, text in config["_reference"].items():
        files.append(File.generated(config, name, content=text))
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder for the pages")
    folder = parser.parse_args().folder
    for name, text in pages().items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
