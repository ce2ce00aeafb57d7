"""Layers that change images at random: against SciPy, in pipelines, seeded, captured, resumed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage, stats

import pullback as pb

L = pb.layers
RNG = np.random.default_rng(7)
IMAGES = RNG.integers(0, 256, (5, 9, 7, 3)).astype(np.uint8)
FLOATS = (IMAGES / 255).astype(np.float32)
MADE = {
    "flip": lambda **o: L.RandomFlip(**o),
    "crop": lambda **o: L.RandomCrop(6, 5, padding=1, **o),
    "translation": lambda **o: L.RandomTranslation(0.3, (-0.1, 0.4), **o),
    "rotation": lambda **o: L.RandomRotation(0.2, fill_mode="constant", fill_value=0.5, **o),
    "zoom": lambda **o: L.RandomZoom((-0.4, 0.5), 0.3, fill_mode="nearest", **o),
    "nearest": lambda **o: L.RandomZoom(0.5, fill_mode="wrap", interpolation="nearest", **o),
    "brightness": lambda **o: L.RandomBrightness(0.4, **o),
    "contrast": lambda **o: L.RandomContrast((-0.9, 2), value_range=(0, 200), **o),
}
SCIPY = {
    "reflect": "reflect", "wrap": "grid-wrap", "nearest": "nearest", "constant": "grid-constant",
}  # fmt: skip


# Values ------------------------------------------------------------------------------------------


def sampled(image, rows, columns, mode, order, fill):
    """An image at places, by SciPy."""
    places = np.broadcast_arrays(rows, columns)
    return np.stack(
        [
            ndimage.map_coordinates(channel, places, order=order, mode=SCIPY[mode], cval=fill)
            for channel in np.moveaxis(image.astype(np.float64), -1, 0)
        ],
        axis=-1,
    )


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.floats(-1.5, 1.5),
    st.floats(-1.5, 1.5),
    st.sampled_from([*SCIPY]),
    st.sampled_from(["translation", "rotation", "zoom"]),
)
def test_places_are_those_of_scipy(height, width, first, second, mode, kind):
    image = RNG.random((height, width, 2), dtype=np.float32)
    options = {"fill_mode": mode, "fill_value": 0.25}
    y, x = np.arange(height)[:, None], np.arange(width)[None, :]
    up, left = (height - 1) / 2, (width - 1) / 2
    if kind == "translation":
        layer = L.RandomTranslation((first, first), (second, second), **options)
        places = y - first * height, x - second * width
    elif kind == "rotation":
        layer = L.RandomRotation((first, first), **options)
        # Counterclockwise: what was at an angle less comes here.
        turn = np.exp(-2j * np.pi * first) * ((x - left) - 1j * (y - up))
        places = up - turn.imag, left + turn.real
    else:
        first, second = abs(first), abs(second)
        layer = L.RandomZoom((first, first), (second, second), **options)
        places = up + (y - up) * (1 + first), left + (x - left) * (1 + second)
    wanted = sampled(image, *places, mode, 1, 0.25)
    found = layer(image, training=True).numpy()
    np.testing.assert_allclose(found, wanted, atol=2e-4 * (1 + abs(first) + abs(second)))


@pytest.mark.parametrize("turns", [0.25, 0.5, 0.75, 1.0])
def test_quarter_turns(turns):
    image = RNG.random((5, 5, 1), dtype=np.float32)
    found = L.RandomRotation((turns, turns))(image, training=True).numpy()
    np.testing.assert_allclose(found, np.rot90(image, round(4 * turns)), atol=1e-5)


def test_flips_and_crops_are_parts_of_the_images_and_all_come():
    image = np.arange(12).reshape(1, 3, 4, 1)
    many = np.repeat(image, 400, axis=0)
    flips = {
        np.asarray(a).tobytes()
        for a in (image[0], image[0, ::-1], image[0, :, ::-1], image[0, ::-1, ::-1])
    }
    found = L.RandomFlip(seed=1)(many, training=True).numpy()
    assert {one.tobytes() for one in found} == flips
    parts = {image[0, i : i + 2, j : j + 3].tobytes() for i in range(2) for j in range(2)}
    found = L.RandomCrop(2, 3, seed=1)(many, training=True).numpy()
    assert {one.tobytes() for one in found} == parts
    centre = L.RandomCrop(1, 2)(image).numpy()
    assert centre.tolist() == image[:, 1:2, 1:3].tolist()
    padded = L.RandomCrop(5, 6, padding=1)(image, training=True).numpy()
    assert padded.tolist() == np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0))).tolist()


@pytest.mark.parametrize("images", [IMAGES, FLOATS], ids=["uint8", "float32"])
def test_colours(images):
    top = 255 if images.dtype == np.uint8 else 1
    plain = images.astype(np.float64)
    found = L.RandomBrightness((0.3, 0.3))(images, training=True).numpy()
    wanted = np.clip(plain + 0.3 * top, 0, top)
    np.testing.assert_allclose(found, wanted, atol=0.5 if top == 255 else 1e-6)
    found = L.RandomContrast((0.7, 0.7))(images, training=True).numpy()
    middle = plain.mean(axis=(1, 2), keepdims=True)
    wanted = np.clip(middle + (plain - middle) * 1.7, 0, top)
    np.testing.assert_allclose(found, wanted, atol=0.501 if top == 255 else 1e-6)


@pytest.mark.parametrize("layer", [L.MixUp(0.4, seed=2), L.CutMix(seed=2)])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_mixtures_have_the_parts_that_their_targets_say(layer, data_format):
    """Image i is i everywhere: the mean of a mixture is that of its targets."""
    count = 40
    layer = type(layer)(seed=2, data_format=data_format)
    images = np.broadcast_to(
        np.arange(count, dtype=np.float32).reshape(-1, 1, 1, 1), (count, 6, 8, 4)
    )
    x, y = layer((images, np.eye(count, dtype=np.float32)), training=True)
    y = y.numpy().astype(np.float64)
    np.testing.assert_allclose(y.sum(axis=1), 1, rtol=1e-6)
    assert ((y > 0).sum(axis=1) <= 2).all()
    mixed = (y > 0).sum(axis=1) == 2
    assert mixed.sum() > count / 2
    np.testing.assert_allclose(x.numpy().mean(axis=(1, 2, 3)), y @ np.arange(count), rtol=1e-4)
    kept = layer((images, np.eye(count, dtype=np.float32)), training=False)
    assert kept[0].numpy().tobytes() == images.tobytes()


@pytest.mark.parametrize("alpha", [0.1, 0.4, 1.0, 3.0])
def test_weights_have_the_beta_distribution(alpha):
    count = 1500
    images, targets = np.zeros((count, 1, 1, 1), np.float32), np.eye(count, dtype=np.float32)
    _, y = L.MixUp(alpha, seed=4)((images, targets), training=True)
    weights = np.diagonal(y.numpy()).astype(np.float64)
    # Near 1 float32 has too few numbers for small alpha; the distribution is symmetric.
    low = weights[weights < 0.5]
    assert abs(len(low) - count / 2) < 4 * np.sqrt(count / 4)
    assert stats.kstest(low, lambda x: 2 * stats.beta(alpha, alpha).cdf(x)).pvalue > 1e-3


def test_mixtures_are_captured():
    eager, inner = L.CutMix(0.5, seed=4), L.CutMix(0.5, seed=4)
    captured = pb.function(lambda x, y: inner((x, y), training=True))
    for _ in range(4):
        given = FLOATS, np.eye(5, dtype=np.float32)
        for one, other in zip(eager(given, training=True), captured(*given), strict=True):
            assert one.numpy().tobytes() == other.numpy().tobytes()


# Use ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("images", [IMAGES, FLOATS], ids=["uint8", "float32"])
@pytest.mark.parametrize("name", MADE)
def test_one_seed_gives_the_same_images_in_every_way_of_calling(name, images):
    make = MADE[name]
    found = make(seed=3)(images, training=True)
    assert found.dtype == images.dtype
    plain = make(seed=3)
    inner = make(seed=3)
    captured = pb.function(lambda x: inner(x, training=True))
    for _ in range(4):
        assert plain(images, training=True).numpy().tobytes() == captured(images).numpy().tobytes()
    first = make(seed=3, data_format="channels_first")
    moved = first(np.moveaxis(images, -1, 1), training=True).numpy()
    np.testing.assert_allclose(
        np.moveaxis(moved, 1, -1).astype(float), found.numpy().astype(float), atol=1e-5
    )
    one = make(seed=3)(images[0], training=True).numpy()
    assert one.tobytes() == make(seed=3)(images[:1], training=True).numpy()[0].tobytes()
    given = make()(images, training=True, generator=pb.Generator(3)).numpy()
    assert given.tobytes() == found.numpy().tobytes()
    if name != "crop":
        assert make()(images).numpy().tobytes() == images.tobytes()
        assert found.numpy().tobytes() != images.tobytes()


def test_a_pipeline_goes_on_with_the_same_images_after_a_restore(tmp_path):
    layers = [make() for make in MADE.values()]

    def augment(image, label, generator):
        for layer in layers:
            image = layer(image, training=True, generator=generator)
        return image, label

    mix = L.MixUp()
    labels = np.eye(10, dtype=np.float32)[np.arange(40) % 10]
    data = (
        pb.data.Dataset.from_tensor_slices((RNG.random((40, 9, 7, 3), np.float32), labels))
        .shuffle(seed=1)
        .repeat(2)
        .map(augment, parallel=2, seed=2)
        .batch(8)
        .map(lambda x, y, generator: mix((x, y), training=True, generator=generator), seed=3)
    )
    steps = iter(data)
    for _ in range(4):
        next(steps)
    saved = pb.Checkpoint(steps=steps).save(tmp_path / "c")
    again = iter(data)
    pb.Checkpoint(steps=again).restore(saved)
    rest = [x.numpy().tobytes() for x, _ in again]
    assert rest == [x.numpy().tobytes() for x, _ in steps]
    assert len({*rest}) == 6


def test_a_model_with_the_layers_is_resumed_exactly(tmp_path):
    """The generators of layers are saved with the model."""

    def made():
        pb.random.seed(0)
        model = pb.Sequential(
            [L.RandomFlip(seed=1), L.RandomRotation(0.1, seed=2), L.Flatten(), L.Dense(2)]
        )
        return model, pb.optimizers.SGD(0.1)

    def step(model, optimizer):
        with pb.GradientTape() as tape:
            loss = pb.mean(model(FLOATS, training=True) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss.item()

    model, optimizer = made()
    for _ in range(3):
        step(model, optimizer)
    saved = pb.Checkpoint(model=model, optimizer=optimizer).save(tmp_path / "c")
    wanted = [step(model, optimizer) for _ in range(3)]
    model, optimizer = made()
    model(FLOATS)
    pb.Checkpoint(model=model, optimizer=optimizer).restore(saved)
    assert [step(model, optimizer) for _ in range(3)] == wanted


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: L.RandomFlip("sideways"), "InputValueError", "mode must be 'horizontal'"),
        (lambda: L.RandomRotation((2, 1)), "InputValueError", "factor is a number of 0 or more"),
        (lambda: L.RandomZoom(-0.2), "InputValueError", "two ends of an interval, from -1 on"),
        (lambda: L.RandomZoom(float("nan")), "InputValueError", "two ends of an interval"),
        (lambda: L.RandomZoom("a"), "InputTypeError", "height_factor"),
        (lambda: L.RandomTranslation(0, 0, fill_mode="x"), "InputValueError", "fill_mode must be"),
        (lambda: L.RandomCrop(-1, 2), "InputValueError", "height must be 0 or more"),
        (lambda: L.RandomCrop(20, 2)(IMAGES, training=True), "LayerError", "are smaller than"),
        (lambda: L.RandomFlip()(IMAGES[0, 0], training=True), "LayerError", "must be images"),
        (lambda: L.MixUp(0), "InputValueError", "alpha must be above 0"),
        (lambda: L.MixUp()(IMAGES, training=True), "LayerError", "must be a pair"),
        (lambda: L.CutMix()((IMAGES, np.arange(5))), "LayerError", "write pb.one_hot"),
        (lambda: L.CutMix()((IMAGES[0], np.eye(3)[0])), "LayerError", "mix after batch"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(getattr(pb.errors, error), match=message):
        call()
