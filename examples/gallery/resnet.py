"""ResNet: learns images that are moved and turned in training.

    uv run examples/gallery/resnet.py

A small ResNet (He et al., 2015) learns scikit-learn's 1,797 handwritten digits, 8x8
grey values each. Layers of augmentation give it other images in each epoch; outside of
training they hand images on. A linear classifier, which the program trains too, shows
how much of the task needs no network: some 96 %.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import pullback as pb
from pullback import layers


# %% The model
# A block adds what two convolutions find to what it got. Where it halves the image, a
# convolution of one pixel does the same to the shortcut.
class Residual(pb.Model):
    def __init__(self, filters: int, strides: int = 1) -> None:
        super().__init__()
        self.first = convolution(filters, 3, strides)
        self.second = convolution(filters, 3)
        self.shortcut = convolution(filters, 1, strides) if strides > 1 else None

    def call(self, x):
        y = self.second(pb.relu(self.first(x)))
        return pb.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def convolution(filters: int, size: int, strides: int = 1) -> pb.Sequential:
    return pb.Sequential(
        [
            layers.Conv2D(filters, size, strides, padding="same", use_bias=False),
            layers.BatchNormalization(),
        ]
    )


def make_model() -> pb.Sequential:
    return pb.Sequential(
        [
            layers.RandomTranslation(0.1, 0.1),
            layers.RandomRotation(0.04),
            convolution(16, 3),
            pb.relu,
            Residual(16),
            Residual(32, strides=2),
            Residual(32),
            layers.GlobalAveragePool2D(),
            layers.Dense(10),
        ]
    )


# %% Training
# `capture=True` makes a program of each step of `fit`, augmentation and moving averages
# included.
def fit(model, data, test, epochs: int, rate: float) -> pb.training.History:
    steps = epochs * -(-len(data[0]) // 32)
    schedule = pb.optimizers.schedules.cosine_decay(rate, steps)
    optimizer = pb.optimizers.AdamW(schedule, weight_decay=0.01)
    model.compile(
        optimizer, pb.losses.sparse_softmax_cross_entropy, ["accuracy"], capture=True
    )
    return model.fit(*data, epochs=epochs, validation_data=test, verbose=False)


# %%
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="a file to draw the accuracies into")
    options = parser.parse_args()
    pb.random.seed(options.seed)

    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(options.seed).permutation(len(images))
    test, training = ((images[i], labels[i]) for i in np.split(order, [360]))

    linear = pb.Sequential([layers.Flatten(), layers.Dense(10)])
    fit(linear, training, test, 20, 0.02)
    print(f"linear: {linear.evaluate(*test, verbose=False)['accuracy']:.3f}")
    model = make_model()
    history = fit(model, training, test, options.epochs, 0.004).history
    print(f"ResNet: {history['val_accuracy'][-1]:.3f}", end="; ")
    print(f"on moved images: {history['accuracy'][-1]:.3f}")
    if options.plot:
        draw(options.plot, model, history, images[:8])


def draw(path: Path, model, history: dict, images: np.ndarray) -> None:
    import matplotlib.pyplot as plt

    figure, (curves, place) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    curves.plot(history["val_accuracy"], label="test images")
    curves.plot(history["accuracy"], label="moved images, in training")
    curves.set(xlabel="epoch", ylabel="accuracy", ylim=(0.5, 1.01))
    curves.legend()
    rows = [images]
    for _ in range(3):
        moved = images
        for layer in model.layers[:2]:
            moved = layer(moved, training=True)
        rows.append(np.asarray(moved))
    tiles = np.concatenate([np.concatenate(list(row), axis=1) for row in rows])
    place.imshow(tiles[..., 0], cmap="gray_r")
    place.set(title="as they are, and three times moved")
    place.axis("off")
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
