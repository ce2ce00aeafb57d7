"""Writes the stubs of the ops: what users may pass, where definitions say what bodies get.

    uv run tools/stubs.py            # writes core/src/pullback/ops/**/*.pyi
    uv run tools/stubs.py --check    # fails where one of them is out of date

A body gets tensors, so a definition reads `add(x1: Tensor, x2: Tensor, /)`. A caller passes
whatever becomes a tensor: the stub beside it says `add(x1: TensorLike, x2: TensorLike, /)`. Editors
and type checkers read the stub, and editors take the docstring and the definition from the module.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OPS = ROOT / "core/src/pullback/ops"
#: Annotations of inputs in a definition, and what the public function takes there.
PUBLIC = {
    "Tensor": "TensorLike",
    "Tensor | None": "TensorLike | None",
    "Sequence[Tensor]": "Sequence[TensorLike]",
}
#: The decorators that make an op of a definition.
DECORATORS = ("op", "update")
HEADER = '"""Signatures for callers; written by tools/stubs.py."""\n\n'
#: Modules whose functions have one signature for everybody.
UNSTUBBED = ("__init__.py", "late.py")


def modules() -> list[Path]:
    """The files of definitions."""
    return sorted(path for path in OPS.rglob("*.py") if path.name not in UNSTUBBED)


def names_in(node: ast.AST) -> set[str]:
    """Every name that a piece of code reads, those of a type alias in quotes too."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Constant):
        names |= names_in(ast.parse(str(node.value.value)))
    return names


def is_op(function: ast.FunctionDef) -> bool:
    """Returns whether a decorator makes an op of a function."""
    return any(
        isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in DECORATORS
        for one in function.decorator_list
    )


def is_machine(function: ast.FunctionDef) -> bool:
    """Returns whether a definition says `public=False`, as `update` does for all of its ops."""
    return any(
        ast.unparse(one.func) == "update"
        or any(word.arg == "public" and ast.unparse(word.value) == "False" for word in one.keywords)
        for one in function.decorator_list
        if isinstance(one, ast.Call)
    )


def signature(function: ast.FunctionDef) -> ast.FunctionDef:
    """A function without its body; of an op, with the annotations that callers see."""
    function.body = [ast.Expr(ast.Constant(...))]
    function.decorator_list = [
        one for one in function.decorator_list if ast.unparse(one) != "takes_symbols"
    ]
    if is_op(function):
        function.decorator_list = []
        arguments = function.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            assert argument.annotation is not None, f"{function.name}: {argument.arg}"
            text = ast.unparse(argument.annotation)
            argument.annotation = ast.parse(PUBLIC.get(text, text), mode="eval").body
    return function


def outline(class_: ast.ClassDef) -> ast.ClassDef:
    """A class without docstring and bodies."""
    body: list[ast.stmt] = []
    for one in class_.body:
        if isinstance(one, ast.FunctionDef):
            body.append(signature(one))
        elif not isinstance(one, ast.Expr):
            body.append(one)
    class_.body = body or [ast.Expr(ast.Constant(...))]
    return class_


def declarations(tree: ast.Module) -> Iterator[ast.stmt]:
    """The declarations of a module that other modules may use."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield signature(node)
        elif isinstance(node, ast.ClassDef):
            yield outline(node)
        elif isinstance(node, ast.AnnAssign):
            if ast.unparse(node.annotation) not in ("TypeAlias", "list[str]"):
                node.value = None
            yield node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node


def wanted(nodes: list[ast.stmt]) -> list[ast.stmt]:
    """The declarations that are public, and those that they need."""
    needed: set[str] = set()
    kept: list[ast.stmt] = []
    for node in reversed(nodes):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.AnnAssign(target=ast.Name(id=name)):
                pass
            case ast.Assign(targets=[ast.Name(id=name)]):
                pass
            case _:
                continue
        if name == "__all__" or not name.startswith("_") or name in needed:
            needed |= names_in(node)
            kept.append(node)
    return kept[::-1]


def imports(tree: ast.Module, used: set[str]) -> Iterator[ast.stmt]:
    """The imports of a module that bring a name of `used`, those for type checkers with them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [one for one in node.names if (one.asname or one.name.split(".")[0]) in used]
            if names and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                node.names = names
                yield node


def stub(source: str) -> str:
    """The stub of a module, as one would write it without regard to line lengths."""
    tree = ast.parse(source)
    body = wanted(list(declarations(tree)))
    used: set[str] = set().union(*(names_in(node) for node in body))
    head = list(imports(tree, used))
    if "TensorLike" in used:
        known = [one for one in head if isinstance(one, ast.ImportFrom)]
        tensor = next((one for one in known if one.module == "pullback.tensor"), None)
        if tensor is None:
            tensor = ast.ImportFrom("pullback.tensor", [], 0)
            head.append(tensor)
        if all(one.name != "TensorLike" for one in tensor.names):
            tensor.names.append(ast.alias("TensorLike"))
    return HEADER + "\n".join(ast.unparse(node) for node in [*head, *body]) + "\n"


def package_stub(modules: dict[str, str]) -> str:
    """The stub of `pullback.ops`: the ops that no other namespace has."""
    lines = ["FAMILIES: tuple[str, ...]"]
    for module, source in modules.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and is_machine(node):
                lines.append(f"from {module} import {node.name} as {node.name}")
    return HEADER + "\n".join(sorted(lines, key=lambda line: line.startswith("FAMILIES"))) + "\n"


def write(texts: dict[Path, str]) -> None:
    """Writes files in the style of the repository."""
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    ruff, paths = [sys.executable, "-m", "ruff"], [str(path) for path in texts]
    subprocess.run([*ruff, "check", "-q", "--select", "I", "--fix", *paths], check=True, cwd=ROOT)
    subprocess.run([*ruff, "format", "-q", *paths], check=True, cwd=ROOT)


def same(path: Path, text: str) -> bool:
    """Returns whether a stub says the same as `text`, in whatever layout and order of imports."""

    def parts(source: str) -> tuple[set[str], list[str]]:
        tree = ast.parse(source)
        brought = {
            f"{ast.unparse(ast.ImportFrom(one.module, [], one.level))} {ast.unparse(name)}"
            if isinstance(one, ast.ImportFrom)
            else ast.unparse(name)
            for one in tree.body
            if isinstance(one, ast.Import | ast.ImportFrom)
            for name in one.names
        }
        rest = [one for one in tree.body if not isinstance(one, ast.Import | ast.ImportFrom)]
        return brought, [ast.dump(one) for one in rest]

    return path.is_file() and parts(path.read_text(encoding="utf-8")) == parts(text)


def stubs() -> dict[Path, str]:
    """The text of each stub, before its layout."""
    sources = {path: path.read_text(encoding="utf-8") for path in modules()}
    by_name = {
        ".".join(path.relative_to(OPS.parents[1]).with_suffix("").parts): source
        for path, source in sources.items()
    }
    texts = {path.with_suffix(".pyi"): stub(source) for path, source in sources.items()}
    return texts | {OPS / "__init__.pyi": package_stub(by_name)}


def outdated() -> list[Path]:
    """The stubs that are missing, changed, or left from a module that is gone."""
    texts = stubs()
    left = [path for path in OPS.rglob("*.pyi") if path not in texts]
    return [path for path, text in texts.items() if not same(path, text)] + left


def main() -> int:
    """Writes the stubs, or says which are out of date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail on a difference")
    check = parser.parse_args().check
    changed = outdated()
    for path in changed:
        print(path.relative_to(ROOT))
    if check:
        return len(changed) > 0
    texts = stubs()
    for path in set(changed) - set(texts):
        path.unlink()
    if out_of_date := {path: texts[path] for path in changed if path in texts}:
        write(out_of_date)
    return 0


if __name__ == "__main__":
    sys.exit(main())
