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
