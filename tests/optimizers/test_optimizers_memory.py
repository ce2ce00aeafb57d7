"""Training for long: memory stays flat."""

from __future__ import annotations

import gc
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import pullback as pb

L, O = pb.layers, pb.optimizers  # noqa: E741


def linear_fit():
    """The guides' fit of 3x + 2, with an optimizer: one small step a call."""
    generator = pb.Generator(0)
    x = generator.normal((32,))
    y = x * 3.0 + 2.0
    w, b = pb.Variable(5.0), pb.Variable(10.0)
    optimizer = O.SGD(0.01)

    def step():
        optimizer.minimize(lambda: pb.losses.mean_squared_error(y, w * x + b))

    def check():
        assert abs(float(w) - 3) < 1e-3
        assert abs(float(b) - 2) < 1e-3

    return step, check


def network():
    """Layers that keep state, an optimizer with every option, and losses that layers add."""
    model = pb.Sequential(
        [
            L.Dense(8, "tanh", kernel_regularizer=L.regularizers.l2(), dtype="mixed_bfloat16"),
            L.BatchNormalization(),
            L.Dropout(0.1, seed=1),
            L.Dense(1, dtype="float32"),
        ]
    )
    x = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
    y = x[:, :1] * 2
    optimizer = O.LossScale(
        O.Adam(
            O.schedules.cosine_restarts(0.01, 50), clip_global_norm=1.0, ema_decay=0.99,
            accumulate_steps=2, decoupled_weight_decay=0.01,
        )
    )  # fmt: skip

    def step():
        optimizer.minimize(
            lambda: pb.losses.mean_squared_error(y, model(x, training=True)) + sum(model.losses)
        )

    return step, lambda: None


@pytest.mark.parametrize("make", [linear_fit, network])
def test_steps_leave_nothing_behind(make):
    step, _ = make()
    # Numbers beside tensors are kept, but not more than a few thousand of them.
    constants = pb.default_device().constants
    tracemalloc.start()
    try:
        for _ in range(100):
            step()
        constants.clear()
        # Python's own lists of free objects are emptied by it as well.
        gc.collect()
        gc.disable()
        before, objects = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
        for _ in range(300):
            step()
        constants.clear()
        # Not even cycles, which a collection would have to find. One object a step were 300.
        assert len(gc.get_objects()) - objects < 100
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()
        gc.enable()


def resident():
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.campaign
def test_a_million_steps():
    step, check = linear_fit()
    for _ in range(10_000):
        step()
    gc.collect()
    before, found = resident(), []
    for part in range(10):
        for _ in range(100_000):
            step()
        found.append(resident() - before)
        print(f"{(part + 1) * 100_000:,} steps: {found[-1] / 1024:+,.0f} KiB", flush=True)
    check()
    assert max(found) < 2**20, found
