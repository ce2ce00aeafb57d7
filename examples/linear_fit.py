"""Fits a line to noisy points: once with a tape and a loop, once with a model and an optimizer.

    uv run examples/linear_fit.py

The points lie on y = 3x + 2, with normal noise of variance 1, so that the best loss is near 1.
"""

from __future__ import annotations

import argparse

import pullback as pb

SLOPE, INTERCEPT = 3.0, 2.0


def make_points(count: int, generator: pb.Generator) -> tuple[pb.Tensor, pb.Tensor]:
    inputs = generator.normal((count,))
    noise = generator.normal((count,))
    return inputs, inputs * SLOPE + INTERCEPT + noise


def fit_by_hand(inputs, targets, steps: int, rate: float) -> tuple[list[float], float, float]:
    """Gradient descent with nothing but a tape; gives the losses, the slope, the intercept."""
    w = pb.Variable(5.0, name="w")
    b = pb.Variable(10.0, name="b")
    losses = []
    for _ in range(steps):
        with pb.GradientTape() as tape:
            error = inputs * w + b - targets
            loss = pb.mean(error * error)
        dw, db = tape.gradient(loss, [w, b])
        w.assign_sub(rate * dw)
        b.assign_sub(rate * db)
        losses.append(float(loss))
    return losses, float(w), float(b)


class Line(pb.Model):
    """The same, as a model: its variables are found in its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.w = pb.Variable(5.0, name="w")
        self.b = pb.Variable(10.0, name="b")

    def call(self, x):
        return x * self.w + self.b


def loss_of(model, inputs, targets):
    return pb.losses.mean_squared_error(targets, model(inputs))


def fit_model(inputs, targets, steps: int, rate: float) -> tuple[list[float], float, float]:
    """The same with a model and an optimizer."""
    model = Line()
    optimizer = pb.optimizers.SGD(rate)
    value_and_gradients = pb.implicit_value_and_gradients(loss_of)
    losses = []
    for _ in range(steps):
        loss, pairs = value_and_gradients(model, inputs, targets)
        optimizer.apply_gradients(pairs)
        losses.append(float(loss))
    return losses, float(model.w), float(model.b)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=0.01, help="the learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="such as cpu or gpu:0; the first GPU if there is one")
    options = parser.parse_args()
    try:
        pb.set_default_device(options.device)
    except pb.errors.PullbackError as error:
        parser.error(str(error))

    generator = pb.Generator(options.seed)
    by_hand = fit_by_hand(*make_points(1000, generator), 200, options.rate)
    by_model = fit_model(*make_points(2000, generator), 300, options.rate)

    print("step    loss by hand    loss of the model")
    for step in range(0, 300, 50):
        left = f"{by_hand[0][step]:.3f}" if step < 200 else ""
        print(f"{step:4d}    {left:>12}    {by_model[0][step]:17.3f}")
    print()
    print("                 loss       w       b")
    for name, (losses, w, b) in (("by hand", by_hand), ("model", by_model)):
        print(f"{name:11}  {losses[-1]:8.3f}  {w:6.3f}  {b:6.3f}")
    print(f"{'the line':11}  {'':8}  {SLOPE:6.3f}  {INTERCEPT:6.3f}")


if __name__ == "__main__":
    main()
