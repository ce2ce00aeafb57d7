"""A function frees what it defines when it has ended: no class is kept by what has used it."""

from __future__ import annotations

import gc
import weakref
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb


class Token:
    """Stands for what a class closes over: an array, a model."""


def layer(token: Token) -> Any:
    class Scale(pb.layers.Layer):
        def build(self, shape: Any) -> None:
            self.weight = pb.Variable(1.0)

        def call(self, x: Any, training: bool | None = None) -> Any:
            return x * self.weight if token else x

    return Scale()


def called(token: Token, _: Path) -> None:
    layer(token)(pb.ones(3), training=True)


def saved(token: Token, folder: Path) -> None:
    model = layer(token)
    model(pb.ones(3))
    path = pb.Checkpoint(model=model).save(folder)
    pb.Checkpoint(model=layer(token)).restore(path)


def fitted(token: Token, capture: bool) -> None:
    class Dense(pb.layers.Dense):
        def call(self, x: Any) -> Any:
            return super().call(x) if token else x

    class SGD(pb.optimizers.SGD):
        def update(self, *args: Any, **kwargs: Any) -> Any:
            return super().update(*args, **kwargs) if token else None

    class Mean(pb.metrics.MeanSquaredError):
        def result(self) -> Any:
            return super().result() if token else None

    class Callback(pb.callbacks.Callback):
        def on_epoch_end(self, *args: Any, **kwargs: Any) -> None:
            assert token

    model = pb.Sequential([Dense(4), layer(token), pb.layers.Dense(1)])
    model.compile(SGD(0.1), loss=pb.losses.mean_squared_error, metrics=[Mean()], capture=capture)
    x, y = np.zeros((8, 3), np.float32), np.zeros((8, 1), np.float32)
    model.fit(x, y, epochs=3, batch_size=2, callbacks=[Callback()], verbose=0)


def converted(token: Token, _: Path) -> None:
    class Array:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.zeros(3) if token else None

    class Own:
        def __pullback_tensor__(self) -> Any:
            return pb.ones(3) if token else None

    pb.add(pb.ones(3), pb.asarray(Array()))
    pb.add(pb.ones(3), Own())  # type: ignore[arg-type]


def structured(token: Token, _: Path) -> None:
    Pair = namedtuple("Pair", "a b")
    Pair.token = token  # type: ignore[attr-defined]
    captured = pb.function(lambda pair: pair.a * 2)
    for _ in range(3):
        captured(Pair(pb.ones(3), pb.ones(2)))
    pb.vmap(lambda pair: pair.a)(Pair(pb.ones(3), pb.ones(3)))


def mapped(token: Token, _: Path) -> None:
    dataset = pb.data.Dataset.range(5).map(lambda x: x if token else 0).shuffle(2)
    next(iter(dataset))


def differentiated(token: Token, _: Path) -> None:
    @pb.custom_gradient
    def twice(x: Any) -> Any:
        return x * 2, lambda g: g * 2 if token else None

    pb.grad(lambda x: pb.sum(twice(x)))(pb.ones(3))


def failed(token: Token, _: Path) -> None:
    captured = pb.function(lambda x: float(x * 2 if token else x))
    captured(pb.ones(()))
    with pytest.raises(pb.errors.CaptureError):
        captured(pb.ones(()))


USES: dict[str, Callable[[Token, Path], None]] = {
    "called": called,
    "saved": saved,
    "fitted": lambda token, _: fitted(token, capture=False),
    "fitted, captured": lambda token, _: fitted(token, capture=True),
    "converted": converted,
    "structured": structured,
    "mapped": mapped,
    "differentiated": differentiated,
    "failed": failed,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_is_freed(use: Callable[[Token, Path], None], tmp_path: Path) -> None:
    token = Token()
    use(token, tmp_path)
    seen = weakref.ref(token)
    del token
    gc.collect()
    assert seen() is None
