"""Infinities and NaN are results, also where a filter makes errors of what a library warns of."""

import warnings
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback._autodiff import replay
from pullback.spec import OPS
from pullback_conformance.samples import load

SUITES = load()
EXCEPTIONAL = [0.0, -1.0, np.inf, 2.0, np.nan, -np.inf, 3e38, 1.0, -0.0, 1e-45]


def _spoiled(value: Any) -> Any:
    """Returns a value of a sample with infinities and their like in place of its floats."""
    if isinstance(value, (list, tuple)):
        return [_spoiled(item) for item in value]
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    return np.resize(np.asarray(EXCEPTIONAL, value.dtype), value.shape)


def _floats(inputs: list[Any]) -> list[Any]:
    flat = [x for value in inputs for x in (value if isinstance(value, list) else [value])]
    return [x for x in flat if isinstance(x, pb.Tensor) and pb.isdtype(x.dtype, "real floating")]


def _tensors(value: Any) -> Any:
    if isinstance(value, list):
        return [_tensors(item) for item in value]
    return pb.asarray(value) if isinstance(value, np.ndarray) else value


def _results(call: Any) -> list[np.ndarray[Any, Any]]:
    result = call()
    parts = result if isinstance(result, (list, tuple)) else [result]
    return [np.asarray(part) for part in parts if isinstance(part, pb.Tensor)]


SAMPLES = {name: SUITES[name].samples[-1] for name in sorted(OPS) if name in SUITES}


@pytest.mark.parametrize("first", sorted({name[0] for name in SAMPLES}))
def test_filters_of_warnings_change_no_result(first: str) -> None:
    for name in [name for name in SAMPLES if name[0] == first]:
        function, sample = OPS[name].function, SAMPLES[name]
        inputs = [_tensors(_spoiled(value)) for value in sample.inputs]

        def forward(
            function: Any = function, inputs: Any = inputs, attributes: Any = sample.attributes
        ) -> Any:
            return function(*inputs, **attributes)

        def gradient(inputs: Any = inputs, forward: Any = forward) -> Any:
            with pb.GradientTape() as tape:
                tape.watch(_floats(inputs))
                result = forward()
                parts = result if isinstance(result, (list, tuple)) else [result]
                total = sum((pb.sum(pb.abs(part)) for part in parts), pb.zeros(()))
            return tape.gradient(total, _floats(inputs))

        calls = [forward]
        if OPS[name].differentiable and _floats(inputs):
            calls.append(gradient)
        for call in calls:
            try:
                expected = _results(call)
            except pb.errors.PullbackError:
                continue  # this op says that it takes no such values
            replay.forget()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for _ in range(1 if call is forward else 3):
                    found = _results(call)
                    for a, b in zip(expected, found, strict=True):
                        np.testing.assert_array_equal(a, b, f"{name} {call.__name__}")


@pytest.mark.usefixtures("own_kernels")  # those of a pack warn of nothing
def test_captured_steps_and_compiled_gradients_take_filters_as_well() -> None:
    x = pb.asarray([0.0, 2.0, -1.0])

    def run() -> list[list[float]]:
        weights, optimizer = pb.Variable([1.0, 2.0, 3.0]), pb.optimizers.Adam(0.1)

        def loss_of(x: pb.Tensor) -> tuple[pb.Tensor, Any]:
            with pb.GradientTape() as tape:
                loss = pb.sum(pb.log(weights * x) / x)
            return loss, tape.gradient(loss, weights)

        @pb.function
        def step(x: pb.Tensor) -> pb.Tensor:
            loss, gradient = loss_of(x)
            optimizer.apply_gradients([(gradient, weights)])
            return loss

        gradients = [loss_of(x)[1] for _ in range(30)]
        losses = [step(pb.asarray([1e38, 2.0, 1e-40])) for _ in range(4)]
        return [value.tolist() for value in (*gradients, *losses, weights.value)]

    expected = run()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(pb.errors.BackendError, match="set it before them"):
            run()  # the passes that the first run has compiled do not know the filter
        found = run()
    np.testing.assert_equal(found, expected)
