"""Captured steps on the MLX backend beside hand-written `mx.compile` of the same, in one process.

    python benchmarks/mlx_graphs.py mlp transformer

in an environment with pullback-mlx. Both take turns; what counts is the median of the ratios of
their processor times, in which other programs matter less. Before that, the losses of twelve steps
are compared.
"""

from __future__ import annotations

import argparse
import statistics
import time

from workloads import with_mlx, with_pullback
from workloads.shared import Block

import pullback as pb

STEPS = 12


def seconds(block: Block, count: int) -> float:
    """The processor time of a step, of all threads."""
    began = time.process_time()
    block(count)
    return (time.process_time() - began) / count


def compare(name: str, turns: int) -> str:
    """A line with the times of a step, their ratio, and how far the losses are apart."""
    with pb.device("mlx"):
        blocks = [made.builders(compiled=True)[name]() for made in (with_pullback, with_mlx)]
        losses = [[float(block(1)) for _ in range(STEPS)] for block in blocks]
        apart = max(abs(x - y) for x, y in zip(*losses, strict=True))
        count = max(1, round(0.05 / seconds(blocks[1], 1)))
        times = [[seconds(block, count) for block in blocks] for _ in range(turns)]
    mine, other = (statistics.median(one) * 1e3 for one in zip(*times, strict=True))
    ratio = statistics.median(x / y for x, y in times)
    return f"{name:<14} {mine:>9.2f} {other:>11.2f} {ratio:>7.3f} {apart:>9.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["mlp", "transformer"])
    parser.add_argument("--turns", type=int, default=11)
    given = parser.parse_args()
    print(f"{'workload':<14} {'ms, mine':>9} {'mx.compile':>11} {'ratio':>7} {'losses':>9}")
    for name in given.names:
        print(compare(name, given.turns), flush=True)


if __name__ == "__main__":
    main()
