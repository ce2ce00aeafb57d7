"""Rates and decay of single variables, complex variables, and what an optimizer says of itself."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import pullback as pb
from pullback import optimizers as O

RNG = np.random.default_rng(3)


def complex_values(*shape: int) -> np.ndarray:
    parts = RNG.standard_normal((2, *shape)).astype("float32")
    return (parts[0] + 1j * parts[1]).astype("complex64")


MAKERS = {
    "SGD": lambda: O.SGD(0.1),
    "momentum": lambda: O.SGD(0.1, 0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda: O.Adam(0.1),
    "AMSGrad": lambda: O.Adam(0.1, amsgrad=True),
    "AdamW": lambda: O.AdamW(0.1, weight_decay=0.1),
    "Adagrad": lambda: O.Adagrad(0.1),
    "RMSprop": lambda: O.RMSprop(0.1),
    "Adadelta": lambda: O.Adadelta(),
    "Nadam": lambda: O.Nadam(0.1),
    "Adamax": lambda: O.Adamax(0.1),
    "Lion": lambda: O.Lion(0.1),
    "LAMB": lambda: O.LAMB(0.1),
}


def parts_of(value: np.ndarray) -> np.ndarray:
    return np.stack([value.real, value.imag], axis=-1)


@pytest.mark.parametrize("name", MAKERS)
def test_the_parts_of_complex_variables_move_as_real_variables_do(name: str) -> None:
    # This is PyTorch's rule: it steps on `view_as_real` of parameter and gradient.
    start, *gradients = (complex_values(3, 2) for _ in range(6))
    v, optimizer = pb.Variable(start), MAKERS[name]()
    parts, reference = pb.Variable(parts_of(start)), MAKERS[name]()
    for gradient in gradients:
        optimizer.apply_gradients([(pb.asarray(gradient), v)])
        reference.apply_gradients([(pb.asarray(parts_of(gradient)), parts)])
    assert parts_of(v.numpy()).tolist() == parts.tolist()
    slots = zip(optimizer.variables, reference.variables, strict=True)
    assert all(one.tolist() == other.tolist() for one, other in slots)


@pytest.mark.parametrize(
    "make",
    [
        lambda: O.Adam(0.05, ema_decay=0.5),
        lambda: O.SGD(0.1, accumulate_steps=2),
        lambda: O.SGD(0.1, clip_global_norm=1.0),
        lambda: O.SGD(0.1, clip_norm=1.0),
        lambda: O.SGD(0.1, clip_value=0.5),
        lambda: O.SGD(0.1, decoupled_weight_decay=0.1),
        lambda: O.Lion(0.01),
        lambda: O.LAMB(0.05),
        lambda: O.Nadam(0.05),
        lambda: O.Adamax(0.05),
        lambda: O.LossScale(O.Adam(0.05)),
    ],
)
def test_options_take_complex_variables(make) -> None:
    v, optimizer = pb.Variable(complex_values(3)), make()

    def loss() -> pb.Tensor:
        return pb.sum(pb.abs(v - (1 + 2j)) ** 2)

    before = float(loss())
    for _ in range(20):
        optimizer.minimize(loss)
    assert float(loss()) < before
    assert v.dtype == pb.complex64


def test_a_checkpoint_holds_the_slots_of_complex_variables(tmp_path) -> None:
    def made():
        v = pb.Variable(np.ones(3, "complex64"))
        return v, O.Adam(0.1)

    v, optimizer = made()
    optimizer.apply_gradients([(pb.asarray([1j, 2.0, 3.0]), v)])
    path = pb.Checkpoint(v=v, optimizer=optimizer).save(tmp_path / "at")
    w, other = made()
    pb.Checkpoint(v=w, optimizer=other).restore(path)
    for one, variable in ((optimizer, v), (other, w)):
        one.apply_gradients([(pb.asarray([1j, 2.0, 3.0]), variable)])
    assert v.numpy().tolist() == w.numpy().tolist()


def test_adafactor_refuses_complex_variables() -> None:
    v = pb.Variable(np.ones((2, 2), "complex64"))
    with pytest.raises(pb.errors.DTypeError, match="use Adam"):
        O.Adafactor().apply_gradients([(pb.ones_like(v), v)])


# -------------------------------------------------------------------------------------------------
# Single variables.


@pytest.mark.parametrize("kind", ["dict", "function"])
def test_rate_scale_is_a_parameter_group(kind: str) -> None:
    starts = [RNG.standard_normal(3).astype("float32") for _ in range(2)]
    a, b = (pb.Variable(start, name=name) for start, name in zip(starts, "ab", strict=True))
    scale = {b: 0.1} if kind == "dict" else lambda v: 0.1 if v.name == "b" else 1.0
    optimizer = O.AdamW(0.1, weight_decay=0.2, rate_scale=scale)
    apart = [O.AdamW(0.1, weight_decay=0.2), O.AdamW(0.01, weight_decay=0.2)]
    copies = [pb.Variable(start) for start in starts]
    for _ in range(5):
        gradients = [pb.asarray(RNG.standard_normal(3).astype("float32")) for _ in range(2)]
        optimizer.apply_gradients(zip(gradients, (a, b), strict=True))
        for one, gradient, copied in zip(apart, gradients, copies, strict=True):
            one.apply_gradients([(gradient, copied)])
    np.testing.assert_allclose(a.numpy(), copies[0].numpy(), rtol=1e-6)
    np.testing.assert_allclose(b.numpy(), copies[1].numpy(), rtol=1e-6)


@pytest.mark.parametrize("decoupled", [False, True])
def test_decay_scale_is_a_parameter_group(decoupled: bool) -> None:
    starts = [RNG.standard_normal(3).astype("float32") for _ in range(2)]
    a, b = map(pb.Variable, starts)
    name = "decoupled_weight_decay" if decoupled else "weight_decay"
    optimizer = O.SGD(0.1, **{name: 0.2}, decay_scale={b: 0.5})
    apart = [O.SGD(0.1, **{name: 0.2}), O.SGD(0.1, **{name: 0.1})]
    copies = [pb.Variable(start) for start in starts]
    for _ in range(4):
        gradients = [pb.asarray(RNG.standard_normal(3).astype("float32")) for _ in range(2)]
        optimizer.apply_gradients(zip(gradients, (a, b), strict=True))
        for one, gradient, copied in zip(apart, gradients, copies, strict=True):
            one.apply_gradients([(gradient, copied)])
    assert [v.tolist() for v in (a, b)] == [v.tolist() for v in copies]


def test_a_factor_of_zero_leaves_a_variable_where_it_is() -> None:
    a, b = pb.Variable(1.0), pb.Variable(1.0)
    O.Adam(0.1, rate_scale={a: 0.0}).minimize(lambda: a * b)
    assert (float(a), float(b)) != (1.0, 1.0)
    assert float(a) == 1.0


def test_rate_scale_scales_a_rate_in_a_variable_and_a_schedule() -> None:
    for rate in (pb.Variable(0.5), lambda step: 0.5):
        v = pb.Variable(1.0)
        O.SGD(rate, rate_scale=lambda v: 0.5).apply_gradients([(pb.asarray(1.0), v)])
        assert float(v) == 0.75


def test_scales_follow_a_copy_of_the_model() -> None:
    v = pb.Variable(1.0)
    w, optimizer = copy.deepcopy((v, O.SGD(1.0, rate_scale={v: 0.5})))
    optimizer.apply_gradients([(pb.asarray(1.0), w)])
    assert float(w) == 0.5


def test_a_compiled_model_is_pickled_with_its_optimizer() -> None:
    model = pb.Sequential([pb.layers.Dense(2, input_shape=(3,))])
    first = model.layers[0].variables[0]
    optimizer = O.AdamW(0.1, rate_scale={first: 0.5}, no_decay=[first])
    model.compile(optimizer, "mse")
    x, y = np.ones((4, 3), "f4"), np.ones((4, 2), "f4")
    model.fit(x, y, verbose=False)
    again = pickle.loads(pickle.dumps(model))
    assert again.optimizer.step == 1
    for one in (model, again):
        one.fit(x, y, epochs=3, verbose=False)
    for one, other in zip(model.variables, again.variables, strict=True):
        assert one.tolist() == other.tolist()
    slots = zip(model.optimizer.variables, again.optimizer.variables, strict=True)
    assert all(one.tolist() == other.tolist() for one, other in slots)


def test_factors_of_variables_are_not_in_a_configuration() -> None:
    with pytest.raises(pb.errors.InputValueError, match="rate_scale: a dict with <Variable"):
        O.SGD(rate_scale={pb.Variable(1.0): 0.5}).get_config()


def test_wrong_scales_are_named() -> None:
    with pytest.raises(pb.errors.InputTypeError, match="rate_scale and decay_scale must be a dict"):
        O.SGD(rate_scale=0.5)
    v = pb.Variable(1.0, name="w")
    with pytest.raises(pb.errors.InputValueError, match="the factor of w must be 0 or more"):
        O.SGD(rate_scale={v: -1}).apply_gradients([(pb.asarray(1.0), v)])


# -------------------------------------------------------------------------------------------------
# What it says of itself.


def test_learning_rate_is_a_number_under_a_schedule() -> None:
    schedule = O.schedules.step_decay(0.5, 1, 0.5)
    v, optimizer = pb.Variable(1.0), O.SGD(schedule)
    rates = []
    for _ in range(3):
        rates.append(optimizer.learning_rate)
        optimizer.minimize(lambda: v * v)
    assert rates == [0.5, 0.25, 0.125]
    assert optimizer.schedule is schedule
    optimizer.learning_rate = 0.3
    assert (optimizer.learning_rate, optimizer.schedule) == (0.3, None)


def test_a_wrong_rate_is_refused_when_it_is_set() -> None:
    optimizer = O.SGD(0.1)
    with pytest.raises(pb.errors.InputValueError, match="0 or more"):
        optimizer.learning_rate = -1


def test_loss_scale_passes_on_rate_and_schedule() -> None:
    inner = O.Adam(lambda step: 0.5)
    optimizer = O.LossScale(inner)
    assert optimizer.learning_rate == 0.5
    assert optimizer.schedule is inner.schedule is not None


def test_variables_are_the_slots() -> None:
    v, optimizer = pb.Variable([1.0, 2.0]), O.Adam()
    assert optimizer.variables == []
    optimizer.minimize(lambda: pb.sum(v * v))
    assert [slot.name for slot in optimizer.variables] == ["m", "v"]


def test_repr_has_the_rate() -> None:
    assert repr(O.Adam(0.01)) == "<Adam, learning rate 0.01, 0 steps>"
    assert repr(O.SGD(lambda step: 0.5)) == "<SGD, learning rate 0.5 by a schedule, 0 steps>"
