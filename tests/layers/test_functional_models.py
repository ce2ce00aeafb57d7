"""Models made of calls beside the same calls on tensors: shapes, values, errors, files."""

import copy
import gc
import json
import pickle
import weakref
from xml.dom import minidom

import numpy as np
import pytest
import scipy.special

import pullback as pb

L = pb.layers
E = pb.errors
RNG = np.random.default_rng(0)

CALLS = [
    lambda x, y: x + y * 2 - 1 / (y + 5),
    lambda x, y: 2 - x @ y.mT,
    lambda x, y: pb.concat([x, y], axis=-1)[:, 1:, ::2],
    lambda x, y: x.reshape(-1, 4) if x.ndim == 3 else x,
    lambda x, y: pb.where(x > y, x, 0.0).sum(axis=(1, 2)),
    lambda x, y: pb.softmax(x, axis=-1).astype("float16"),
    lambda x, y: pb.einsum("bti,bsi->bts", x, y),
    lambda x, y: pb.split(x, 2, axis=-1)[1] + pb.zeros_like(y)[..., :2],
    lambda x, y: pb.one_hot(pb.argmax(x, axis=-1), 4) + np.ones(4, "f"),
    lambda x, y: pb.mean(pb.stack([x, y], axis=1), axis=1, keepdims=True),
    lambda x, y: -(abs(x) ** 2) / pb.max(y, axis=-1, keepdims=True) + pb.ones((4,)),
    lambda x, y: pb.linalg.vector_norm(x - y, axis=-1) <= 1,
    lambda x, y: pb.matmul(x, pb.astype(y, "float32").mT),
    lambda x, y: L.Add()([L.Dense(3)(x), L.Dense(3)(y)]),
    lambda x, y: L.MultiHeadAttention(2, 3)(x, y),
    lambda x, y: L.Bidirectional(L.GRU(3))(x),
    lambda x, y: pb.Sequential([L.Dense(3), L.BatchNormalization(), L.Dropout(0.5)])(x),
    lambda x, y: L.Lambda(pb.flip, name="turned")(x),
    lambda x, y: {"a": [x, pb.relu(y)], "b": (L.LayerNormalization()(x),)},
]


def flat(value):
    return pb.layers.functional.leaves(value)


@pytest.mark.parametrize("f", CALLS)
@pytest.mark.parametrize("length", [None, 6])
def test_calls(f, length):
    x, y = pb.Input((length, 4), name="x"), pb.Input((length, 4), name="y")
    out = f(x, y)
    model = pb.Model((x, y), out)
    again = pb.Model.from_config(
        json.loads(json.dumps(model.get_config())), custom={"flip": pb.flip}
    )
    for mine, other in zip(again.variables, model.variables, strict=True):
        mine.assign(other)
    captured = pb.function(model)
    for batch, time in ((3, 6), (5, 6), (1, 6)) if length else ((3, 6), (5, 2)):
        data = [pb.asarray(RNG.random((batch, time, 4), "f")) for _ in range(2)]
        found = model(tuple(data))
        symbolic = flat(out)
        for tensor, symbol in zip(flat(found), symbolic, strict=True):
            assert tensor.dtype == symbol.dtype
            assert all(m in (None, n) for m, n in zip(symbol.shape, tensor.shape, strict=True))
        for way in (again, captured, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            for one, other in zip(flat(way(tuple(data))), flat(found), strict=True):
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)
        if not model.variables:
            for one, other in zip(flat(f(*data)), flat(found), strict=True):
                np.testing.assert_array_equal(one.numpy(), other.numpy())


UFUNCS = ["sin", "add", "power", "fmax", "divmod", "isnan", "less", "logaddexp", "deg2rad", "rint"]


@pytest.mark.each("name", UFUNCS)
def test_ufuncs_of_numpy_are_kept_as_ops(name):
    ufunc = getattr(np, name)
    x, v = pb.Input((3,)), pb.Variable(RNG.random(3, "f"))
    layer = L.Dense(3)
    parts = layer(x), v
    out = ufunc(*parts[: ufunc.nin])
    model = pb.Model(x, out)
    data = pb.asarray(RNG.random((2, 3), "f"))
    for _ in range(2):
        expected = ufunc(*(layer(data), v)[: ufunc.nin])
        for one, other in zip(flat(model(data)), flat(expected), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        # A variable is read in each call.
        v.assign_add([1.0, 2.0, 3.0])


def test_calls_use_functions_without_names_in_lambdas_only():
    x = pb.Input((3,))
    with pytest.raises(E.InputValueError, match="configuration"):
        pb.Model(x, L.Lambda(lambda x: x)(x)).get_config()


X = pb.Input((None, 4), name="x")


@pytest.mark.parametrize(
    ("f", "kind"),
    [
        (lambda: bool(X), E.SymbolicError),
        (lambda: float(X), E.SymbolicError),
        (lambda: np.asarray(X), E.SymbolicError),
        (lambda: X.numpy(), E.SymbolicError),
        (lambda: [*X], E.SymbolicError),
        (lambda: np.sum(X), E.SymbolicError),
        (lambda: np.where(X > 0, X, 0), E.SymbolicError),
        (lambda: np.sin(X, dtype="f"), E.SymbolicError),
        (lambda: np.add.reduce(X), E.SymbolicError),
        (lambda: np.spacing(X), E.SymbolicError),
        (lambda: scipy.special.log1p(X), E.SymbolicError),
        (lambda: L.Lambda(lambda y: y + X)(X), E.SymbolicError),
        (lambda: L.Dense(3)(L.Flatten()(X)), E.LayerError),
        (lambda: X @ pb.ones((3, 3)), E.ShapeError),
        (lambda: X[X > 0], E.ShapeError),
        (lambda: pb.Model(X, pb.Input((2,)) + 1), E.LayerError),
        (lambda: pb.Model(X, 3), E.InputTypeError),
        (lambda: pb.Model((X, X), X + 1), E.LayerError),
        (lambda: pb.Input(3), E.InputTypeError),
        (lambda: pb.Model(X, X * 1)(np.zeros((2, 3, 5), "f")), E.LayerError),
        (lambda: pb.Model(X, X * 1)(np.zeros((2, 3, 4), "complex64")), E.DTypeError),
        (lambda: pb.Model((X, pb.Input()), X * 1)({"x": 1, "z": 2}), E.InputValueError),
        (lambda: pb.Model(X, L.Dense(2)(X)).get_layer("dens"), E.LayerError),
        (lambda: L.Dense(2).output, AttributeError),
    ],
)
def test_errors(f, kind):
    with pytest.raises(kind):
        f()
    assert pb.add(1.0, 2.0).item() == 3.0


def test_layers_keep_attributes_of_these_names():
    class Own(pb.Model):
        def __init__(self):
            super().__init__()
            self.inputs, self.output, self.outputs = L.Dense(3), L.Dense(2), [1]

        def call(self, x):
            return self.output(self.inputs(x))

    assert Own()(pb.ones((2, 4))).shape == (2, 2)


def test_shared_layers_several_outputs_and_files(tmp_path):
    dense = L.Dense(3)
    a, b = pb.Input((4,), name="a"), pb.Input((4,), name="b")
    hidden = dense(a), dense(b)
    model = pb.Model(
        {"a": a, "b": b}, {"sum": pb.sum(hidden[0] + hidden[1], axis=-1), "b": hidden[1]}
    )
    assert list(model.named_variables) == ["layers/0/kernel", "layers/0/bias"]
    data = {name: RNG.random((8, 4), "f") for name in ("b", "a")}
    targets = {"sum": np.ones(8, "f"), "b": np.zeros((8, 3), "f")}
    for capture in (False, True):
        model.compile(
            "sgd",
            {"sum": "mse", "b": "mse"},
            {"b": ["mae"]},
            loss_weights={"b": 0.5},
            capture=capture,
        )
        losses = model.fit(data, targets, epochs=4, verbose=False).history["loss"]
        assert losses[-1] < losses[0]
    assert model.predict(data)["b"].shape == (8, 3)
    with pytest.raises(E.InputValueError, match="'su'"):
        model.compile("sgd", {"sum": "mse"}, loss_weights={"su": 1.0})
    path = tmp_path / "model.safetensors"
    pb.checkpoint.save_model(model, path)
    np.testing.assert_array_equal(pb.checkpoint.load_model(path)(data)["sum"], model(data)["sum"])
    pb.checkpoint.save_weights(model, path)
    with pytest.raises(E.CheckpointError, match="without a model"):
        pb.checkpoint.load_model(path)
    pb.plot_model(model, tmp_path / "model.svg")
    pb.plot_model(pb.Sequential(), tmp_path / "none.svg")
    minidom.parse(str(tmp_path / "none.svg"))
    assert len(minidom.parse(str(tmp_path / "model.svg")).getElementsByTagName("rect")) == 7
    with pytest.raises(E.InputValueError, match=r"\.svg"):
        pb.plot_model(model, tmp_path / "model.png")


def test_several_inputs_of_a_call():
    class Two(pb.Model):
        def __init__(self):
            super().__init__()
            self.dense = L.Dense(1)

        def call(self, a, b):
            return self.dense(a - b)

    a, b = np.ones((8, 3), "f"), np.zeros((8, 3), "f")
    model = Two()
    model.compile("sgd", "mse")
    model.fit((a, b), np.ones((8, 1), "f"), verbose=False)
    np.testing.assert_array_equal(model.predict((a, b)), model.predict({"b": b, "a": a}))
    with pytest.raises(E.InputValueError, match="'a', 'b'"):
        model.predict({"a": a, "c": b})


def equal(a, b):
    for one, other in zip(flat(a), flat(b), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_variables_of_calls_are_trained_saved_and_restored(tmp_path):
    data = np.ones((4, 3), "f"), np.ones((4, 1), "f")

    def made():
        x, v, w = pb.Input((3,)), pb.Variable(np.ones(3, "f")), pb.Variable(np.zeros(1, "f"))
        return pb.Model(x, L.Add()([L.Dense(1)(x * v) + w, v[:1] * 0 + w])), [v, w]

    model, own = made()
    assert [one for one in model.trainable_variables if any(one is v for v in own)] == own
    model.compile("sgd", "mse")
    before = [v.numpy().copy() for v in own]
    model.fit(*data, epochs=2, verbose=False)
    assert all((v.numpy() != old).any() for v, old in zip(own, before, strict=True))
    path = tmp_path / "weights"
    pb.checkpoint.save_weights(model, path)
    again, _ = made()
    pb.checkpoint.load_weights(again, path)
    equal(again(data[0]), model(data[0]))
    again, _ = made()
    pb.Checkpoint(m=again).restore(pb.Checkpoint(m=model).save(tmp_path / "checkpoint"))
    equal(again(data[0]), model(data[0]))
    for way in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert way.variables[2] is way.call_variables[0] is not own[0]
        equal(way(data[0]), model(data[0]))
        way.call_variables[1].assign([7.0])
        assert (way(data[0]).numpy() != model(data[0]).numpy()).all()


@pytest.mark.parametrize("way", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_written_as_the_model_is(way, tmp_path):
    x, y = pb.Input((3,), name="x"), pb.Input((3,), name="y")
    dense = L.Dense(2)
    model = pb.Model((x, y), {"a": dense(x) + dense(y), "b": pb.split(x, 3, axis=-1)[1]})
    data, copied = (np.ones((2, 3), "f"), np.full((2, 3), 2, "f")), way(model)
    assert copied.get_config() == model.get_config()
    pb.checkpoint.save_model(copied, tmp_path / "m")
    equal(pb.checkpoint.load_model(tmp_path / "m")(data), model(data))


@pytest.mark.parametrize(
    "layers",
    [
        lambda: [L.Dense(3)],
        lambda: [L.Bidirectional(L.GRU(3, return_sequences=True)), L.BatchNormalization()],
        lambda: [pb.Sequential([L.SeparableConv1D(3, 2), pb.relu]), L.Flatten(), L.Dense(2)],
    ],
)
def test_sequences_without_an_input_shape_in_files(layers, tmp_path):
    model, x = pb.Sequential(layers()), RNG.random((2, 5, 4), "f")
    y = model(x)
    pb.checkpoint.save_model(model, tmp_path / "m")
    equal(pb.checkpoint.load_model(tmp_path / "m")(x), y)
    with pytest.raises(E.InputTypeError, match="Sequential"):
        pb.checkpoint.save_model(L.Dense(2, input_shape=(3,)), tmp_path / "m")


@pytest.mark.parametrize(
    "f",
    [
        lambda x: pb.reshape(x, (-1, np.prod((4, 3)))),
        lambda x: pb.sum(x, axis=np.int64(1)),
        lambda x: pb.sum(x, axis=np.uint8(1), keepdims=np.bool_(True)),
        lambda x: x[:, np.int32(1) :] * np.float64(0.5) + np.float32(1),
        lambda x: x.astype("int8") * np.int64(300),
    ],
)
def test_numbers_of_numpy_in_a_configuration(f):
    x = pb.Input((4, 3))
    model, data = pb.Model(x, f(x)), RNG.random((2, 4, 3), "f")
    again = pb.Model.from_config(json.loads(json.dumps(model.get_config())))
    equal(again(data), model(data))
    assert again(data).dtype == model(data).dtype


@pytest.mark.parametrize(
    "nested", [lambda a, b: ((a, b),), lambda a, b: {"p": [a], "b": b}, lambda a, b: [a, [b]]]
)
def test_nested_inputs_are_rejected(nested):
    a, b = pb.Input((2,), name="a"), pb.Input((2,), name="b")
    with pytest.raises(E.InputTypeError, match=r"pb\.Model\(\(a, b, c\), outputs\)"):
        pb.Model(nested(a, b), a + b)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x, x.shape[1]),
        lambda x: {"a": x, "b": list(x.shape)},
        lambda x: (x, str(x.shape[1])),
        lambda x: pb.unstack(x, axis=1),
    ],
)
def test_results_that_depend_on_free_sizes(f):
    assert flat(L.Lambda(lambda x: (x, x.shape[2]))(pb.Input((None, 3))))[1] == 3
    with pytest.raises(E.SymbolicError, match="None"):
        L.Lambda(f)(pb.Input((None, 3)))


def test_sequences_with_layers_that_read_values():
    model = pb.Sequential(
        [
            L.Dense(4, input_shape=(3,)),
            L.Lambda(lambda x: pb.asarray(np.sin(x.numpy()))),
            L.Dense(2),
        ]
    )
    assert [v.shape for v in model.variables] == [(3, 4), (4,), (4, 2), (2,)]


def test_integers_are_not_narrowed():
    kinds = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"]
    for to in kinds:
        model = pb.Model(x := pb.Input((2,), dtype=to), x * 1)
        for of in kinds:
            data = pb.ones((1, 2), dtype=of)
            if np.can_cast(of, to):
                assert model(data).dtype == to
            else:
                with pytest.raises(E.DTypeError, match="astype"):
                    model(data)


@pytest.mark.parametrize(
    "f",
    [
        pb.add,
        lambda v, x: pb.matmul(v, x.mT),
        lambda v, x: pb.where(x > 0, v, 0.0),
        lambda v, x: pb.where(x > 0, x, v),
        lambda v, x: pb.concat([v, x], axis=0),
        lambda v, x: pb.clip(x, v, 9.0),
        lambda v, x: pb.einsum("ij,kj->ik", v, x),
        lambda v, x: x @ v.mT if v.ndim > 2 else v - x,
        lambda v, x: L.Add()([v, x]),
    ],
)
def test_calls_keep_variables_as_they_were_passed(f):
    x, v = pb.Input((3,)), pb.Variable(np.ones((1, 3), "f"))
    model, data = pb.Model(x, f(v, x)), pb.asarray(RNG.random((1, 3), "f"))
    assert model.variables == [v]
    v.assign(v * 3)
    equal(model(data), f(v, data))


@pytest.mark.parametrize("of", ["function", "layer", "inner"])
def test_variables_that_no_layer_has_are_errors(of):
    x, v, inner = pb.Input((3,)), pb.Variable(np.ones((3, 3), "f"), name="mine"), L.Dense(3)

    class Reads(L.Layer):
        def call(self, y):
            return pb.matmul(y, v)

    made = {
        "function": lambda: L.Lambda(lambda y: y @ v)(x),
        "layer": lambda: Reads()(x),
        "inner": lambda: L.Lambda(lambda y: inner(y))(x),
    }[of]
    with pytest.raises(E.LayerError, match=r"at \S+:\d+ reads a variable.*Lambda\(f\)\(x, var"):
        pb.Model(x, made() * 2)
    # One that another layer of the model has, or that is an argument, is trained and saved.
    tied = pb.Model(x, L.Lambda(lambda y: y @ inner.kernel.mT)(inner(x)))
    assert len(tied.variables) == 2
    assert pb.Model(x, L.Lambda(pb.matmul)(x, v)).variables == [v]


@pytest.mark.parametrize("drop", ["model", "copy"])
def test_a_layer_does_not_keep_the_models_that_it_is_in(drop):
    dense, x = L.Dense(3), pb.Input((3,))
    model = pb.Model(x, pb.relu(dense(x)))
    copied = copy.deepcopy(model)
    assert dense.output is model._graph.calls[0].result
    assert copied.get_layer("dense").output is copied._graph.calls[0].result
    gone = model if drop == "model" else copied
    kept, graph = gone.get_layer("dense"), weakref.ref(gone._graph)
    del gone, model, copied
    gc.collect()
    assert graph() is None
    with pytest.raises(AttributeError, match="nothing that was made of the result is left"):
        _ = kept.output
    assert pickle.loads(pickle.dumps(kept))(pb.ones((2, 3))).shape == (2, 3)


def test_the_shape_of_a_part_is_that_of_each_length():
    """A size that is given is that of every length for which the first element is there."""

    def part(draw):
        kind = draw.integers(6)
        if kind == 0:
            return int(draw.choice([0, 1, -1]))
        if kind == 1:
            return None
        ends = [None, *range(-9, 10)]
        start, stop = (ends[i] for i in draw.integers(len(ends), size=2))
        return slice(start, stop, [None, 1, 2, -1, -3][draw.integers(5)])

    checked = 0
    for seed in range(100):
        draw = np.random.default_rng(seed)
        key = [part(draw) for _ in range(draw.integers(1, 4))]
        while sum(each is not None for each in key) > 3:
            key.pop()
        if draw.integers(4) == 0 and len(key) < 3:
            key.insert(int(draw.integers(len(key) + 1)), ...)
        key = tuple(key) if len(key) > 1 else key[0]
        x = pb.Input((None, 6))
        y = x[key]
        doubled = pb.tanh(y) * 2
        assert doubled.shape == y.shape
        for sizes in draw.integers(1, 12, size=(5, 2)):
            given = np.ones((*sizes, 6))
            try:
                found = given[key].shape
            except IndexError:
                continue
            declared = [n if n != 1 else None for n in y.shape]
            if 0 in y.shape or 0 in found:
                continue
            assert len(found) == len(declared)
            assert all(m is None or m == n for m, n in zip(declared, found, strict=True)), key
            checked += 1
    assert checked > 150
