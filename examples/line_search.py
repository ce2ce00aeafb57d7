"""Minimizes Rosenbrock's function by a backtracking line search, and differentiates the search.

    uv run examples/line_search.py

A `while` on values decides the length of each step. A tape records the ops that ran, so the point
in which the search ends has derivatives with respect to all that it depends on: here the curvature
of the function.
"""

from __future__ import annotations

import argparse

import pullback as pb


def rosenbrock(point, curvature):
    """A curved valley (Rosenbrock, 1960). The minimum is 0, at (1, 1)."""
    x, y = point[0], point[1]
    return (1 - x) ** 2 + curvature * (y - x * x) ** 2


def descend(f, point, share: float = 1e-4):
    """One step down the gradient, halved until `f` falls by enough (Armijo, 1966)."""
    value, gradient = pb.value_and_grad(f)(point)
    slope = pb.sum(gradient * gradient)
    step = 1.0
    while f(point - step * gradient) > value - share * step * slope:
        step /= 2
    return point - step * gradient, step


def search(start, curvature, steps: int):
    """The value at each point that a search of so many steps visits, and the last point."""

    def f(point):
        return rosenbrock(point, curvature)

    point, visited = start, []
    for _ in range(steps):
        visited.append((f(point), point))
        point, _ = descend(f, point)
    visited.append((f(point), point))
    return visited


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--curvature", type=float, default=10.0)
    parser.add_argument("--device", help="such as cpu or gpu:0; the first GPU if there is one")
    options = parser.parse_args()
    try:
        pb.set_default_device(options.device)
    except pb.errors.PullbackError as error:
        parser.error(str(error))

    start = pb.asarray([-1.2, 1.0], dtype="float64")
    curvature = pb.asarray(options.curvature, dtype="float64")
    visited = search(start, curvature, options.steps)
    print("step       value         x         y")
    shown = sorted({0, 1, 2, 5, *(options.steps * part // 8 for part in range(1, 9))})
    for step in shown:
        if step <= options.steps:
            value, point = visited[step]
            print(f"{step:4d}  {value:10.3e}  {point[0]:8.5f}  {point[1]:8.5f}")

    def after_ten(curvature):
        return search(start, curvature, 10)[-1][0]

    derivative = pb.grad(after_ten)(curvature)
    h = 1e-6
    difference = (after_ten(curvature + h) - after_ten(curvature - h)) / (2 * h)
    print()
    print("the value after 10 steps, differentiated by the curvature")
    print(f"by the tape:     {derivative:.8f}")
    print(f"by differences:  {difference:.8f}")


if __name__ == "__main__":
    main()
