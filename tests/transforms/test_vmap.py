"""`pb.vmap` beside a loop: on the samples of every op, with gradients inside and outside."""

import numpy as np
import pytest

import pullback as pb
from pullback._batching.rules import elementwise, rule_of
from pullback.dtypes import is_floating
from pullback.spec import OPS
from pullback_conformance.samples import load

SUITES = {name: suite for name, suite in load().items() if name in OPS}
#: The results have as many elements as the values say; and what moves from device to device.
LEFT_OUT = {
    *("argwhere", "unique_all", "unique_counts", "unique_inverse", "unique_values"),
    *("non_max_suppression", "roi_align"),  # the second with as many points as a box has pixels
    "to_device",
}
#: What an item may not be turned round in: vectors in order, lengths beside what they are of.
IN_ORDER = {"searchsorted", "ctc_loss", "ctc_loss_gradient"}


def turned(value):
    """The values of an input in three items: as it is, with all axes turned round, as it is."""
    other = np.flip(value) if value.ndim else value
    return np.stack([value, other, value])


def batches(op, sample):
    """The inputs of three items, and where they have them: in all inputs, and in each one alone."""
    flat = [
        x
        for value in sample.inputs
        for x in (value if isinstance(value, (list, tuple)) else [value])
    ]
    arrays = [i for i, x in enumerate(flat) if x is not None]
    for mapped in {tuple(arrays), *[(i,) for i in arrays]}:
        values = [
            None if x is None
            else x if i not in mapped
            else np.stack([x] * 3) if op.name in IN_ORDER
            else turned(x)
            for i, x in enumerate(flat)
        ]  # fmt: skip
        yield [0 if i in mapped else None for i in range(len(flat))], values


def called(op, sample):
    """The op as a function of its arrays, one after the other, with all else of the sample."""

    def function(*flat):
        given, inputs = iter(flat), []
        for value in sample.inputs:
            if isinstance(value, (list, tuple)):
                inputs.append([next(given) for _ in value])
            else:
                inputs.append(next(given))
        result = op.function(*inputs, **sample.attributes)
        return list(result) if isinstance(result, tuple) else [result]

    return function


def by_loop(function, axes, values):
    """The results for each item, stacked; None where an item raises."""
    rows = []
    for i in range(3):
        item = [x if a is None else x[i] for x, a in zip(values, axes, strict=True)]
        rows.append(function(*[None if x is None else pb.asarray(x) for x in item]))
    return [pb.stack([row[k] for row in rows]) for k in range(len(rows[0]))]


def close(found, expected, what):
    assert len(found) == len(expected), what
    for x, y in zip(found, expected, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype), what
        x, y = x.numpy(), y.numpy()
        size = np.abs(y[np.isfinite(y)]).max(initial=1.0) if y.dtype.kind in "fc" else 0
        # Results of integers are float32, and their last bit may be another one.
        own = 4 * np.finfo(x.dtype).eps if x.dtype == np.float32 else 0
        np.testing.assert_allclose(x, y, rtol=max(own, 1e-9), atol=1e-10 * size, err_msg=what)


def tried(name, count=None):
    """The samples of an op in float64, as arrays of three items that a loop takes."""
    for sample in SUITES[name].samples[:count]:
        if sample.dtypes is not None and "float64" not in sample.dtypes:
            continue
        for axes, values in batches(OPS[name], sample):
            if 0 not in axes:
                continue
            yield sample, axes, values


def check_values(name, count):
    op = OPS[name]
    for sample, axes, values in tried(name, count):
        function = called(op, sample)
        try:
            expected = by_loop(function, axes, values)
        except (pb.errors.PullbackError, ValueError, IndexError):
            continue  # turned round it is no input of the op
        tensors = [None if x is None else pb.asarray(x) for x in values]
        batched = pb.vmap(function, tuple(axes), randomness="same")
        close(batched(*tensors), expected, f"{name} {sample.attributes} {axes}")


def weighted(function):
    """The results as one number, with other weights for each element."""

    def loss(*flat):
        total = 0.0
        for k, y in enumerate(function(*flat)):
            if is_floating(y.dtype) and y.dtype.kind != "c":
                weights = np.cos(np.arange(y.size) + k).reshape(y.shape)
                total = total + pb.sum(y * pb.asarray(weights))
        return total

    return loss


def check_gradients(name, count):
    op = OPS[name]
    for sample, axes, values in tried(name, count):
        kinds = ["" if x is None else x.dtype.kind for x in values]
        at = tuple(i for i, kind in enumerate(kinds) if kind == "f")
        if sample.gradient and at and "c" not in kinds:
            what = f"{name} {sample.attributes} {axes}"
            compare_gradients(weighted(called(op, sample)), at, axes, values, what)


def compare_gradients(loss, at, axes, values, what):
    """Holds gradients inside of a batch, outside, and of those inside, against those of a loop."""
    slopes = pb.grad(loss, at)
    zero = pb.asarray(0.0)

    def squared(*flat):
        return sum([pb.sum(g * g) for g in slopes(*flat)], start=zero)

    def batched(f):
        return lambda *tensors: pb.sum(pb.vmap(f, tuple(axes), randomness="same")(*tensors))

    def loop(f):
        def total(*tensors):
            pairs = [*zip(tensors, axes, strict=True)]
            items = [[x if a is None else x[i] for x, a in pairs] for i in range(3)]
            return sum([f(*item) for item in items], start=zero)

        return total

    tensors = [None if x is None else pb.asarray(x) for x in values]
    try:
        expected = by_loop(lambda *flat: list(slopes(*flat)), axes, values)
    except (pb.errors.PullbackError, ValueError, IndexError):
        return  # turned round it is no input of the op
    inside = pb.vmap(slopes, tuple(axes), randomness="same")(*tensors)
    close([*inside], expected, f"inside: {what}")
    for f in (loss, squared):
        found, wanted = (pb.grad(g(f), at)(*tensors) for g in (batched, loop))
        close([*found], [*wanted], f"outside, {f.__name__}: {what}")


NAMES = sorted(SUITES.keys() - LEFT_OUT)
SMOOTH = [
    name
    for name in NAMES
    if OPS[name].differentiable and any(sample.gradient for sample in SUITES[name].samples)
]


#: Ops of each element by itself have one rule: a few stand for all of them without `-m slow`.
OWN = [
    name
    for name in NAMES
    if (OPS[name].inputs and rule_of(OPS[name]) is not elementwise)
    or name in ("add", "where", "pow", "clip", "gelu")
]


def test_a_batch_is_on_the_device_of_its_items():
    x = pb.ones((2, 3))
    assert pb.vmap(lambda item: item.to(x.device) * 2)(x).tolist() == [[2] * 3] * 2


@pytest.mark.parametrize("name", OWN)
def test_values(name):
    check_values(name, 2)


@pytest.mark.parametrize("name", [name for name in SMOOTH if name in OWN])
def test_gradients(name):
    check_gradients(name, 1)


@pytest.mark.slow
@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", NAMES)
def test_every_sample(name):
    check_values(name, None)


@pytest.mark.slow
@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_of_every_sample(name):
    check_gradients(name, 6)


# What stands around the ops ------------------------------------------------------------------


X = np.random.default_rng(5).standard_normal((4, 3))


def looped(f, *columns):
    return [f(*map(pb.asarray, row)) for row in zip(*columns, strict=True)]


def same_as_loop(f, *columns):
    found, expected = pb.vmap(f)(*map(pb.asarray, columns)), looped(f, *columns)
    np.testing.assert_allclose(found.numpy(), [y.numpy() for y in expected], rtol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: pb.cond(pb.sum(x) > 0, lambda x: pb.exp(x), lambda x: -x, x),
        lambda x: pb.switch((x[0] * 2).astype("int32"), [pb.sin, pb.cos, pb.exp], x),
        lambda x: pb.while_loop(lambda c: pb.sum(c * c) < 50, lambda c: c * 1.5, x),
        lambda x: pb.while_loop(lambda c: pb.sum(c * c) < 50, lambda c: c * 1.5, x, maximum=3),
        lambda x: pb.fori_loop(0, 4, lambda i, c: c * x + i, x),
        lambda x: pb.scan(lambda c, y: (c + y * x, c), x, pb.ones(3))[1],
        lambda x: pb.stack([x[i] * x for i in range(3)]),
        lambda x: pb.where(x > 0, x, pb.zeros(3)).mT if x.ndim > 1 else x[::-1],
        lambda x: x[pb.argmax(x)] + x[-1],
        lambda x: np.ones(3) * x + [1.0, 2.0, 3.0],
        lambda x: pb.einsum("i,j->ij", x, x) @ x,
        lambda x: pb.hessian(lambda y: pb.sum(pb.sin(y) * y[0]))(x),
        lambda x: pb.jvp(lambda y: pb.tanh(y) * y, (x,), (x,))[1],
        lambda x: pb.vmap(lambda y: pb.vmap(lambda z: y * z + x[0])(x))(x),
    ],
)
@pytest.mark.filterwarnings("ignore:.*pb.while_loop inside of pb.vmap")  # they run op by op
def test_programs_beside_a_loop(f):
    same_as_loop(f, X)
    captured = pb.function(pb.vmap(f), strict=False)
    for _ in range(3):
        np.testing.assert_allclose(captured(pb.asarray(X)), pb.vmap(f)(pb.asarray(X)), rtol=1e-12)


def test_axes_of_arguments_and_results():
    x, y = pb.asarray(X), pb.asarray(X.T.copy())
    f = pb.vmap(lambda a, b: (a["p"] * b, a["p"]), in_axes=({"p": 0}, -1), out_axes=(1, 0))
    first, second = f({"p": x}, y)
    np.testing.assert_array_equal(first.numpy(), (X * X).T)
    np.testing.assert_array_equal(second.numpy(), X)
    whole = pb.vmap(lambda a, b, *, k: a + b * k, in_axes=(0, None))(x, x[0], k=2.0)
    np.testing.assert_allclose(whole.numpy(), X + 2 * X[0])
    assert pb.vmap(lambda: pb.ones(2), axis_size=3)().shape == (3, 2)
    assert pb.vmap(lambda a, b: b, in_axes=(0, None), out_axes=None)(x, x[0]).shape == (3,)
    assert pb.vmap(lambda a: a)(pb.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("kind", ["half", "clip", "stop"])
def test_gradients_of_their_own_reach_the_tapes_outside(kind):
    @pb.custom_gradient
    def half(x):
        return x * x, lambda g: g * 0.5

    f = {
        "half": half,
        "clip": lambda x: pb.clip(x, float(X[0, 0]), 1.0),
        "stop": lambda x: x * pb.stop_gradient(x),
    }[kind]
    x = pb.asarray(X)
    expected = pb.grad(lambda x: pb.sum(f(x)))(x).numpy()
    for depth in range(3):
        g = f
        for _ in range(depth):
            g = pb.vmap(g)
        np.testing.assert_array_equal(pb.grad(lambda x, g=g: pb.sum(g(x)))(x), expected)
        inside = pb.grad(lambda x: pb.sum(f(x)))
        for _ in range(depth):
            inside = pb.vmap(inside)
        np.testing.assert_array_equal(inside(x), expected)


def test_gradients_of_each_item_in_the_variables_of_a_model():
    pb.random.seed(1)
    model = pb.Sequential(
        [
            pb.layers.Conv2D(3, 3, padding="same", activation="gelu"),
            pb.layers.MaxPool2D(2),
            pb.layers.Flatten(),
            pb.layers.LayerNormalization(),
            pb.layers.Dense(4),
        ]
    )
    images, labels = np.random.default_rng(0).random((5, 6, 6, 2), "f"), np.arange(5) % 4
    model(images)

    def slopes(image, label):
        with pb.GradientTape() as tape:
            loss = pb.losses.sparse_softmax_cross_entropy(label[None], model(image[None]))
        return tape.gradient(loss, model.trainable_variables)

    found = pb.vmap(slopes)(pb.asarray(images), pb.asarray(labels))
    rows = [slopes(pb.asarray(x), pb.asarray(y)) for x, y in zip(images, labels, strict=True)]
    for each, column in zip(found, zip(*rows, strict=True), strict=True):
        expected = np.stack([g.numpy() for g in column])
        np.testing.assert_allclose(each.numpy(), expected, rtol=2e-4, atol=2e-6)


class Items(pb.Generator):
    """The stream of one item, for a loop."""

    item, count = 0, 1

    def reserve(self, words):
        blocks = -(-words // 4)
        key, counter = super().reserve(4 * blocks * self.count)
        return key, counter + blocks * self.item


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (4, 5)])
@pytest.mark.usefixtures("own_kernels")  # which round alike wherever a number lies in an array
def test_each_item_draws_from_its_own_stream(dtype, shape):
    def drawn(generator):
        yield generator.uniform(shape, dtype=dtype)
        yield generator.normal(shape, dtype=dtype)
        yield generator.bits(shape)
        yield generator.dropout(pb.ones(shape), 0.5)
        yield generator.integers(shape, 10)

    generator = pb.Generator(3)
    found = pb.vmap(lambda x: list(drawn(generator)))(pb.zeros(3))
    for i in range(3):
        alone = Items(3)
        alone.item, alone.count = i, 3
        for batch, one in zip(found, drawn(alone), strict=True):
            np.testing.assert_array_equal(batch.numpy()[i], one.numpy())
    assert generator.state == alone.state
    same = pb.vmap(lambda x: x + generator.normal(shape), randomness="same")(pb.zeros(3)).numpy()
    assert (same == same[:1]).all()


def test_errors_name_the_argument_and_what_to_write():
    x = pb.asarray(X)
    kept = []
    variable = pb.Variable(0.0)
    cases = {
        "pb.where in place of if": lambda: pb.vmap(lambda v: v if v[0] > 0 else -v)(x),
        r"argument 1 has 2 items": lambda: pb.vmap(lambda a, b: a)(x, x[:2]),
        "takes a function, got int": lambda: pb.vmap(3),
        "in_axes has the axis 3": lambda: pb.vmap(lambda a: a, in_axes=3)(x),
        "does not fit what": lambda: pb.vmap(lambda a: a, in_axes=("a",))(x),
        "give axis_size=": lambda: pb.vmap(lambda a: a, in_axes=None)(x),
        "does not fit 1 values": lambda: pb.vmap(lambda a: a, in_axes=(0, 0))(x),
        "out_axes is None": lambda: pb.vmap(lambda a: a, out_axes=None)(x),
        "argwhere inside pb.vmap": lambda: pb.vmap(lambda a: a[a > 0])(x),
        "used after that call": lambda: (pb.vmap(kept.append)(x), kept[0] + 1),
        "return the value": lambda: pb.vmap(lambda a: variable.assign(a[0]))(x),
        "randomness must be": lambda: pb.vmap(lambda a: a, randomness="none"),
        "lower and upper are": lambda: pb.vmap(
            lambda a: pb.fori_loop(0, a[0].astype("int32"), max, a)
        )(x),
    }
    for message, call in cases.items():
        with pytest.raises((ValueError, TypeError, IndexError), match=message):
            call()
    assert variable.numpy() == 0


def test_what_is_printed():
    texts = []

    def f(x, y):
        texts.append([repr(x), f"{x}", str(x + y), repr(y)])
        return pb.vmap(lambda z: (texts.append([repr(z), repr(x), repr(y)]), z)[1])(x)

    pb.vmap(f, in_axes=(0, None))(pb.ones((4, 3)), pb.asarray(2.0))
    one = "BatchedTensor(shape=(3,), dtype=float32, device=cpu:0, one of 4 items)"
    assert texts[0] == [one, one, one, "Tensor(2., shape=(), dtype=float32, device=cpu:0)"]
    inner = "BatchedTensor(shape=(), dtype=float32, device=cpu:0, one of 3 items)"
    assert texts[1] == [inner, one, "Tensor(2., shape=(), dtype=float32, device=cpu:0)"]


@pytest.mark.parametrize(
    ("name", "call", "shapes"),
    [
        ("conv", lambda x, w: pb.conv(x, w), [(2, 6, 6, 3), (3, 3, 3, 4)]),
        ("max_pool", lambda x: pb.max_pool(x, 2), [(2, 6, 6, 3)]),
        ("avg_pool", lambda x: pb.avg_pool(x, 2), [(2, 6, 6, 3)]),
        (
            "scaled_dot_product_attention",
            pb.scaled_dot_product_attention,
            [(2, 4, 5), (2, 6, 5), (2, 6, 5), (4, 6)],
        ),
        ("layer_norm", pb.layer_norm, [(4, 5), (5,), (5,)]),
        ("rms_norm", pb.rms_norm, [(4, 5), (5,)]),
        (
            "lstm",
            lambda x, h, c, k, r: pb.lstm(x, h, c, k, r)[0],
            [(2, 3, 4), (2, 5), (2, 5), (4, 20), (5, 20)],
        ),
    ],
)
def test_kernels_of_layers_take_all_items(name, call, shapes):
    """The kernel is called once, in the forward pass and for what its gradient calls alike."""
    rng = np.random.default_rng(0)
    arrays = [pb.asarray(rng.standard_normal(shape)) for shape in shapes]
    items = pb.stack([arrays[0], arrays[0] * 0.5, -arrays[0]])
    axes = (0, *[None] * (len(shapes) - 1))
    for f in (call, pb.grad(lambda *args: pb.sum(call(*args) ** 2))):
        program = pb.function(pb.vmap(f, axes))
        for _ in range(3):
            found = program(items, *arrays[1:])
        expected = pb.stack([f(item, *arrays[1:]) for item in pb.unstack(items)])
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)
        assert sum(one.op.name == name for one in program.graph.calls) == 1


def test_arguments_without_items_are_named():
    for call, message in {
        lambda: pb.vmap(lambda a, b: a * b)(pb.ones(3), 2.0): "argument 1, which has the shape",
        lambda: pb.vmap(lambda a, b: a)(pb.ones(3), {"k": pb.ones(4)}): "argument 1 has 4 items",
        lambda: pb.vmap(lambda a: a, axis_size=7)(pb.ones(5)): "axis_size is 7",
    }.items():
        with pytest.raises((ValueError, IndexError), match=message):
            call()
