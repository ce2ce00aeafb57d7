"""One seed gives the same images on torch as on NumPy."""

import numpy as np
import pytest

import pullback as pb

L = pb.layers
IMAGES = np.random.default_rng(1).random((4, 9, 7, 3), np.float32)
MADE = {
    "flip": lambda: L.RandomFlip(seed=3),
    "crop": lambda: L.RandomCrop(6, 5, padding=1, seed=3),
    "translation": lambda: L.RandomTranslation(0.3, 0.2, seed=3),
    "rotation": lambda: L.RandomRotation(0.2, fill_mode="constant", seed=3),
    "zoom": lambda: L.RandomZoom(0.4, fill_mode="wrap", seed=3),
    "brightness": lambda: L.RandomBrightness(0.4, seed=3),
    "contrast": lambda: L.RandomContrast(0.4, seed=3),
}


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("name", MADE)
def test_augmentation(name, dtype):
    images = IMAGES if dtype == "float32" else (IMAGES * 255).astype(dtype)
    found = [
        MADE[name]()(pb.asarray(images, device=device), training=True)
        for device in ("numpy:cpu", "torch:cpu")
    ]
    # Sines, and means in another order, may differ in the last bits; so may what they round to.
    tolerance = 1e-5 if dtype == "float32" else 1
    np.testing.assert_allclose(
        found[0].numpy().astype(float), found[1].numpy().astype(float), atol=tolerance
    )


@pytest.mark.parametrize("make", [L.MixUp, L.CutMix])
def test_mixtures(make):
    targets = np.eye(4, dtype=np.float32)
    for mine, others in zip(
        *[
            make(seed=3)(
                (pb.asarray(IMAGES, device=device), pb.asarray(targets, device=device)),
                training=True,
            )
            for device in ("numpy:cpu", "torch:cpu")
        ],
        strict=True,
    ):
        np.testing.assert_allclose(mine.numpy(), others.numpy(), atol=1e-5)
