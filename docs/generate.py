"""Writes the API reference from the op specification and the public names of `pullback`.

The pages of worked examples come from their programs (gallery.py).

    uv run docs/generate.py FOLDER     writes its pages there, as Markdown

mkdocs calls the hooks at the end of this file: the pages are made in memory when the site is built,
so they are never out of date and nothing generated is kept. A page of a family of ops is made from
the definitions alone; classes and plain functions are left to mkdocstrings.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import gallery
import pullback as pb
from arguments import described
from op_words import (
    call,
    cell,
    facts,
    first_line,
    markdown,
)
from pullback import ops
from pullback.distributed import collectives  # noqa: F401 - its ops are in the table then
from pullback.spec import OPS, Op, Tier

#: Modules whose public names are not all in `pullback` itself.
MODULES = (
    "random", "layers", "losses", "metrics", "optimizers", "data", "checkpoint", "state",
    "training", "callbacks", "summary", "errors", "tree", "distributed", "plugins.backend",
    "array_api",
)  # fmt: skip
#: Classes whose methods are, in part, those of private bases.
INHERITING = ("Tensor", "Variable")
#: How a name in `pullback` is written.
SHORT = "pb"


# ---------------------------------------------------------------------------------------------
# Pages.


def section(name: str, function: Any) -> str:
    """The signature and docstring of a function."""
    text = described(name.rpartition(".")[2], function)
    return f"{call(name, function)}\n{markdown(text)}\n"


def contents(found: list[Op]) -> dict[str, tuple[Any, Op | None]]:
    """The public functions of a family by name, each with its op if it has one."""
    module = import_module(found[0].body.__module__)
    by_function = {op.function: op for op in found}
    by_name = {op.name: op for op in found}
    listed: dict[str, tuple[Any, Op | None]] = {}
    for name in (*getattr(module, "__all__", ()), *by_name):
        function = getattr(module, name, None) or by_name[name].function
        if (
            name not in listed
            and inspect.isroutine(function)
            and not name.startswith("_")
        ):
            # A plain function that prepares its inputs stands for the op of its name.
            listed[name] = (function, by_function.get(function) or by_name.get(name))
    return listed


def family_page(family: str, found: list[Op]) -> str:
    """The page of one family: what its module offers, in its order, then what rules use."""
    module = import_module(found[0].body.__module__)
    lines = [f"# {family_title(family)}\n", markdown(module.__doc__) + "\n"]
    public, inner = parts(contents(found))
    if len(public) > 1:
        lines += [
            name_table({f"#{name}": (path, f) for name, (path, f) in public.items()}),
            "",
        ]
    for listed, mark in ((public, "##"), (inner, "###")):
        if listed is inner and inner:
            lines += [f"## {INNER} {{ #ops-for-rules }}\n", f"{INNER_TEXT}\n"]
        for name, (path, function) in listed.items():
            lines.append(f"{mark} {name} {{ #{name} }}\n")
            lines.append(section(path, function))
            op = contents(found)[name][1]
            if op is not None:
                lines.append(facts(op))
    return "\n".join(lines)


#: Functions by name: the path that a reader writes, and the function.
Named = dict[str, tuple[str, Any]]
INNER = "Ops for rules and optimizers"
INNER_TEXT = (
    "Gradient rules, optimizers and indexing call these. A backend may have kernels for them; "
    "programs seldom need them."
)


def parts(listed: dict[str, tuple[Any, Op | None]]) -> tuple[Named, Named]:
    """The functions for everybody, and those in `pb.ops` alone."""
    public: Named = {}
    inner: Named = {}
    for name, (function, _) in listed.items():
        where = space(name, function)
        (inner if where == f"{SHORT}.ops" else public)[name] = (
            f"{where}.{name}",
            function,
        )
    return public, inner


def family_title(family: str) -> str:
    """The name of a family as a heading."""
    text = family.replace("_", " ").capitalize()
    return re.sub(
        r"\b(fft|lstm|gru)\b", lambda m: m[0].upper(), text, flags=re.IGNORECASE
    )


def name_table(rows: dict[str, tuple[str, Any]]) -> str:
    """A line for each link: the name as it is written, and what it is."""
    lines = ["| name | what it is |", "|---|---|"]
    for link, (path, value) in rows.items():
        lines.append(f"| [`{path}`]({link}) | {cell(first_line(value))} |")
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
    "tensor": "tensors", "variable": "tensors", "strings": "tensors", "shapes": "tensors",
    "_autodiff": "gradients", "_batching": "gradients", "graph": "programs", "ops": "functions",
    "_dispatch": "plugins", "array_api": "plugins", "_namespace": "devices",
}  # fmt: skip
TITLES = {
    "tensors": "Tensors and variables", "gradients": "Gradients and batches",
    "programs": "Programs and control flow", "functions": "Functions beside the ops",
    "distributed": "Many processes", "checkpoint": "Checkpoints", "summary": "Summaries",
    "tree": "Structures", "devices": "Devices and defaults",
    "plugins": "Ops and backends of your own",
}  # fmt: skip
#: In the order of the menu: what a program begins with comes first.
ORDER = (
    "tensors", "gradients", "programs", "functions", "random", "layers", "losses", "metrics",
    "optimizers", "training", "callbacks", "data", "checkpoint", "state", "tree", "summary",
    "distributed", "profiling", "devices", "errors", "plugins",
)  # fmt: skip
#: The packages of the specification, as headings.
GROUPS = {
    "": "Arrays", "linalg": "Linear algebra", "fourier": "Fourier transforms",
    "nn": "Neural networks", "optim": "Steps of optimizers",
    "pullback.distributed": "Many processes",
}  # fmt: skip


def grouped() -> dict[str, list[str]]:
    """The families of ops by package."""
    found: dict[str, list[str]] = {title: [] for title in GROUPS.values()}
    for family, listed in families().items():
        path = listed[0].body.__module__.removeprefix("pullback.ops.")
        found[GROUPS[path.rpartition(".")[0]]].append(family)
    return found


def objects() -> dict[str, Named]:
    """Public classes and functions that are not ops: by page, then by the path of their module."""
    found: dict[str, Named] = {}
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
                shown = f"{SHORT}{module.__name__.removeprefix('pullback')}.{name}"
                page = found.setdefault(PAGES.get(part, part), {})
                page[f"{where}.{value.__name__}"] = (shown, value)
    return {page: found[page] for page in ORDER} | found


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


def object_page(page: str, listed: Named) -> str:
    """A page for mkdocstrings to fill, below a list of what is on it."""
    says = (
        markdown(import_module(f"pullback.{page}").__doc__) if page in MODULES else ""
    )
    table = name_table({f"#{path}": row for path, row in listed.items()})
    blocks = [object_block(path, shown) for path, (shown, _) in listed.items()]
    return "\n".join([f"# {title(page)}\n", f"{says}\n", f"{table}\n", *blocks])


def object_block(path: str, shown: str) -> str:
    """The place of one class or function; of some classes, with what they inherit."""
    name = shown.rpartition(".")[2]
    options = [f'heading: "{shown}"', f'toc_label: "{name}"']
    if name in INHERITING:
        options.append("inherited_members: true")
    return f"::: {path}\n    options:\n" + "".join(f"      {one}\n" for one in options)


def index_page(pages: dict[str, Named]) -> str:
    """The pages of the reference, with a line each."""
    lines = [
        "# API reference\n",
        "Names as they are written after `import pullback as pb`. [All of pullback](all.md) has "
        "every name on one page; `help(pb.softmax)` shows the same at a prompt. "
        "[Primitives by tier](primitives.md) are what a backend implements.\n",
        "## Ops\n",
    ]
    for group, names in grouped().items():
        links = [f"[{family_title(name)}](ops/{name}.md)" for name in names]
        lines.append(f"- **{group}**: {', '.join(links)}")
    lines.append("\n## Classes and other functions\n")
    for page, listed in pages.items():
        some = ", ".join(f"`{shown}`" for shown, _ in [*listed.values()][:4])
        rest = f", and {len(listed) - 4} more" if len(listed) > 4 else ""
        lines.append(f"- [{title(page)}]({page}.md): {some}{rest}")
    return "\n".join([*lines, ""])


def all_page(pages: dict[str, Named]) -> str:
    """Every public name with a line, in the order of the alphabet; then what rules call."""
    rows: dict[str, tuple[str, Any]] = {}
    inner: list[str] = []
    for family, found in families().items():
        public, others = parts(contents(found))
        rows |= {f"ops/{family}.md#{name}": row for name, row in public.items()}
        inner += [
            f"[{path}](ops/{family}.md#{name})" for name, (path, _) in others.items()
        ]
    for page, listed in pages.items():
        rows |= {f"{page}.md#{path}": row for path, row in listed.items()}
    spaces: dict[str, dict[str, tuple[str, Any]]] = {}
    for link, row in sorted(rows.items(), key=lambda item: item[1][0].lower()):
        spaces.setdefault(row[0].rpartition(".")[0], {})[link] = row
    lines = ["# All of pullback\n"]
    for space_name in sorted(spaces):
        lines.append(
            f"## {space_name} {{ #{space_name} }}\n\n{name_table(spaces[space_name])}\n"
        )
    constants = [name for name in pb.__all__ if is_constant(getattr(pb, name))]
    names = ", ".join(f"`{SHORT}.{name}`" for name in constants)
    lines.append(f"## Dtypes and constants\n\n{names}. See [dtypes](../dtypes.md).\n")
    lines.append(f"## {INNER}\n\n{INNER_TEXT}\n\n{', '.join(inner)}\n")
    return "\n".join(lines)


def is_constant(value: Any) -> bool:
    """Returns whether a public name is a dtype, a number or None."""
    return value is None or isinstance(value, float | np.dtype)


def pages() -> dict[str, str]:
    """Every page of the reference and of examples: its path under docs, and its Markdown."""
    listed = objects()
    made = {
        "reference/index.md": index_page(listed),
        "reference/all.md": all_page(listed),
        "reference/primitives.md": primitives_page(),
    }
    for page, paths in listed.items():
        made[f"reference/{page}.md"] = object_page(page, paths)
    for family, found in families().items():
        made[f"reference/ops/{family}.md"] = family_page(family, found)
    return made | gallery.pages()


# ---------------------------------------------------------------------------------------------
# Hooks of mkdocs.


def on_config(config: Any) -> Any:
    """Puts the generated pages into the navigation, where mkdocs.yml has their sections."""
    config["_reference"] = pages()
    config["site_name"] = f"{config['site_name']} {pb.__version__}"
    if repository := os.environ.get("REPOSITORY_URL"):
        config["repo_url"] = repository
        config["repo_name"] = "/".join(repository.rstrip("/").split("/")[-2:])
    families_of = {
        group: [f"reference/ops/{name}.md" for name in names]
        for group, names in grouped().items()
    }
    section = [
        "reference/index.md",
        {"All of pullback": "reference/all.md"},
        {"Ops": [{group: names} for group, names in families_of.items()]},
        *(f"reference/{page}.md" for page in objects()),
        "reference/primitives.md",
    ]
    for entry in config["nav"]:
        if "Reference" in entry:
            entry["Reference"] = section
        if "Examples" in entry:
            entry["Examples"][1:1] = gallery.pages()
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
