"""The kinds of layers beyond those of `test_layers.py`: what each computes, and its errors."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

L = pb.layers
RNG = np.random.default_rng(4)


def images(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def other_way(layer_class, x, *args, **how):
    """The same layer on channels-first images, with the same weights."""
    last = layer_class(*args, **how)
    first = layer_class(*args, data_format="channels_first", **how)
    expected = last(x).numpy()
    moved = np.moveaxis(x, -1, 1)
    first(moved)
    for to, of in zip(first.variables, last.variables, strict=True):
        to.assign(of)
    return np.moveaxis(first(moved).numpy(), 1, -1), expected


class TestChannelsFirst:
    @pytest.mark.parametrize(
        ("name", "args"),
        [
            ("Conv1DTranspose", (4, 3, 2)),
            ("DepthwiseConv1D", (3,)),
            ("SeparableConv1D", (4, 3)),
            ("UpSampling1D", (2,)),
            ("ZeroPadding1D", ((1, 2),)),
            ("Cropping1D", ((1, 2),)),
            ("MaxPool1D", (2,)),
            ("AdaptiveAveragePool1D", (3,)),
        ],
    )
    def test_one_dimension(self, name, args):
        got, expected = other_way(getattr(L, name), images(2, 7, 3), *args)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize(
        ("name", "args"),
        [
            ("Conv2DTranspose", (4, (3, 2), 2, "same")),
            ("DepthwiseConv2D", (3, 2, "same")),
            ("SeparableConv2D", (4, 3)),
            ("UpSampling2D", ((2, 3), "bilinear")),
            ("ZeroPadding2D", (((0, 1), 2),)),
            ("Cropping2D", (((0, 1), 2),)),
            ("AdaptiveMaxPool2D", ((3, 2),)),
        ],
    )
    def test_two_dimensions(self, name, args):
        got, expected = other_way(getattr(L, name), images(2, 7, 6, 3), *args)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


class TestConvolutions:
    def test_transposed_is_the_gradient_of_the_convolution(self):
        x, y = images(1, 8, 8, 2), images(1, 4, 4, 5)
        conv = L.Conv2D(5, 3, 2, "same", use_bias=False)
        gradient = pb.vjp(conv, x)[1](y)
        back = L.Conv2DTranspose(2, 3, 2, "same", use_bias=False)
        back(y)
        back.kernel.assign(conv.kernel)
        gradient = gradient[0] if isinstance(gradient, (tuple, list)) else gradient
        np.testing.assert_allclose(back(y).numpy(), gradient.numpy(), rtol=1e-5, atol=1e-6)

    def test_depthwise_is_a_convolution_of_each_channel(self):
        x = images(2, 6, 6, 3)
        layer = L.DepthwiseConv2D(3, depth_multiplier=2)
        y = layer(x).numpy()
        assert layer.kernel.shape == (3, 3, 1, 6)
        for channel in range(3):
            kernel = layer.kernel.numpy()[..., 2 * channel : 2 * channel + 2]
            alone = pb.conv(x[..., channel : channel + 1], kernel).numpy()
            np.testing.assert_allclose(
                y[..., 2 * channel : 2 * channel + 2], alone, rtol=1e-4, atol=1e-5
            )

    def test_separable_has_one_bias_and_one_activation(self):
        layer = L.SeparableConv1D(4, 3, activation="relu", bias_initializer=-100.0)
        assert layer(images(2, 6, 3)).numpy().max() == 0
        assert [v.shape for v in layer.variables] == [(3, 1, 3), (1, 3, 4), (4,)]

    def test_sizes_given(self):
        assert L.SeparableConv2D(4, 3, input_shape=(8, 8, 2)).depthwise.kernel.shape == (3, 3, 1, 2)
        assert L.DepthwiseConv1D(3, input_shape=(8, 2)).kernel.shape == (3, 1, 2)
        assert L.Conv1DTranspose(4, 3, input_shape=(8, 2)).kernel.shape == (3, 4, 2)

    def test_errors(self):
        layer = L.Conv1DTranspose(4, 3)
        layer(images(2, 6, 3))
        with pytest.raises(pb.errors.LayerError, match=r"with 3 channels, .*\(2, 6, 4\)"):
            layer(images(2, 6, 4))
        with pytest.raises(pb.errors.LayerError, match="got 2 groups, 4 channels and 3 filters"):
            L.Conv1D(3, 1, groups=2)(images(2, 6, 4))
        with pytest.raises(pb.errors.InputValueError, match="has no effect with padding="):
            L.Conv2DTranspose(4, 3, padding="SAME", output_padding=1)
        with pytest.raises(pb.errors.LayerError, match=r"conv2d \(SeparableConv2D\): inputs must"):
            L.SeparableConv2D(4, 3)(images(2, 6, 3))


class TestPooling:
    def test_adaptive(self):
        x = images(2, 6, 9, 3)
        blocks = x.reshape(2, 2, 3, 3, 3, 3)
        mean, largest = L.AdaptiveAveragePool2D((2, 3)), L.AdaptiveMaxPool2D((2, 3))
        np.testing.assert_allclose(mean(x).numpy(), blocks.mean((2, 4)), rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(largest(x).numpy(), blocks.max((2, 4)))

    def test_global_may_keep_its_axes(self):
        x = images(2, 6, 5, 3)
        assert L.GlobalMaxPool2D(keepdims=True)(x).shape == (2, 1, 1, 3)


class TestShapes:
    def test_permute(self):
        x = images(2, 3, 4, 5)
        np.testing.assert_array_equal(L.Permute((3, 1, 2))(x).numpy(), x.transpose(0, 3, 1, 2))
        with pytest.raises(pb.errors.InputValueError, match="each once"):
            L.Permute((0, 1))
        with pytest.raises(pb.errors.LayerError, match=r"must have 3 axes.*\(2, 3, 4, 5\)"):
            L.Permute((2, 1))(x)

    def test_repeat_vector(self):
        x = images(2, 3)
        np.testing.assert_array_equal(
            L.RepeatVector(4)(x).numpy(), np.repeat(x[:, None], 4, axis=1)
        )

    def test_up_sampling_repeats_pixels(self):
        x = images(2, 3, 4, 5)
        expected = x.repeat(2, axis=1).repeat(3, axis=2)
        np.testing.assert_array_equal(L.UpSampling2D((2, 3))(x).numpy(), expected)

    @pytest.mark.parametrize(
        ("given", "widths"),
        [(1, (1, 1, 1, 1)), ((1, 2), (1, 1, 2, 2)), (((1, 2), (3, 0)), (1, 2, 3, 0))],
    )
    def test_padding_and_cropping(self, given, widths):
        x = images(2, 5, 6, 3)
        top, bottom, left, right = widths
        padded = L.ZeroPadding2D(given)(x).numpy()
        expected = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
        np.testing.assert_array_equal(padded, expected)
        np.testing.assert_array_equal(L.Cropping2D(given)(padded).numpy(), x)

    def test_sides_that_make_no_sense(self):
        for wrong in (-1, (1, 2, 3), ((1, 2, 3), 1), ((-1, 0), 1)):
            with pytest.raises(pb.errors.InputValueError, match="for each of 2 dimensions"):
                L.ZeroPadding2D(wrong)
        with pytest.raises(
            pb.errors.LayerError, match=r"margins of 3 and 3.*axis 1 of shape \(1, 5, 2\)"
        ):
            L.Cropping1D(3)(images(1, 5, 2))


class TestMerging:
    def test_values(self):
        x, y, z = (images(2, 3) for _ in range(3))
        for name, expected in {
            "Add": x + y + z,
            "Subtract": x - y - z,
            "Multiply": x * y * z,
            "Average": (x + y + z) / 3,
            "Maximum": np.maximum(np.maximum(x, y), z),
            "Minimum": np.minimum(np.minimum(x, y), z),
            "Concatenate": np.concatenate([x, y, z], -1),
        }.items():
            np.testing.assert_allclose(getattr(L, name)()([x, y, z]).numpy(), expected, rtol=1e-6)
        assert L.Concatenate(0)([x, y]).shape == (4, 3)

    def test_errors(self):
        with pytest.raises(pb.errors.LayerError, match=r"layers/0 \(Add\): inputs must be a list"):
            pb.Sequential([L.Add()])(images(2, 3))
        with pytest.raises(pb.errors.LayerError, match=r"add \(Add\).*\(2, 3\).*\(2, 4\)"):
            L.Add()([images(2, 3), images(2, 4)])


class TestNoise:
    @pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
    def test_spatial_dropout_drops_whole_channels(self, data_format):
        layer = L.SpatialDropout2D(0.5, seed=1, data_format=data_format)
        x = pb.ones((8, 3, 3, 16) if data_format == "channels_last" else (8, 16, 3, 3))
        y = layer(x, training=True).numpy()
        assert layer(x) is x
        by_channel = y if data_format == "channels_last" else np.moveaxis(y, 1, -1)
        assert set(np.unique(y)) == {0.0, 2.0}
        assert (by_channel == by_channel[:, :1, :1]).all()
        assert 0.3 < (y == 0).mean() < 0.7

    def test_gaussian_noise(self):
        layer, x = L.GaussianNoise(0.5, seed=1), pb.zeros((200, 200))
        y = layer(x, training=True).numpy()
        assert y.std() == pytest.approx(0.5, rel=0.01)
        assert abs(y.mean()) < 0.01
        assert layer(x) is x
        with pytest.raises(pb.errors.InputValueError):
            L.GaussianNoise(-1.0)


class TestNormalization:
    def test_groups(self):
        x = RNG.normal(2.0, 3.0, size=(2, 5, 6))
        layer = L.GroupNormalization(3, epsilon=1e-3, dtype="float64")
        parts = x.reshape(2, 5, 3, 2)
        mean, variance = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
        expected = ((parts - mean) / np.sqrt(variance + 1e-3)).reshape(x.shape)
        np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-10, atol=1e-12)
        assert layer.gamma.shape == layer.beta.shape == (6,)
        with pytest.raises(
            pb.errors.LayerError, match=r"groups must divide the 5 channels.*\(2, 5"
        ):
            L.GroupNormalization(2)(images(2, 5))

    def test_root_mean_square(self):
        x = RNG.normal(2.0, 3.0, size=(2, 5, 6))
        layer = L.RMSNormalization((1, 2), epsilon=1e-3, dtype="float64")
        expected = x / np.sqrt((x**2).mean((1, 2), keepdims=True) + 1e-3)
        np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-10)
        assert list(layer.named_variables) == ["gamma"]
        assert L.RMSNormalization(scale=False, input_shape=(3,)).variables == []

    def test_batch_normalization_frozen_with_its_model(self):
        model = pb.Sequential([L.Dense(3, input_shape=(4,)), L.BatchNormalization()])
        x = images(8, 4)
        model(x, training=True)
        model.trainable = False
        before = [v.tolist() for v in model.variables]
        inference = model(x).tolist()
        assert model(x, training=True).tolist() == inference
        assert [v.tolist() for v in model.variables] == before
        model.trainable = True
        assert model(x, training=True).tolist() != inference

    def test_gradients_reach_inputs_of_frozen_layers(self):
        norm = L.BatchNormalization(trainable=False)
        dense = L.Dense(3)
        model = pb.Sequential([dense, norm])
        x = images(8, 4)
        model(x)
        pairs = pb.implicit_gradients(lambda: (model(x, training=True) ** 2.0).sum())()
        assert {id(v) for _, v in pairs} == {id(v) for v in dense.variables}
        assert all(abs(g.numpy()).max() > 0 for g, _ in pairs)

    def test_errors(self):
        layer = L.BatchNormalization()
        layer(images(4, 3), training=True)
        with pytest.raises(pb.errors.LayerError, match=r"with 3 channels along axis -1.*\(4, 5\)"):
            layer(images(4, 5), training=True)
        with pytest.raises(pb.errors.LayerError, match=r"no axis 2 for the channels.*\(4, 5\)"):
            L.BatchNormalization(2)(images(4, 5))


class TestSummary:
    def test_table(self):
        pb.random.seed(0)
        shared = L.Dense(288)
        model = pb.Sequential(
            [
                L.Conv2D(8, 3, input_shape=(8, 8, 1)),
                L.BatchNormalization(trainable=False),
                L.Flatten(),
                pb.Sequential([shared, L.Dropout(0.5), shared]),
            ],
            name="net",
        )
        lines = []
        model.summary(lines.append, variables=True)
        assert "layers/0" in lines[2]
        assert "(batch, 6, 6, 8)" in lines[2]
        assert "kernel [3, 3, 1, 8], bias [8]" in lines[2]
        assert "  80" in lines[2]
        assert "32 frozen" in lines[3]
        assert lines[6].split()[:3] == ["layers/0", "Dense", "x2"]
        assert [line.split()[0] for line in lines[2:8]] == [
            *(f"layers/{i}" for i in range(4)),
            *("layers/0", "layers/1"),
        ]

    def test_a_layer_with_others_counts_their_parameters(self):
        model, lines = pb.Sequential([pb.Sequential([L.Dense(3, input_shape=(2,))])]), []
        model.summary(lines.append)
        assert [line.split()[-1] for line in lines[2:4]] == ["9", "9"]
        assert lines[2].startswith("layers/0  ")
        assert lines[3].startswith("  layers/0  ")

    def test_rows_come_in_the_order_of_calls(self):
        class Backwards(pb.Model):
            def __init__(self):
                super().__init__()
                self.head = L.Dense(2)
                self.unused = L.Dense(2)
                self.body = L.Dense(3)

            def call(self, x):
                return self.head(self.body(x))

        model, lines = Backwards(), []
        model(pb.zeros((5, 4)))
        model.summary(lines.append)
        assert [line.split()[0] for line in lines[2:5]] == ["body", "head", "unused"]

    def test_only_a_batch_is_called_so(self):
        class Positions(pb.Model):
            def __init__(self):
                super().__init__()
                self.tokens, self.positions = L.Embedding(9, 3), L.Embedding(9, 3)

            def call(self, ids):
                return self.tokens(ids) + self.positions(pb.arange(ids.shape[1]))

        model, lines = Positions(), []
        model(pb.zeros((2, 5), dtype="int32"))
        model.summary(lines.append)
        assert "(batch, 5, 3)" in lines[2]
        assert "(5, 3)" in lines[3]
        assert "batch" not in lines[3]

    def test_is_narrow(self):
        layers = [L.Conv2D(8, 3, input_shape=(28, 28, 1)), L.BatchNormalization(), L.Flatten()]
        lines = []
        pb.Sequential([pb.Sequential(layers), L.Dense(10)]).summary(lines.append)
        assert max(map(len, lines)) < 72

    def test_outputs_are_those_of_the_first_call(self):
        class Two(pb.Model):
            def __init__(self):
                super().__init__()
                self.lstm = L.LSTM(4, return_state=True)
                self.unused = L.Dense(3)

            def call(self, x):
                y, h, c = self.lstm(x)
                return {"y": y, "states": [h, c]}

        model, lines = Two(), []
        model(pb.zeros((5, 3, 2)))
        model.summary(lines.append)
        assert "[(batch, 4), (batch, 4), (batch, 4)]" in lines[2]
        assert lines[3].split() == ["unused", "Dense", "?", "?"]
        assert lines[-1] == "112 parameters, 112 of them trained"


class TestRepr:
    def test_lists_of_variables_are_short(self):
        model = pb.Sequential([L.Dense(300, input_shape=(200,))])
        assert repr(model.variables) == "[<kernel (200, 300) float32>, <bias (300,) float32>]"
        assert repr(model.trainable_variables) == repr(model.variables)
        assert isinstance(model.variables, list)

    def test_datasets_say_how_many_elements_they_have(self):
        data = pb.data.Dataset.range(1200)
        assert repr(data.batch(100)) == "<Dataset of 12 elements>"
        assert repr(data.filter(bool)) == "<Dataset of elements of unknown number>"


def slope(f, x, direction):
    """The derivative of a function of an array along a direction, by differences."""
    return (float(f(x + 1e-6 * direction)) - float(f(x - 1e-6 * direction))) / 2e-6


def check_gradients(layer, x):
    """Holds the gradients of a layer in float64 against differences, eager and captured."""
    layer(x)
    weights = RNG.standard_normal(layer(x).shape)

    def f(x):
        return pb.sum(layer(x) * weights)

    for way in (f, pb.function(f)):
        with pb.GradientTape() as tape:
            given = pb.asarray(x)
            tape.watch(given)
            loss = way(given)
        gradient, *others = tape.gradient(loss, [given, *layer.trainable_variables])
        direction = RNG.standard_normal(x.shape)
        found = float(pb.sum(gradient * direction))
        assert found == pytest.approx(slope(f, x, direction), rel=1e-6, abs=1e-8)
        for variable, gradient in zip(layer.trainable_variables, others, strict=True):
            direction, there = RNG.standard_normal(variable.shape), variable.numpy().copy()

            def moved(value, variable=variable):
                variable.assign(value)
                return f(x)

            found, expected = float(pb.sum(gradient * direction)), slope(moved, there, direction)
            variable.assign(there)
            assert found == pytest.approx(expected, rel=1e-6, abs=1e-8)


class TestUnits:
    @pytest.mark.parametrize("axis", [-1, 1, (1, 2)])
    def test_values(self, axis):
        x = RNG.standard_normal((3, 4, 5))
        layer = L.UnitNormalization(axis)
        expected = x / np.linalg.norm(x, axis=axis, keepdims=True) if axis != (1, 2) else (
            x / np.sqrt((x**2).sum((1, 2), keepdims=True))
        )  # fmt: skip
        np.testing.assert_allclose(layer(x), expected, rtol=1e-12)
        check_gradients(layer, x)
        assert not layer(np.zeros((2, 3, 4))).numpy().any()


class TestDot:
    @pytest.mark.parametrize("normalize", [False, True])
    @pytest.mark.parametrize(
        ("one", "other", "axes", "equation"),
        [
            ((2, 3), (2, 3), 1, "ab,ab->a"),
            ((2, 3, 4), (2, 5, 4), 2, "abc,axc->abx"),
            ((2, 3, 4), (2, 4), (-1, 1), "abc,ac->ab"),
            ((2, 4, 3), (2, 5, 4, 6), (1, 2), "acb,adce->abde"),
        ],
    )
    def test_values(self, one, other, axes, equation, normalize):
        x, y = RNG.standard_normal(one), RNG.standard_normal(other)
        layer, along = (
            L.Dot(axes, normalize=normalize),
            axes if isinstance(axes, tuple) else (axes,) * 2,
        )
        parts = [
            part / np.linalg.norm(part, axis=axis, keepdims=True) if normalize else part
            for part, axis in zip((x, y), along, strict=True)
        ]
        expected = np.einsum(equation, *parts)
        expected = expected[:, None] if expected.ndim == 1 else expected
        np.testing.assert_allclose(layer([x, y]), expected, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(pb.function(layer)([x, y]), expected, rtol=1e-10, atol=1e-13)

    def test_errors(self):
        x = np.ones((2, 3, 4))
        for wrong in (lambda: L.Dot(0)([x, x]), lambda: L.Dot(1)([x, x, x]),
                      lambda: L.Dot((1, 2))([x, x]), lambda: L.Dot(3)([x, x])):  # fmt: skip
            with pytest.raises(pb.errors.PullbackError, match=r"dot \(Dot\)"):
                wrong()
        with pytest.raises(pb.errors.InputValueError, match="one axis or two"):
            L.Dot((1, 2, 3))


class TestEinsum:
    @pytest.mark.parametrize(
        ("equation", "shape", "output", "bias", "kernel", "bias_shape"),
        [
            ("ab,bc->ac", (2, 3), 4, "c", (3, 4), (4,)),
            ("abc,cx->abx", (2, 5, 3), (None, 4), None, (3, 4), None),
            ("abc,cde->abde", (2, 5, 3), (None, 4, 2), "d", (3, 4, 2), (4, 1)),
            ("abc,bd->adc", (2, 5, 3), (4, None), "dc", (5, 4), (4, 3)),
            ("...x,xy->...y", (2, 5, 6, 3), (4,), "y", (3, 4), (4,)),
            ("abc,cb->abc", (2, 5, 3), (None, None), "b", (3, 5), (5, 1)),
        ],
    )
    def test_values(self, equation, shape, output, bias, kernel, bias_shape):
        x = RNG.standard_normal(shape)
        layer = L.EinsumDense(
            equation, output, "tanh", bias_axes=bias, bias_initializer="normal", dtype="float64"
        )
        y = layer(x)
        assert layer.kernel.shape == kernel
        assert bias_shape == (None if layer.bias is None else layer.bias.shape)
        added = 0 if bias is None else layer.bias.numpy()
        expected = np.tanh(np.einsum(equation, x, layer.kernel.numpy()) + added)
        np.testing.assert_allclose(y, expected, rtol=1e-10)
        check_gradients(layer, x)

    def test_errors(self):
        for wrong in ("ab->ac", "ab,bc", "ab,b...->a...", "...ab,bc->ac"):
            with pytest.raises(pb.errors.InputValueError, match="equation must be such as"):
                L.EinsumDense(wrong, 3)
        with pytest.raises(pb.errors.InputValueError, match="bias_axes"):
            L.EinsumDense("ab,bc->ac", 3, bias_axes="b")
        for made, x in (
            (L.EinsumDense("abc,cx->abx", (None, None)), np.ones((2, 3, 4))),
            (L.EinsumDense("abc,cx->abx", (7, 5)), np.ones((2, 3, 4))),
            (L.EinsumDense("abc,cx->abx", 5), np.ones((2, 3))),
        ):
            with pytest.raises(pb.errors.LayerError, match=r"einsum_dense \(EinsumDense\)"):
                made(x)


class TestNoiseOfDropout:
    @pytest.mark.parametrize("rate", [0.1, 0.4])
    def test_alpha_dropout_keeps_mean_and_variance(self, rate):
        x = pb.random.Generator(1).normal((400, 400))
        layer = L.AlphaDropout(rate, seed=2)
        y = layer(x, training=True).numpy()
        assert abs(y.mean()) < 0.01
        assert y.std() == pytest.approx(1, abs=0.01)
        least = -1.0507009873554805 * 1.6732632423543772
        a = ((1 - rate) * (1 + rate * least**2)) ** -0.5
        kept = np.abs(y - (a * x.numpy() - a * rate * least)) < 1e-5
        assert kept.mean() == pytest.approx(1 - rate, abs=0.01)
        np.testing.assert_allclose(y[~kept], a * least - a * rate * least, rtol=1e-5)
        assert layer(x) is x

    @pytest.mark.parametrize("rate", [0.1, 0.4])
    def test_gaussian_dropout(self, rate):
        layer, x = L.GaussianDropout(rate, seed=2), pb.full((400, 400), 3.0)
        y = layer(x, training=True).numpy() / 3
        assert y.mean() == pytest.approx(1, abs=0.01)
        assert y.var() == pytest.approx(rate / (1 - rate), rel=0.02)
        assert layer(x) is x
        assert L.GaussianDropout(0.0)(x, training=True) is x

    @pytest.mark.parametrize("kind", [L.AlphaDropout, L.GaussianDropout])
    def test_captured_calls_draw_the_same(self, kind):
        x = RNG.standard_normal((5, 6)).astype("f")
        eager, captured = kind(0.4, seed=2), kind(0.4, seed=2)
        f = pb.function(lambda x: captured(x, training=True))
        for _ in range(3):
            np.testing.assert_allclose(f(x), eager(x, training=True), rtol=1e-6)


def test_penalties_of_activities():
    x = RNG.standard_normal((3, 4, 2))
    model = pb.Sequential([L.Dense(3, dtype="float64"), L.ActivityRegularization(0.5, 0.25)])
    y = model(x).numpy()
    [loss] = model.losses
    assert float(loss) == pytest.approx(0.5 * abs(y).sum() + 0.25 * (y**2).sum(), rel=1e-9)
    mask = np.arange(4) < np.array([[4], [1], [0]])
    masked = model(L.Masked(pb.asarray(x), pb.asarray(mask)))
    [loss] = model.losses
    np.testing.assert_array_equal(masked.values, y)
    there = y[mask]
    assert float(loss) == pytest.approx(0.5 * abs(there).sum() + 0.25 * (there**2).sum(), rel=1e-9)
    with pb.GradientTape() as tape:
        model(x, training=True)
        total = sum(model.losses)
    [kernel, _] = tape.gradient(total, model.trainable_variables)
    expected = np.einsum("abi,abo->io", x, 0.5 * np.sign(y) + 0.5 * y)
    np.testing.assert_allclose(kernel, expected, rtol=1e-9)
