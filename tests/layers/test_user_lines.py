"""Errors show the line of the user's code that failed."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.dtypes import real_floating
from pullback.shapes import broadcast
from pullback.spec import FEW_ULP


class Block(pb.layers.Layer):
    def call(self, x: pb.Tensor) -> pb.Tensor:
        return x.reshape(-1, 7)  # in Block


class Net(pb.Model):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def call(self, x: pb.Tensor) -> pb.Tensor:
        return self.block(x)  # in Net


class Lookup(pb.Model):
    def call(self, x: pb.Tensor) -> pb.Tensor:
        return {"a": x}["b"]  # in Lookup


class Stepper(pb.Model):
    def call(self, x: pb.Tensor) -> pb.Tensor:
        return x

    def train_step(self, inputs: Any, targets: Any, weights: Any) -> Any:
        return {"loss": pb.reshape(inputs, (7, 9))}  # in train_step


class BadMetric(pb.metrics.Mean):
    def update(self, *values: Any) -> None:
        pb.reshape(pb.ones(3), (7, 9))  # in update


class Chained(pb.layers.Layer):
    def call(self, x: pb.Tensor) -> pb.Tensor:
        try:
            return {}["weights"]  # in the try
        except KeyError:
            raise pb.errors.ShapeError("no weights")  # noqa: B904  # in the handler


@pb.custom_gradient
def doubled(x: pb.Tensor) -> Any:
    def rule(g: pb.Tensor) -> pb.Tensor:
        return pb.reshape(g, (7, 9))  # in rule

    return x * 2, rule


def in_map(x: Any) -> Any:
    return pb.reshape(pb.asarray(x), (7, 9))  # in the map


def fit(model: pb.Model, **options: Any) -> None:
    model.compile("sgd", "mean_squared_error", **options)
    model.fit(np.zeros((8, 3), "f4"), np.zeros((8, 3), "f4"), verbose=False)


def own_loss(targets: Any, predictions: Any) -> Any:
    return pb.reshape(predictions, (7, 9))  # in the loss


def with_own_loss() -> None:
    model = pb.Sequential([pb.layers.Dense(3)])
    model.compile("sgd", own_loss)
    model.fit(np.zeros((8, 3), "f4"), np.zeros((8, 3), "f4"), verbose=False)


def mapped(function: Callable[[Any], Any], **options: Any) -> None:
    list(pb.data.Dataset.range(3).map(function, **options))


PLACES: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "call": (lambda: Block()(pb.zeros((2, 3))), ("in Block",)),
    "nested call": (lambda: Net()(pb.zeros((2, 3))), ("in Net", "in Block")),
    "call, KeyError": (lambda: Lookup()(pb.zeros((2, 3))), ("in Lookup",)),
    "call, in a handler": (
        lambda: Chained()(pb.zeros((2, 3))),
        ("in the try", "in the handler"),
    ),
    "fit": (lambda: fit(Net()), ("in Net", "in Block")),
    "train_step": (lambda: fit(Stepper()), ("in train_step",)),
    "metric": (
        lambda: fit(pb.Sequential([pb.layers.Dense(3)]), metrics=[BadMetric("bad")]),
        ("in update",),
    ),
    "loss": (with_own_loss, ("in the loss",)),
    "map": (lambda: mapped(in_map), ("in the map",)),
    "map, threads": (lambda: mapped(in_map, parallel=2), ("in the map",)),
    "prefetch": (
        lambda: list(pb.data.Dataset.range(3).map(in_map).prefetch(2)),
        ("in the map",),
    ),
    "custom gradient": (
        lambda: pb.grad(lambda x: pb.sum(doubled(x)))(pb.ones(3)),
        ("in rule",),
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_traceback_has_the_users_line(place: str) -> None:
    run, marks = PLACES[place]
    with pytest.raises(Exception) as caught:  # noqa: PT011  (the traceback is what is tested)
        run()
    text = "".join(traceback.format_exception(caught.value))
    lines = Path(__file__).read_text().splitlines()
    for mark in marks:
        number = next(i for i, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))
        assert f'{__file__}", line {number}, in ' in text, text


def test_traceback_has_the_line_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "user_line_worker.py"
    file.write_text("import numpy as np\n\ndef work(x):\n    return np.reshape(x, (7, 9))\n")
    monkeypatch.syspath_prepend(tmp_path)
    work = importlib.import_module("user_line_worker").work
    with pytest.raises(ValueError, match="reshape") as caught:
        mapped(work, parallel=1, processes=True)
    assert f'"{file}", line 4, in work' in "".join(traceback.format_exception(caught.value))


def test_body_of_an_own_op_is_in_the_traceback() -> None:
    @pb.op(shape=broadcast, dtype=real_floating, accuracy=FEW_ULP)
    def crooked(x: pb.Tensor, /) -> pb.Tensor:
        """Reshapes to no avail."""
        return pb.reshape(x, (7, 9))  # in the body

    with pytest.raises(pb.errors.ShapeError, match="crooked: ") as caught:
        crooked(pb.ones(3))
    assert "# in the body" in "".join(traceback.format_exception(caught.value))


def test_errors_of_other_kinds_are_noted_with_the_innermost_layer() -> None:
    model = pb.Sequential([Lookup(name="table")])
    with pytest.raises(KeyError) as caught:
        model(pb.zeros((2, 3)))
    assert caught.value.__notes__ == ["in table (Lookup), called with float32 (2, 3)"]


def test_call_with_too_few_inputs_says_how_to_take_several() -> None:
    class Two(pb.layers.Layer):
        def call(self, a: pb.Tensor, b: pb.Tensor) -> pb.Tensor:
            return a + b

    with pytest.raises(TypeError, match="missing 1 required") as caught:
        Two()(pb.zeros(2))
    assert "Two.call has the parameters (a" in caught.value.__notes__[0]
    assert "layer(a, b), and fit((a, b), targets)" in caught.value.__notes__[0]


def test_error_keeps_its_notes_and_its_cause() -> None:
    class Noting(pb.layers.Layer):
        def call(self, x: pb.Tensor) -> pb.Tensor:
            try:
                return {}["weights"]
            except KeyError as cause:
                error = pb.errors.ShapeError("seven")
                error.add_note("said by the user")
                raise error from cause

    with pytest.raises(pb.errors.LayerError) as caught:
        Noting()(pb.zeros(2))
    assert caught.value.__notes__ == ["said by the user"]
    assert isinstance(caught.value.__cause__, KeyError)
