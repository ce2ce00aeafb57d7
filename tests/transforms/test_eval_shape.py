"""`pb.eval_shape` beside the function itself: on the samples of every op, and around the ops."""

import sys
from inspect import signature

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback.dtypes import is_floating
from pullback.graph.eval_shape import has_shapes_alone
from pullback.spec import OPS
from pullback_conformance.samples import load

SUITES = {name: suite for name, suite in load().items() if name in OPS}
S = pb.TensorSpec
#: The results have as many elements as the values say.
BY_VALUES = {
    "argwhere", "non_max_suppression", "unique_all", "unique_counts", "unique_inverse",
    "unique_values",
}  # fmt: skip


def specs_of(result):
    """The structure with the specs of tensors that have been computed, tuples as lists."""
    if isinstance(result, (list, tuple)):
        return [specs_of(part) for part in result]
    return S(result.shape, result.dtype)


def cast(value, dtype):
    if isinstance(value, (list, tuple)):
        return [cast(part, dtype) for part in value]
    if value is None or value.dtype.kind not in "fc":
        return value
    wide = {"f": {}, "c": {"float32": "complex64", "float64": "complex128"}}[value.dtype.kind]
    with np.errstate(over="ignore"):
        return pb.asarray(value).astype(
            wide.get(dtype, dtype if value.dtype.kind == "f" else None) or value.dtype
        )


def check_samples(name, dtypes):
    op = OPS[name]
    for sample in SUITES[name].samples:
        for dtype in dtypes:
            if sample.dtypes is not None and dtype not in sample.dtypes:
                continue
            inputs = [cast(value, dtype) for value in sample.inputs]

            def call(*values, sample=sample):
                return op.function(*values, **sample.attributes)

            try:
                expected = specs_of(call(*inputs))
            except pb.errors.PullbackError as error:
                with pytest.raises(type(error)):
                    pb.eval_shape(call, *inputs)
                continue
            if name in BY_VALUES:
                with pytest.raises(pb.errors.ShapeError, match=f"{name}: .*write what keeps"):
                    pb.eval_shape(call, *inputs)
                continue
            found = pb.eval_shape(call, *inputs)
            assert specs_of(found) == expected, (name, dtype, sample.attributes)


@pytest.mark.each("name", sorted(SUITES))
def test_samples(name):
    check_samples(name, ["float32"])


@pytest.mark.slow
@pytest.mark.each("name", sorted(SUITES))
def test_samples_in_other_dtypes(name):
    check_samples(name, ["float64", "float16", "bfloat16"])


def has_gradient(name):
    return OPS[name].differentiable and any(s.gradient for s in SUITES[name].samples)


@pytest.mark.each(
    "name", [name for name in sorted(SUITES.keys() - BY_VALUES) if has_gradient(name)]
)
def test_gradients_of_samples(name):
    op = OPS[name]
    sample = next(sample for sample in SUITES[name].samples if sample.gradient)
    inputs = [cast(value, "float32") for value in sample.inputs]
    at = [i for i, x in enumerate(inputs) if hasattr(x, "dtype") and x.dtype.kind == "f"]
    if not at:
        return

    def slopes(*values):
        with pb.GradientTape() as tape:
            handles = [pb.asarray(x) if i in at else x for i, x in enumerate(values)]
            watched = [handles[i] for i in at]
            tape.watch(watched)
            out = op.function(*handles, **sample.attributes)
            parts = out if isinstance(out, (list, tuple)) else [out]
            loss = sum([pb.sum(pb.abs(y)) for y in parts if is_floating(y.dtype)])
        return [g if g is not None else 0 for g in tape.gradient(loss, watched)]

    found = pb.eval_shape(slopes, *inputs)
    expected = slopes(*inputs)
    assert [g if g == 0 else specs_of(g) for g in found] == [
        g if type(g) is int else specs_of(g) for g in expected
    ]


# Random shapes ---------------------------------------------------------------------------------


sizes = st.integers(0, 4)
shapes = st.lists(sizes, max_size=4).map(tuple)
keys = st.one_of(
    st.integers(-4, 3),
    st.builds(slice, *[st.none() | st.integers(-5, 5)] * 2, st.sampled_from([None, 1, 2, -1])),
    st.just(...),
    st.none(),
    st.just([0, 1]),
)
axes = st.none() | st.integers(-4, 3) | st.lists(st.integers(-4, 3), max_size=3).map(tuple)
dtypes = st.sampled_from(["float32", "float64", "int32", "bool", "complex64", "uint8"])
calls = st.one_of(
    st.sampled_from([pb.add, pb.matmul, pb.less, pb.where, pb.subtract, pb.pow, pb.concat]).map(
        lambda f: (
            lambda x, y: (
                f(x > y, x, y) if f is pb.where else f([x, y]) if f is pb.concat else f(x, y)
            )
        )
    ),
    st.builds(
        lambda f, axis, keep: lambda x, y: f(x, axis=axis, keepdims=keep),
        st.sampled_from([pb.sum, pb.max, pb.mean, pb.argmax, pb.all, pb.var]),
        axes,
        st.booleans(),
    ),
    st.lists(keys, max_size=4).map(lambda key: lambda x, y: x[tuple(key)]),
    st.lists(st.integers(-1, 6), max_size=4).map(lambda to: lambda x, y: pb.reshape(x, tuple(to))),
    st.builds(
        lambda a, b: lambda x, y: pb.moveaxis(x, a, b), st.integers(-3, 3), st.integers(-3, 3)
    ),
    st.builds(lambda axis: lambda x, y: pb.stack([x, y], axis=axis), st.integers(-4, 4)),
    st.just(lambda x, y: pb.vmap(lambda a, b: a * pb.sum(b))(x, y)),
    st.just(lambda x, y: pb.einsum("ij,jk->ik", x, y)),
    st.builds(lambda n: lambda x, y: pb.conv(x, y, strides=n), st.integers(1, 3)),
)


def outcome(f):
    """The specs of the result of a call, or the class of its error."""
    try:
        return specs_of(f())
    except pb.errors.PullbackError as error:
        return type(error)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(calls, shapes, shapes, dtypes, dtypes)
def test_random_shapes(call, first, second, one, other):
    x, y = pb.ones(first, dtype=one), pb.ones(second, dtype=other)
    expected = outcome(lambda: call(x, y))
    assert outcome(lambda: pb.eval_shape(call, S(first, one), S(second, other))) == expected


# What stands around the ops ----------------------------------------------------------------------


def test_structures_and_other_values():
    found = pb.eval_shape(
        lambda a, *, k: {"y": [a["x"] * k, k, None], "shape": a["x"].shape},
        {"x": np.zeros((2, 3), "int32")},
        k=2.5,
    )
    assert found == {"y": [S((2, 3), "float32"), 2.5, None], "shape": (2, 3)}
    assert pb.eval_shape(lambda v: v, pb.Variable(pb.zeros(3))) == S(3)
    assert S([2], "int32") == S((2,), "int32") != S((2,), "int64")
    assert len({S(2), S((2,))}) == 1
    assert S(2) != 2
    with pytest.raises(pb.errors.ShapeError):
        S((-1,))


def test_takes_no_memory_and_no_time_for_large_shapes():
    huge = S((10**6, 10**6))

    def f(x):
        noise = pb.random.normal((10**6, 10**6)) + pb.ones((10**6, 10**6), device="cpu")
        steps = pb.scan(lambda c, r: (c + r, c), x[0], pb.zeros((10**9, 10**6)))[1]
        return pb.sum(x @ x + noise), pb.fori_loop(0, 10**12, lambda i, c: c + i, x), steps

    assert pb.eval_shape(f, huge) == (S(()), huge, S((10**9, 10**6)))
    assert pb.eval_shape(pb.grad(lambda x: pb.sum(pb.sin(x) ** 3)), huge) == huge


@pytest.mark.parametrize(
    "f",
    [
        float,
        bool,
        lambda x: x.numpy(),
        lambda x: x.tolist(),
        np.asarray,
        lambda x: 1 if x > 0 else 2,
        lambda x: pb.Variable(1.0).numpy(),
        lambda x: float(W),
        lambda x: pb.vmap(lambda y: float(y))(pb.stack([x, x])),
        lambda x: pb.random.default_generator.state,
        lambda x: pb.random.seed(3),
        lambda x: pb.Variable(x),
    ],
)
def test_values_are_an_error(f):
    before = pb.random.default_generator.now
    with pytest.raises(pb.errors.InputValueError, match=r"eval_shape|vmap"):
        pb.eval_shape(f, S(()))
    assert pb.random.default_generator.now == before
    assert not has_shapes_alone()
    assert float(W) == 1.0


W = pb.Variable(1.0)


@pytest.mark.parametrize("f", [lambda x: x[x > 0], pb.nonzero, pb.unique_values])
def test_shapes_that_depend_on_values_are_an_error(f):
    with pytest.raises(pb.errors.ShapeError, match=r"(argwhere|unique_values): .*pb\.where"):
        pb.eval_shape(f, S((3,)))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: pb.cond(pb.sum(x) > 0, lambda: x, lambda: -x),
        lambda x: pb.switch(pb.argmax(x[0]), [pb.sin, pb.cos], x),
        lambda x: pb.while_loop(lambda c: pb.sum(c * c) < 50, lambda c: c * 1.5, x),
        lambda x: pb.scan(lambda c, y: (c + y, c * 2), pb.zeros(3), x),
        lambda x: pb.scan(lambda c, y: (c + y, c * 2), pb.zeros(3), x[:0]),
        lambda x: pb.py_function(lambda y: y.numpy() * 2, x, result=x),
        lambda x: pb.vmap(pb.grad(lambda r: pb.sum(pb.softmax(r) ** 2)))(x),
        lambda x: pb.hessian(lambda y: pb.sum(pb.sin(y) * y[0]))(x),
        lambda x: pb.jvp(lambda y: pb.tanh(y), (x,), (x,)),
        lambda x: pb.function(pb.sin)(x) + np.ones(3, "float32") + [1.0, 2.0, 3.0],
        lambda x: pb.eval_shape(lambda y: y + x, x).shape[0] * x,
        lambda x: pb.random.dropout(x, 0.5) + pb.random.permutation(3),
        lambda x: pb.custom_gradient(lambda y: (y, lambda g: g))(x) * W,
        lambda x: x.to("cpu") + pb.asarray([1, 2, 3]),
    ],
)
def test_programs(f):
    x = pb.asarray(np.random.default_rng(0).random((4, 3), "f"))
    assert specs_of([pb.eval_shape(f, S((4, 3)))]) == specs_of([f(x)])
    inside = pb.function(lambda x: pb.zeros(pb.eval_shape(lambda y: y @ y.T, x).shape) + x[0, 0])
    for _ in range(3):
        assert inside(x).shape == (4, 4)
    assert pb.vmap(lambda r: r * len(pb.eval_shape(lambda y: y, r).shape))(x).shape == (4, 3)


def test_branches_that_differ_are_an_error():
    for other, kind in (
        (lambda: W * 1.0, "ShapeError"),
        (lambda: pb.ones(3, dtype="int32"), "DTypeError"),
    ):
        with pytest.raises(getattr(pb.errors, kind), match=r"pb\.cond"):
            pb.eval_shape(lambda x, f=other: pb.cond(pb.sum(x) > 0, lambda: x, f), S((3,)))


class Penalty(pb.layers.Layer):
    def call(self, x):
        self.add_loss(pb.mean(x * x))
        return x


def layers():
    return pb.Sequential(
        [
            pb.layers.Conv2D(3, 3, activation="gelu"),
            pb.layers.BatchNormalization(),
            pb.layers.Dropout(0.5),
            pb.layers.MaxPool2D(2),
            pb.layers.Reshape((-1, 3)),
            pb.layers.LSTM(4, return_sequences=True),
            Penalty(),
            pb.layers.Flatten(),
            pb.layers.Dense(2),
        ]
    )


def test_builds_a_model_as_its_first_call_does_and_leaves_it_alone_then():
    pb.random.seed(3)
    first = layers()
    first(pb.zeros((5, 8, 8, 1)))
    pb.random.seed(3)
    model = layers()
    assert pb.eval_shape(model, S((5, 8, 8, 1))) == S((5, 2))
    values = [v.numpy() for v in model.variables]
    for mine, other in zip(values, first.variables, strict=True):
        np.testing.assert_array_equal(mine, other.numpy())
    lines, others = [], []
    model.summary(lines.append)
    first.summary(others.append)
    assert lines == others

    optimizer = pb.optimizers.Adam(0.1)

    def step(x):
        def loss():
            return pb.mean(model(x, training=True) ** 2) + sum(model.losses)

        return optimizer.minimize(loss, model.trainable_variables), model.losses

    step(pb.ones((5, 8, 8, 1)))
    values, taken = [v.numpy() for v in model.variables], optimizer.step
    state, losses = pb.random.default_generator.now, [x.numpy() for x in model.losses]
    loss, terms = pb.eval_shape(step, S((7, 8, 8, 1)))
    assert loss == S(())
    assert terms == [S(())] * len(losses)
    assert pb.random.default_generator.now == state
    assert optimizer.step == taken
    assert [x.numpy() for x in model.losses] == losses
    for mine, other in zip(model.variables, values, strict=True):
        np.testing.assert_array_equal(mine.numpy(), other)


OPTIONS = (
    {}, {"clip_norm": 0.1}, {"clip_global_norm": 0.1}, {"ema_decay": 0.9}, {"accumulate_steps": 2},
    {"weight_decay": 0.1},
)  # fmt: skip
OPTIMIZERS = [
    kind
    for kind in map(pb.optimizers.__dict__.get, pb.optimizers.__all__)
    if isinstance(kind, type)
    and issubclass(kind, pb.optimizers.Optimizer)
    # The steps of LBFGS read values.
    and kind not in (pb.optimizers.Optimizer, pb.optimizers.LossScale, pb.optimizers.LBFGS)
]


@pytest.mark.parametrize("scaled", [False, True], ids=["alone", "scaled"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", OPTIMIZERS, ids=lambda kind: kind.__name__)
def test_a_step_that_is_not_taken_changes_none_of_those_that_are(kind, options, scaled):
    if scaled and kind is not pb.optimizers.Adam:
        return
    if "weight_decay" in options and "weight_decay" not in signature(kind).parameters:
        return
    runs = []
    for asked in ((), (0, 2)):
        v = pb.Variable(np.arange(6, dtype=np.float32).reshape(2, 3) - 2)
        optimizer = kind(0.1, **options)
        optimizer = pb.optimizers.LossScale(optimizer) if scaled else optimizer

        def step(x, v=v, optimizer=optimizer):
            return optimizer.minimize(lambda: pb.mean((v * x) ** 2), [v])

        for i in range(3):
            if i in asked:
                assert pb.eval_shape(step, S((3,))) == S(())
            step(pb.asarray([1.0, i, -2.0]))
        runs.append((v.numpy().tobytes(), *[x.numpy().tobytes() for x in optimizer.variables]))
    assert len({*runs}) == 1


def test_printing_shows_what_there_is():
    v, outside = pb.Variable([1.0, 2.0]), pb.ones((4, 1))

    def shown(x):
        pb.print(x, v, sep="-")
        pb.print()
        assert pb.py_function(print, x, {"k": x}) is None
        texts = []
        for value in (x, x * 2, outside, v):
            kind = f"shape={value.shape}, dtype={value.dtype}"
            texts += [(kind, text) for text in (repr(value), f"{value}", str([value]))]
        return texts

    for kind, text in pb.eval_shape(shown, S((2, 3), "int32")):
        assert kind in text
        assert "without values" in text
    assert "without" not in repr(v) + repr(outside)


def test_is_not_imported_unasked():
    import subprocess

    code = "import pullback, sys; assert 'pullback.graph.eval_shape' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
