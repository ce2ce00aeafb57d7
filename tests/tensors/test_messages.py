"""Errors name the function that the user called, and say what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import errors
from pullback.spec import OPS

X = pb.ones(2)


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda: pb.zeros(-1), errors.ShapeError, "zeros"),
        (lambda: pb.ones(-1), errors.ShapeError, "ones"),
        (lambda: pb.empty(-1), errors.ShapeError, "empty"),
        (lambda: pb.full(-1, 0), errors.ShapeError, "full"),
        (lambda: pb.ones(3, device="nowhere"), errors.PullbackError, "ones"),
        (lambda: pb.zeros("a"), errors.InputTypeError, "zeros"),
        (lambda: pb.zeros(2, dtype="x"), errors.DTypeError, "zeros"),
        (lambda: pb.arange(3, dtype="complex64"), errors.DTypeError, "arange"),
        (lambda: pb.arange(0, 3, 0), errors.InputValueError, "arange"),
        (lambda: pb.arange("a"), errors.InputTypeError, "arange"),  # type: ignore[arg-type]
        (lambda: pb.arange(2**63), errors.InputValueError, "arange"),
        (lambda: pb.zeros_like(X, dtype="x"), errors.DTypeError, "zeros_like"),
        (lambda: pb.ones_like(X, dtype="x"), errors.DTypeError, "ones_like"),
        (lambda: pb.empty_like(X, dtype="x"), errors.DTypeError, "empty_like"),
        (lambda: pb.full_like(X, "x"), errors.ConversionError, "full_like"),
        (
            lambda: pb.losses.sparse_softmax_cross_entropy([0.5], [[1.0, 2.0]]),
            errors.DTypeError,
            "sparse_softmax_cross_entropy",
        ),
        (
            lambda: pb.losses.softmax_cross_entropy([[0.5]], [[1.0, 2.0]]),
            errors.ShapeError,
            "softmax_cross_entropy",
        ),
    ],
)
def test_the_name_of_the_function_comes_first(
    call: Callable[[], Any], error: type[Exception], name: str
) -> None:
    with pytest.raises(error, match=rf"^{name}: (?!\w+:)") as raised:
        call()
    assert getattr(raised.value, "op", None) == name


@pytest.mark.parametrize("value", [1.5, np.float64(1.5), [1.5, 2.5], pb.asarray(1.5), 1j])
@pytest.mark.parametrize("key", [0, ..., slice(None), [0, 1], pb.asarray([True, True])])
def test_a_write_of_another_kind_says_dtype_and_cast(key: Any, value: Any) -> None:
    x = pb.asarray([1, 2], dtype="int64")
    wanted = r"^x\[\.\.\.\] = value: values of dtype \w+ cannot be cast to int64.*astype"
    with pytest.raises(errors.DTypeError, match=wanted):
        x[key] = value


def test_a_write_of_another_shape_names_no_op() -> None:
    x = pb.ones((2, 3))
    for key in (0, slice(None), [0, 1]):
        with pytest.raises(errors.ShapeError, match=re.escape("x[...] = value: ")):
            x[key] = [1.0, 2.0]


def test_shapes_that_cannot_be_broadcast() -> None:
    for call in (lambda: pb.broadcast_shapes((2,), (3,)), lambda: pb.ones(2) + pb.ones(3)):
        with pytest.raises(errors.ShapeError, match=r"\(2,\) and \(3,\) cannot be broadcast"):
            call()


@pytest.mark.parametrize("shape", [-2, (-2,), (-2, 1), [2, -7]])
def test_only_one_negative_size_is_inferred(shape: Any) -> None:
    """NumPy takes any negative size for -1."""
    for taped in (False, True):
        with pb.GradientTape() as tape:
            if taped:
                tape.watch(X)
            with pytest.raises(errors.ShapeError, match="reshape: sizes in a shape must not"):
                pb.reshape(X, shape)


@pytest.mark.parametrize("at", ["out", "normalizer", "g"])
def test_parts_of_a_gradient_are_not_broadcast(at: str) -> None:
    x = pb.ones((2, 1, 3, 4))
    given = {"out": x, "normalizer": pb.ones((2, 1, 3, 1)), "g": x}
    gradient = pb.ops.scaled_dot_product_attention_gradient
    for wrong in (pb.ones(()), pb.ones((1, 1, 3, 1))):
        for watched in ([], [x]):  # by the kernel, and by the body
            with pb.GradientTape() as tape:
                tape.watch(watched)
                with pytest.raises(errors.ShapeError, match=f"{at} .* must have the shape"):
                    gradient(x, x, x, None, **{**given, at: wrong})


class OfReals(pb.Backend):
    name = "of_reals"
    dtypes = {pb.ones(1).dtype: pb.ones(1).dtype}  # noqa: RUF012
    kernels = {}  # noqa: RUF012

    def from_host(self, array: Any, device: Any, *, copy: bool) -> Any:
        return np.array(array)

    def to_host(self, array: Any) -> Any:
        return array


@pytest.mark.parametrize("value", [1j, [1j], np.complex64(1), np.ones(2, "complex64")])
def test_a_complex_number_on_a_backend_without_is_refused_at_once(value: Any) -> None:
    pb.register_backend(OfReals(), replace=True)
    with pytest.raises(errors.DTypeError, match="does not support complex64"):
        pb.asarray(value, device="of_reals:cpu:0")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: pb.zeros(2, 3), errors.InputTypeError, "the shape is one tuple"),  # type: ignore[call-arg]
        (lambda: pb.Tensor([1]), errors.InputTypeError, r"pb\.asarray\(values\)"),
        (lambda: pb.Tensor(2, 3), errors.InputTypeError, r"pb\.zeros\(shape\)"),
        (lambda: X.flatten(1), errors.InputTypeError, r"x\.reshape\(x\.shape\[0\], -1\)"),
        (lambda: X.to("cuda"), errors.DeviceError, "a GPU is 'gpu'"),
        (lambda: X.to("cuda:0"), errors.DeviceError, "a GPU is 'gpu'"),
        (lambda: X.to("float64"), errors.DeviceError, "astype"),
        (lambda: X.to("nowhere"), errors.DeviceError, "write 'cpu'"),
        (
            lambda: pb.optimizers.schedules.cosine_decay(0.1),  # type: ignore[call-arg]
            TypeError,
            r"^cosine_decay\(\) missing .* 'steps'",
        ),
        (
            lambda: pb.losses.sparse_softmax_cross_entropy([[0], [1]], pb.ones((2, 3))),
            errors.ShapeError,
            r"write pb\.squeeze\(labels, axis=1\)",
        ),
        (
            lambda: pb.cond(True, lambda a, b: a, lambda a: a, X),  # type: ignore[misc, arg-type]
            errors.InputTypeError,
            "but it is missing 1 required",
        ),
    ],
)
def test_habits_of_other_frameworks_are_answered(
    call: Callable[[], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("name", [op.name for op in OPS.values() if op.missing])
def test_what_to_write_without_further_inputs(name: str) -> None:
    for given in ([[True, False]], [pb.asarray([True, False]), 1.0]):
        with pytest.raises(
            pb.errors.InputTypeError, match=f"{name}: x[12] is missing; .*pb.nonzero"
        ):
            OPS[name].function(*given)
