"""Keras on pullback: ops against NumPy, training in every way, devices, files, examples."""

from __future__ import annotations

import copy
import pickle
import runpy
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers, ops
from keras.src import backend

import pullback as pb
from keras_pullback.src.optimizer import hasten

HERE = Path(__file__).resolve().parent
RNG = np.random.default_rng(0)


def arrays(*shapes, dtype="float32"):
    return [RNG.standard_normal(shape).astype(dtype) for shape in shapes]


def classes(count, rows):
    return RNG.integers(0, count, rows).astype("int32")


def network(seed=0):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(3),
        ]
    )


def compiled(model, **options):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(options.pop("optimizer", "adam"), loss, metrics=["accuracy"], **options)
    return model


@pytest.fixture
def data():
    x = RNG.random((64, 8, 8, 1), np.float32)
    return x, (x.mean((1, 2, 3)) > 0.5).astype("int32")


class TestBackend:
    def test_is_chosen(self):
        assert keras.backend.backend() == "pullback"
        assert isinstance(ops.ones(2), pb.Tensor)

    def test_needs_no_import_before_keras(self):
        program = "import keras; print(keras.backend.backend())"
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == ["pullback"]

    def test_variables_are_watched_by_tapes(self):
        v = keras.Variable([1.0, 2.0])
        with pb.GradientTape() as tape:
            loss = ops.sum(pb.ones(2) * v * v)
        assert tape.gradient(loss, v._value).tolist() == [2.0, 4.0]

    def test_shapes_are_found_without_values(self):
        def large(x):
            return ops.matmul(x, ops.transpose(x))

        spec = backend.compute_output_spec(large, keras.KerasTensor((None, 10**5)))
        assert spec.shape == (None, None)
        spec = backend.compute_output_spec(large, keras.KerasTensor((10**6, 10**6)))
        assert spec.shape == (10**6, 10**6)

    def test_a_function_that_looks_at_values_has_shapes(self):
        def first(x):
            return x if float(x[0, 0]) >= 0 else x[:, :1]

        assert backend.compute_output_spec(first, keras.KerasTensor((None, 3))).shape == (
            None,
            3,
        )

    def test_seeds_give_the_same_numbers(self):
        drawn = [keras.random.normal((3,), seed=7) for _ in range(2)]
        assert np.array_equal(*drawn)
        one, other = keras.random.SeedGenerator(7), keras.random.SeedGenerator(7)
        for _ in range(2):
            assert np.array_equal(
                keras.random.uniform((3,), seed=one), keras.random.uniform((3,), seed=other)
            )
        with pytest.raises(AssertionError):
            assert np.array_equal(
                keras.random.uniform((3,), seed=one), keras.random.uniform((3,), seed=one)
            )

    @pytest.mark.parametrize("captured", [False, True])
    def test_custom_gradients_read_variables(self, captured):
        v, x = keras.Variable(3.0), keras.Variable(2.0)

        @ops.custom_gradient
        def scaled(x):
            def grad(*args, upstream=None):
                return (args[0] if upstream is None else upstream) * v * 10.0

            return x * v, grad

        def step(factor):
            with pb.GradientTape() as tape:
                y = scaled(x * factor)
            return y, tape.gradient(y, [x._value, v._value])

        for _ in range(3):
            y, gradients = (pb.function(step) if captured else step)(pb.asarray(5.0))
            # Keras's contract has no gradient of what is read, as on torch.
            assert y.item() == 10.0 * v.numpy()
            assert gradients[0].item() == 50.0 * v.numpy()
            assert gradients[1] is None
            v.assign(v + 1.0)


class TestOps:
    """Ops whose bodies are here, against NumPy on random arrays."""

    @pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
    @pytest.mark.parametrize("axis", [None, 0, (0, 2)])
    def test_quantiles(self, method, axis):
        (x,) = arrays((4, 5, 6))
        x[0, 0, 0] = x[3, 2, 1] = np.nan
        for q in (0.3, [0.0, 0.5, 1.0]):
            got = ops.nanquantile(x, q, axis=axis, method=method, keepdims=True)
            want = np.nanquantile(x, q, axis=axis, method=method, keepdims=True)
            np.testing.assert_allclose(got, want, rtol=1e-5)
            got = ops.quantile(x, q, axis=axis, method=method)
            np.testing.assert_allclose(got, np.quantile(x, q, axis=axis, method=method), rtol=1e-5)

    @pytest.mark.parametrize("mode", ["valid", "same", "full"])
    def test_correlations(self, mode):
        for sizes in ((7,), (3,)), ((3,), (7,)), ((4,), (4,)):
            x, y = arrays(*sizes)
            np.testing.assert_allclose(
                ops.correlate(x, y, mode), np.correlate(x, y, mode), rtol=1e-4, atol=1e-5
            )

    @pytest.mark.parametrize("shapes", [((2, 3), (4, 5)), ((3,), (2, 2)), ((2, 1, 2), (3,))])
    def test_kronecker_products(self, shapes):
        x, y = arrays(*shapes)
        np.testing.assert_allclose(ops.kron(x, y), np.kron(x, y), rtol=1e-6)

    def test_divisors(self):
        x, y = RNG.integers(0, 100, (2, 50)).astype("int32")
        np.testing.assert_array_equal(ops.gcd(x, y), np.gcd(x, y))
        np.testing.assert_array_equal(ops.lcm(x, y), np.lcm(x, y))

    def test_bessel_function(self):
        x = np.linspace(-80, 80, 101).astype("float32")
        np.testing.assert_allclose(ops.i0(x), np.i0(x.astype("float64")), rtol=2e-5)

    def test_booleans_count(self):
        x, y = RNG.integers(0, 2, (2, 20)).astype(bool)
        for name in ("add", "multiply", "maximum", "minimum"):
            got = ops.convert_to_numpy(getattr(ops, name)(x, y))
            np.testing.assert_array_equal(got, getattr(np, name)(x, y))
        np.testing.assert_array_equal(ops.sort(x), np.sort(x))
        assert int(ops.argmax(x)) == np.argmax(x)

    def test_lu(self):
        (x,) = arrays((3, 5, 5))
        lu, pivots = ops.lu_factor(x)
        lower = np.tril(lu, -1) + np.eye(5, dtype="float32")
        found = lower @ np.triu(lu)
        for matrix, order, product in zip(x, np.asarray(pivots), found, strict=True):
            rows = matrix.copy()
            for k, pivot in enumerate(order):
                rows[[k, pivot]] = rows[[pivot, k]]
            np.testing.assert_allclose(product, rows, rtol=1e-4, atol=1e-5)

    def test_a_spectrum_and_back(self):
        (x,) = arrays((2, 256))
        parts = ops.stft(x, 32, 8, 32)
        back = ops.istft(parts, 32, 8, 32, length=256)
        np.testing.assert_allclose(back[:, 16:-16], x[:, 16:-16], rtol=1e-4, atol=1e-5)

    def test_scatters(self):
        (x,) = arrays((4, 5, 2))
        index = np.array([[0, 1], [3, 4], [0, 1]])
        (update,) = arrays((3, 2))
        for reduction, ufunc in (("add", np.add), ("max", np.maximum), ("mul", np.multiply)):
            want = x.copy()
            ufunc.at(want, tuple(index.T), update)
            got = ops.scatter_update(x, index, update, reduction=reduction)
            np.testing.assert_allclose(got, want, rtol=1e-6)

    def test_beam_search_finds_the_likeliest_labels(self):
        (scores,) = arrays((1, 4, 3))
        paths, totals = ops.ctc_decode(
            scores, [4], strategy="beam_search", beam_width=100, top_paths=3
        )
        for path, total in zip(np.asarray(paths)[:, 0], np.asarray(totals)[0], strict=True):
            label = path[path >= 0]
            loss = ops.ctc_loss(
                np.pad(label, (0, 4 - len(label)))[None], scores, [len(label)], [4], mask_index=0
            )
            np.testing.assert_allclose(-float(loss[0]), total, rtol=1e-4, atol=1e-5)

    def test_beam_search_is_part_of_a_program(self):
        (scores,) = arrays((2, 5, 4))

        def decode(x):
            return ops.ctc_decode(x, [5, 3], "beam_search", 6, 2, mask_index=3)

        expected, found = decode(scores), pb.function(decode)(pb.asarray(scores))
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_array_equal(one, other)


class TestTraining:
    @pytest.mark.parametrize(
        "optimizer", ["sgd", "adam", "adamw", "rmsprop", "adagrad", "lion", "nadam"]
    )
    def test_a_program_of_a_step_gives_the_same_bits(self, data, optimizer):
        losses = []
        for options in ({"run_eagerly": True}, {"jit_compile": True}):
            model = compiled(network(), optimizer=optimizer, **options)
            history = model.fit(*data, epochs=3, batch_size=16, verbose=0, shuffle=False)
            losses.append(history.history["loss"])
        assert losses[0] == losses[1]
        assert losses[0][-1] < losses[0][0]

    def test_a_step_is_a_program(self, data, monkeypatch):
        made = []
        function = pb.function

        def kept(*args, **options):
            made.append(function(*args, **options))
            return made[-1]

        monkeypatch.setattr(pb, "function", kept)
        compiled(network()).fit(*data, epochs=2, batch_size=16, verbose=0)
        assert "1 program" in made[0].explain()

    def test_random_layers_draw_anew_in_a_program(self):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((50,)), layers.Dropout(0.5)])
        model.compile("sgd", "mse")
        step = pb.function(lambda x: model(x, training=True), compare=False)
        drawn = {step(pb.ones((1, 50))).numpy().tobytes() for _ in range(6)}
        assert len(drawn) == 6

    def test_dropout_trains(self, data):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([network(), layers.Dropout(0.2), layers.Dense(3)])
        history = compiled(model).fit(*data, epochs=8, verbose=0, validation_split=0.25)
        assert history.history["loss"][-1] < history.history["loss"][0]
        assert "val_accuracy" in history.history

    @pytest.mark.parametrize("cell", ["LSTM", "GRU", "SimpleRNN"])
    def test_recurrent_layers(self, cell):
        keras.utils.set_random_seed(0)
        x, y = RNG.random((32, 6, 4), np.float32), classes(3, 32)
        model = keras.Sequential([keras.Input((6, 4)), getattr(layers, cell)(8), layers.Dense(3)])
        history = compiled(model).fit(x, y, epochs=4, verbose=0)
        assert history.history["loss"][-1] < history.history["loss"][0]

    @pytest.mark.parametrize("kind", ["LSTM", "GRU"])
    def test_fused_cells_are_the_loop(self, kind):
        (x,) = arrays((3, 5, 4))
        fused = getattr(layers, kind)(6, go_backwards=True, return_sequences=True)
        want = fused(x)
        loop = getattr(layers, kind)(6, go_backwards=True, return_sequences=True, use_cudnn=False)
        loop.build(x.shape)
        loop.set_weights(fused.get_weights())
        np.testing.assert_allclose(loop(x), want, rtol=1e-5, atol=1e-6)

    def test_mixed_precision(self, data):
        with_float16 = network()
        for layer in with_float16.layers:
            layer.dtype_policy = "mixed_float16"
        history = compiled(with_float16).fit(*data, epochs=3, verbose=0)
        assert np.isfinite(history.history["loss"]).all()

    def test_callbacks_stop_and_see_weights(self, data):
        seen = []
        stop = keras.callbacks.EarlyStopping(monitor="loss", patience=0, min_delta=100.0)
        see = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: seen.append(model.get_weights()[0].copy())
        )
        model = compiled(network())
        model.fit(*data, epochs=5, verbose=0, callbacks=[stop, see])
        assert len(seen) == 2
        assert not np.array_equal(*seen)


class TestDevices:
    def test_names(self):
        with keras.device("cpu:0"):
            assert str(ops.ones(1).device) == "cpu:0"
        with pytest.raises(ValueError, match="device"):
            keras.device("nowhere:0")

    def test_another_backend_in_one_process(self, data):
        others = [str(d) for d in pb.devices() if not str(d).startswith(("cpu", "gpu"))]
        if not others:
            pytest.skip("no second backend is installed")
        losses = []
        for name in ("cpu:0", others[0]):
            with keras.device(name):
                model = compiled(network())
                model.fit(*data, epochs=2, verbose=0, shuffle=False)
                losses.append(model.evaluate(*data, verbose=0)[0])
        assert abs(losses[0] - losses[1]) < 1e-4


class TestFiles:
    def test_a_model_is_saved_and_loaded(self, data, tmp_path):
        model = compiled(network())
        model.fit(*data, verbose=0)
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
        np.testing.assert_array_equal(
            again.predict(data[0], verbose=0), model.predict(data[0], verbose=0)
        )


@pytest.mark.parametrize("name", ["cnn", "transformer"])
def test_examples_learn(name, capsys):
    runpy.run_path(str(HERE.parent / "examples" / f"{name}.py"), run_name="__main__")
    assert float(capsys.readouterr().out.split()[-1]) > 0.8


OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(0.01, clipnorm=1.0),
    "amsgrad": lambda: keras.optimizers.Adam(0.01, amsgrad=True, epsilon=1e-4),
    "adamw": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1, beta_1=0.0),
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(
        keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5), momentum=0.9
    ),
    "nesterov": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "lion": lambda: keras.optimizers.Lion(0.01, weight_decay=0.1),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
}


class TestOptimizers:
    """The updates that take the place of Keras's steps, beside these steps."""

    @pytest.mark.parametrize("captured", [False, True])
    @pytest.mark.parametrize("name", OPTIMIZERS)
    def test_move_as_keras_does(self, name, captured):
        # Gradients near Adam's epsilon, too: there it matters what it is added to.
        rng = np.random.default_rng(1)
        start = rng.standard_normal((3, 400)).astype("float32")
        scale = 10.0 ** rng.uniform(-9, 1, (3, 400))
        gradients = [(rng.standard_normal((3, 400)) * scale).astype("float32") for _ in range(6)]
        found = []
        for fast in (False, True):
            variable, optimizer = keras.Variable(start), OPTIMIZERS[name]()
            optimizer.build([variable])
            if fast:
                hasten(optimizer)
                inner = getattr(optimizer, "inner_optimizer", optimizer)
                assert "_backend_update_step" in vars(inner)

            def step(gradient, optimizer=optimizer, variable=variable):
                optimizer.apply([gradient], [variable])

            if captured:
                step = pb.function(step, compare=False)
            for gradient in gradients:
                step(pb.asarray(gradient))
            found.append([variable.numpy(), *(v.numpy() for v in optimizer.variables)])
        # Sums of six steps: what one rounds after each op, the other rounds once.
        for got, want in zip(*found, strict=True):
            size = np.abs(want).max() if want.size else 0
            np.testing.assert_allclose(got, want, rtol=3e-6, atol=3e-7 * float(size))

    def test_keep_the_dtypes_of_variables(self):
        for dtype in ("float16", "bfloat16", "float64"):
            variable = keras.Variable(np.ones(5), dtype=dtype)
            optimizer = keras.optimizers.Adam(0.25)
            hasten(optimizer)
            optimizer.build([variable])
            optimizer.apply([pb.ones(5, dtype="float32")], [variable])
            assert {v.dtype for v in (variable, optimizer._momentums[0])} == {dtype}
            np.testing.assert_allclose(np.asarray(variable, "float64"), 0.75, rtol=4e-3)

    def test_a_step_that_somebody_wrote_is_theirs(self):
        class Still(keras.optimizers.Adam):
            def update_step(self, gradient, variable, learning_rate):
                pass

        patched = keras.optimizers.Adam()
        patched.update_step = lambda *args: None
        for optimizer in (Still(), patched):
            variable = keras.Variable(np.ones(3))
            optimizer.build([variable])
            hasten(optimizer)
            optimizer.apply([pb.ones(3)], [variable])
            assert np.asarray(variable).tolist() == [1.0, 1.0, 1.0]


def test_layers_are_normalized_by_one_op():
    for shape, axis in (((4, 6), -1), ((2, 3, 5), (1, 2)), ((2, 3, 5), 1), ((2, 3, 5), (-1, 1))):
        for dtype in ("float32", "float16"):
            layer = layers.LayerNormalization(axis=axis, dtype=dtype)
            (x,) = arrays(shape)
            layer.build(shape)
            for weight in layer.weights:
                weight.assign(RNG.standard_normal(weight.shape))
            axes = tuple(sorted(i % len(shape) for i in np.atleast_1d(axis)))
            wide = x.astype(dtype).astype("float64")
            mean, variance = (f(wide, axis=axes, keepdims=True) for f in (np.mean, np.var))
            normal = (wide - mean) / np.sqrt(variance + layer.epsilon)
            form = [shape[i] if i in axes else 1 for i in range(len(shape))]
            gamma, beta = (np.asarray(w, "float64").reshape(form) for w in layer.weights)
            tolerance = {"float32": 1e-5, "float16": 4e-3}[dtype]
            np.testing.assert_allclose(
                np.asarray(layer(x), "float64"), normal * gamma + beta, tolerance, tolerance
            )
            with pb.GradientTape() as tape:
                loss = ops.sum(layer(x) * x)
            gradient = tape.gradient(loss, layer.weights[0]._value)
            want = (normal * wide).sum(tuple(set(range(len(shape))) - set(axes)))
            want = want.reshape(gradient.shape)
            np.testing.assert_allclose(
                np.asarray(gradient, "float64"), want, tolerance, tolerance * np.abs(want).max()
            )
            # Weights in another order than the sizes stand for are Keras's to broadcast.
            program = str(pb.function(lambda x, layer=layer: layer(x)).lower(pb.asarray(x)))
            assert ("layer_norm(" in program) == (axis != (-1, 1))


def equations(count):
    """Equations of two operands, half of them products of matrices, with their shapes."""
    sizes = dict(zip("abcdefgh", (2, 3, 4, 5, 2, 3, 1, 2), strict=True))
    for _ in range(count):
        letters = list(RNG.permutation(list(sizes)))
        first, summed, last = (
            "".join(letters.pop() for _ in range(RNG.integers(low, 3))) for low in (0, 1, 0)
        )
        left, right, output = first + summed, summed + last, first + last
        if RNG.random() < 0.5:
            right, output = ("".join(RNG.permutation(list(term))) for term in (right, output))
        yield (
            f"{left},{right}->{output}",
            *(tuple(sizes[letter] for letter in term) for term in (left, right)),
        )


def test_equations_are_those_of_numpy():
    for equation, *shapes in equations(60):
        x, y = arrays(*shapes)
        found, want = np.asarray(ops.einsum(equation, x, y)), np.einsum(equation, x, y)
        assert found.shape == want.shape, equation
        np.testing.assert_allclose(found, want, 1e-5, 1e-5, err_msg=equation)
    for equation in ("abc,cde->abde", "abcd,cde->abe"):
        with pytest.raises(ValueError, match=r"sizes|axes"):
            ops.einsum(equation, *arrays((2, 3, 4, 2)[: equation.index(",")], (3, 2, 5)))
    assert ops.einsum("abcd,cde->abe", *arrays((0, 3, 4, 2), (4, 2, 5))).shape == (0, 3, 5)


def test_signs_of_integers_and_booleans():
    for dtype in ("int8", "int32", "uint8", "bool", "float16", "float32"):
        x = np.asarray([-2, -0.0, 0, 3]).astype("int8" if dtype == "uint8" else dtype)
        x = x.astype(dtype)
        want = np.signbit(x) if x.dtype.kind == "f" else x.astype("int64") < 0
        assert np.array_equal(ops.signbit(x), want), dtype


def test_what_keras_added_after_its_release():
    """Ops of Keras's coming version, which calls them on a backend."""
    from_backend = backend.math
    x = np.asarray([[3.0, 1.0, 3.0, 2.0]], "float32")
    values, places = from_backend.top_k(x, 3)
    assert (values.tolist(), places.tolist()) == ([[3.0, 3.0, 2.0]], [[0, 2, 3]])
    y = from_backend.gammainc(np.float16(2), np.asarray([0.5, 3.0], "float16"))
    assert y.dtype.name == "float16"
    np.testing.assert_allclose(y, [0.0902, 0.8009], rtol=1e-3)
    halves, integers = ops.ones((2, 3), "float16"), ops.zeros((4, 3), "int32")
    assert from_backend.cdist(halves, integers).dtype.name == "float16"
    signal = RNG.random(8).astype("float32")
    real, imaginary = ops.stft(signal, 1, 1, 1)
    np.testing.assert_allclose(ops.istft((real, imaginary), 1, 1, 1), signal, rtol=1e-6)


class TestShortWay:
    """A call of a layer by the short way is one by Keras's own."""

    class Noted(layers.Layer):
        def call(self, x, other=None, training=None):
            self.noted = training
            if other is not None and other.shape != x.shape:
                raise ValueError("other shapes")
            return x

    @pytest.fixture
    def calls(self, monkeypatch):
        """Counts the calls that go the long way."""
        found = []
        inner = layers.Layer._maybe_build

        def count(layer, spec):
            found.append(layer)
            return inner(layer, spec)

        monkeypatch.setattr(layers.Layer, "_maybe_build", count)
        return found

    def test_is_taken_by_a_built_layer_with_tensors(self, calls):
        layer, x = layers.Dense(3), ops.ones((2, 4))
        first = layer(x)
        assert len(calls) == 1
        assert np.array_equal(layer(x), first)
        assert np.array_equal(layer(x, training=True), first)
        assert len(calls) == 1
        assert np.array_equal(layer(np.ones((2, 4), "float32")), first)
        assert len(calls) == 2

    def test_training_comes_from_the_call_or_the_layer_around(self, calls):
        layer, x = self.Noted(), ops.ones((2, 3))
        model = keras.Sequential([keras.Input((3,)), layer])
        for training in (True, False):
            model(x, training=training)
            assert layer.noted is training
            layer(x, training=training)
            assert layer.noted is training
        calls.clear()
        layer(x)
        assert layer.noted is None
        assert not calls

    def test_masks_reach_the_next_layer(self):
        tokens = ops.convert_to_tensor([[1, 2, 0], [3, 0, 0]], "int32")
        embedding, dense = layers.Embedding(5, 4, mask_zero=True), layers.Dense(2)
        for _ in range(3):
            mask = backend.get_keras_mask(dense(embedding(tokens)))
            assert np.asarray(mask).tolist() == [[True, True, False], [True, False, False]]
        masked = layers.Masking()
        for _ in range(3):
            mask = backend.get_keras_mask(masked(ops.zeros((1, 2, 3))))
            assert np.asarray(mask).tolist() == [[False, False]]

    def test_dtypes_are_those_of_the_policy(self):
        for policy in ("float16", "mixed_bfloat16", "float32"):
            layer = layers.Dense(3, dtype=policy)
            for dtype in ("float32", "float16", "float32"):
                layer(ops.ones((2, 4), dtype))
                assert layer(ops.ones((2, 4), dtype)).dtype.name == layer.compute_dtype

    def test_errors_are_keras_errors(self):
        layer, x = layers.Dense(3), ops.ones((2, 4))
        layer(x)
        layer(x)
        with pytest.raises(ValueError, match="incompatible with the layer"):
            layer(ops.ones((2, 5)))
        noted = self.Noted()
        noted(x)
        with pytest.raises(ValueError, match=r"(?s)calling Noted.call.*other shapes.*• other="):
            noted(x, ops.ones((1, 1)))
        with pytest.raises(TypeError):
            noted(x, x, x, x)

    def test_losses_are_of_the_last_call(self):
        layer = layers.Dense(3, activity_regularizer="l2", kernel_regularizer="l2")
        other = layers.ActivityRegularization(l2=1.0)
        for _ in range(3):
            layer(ops.ones((2, 4)))
            other(ops.ones((2, 4)))
            assert (len(layer.losses), len(other.losses)) == (2, 1)

    def test_a_layer_that_was_called_is_copied_and_kept(self):
        layer, x = layers.Dense(3), ops.ones((2, 4))
        layer(x)
        want = layer(x)
        for made in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert np.array_equal(made(x), want)
