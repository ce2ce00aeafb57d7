"""MAML: learns a sine from ten points in one step.

    uv run examples/gallery/maml.py

Model-agnostic meta-learning (Finn, Abbeel and Levine, 2017). A task is a sine of some
height and phase. The weights are trained so that one step of gradient descent on ten
points of a new task fits it. A network that is trained on all sines alike, with as many
steps, is the comparison: it can only say their mean, which is zero.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import pullback as pb

POINTS, RATE = 10, 0.02  # of a task, and of the step on it


def tasks(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
    """Points to learn from and points to test with: four arrays (count, POINTS, 1)."""
    height = rng.uniform(0.1, 5, (count, 1, 1))
    phase = rng.uniform(0, np.pi, (count, 1, 1))
    x = rng.uniform(-5, 5, (count, 2 * POINTS, 1))
    y = height * np.sin(x - phase)
    parts = (x[:, :POINTS], y[:, :POINTS], x[:, POINTS:], y[:, POINTS:])
    return tuple(part.astype(np.float32) for part in parts)


# %% A step on a task
# `pb.functional_call` calls the model with other values of its variables. So a step is
# a function from values to values, and a gradient goes through it. To assign to the
# variables instead would lose it: a tape does not follow assignments.
def make_model() -> pb.Sequential:
    return pb.Sequential(
        [
            pb.layers.Dense(40, activation="relu", input_shape=(1,)),
            pb.layers.Dense(40, activation="relu"),
            pb.layers.Dense(1),
        ]
    )


def loss_of(values, model, x, y):
    return pb.mean((pb.functional_call(model, values, x) - y) ** 2)


def adapted(values, model, x, y, steps: int):
    for _ in range(steps):
        slopes = pb.grad(loss_of)(values, model, x, y)
        values = pb.tree.map(lambda v, slope: v - RATE * slope, values, slopes)
    return values


# %% Training
# `pb.vmap` does the step on all tasks at once, each with weights of its own. With 0
# steps this is training on all tasks alike.
def train(model, steps: int, adapting: int, seed: int) -> list[float]:
    optimizer = pb.optimizers.Adam(pb.optimizers.schedules.cosine_decay(3e-3, steps))

    def after(values, x, y, new_x, new_y):
        values = adapted(values, model, x, y, adapting)
        return loss_of(values, model, new_x, new_y)

    @pb.function
    def step(*some):
        with pb.GradientTape() as tape:
            values = [v.value for v in model.trainable_variables]
            axes = (None, *[0] * len(some))
            loss = pb.mean(pb.vmap(after, in_axes=axes)(values, *some))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    rng = np.random.default_rng(seed)
    return [float(step(*tasks(rng, 25))) for _ in range(steps)]


def errors(model, steps: int) -> np.ndarray:
    """The mean squared error on new tasks after 0 to `steps` steps on each."""
    new = tasks(np.random.default_rng(99), 200)
    values = [v.value for v in model.trainable_variables]

    def history(x, y, new_x, new_y):
        stages = (adapted(values, model, x, y, n) for n in range(steps + 1))
        return pb.stack([loss_of(stage, model, new_x, new_y) for stage in stages])

    return pb.mean(pb.vmap(history)(*new), axis=0).numpy()


# %%
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="a file to draw the errors into")
    options = parser.parse_args()

    found = {}
    for name, adapting in (("on all alike", 0), ("MAML", 1)):
        pb.random.seed(options.seed)
        model = make_model()
        train(model, options.steps, adapting, options.seed)
        found[name] = errors(model, 5)
        before, after = found[name][:2]
        print(f"{name}: error {before:.2f}, after a step {after:.2f}")
    if options.plot:
        draw(options.plot, found)


def draw(path: Path, found: dict[str, np.ndarray]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    for name, values in found.items():
        axes.plot(values, "o-", label=name)
    axes.set(
        xlabel="steps on the ten points of a new task",
        ylabel="squared error",
        ylim=(0, 12),
    )
    axes.legend()
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
