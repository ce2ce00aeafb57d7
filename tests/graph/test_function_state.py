"""State that is kept between calls: what captured functions leave in it, beside eager calls."""

import contextlib
import copy
import pickle
import threading
import warnings
from types import MappingProxyType

import numpy as np
import pytest

import pullback as pb
from pullback.errors import InputValueError

CLASSES = 3


def of_classes():
    """A metric for every state that the metrics of classes and of regression keep."""
    m = pb.metrics
    return [
        m.ConfusionMatrix(CLASSES),
        m.MeanIoU(CLASSES),
        m.MatthewsCorrelation(CLASSES),
        m.Precision(CLASSES),
        m.Recall(CLASSES, average=None),
        m.F1Score(CLASSES, average="weighted"),
        m.AUC(CLASSES),
        m.AUC(CLASSES, bins=8),
        m.SparseTopKAccuracy(2),
    ]


def of_numbers():
    return [pb.metrics.R2Score(), pb.metrics.PearsonCorrelation(), pb.metrics.Mean()]


class Largest(pb.metrics.Metric):
    """The metric of a user, which knows nothing of captured functions."""

    initial = MappingProxyType({"largest": float("-inf"), "calls": 0})

    def update(self, values, weights=None):
        self.largest = pb.maximum(self.largest, pb.max(values))
        self.calls += 1

    def result(self):
        return float(self.largest), self.calls


def bits(value):
    return (
        [np.asarray(part).tobytes() for part in value]
        if isinstance(value, tuple)
        else (np.asarray(value).tobytes())
    )


def updated(captured, rng, calls=8):
    """The results of metrics after each of some calls, amid which some are reset or restored."""
    classes, numbers, own = of_classes(), of_numbers(), Largest()

    def update(targets, scores, weights, x, y):
        for metric in classes:
            metric(targets, scores, weights)
        for metric in numbers[:2]:
            metric(x, y)
        numbers[2](x, weights)
        own(x)

    step = pb.function(update) if captured else update
    found, saved = [], None
    every = [*classes, *numbers, own]
    for number in range(calls):
        scores = rng.random((6, CLASSES))
        scores /= scores.sum(1, keepdims=True)
        targets, weights = rng.integers(0, CLASSES, 6), rng.random(6) * (number != 2)
        step(targets, scores, weights, *rng.normal(size=(2, 6)))
        found.append([bits(metric.result()) for metric in every])
        if number == 3:
            saved = [metric.checkpoint_state() for metric in every]
        if number == 4:
            for metric in every:
                metric.reset()
        if number == 6:
            for metric, state in zip(every, saved, strict=True):
                metric.restore_state(state)
    return found, step


def test_metrics_keep_the_same_bits():
    eager, _ = updated(False, np.random.default_rng(5))
    captured, step = updated(True, np.random.default_rng(5))
    assert captured == eager
    assert "op by op" not in step.explain()


@pytest.mark.parametrize("name", ["ConfusionMatrix", "Precision", "F1Score", "MeanIoU"])
def test_wrong_labels_are_an_error_and_change_no_metric(name):
    before, metric, behind = (
        pb.metrics.Mean(),
        getattr(pb.metrics, name)(CLASSES),
        pb.metrics.Mean(),
    )

    @pb.function
    def step(targets, classes):
        before(1.0)
        metric(targets, classes)
        behind(1.0)

    good = np.array([0, 1, 2]), np.array([0, 2, 2])
    for _ in range(3):
        step(*good)
    right = bits(metric.result())
    for targets, classes in ((good[0] + 1, good[1]), (good[0], -good[1]), (good[0] + 9, good[1])):
        with pytest.raises(InputValueError, match="must be classes from 0 to 2"):
            step(targets, classes)
    assert bits(metric.result()) == right
    # As op by op: what comes before the error is done, what comes after it is not.
    assert (before.weight, behind.weight) == (6, 3)
    step(good[0], good[0])
    assert bits(metric.result()) != right


def test_a_late_error_leaves_no_optimizer_between_two_steps():
    v, optimizer = pb.Variable(1.0), pb.optimizers.Adam(0.1)
    metric, behind = pb.metrics.ConfusionMatrix(CLASSES), pb.metrics.Mean()

    def train(value):
        with pb.GradientTape() as tape:
            loss = v * v
        optimizer.apply_gradients([(tape.gradient(loss, v), v)])
        behind(value)

    @pb.function
    def step(targets):
        metric(targets, targets)
        train(1.0)

    good = np.array([0, 1, 2])
    for _ in range(3):
        step(good)
    with pytest.raises(InputValueError, match="must be classes"):
        step(good + 1)
    found = float(v), optimizer.step, behind.weight
    v.assign(1.0)
    optimizer = pb.optimizers.Adam(0.1)
    for _ in range(4):
        train(1.0)
    assert found == (float(v), 4, 3)


@pytest.mark.parametrize("taped", [False, True])
def test_late_errors_do_not_repeat_the_call(taped):
    """Whichever call is the wrong one: op by op, the traced one, or one with numbers as inputs."""
    for wrong in range(8):
        metric, variable = pb.metrics.ConfusionMatrix(CLASSES), pb.Variable(0.0)

        @pb.function
        def step(targets, x, number, variable=variable, metric=metric):
            variable.assign_add(number)
            metric(targets, targets)
            return x * variable

        right = 0.0
        for call in range(10):
            is_wrong = call in (wrong, wrong + 1)
            x = pb.asarray(2.0)
            tape = pb.GradientTape() if taped else contextlib.nullcontext()
            raises = pytest.raises(InputValueError) if is_wrong else contextlib.nullcontext()
            with tape, raises:
                if taped:
                    tape.watch(x)
                step(np.array([0, 1 + 4 * is_wrong]), x, float(call))
            right += call
            assert float(variable) == right, (wrong, call)
        assert float(pb.sum(metric.result())) == 16


class Added(pb.layers.Layer):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def call(self, x):
        self.add_loss(pb.mean(x * x) * self.factor)
        self.add_loss(pb.sum(x) * 0.01)
        return x


def losses_of(captured):
    pb.random.seed(2)
    model = pb.Sequential([pb.layers.Dense(4, input_shape=(3,)), Added(0.5), Added(2.0)])
    optimizer = pb.optimizers.Adam(0.1)

    def step(x):
        with pb.GradientTape() as tape:
            loss = pb.mean(model(x, training=True)) + sum(model.losses)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    f = pb.function(step) if captured else step
    rng = np.random.default_rng(4)
    found = []
    for _ in range(6):
        loss = f(rng.normal(size=(5, 3)).astype("float32"))
        found.append([bits(loss), *(bits(part) for part in model.losses)])
    return found, f


def test_losses_of_layers():
    eager, _ = losses_of(False)
    captured, step = losses_of(True)
    assert captured == eager
    assert len(eager[0]) == 5
    assert (
        step.explain().startswith("losses_of.<locals>.step: 1 program")
        or "1 program" in (step.explain().splitlines()[0])
    )


def test_losses_of_layers_under_a_tape_outside_have_gradients():
    x = pb.asarray([[1.0, 2.0, 3.0]])
    for captured in (False, True):
        layer = Added(0.5)
        f = pb.function(layer) if captured else layer
        for _ in range(4):
            with pb.GradientTape() as tape:
                tape.watch(x)
                f(x)
                loss = sum(layer.losses)
            np.testing.assert_allclose(tape.gradient(loss, x).numpy(), x.numpy() / 3 + 0.01, 1e-6)


def scaled_steps(captured, **options):
    """Losses, counters, variables and slots of steps; some overflow."""
    pb.random.seed(3)
    model = pb.Sequential(
        [pb.layers.Dense(4, input_shape=(3,)), pb.layers.Dropout(0.3), pb.layers.Dense(CLASSES)]
    )
    inner = pb.optimizers.Adam(lambda step: 0.05 / (1 + step), **options)
    optimizer = pb.optimizers.LossScale(inner, initial_scale=2.0**4, growth_steps=2)

    def step(x, targets):
        with pb.GradientTape() as tape:
            loss = pb.losses.sparse_softmax_cross_entropy(targets, model(x, training=True))
            scaled = optimizer.scaled(loss)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(scaled, variables), variables, strict=True))
        return loss

    f = pb.function(step) if captured else step
    rng = np.random.default_rng(0)
    found = []
    for number in range(12):
        x = rng.normal(size=(6, 3)).astype("float32")
        if number in (0, 1, 5, 6):
            x[0, 0] = np.inf
        if number == 8:
            optimizer.learning_rate = 0.03
        if number == 10:
            optimizer.scale = 8.0
        with np.errstate(all="ignore"):
            found.append(bits(f(x, rng.integers(0, CLASSES, 6))))
        found.append((optimizer.checkpoint_state(), inner.checkpoint_state()))
    slots = [bits(slot) for _, _, slot in inner.slot_variables()]
    return found, [bits(v) for v in model.variables], slots, f


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize(
    "options",
    [{}, {"accumulate_steps": 3}, {"ema_decay": 0.9}, {"ema_decay": 0.5, "accumulate_steps": 2}],
)
def test_loss_scaling_skips_the_same_steps(options):
    *eager, _ = scaled_steps(False, **options)
    *captured, step = scaled_steps(True, **options)
    assert captured == eager
    assert eager[0][-1][0]["skipped"] >= 3
    assert "op by op" not in step.explain()


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("kind", ["float32", "mixed_float16"])
def test_fit_runs_captured_with_all_of_it(kind):
    """A fit as users compile it: no step runs op by op, and the history has the same bits."""
    found = []
    for captured in (False, True):
        pb.random.seed(3)
        with pb.layers.policy(kind):
            model = pb.Sequential(
                [pb.layers.Dense(8, activation="relu"), Added(0.1), pb.layers.Dense(CLASSES)]
            )
        optimizer = pb.optimizers.LossScale(pb.optimizers.Adam(0.01), growth_steps=3)
        metrics = ["accuracy", pb.metrics.MeanOf(pb.losses.sparse_softmax_cross_entropy)]
        metrics += [metric for metric in of_classes() if metric.name != "auc"]
        model.compile(optimizer, "sparse_softmax_cross_entropy", metrics=metrics, capture=captured)
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(64, 4)).astype("float32"), rng.integers(0, CLASSES, 64)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", ".*op by op.*")
            history = model.fit(
                x, y, epochs=3, batch_size=16, validation_data=(x, y), verbose=False
            )
        found.append(
            [str(history.history), optimizer.scale, *(bits(v.numpy()) for v in model.variables)]
        )
    assert found[0] == found[1]


def test_copies_have_states_of_their_own():
    metric, optimizer, v = Largest(), pb.optimizers.SGD(0.1, accumulate_steps=2), pb.Variable(1.0)
    metric(pb.ones(2))
    optimizer.apply_gradients([(pb.asarray(1.0), v)])
    copied = copy.copy(metric)
    deep = copy.deepcopy((metric, optimizer, v))
    loaded = pickle.loads(pickle.dumps((metric, optimizer, v)))
    metric(pb.full(2, 7.0))
    optimizer.apply_gradients([(pb.asarray(3.0), v)])
    assert copied.result() == (1.0, 1)
    for other, of_other, w in (deep, loaded):
        assert other.result() == (1.0, 1)
        assert of_other.checkpoint_state() == {"step": 0, "accumulated": 1}
        # The sum that was begun goes on.
        of_other.apply_gradients([(pb.asarray(3.0), w)])
        assert (bits(w.numpy()), of_other.step) == (bits(v.numpy()), 1)
    assert metric.result() == (7.0, 2)


# Tensors from outside -----------------------------------------------------------------------------


@pb.custom_gradient
def halved(x):
    return x * 1.0, lambda g: g * 0.5


DEVICE = str(pb.ones(1).device)
OF_OUTSIDE = {
    "one input": lambda t, g: pb.tanh(t),
    "two inputs": lambda t, g: t + t,
    "a number": lambda t, g: 2.0 * t,
    "an axis": lambda t, g: pb.sum(t, axis=0),
    "a sequence": lambda t, g: pb.concat([t, t]),
    "several results": lambda t, g: pb.top_k(t, 2).values,
    "a view": lambda t, g: t[1:],
    "a composite": lambda t, g: pb.softmax(t),
    "a random mask": lambda t, g: g.dropout(t, 0.5),
    "random numbers on its device": lambda t, g: g.normal(t.shape, device=DEVICE) * t,
    "zeros on its device": lambda t, g: pb.zeros(t.shape, device=DEVICE) + t,
    "a copy": lambda t, g: copy.copy(t) * 3,
    "a derivative": lambda t, g: pb.vjp(lambda x: x * x * x, t)[1](t)[0],
    "a gradient of its own": lambda t, g: halved(t),
    "a gradient": lambda t, g: pb.grad(lambda x: pb.sum(x * x * t))(t),
    "a branch": lambda t, g: pb.cond(pb.asarray(True), lambda: t * 2, lambda: t),
    "a loop": lambda t, g: pb.fori_loop(0, 3, lambda i, c: c + t, t),
}


@pytest.mark.parametrize("name", OF_OUTSIDE)
def test_tensors_from_outside_are_read_at_each_run(name):
    op, found = OF_OUTSIDE[name], []
    for captured in (False, True):
        table, generator = pb.asarray(np.arange(4.0, dtype="float32")), pb.Generator(5)

        def compute(table=table, generator=generator):
            return op(table, generator) * 1.0

        f = pb.function(compute) if captured else compute
        results = []
        for number in range(5):
            table[1] = float(number)
            results.append(bits(f()))
        found.append(results)
    assert found[0] == found[1]


READS = {
    "item": lambda t: t.item(),
    "float": float,
    "numpy": lambda t: t.numpy(),
    "array": np.asarray,
    "from_dlpack": np.from_dlpack,
    "list": lambda t: t.tolist(),
    "bool": bool,
    "text": str,
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("is_outside", [False, True])
def test_values_end_the_trace_of_their_thread_alone(name, is_outside):
    outside, read = pb.asarray(3.0), READS[name]
    begun, done, elsewhere = threading.Event(), threading.Event(), []

    def other():
        begun.wait(10)
        elsewhere.append(read(outside))
        elsewhere.append(float(pb.sum(outside + 1)))
        done.set()

    def compute(x):
        begun.set()
        done.wait(10)
        read(outside if is_outside else x)
        return x

    f = pb.function(compute)
    done.set()
    f(pb.asarray(1.0))  # op by op
    begun.clear()
    done.clear()
    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(pb.errors.CaptureError):
        f(pb.asarray(1.0))
    thread.join()
    assert elsewhere == [read(outside), 4.0]
