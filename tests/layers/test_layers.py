"""Layers: what they compute, where their variables are, and what their errors say."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.layers import initializers

L = pb.layers
RNG = np.random.default_rng(3)


def images(*shape):
    return RNG.normal(size=shape).astype(np.float32)


class TestBuilding:
    def test_sizes_come_from_the_first_input(self):
        class Scale(L.Layer):
            def build(self, input_shape):
                assert input_shape == (2, 3)
                self.factor = self.add_variable("factor", input_shape[-1:], initializer="ones")

            def call(self, x):
                return x * self.factor

        layer = Scale()
        assert layer.variables == []
        assert not layer.built
        assert layer(np.ones((2, 3))).tolist() == [[1, 1, 1], [1, 1, 1]]
        assert layer.built
        assert list(layer.named_variables) == ["factor"]
        assert layer.variables[0].name == "factor"

    def test_no_super_init_needed(self):
        class Plain(L.Layer):
            def __init__(self):
                self.units = 2

            def build(self, input_shape):
                self.add_variable("kernel", [input_shape[-1], self.units])

            def call(self, x):
                return x @ self.kernel

        layer = Plain()
        assert layer(pb.ones((1, 3))).shape == (1, 2)
        assert (layer.name, layer.trainable, layer.dtype) == ("plain", True, pb.float32)

    def test_variables_under_other_names(self):
        class Odd(L.Layer):
            def build(self, input_shape):
                self.w = self.add_variable("a/b", ())
                self.add_variable("losses", ())
                self.again = self.add_variable("c", ())

        layer = Odd()
        layer.build(())
        assert sorted(layer.named_variables) == ["_variables/a~1b", "_variables/losses", "c"]
        assert layer.losses == []
        with pytest.raises(pb.errors.LayerError, match="already has a variable 'c'"):
            layer.add_variable("c", ())
        with pytest.raises(pb.errors.LayerError, match="already has a variable 'a/b'"):
            layer.add_variable("a/b", ())

    def test_variables_made_by_hand(self):
        class ByHand(L.Layer):
            def __init__(self):
                super().__init__()
                self.w = pb.Variable(2.0)
                self.more = {"x": [pb.Variable(1.0, trainable=False)]}

            def call(self, x):
                return x * self.w

        layer = ByHand()
        assert list(layer.named_variables) == ["w", "more/x/0"]
        assert [v is layer.w for v in layer.trainable_variables] == [True]
        # No variable by add_variable, so nothing is cast.
        assert layer(np.ones(1)).dtype == pb.float64

    def test_sizes_given(self):
        assert L.Dense(10, input_shape=(784,)).kernel.shape == (784, 10)
        assert L.Conv2D(4, 3, input_shape=(8, 8, 2)).kernel.shape == (3, 3, 2, 4)
        assert L.LayerNormalization(input_shape=(5,)).gamma.shape == (5,)
        assert L.BatchNormalization(input_shape=(4, 5)).moving_mean.shape == (5,)

    def test_names(self):
        assert L.Dense(1).name == "dense"
        assert L.MaxPool2D().name == "max_pool2d"
        assert L.Dense(1, name="conv1/pool").name == "conv1/pool"

    def test_building_is_not_heard(self):
        layer = L.Dense(2)
        with pb.GradientTape() as tape:
            y = layer(pb.ones((1, 3))).sum()
        assert tape.gradient(y, layer.kernel).tolist() == [[1.0, 1.0]] * 3


class TestInputs:
    def test_host_data(self):
        layer = L.Dense(2)
        for x in ([[1.0, 2.0]], np.ones((1, 2)), pb.ones((1, 2)), pb.Variable([[1.0, 2.0]])):
            assert layer(x).shape == (1, 2)

    def test_floating_inputs_are_cast_to_the_layers_dtype(self):
        assert L.Dense(2)(np.ones((1, 3))).dtype == pb.float32
        assert L.Dense(2, dtype="float64")(np.ones((1, 3), np.float32)).dtype == pb.float64
        assert L.Dense(2, dtype=pb.bfloat16)(np.ones((1, 3))).dtype == pb.bfloat16
        assert L.Flatten()(np.ones((1, 3))).dtype == pb.float64
        assert L.Flatten()(np.ones((1, 3), int)).dtype == pb.int64

    def test_several_inputs(self):
        class Add(L.Layer):
            def build(self, input_shape):
                assert input_shape == [(2,), (2,)]
                self.w = self.add_variable("w", (), initializer="ones")

            def call(self, pair, scale, flag=None):
                assert flag == (1, 2)
                return (pair[0] + pair[1]) * scale * self.w

        result = Add()([np.ones(2), pb.ones(2)], np.asarray(3.0), flag=(1, 2))
        assert (result.tolist(), result.dtype) == ([6.0, 6.0], pb.float32)

    def test_cast_carries_gradients(self):
        layer = L.Dense(1, kernel_initializer="ones")
        assert pb.grad(lambda x: layer(x))(np.ones((1, 2))).tolist() == [[1.0, 1.0]]


class TestDense:
    def test_values(self):
        layer = L.Dense(3, activation="relu", bias_initializer=0.5)
        x = images(4, 2, 5)
        got = layer(x).numpy()
        expected = np.maximum(np.einsum("abi,io->abo", x, layer.kernel.numpy()) + 0.5, 0)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)

    def test_without_bias(self):
        layer = L.Dense(3, use_bias=False)
        layer(images(1, 2))
        assert list(layer.named_variables) == ["kernel"]

    def test_activations(self):
        x = pb.asarray([[-1.0, 1.0]])
        assert L.Activation("relu")(x).tolist() == [[0.0, 1.0]]
        assert L.Activation(None)(x) is x
        assert L.Activation(lambda x: x * 2.0)(x).tolist() == [[-2.0, 2.0]]
        assert L.Activation("softmax")(x).sum().item() == pytest.approx(1.0)
        with pytest.raises(pb.errors.InputValueError, match="unknown activation 'rleu'"):
            L.Dense(1, activation="rleu")


def conv_by_loops(x, kernel, stride):
    out = (x.shape[1] - kernel.shape[0]) // stride + 1, (x.shape[2] - kernel.shape[1]) // stride + 1
    y = np.zeros((x.shape[0], *out, kernel.shape[-1]))
    for i in range(out[0]):
        for j in range(out[1]):
            window = x[:, i * stride :, j * stride :][:, : kernel.shape[0], : kernel.shape[1]]
            y[:, i, j] = np.einsum("bhwc,hwco->bo", window, kernel)
    return y


class TestImages:
    def test_guides_picture(self):
        x = pb.zeros((128, 32, 32, 3))
        y = L.MaxPool2D(2, 2)(L.Conv2D(64, 3, padding="same")(x))
        assert y.shape == (128, 16, 16, 64)

    @pytest.mark.parametrize("stride", [1, 2])
    def test_conv_values(self, stride):
        layer = L.Conv2D(3, (2, 3), stride, bias_initializer=0.25, dtype="float64")
        x = RNG.normal(size=(2, 6, 7, 4))
        got = layer(x).numpy()
        expected = conv_by_loops(x, layer.kernel.numpy(), stride) + 0.25
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)

    def test_channels_first_is_the_same(self):
        last, first = (
            L.Conv2D(3, 3, padding="SAME"),
            L.Conv2D(3, 3, padding="same", data_format="channels_first"),
        )
        x = images(2, 5, 6, 4)
        expected = last(x).numpy()
        first(np.moveaxis(x, -1, 1))
        first.kernel.assign(last.kernel)
        first.bias.assign([1.0, 2.0, 3.0])
        got = np.moveaxis(first(np.moveaxis(x, -1, 1)).numpy(), 1, -1)
        np.testing.assert_allclose(got, expected + np.arange(1, 4), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize(
        ("layer", "shape", "expected"),
        [
            (lambda: L.Conv1D(8, 3, padding="causal"), (2, 10, 4), (2, 10, 8)),
            (lambda: L.Conv1D(8, 3, dilation=2), (2, 10, 4), (2, 6, 8)),
            (lambda: L.Conv2D(8, 3, strides=(2, 1), groups=2), (2, 9, 9, 4), (2, 4, 7, 8)),
            (lambda: L.Conv3D(8, 2), (1, 4, 4, 4, 2), (1, 3, 3, 3, 8)),
            (lambda: L.MaxPool1D(3, 1, "same"), (1, 5, 2), (1, 5, 2)),
            (lambda: L.AveragePool2D((1, 2)), (1, 4, 4, 2), (1, 4, 2, 2)),
            (lambda: L.MaxPool3D(2), (1, 4, 4, 4, 2), (1, 2, 2, 2, 2)),
            (lambda: L.GlobalAveragePool1D(), (3, 5, 2), (3, 2)),
            (lambda: L.GlobalMaxPool2D(data_format="channels_first"), (3, 2, 5, 6), (3, 2)),
            (lambda: L.GlobalAveragePool3D(), (3, 5, 6, 7, 2), (3, 2)),
        ],
    )
    def test_shapes(self, layer, shape, expected):
        assert layer()(images(*shape)).shape == expected

    def test_pool_values(self):
        x = images(2, 4, 6, 3)
        blocks = x.reshape(2, 2, 2, 3, 2, 3)
        np.testing.assert_array_equal(L.MaxPool2D()(x).numpy(), blocks.max((2, 4)))
        np.testing.assert_allclose(L.AveragePool2D()(x).numpy(), blocks.mean((2, 4)), rtol=1e-5)
        mean = L.GlobalAveragePool2D()(x).numpy()
        np.testing.assert_allclose(mean, x.mean((1, 2)), rtol=1e-5, atol=1e-6)

    def test_errors(self):
        with pytest.raises(pb.errors.InputValueError, match="channels_middle"):
            L.Conv2D(1, 1, data_format="channels_middle")
        with pytest.raises(pb.errors.InputValueError, match="1 or 2 sizes"):
            L.Conv2D(1, (1, 2, 3))
        with pytest.raises(
            pb.errors.LayerError, match=r"4 axes \(batch, height, width, channels\)"
        ):
            L.Conv2D(1, 1)(images(4, 4, 4))
        with pytest.raises(pb.errors.LayerError, match="got 3 groups, 4 channels"):
            L.Conv2D(6, 1, groups=3)(images(1, 4, 4, 4))


class TestShapes:
    def test_flatten(self):
        assert L.Flatten()(images(2, 3, 4)).shape == (2, 12)
        assert L.Flatten()(images(0, 3, 4)).shape == (0, 12)
        assert L.Flatten()(images(5)).shape == (5, 1)

    def test_reshape(self):
        assert L.Reshape((4, 3))(images(2, 12)).shape == (2, 4, 3)
        assert L.Reshape((-1, 3))(images(0, 12)).shape == (0, 4, 3)
        with pytest.raises(pb.errors.LayerError, match=r"shape \(12,\) to \(5, 2\)"):
            L.Reshape((5, 2))(images(2, 12))
        with pytest.raises(pb.errors.LayerError):
            L.Reshape((-1, 5))(images(2, 12))


class TestDropout:
    def test_identity_in_inference(self):
        x = pb.ones((3, 3))
        assert L.Dropout(0.5)(x) is x
        assert L.Dropout(0.0)(x, training=True) is x

    def test_share_and_scale(self):
        y = L.Dropout(0.25, seed=1)(pb.ones((200, 200)), training=True).numpy()
        assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)}
        assert (y == 0).mean() == pytest.approx(0.25, abs=0.01)

    def test_generators(self):
        x = pb.ones((50,))
        a, b = L.Dropout(0.5, seed=1), L.Dropout(0.5, seed=1)
        first, second = a(x, training=True).tolist(), a(x, training=True).tolist()
        assert first != second
        assert b(x, training=True).tolist() == first
        pb.random.seed(4)
        default = L.Dropout(0.5)(x, training=True).tolist()
        pb.random.seed(4)
        assert L.Dropout(0.5)(x, training=True).tolist() == default
        generator = pb.Generator(1)
        assert L.Dropout(0.5, generator=generator)(x, training=True).tolist() == first

    def test_gradient_goes_where_values_went(self):
        layer = L.Dropout(0.5, seed=1)
        kept = layer(pb.ones((50,)), training=True).tolist()
        layer = L.Dropout(0.5, seed=1)
        assert pb.grad(lambda x: layer(x, training=True))(pb.ones((50,))).tolist() == kept

    def test_bad_rate(self):
        with pytest.raises(pb.errors.InputValueError, match=r"\[0, 1\)"):
            L.Dropout(1.0)


class TestEmbedding:
    def test_rows(self):
        layer = L.Embedding(5, 3)
        ids = np.asarray([[0, 4], [2, 2]])
        np.testing.assert_array_equal(layer(ids).numpy(), layer.embeddings.numpy()[ids])
        with pb.GradientTape() as tape:
            y = layer(ids).sum()
        assert tape.gradient(y, layer.embeddings)[:, 0].tolist() == [1.0, 0.0, 2.0, 0.0, 1.0]

    def test_errors(self):
        with pytest.raises(pb.errors.IndexingError, match=r"\(Embedding\): take.*out(side| of)"):
            L.Embedding(5, 3)([5])
        with pytest.raises(pb.errors.LayerError, match=r"must be integers.*float32"):
            L.Embedding(5, 3)([1.5])


class TestNormalization:
    def test_layer_normalization(self):
        x = RNG.normal(3.0, 2.0, size=(4, 5, 6))
        layer = L.LayerNormalization((1, 2), epsilon=1e-3, dtype="float64")
        mean, variance = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
        expected = (x - mean) / np.sqrt(variance + 1e-3)
        np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-10, atol=1e-12)
        assert layer.gamma.shape == (5, 6)
        layer.gamma.assign(np.full((5, 6), 2.0))
        layer.beta.assign(np.full((5, 6), 1.0))
        np.testing.assert_allclose(layer(x).numpy(), 2 * expected + 1, rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("axis", [-1, 1])
    def test_batch_normalization(self, axis):
        x = RNG.normal(3.0, 2.0, size=(8, 5, 5))
        others = (0, 1) if axis == -1 else (0, 2)
        mean, variance = x.mean(others, keepdims=True), x.var(others, keepdims=True)
        layer = L.BatchNormalization(axis, momentum=0.9, dtype="float64")
        got = layer(x, training=True).numpy()
        np.testing.assert_allclose(
            got, (x - mean) / np.sqrt(variance + 1e-3), rtol=1e-10, atol=1e-12
        )
        moving_mean = 0.1 * mean.reshape(-1)
        moving_variance = 0.9 + 0.1 * variance.reshape(-1) * 40 / 39
        np.testing.assert_allclose(layer.moving_mean.numpy(), moving_mean, rtol=1e-12)
        np.testing.assert_allclose(layer.moving_variance.numpy(), moving_variance, rtol=1e-12)
        shape = [1, 1, 1]
        shape[axis] = 5
        expected = (x - moving_mean.reshape(shape)) / np.sqrt(moving_variance.reshape(shape) + 1e-3)
        np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-10)
        assert len(layer.variables) == 4
        assert len(layer.trainable_variables) == 2

    def test_frozen_batch_normalization_does_not_move(self):
        layer = L.BatchNormalization()
        x = images(8, 3)
        layer(x)
        layer.trainable = False
        before = layer.moving_mean.tolist()
        np.testing.assert_array_equal(layer(x, training=True).numpy(), layer(x).numpy())
        assert layer.moving_mean.tolist() == before
        layer.trainable = True
        assert len(layer.trainable_variables) == 2

    def test_batch_of_one(self):
        with pytest.raises(pb.errors.LayerError, match="at least two values"):
            L.BatchNormalization()(images(1, 3), training=True)

    def test_narrow_values(self):
        x = np.full((64, 3), 300.0, np.float32) + images(64, 3)
        layer = L.BatchNormalization(dtype=pb.bfloat16)
        y = layer(x, training=True)
        assert y.dtype == pb.bfloat16
        assert layer.moving_mean.dtype == pb.float32
        assert np.isfinite(y.numpy().astype(np.float32)).all()


class TestModels:
    def test_guides_example(self):
        model = pb.Sequential([L.Dense(10, input_shape=(784,)), L.Dense(10)])
        assert len(model.variables) == 4
        assert model(pb.zeros((1, 1, 784))).shape == (1, 1, 10)

    def test_paths(self):
        class Nested(pb.Model):
            def __init__(self):
                super().__init__()
                self.body = pb.Sequential([L.Dense(2), pb.relu])
                self.heads = {"conv1/pool": L.Dense(1)}

            def call(self, x):
                return self.heads["conv1/pool"](self.body(x))

        model = Nested()
        model(images(1, 3))
        assert list(model.named_variables) == [
            "body/layers/0/kernel",
            "body/layers/0/bias",
            "heads/conv1~1pool/kernel",
            "heads/conv1~1pool/bias",
        ]
        assert list(model.sublayers) == ["body", "body/layers/0", "heads/conv1~1pool"]
        assert model.parameter_count == 3 * 2 + 2 + 2 + 1

    def test_shared_layers(self):
        shared = L.Dense(3)
        model = pb.Sequential([shared, shared])
        with pb.GradientTape() as tape:
            y = model(images(2, 3)).sum()
        assert len(model.variables) == 2
        gradients = tape.gradient(y, model.trainable_variables)
        assert [g.shape for g in gradients] == [(3, 3), (3,)]

    def test_training_reaches_every_layer(self):
        class Probe(L.Layer):
            seen = None

            def call(self, x, training=False):
                self.seen = training
                return x

        class Outer(pb.Model):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def call(self, x):
                return self.inner(x)

        probe, frozen = Probe(), Probe()

        class Mixed(pb.Model):
            def call(self, x, training=None):
                return frozen(probe(x), training=False)

        x = pb.ones((1, 1))
        model = Outer(pb.Sequential([Mixed()]))
        model(x, training=True)
        assert (probe.seen, frozen.seen) == (True, False)
        model(x)
        assert (probe.seen, frozen.seen) == (False, False)
        model(x, training=True)
        assert probe.seen is True
        probe(x)
        assert probe.seen is False

    def test_training_flag_is_back_after_an_error(self):
        class Fails(L.Layer):
            def call(self, x):
                raise RuntimeError("no")

        with pytest.raises(RuntimeError):
            pb.Sequential([Fails()])(pb.ones(1), training=True)
        x = pb.ones((4,))
        assert L.Dropout(0.5)(x) is x

    def test_freezing(self):
        model = pb.Sequential([L.Dense(2), L.Dense(1)])
        model.layers[0].trainable = False
        x = images(2, 3)
        pairs = pb.implicit_gradients(lambda: model(x))()
        assert [v is w for (_, v), w in zip(pairs, model.layers[1].variables, strict=True)] == [
            True,
            True,
        ]
        assert len(model.trainable_variables) == 2
        model.trainable = False
        assert model.trainable_variables == []
        model.trainable = True
        assert len(model.trainable_variables) == 4

    def test_losses(self):
        class Penalised(L.Layer):
            def call(self, x):
                self.add_loss(x.sum())
                return x

        layer = Penalised()
        dense = L.Dense(1, kernel_initializer="ones", kernel_regularizer=lambda w: (w * w).sum())
        model = pb.Sequential([layer, layer, dense])
        x = pb.ones((2, 3))
        for _ in range(2):
            model(x)
            assert [loss.item() for loss in model.losses] == [6.0, 6.0, 3.0]

    def test_losses_carry_gradients(self):
        dense = L.Dense(1, kernel_initializer="ones", kernel_regularizer=lambda w: (w * w).sum())
        model = pb.Sequential([dense])
        model(pb.ones((1, 2)))
        with pb.GradientTape() as tape:
            total = model.losses[0] + model(pb.ones((1, 2))).sum()
        assert tape.gradient(total, dense.kernel).tolist() == [[3.0], [3.0]]

    def test_summary(self):
        lines = []
        model = pb.Sequential([L.Dense(10, input_shape=(784,)), L.BatchNormalization(), L.Dense(5)])
        model.summary(lines.append, variables=True)
        text = "\n".join(lines)
        assert "layers/0" in text
        assert "kernel [784, 10], bias [10]" in text
        assert lines[-1] == "7,945 parameters, 7,925 of them trained"
        lines.clear()
        pb.Sequential([L.Dense(1)]).summary(lines.append)
        assert lines[2].split() == ["layers/0", "Dense", "?", "?"]

    def test_sequential_takes_what_can_be_called(self):
        model = pb.Sequential()
        model.add(L.Dense(2, input_shape=(3,)))
        model.add(pb.relu)
        assert model(images(1, 3)).shape == (1, 2)
        with pytest.raises(pb.errors.InputTypeError, match=r"call it"):
            pb.Sequential([L.Dense])
        with pytest.raises(pb.errors.InputTypeError, match="got 3"):
            pb.Sequential([3])

    def test_first_layer_may_be_an_embedding(self):
        model = pb.Sequential([L.Embedding(10, 4, input_shape=(7,)), L.Flatten(), L.Dense(2)])
        assert model.layers[2].kernel.shape == (28, 2)


class TestErrors:
    def test_name_the_path_and_the_shapes(self):
        model = pb.Sequential([L.Flatten(), pb.Sequential([L.Dense(3), L.Dense(2, name="last")])])
        model(images(2, 4))
        with pytest.raises(pb.errors.LayerError) as caught:
            model(images(2, 5))
        assert str(caught.value) == (
            "layers/1/layers/0 (Dense): built for inputs with 4 values along the last axis, "
            "got shape (2, 5)"
        )

    def test_ops_errors_name_the_layer_too(self):
        class Wrong(L.Layer):
            def call(self, x):
                return x @ pb.ones((7, 7))

        class Unknown(L.Layer):
            def call(self, x):
                return pb.asarray([True]) - pb.asarray([True])

        model = pb.Sequential([Wrong()])
        with pytest.raises(
            pb.errors.LayerError, match=r"layers/0 \(Wrong\): matmul.*float32 \(2, 5\)"
        ):
            model(images(2, 5))
        with pytest.raises(pb.errors.DTypeError, match=r"layers/0 \(Unknown\): subtract"):
            pb.Sequential([Unknown()])(images(1))

    def test_layer_without_call(self):
        with pytest.raises(NotImplementedError, match=r"Layer has no call method; write `def call"):
            L.Layer()(pb.ones(1))

    @pytest.mark.parametrize(
        "make",
        [
            L.Dense,
            L.LSTM,
            lambda n: L.Conv2D(n, 3),
            lambda n: L.Conv2D(4, 3, groups=n),
            lambda n: L.MultiHeadAttention(n, 4),
            lambda n: L.MultiHeadAttention(4, n),
        ],
    )
    def test_sizes_are_counts(self, make):
        for wrong in (2.5, 2.0, "2", None):
            with pytest.raises(pb.errors.InputTypeError, match="an integer is expected"):
                make(wrong)
        for wrong in (0, -3):
            with pytest.raises(pb.errors.InputValueError, match="1 or more is expected"):
                make(wrong)
        make(np.int64(2))

    def test_activations_are_names_or_functions(self):
        for wrong in (4, pb.ones(1), ["relu"]):
            with pytest.raises(pb.errors.InputTypeError, match="takes it from the first one"):
                L.Dense(3, wrong)

    def test_own_layer_errors_are_left_alone(self):
        class Fails(L.Layer):
            def call(self, x):
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            pb.Sequential([Fails()])(pb.ones(1))


class TestInitializers:
    @pytest.mark.parametrize(
        ("name", "deviation"),
        [
            ("glorot_uniform", np.sqrt(2 / (1800 + 9 * 177))),
            ("glorot_normal", np.sqrt(2 / (1800 + 9 * 177))),
            ("he_uniform", np.sqrt(2 / 1800)),
            ("he_normal", np.sqrt(2 / 1800)),
            ("lecun_uniform", np.sqrt(1 / 1800)),
            ("lecun_normal", np.sqrt(1 / 1800)),
            ("uniform", 0.1 / np.sqrt(12)),
            ("normal", 0.05),
            ("truncated_normal", 0.05 * 0.87962566),
        ],
    )
    def test_moments(self, name, deviation):
        pb.random.seed(1)
        drawn = initializers.get(name)((3, 3, 200, 177), pb.float64).numpy()
        assert drawn.dtype == np.float64
        assert abs(drawn.mean()) < deviation * 0.01
        assert drawn.std() == pytest.approx(deviation, rel=0.01)
        if "uniform" in name:
            assert abs(drawn).max() <= deviation * np.sqrt(3)
        if name == "truncated_normal":
            assert abs(drawn).max() <= 0.1

    def test_seeded(self):
        pb.random.seed(5)
        a = initializers.get("glorot_uniform")((3, 4), pb.float32).tolist()
        b = initializers.get("glorot_uniform")((3, 4), pb.float32).tolist()
        pb.random.seed(5)
        assert initializers.get("glorot_uniform")((3, 4), pb.float32).tolist() == a
        assert a != b

        def own():
            return initializers.he_normal(generator=pb.Generator(3))((3, 4), pb.float32).tolist()

        assert own() == own()

    def test_narrow_dtypes_are_rounded(self):
        wide = initializers.normal(generator=pb.Generator(3))((50,), pb.float32)
        narrow = initializers.normal(generator=pb.Generator(3))((50,), pb.bfloat16)
        assert narrow.dtype == pb.bfloat16
        assert narrow.tolist() == wide.astype("bfloat16").tolist()

    def test_constants(self):
        assert initializers.get("zeros")((2,), pb.float32).tolist() == [0.0, 0.0]
        assert initializers.get("ones")((2,), pb.int32).tolist() == [1, 1]
        assert initializers.get(0.5)((2,), pb.float32).tolist() == [0.5, 0.5]
        assert initializers.get(lambda shape, dtype: pb.full(shape, 3, dtype=dtype))(
            (1,), pb.float32
        ).tolist() == [3.0]

    def test_orthogonal(self):
        for shape in ((6, 4), (4, 6), (3, 3, 2, 5)):
            whole = initializers.orthogonal(2.0)(shape, pb.float64).numpy()
            assert whole.flags.c_contiguous  # products have the same bits once it was restored
            drawn = whole.reshape(-1, shape[-1])
            rows, columns = drawn.shape
            product = drawn.T @ drawn if rows >= columns else drawn @ drawn.T
            np.testing.assert_allclose(product, 4 * np.eye(min(rows, columns)), atol=1e-12)
        with pytest.raises(pb.errors.ShapeError, match="two axes"):
            initializers.orthogonal()((3,), pb.float32)

    def test_unknown(self):
        with pytest.raises(
            pb.errors.InputValueError, match=r"unknown initializer 'glorot'.*he_normal"
        ):
            initializers.get("glorot")


def test_a_window_that_does_not_fit_is_an_error():
    # Channels first where last are expected is the usual cause.
    with pytest.raises(pb.errors.LayerError, match="data_format"):
        pb.layers.Conv2D(3, 3)(pb.zeros((8, 1, 28, 28)))
    with pytest.raises(pb.errors.LayerError, match="does not fit"):
        pb.layers.MaxPool2D(4)(pb.zeros((1, 2, 2, 1)))
    assert pb.layers.Conv2D(3, 3)(pb.zeros((0, 8, 8, 1))).shape == (0, 6, 6, 3)
