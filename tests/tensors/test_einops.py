"""einops on tensors and variables, as it is: values, gradients, and whichever is imported first."""

from __future__ import annotations

import subprocess
import sys

import einops
import numpy as np
import pytest

import pullback as pb

VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

CALLS = {
    "rearrange": lambda x: einops.rearrange(x, "a b (c d) -> (b a) d c", d=2),
    "rearrange a list": lambda x: einops.rearrange([x, x * 2], "n a b c -> a (n b) c"),
    "reduce by sum": lambda x: einops.reduce(x, "a b c -> c a", "sum"),
    "reduce by mean": lambda x: einops.reduce(x, "a b (c 2) -> a c", "mean"),
    "reduce by max": lambda x: einops.reduce(x, "a b c -> b 1", "max"),
    "reduce by prod": lambda x: einops.reduce(x, "a b c -> a c", "prod"),
    "repeat": lambda x: einops.repeat(x, "a b c -> a (n b) c k", n=2, k=3),
    "einsum": lambda x: einops.einsum(x, x, "a b c, a d c -> b d"),
    "pack": lambda x: einops.pack([x, x[:, 0]], "a * c")[0],
    "unpack": lambda x: einops.unpack(x, [[], [2]], "a * c")[1],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize("kind", [pb.asarray, pb.Variable])
def test_values_are_those_of_numpy(call, kind):
    out = call(kind(VALUES))
    assert isinstance(out, pb.Tensor)
    np.testing.assert_allclose(out, call(VALUES), rtol=1e-6)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_gradients_flow(call):
    def loss(x):
        y = call(x)
        return pb.sum(pb.reshape(pb.arange(y.size, dtype=x.dtype), y.shape) * y * y)

    x = pb.asarray(VALUES / 10 + 1, dtype="float64")
    direction = pb.cos(x)
    slope = pb.sum(pb.grad(loss)(x) * direction)
    step = 1e-5
    by_difference = (loss(x + step * direction) - loss(x - step * direction)) / (2 * step)
    assert abs(by_difference) > 0.1
    np.testing.assert_allclose(slope, by_difference, rtol=1e-6)


def test_a_variable_is_trained_through_it():
    variable = pb.Variable(VALUES)
    with pb.GradientTape() as tape:
        loss = pb.sum(einops.rearrange(variable, "a b c -> c b a") ** 2)
    np.testing.assert_allclose(tape.gradient(loss, variable), 2 * VALUES)


def test_shapes_and_numpy():
    x = pb.asarray(VALUES)
    assert einops.parse_shape(x, "a _ c") == {"a": 2, "c": 4}
    assert isinstance(einops.asnumpy(x), np.ndarray)
    assert not einops.reduce(x > 5, "a b c -> a", "all")[0]


def test_a_mean_of_integers_is_refused_as_everywhere():
    with pytest.raises(NotImplementedError, match="mean"):
        einops.reduce(pb.asarray(VALUES, dtype="int32"), "a b c -> a", "mean")


PROGRAM = """
import sys
{program}
x = einops.rearrange(pullback.ones((2, 3)), "a b -> b a")
assert x.shape == (3, 2) and type(x) is pullback.Tensor
backends = sys.modules["einops._backends"]
assert type(backends.__loader__).__module__.startswith(("importlib", "_frozen"))
assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("pullback")]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "import pullback, einops",
        "import einops, pullback",
        "import einops, pullback.layers",
        "import pullback; pullback.ones(2); import einops",
        "import einops, pullback; pullback.ones(2); import einops",
    ],
)
def test_either_may_be_imported_first(program):
    subprocess.run([sys.executable, "-c", PROGRAM.format(program=program)], check=True)


def test_an_import_changes_nothing_for_other_imports():
    program = """
import sys, numpy
before = [*sys.meta_path]
import pullback
assert sys.meta_path == before
assert not [name for name in sys.modules if name[:6] == "einops"]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
