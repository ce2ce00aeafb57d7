"""Plans that kernels remember by shapes, steps in memory and attributes: never by less."""

from __future__ import annotations

import random

import numpy as np
import pytest

import pullback_numpy.kernels.attention
from pullback.shapes import image_shape
from pullback_numpy import convolution, products, windows
from pullback_numpy.kernels import KERNELS
from pullback_numpy.threads import number_of_threads

PLANS = [
    windows.layout,
    windows._patch_plan,
    products._kept_ones,
    pullback_numpy.kernels.attention._triangle,
]
FORMATS = ("channels_last", "channels_last", "channels_first")
FLOATS = (np.dtype("f4"), np.dtype("f8"), np.dtype("f2"))


def laid(rng, order, shape, dtype):
    """An array that lies in memory in one of several ways."""
    how = order.choice(("plain", "plain", "steps", "turned", "axes", "shifted"))
    if how == "steps":
        return rng.standard_normal([2 * n for n in shape])[
            tuple(slice(None, None, 2) for _ in shape)
        ].astype(dtype)
    x = rng.standard_normal(shape).astype(dtype)
    if how == "turned":
        return np.ascontiguousarray(x[::-1])[::-1]
    if how == "axes":
        return np.asfortranarray(x)
    if how == "shifted":
        room = np.empty(x.nbytes + dtype.itemsize, np.uint8)
        room[dtype.itemsize :] = x.reshape(-1).view(np.uint8)
        return room[dtype.itemsize :].view(dtype).reshape(shape)
    return x


class Near(random.Random):
    """Choices that are mostly those made before: calls then differ in a part or two."""

    def __init__(self, seed):
        super().__init__(seed)
        self.before = {}

    def near(self, name, make):
        if name not in self.before or self.random() < 0.15:
            self.before[name] = make()
        return self.before[name]

    def each(self, name, count, *options):
        return self.near((name, count), lambda: tuple(self.choice(options) for _ in range(count)))


def sizes(order, count):
    """Random sizes of images; a few take several blocks."""
    most = 90 if count < 3 and order.random() < 0.03 else 7
    return order.near(
        ("sizes", count, most), lambda: tuple(order.randint(3, most) for _ in range(count))
    )


def convolution_call(rng, order):
    count = order.near("count", lambda: order.choice((1, 2, 2, 3)))
    groups = order.near("groups", lambda: order.choice((1, 1, 2)))
    spatial = sizes(order, count)
    window = order.each("window", count, 1, 2, 3)
    how = {
        "strides": order.each("strides", count, 1, 1, 2),
        "padding": order.each("padding", count, (0, 0), (0, 1), (1, 0), (1, 2)),
        "dilation": order.each("dilation", count, 1, 1, 2),
        "groups": groups,
        "data_format": order.near("format", lambda: order.choice(FORMATS)),
    }
    batch, dtype = order.near("batch", lambda: order.choice((1, 3))), order.choice(FLOATS)
    width, filters = order.near("width", lambda: (order.choice((1, 2)), order.choice((1, 3))))
    channels = groups * width
    shape = image_shape(batch, spatial, channels, how["data_format"])
    x = laid(rng, order, shape, dtype)
    kernel = laid(rng, order, (*window, width, groups * filters), dtype)
    y = KERNELS["conv"](x, kernel, **how)
    g = laid(rng, order, y.shape, dtype)
    return order.choice((
        lambda: KERNELS["conv"](x, kernel, **how),
        lambda: KERNELS["conv_input_gradient"](g, kernel, input_shape=shape, **how),
        lambda: KERNELS["conv_kernel_gradient"](x, g, kernel_shape=kernel.shape, **how),
    ))  # fmt: skip


def pooling_call(rng, order):
    count = order.near("count", lambda: order.choice((1, 2, 2, 3)))
    how = {
        "window": order.each("window", count, 1, 2, 3),
        "strides": order.each("strides", count, 1, 2, 3),
        "padding": order.each("padding", count, (0, 0), (0, 1), (1, 0), (1, 1)),
        "data_format": order.near("format", lambda: order.choice(FORMATS)),
    }
    batch, channels = order.near("batch", lambda: (order.choice((1, 2)), order.choice((1, 3))))
    shape = image_shape(batch, sizes(order, count), channels, how["data_format"])
    dtype = order.choice(FLOATS)
    x = laid(rng, order, shape, dtype)
    y, indices = KERNELS["max_pool"](x, **how)
    g = laid(rng, order, y.shape, dtype)
    mean = {**how, "count_include_pad": order.random() < 0.5}
    return order.choice((
        lambda: KERNELS["max_pool"](x, **how),
        lambda: KERNELS["max_pool_gradient"](g, indices, input_shape=shape, **how),
        lambda: KERNELS["avg_pool"](x, **mean),
        lambda: KERNELS["avg_pool_gradient"](g, input_shape=shape, **mean),
    ))  # fmt: skip


def attention_call(rng, order):
    dtype = order.choice(FLOATS)
    batch = order.near("batch", lambda: order.choice(((), (2,), (2, 2), (2, 4))))
    queries, keys, depth, width = order.each("sizes", 4, 1, 2, 3, 5)
    q = laid(rng, order, (*batch, queries, depth), dtype)
    fewer = (*batch[:-1], 1) if batch and order.random() < 0.5 else batch
    k, v = (laid(rng, order, (*fewer, keys, n), dtype) for n in (depth, width))
    kind = order.choice((None, None, np.dtype("?"), dtype))
    shape = order.choice(((queries, keys), (keys,), (*batch, queries, keys), (1, keys)))
    mask = None if kind is None else laid(rng, order, shape, np.dtype("f8")).astype(kind)
    how = {"is_causal": order.random() < 0.5, "scale": order.choice((1.0, 0.5))}
    y, normalizer = KERNELS["scaled_dot_product_attention"](q, k, v, mask, **how)
    g = laid(rng, order, y.shape, dtype)
    return order.choice((
        lambda: KERNELS["scaled_dot_product_attention"](q, k, v, mask, **how),
        lambda: KERNELS["scaled_dot_product_attention_gradient"](
            q, k, v, mask, y, normalizer, g, **how
        ),
    ))  # fmt: skip


def totals_call(rng, order):
    dtype = order.choice((*FLOATS[:2], np.dtype("F"), np.dtype("D")))
    x = laid(rng, order, (order.choice((1, 3, 40)), order.choice((1, 5, 400))), np.dtype("f8"))
    x = x.astype(dtype)
    return order.choice((lambda: products.row_totals(x), lambda: products.column_totals(x)))


def bits(call):
    with np.errstate(all="ignore"):
        found = call()
    return [
        (x.dtype.str, x.shape, x.tobytes())
        for x in (found if isinstance(found, tuple) else (found,))
    ]


def campaign(make, seed, count):
    """Calls in random order, each against itself with nothing remembered."""
    order, rng = Near(seed), np.random.default_rng(seed)
    calls, fresh = [], []
    while len(calls) < count:
        with np.errstate(all="ignore"):
            calls.append(make(rng, order))
        for plan in PLANS:
            plan.cache_clear()
        fresh.append(bits(calls[-1]))
    for i in order.choices(range(count), k=2 * count):
        with number_of_threads(order.choice((1, 2))):
            assert bits(calls[i]) == fresh[i]


MAKERS = [convolution_call, pooling_call, attention_call, totals_call]


@pytest.mark.parametrize("make", MAKERS)
def test_plans(make):
    campaign(make, 0, 150)


@pytest.mark.campaign
@pytest.mark.parametrize("make", MAKERS)
def test_many_plans(make):
    for seed in range(1, 9):
        campaign(make, seed, 500)


def test_all_plans_are_known():
    """The tests above clear every cache of this backend."""
    found = {
        one
        for module in (windows, products, convolution, pullback_numpy.kernels.attention)
        for one in vars(module).values()
        if callable(getattr(one, "cache_clear", None))
    }
    assert found == set(PLANS)


def test_what_is_remembered_is_not_written_into():
    """The same array serves every later call."""
    ones = products._kept_ones(3, np.dtype("f4"))
    x = np.ones((2, 3), np.float32)
    products.row_totals(x)[...] = 7
    products.column_totals(np.ones((3, 2), np.float32))[...] = 7
    assert ones.tolist() == [1, 1, 1]
    triangle = pullback_numpy.kernels.attention._triangle(2, 2)
    before = triangle.copy()
    for mask in (None, np.ones((2, 2), bool), np.ones((2, 2), np.float32)):
        given = [np.ones((2, 2), np.float32)] * 3
        y, normalizer = KERNELS["scaled_dot_product_attention"](
            *given, mask, is_causal=True, scale=1.0
        )
        KERNELS["scaled_dot_product_attention_gradient"](
            *given, mask, y, normalizer, y, is_causal=True, scale=1.0
        )
    assert triangle.tobytes() == before.tobytes()
