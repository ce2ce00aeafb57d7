"""Layers around a layer: against loops over steps, and against NumPy's norms."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

L = pb.layers
E = pb.errors
RNG = np.random.default_rng(5)


def close(actual, expected, rtol=1e-9):
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-11)


def wide(make):
    with L.policy("float64"):
        return make()


def slope(f, variable, direction):
    """The derivative of f() along a direction, by differences."""
    there, values = variable.numpy().copy(), []
    for side in (1e-5, -1e-5):
        variable.assign(there + side * direction)
        values.append(float(f()))
    variable.assign(there)
    return (values[0] - values[1]) / 2e-5


INSIDE = {
    "dense": (lambda: L.Dense(3, "tanh"), (4,)),
    "images": (lambda: L.Conv2D(2, 2), (4, 5, 2)),
    "sequences": (lambda: L.Bidirectional(L.GRU(3)), (5, 2)),
    "model": (lambda: pb.Sequential([L.Flatten(), L.Dense(3), pb.tanh]), (3, 2)),
    "numbers": (lambda: pb.Sequential([L.Reshape((1,)), L.Dense(2)]), ()),
}


class TestTimeDistributed:
    @pytest.mark.parametrize("name", INSIDE)
    def test_each_step_by_itself(self, name, tmp_path):
        make, item = INSIDE[name]
        inside = wide(make)
        layer, x = L.TimeDistributed(inside), pb.asarray(RNG.standard_normal((2, 3, *item)))

        def steps(x):
            return pb.stack([inside(x[:, i]) for i in range(x.shape[1])], axis=1)

        layer(x)
        variables = [*layer.trainable_variables]
        found = []
        for f in (layer, pb.function(layer), steps):
            with pb.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
                loss = pb.sum(y * y)
            found.append([y, *tape.gradient(loss, [x, *variables])])
        for one, other, expected in zip(*found, strict=True):
            close(one, expected)
            close(other, expected)
        ends = pb.Input((None, *item), dtype="float64")
        close(pb.Model(ends, layer(ends))(x), found[0][0])
        model = pb.Sequential([layer])
        model(x)
        pb.checkpoint.save_model(model, tmp_path / "model")
        close(pb.checkpoint.load_model(tmp_path / "model")(x), found[0][0])

    def test_structures(self):
        x, y = (pb.asarray(RNG.standard_normal((2, 3, 4))) for _ in range(2))
        close(L.TimeDistributed(L.Add())([x, y]), x + y)
        both = L.TimeDistributed(L.Lambda(lambda x: {"sum": pb.sum(x, axis=-1), "x": x}))(x)
        close(both["sum"], pb.sum(x, axis=-1))
        close(both["x"], x)

    def test_masks(self):
        x, mask = RNG.standard_normal((2, 3, 5, 4)), RNG.random((2, 3, 5)) < 0.6
        layer = wide(lambda: L.TimeDistributed(L.LSTM(2)))
        y = layer(L.Masked(pb.asarray(x), pb.asarray(mask)))
        for i in range(3):
            close(y[:, i], layer.layer(x[:, i], mask=mask[:, i]))
        steps = pb.asarray(mask[:, :, 0])
        outer = layer(L.Masked(pb.asarray(x), steps))
        assert outer.mask is steps
        close(outer.values, layer(x))

    @pytest.mark.parametrize("shape", [(), (3,)])
    def test_errors(self, shape):
        with pytest.raises(E.LayerError, match=r"inputs must be \(batch, time"):
            L.TimeDistributed(L.ReLU())(np.ones(shape, "f"))
        with pytest.raises(E.LayerError, match="for 6 steps"):
            L.TimeDistributed(L.Lambda(pb.sum))(np.ones((2, 3), "f"))
        with pytest.raises(E.InputTypeError, match="takes a layer"):
            L.TimeDistributed(pb.relu)


# A layer, the shape of its inputs, and the axis of its outputs.
KERNELS = {
    "dense": (lambda: L.Dense(5), (3,), -1),
    "conv": (lambda: L.Conv2D(4, 2), (4, 4, 3), -1),
    "transposed": (lambda: L.Conv1DTranspose(4, 3), (5, 2), -2),
    "depthwise": (lambda: L.DepthwiseConv1D(3, depth_multiplier=2), (5, 2), -1),
}
WRAPPERS = {"weight": L.WeightNormalization, "spectral": L.SpectralNormalization}


def matrix(weight, axis):
    last = np.moveaxis(weight, axis, -1)
    return last.reshape(-1, last.shape[-1])


@pytest.mark.parametrize("kind", WRAPPERS)
@pytest.mark.parametrize("name", KERNELS)
class TestNormalizedKernels:
    def made(self, kind, name):
        make, item, axis = KERNELS[name]
        layer, x = wide(lambda: WRAPPERS[kind](make())), RNG.standard_normal((2, *item))
        layer(x)
        return layer, x, axis

    def test_values(self, kind, name):
        layer, x, axis = self.made(kind, name)
        plain = layer.layer
        if kind == "weight":
            close(layer(x), plain(x))
            layer.g.assign(layer.g * 3)
            close(layer(x), 3 * plain(x))
            kernel = plain.kernel.numpy()
            y = layer(x)
            plain.kernel.assign(kernel * 7)
            close(layer(x), y)
            return
        u = layer.u.numpy().copy()
        close(np.linalg.norm(u), 1)
        norm = np.linalg.norm(matrix(plain.kernel.numpy(), axis) @ u)
        close(layer(x), plain(x).numpy() / norm)
        assert (layer.u.numpy() == u).all()
        for _ in range(60):
            y = layer(x, training=True)
        largest = np.linalg.svd(matrix(plain.kernel.numpy(), axis))[1][0]
        close(y, plain(x).numpy() / largest, rtol=1e-3)

    def test_gradients(self, kind, name):
        layer, x, _ = self.made(kind, name)
        weights = RNG.standard_normal(layer(x).shape)

        def f():
            return pb.sum(layer(x, training=False) * weights)

        for call in (f, pb.function(f)):
            with pb.GradientTape() as tape:
                loss = call()
            variables = layer.trainable_variables
            for gradient, variable in zip(tape.gradient(loss, variables), variables, strict=True):
                direction = RNG.standard_normal(variable.shape)
                expected = slope(f, variable, direction)
                assert float(pb.sum(gradient * direction)) == pytest.approx(expected, rel=1e-6)

    def test_training_captured_and_saved(self, kind, name, tmp_path):
        make, item, _ = KERNELS[name]
        x, y = RNG.standard_normal((6, *item)).astype("f"), None
        losses = []
        for capture in (False, True):
            pb.random.seed(3)
            model = pb.Sequential([WRAPPERS[kind](make()), L.Flatten(), L.Dense(1)])
            model.compile("sgd", "mse", capture=capture)
            history = model.fit(x, np.ones((6, 1), "f"), epochs=4, verbose=False, shuffle=False)
            losses.append(history.history["loss"])
            y = model(x)
        close(*losses, rtol=1e-5)
        assert losses[0][-1] < losses[0][0]
        pb.checkpoint.save_model(model, tmp_path / "model")
        close(pb.checkpoint.load_model(tmp_path / "model")(x), y)
        other = pb.Sequential([WRAPPERS[kind](make()), L.Flatten(), L.Dense(1)])
        other(x)
        pb.Checkpoint(model=other).restore(pb.Checkpoint(model=model).save(tmp_path))
        close(other(x), y)


class TestSpectralNormalization:
    def test_only_training_moves_the_vector(self):
        layer = L.SpectralNormalization(L.Dense(4))
        x = pb.ones((2, 3))
        layer(x)
        layer.layer.kernel.assign(RNG.standard_normal((3, 4)).astype("f"))
        u = layer.u.numpy().copy()
        layer(x, training=False)
        layer(x)
        assert (layer.u.numpy() == u).all()
        layer.trainable = False
        layer(x, training=True)
        assert (layer.u.numpy() == u).all()
        layer.trainable = True
        layer(x, training=True)
        assert (layer.u.numpy() != u).any()

    def test_begins_again_after_a_kernel_of_zeros(self):
        layer = L.SpectralNormalization(L.Dense(4, kernel_initializer="zeros"))
        assert not layer(pb.ones((2, 3)), training=True).numpy().any()
        layer.layer.kernel.assign(RNG.standard_normal((3, 4)).astype("f"))
        for _ in range(40):
            y = layer(pb.eye(3), training=True)
        assert np.linalg.svd(y.numpy())[1][0] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("kind", WRAPPERS)
def test_other_variables_masks_and_precision(kind):
    wrap = WRAPPERS[kind]
    ids = np.array([[1, 2, 0]])
    table = wrap(L.Embedding(5, 3, mask_zero=True))
    assert table(ids).mask.tolist() == [[True, True, False]]
    lstm = wrap(L.LSTM(4), variable="recurrent_kernel")
    assert lstm(table(ids)).shape == (1, 4)
    assert lstm.weight is lstm.layer.recurrent_kernel
    with L.policy("mixed_bfloat16"):
        mixed = wrap(L.Dense(3))
    y = mixed(pb.ones((2, 4)), training=True)
    assert y.dtype == pb.bfloat16
    assert {str(v.dtype) for v in mixed.variables} == {"float32"}
    with pytest.raises(E.LayerError, match=r"no variable 'kernel'.*depthwise/kernel"):
        wrap(L.SeparableConv1D(3, 2))(np.ones((2, 4, 3), "f"))
    with pytest.raises(E.LayerError, match=r"no variable 'bias'"):
        wrap(L.Dense(3), variable="bias")(np.ones((2, 4), "f"))
