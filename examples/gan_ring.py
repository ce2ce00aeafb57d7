"""Trains a generative adversarial network on points around eight centres on a ring.

    uv run examples/gan_ring.py                        # some seconds
    uv run examples/gan_ring.py --picture ring.png     # draws the points too

The generator makes points from noise; the discriminator learns to tell them from true ones. Each
has an optimizer of its own, and `fit` calls `train_step` of the model that has both.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import pullback as pb

NOISE = 4
CENTRES = 8
WIDTH = 0.1
ANGLES = 2 * np.pi * np.arange(CENTRES) / CENTRES
RING = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).astype(np.float32)


def true_points(rng: np.random.Generator, count: int) -> np.ndarray:
    """Points around centres that are drawn with equal probability."""
    centres = RING[rng.integers(CENTRES, size=count)]
    return centres + WIDTH * rng.standard_normal((count, 2), np.float32)


# [model]
class GAN(pb.Model):
    """A generator and a discriminator, and a step that trains both."""

    def __init__(self, units: int = 64) -> None:
        super().__init__()
        self.generator = network(units, 2)
        self.discriminator = network(units, 1)
        self.of_generator = pb.optimizers.Adam(2e-3, beta1=0.5)
        self.of_discriminator = pb.optimizers.Adam(2e-3, beta1=0.5)

    def call(self, noise):
        return self.generator(noise)

    def train_step(self, inputs, targets, weights):
        noise = pb.random.normal((len(inputs), NOISE))
        made = self.generator(noise, training=True)

        # The discriminator: 1 for true points, 0 for those that were made.
        with pb.GradientTape() as tape:
            loss_d = loss(1.0, self.discriminator(inputs, training=True))
            loss_d += loss(0.0, self.discriminator(made, training=True))
        step(self.of_discriminator, tape, loss_d, self.discriminator)

        # The generator: its points should be taken for true ones.
        with pb.GradientTape() as tape:
            made = self.generator(noise, training=True)
            loss_g = loss(1.0, self.discriminator(made, training=True))
        step(self.of_generator, tape, loss_g, self.generator)
        return {"discriminator": loss_d, "generator": loss_g}


def network(units: int, outputs: int) -> pb.Sequential:
    hidden = [pb.layers.Dense(units, activation="relu") for _ in range(2)]
    return pb.Sequential([*hidden, pb.layers.Dense(outputs)])


def loss(label: float, logits):
    """The cross entropy of one label for all points."""
    return pb.losses.sigmoid_cross_entropy(pb.full_like(logits, label), logits)


def step(optimizer, tape, loss, network) -> None:
    """Moves the variables of one network; those of the other stay."""
    variables = network.trainable_variables
    gradients = tape.gradient(loss, variables)
    optimizer.apply_gradients(zip(gradients, variables, strict=True))


# [end]
def near(points: np.ndarray) -> tuple[float, np.ndarray]:
    """The fraction of points within four widths of a centre, and those of each centre."""
    distances = np.linalg.norm(points[:, None] - RING, axis=-1)
    close = distances.min(axis=1) < 4 * WIDTH
    shares = np.bincount(distances.argmin(axis=1)[close], minlength=CENTRES) / len(points)
    return float(close.mean()), shares


def draw(path: Path, true: np.ndarray, made: np.ndarray) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(7, 3.5), layout="constrained", sharey=True)
    for one, points, title in zip(axes, (true, made), ("true", "made"), strict=True):
        one.scatter(*points.T, s=2, alpha=0.5)
        one.set(title=title, aspect="equal", xlim=(-1.6, 1.6), ylim=(-1.6, 1.6))
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30, help="of 32 steps each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="a file to draw the points into")
    parser.add_argument("--device", help="such as cpu or gpu:0; the first GPU if there is one")
    options = parser.parse_args()
    try:
        pb.set_default_device(options.device)
    except pb.errors.PullbackError as error:
        parser.error(str(error))
    pb.random.seed(options.seed)

    rng = np.random.default_rng(options.seed)
    data = pb.data.Dataset.from_tensor_slices(true_points(rng, 32 * 128))
    model = GAN()
    model.fit(data.shuffle(seed=options.seed).batch(128), epochs=options.epochs, verbose=False)

    made = model(pb.random.normal((2000, NOISE))).numpy()
    close, shares = near(made)
    print(f"points near a centre: {close:.2f}")
    print("of each centre:", " ".join(f"{share:.2f}" for share in shares))
    if options.picture:
        draw(options.picture, true_points(rng, 2000), made)


if __name__ == "__main__":
    main()
