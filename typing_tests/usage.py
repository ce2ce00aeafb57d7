"""User code for type checkers; `tests/architecture/test_typing.py` runs mypy on it.

`assert_type` holds the type of a result. Where a mistake must be reported, a comment ignores the
error by its code, and an ignored error that is not reported is an error too.
"""

from __future__ import annotations

from typing import assert_type

import numpy as np

import pullback as pb
from pullback.dtypes import numeric
from pullback.shapes import broadcast
from pullback.spec import ROUNDED

x = pb.asarray([[1.0, 2.0], [3.0, 4.0]])
assert_type(x, pb.Tensor)
assert_type(x.shape, tuple[int, ...])

# Ops take whatever becomes a tensor, and give tensors.
assert_type(pb.add(x, 1), pb.Tensor)
assert_type(pb.add([1.0, 2.0], np.ones(2)), pb.Tensor)
assert_type(pb.where(x > 0, x, 0), pb.Tensor)
assert_type(pb.concat([x, [[5.0, 6.0]]], axis=0), pb.Tensor)
assert_type(pb.clip(x, None, 3.0), pb.Tensor)
assert_type(pb.softmax(x, axis=-1), pb.Tensor)
assert_type(pb.conv(np.ones((1, 4, 1)), np.ones((3, 1, 1)), padding="same"), pb.Tensor)
assert_type(pb.lstm(x, x, x, x, x, None), tuple[pb.Tensor, pb.Tensor, pb.Tensor])
assert_type(pb.linalg.svd(x), tuple[pb.Tensor, pb.Tensor, pb.Tensor])
assert_type(pb.linalg.det([[1.0, 2.0], [3.0, 4.0]]), pb.Tensor)
assert_type(pb.fft.rfft(x), pb.Tensor)
assert_type(pb.random.normal((2, 3), mean=1.0), pb.Tensor)
assert_type(pb.ops.softmax_gradient(x, x, axis=-1), pb.Tensor)

# Mistakes are reported.
pb.add(x, object())  # type: ignore[arg-type]
pb.add(x)  # type: ignore[call-arg]
pb.softmax(x, axes=-1)  # type: ignore[call-arg]
pb.sum(x, axis="rows")  # type: ignore[arg-type]
pb.softmax_gradient(x, x)  # type: ignore[attr-defined]
pb.rleu(x)  # type: ignore[attr-defined]


def norm(v: pb.TensorLike) -> pb.Tensor:
    """A function with the annotation that the package's own functions have."""
    return pb.sqrt(pb.sum(pb.square(v)))


# An op of one's own.
@pb.op(shape=broadcast, dtype=numeric, accuracy=ROUNDED)
def double(v: pb.Tensor, /) -> pb.Tensor:
    """Twice v."""
    return v + v


assert_type(double(x), pb.Tensor)

# Gradients.
slope: pb.Tensor = pb.grad(norm)([3.0, 4.0])
assert_type(pb.value_and_grad(norm)([3.0, 4.0])[0], pb.Tensor)
assert_type(pb.vjp(norm, x)[0], pb.Tensor)
assert_type(pb.stop_gradient(x), pb.Tensor)
w = pb.Variable([1.0, 2.0])
with pb.GradientTape() as tape:
    loss = pb.mean(pb.square(w))
assert_type(loss, pb.Tensor)
gradients = tape.gradient(loss, [w])
assert_type(pb.implicit_gradients(norm)(x)[0][0], pb.Tensor | None)

# Models.
model = pb.Sequential([pb.layers.Dense(8, activation="relu"), pb.layers.Dense(1)])
y: pb.Tensor = model(x)
optimizer = pb.optimizers.Adam(0.01, beta1=0.8)
optimizer.apply_gradients(zip(gradients, [w], strict=True))
average: pb.Tensor = pb.losses.mean_squared_error(x, y)
checkpoint: pb.Checkpoint = pb.Checkpoint(model=model, optimizer=optimizer)
