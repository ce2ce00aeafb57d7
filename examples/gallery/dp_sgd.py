"""DP-SGD: trains without giving away single examples.

    uv run examples/gallery/dp_sgd.py

Differentially private gradient descent (Abadi et al., 2016) on scikit-learn's
handwritten digits. The gradient of each example is clipped to length 1, and noise is
added to their sum. So no example can change the weights much, and the program says how
much: epsilon, for a delta of 1e-4. More noise is a smaller epsilon, and a worse
network.
"""

from __future__ import annotations

import argparse
from math import comb, exp, log
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import pullback as pb

BATCH, DELTA = 128, 1e-4


# %% The gradient of each example
# `pb.grad` for one example and `pb.vmap` over the batch: the length of each gradient is
# known before they are added up. Examples are drawn independently, so that the size of
# a batch varies, as the theory wants; it is filled up with zeros to one shape, and
# weights of 0 leave these out.
def make_model() -> pb.Sequential:
    hidden = pb.layers.Dense(64, activation="tanh", input_shape=(64,))
    return pb.Sequential([hidden, pb.layers.Dense(10)])


def loss_of(values, model, image, label):
    logits = pb.functional_call(model, values, image[None])
    return pb.losses.sparse_softmax_cross_entropy(label[None], logits)


def make_step(model, noise: float, rate: float):
    gradients = pb.vmap(pb.grad(loss_of), in_axes=(None, None, 0, 0))
    optimizer = pb.optimizers.SGD(rate, momentum=0.9)

    @pb.function
    def step(images, labels, there):
        values = [v.value for v in model.trainable_variables]
        each = gradients(values, model, images, labels)
        squares = sum(pb.sum(g.reshape(len(g), -1) ** 2, axis=1) for g in each)
        weights = there / pb.maximum(1.0, pb.sqrt(squares))
        sums = [pb.einsum("i,i...->...", weights, g) for g in each]
        noisy = [(s + noise * pb.random.normal(s.shape)) / BATCH for s in sums]
        optimizer.apply_gradients(zip(noisy, model.trainable_variables, strict=True))

    return step


# %% What it gives away
# Rényi differential privacy of the Gaussian mechanism on random batches (Mironov,
# Talwar and Zhang, 2019), for whole orders, and from it epsilon.
def epsilon(noise: float, fraction: float, steps: int) -> float:
    if not noise:
        return np.inf

    def of_order(order: int) -> float:
        terms = (
            comb(order, k)
            * (1 - fraction) ** (order - k)
            * fraction**k
            * exp((k * k - k) / (2 * noise**2))
            for k in range(order + 1)
        )
        return steps * log(sum(terms)) / (order - 1) + log(1 / DELTA) / (order - 1)

    return min(of_order(order) for order in range(2, 33))


# %% Training
def train(model, images, labels, noise: float, steps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    step, room = (
        make_step(model, noise, 0.25),
        BATCH + 96,
    )  # eight standard deviations more
    for _ in range(steps):
        drawn = np.flatnonzero(rng.random(len(images)) < BATCH / len(images))
        chosen = np.concatenate([drawn, np.zeros(room - len(drawn), int)])
        there = (np.arange(room) < len(drawn)).astype(np.float32)
        step(images[chosen], labels[chosen], there)


# %%
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--noise", type=float, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="a file to draw the accuracies into")
    options = parser.parse_args()

    digits = load_digits()
    images = (digits.data / 8 - 1).astype(np.float32)
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(options.seed).permutation(len(images))
    test, training = ((images[i], labels[i]) for i in np.split(order, [360]))
    found = {}
    for noise in options.noise:
        pb.random.seed(options.seed)
        model = make_model()
        train(model, *training, noise, options.steps, options.seed)
        guesses = pb.argmax(model(test[0]), axis=1).numpy()
        told = epsilon(noise, BATCH / len(training[0]), options.steps)
        found[told] = accuracy = float(np.mean(guesses == test[1]))
        print(f"noise {noise:g}: epsilon {told:.1f}, accuracy {accuracy:.3f}")
    if options.plot:
        draw(options.plot, found)


def draw(path: Path, found: dict[float, float]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    names = ["without noise" if e == np.inf else f"epsilon {e:.1f}" for e in found]
    axes.bar(names, list(found.values()))
    axes.axhline(0.1, color="grey", lw=0.8)
    axes.set(ylabel="accuracy", ylim=(0, 1))
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
