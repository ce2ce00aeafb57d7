"""Measures the cost of an op, forward and back, in a graph 1,000 and 100,000 ops deep.

    uv run benchmarks/depth.py

Cost is to grow linearly with Python's garbage collector as it is: an op of the deep graph should
cost at most 3 times one of the shallow graph, freeing included.
"""

from __future__ import annotations

import statistics
import time

import pullback as pb


def per_op(depth: int, repeats: int) -> float:
    """Microseconds per op: recorded, pulled back and freed."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        x = pb.asarray(1.0)
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(depth):
                y = y * 1.0
        gradient = tape.gradient(y, x)
        del tape, x, y, gradient
        times.append((time.perf_counter() - start) / depth)
    return statistics.median(times) * 1e6


def main() -> None:
    shallow, deep = per_op(1000, 31), per_op(100_000, 5)
    print(f"{shallow:.2f} us an op at 1,000, {deep:.2f} us at 100,000: {deep / shallow:.2f} times")


if __name__ == "__main__":
    main()
