"""Fine-tuning: teaches a network with PyTorch's weights another task.

    uv run examples/gallery/fine_tuning.py

A file of weights as PyTorch saves them (safetensors; kernels of convolutions as
outputs, inputs, height, width; those of dense layers as outputs, inputs) is read into a
network with layers of this framework. So that nothing has to be downloaded, the program
makes the file first, from a network that has learned to read scikit-learn's digits. The
other task is a code: each digit stands for a letter, and thirty images with their
letters are all that is known of it. A network without the file learns the code beside
it.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import pullback as pb
from pullback import layers


# %% The model
class Network(pb.Model):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = pb.Sequential(
            [
                layers.Conv2D(16, 3, padding="same", activation="relu"),
                layers.Conv2D(32, 3, padding="same", activation="relu"),
                layers.MaxPool2D(2),
                layers.Flatten(),
                layers.Dense(64, activation="relu"),
            ]
        )
        self.head = layers.Dense(classes)

    def call(self, x):
        return self.head(self.body(x))


# %% PyTorch's names and layouts
# A map from the paths of variables here to the names in the file, and what happens to
# an array on the way. Between convolutions and dense layers, PyTorch flattens
# (channels, height, width), and here it is (height, width, channels): the rows of the
# first dense kernel are in another order.
NAMES = {
    "body/layers/0": "features.0",
    "body/layers/1": "features.2",
    "body/layers/4": "classifier.0",
    "head": "classifier.2",
}


def name(path: str) -> str:
    layer, _, kind = path.rpartition("/")
    return f"{NAMES[layer]}.{'weight' if kind == 'kernel' else 'bias'}"


def from_torch(path: str, array: np.ndarray) -> np.ndarray:
    if path == "body/layers/4/kernel":
        array = (
            array.reshape(-1, 32, 4, 4).transpose(0, 2, 3, 1).reshape(len(array), -1)
        )
    if array.ndim == 4:
        return array.transpose(2, 3, 1, 0)
    return array.T


def to_torch(path: str, array: np.ndarray) -> np.ndarray:
    if array.ndim == 4:
        return array.transpose(3, 2, 0, 1)
    array = array.T
    if path == "body/layers/4/kernel":
        array = (
            array.reshape(-1, 4, 4, 32).transpose(0, 3, 1, 2).reshape(len(array), -1)
        )
    return array


# %% Training
# One function for the file, for the head alone and for all layers.
def fit(model: Network, images, labels, epochs: int, rate: float) -> None:
    loss = pb.losses.sparse_softmax_cross_entropy
    model.compile(pb.optimizers.Adam(rate), loss, ["accuracy"], capture=True)
    model.fit(images, labels, epochs=epochs, batch_size=20, verbose=False)


def make_file(path: Path, images, labels) -> None:
    model = Network(10)
    fit(model, images, labels, 15, 2e-3)
    pb.checkpoint.save_weights(model, path, names=name, convert=to_torch)


# %% Reading the file
# The head is for other classes, so `ignore` leaves it as it is. A new head sends large
# gradients into a body that is right already: the body is frozen at first, and the head
# is trained alone.
def fine_tuned(path: Path, images, labels) -> Network:
    model = Network(10)
    model(images[:1])  # makes the variables
    read = pb.checkpoint.load_weights(
        model, path, names=name, convert=from_torch, ignore=["classifier.2.*"]
    )
    print(f"read {len(read.loaded)} of {len(model.variables)} variables")
    model.body.trainable = False
    fit(model, images, labels, 40, 1e-2)
    model.body.trainable = True
    fit(model, images, labels, 20, 5e-4)
    return model


# %%
CODE = np.array([3, 0, 7, 4, 1, 8, 5, 2, 9, 6], np.int32)  # of the digits 0 to 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=30, help="of the code")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="a file to draw images into")
    options = parser.parse_args()
    pb.random.seed(options.seed)

    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(options.seed).permutation(len(images))
    known, few, rest = np.split(order, [1200, 1200 + options.examples])

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        make_file(path, images[known], labels[known])
        model = fine_tuned(path, images[few], CODE[labels[few]])
    fresh = Network(10)
    fit(fresh, images[few], CODE[labels[few]], 60, 2e-3)
    for title, one in (("from the file", model), ("from nothing", fresh)):
        scores = one.evaluate(images[rest], CODE[labels[rest]], verbose=False)
        print(f"{title}: {scores['accuracy']:.3f}")
    if options.plot:
        guesses = pb.argmax(model(images[rest]), axis=1).numpy()
        draw(options.plot, images[rest], guesses, CODE[labels[rest]])


def draw(
    path: Path, images: np.ndarray, guesses: np.ndarray, right: np.ndarray
) -> None:
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(3, 12, figsize=(8, 2.7), layout="constrained")
    for i, place in enumerate(places.flat):
        place.imshow(images[i, ..., 0], cmap="gray_r")
        place.axis("off")
        color = "black" if guesses[i] == right[i] else "red"
        place.set_title("ABCDEFGHIJ"[guesses[i]], fontsize=9, color=color)
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
