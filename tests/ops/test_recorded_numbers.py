"""Ops that take a number: a tensor in its place is a number, but not where a tape records it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.spec import OPS
from pullback_conformance.samples import load

DATA = pb.asarray([3.0, 1.0, 2.5, 7.0])
#: A call, and what its error says to write.
CALLS: dict[str, tuple[Callable[[Any], pb.Tensor], str]] = {
    "full": (lambda x: pb.full((3,), x), "pb.broadcast_to(x, shape)"),
    "full_like": (lambda x: pb.full_like(pb.ones(3), x), "pb.broadcast_to(x, shape)"),
    "arange": (lambda x: pb.arange(0, x), "start + step * pb.arange(n)"),
    "linspace": (lambda x: pb.linspace(0, x, 3), "start + (stop - start) * pb.linspace(0, 1, num)"),
    "pad": (
        lambda x: pb.pad(pb.ones(3), 1, constant_values=x),
        "pb.pad(x - value, pad_width) + value",
    ),
    "quantile": (lambda x: pb.quantile(DATA, x / 4), "np.interp(q * (n - 1), np.arange(n), "),
    "quantile of NumPy": (lambda x: np.quantile(DATA, x / 4), "np.interp(q * (n - 1), "),
    "quantile, several": (lambda x: pb.quantile(DATA, [0.1, x / 4]), "np.interp(q * (n - 1), "),
}
#: What the errors say to write, for the same values.
INSTEAD: dict[str, Callable[[Any], pb.Tensor]] = {
    "full": lambda x: pb.broadcast_to(x, (3,)),
    "full_like": lambda x: pb.broadcast_to(x, (3,)),
    "linspace": lambda x: 0 + (x - 0) * pb.linspace(0, 1, 3),
    "pad": lambda x: pb.pad(pb.ones(3) - x, 1) + x,
    "quantile": lambda x: np.interp(x / 4 * 3, np.arange(4), pb.sort(DATA)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("x", [pb.asarray(2.0), pb.Variable(2.0)], ids=["tensor", "variable"])
def test_a_gradient_is_not_lost_without_a_word(name: str, x: Any) -> None:
    call, instead = CALLS[name]
    with pb.GradientTape() as tape:
        if isinstance(x, pb.Tensor):
            tape.watch(x)
        op = re.split(r"\W", name)[0]
        with pytest.raises(pb.errors.TapeError, match=rf"^{op}: .*write {re.escape(instead)}"):
            call(x)
        # A constant, which says so.
        assert call(x.item()).tolist() == call(2.0).tolist()
        assert call(pb.stop_gradient(x)).tolist() == call(2.0).tolist()
    assert call(x).tolist() == call(2.0).tolist()


@pytest.mark.parametrize("name", INSTEAD)
def test_what_the_error_says_to_write_has_the_value_and_a_gradient(name: str) -> None:
    x = pb.asarray(2.0)
    assert INSTEAD[name](x).tolist() == CALLS[name][0](x).tolist()
    step = 1e-2
    slope = (pb.sum(CALLS[name][0](x + step)) - pb.sum(CALLS[name][0](x - step))) / (2 * step)
    gradient = pb.grad(lambda x: pb.sum(INSTEAD[name](x)))(x)
    assert abs(float(gradient) - float(slope)) < 1e-3


def test_integers_have_no_gradient_to_lose() -> None:
    lengths = pb.Variable([2, 3])
    with pb.GradientTape():
        assert pb.arange(pb.max(lengths)).tolist() == [0, 1, 2]
        assert pb.full(2, pb.max(lengths)).tolist() == [3, 3]


def test_levels_of_quantiles_may_be_an_array() -> None:
    expected = np.quantile(DATA.numpy(), [0.25, 0.75]).tolist()
    for levels in ([0.25, 0.75], np.asarray([0.25, 0.75]), pb.asarray([0.25, 0.75])):
        assert pb.quantile(DATA, levels).tolist() == expected
    with pytest.raises(pb.errors.InputTypeError, match="q must be a real number, got 'a'"):
        pb.quantile(DATA, "a")  # type: ignore[arg-type]


SUITES = load()
#: Each attribute of an op that is a number, with a sample that has it.
NUMBERS = {
    (name, attribute): sample
    for name in sorted(OPS)
    if name in SUITES
    for sample in reversed(SUITES[name].samples)
    for attribute, value in sample.attributes.items()
    if type(value) is float
}


@pytest.mark.parametrize(("name", "attribute"), NUMBERS)
def test_no_number_of_an_op_loses_a_gradient(name: str, attribute: str) -> None:
    sample = NUMBERS[name, attribute]
    x = pb.asarray(sample.attributes[attribute])
    with pb.GradientTape() as tape:
        tape.watch(x)
        try:
            result = OPS[name].function(*sample.inputs, **{**sample.attributes, attribute: x})
        except pb.errors.PullbackError:
            return
        parts = result if isinstance(result, (list, tuple)) else [result]
        total = sum([pb.sum(pb.abs(part)) for part in parts], pb.zeros(()))
    assert tape.gradient(total, x) is not None
