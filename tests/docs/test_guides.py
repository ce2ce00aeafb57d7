"""Programs from guides to eager execution, with their results."""

from __future__ import annotations

import gc
import shutil
import tracemalloc
import weakref

import numpy as np
import pytest
from sklearn.datasets import load_digits

import pullback as pb

RNG = np.random.default_rng(11)


@pytest.fixture(autouse=True, params=["default", "minimal"])
def here(request, minimal):
    """Everything on the default device, and on the smallest of all backends."""
    with pb.default_device() if request.param == "default" else minimal as device:
        yield device


def floats(*shape):
    return RNG.standard_normal(shape, np.float32)


def differences(f, x, h=1e-6):
    """The Jacobian of f at x by central differences, in float64."""
    x = np.asarray(x, np.float64)
    columns = []
    for i in range(x.size):
        step = np.zeros(x.size)
        step[i] = h
        step = step.reshape(x.shape)
        columns.append((np.asarray(f(x + step)) - np.asarray(f(x - step))) / (2 * h))
    return np.stack(columns, axis=-1).reshape(*np.shape(columns[0]), *x.shape)


class TestBasics:
    def test_eager_from_the_first_line(self, here):
        assert pb.executing_eagerly() is True
        product = pb.matmul([[2.0]], [[2.0]])
        assert f"hello, {product}" == f"hello, [[4.]] shape=(1, 1) dtype=float32 device={here}"

    def test_values_print_with_shape_dtype_and_device(self, capsys, here):
        print(pb.asarray([[1, 2], [3, 4]]))
        printed = capsys.readouterr().out
        assert printed == f"[[1 2]\n [3 4]] shape=(2, 2) dtype=int32 device={here}\n"

    def test_printing_never_disturbs_gradients(self):
        w = pb.Variable([[1.0]])
        with pb.GradientTape() as tape:
            y = w * w
            text = f"{y} {y!r} {w}"
            loss = y * y
        assert "1." in text
        assert tape.gradient(loss, w).tolist() == [[4.0]]

    def test_broadcasting_and_operators(self):
        a = pb.asarray([[1, 2], [3, 4]])
        b = a + 1
        assert b.tolist() == [[2, 3], [4, 5]]
        assert (a * b).tolist() == [[2, 6], [12, 20]]

    def test_numpy_both_ways(self):
        a = pb.asarray([[1, 2], [3, 4]])
        b = a + 1
        c = np.multiply(a, b)
        assert type(c) is pb.Tensor
        assert c.tolist() == [[2, 6], [12, 20]]
        assert type(a.numpy()) is np.ndarray
        assert np.multiply(a.numpy(), b).tolist() == c.tolist()
        assert pb.add(np.asarray([1.0, 2.0]), [3, 4]).tolist() == [4.0, 6.0]
        # Views of the buffer, which nobody can write to.
        assert np.shares_memory(np.asarray(a), a.numpy())
        assert not a.numpy().flags.writeable

    def test_numpy_functions_keep_gradients(self):
        assert float(pb.grad(lambda x: np.multiply(x, x))(3.0)) == 6.0

    def test_fizzbuzz(self):
        def fizzbuzz(limit):
            counter, said = pb.asarray(0), []
            for number in range(1, int(limit) + 1):
                number = pb.asarray(number)
                if int(number % 3) == 0 and int(number % 5) == 0:
                    said.append("FizzBuzz")
                elif number % 3 == 0:
                    said.append("Fizz")
                elif number % 5 == 0:
                    said.append("Buzz")
                else:
                    said.append(str(number.numpy()))
                counter += 1
            return counter, said

        counter, said = fizzbuzz(pb.asarray(15))
        assert int(counter) == 15
        assert " ".join(said) == ("1 2 Fizz 4 Buzz Fizz 7 8 Fizz Buzz 11 Fizz 13 14 FizzBuzz")

    def test_collatz(self):
        a, counter, printed = pb.asarray(12), pb.asarray(0), []
        while not a == 1:  # noqa: SIM201
            a = a / 2 if a % 2 == 0 else 3 * a + 1
            counter += 1
            printed.append(f"{a:g}")
        assert ", ".join(printed) == "6, 3, 10, 5, 16, 8, 4, 2, 1"
        assert int(counter) == 9

    def test_formats_and_conversions_of_scalars(self):
        x = pb.asarray(1.23456)
        assert f"{x:.3f} {x:8.2f} {x:.1e}" == "1.235     1.23 1.2e+00"
        assert "{:.3f}".format(pb.Variable(2.0)) == "2.000"  # noqa: UP032
        assert "%.2f" % x == "1.23"  # noqa: UP031
        assert f"{pb.asarray(7):d}" == "7"
        assert (int(x), round(float(x), 3), bool(x)) == (1, 1.235, True)
        assert list(range(pb.asarray(3))) == [0, 1, 2]

    def test_variables(self):
        v = pb.Variable(5.0, name="weight")
        assert v.name == "weight"
        v.assign(2.0)
        v.assign_add(1.5)
        v.assign_sub(0.5)
        assert v.numpy() == 3.0

    def test_variables_are_freed_with_their_last_reference(self):
        gc.disable()
        try:
            tracemalloc.start()
            v = pb.Variable(pb.zeros((1 << 20,)))
            v.assign_add(pb.ones((1 << 20,)))
            held, _ = tracemalloc.get_traced_memory()
            there = weakref.ref(v)
            del v
            left, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
        assert there() is None
        # Of NumPy's memory; that of other libraries is not traced.
        assert held - left > 4 << 20 or held < 4 << 20

    def test_devices(self):
        with pb.device("cpu:0"):
            x = pb.zeros((2, 2))
        assert str(x.device) == "cpu:0"
        assert x.cpu().device is x.device
        assert x.to("cpu:0") is x
        if len(pb.devices("gpu")):
            assert x.gpu().device.kind == "gpu"
            assert (x.gpu() + 1).device.kind == "gpu"
        else:
            with pytest.raises(pb.errors.PullbackError, match="gpu"):
                x.gpu()
            with pytest.raises(pb.errors.PullbackError, match="gpu"), pb.device("gpu:0"):
                pb.zeros((2, 2))


class TestGradients:
    def test_tape(self):
        w = pb.Variable([[1.0]])
        with pb.GradientTape() as tape:
            loss = w * w
        assert tape.gradient(loss, w).tolist() == [[2.0]]

    def test_tensors_are_watched_on_request(self):
        x = pb.asarray(3.0)
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        assert float(tape.gradient(y, x)) == 6.0

    def test_one_use_or_persistent(self):
        x = pb.Variable(3.0)
        with pb.GradientTape() as tape:
            y = x * x
        tape.gradient(y, x)
        with pytest.raises(RuntimeError, match="persistent=True"):
            tape.gradient(y, x)
        with pb.GradientTape(persistent=True) as tape:
            y = x * x
            z = y * y
        assert [float(tape.gradient(one, x)) for one in (z, y, z)] == [108.0, 6.0, 108.0]

    def test_tapes_inside_tapes(self):
        x = pb.Variable(1.0)
        with pb.GradientTape() as third, pb.GradientTape() as second:
            with pb.GradientTape() as first:
                y = x * x * x
            d1 = first.gradient(y, x)
            d2 = second.gradient(d1, x)
        assert float(third.gradient(d2, x)) == 6.0

    def test_python_control_flow_under_a_tape(self):
        def f(x, y):
            output = 1.0
            for i in range(int(y)):
                if i > 1 and i < 5:
                    output = pb.multiply(output, x)
            return output

        assert [float(pb.grad(f)(2.0, pb.asarray(n))) for n in (6, 5, 4)] == [12.0, 12.0, 4.0]

    def test_functional(self):
        def square(x):
            return pb.multiply(x, x)

        grad = pb.grad(square)
        assert float(square(3.0)) == 9.0
        assert float(grad(3.0)) == 6.0
        assert float(pb.grad(grad)(3.0)) == 2.0
        assert float(pb.grad(pb.grad(grad))(3.0)) == 0.0
        value, slope = pb.value_and_grad(square)(3.0)
        assert (float(value), float(slope)) == (9.0, 6.0)

    def test_abs_written_with_if(self):
        def absolute(x):
            return x if x > 0.0 else -x

        grad = pb.grad(absolute)
        assert (float(grad(3.0)), float(grad(-3.0))) == (1.0, -1.0)

    def test_implicit_gradients(self):
        model = pb.layers.Dense(1, input_shape=(3,))
        x, y = floats(8, 3), floats(8, 1)

        def loss(model, x, y):
            return pb.losses.mean_squared_error(y, model(x))

        before = loss(model, x, y)
        pairs = pb.implicit_gradients(loss)(model, x, y)
        assert all(v is own for (_, v), own in zip(pairs, model.variables, strict=True))
        pb.optimizers.SGD(0.01).apply_gradients(pairs)
        assert loss(model, x, y) < before

    def test_implicit_gradients_of_a_vector_sum_it(self):
        model = pb.layers.Dense(1, input_shape=(3,))
        x, y = floats(8, 3), floats(8, 1)
        vector = pb.implicit_gradients(lambda: (model(x) - y) ** 2)()
        total = pb.implicit_gradients(lambda: pb.sum((model(x) - y) ** 2))()
        for (one, _), (other, _) in zip(vector, total, strict=True):
            assert one.tolist() == other.tolist()

    def test_custom_gradient_of_log1pexp(self):
        def plain(x):
            return pb.log(1 + pb.exp(x))

        @pb.custom_gradient
        def log1pexp(x):
            e = pb.exp(x)

            def grad(dy):
                return dy * (1 - 1 / (1 + e))

            return pb.log(1 + e), grad

        assert float(pb.grad(plain)(0.0)) == float(pb.grad(log1pexp)(0.0)) == 0.5
        assert np.isnan(float(pb.grad(plain)(100.0)))
        assert float(pb.grad(log1pexp)(100.0)) == 1.0

    def test_custom_gradient_clips_by_norm(self):
        @pb.custom_gradient
        def clip_gradient_by_norm(x, norm):
            y = x * 1

            def grad_fn(dresult):
                return [pb.clip_by_norm(dresult, max_norm=norm), None]

            return y, grad_fn

        gradient = pb.grad(lambda x: pb.sum(clip_gradient_by_norm(x, 0.5) ** 2))([3.0, 4.0])
        assert gradient.tolist() == pytest.approx([0.3, 0.4])

    def test_line_search_is_differentiable(self):
        def line_search_step(f, start):
            value, gradient = pb.value_and_grad(f)(start)
            slope = pb.sum(gradient * gradient)
            rate = 1.0
            while f(start - rate * gradient) > value - rate * 0.25 * slope:
                rate *= 0.5
            return start - rate * gradient

        def f(x):
            return pb.sum(x * x * [1.0, 10.0]) + pb.sum(x) ** 4

        def searched(x, steps):
            for _ in range(steps):
                x = line_search_step(f, x)
            return f(x)

        start = pb.asarray([1.0, 0.7], dtype="float64")
        values = [float(searched(start, steps)) for steps in (0, 1, 5, 60)]
        assert values == sorted(values, reverse=True)
        assert values[-1] < 1e-9
        expected = differences(lambda x: searched(x, 3), start)
        np.testing.assert_allclose(pb.grad(searched)(start, 3), expected, rtol=1e-6)

    def test_further_derivatives_match_differences(self):
        w = pb.asarray(RNG.standard_normal((3, 2)))
        x = RNG.standard_normal(3)

        def vector(x):
            return pb.tanh(x @ w)

        def scalar(x):
            return pb.sum(vector(x) ** 2)

        jacobian = differences(vector, x)
        np.testing.assert_allclose(pb.jacobian(vector)(x), jacobian, atol=1e-8)
        np.testing.assert_allclose(
            pb.hessian(scalar)(x), differences(pb.grad(scalar), x), atol=1e-7
        )
        direction = RNG.standard_normal(3)
        _, tangent = pb.jvp(vector, [x], [direction])
        np.testing.assert_allclose(tangent, jacobian @ direction, atol=1e-8)
        _, pull = pb.vjp(vector, x)
        np.testing.assert_allclose(pull([1.0, -2.0])[0], [1.0, -2.0] @ jacobian, atol=1e-8)
        batch = pb.asarray(RNG.standard_normal((4, 3)))
        with pb.GradientTape() as tape:
            tape.watch(batch)
            y = vector(batch)
        found = tape.batch_jacobian(y, batch)
        for row, own in zip(found, batch, strict=True):
            np.testing.assert_allclose(row, differences(vector, own), atol=1e-8)

    def test_what_a_tape_is_told_not_to_hear(self):
        x = pb.Variable(3.0)
        with pb.GradientTape() as tape:
            y = x * pb.stop_gradient(x)
        assert float(tape.gradient(y, x)) == 3.0
        with pb.GradientTape() as tape:
            y = x * x
            with tape.stop_recording():
                z = y * x
            total = y + z
        assert float(tape.gradient(total, x)) == 6.0

    def test_unconnected_gradients(self):
        x, z = pb.Variable(1.0), pb.Variable(2.0)
        with pb.GradientTape() as tape:
            y = x * x
        assert tape.gradient(y, [x, z])[1] is None
        assert float(pb.grad(lambda a, b: a * a, 1)(1.0, 2.0)) == 0.0


class MyDense(pb.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.units = units

    def build(self, input_shape):
        self.kernel = self.add_variable("kernel", [input_shape[-1], self.units])

    def call(self, x):
        return pb.matmul(x, self.kernel)


class Line(pb.Model):
    def __init__(self):
        super().__init__()
        self.W = pb.Variable(5.0, name="weight")
        self.B = pb.Variable(10.0, name="bias")

    def call(self, inputs):
        return inputs * self.W + self.B


def points(count):
    inputs = floats(count)
    return inputs, inputs * 3 + 2 + floats(count)


def cnn_and_lstm():
    return pb.Sequential(
        [
            pb.layers.Reshape((28, 28, 1)),
            pb.layers.Conv2D(32, (5, 5), padding="same", activation="relu"),
            pb.layers.MaxPool2D((2, 2), (2, 2), padding="same"),
            pb.layers.Conv2D(64, (5, 5), padding="same", activation="relu"),
            pb.layers.MaxPool2D((2, 2), (2, 2), padding="same"),
            pb.layers.Reshape((49, 64)),
            lambda x: pb.permute_dims(x, (0, 2, 1)),
            pb.layers.LSTM(64),
            pb.layers.Dense(10),
        ]
    )


class TestLayersModelsTraining:
    def test_own_layer(self):
        layer = MyDense(10)
        assert layer(pb.zeros((10, 5))).shape == (10, 10)
        assert layer.kernel.shape == (5, 10)
        assert [variable.shape for variable in layer.trainable_variables] == [(5, 10)]

    def test_sequential(self):
        model = pb.Sequential([pb.layers.Dense(10, input_shape=(784,)), pb.layers.Dense(10)])
        assert len(model.variables) == 4
        assert model(pb.zeros((1, 1, 784))).shape == (1, 1, 10)

    def test_model_of_models_with_a_shared_layer(self):
        class Twice(pb.Model):
            def __init__(self):
                super().__init__()
                self.dense = pb.layers.Dense(4)

            def call(self, x):
                return self.dense(self.dense(x))

        class Outer(pb.Model):
            def __init__(self):
                super().__init__()
                self.inner = Twice()
                self.out = pb.layers.Dense(2)

            def call(self, x):
                return self.out(self.inner(x))

        model = Outer()
        assert model(pb.ones((3, 4))).shape == (3, 2)
        assert list(model.named_variables) == [
            "inner/dense/kernel", "inner/dense/bias", "out/kernel", "out/bias",
        ]  # fmt: skip

    def test_the_convolution_picture(self):
        x = pb.zeros((128, 32, 32, 3))
        x = pb.layers.Conv2D(64, 3, padding="same")(x)
        assert pb.layers.MaxPool2D(2, 2)(x).shape == (128, 16, 16, 64)

    def test_cnn_and_lstm_train(self, here):
        # The bodies of the ops take their time.
        count, steps, share = (32, 15, 0.8) if here is pb.default_device() else (8, 3, 1.0)
        digits = load_digits()
        # 8x8 grey values, three times as large, in the middle of 28x28.
        images = np.kron(digits.images[:count] / 16, np.ones((3, 3))).astype(np.float32)
        images = np.pad(images, ((0, 0), (2, 2), (2, 2)))
        labels = digits.target[:count].astype(np.int32)
        pb.random.seed(0)
        model, optimizer = cnn_and_lstm(), pb.optimizers.Adam(0.005)
        losses = [
            float(
                optimizer.minimize(
                    lambda: pb.losses.sparse_softmax_cross_entropy(labels, model(images))
                )
            )
            for _ in range(steps)
        ]
        assert losses[0] == pytest.approx(np.log(10), abs=0.3)
        assert losses[-1] < share * losses[0]

    def test_linear_fit_by_hand(self):
        inputs, targets = points(1000)
        w, b = pb.Variable(5.0), pb.Variable(10.0)

        def loss():
            return pb.mean((inputs * w + b - targets) ** 2)

        first = float(loss())
        for _ in range(200):
            with pb.GradientTape() as tape:
                value = loss()
            dw, db = tape.gradient(value, [w, b])
            w.assign_sub(dw * 0.01)
            b.assign_sub(db * 0.01)
        assert 60 < first < 80
        assert float(loss()) == pytest.approx(1, abs=0.3)
        assert f"{w:.1f}" in ("2.9", "3.0", "3.1", "3.2")
        assert f"{b:.1f}" in ("2.0", "2.1", "2.2", "2.3")

    def test_linear_fit_by_a_model(self):
        inputs, targets = points(2000)
        model, optimizer = Line(), pb.optimizers.SGD(learning_rate=0.01)

        def loss(model, inputs, targets):
            return pb.mean((model(inputs) - targets) ** 2)

        first = float(loss(model, inputs, targets))
        for _ in range(300):
            optimizer.apply_gradients(pb.implicit_gradients(loss)(model, inputs, targets))
        assert 60 < first < 80
        assert float(loss(model, inputs, targets)) == pytest.approx(1, abs=0.15)
        assert float(model.W) == pytest.approx(3, abs=0.1)
        assert float(model.B) == pytest.approx(2, abs=0.1)
        assert optimizer.step == 300

    @pytest.mark.parametrize("name", ["SGD", "Adam"])
    def test_minimize_is_gradients_and_apply(self, name):
        inputs, targets = points(50)

        def loss(model):
            return pb.losses.mean_squared_error(targets, model(inputs))

        one, other = Line(), Line()
        first, second = getattr(pb.optimizers, name)(0.1), getattr(pb.optimizers, name)(0.1)
        for _ in range(3):
            first.minimize(lambda: loss(one))
            with pb.GradientTape() as tape:
                value = loss(other)
            grads = tape.gradient(value, other.variables)
            second.apply_gradients(zip(grads, other.variables, strict=True))
        assert [v.tolist() for v in one.variables] == [v.tolist() for v in other.variables]
        assert first.step == second.step == 3

    def test_losses_are_stable(self):
        logits = pb.asarray([[1e4, -1e4, 0.0]])
        for label, value in ((0, 0.0), (1, 2e4), (2, 1e4)):
            onehot = np.eye(3, dtype=np.float32)[[label]]
            assert float(pb.losses.sparse_softmax_cross_entropy([label], logits)) == value
            assert float(pb.losses.softmax_cross_entropy(onehot, logits)) == value
            gradient = pb.grad(lambda z, y=onehot: pb.losses.softmax_cross_entropy(y, z))(logits)
            assert np.isfinite(gradient.numpy()).all()
        assert float(pb.losses.mean_squared_error([1.0, 2.0], [2.0, 4.0])) == 2.5

    def test_rows_of_an_embedding(self):
        layer = pb.layers.Embedding(10, 4)
        rows = layer([[1, 2], [2, 1]])
        assert rows.shape == (2, 2, 4)
        assert rows[0, 0].tolist() == rows[1, 1].tolist()

    def test_datasets(self):
        images, labels = floats(200, 4, 4), np.arange(200, dtype=np.int32)

        def make(seed):
            dataset = pb.data.Dataset.from_tensor_slices((images, labels))
            return dataset.shuffle(60000, seed=seed).repeat(4).batch(32)

        seen, steps = [], 0
        for step, (image, label) in enumerate(make(1)):
            assert image.shape == (32, 4, 4)
            assert image[0].tolist() == images[int(label[0])].tolist()
            seen += label.tolist()
            steps = step + 1
        assert steps == 25
        assert sorted(seen) == sorted([*range(200)] * 4)
        assert seen == [int(i) for _, label in make(1) for i in label]
        assert seen != [int(i) for _, label in make(2) for i in label]

    def test_dataset_stages(self):
        dataset = pb.data.Dataset.from_tensor_slices([1, 2, 3, 4, 5, 6])
        squares = dataset.map(lambda x: x * x).prefetch(2).batch(2).take(2)
        assert [batch.tolist() for batch in squares] == [[1, 4], [9, 16]]

    def test_iterator_has_next_as_well(self):
        iterator = iter(pb.data.Dataset.from_tensor_slices([1, 2, 3]))
        assert [int(iterator.next()), int(next(iterator)), int(iterator.next())] == [1, 2, 3]
        with pytest.raises(StopIteration):
            iterator.next()

    def test_position_in_a_dataset_is_saved(self, tmp_path):
        def make():
            return iter(pb.data.Dataset.range(10).shuffle(10, seed=3))

        one = make()
        for _ in range(4):
            next(one)
        path = pb.Checkpoint(data=one).save(tmp_path)
        other = make()
        pb.Checkpoint(data=other).restore(path)
        assert [int(x) for x in other] == [int(x) for x in one]

    def test_datasets_of_strings(self):
        dataset = pb.data.Dataset.from_tensor_slices(["cat", "dog"])
        assert [str(x) for x in dataset] == ["cat", "dog"]
        (batch,) = dataset.batch(2)
        assert batch.shape == (2,)
        assert list(batch) == ["cat", "dog"]

    def test_metrics(self):
        m = pb.metrics.Mean("loss")
        m(0)
        m(5)
        assert m.result() == 2.5
        m([8, 9])
        assert m.result() == 5.5
        accuracy = pb.metrics.SparseCategoricalAccuracy()
        accuracy([1, 0], [[0.0, 1.0], [0.0, 1.0]])
        assert accuracy.result() == 0.5

    def test_values_are_saved_and_restored(self, tmp_path):
        x = pb.Variable(10.0)
        checkpoint = pb.Checkpoint(x=x)
        x.assign(2.0)
        path = checkpoint.save(f"{tmp_path}/ckpt/")
        x.assign(11.0)
        checkpoint.restore(pb.latest_checkpoint(f"{tmp_path}/ckpt"))
        assert float(x) == 2.0
        newest = checkpoint.save(f"{tmp_path}/ckpt/")
        assert pb.latest_checkpoint(tmp_path / "ckpt") == newest
        shutil.rmtree(newest)
        assert pb.latest_checkpoint(tmp_path / "ckpt") == path

    def test_prefixes_of_checkpoints(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        checkpoint = pb.Checkpoint(x=pb.Variable(1.0))
        assert checkpoint.save("./ckpt/").endswith("ckpt/ckpt-1")
        assert checkpoint.save("./ckpt/").endswith("ckpt/ckpt-2")
        step = pb.Variable(100, trainable=False)
        path = checkpoint.save("checkpoints/checkpoint.ckpt", step=step)
        assert path == "checkpoints/checkpoint.ckpt-100"
        assert pb.latest_checkpoint("checkpoints") == path

    def test_resumed_training_gives_the_same_numbers(self, tmp_path):
        inputs, labels = floats(64, 6), RNG.integers(0, 3, 64).astype(np.int32)

        def make():
            layers = [pb.layers.Dense(8, "relu"), pb.layers.Dropout(0.3, seed=5)]
            model = pb.Sequential([*layers, pb.layers.Dense(3)])
            optimizer, step = pb.optimizers.Adam(0.01), pb.Variable(0, trainable=False)
            dataset = pb.data.Dataset.from_tensor_slices((inputs, labels)).shuffle(64, seed=2)
            return model, optimizer, step, iter(dataset.repeat().batch(16))

        def train(model, optimizer, step, data, steps):
            losses = []
            for _ in range(steps):
                x, y = next(data)
                losses.append(
                    float(
                        optimizer.minimize(
                            lambda x=x, y=y: pb.losses.sparse_softmax_cross_entropy(
                                y, model(x, training=True)
                            )
                        )
                    )
                )
                step.assign_add(1)
            return losses

        def checkpoint(model, optimizer, step, data):
            return pb.Checkpoint(model=model, optimizer=optimizer, step=step, data=data)

        straight = make()
        train(*straight, 5)
        path = checkpoint(*straight).save(tmp_path, step=straight[2])
        resumed = make()
        checkpoint(*resumed).restore(path)
        assert train(*resumed, 5) == train(*straight, 5)
        assert int(resumed[2]) == 10
        assert resumed[1].step == 10


class TestSmallPrint:
    def test_string_tensors(self):
        names = pb.StringTensor(["cat", "dog", "cow"])
        assert names.shape == (3,)
        assert names[1] == "dog"
        assert names[1:].tolist() == ["dog", "cow"]
        assert (names == "cat").tolist() == [True, False, False]
        assert [name.upper() for name in names] == ["CAT", "DOG", "COW"]
        assert str(names) == "['cat' 'dog' 'cow'] shape=(3,) dtype=str device=host"
        for arithmetic in (lambda x: x + 1, lambda x: 2 * x, lambda x: -x, pb.exp):
            with pytest.raises(TypeError):
                arithmetic(names)

    def test_layer_names_with_slashes(self, tmp_path):
        class Net(pb.Model):
            def __init__(self):
                super().__init__()
                self.conv = pb.layers.Conv2D(2, 3, name="conv1/conv", padding="same")
                self.parts = {"conv1/dense": pb.layers.Dense(2, name="conv1/dense")}

            def call(self, x):
                return self.parts["conv1/dense"](self.conv(x))

        model, other = Net(), Net()
        x = floats(1, 4, 4, 1)
        y = model(x)
        assert model.conv.name == "conv1/conv"
        assert list(model.named_variables)[2:] == [
            "parts/conv1~1dense/kernel", "parts/conv1~1dense/bias",
        ]  # fmt: skip
        pb.Checkpoint(model=other).restore(pb.Checkpoint(model=model).save(tmp_path))
        assert other(x).tolist() == y.tolist()

    @pytest.mark.parametrize("padding", ["same", "SAME", "Same"])
    def test_padding_in_any_case_of_letters(self, padding):
        x = pb.zeros((1, 7, 7, 3))
        assert pb.layers.Conv2D(2, 3, padding=padding)(x).shape == (1, 7, 7, 2)
        assert pb.layers.MaxPool2D(2, 2, padding=padding)(x).shape == (1, 4, 4, 3)
        assert pb.conv(x, pb.zeros((3, 3, 3, 2)), padding=padding).shape == (1, 7, 7, 2)
        assert pb.max_pool(x, window=(2, 2), padding=padding).shape == (1, 4, 4, 3)

    def test_conditions_with_mixed_int_and_float(self):
        three, more = pb.asarray(3), pb.asarray(3.5)
        assert three < more
        assert three == 3.0
        assert not more <= three
        assert bool(pb.asarray(2.0) == pb.asarray(2))

    def test_division_of_integers_gives_a_float(self):
        quotient = pb.asarray(7) / 2
        assert quotient.dtype == pb.float32
        assert float(quotient) == 3.5
