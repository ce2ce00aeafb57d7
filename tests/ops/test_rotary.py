"""Rotary positions: against products of complex numbers, and in attention."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

L = pb.layers
E = pb.errors
RNG = np.random.default_rng(11)


def turned(x, positions, base, interleaved, rotated):
    """Pairs of features as complex numbers, times exp(i * angle)."""
    x = np.asarray(x, np.float64)
    n = (x.shape[-1] if rotated is None else rotated) // 2
    part, rest = x[..., : 2 * n], x[..., 2 * n :]
    pairs = (part[..., ::2], part[..., 1::2]) if interleaved else (part[..., :n], part[..., n:])
    angles = np.asarray(positions, float)[..., None] * base ** (-np.arange(n) / max(n, 1))
    z = (pairs[0] + 1j * pairs[1]) * np.exp(1j * angles)
    if interleaved:
        y = np.stack([z.real, z.imag], axis=-1).reshape(part.shape)
    else:
        y = np.concatenate([z.real, z.imag], axis=-1)
    return np.concatenate([y, rest], axis=-1)


TOLERANCE = {"float64": 1e-12, "float32": 3e-6, "float16": 2e-3, "bfloat16": 2e-2}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    ("shape", "how"),
    [
        ((5, 4), {}),
        ((2, 5, 6), {"base": 500.0}),
        ((2, 3, 5, 8), {"offset": 7}),
        ((2, 3, 5, 8), {"rotated": 4}),
        ((2, 3, 5, 8), {"positions": [3, 1, 0, 2, 9]}),
        ((3, 3, 2, 4), {"positions": [[3, 1], [0, 2], [9, 9]]}),
        ((3, 2, 4), {"positions": [[0.5, 1.5]], "offset": -1}),
        ((2, 0, 4), {}),
        ((2, 3, 0), {}),
    ],
)
def test_values(shape, how, interleaved, dtype):
    x = pb.asarray(RNG.standard_normal(shape), dtype=dtype)
    how = {"positions": None, "offset": 0, "base": 1e4, "rotated": None, **how}
    places = np.arange(shape[-2]) if how["positions"] is None else np.array(how["positions"])
    if places.ndim == 2:
        places = places.reshape(len(places), *[1] * (len(shape) - 3), shape[-2])
    expected = turned(
        x.numpy().astype(np.float64), places + how["offset"], how["base"], interleaved,
        how["rotated"],
    )  # fmt: skip
    y = pb.rotary(x, interleaved=interleaved, **how)
    assert y.dtype == x.dtype
    np.testing.assert_allclose(y.numpy().astype(float), expected, atol=TOLERANCE[dtype], rtol=0)
    layer = L.RotaryEmbedding(how["base"], interleaved=interleaved, rotated=how["rotated"])
    again = L.Layer.from_config(layer.get_config())
    found = again(x, positions=how["positions"], offset=how["offset"])
    np.testing.assert_array_equal(found.numpy(), y.numpy())


@pytest.mark.parametrize("interleaved", [False, True])
def test_gradients_turn_back_and_products_depend_on_distances(interleaved):
    x, g = (RNG.standard_normal((2, 4, 6)) for _ in range(2))
    f = pb.function(lambda x, offset: pb.rotary(x, offset=offset, interleaved=interleaved))
    for offset in (0, 3, 5):
        by = pb.vjp(lambda x, at=offset: f(x, pb.asarray(at)), x)[1](pb.asarray(g))
        expected = turned(g, -np.arange(offset, offset + 4), 1e4, interleaved, None)
        np.testing.assert_allclose(by[0] if isinstance(by, (tuple, list)) else by, expected, 1e-12)
        q, k = f(x, pb.asarray(offset)), f(g, pb.asarray(offset))
        q0, k0 = f(x, pb.asarray(0)), f(g, pb.asarray(0))
        np.testing.assert_allclose(q @ k.mT, q0 @ k0.mT, rtol=1e-9, atol=1e-12)
    places = RNG.random(4) * 5
    slope = pb.grad(lambda p: pb.sum(pb.rotary(x, p, interleaved=interleaved) * g))(places)
    for i in range(4):
        ends = []
        for side in (1e-6, -1e-6):
            moved = places.copy()
            moved[i] += side
            ends.append((turned(x, moved, 1e4, interleaved, None) * g).sum())
        assert float(slope[i]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)


def test_errors():
    for wrong, kind in (
        (lambda: pb.rotary(np.ones((2, 3))), E.ShapeError),
        (lambda: pb.rotary(np.ones(4)), E.ShapeError),
        (lambda: pb.rotary(np.ones((2, 4), int)), E.DTypeError),
        (lambda: pb.rotary(np.ones((2, 4)), [1, 2, 3]), E.ShapeError),
        (lambda: pb.rotary(np.ones((3, 3, 2, 4)), np.ones((3, 3, 2))), E.ShapeError),
        (lambda: pb.rotary(np.ones((2, 4)), rotated=6), E.ShapeError),
        (lambda: L.MultiHeadAttention(2, 4, rotary=True), E.InputTypeError),
        (lambda: L.MultiHeadAttention(2, 4)(np.ones((1, 2, 4)), positions=[0, 1]), E.LayerError),
    ):
        with pytest.raises(kind):
            wrong()


@pytest.mark.parametrize("positions", [None, [[4, 5, 6, 7, 8], [0, 1, 2, 0, 0]]])
def test_attention(positions):
    x = RNG.standard_normal((2, 5, 6))
    with L.policy("float64"):
        made = L.MultiHeadAttention(4, 4, num_kv_heads=2, rotary=L.RotaryEmbedding(100.0))
    layer = L.MultiHeadAttention.from_config(made.get_config())
    y = layer(x, positions=positions, is_causal=True)
    q, k, v = (
        np.moveaxis(part(x).numpy().reshape(2, 5, -1, 4), 2, 1)
        for part in (layer.query, layer.key, layer.value)
    )
    places = np.arange(5) if positions is None else np.array(positions)[:, None]
    q, k = (turned(part, places, 100.0, False, None) for part in (q, k))
    k, v = (np.repeat(part, 2, axis=1) for part in (k, v))
    scores = np.where(np.tri(5, dtype=bool), q @ np.swapaxes(k, -1, -2) / 2, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    merged = weights / weights.sum(-1, keepdims=True) @ v
    expected = layer.output(np.moveaxis(merged, 1, 2).reshape(2, 5, -1))
    np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-12)
    captured = pb.function(lambda x: layer(x, positions=positions, is_causal=True))
    np.testing.assert_allclose(captured(x), y, rtol=1e-9, atol=1e-12)
    if positions is None:
        # Positions say nothing but distances: any part of them gives the same.
        moved = layer(x, positions=np.arange(40, 45), is_causal=True)
        np.testing.assert_allclose(moved, y, rtol=1e-9, atol=1e-12)
    ends = pb.Input((None, 6), dtype="float64")
    model = pb.Model(ends, layer(ends, is_causal=True))
    np.testing.assert_allclose(model(x), layer(x, is_causal=True), rtol=1e-12)
