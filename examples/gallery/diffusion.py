"""Diffusion: makes points of a spiral from noise.

    uv run examples/gallery/diffusion.py

Denoising diffusion (Ho, Jain and Abbeel, 2020) in two dimensions. Noise is added to
points of a spiral in 100 steps, until nothing of the spiral is left. A network learns
to see the noise in a point. From noise it then goes back, step by step, to points of
the spiral.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import pullback as pb

STEPS = 100
WIDTH = 0.03  # of the spiral's line
BETAS = np.linspace(1e-3, 0.1, STEPS, dtype=np.float32)
KEPT = np.cumprod(1 - BETAS)  # the fraction of a point's variance after each step


def spiral(angles: np.ndarray) -> np.ndarray:
    radius = angles[:, None] / 10
    return radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def points(rng: np.random.Generator, count: int) -> np.ndarray:
    line = spiral(rng.uniform(3, 13, count))
    return (line + WIDTH * rng.standard_normal(line.shape)).astype(np.float32)


# %% The model
# It gets a point and the number of its step, each as sines of several frequencies, and
# returns the noise.
class Noise(pb.Model):
    def __init__(self, units: int = 96) -> None:
        super().__init__()
        hidden = [pb.layers.Dense(units, activation="silu") for _ in range(3)]
        self.network = pb.Sequential([*hidden, pb.layers.Dense(2)])

    def call(self, x, step):
        time = pb.astype(step, pb.float32)[:, None] / STEPS
        angles = (
            pb.concat([x, time], axis=1)[..., None] * 2.0 ** pb.arange(5)
        ).reshape(len(x), -1)
        return self.network(pb.concat([x, pb.sin(angles), pb.cos(angles)], axis=1))


# %% Training
# A point gets the noise of all steps up to one that is drawn at once, because sums of
# normal numbers are normal. Steps and noise are drawn in the program.
def train(model: Noise, data: np.ndarray, steps: int):
    """The losses, and the optimizer, which has averages of the weights."""
    rate = pb.optimizers.schedules.cosine_decay(3e-3, steps)
    optimizer = pb.optimizers.Adam(rate, ema_decay=0.99)
    kept = pb.asarray(KEPT)

    @pb.function
    def step(x):
        number = pb.random.integers((len(x),), 0, STEPS)
        noise = pb.random.normal(x.shape)
        left = pb.take(kept, number)[:, None]
        noisy = pb.sqrt(left) * x + pb.sqrt(1 - left) * noise
        with pb.GradientTape() as tape:
            loss = pb.losses.mean_squared_error(noise, model(noisy, number))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    batches = pb.data.Dataset.from_tensor_slices(data).shuffle(seed=0).repeat()
    losses = [float(step(x)) for x in batches.batch(256).take(steps)]
    return losses, optimizer


# %% Back from noise
# One captured scan: the carry is the points, and each step takes its number and fresh
# noise. The weights are the averages that the optimizer keeps.
@pb.function
def sample(model, start, noise):
    def back(x, inputs):
        step, beta, left, extra = inputs
        seen = model(x, pb.full((len(x),), step))
        x = (x - beta / pb.sqrt(1 - left) * seen) / pb.sqrt(1 - beta)
        x = x + pb.where(step > 0, pb.sqrt(beta), 0.0) * extra
        return x, x

    steps = pb.arange(STEPS)
    return pb.scan(
        back, start, (steps, pb.asarray(BETAS), pb.asarray(KEPT), noise), reverse=True
    )


# %%
def distances(points: np.ndarray) -> np.ndarray:
    """From each point to the spiral."""
    line = spiral(np.linspace(3, 13, 500))
    return np.linalg.norm(points[:, None] - line, axis=-1).min(axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="a file to draw the points into")
    options = parser.parse_args()
    pb.random.seed(options.seed)

    data = points(np.random.default_rng(options.seed), 4096)
    model = Noise()
    losses, optimizer = train(model, data, options.steps)
    print(f"loss: {np.mean(losses[-100:]):.3f}")
    start, extra = pb.random.normal((1000, 2)), pb.random.normal((STEPS, 1000, 2))
    with optimizer.averaged():
        made, path = sample(model, start, extra)
    stages = {"noise": start.numpy(), "made": made.numpy(), "true": data[:1000]}
    for name, some in stages.items():
        print(f"{name}: {np.mean(distances(some) < 4 * WIDTH):.2f} near the spiral")
    if options.plot:
        draw(options.plot, [start.numpy(), *(path[i].numpy() for i in (40, 15, 0))])


def draw(path: Path, stages: list[np.ndarray]) -> None:
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(1, 4, figsize=(9, 2.5), layout="constrained")
    for place, some in zip(places, stages, strict=True):
        place.scatter(*some.T, s=1, alpha=0.6)
        place.set(xlim=(-2, 2), ylim=(-2, 2), aspect="equal")
        place.axis("off")
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
