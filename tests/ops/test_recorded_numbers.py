"""Ops that take a number: a tensor in its place is a number, but not where a tape records it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import pullback as pb

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
}
#: What the errors say to write, for the same values.
INSTEAD: dict[str, Callable[[Any], pb.Tensor]] = {
    "full": lambda x: pb.broadcast_to(x, (3,)),
    "full_like": lambda x: pb.broadcast_to(x, (3,)),
    "linspace": lambda x: 0 + (x - 0) * pb.linspace(0, 1, 3),
    "pad": lambda x: pb.pad(pb.ones(3) - x, 1) + x,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("x", [pb.asarray(2.0), pb.Variable(2.0)], ids=["tensor", "variable"])
def test_a_gradient_is_not_lost_without_a_word(name: str, x: Any) -> None:
    call, instead = CALLS[name]
    with pb.GradientTape() as tape:
        if isinstance(x, pb.Tensor):
            tape.watch(x)
        with pytest.raises(pb.errors.TapeError, match=rf"^{name}: .*write {re.escape(instead)}"):
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
