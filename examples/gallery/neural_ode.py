"""Neural ODE: learns the law of a motion from glimpses of it.

    uv run examples/gallery/neural_ode.py

A neural ordinary differential equation (Chen et al., 2018): a network is the right side
of y' = f(y), and learns it from noisy measurements of a pendulum with friction. The
solver is a scan of Runge-Kutta steps, and the gradient goes through all of them. At the
end the learned pendulum swings from a start that it has never seen.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import pullback as pb

STEP, LENGTH = 0.1, 10  # of a measured piece: a second


def pendulum(y):
    """The true law: an angle and its speed."""
    angle, speed = y[..., 0], y[..., 1]
    return pb.stack([speed, -2 * pb.sin(angle) - 0.2 * speed], axis=-1)


# %% The solver
# Four evaluations of f a step. What `pb.scan` keeps for the gradient is the state
# before each step; the inside is computed once more.
def solve(f, start, steps: int):
    """The states after each step, (steps, ..., 2)."""

    def step(y, _):
        k1 = f(y)
        k2 = f(y + STEP / 2 * k1)
        k3 = f(y + STEP / 2 * k2)
        k4 = f(y + STEP * k3)
        y = y + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y

    return pb.scan(step, start, None, length=steps)[1]


# %% Training
# The loss is over whole pieces of a motion, from where each begins.
def train(model, pieces: np.ndarray, steps: int, seed: int) -> list[float]:
    rate = pb.optimizers.schedules.cosine_decay(3e-2, steps)
    optimizer = pb.optimizers.Adam(rate)

    @pb.function
    def step(measured):
        with pb.GradientTape() as tape:
            states = solve(model, measured[0], LENGTH)
            loss = pb.losses.mean_squared_error(measured[1:], states)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    rng = np.random.default_rng(seed)
    chosen = (rng.integers(0, pieces.shape[1], 64) for _ in range(steps))
    return [float(step(pieces[:, some])) for some in chosen]


# %%
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="a file to draw the motions into")
    options = parser.parse_args()
    pb.random.seed(options.seed)

    rng = np.random.default_rng(options.seed)
    starts = rng.uniform(-2, 2, (256, 2)).astype(np.float32)
    pieces = np.concatenate([starts[None], solve(pendulum, starts, LENGTH).numpy()])
    pieces += 0.01 * rng.standard_normal(pieces.shape, np.float32)

    model = pb.Sequential([pb.layers.Dense(64, activation="silu"), pb.layers.Dense(2)])
    losses = train(model, pieces, options.steps, options.seed)
    print(f"loss: {losses[0]:.3f}, then {np.mean(losses[-50:]):.5f}")

    start = np.array([1.5, 0.0], np.float32)
    true, learned = (
        solve(f, start[None], 150)[:, 0].numpy() for f in (pendulum, model)
    )
    error = np.abs(true - learned)[:, 0].max()
    swing = np.abs(true).max()
    print(f"largest error of the angle in 15 s: {error:.3f}; it swings by {swing:.1f}")
    if options.plot:
        draw(options.plot, true, learned)


def draw(path: Path, true: np.ndarray, learned: np.ndarray) -> None:
    import matplotlib.pyplot as plt

    figure, (motion, plane) = plt.subplots(
        1, 2, figsize=(8, 3), layout="constrained", width_ratios=[2, 1]
    )
    seconds = STEP * np.arange(1, len(true) + 1)
    for states, style in ((true, {"lw": 4, "alpha": 0.3}), (learned, {})):
        motion.plot(seconds, states[:, 0], color="C0", **style)
        plane.plot(*states.T, color="C0", **style)
    motion.set(xlabel="seconds", ylabel="angle; the true one is wide")
    plane.set(xlabel="angle", ylabel="speed")
    figure.savefig(path, dpi=65)


if __name__ == "__main__":
    main()
