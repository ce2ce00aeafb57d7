"""PINN: solves the heat equation with a network.

    uv run examples/gallery/pinn.py

A physics-informed network (Raissi, Perdikaris and Karniadakis, 2019) u(t, x) for the
temperature of a rod: u_t = a u_xx, with ends at 0 and two sines at the start. It sees
no solution: the loss is how far it is from the equation at points that are drawn anew
in each step. The true solution, which is known here, is for the comparison at the end.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import pullback as pb

A = 0.05


def solution(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    parts = (
        k**-1 * np.exp(-A * (np.pi * k) ** 2 * t) * np.sin(np.pi * k * x)
        for k in (1, 3)
    )
    return sum(parts)


# %% The model
# The factor x (1 - x) has the ends at 0 whatever the network says, and t leaves the
# start as it is given.
class Rod(pb.Model):
    def __init__(self, units: int = 32) -> None:
        super().__init__()
        hidden = [pb.layers.Dense(units, activation="tanh") for _ in range(3)]
        self.network = pb.Sequential([*hidden, pb.layers.Dense(1)])

    def call(self, t, x):
        start = pb.sin(np.pi * x) + pb.sin(3 * np.pi * x) / 3
        inside = self.network(2 * pb.stack([t, x], axis=-1) - 1)[..., 0]
        return start + t * x * (1 - x) * inside


# %% The equation
# `pb.jvp` has the derivative of the values at all points in the direction of x, without
# a loop over points; that of a `pb.jvp` is the second one.
def residual(model: Rod, t, x):
    ones = pb.ones_like(x)

    def slope(x):
        return pb.jvp(lambda x: model(t, x), [x], [ones])[1]

    u_xx = pb.jvp(slope, [x], [ones])[1]
    u_t = pb.jvp(lambda t: model(t, x), [t], [ones])[1]
    return u_t - A * u_xx


# %% Training
# Three derivatives deep: the gradient of a loss that has second derivatives in it. All
# of it is one program.
def train(model: Rod, steps: int, points: int = 256) -> list[float]:
    rate = pb.optimizers.schedules.cosine_decay(5e-3, steps)
    optimizer = pb.optimizers.Adam(rate)

    @pb.function
    def step():
        t, x = pb.unstack(pb.random.uniform((2, points)))
        with pb.GradientTape() as tape:
            loss = pb.mean(residual(model, t, x) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    model(pb.zeros(1), pb.zeros(1))  # makes the variables
    return [float(step()) for _ in range(steps)]


# %%
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="a file to draw the solution into")
    options = parser.parse_args()
    pb.random.seed(options.seed)

    model = Rod()
    losses = train(model, options.steps)
    print(f"loss: {losses[0]:.2g}, then {np.mean(losses[-100:]):.2g}")
    t, x = np.meshgrid(np.linspace(0, 1, 50), np.linspace(0, 1, 101), indexing="ij")
    t, x = t.astype(np.float32), x.astype(np.float32)
    found, true = model(t, x).numpy(), solution(t, x)
    error = np.linalg.norm(found - true) / np.linalg.norm(true)
    print(f"error beside the true solution: {error:.2%}")
    if options.plot:
        draw(options.plot, found, true)


def draw(path: Path, found: np.ndarray, true: np.ndarray) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    x = np.linspace(0, 1, 101)
    for i, color in zip((0, 6, 16, 49), ("C0", "C1", "C2", "C3"), strict=True):
        axes.plot(x, true[i], color=color, lw=4, alpha=0.3)
        axes.plot(x, found[i], color=color, label=f"t = {i / 49:.2f}")
    axes.set(xlabel="x", ylabel="u; the true one is wide")
    axes.legend()
    figure.savefig(path, dpi=65)


if __name__ == "__main__":
    main()
