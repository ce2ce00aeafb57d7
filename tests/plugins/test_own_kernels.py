"""`pb.register_kernel`: kernels from a program or a notebook."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import errors


@pytest.fixture(autouse=True)
def _forget():
    yield
    pb.device("cpu").backend.unregister_kernels("this program")


def twice(x):
    return np.asarray(x + x)


def thrice(x):
    return np.asarray(x + x + x)


def test_a_decorator_leaves_the_kernel_as_it_is_and_its_gradient_rule_stays():
    x = pb.asarray([1.0, 3.0], device="cpu")
    pb.square(x)
    assert pb.register_kernel("square", device="cpu")(twice) is twice
    assert pb.square(x).tolist() == [2.0, 6.0]
    assert pb.grad(lambda x: pb.sum(pb.square(x)))(x).tolist() == [2.0, 6.0]
    pb.device("cpu").backend.unregister_kernels("this program")
    assert pb.square(x).tolist() == [1.0, 9.0]


def test_a_cell_that_runs_again_replaces_its_kernel():
    x = pb.asarray([1.0], device="cpu")
    for kernel, value in ((twice, 2.0), (thrice, 3.0), (twice, 2.0)):
        assert pb.register_kernel(pb.square, kernel, device="cpu") is kernel
        assert pb.square(x).tolist() == [value]
    entries = pb.device("cpu").backend.kernels_for("square")
    assert [entry.source for entry in entries].count("this program") == 1
    assert entries[0].priority == 100


def test_for_some_dtypes_only():
    pb.register_kernel(pb.square, twice, device="cpu", dtypes=["float64"])
    assert pb.square(pb.asarray([3.0], dtype=pb.float32, device="cpu")).tolist() == [9.0]
    assert pb.square(pb.asarray([3.0], dtype=pb.float64, device="cpu")).tolist() == [6.0]


def test_for_an_op_of_the_program(define):
    @define()
    def eightfold(x: TensorLike, /):  # noqa: F821
        """8 x."""
        return x * 8

    x = pb.asarray([1.0], device="cpu")
    assert eightfold(x).tolist() == [8.0]
    pb.register_kernel(eightfold, thrice, device="cpu")
    assert eightfold(x).tolist() == [3.0]


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        (("squar", twice), {}, "unknown op 'squar'; did you mean"),
        ((len, twice), {}, r"made by pullback\.op, got <built-in function len>; decorate it"),
        (("add", twice), {}, r"called as add\(x1, x2\)"),
        (("square", 3), {}, "must be a function"),
        (("square", twice), {"dtypes": ["float33"]}, "float33"),
        (("square", twice), {"priority": "high"}, "priority must be an int, got 'high'"),
    ],
)
def test_calls_that_are_rejected(arguments, keywords, message):
    with pytest.raises(errors.PluginError, match=message):
        pb.register_kernel(*arguments, device="cpu", **keywords)
    assert pb.square(pb.asarray([3.0], device="cpu")).tolist() == [9.0]
