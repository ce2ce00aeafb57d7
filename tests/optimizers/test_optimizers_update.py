"""Steps after the first one, which look nothing up: they are what a call of the op would be."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.ops.optim.optimizer_updates import update
from pullback.optimizers import Optimizer
from pullback.tensor import Tensor, TensorLike

O = pb.optimizers  # noqa: E741
RNG = np.random.default_rng(3)
MAKERS = {
    "SGD": lambda: O.SGD(0.1),
    "momentum": lambda: O.SGD(0.1, 0.9, nesterov=True, weight_decay=0.1),
    "Adam": O.Adam,
    "AMSGrad": lambda: O.Adam(amsgrad=True),
    "AdamW": O.AdamW,
    "Nadam": O.Nadam,
    "LAMB": O.LAMB,
    "RMSprop": lambda: O.RMSprop(momentum=0.5, centered=True),
    "Adadelta": O.Adadelta,
    "Adafactor": O.Adafactor,
}


def values(shape, count, dtype="float32"):
    return [RNG.standard_normal(shape).astype(dtype) for _ in range(count)]


def by_calls(optimizer, start, gradients):
    """The parameter after steps of the optimizer's op, called anew at each step."""
    parameter = pb.asarray(start)
    slots = [pb.zeros_like(parameter) for _ in optimizer.slot_names]
    op = getattr(pb.ops, optimizer.op)
    for step, gradient in enumerate(gradients, 1):
        numbers = (optimizer.learning_rate, step)[: 1 + optimizer.takes_step]
        found = op(parameter, gradient, *slots, *numbers, **optimizer.settings)
        parameter, *slots = found if slots else (found,)
    return [parameter, *slots]


@pytest.mark.parametrize("shape", [(), (3, 2), (0, 4)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["SGD", "momentum", "Adam", "AMSGrad"])
def test_steps_are_calls_of_the_op(name, dtype, shape):
    optimizer = MAKERS[name]()
    start, *gradients = values(shape, 6, dtype)
    v = pb.Variable(start)
    for gradient in gradients:
        optimizer.apply_gradients([(pb.asarray(gradient), v)])
    expected = by_calls(optimizer, start, gradients)
    found = [v, *(slot for _, _, slot in optimizer.slot_variables())]
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.numpy().tobytes() == other.numpy().tobytes()


@pytest.mark.parametrize("name", MAKERS)
def test_what_changes_between_steps_is_seen(name):
    """The dtype of gradients, settings, the rate: as if every step were the first one."""

    def run(fresh):
        optimizer, v = MAKERS[name](), pb.Variable(np.ones((3, 2), np.float32))
        for step in range(8):
            if fresh:
                for _, _, kept in optimizer._slots._of.values():
                    kept.__init__()
            if step == 2:
                optimizer.learning_rate = 0.5
            if step == 3:
                optimizer.learning_rate = pb.Variable(0.25)
            if step == 4:
                optimizer.settings = {**optimizer.settings, "weight_decay": 0.5} if (
                    "weight_decay" in optimizer.settings
                ) else optimizer.settings  # fmt: skip
            gradient = pb.asarray(GRADIENTS[step])
            if step in (1, 5):
                gradient = gradient.astype("bfloat16")
            optimizer.apply_gradients([(gradient, v)])
        return v.numpy()

    GRADIENTS = values((3, 2), 8)
    assert run(False).tobytes() == run(True).tobytes()


def test_variables_of_several_dtypes_take_turns():
    optimizer = O.Adam(0.5)
    ones = [pb.Variable(np.ones(2), dtype=dtype) for dtype in ("float32", "float64", "bfloat16")]
    for _ in range(3):
        optimizer.apply_gradients([(pb.asarray([1.0, -1.0], dtype=v.dtype), v) for v in ones])
    for v in ones:
        np.testing.assert_allclose(v.numpy().astype(float), [-0.5, 2.5], atol=0.02)
    assert [slot.dtype.name for _, name, slot in optimizer.slot_variables() if name == "m"] == [
        "float32", "float64", "float32"
    ]  # fmt: skip


def test_another_kernel_is_called_from_then_on(offer):
    optimizer, v = O.SGD(1.0), pb.Variable([1.0])
    for _ in range(3):
        optimizer.apply_gradients([(pb.asarray([1.0]), v)])
    assert v.tolist() == [-2.0]
    offer("sgd_update", lambda p, g, rate, *, weight_decay: p * 0)
    for _ in range(2):
        optimizer.apply_gradients([(pb.asarray([1.0]), v)])
        assert v.tolist() == [0.0]


def test_a_kernel_that_gives_scalars(offer):
    offer("sgd_update", lambda p, g, rate, *, weight_decay: np.float32(7.0))
    optimizer, v = O.SGD(1.0), pb.Variable(1.0)
    for _ in range(3):
        optimizer.apply_gradients([(pb.asarray(1.0), v)])
        assert type(v._array) is np.ndarray
        assert v.item() == 7.0


def test_a_kernel_that_fails_is_named_at_any_step(offer):
    calls = []

    def failing(p, g, rate, *, weight_decay):
        calls.append(None)
        if len(calls) > 2:
            raise MemoryError("no room")
        return p - g

    offer("sgd_update", failing)
    optimizer, v = O.SGD(1.0), pb.Variable([3.0])
    for _ in range(2):
        optimizer.apply_gradients([(pb.asarray([1.0]), v)])
    with pytest.raises(pb.errors.PullbackError, match=r"sgd_update.*no room"):
        optimizer.apply_gradients([(pb.asarray([1.0]), v)])
    assert (v.tolist(), optimizer.step) == ([1.0], 2)


def test_an_op_whose_results_do_not_fit_is_an_error_at_any_step(define):
    @update()
    def test_update(parameter: TensorLike, gradient: TensorLike, learning_rate: TensorLike):
        """A result of another shape."""
        return pb.stack([parameter, gradient])

    class Wrong(Optimizer):
        op = "test_update"

    optimizer, v = Wrong(1.0), pb.Variable([1.0])
    for _ in range(2):
        with pytest.raises(pb.errors.ShapeError, match="keeps its shape"):
            optimizer.apply_gradients([(pb.asarray([1.0]), v)])


def test_an_op_without_a_kernel(define):
    @update("mean")
    def test_mean(
        parameter: TensorLike, gradient: TensorLike, mean: TensorLike, learning_rate: TensorLike
    ) -> tuple[Tensor, Tensor]:
        """Moves against the mean of the gradients."""
        mean = (mean + gradient) / 2
        return parameter - mean * learning_rate, mean

    class Averaging(Optimizer):
        op = "test_mean"
        slot_names = ("mean",)

    optimizer, v = Averaging(1.0), pb.Variable([1.0])
    for _ in range(3):
        optimizer.apply_gradients([(pb.asarray([1.0]), v)])
    assert v.tolist() == [1.0 - 0.5 - 0.75 - 0.875]


def test_rates_beyond_the_dtype_are_infinite_and_silent():
    v = pb.Variable([0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        O.SGD(1e300).apply_gradients([(pb.asarray([-1.0]), v)])
    assert v.tolist() == [float("inf")]


def test_the_constants_of_a_device_are_not_filled_by_steps():
    v = pb.Variable([0.0])
    optimizer = O.Adam()
    optimizer.apply_gradients([(pb.asarray([1.0]), v)])
    before = len(v.device.constants)
    for _ in range(20):
        optimizer.apply_gradients([(pb.asarray([1.0]), v)])
    assert len(v.device.constants) == before
