"""Random training steps with all kinds of state, captured beside eager: the same bits throughout.

`pytest -m slow tests/graph/test_function_state_random.py` tries more of them.
"""

import contextlib
import functools
import gc
import weakref

import numpy as np
import pytest

import pullback as pb
from pullback.devices import as_device
from pullback.graph.running import early_writes

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")

CLASSES = 3
METRICS = {
    "ConfusionMatrix": CLASSES,
    "Precision": CLASSES,
    "F1Score": CLASSES,
    "MatthewsCorrelation": CLASSES,
    "SparseCategoricalAccuracy": None,
    "SparseTopKAccuracy": 2,
    "AUC": CLASSES,
}
OPTIMIZERS = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Lion", "Adadelta")


class Penalty(pb.layers.Layer):
    """A layer that adds a loss, in training alone or always."""

    def __init__(self, always):
        super().__init__()
        self.always = always

    def call(self, x, training=False):
        if training or self.always:
            self.add_loss(pb.mean(x * x) * 0.01)
        return x


class Largest(pb.metrics.Metric):
    initial = {"largest": float("-inf"), "count": 0}  # noqa: RUF012

    def update(self, values):
        self.largest = pb.maximum(self.largest, pb.max(values))
        self.count += 1

    def result(self):
        return float(self.largest), self.count


class Training:
    """A model, an optimizer and metrics of random kinds, and a step with all of them.

    Args:
        seed: the seed of the choices.
        captured: whether the step is captured.
    """

    def __init__(self, seed, captured):
        rng = self.rng = np.random.default_rng(seed)
        pb.random.seed(seed)
        self.generator = pb.Generator(seed)
        layers = [pb.layers.Dense(4, input_shape=(3,), kernel_regularizer=self.pick(None, "l2"))]
        if self.chance():
            layers.append(pb.layers.BatchNormalization())
        if self.chance():
            layers.append(pb.layers.Dropout(0.4))
        if self.chance():
            layers.append(Penalty(always=True))
        self.model = pb.Sequential([*layers, pb.layers.Dense(CLASSES)])
        self.inner = self.optimizer = self.make_optimizer()
        if self.chance():
            steps = self.pick(1, 2, None)
            self.optimizer = pb.optimizers.LossScale(
                self.inner, initial_scale=2.0**5, growth_steps=steps, factor=self.pick(2.0, 1.5)
            )
        names = rng.permutation(list(METRICS))[: rng.integers(1, 4)]
        self.metrics = [
            getattr(pb.metrics, name)(*[part for part in (METRICS[name],) if part])
            for name in names
        ]
        self.numbers = [pb.metrics.Mean(), Largest(), pb.metrics.R2Score()]
        self.noisy = self.chance()
        self.twice = self.chance() and self.optimizer is self.inner
        self.step = pb.function(self.eager_step) if captured else self.eager_step
        self.saved = None

    def chance(self):
        return self.rng.random() < 0.5

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def make_optimizer(self):
        options = {
            "accumulate_steps": self.pick(1, 1, 2, 5),
            "ema_decay": self.pick(None, None, 0.9),
            "decoupled_weight_decay": self.pick(0.0, 0.1),
            "rate_scale": self.pick(None, lambda v: 0.5 if len(v.shape) > 1 else 1.0),
            self.pick("clip_norm", "clip_global_norm", "clip_value"): self.pick(None, 0.5),
        }
        rate = self.pick(0.01, lambda step: 0.02 / (1 + step), pb.Variable(0.03, trainable=False))
        kind = getattr(pb.optimizers, self.pick(*OPTIMIZERS))
        return kind(rate, **options)

    def eager_step(self, x, targets):
        for _ in range(1 + self.twice):
            if self.noisy:
                x = x + self.generator.normal(x.shape) * 0.1
            with pb.GradientTape() as tape:
                scores = self.model(x, training=True)
                loss = pb.losses.sparse_softmax_cross_entropy(targets, scores)
                total = sum(self.model.losses, loss)
                scaled = self.optimizer.scaled(total)
            variables = self.model.trainable_variables
            gradients = tape.gradient(scaled, variables)
            self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
            for metric in self.metrics:
                metric(targets, pb.softmax(scores))
            self.numbers[0](loss, 2.0)
            self.numbers[1](scores)
            self.numbers[2](scores[:, 0], scores[:, 1])
        return total

    def between(self, number):
        """Changes some state, as a program may between two steps."""
        action = self.rng.integers(9)
        if action == 0 and not isinstance(self.inner.learning_rate, pb.Variable):
            self.optimizer.learning_rate = 0.02 + 0.001 * number
        elif action == 1:
            for metric in (*self.metrics, *self.numbers):
                metric.reset()
        elif action == 2:
            self.generator.seed(number)
        elif action == 3 and self.inner.variables:
            self.saved = self.snapshot()
        elif action == 4 and self.saved is not None:
            self.restore(self.saved)
        elif action == 5 and self.optimizer is not self.inner:
            self.optimizer.scale = 4.0
        elif action == 6:
            variable = self.model.variables[0]
            variable.assign(variable * 0.9)
        elif action == 7:
            state = dict(self.inner.checkpoint_state())
            self.inner._step.set(int(state["step"]) + 3)
        return action == 8

    def parts(self):
        return [
            *{id(part): part for part in (self.inner, self.optimizer)}.values(),
            *(self.generator, *self.metrics, *self.numbers),
        ]

    def snapshot(self):
        values = [variable.numpy() for variable in self.model.variables]
        slots = [(v, name, slot.numpy()) for v, name, slot in self.inner.slot_variables()]
        return values, slots, [part.checkpoint_state() for part in self.parts()]

    def restore(self, saved):
        values, slots, states = saved
        for variable, value in zip(self.model.variables, values, strict=True):
            variable.assign(value)
        for variable, name, value in slots:
            self.inner.restore_slot(variable, name, value)
        for part, state in zip(self.parts(), states, strict=True):
            part.restore_state(state)

    def state(self):
        """All that the training keeps, in bits; of slots and states what they are called."""
        values, slots, states = self.snapshot()
        own = {id(variable): number for number, variable in enumerate(self.model.variables)}
        found = [value.tobytes() for value in values]
        found += [(own[id(v)], name, value.tobytes()) for v, name, value in slots]
        found += [(name, bits(value)) for state in states for name, value in state.items()]
        return [
            *found,
            *(bits(loss) for loss in self.model.losses),
            pb.random.default_generator.now,
        ]

    def batch(self, overflows):
        x = self.rng.normal(size=(5, 3)).astype("float32")
        if overflows and self.optimizer is not self.inner:
            x[0, 0] = np.inf
        return x, self.rng.integers(0, CLASSES, 5)


def bits(value):
    if isinstance(value, (list, tuple)):
        return [bits(part) for part in value]
    if value is None or isinstance(value, str):
        return value
    return np.asarray(value, "float64" if isinstance(value, (int, float)) else None).tobytes()


def run(seed, captured, calls):
    """The state after each call, and the training."""
    training = Training(seed, captured)
    found = []
    default = pb.random.default_generator
    for number in range(calls):
        overflows = training.between(number) and number > 2
        batch = training.batch(overflows)
        with np.errstate(all="ignore"):
            loss = training.step(*batch)
        found.append([bits(loss.numpy()), *training.state()])
    assert default is pb.random.default_generator
    return found, training


def compare(seed, calls):
    eager, _ = run(seed, False, calls)
    captured, training = run(seed, True, calls)
    for number, (one, other) in enumerate(zip(captured, eager, strict=True)):
        assert one == other, f"seed {seed}, call {number}"
    return training


@pytest.mark.parametrize("seed", range(10))
def test_the_same_bits(seed):
    training = compare(seed, 12)
    assert "op by op" not in training.step.explain()


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(100, 500, 50))
def test_the_same_bits_of_many(first):
    for seed in range(first, first + 50):
        compare(seed, 20)


# Faults -------------------------------------------------------------------------------------------


class Fault(Exception):
    """An error of a kernel."""


class Faults:
    """Has one call of a kernel fail, counted from 1 within a run."""

    def __init__(self, backend):
        self.backend = backend
        self.count = self.fail_at = 0

    def kernel(self, look_up, op_name, dtype):
        kernel = look_up(op_name, dtype)
        if kernel is None or pb.spec.OPS[op_name].update:
            # Nothing that depends on values can fail there, and the kernels before it have not.
            return kernel

        @functools.wraps(kernel)
        def failing(*inputs, **attributes):
            self.count += 1
            if self.count == self.fail_at:
                raise Fault(op_name)
            return kernel(*inputs, **attributes)

        return failing

    @contextlib.contextmanager
    def at(self, number):
        self.count, self.fail_at = 0, number
        try:
            yield
        finally:
            self.fail_at = 0


@pytest.fixture
def faults(monkeypatch):
    backend = as_device().backend
    faults = Faults(backend)
    look_up = backend.kernel
    monkeypatch.setattr(backend, "kernel", lambda *key: faults.kernel(look_up, *key))
    monkeypatch.setattr(backend, "in_place", lambda *_: None)
    backend.forget_kernels()
    yield faults
    monkeypatch.undo()
    backend.forget_kernels()


def without_draws(state, training):
    """The state without the generators: what a failed run has drawn stays drawn, as eagerly."""
    own = training.generator.checkpoint_state()
    hidden = {(name, bits(value)) for name, value in own.items()}
    return [part for part in state if isinstance(part, list) or part not in hidden][:-1]


def unfailing(program):
    """The number of calls at the end that are written at once: they cannot fail for values."""
    early = early_writes(program.fused)
    return sum(early.keys() >= set(call.results) for call in program.fused.calls)


@pytest.mark.parametrize("seed", [3, 4, 11])
def test_a_run_that_fails_at_any_op_changes_nothing(seed, faults):
    training = Training(seed, captured=True)
    batches = [training.batch(False) for _ in range(10)]
    for batch in batches[:6]:
        training.step(*batch)
    before = training.snapshot()
    losses = [bits(loss.numpy()) for loss in training.model.losses]
    kept = without_draws(training.state(), training)
    drawn = pb.random.default_generator.now
    with faults.at(0):
        right = bits(training.step(*batches[6]).numpy())
        calls = faults.count
    training.restore(before)
    calls -= max(map(unfailing, training.step._all()))
    assert calls > 30
    failed = 0
    for number in range(1, calls + 1, 3):
        with faults.at(number), contextlib.suppress(Fault, pb.errors.BackendError):
            training.step(*batches[6])
            raise AssertionError(f"call {number} did not fail")
        failed += 1
        now = without_draws(training.state(), training)
        # `restore` has replaced the losses of no layer: they are those of the right step.
        assert now[: len(now) - len(losses)] == kept[: len(kept) - len(losses)], number
        training.restore(before)
    assert failed > 10
    training.restore(before)
    pb.random.default_generator.state = drawn
    assert bits(training.step(*batches[6]).numpy()) == right


@pytest.mark.parametrize("seed", [5, 8])
def test_captured_training_keeps_nothing_alive(seed):
    def alive():
        gc.collect()
        as_device().constants.clear()  # tensors of numbers, of which there are so many at most
        return sum(isinstance(x, pb.Tensor) for x in gc.get_objects())

    training = Training(seed, captured=True)
    for number in range(30):
        training.step(*training.batch(False))
        if number % 10 == 9:
            for metric in (*training.metrics, *training.numbers):
                metric.reset()
    before = alive()
    for number in range(30):
        training.step(*training.batch(False))
        if number % 10 == 9:
            for metric in (*training.metrics, *training.numbers):
                metric.reset()
    assert alive() <= before
    model = weakref.ref(training.model)
    del training
    gc.collect()
    assert model() is None
