"""Gives functions better gradients than their ops would: log(1 + exp(x)), and clipping by norm.

uv run examples/custom_gradients.py
"""

from __future__ import annotations

import argparse

import pullback as pb


def plain(x):
    """log(1 + exp(x)). For large x the chain rule divides infinity by infinity."""
    return pb.log(1 + pb.exp(x))


@pb.custom_gradient
def log1pexp(x):
    """The same, with its derivative written so that it is right everywhere."""
    e = pb.exp(x)

    def gradient(g):
        return g * (1 - 1 / (1 + e))

    return pb.log(1 + e), gradient


def clip_gradient(x, norm: float):
    """`x` itself; a gradient on its way back is made no longer than `norm`."""

    @pb.custom_gradient
    def identity(x):
        return x, lambda g: pb.clip_by_norm(g, max_norm=norm)

    return identity(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="such as cpu or gpu:0; the first GPU if there is one")
    options = parser.parse_args()
    try:
        pb.set_default_device(options.device)
    except pb.errors.PullbackError as error:
        parser.error(str(error))

    print("The gradient of log(1 + exp(x))")
    print("     x       plain      custom")
    for x in (-10.0, 0.0, 1.0, 10.0, 100.0):
        print(f"{x:6.1f}  {pb.grad(plain)(x):10.6f}  {pb.grad(log1pexp)(x):10.6f}")

    print()
    print("The gradient of sum(x^2) at (3, 4), and its norm")
    for name, function in (
        ("as it is", lambda x: pb.sum(x * x)),
        ("clipped to 1", lambda x: pb.sum(clip_gradient(x, 1.0) ** 2)),
    ):
        gradient = pb.grad(function)([3.0, 4.0])
        norm = pb.sqrt(pb.sum(gradient * gradient))
        print(f"{name:12}  ({gradient[0]:.3f}, {gradient[1]:.3f})  {norm:.3f}")


if __name__ == "__main__":
    main()
