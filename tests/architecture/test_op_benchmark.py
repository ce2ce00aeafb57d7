"""The benchmark of the ops has each op and operator, and its expressions give the same values."""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import pullback as pb
from pullback._operator_methods import OperatorMethods
from pullback.spec import OPS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
try:
    import ops_cases
    import ops_recorded
    from ops_cases.agreement import differs
    from ops_worker import Worker
finally:
    sys.path.remove(str(ROOT / "benchmarks"))

ROWS = ops_cases.table()
OPERATORS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv",
    "Mod": "mod", "Pow": "pow", "MatMult": "matmul", "BitAnd": "and", "BitOr": "or",
    "BitXor": "xor", "LShift": "lshift", "RShift": "rshift", "USub": "neg", "UAdd": "pos",
    "Invert": "invert", "Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge",
}  # fmt: skip
METHODS = {prefix + name for name in OPERATORS.values() for prefix in ("", "r")} | {"abs", "divmod"}
BUILTINS = {"abs", "bool", "divmod", "float", "int", "len", "round"}
#: Public names without a row, and why.
NO_ROW = {
    "max_pool_gather": "of the gradient of max_pool; nobody else has its indices",
    "broadcast_shapes": "takes shapes, not tensors",
    "can_cast": "takes dtypes",
    "finfo": "takes dtypes",
    "iinfo": "takes dtypes",
    "isdtype": "takes dtypes",
    "result_type": "takes dtypes",
    "__rmatmul__": "the left operand would be a tensor, which has __matmul__",
    "__rdivmod__": "is __rfloordiv__ and __rmod__, which have rows",
    ".gpu": "needs a device that not every machine has",
}
#: Where the names of `pb.__all__` that compute with tensors come from.
FAMILIES = ("pullback.ops.", "pullback._dispatch.")


def spelled(expression: str) -> set[str]:
    """The functions, methods and operators that an expression is written with."""
    body, setup = ops_cases.parts(expression)
    found = set()
    for node in ast.walk(ast.parse(f"{setup}\n{body}")):
        match node:
            case ast.Attribute(value, name):
                found.add(name if "pb" in ast.unparse(value).split(".") else f".{name}")
            case ast.BinOp(ast.Constant(), operator, _):
                found.add(f"__r{OPERATORS[type(operator).__name__]}__")
            case ast.BinOp(_, operator, _):
                found.add(f"__{OPERATORS[type(operator).__name__]}__")
            case ast.AugAssign(_, operator, _):
                found.add(f"__i{OPERATORS[type(operator).__name__]}__")
            case ast.UnaryOp(operator, _) if type(operator).__name__ in OPERATORS:
                found.add(f"__{OPERATORS[type(operator).__name__]}__")
            case ast.Compare(_, [operator], _) if type(operator).__name__ in OPERATORS:
                found.add(f"__{OPERATORS[type(operator).__name__]}__")
            case ast.Subscript(ctx=ast.Store()):
                found.add("__setitem__")
            case ast.Subscript():
                found.add("__getitem__")
            case ast.Call(ast.Name(name), _) if name in BUILTINS:
                found.add(f"__{name}__")
    return found


USED = {name for row in ROWS for name in spelled(row.expressions["pullback"])}


def test_each_op_has_a_row():
    ops = {
        name
        for name, op in OPS.items()
        if op.public and name[0] != "_" and op.body.__module__.startswith("pullback.ops.")
    }
    wanted = ops | {
        name
        for name in pb.__all__
        if getattr(getattr(pb, name), "__module__", "").startswith(FAMILIES) and name != "op"
    }
    assert sorted(wanted - USED - set(NO_ROW)) == []
    assert sorted(name for name in NO_ROW if name in USED) == []


def test_each_method_and_operator_has_a_row():
    x = pb.ones((1, 1))
    # Other frameworks' names are there too, and raise with advice.
    wanted = {f".{name}" for name in dir(x) if name[0] != "_" and hasattr(x, name)} | {
        name for name in vars(OperatorMethods) if name.strip("_") in METHODS
    }
    wanted |= {f"__i{name}__" for name in OPERATORS.values() if hasattr(pb.Tensor, f"__i{name}__")}
    assert sorted(wanted - USED - set(NO_ROW)) == []


def test_a_row_is_there_once():
    counts = Counter(
        (row.family, dtype, row.expressions["pullback"]) for row in ROWS for dtype in row.dtypes
    )
    assert [one for one, count in counts.items() if count > 1] == []


# NumPy's masked mean of no element is NaN, with a warning.
@pytest.mark.filterwarnings("ignore:invalid value encountered in divide:RuntimeWarning")
def test_the_expressions_give_the_same_values():
    """Of small inputs, of pullback and NumPy; the benchmark compares PyTorch's before it times."""
    ours, theirs = Worker("pullback"), Worker("numpy")
    wrong = []
    for row in ROWS:
        case = ops_cases.Case(row, 10, row.dtypes[0], "contiguous")
        question = case.question("pullback") | {"gradient": False, "captured": False}
        found = ours.load(question)["forward"]
        if "numpy" in row.expressions:
            question["expression"] = row.expressions["numpy"]
            problem = differs(found, theirs.load(question)["forward"], case)
            if problem:
                wrong.append(f"{case.key}: {problem}")
    assert wrong == []


def test_the_design_has_every_dtype_and_size():
    found = defaultdict(list)
    for case in ops_cases.design(3):
        found[id(case.row)].append(case)
    for row in ROWS:
        sizes = {size for size in ops_cases.SIZES if size <= row.most}
        assert {case.dtype for case in found[id(row)]} == set(row.dtypes)
        assert sizes <= {case.n for case in found[id(row)]}


class TestRecorded:
    """Times that are recorded and held against later ones, of a machine that is made up."""

    @pytest.fixture
    def path(self, tmp_path, monkeypatch):
        monkeypatch.setattr(ops_recorded, "PAUSE", 0.0)
        path = tmp_path / "recorded.json"
        ops_recorded.record(path, 20, 0, lambda case: times(2.0), {})
        return path

    def test_finds_its_cases_again(self, path):
        assert [case.key for case, _ in ops_recorded.recorded(path)] == [
            case.key for case, _ in zip(ops_recorded.sample(0), range(20), strict=False)
        ]

    @pytest.mark.parametrize(
        ("ratio", "slow"), [(2.0, False), (2.9, False), (3.1, True), (9, True)]
    )
    def test_fails_where_a_ratio_has_grown_by_half(self, path, ratio, slow):
        found = ops_recorded.compare(path, lambda case: times(ratio), 10)
        assert len(found) == 20 * slow

    @pytest.mark.parametrize("tries", [1, 3, ops_recorded.TRIES])
    def test_what_is_slow_now_and_then_is_not_slower(self, path, tries):
        tried = Counter()

        def measure(case):
            tried[case.key] += 1
            return times(9.0 if tried[case.key] <= tries else 2.0)

        assert ops_recorded.compare(path, measure, 10) == []

    def test_a_gradient_alone_and_the_pack_alone_are_seen(self, path):
        (one,) = ops_recorded.compare(path, lambda case: times(2.0, gradient=9.0), 10)[:1]
        assert "pullback gradient: 9.00 times NumPy's, recorded 2.00" in one

    def test_a_microsecond_does_not_count(self, path):
        short = {
            name: {"forward": 9e-7 * (1 + (name != "numpy"))} for name in ("pullback", "numpy")
        }
        ops_recorded.record(path, 20, 0, lambda case: short, {})
        slower = {"pullback": {"forward": 3.5e-6}, "numpy": {"forward": 9e-7}}
        assert ops_recorded.compare(path, lambda case: slower, 10) == []


def times(ratio, gradient=2.0):
    """Seconds as a bench measures them, ours so many times NumPy's."""
    return {
        "numpy": {"forward": 1e-4},
        "pullback": {"forward": ratio * 1e-4, "gradient": gradient * 1e-4},
    }
