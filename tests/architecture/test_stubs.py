"""The stubs of the ops say what the table says, and bodies of ops are typed."""

from __future__ import annotations

import ast
import functools
import importlib.util
from pathlib import Path

import pytest

import pullback as pb
from pullback.ops import FAMILIES, late
from pullback.spec import OPS, Arity

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "core/src/pullback/ops"
OURS = {name: op for name, op in OPS.items() if op.body.__module__.startswith("pullback.ops.")}
#: The annotation of an input in a definition, where bodies get tensors, and in a stub.
BODY = {Arity.ONE: "Tensor", Arity.OPTIONAL: "Tensor | None", Arity.MANY: "Sequence[Tensor]"}
PUBLIC = {arity: text.replace("Tensor", "TensorLike") for arity, text in BODY.items()}


def tool():
    spec = importlib.util.spec_from_file_location("stubs", ROOT / "tools/stubs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def functions(path):
    """The functions at the top of a file, by name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def annotations(function):
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return {one.arg: ast.unparse(one.annotation) for one in every}


def file_of(op, suffix):
    return (
        FOLDER / op.body.__module__.removeprefix("pullback.ops.").replace(".", "/")
    ).with_suffix(suffix)


def test_are_up_to_date():
    assert not tool().outdated(), "run `uv run tools/stubs.py`"


@pytest.mark.each("op", OURS.values(), ids=lambda op: op.name)
def test_say_what_the_table_says(op):
    name = op.body.__name__
    body = annotations(functions(file_of(op, ".py"))[name])
    for one in op.inputs:
        assert body[one.name] == BODY[one.arity], f"{one.name}: bodies get tensors"
    if name.startswith("_"):
        return  # called by the function that users see
    public = annotations(functions(file_of(op, ".pyi"))[name])
    for one in op.inputs:
        assert public[one.name] == PUBLIC[one.arity]
    for attribute in op.attributes:
        assert public[attribute.name] == body[attribute.name]


def test_machine_ops_are_in_a_namespace_of_their_own():
    hidden = {name for name, op in OURS.items() if not op.public}
    assert {"softmax_gradient", "adam_update", "integer_floor_divide"} <= hidden
    for name in hidden:
        assert getattr(pb.ops, name) is OPS[name].function
        assert name not in pb.__all__
        assert name not in dir(pb)
    with pytest.raises(AttributeError, match=r"did you mean pb\.ops\.softmax_gradient"):
        pb.softmax_gradient  # noqa: B018
    stub = ast.parse((FOLDER / "__init__.pyi").read_text(encoding="utf-8"))
    named = {
        one.asname for node in stub.body if isinstance(node, ast.ImportFrom) for one in node.names
    }
    assert named == hidden


def test_late_ops_are_those_that_no_import_could_bring():
    """Each is needed by a family that comes before its own, or by its own with a number."""
    position = {f"pullback.ops.{family}": i for i, family in enumerate(FAMILIES)}
    users: dict[str, set[str]] = {}
    for path in FOLDER.rglob("*.py"):
        module = "pullback.ops." + ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "late":
                users.setdefault(node.attr, set()).add(module)
    assert set(late.__all__) == set(users)
    for name, modules in users.items():
        home = position[OPS[name].body.__module__]
        # Helpers without ops are imported by a family: they come before whatever that one does.
        first = min(position.get(module, -1) for module in modules)
        assert first <= home, f"late.{name}: {modules} can import it"
