"""Gradients at corners, poles, ends and infinities: defined, and never NaN for no reason."""

import math
from dataclasses import replace

import numpy as np
import pytest

import pullback as pb
from pullback.devices import as_device
from pullback.spec import OPS
from pullback_conformance.case import cases
from pullback_conformance.derived import corners
from pullback_conformance.gradients import slopes
from pullback_conformance.samples import load

inf = math.inf


def gradients(f, *xs):
    xs = [pb.asarray(np.asarray(x, np.float64)) for x in xs]
    with pb.GradientTape() as tape:
        tape.watch(xs)
        y = pb.sum(f(*xs))
    found = tape.gradient(y, xs, unconnected_gradients="zero")
    return [one.tolist() for one in found]


@pytest.mark.parametrize("name", corners.SLOPES)
def test_slopes_of_the_kit(name):
    """Also of the forms of these ops with attributes, and of powers with numbers, below."""
    samples = tuple(corners.samples(OPS[name], load()[name], quick=False))
    found = [*cases(OPS[name], replace(load()[name], samples=samples), as_device("cpu"))]
    for case in found:
        slopes(case)
    assert len(found) == 4


#: A function, a point, and the slope there.
SLOPES = [
    (pb.hard_tanh, 1, None),
    (lambda x: pb.gelu(x, approximate=True), inf, 1),
    (lambda x: pb.gelu(x, approximate=True), -inf, 0),
    (lambda x: x**0, 0, 0), (lambda x: x**1, 0, 1), (lambda x: x**2, 0, 0),
    (lambda x: x**0.5, 0, inf), (lambda x: 0.0**x, 2, 0), (lambda x: 0.0**x, 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("f", "x", "slope"), SLOPES)
def test_slope(f, x, slope):
    for dtype in ("float64", "float32"):
        point = pb.asarray(x, dtype=dtype)
        with pb.GradientTape() as tape:
            tape.watch(point)
            y = f(point)
        found = tape.gradient(y, point)
        if slope is None:
            assert np.isfinite(found.numpy())
        else:
            assert found.item() == slope


@pytest.mark.parametrize(
    ("f", "limit"),
    [
        (pb.gelu, 0), (pb.silu, 0), (pb.mish, 0), (pb.hard_silu, 0), (pb.softplus, 0),
        (lambda x: pb.gelu(x, approximate=True), 0), (pb.elu, -1), (pb.log_sigmoid, -inf),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_activations_at_minus_infinity(f, limit, dtype):
    x = pb.asarray([-inf, inf, 1.0], dtype=dtype)
    y = f(x)
    assert float(y[0]) == limit
    assert float(y[1]) == (0 if limit == -inf else inf)


@pytest.mark.parametrize("function", [pb.sqrt, pb.log, pb.asin, pb.acos, pb.acosh, pb.erfinv])
@pytest.mark.parametrize("x", [-1.0, 0.0, 2.0, -inf, inf])
def test_what_where_did_not_choose_has_gradient_zero(function, x):
    """Out of a function's domain and at its ends a cotangent of 0 stays 0."""
    inside = {pb.acosh: 3.0}.get(function, 0.5)
    ((outer, inner),) = gradients(
        lambda t: pb.where(pb.asarray([False, True]), function(t), 0.0), [x, inside]
    )
    assert outer == 0
    assert np.isfinite(inner)
    assert inner != 0


def test_logsumexp_of_nothing_and_of_infinities():
    assert gradients(pb.logsumexp, [-inf, -inf]) == [[0, 0]]
    assert gradients(pb.logsumexp, [inf, 1.0]) == [[1, 0]]
    assert gradients(pb.logsumexp, [-inf, 1.0]) == [[0, 1]]
    found = gradients(lambda x: pb.cumulative_logsumexp(x)[-1], [-inf, -inf, 0.0])
    assert found == [[0, 0, 1]]


@pytest.mark.parametrize("order", [0.5, 1, 2, 3, inf])
def test_norms(order):
    def norm(x):
        return pb.linalg.vector_norm(x, ord=order)

    assert gradients(norm, [0.0, 0.0]) == [[0, 0]]
    if order not in (0.5, 1):
        assert gradients(norm, [inf, 1.0]) == [[1, 0]]
        assert gradients(norm, [1.0, -inf]) == [[0, -1]]


def test_a_clipped_norm_of_zero():
    assert gradients(lambda x: pb.clip_by_norm(x, max_norm=1.0), [0.0, 0.0]) == [[1, 1]]


def test_standard_deviation_of_a_constant():
    assert gradients(pb.std, [3.0, 3.0, 3.0]) == [[0, 0, 0]]


@pytest.mark.parametrize("x", [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0]])
def test_products_with_zeros(x):
    others = [x[1] * x[2], x[0] * x[2], x[0] * x[1]]
    assert gradients(pb.prod, x) == [others]
    assert gradients(lambda t: pb.cumulative_prod(t)[-1], x) == [others]


def test_ties_of_extrema():
    assert gradients(pb.max, [1.0, 3.0, 3.0]) == [[0, 0.5, 0.5]]
    assert gradients(pb.min, [1.0, 1.0, 3.0]) == [[0.5, 0.5, 0]]
    assert gradients(lambda x, u: pb.sum(pb.scatter_max(x, [0, 0], u)), [1.0, 0.0], [1.0, 1.0]) == [
        [1 / 3, 1],
        [1 / 3, 1 / 3],
    ]
    infinite = [-inf, -inf, 1.0, 1.0, 0.0]  # -inf is also what a maximum begins with
    shares = [[0.5, 0.5, 0.5, 0.5, 0.0]]
    ids = [0, 0, 2, 2, 2]
    assert gradients(lambda x: pb.sum(pb.segment_max(x, ids, 3)[::2]), infinite) == shares
    assert gradients(lambda x: -pb.sum(pb.segment_min(-x, ids, 3)[::2]), infinite) == shares


def test_masked_logits():
    def loss(x):
        return pb.softmax_cross_entropy_with_logits(x, [0.0, 1.0, 0.0])

    ((hidden, *rest),) = gradients(loss, [-inf, 1.0, 2.0])
    assert hidden == 0
    assert np.isfinite(rest).all()
    assert gradients(lambda x: pb.softmax(x)[0], [-inf, 1.0, 2.0]) == [[0, 0, 0]]


def test_a_query_that_may_look_nowhere():
    q, k, v = (np.random.default_rng(i).normal(size=(1, 2, 3)) for i in range(3))
    mask = np.array([[False, False], [True, True]])

    def attend(q, k, v):
        return pb.scaled_dot_product_attention(q, k, v, mask)

    assert pb.asarray(attend(q, k, v))[0, 0].tolist() == [0, 0, 0]
    by_q, by_k, by_v = gradients(attend, q, k, v)
    assert by_q[0][0] == [0, 0, 0]
    assert np.isfinite(by_k).all()
    assert np.isfinite(by_v).all()
    np.testing.assert_allclose(by_v, gradients(lambda q, k, v: attend(q, k, v)[:, 1:], q, k, v)[2])


def test_normalization_of_nothing():
    x, parameter = pb.zeros((3, 0)), pb.zeros((0,))
    for f in (
        lambda t: pb.layer_norm(t, parameter, parameter),
        pb.layer_norm,
        pb.rms_norm,
        pb.softmax,
        lambda t: pb.instance_norm(t[..., None]),
    ):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        assert y.size == 0
        assert tape.gradient(y, x).shape == (3, 0)
