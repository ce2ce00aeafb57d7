"""Captured steps on the JAX backend beside hand-written `jax.jit` of the same, in one process.

    JAX_PLATFORMS=cpu python benchmarks/jax_graphs.py mlp transformer

in an environment with pullback-jax. Both take turns in blocks of some milliseconds, so that they meet
the same machine; what counts is the median of the ratios. Before that, the losses of twenty steps
are compared.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from workloads import with_jax, with_pullback
from workloads.shared import Block

import pullback as pb

STEPS = 20


def seconds(block: Block, count: int) -> float:
    began = time.perf_counter()
    block(count)
    return time.perf_counter() - began


def compare(name: str, turns: int) -> str:
    """A line with the two times of a step, and the median of their ratios."""
    with pb.device("jax:cpu"):
        ours = with_pullback.builders(compiled=True)[name]()
        theirs = with_jax.builders(compiled=True)[name]()
        if name.startswith("infer"):
            losses = [[np.asarray(block(3)) for block in (ours, theirs)]]
        else:
            losses = [[float(block(1)) for block in (ours, theirs)] for _ in range(STEPS)]
        apart = max(np.max(np.abs(a - b) / (np.abs(b) + 1e-3)) for a, b in losses)
        count = max(1, round(0.05 / seconds(theirs, 1)))
        pairs = [(seconds(ours, count), seconds(theirs, count)) for _ in range(turns)]
    a, b = (statistics.median(each) / count * 1e6 for each in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    return f"{name:<20} {a:>10.0f} us {b:>10.0f} us {ratio:>7.3f} {apart:>10.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["mlp", "transformer"])
    parser.add_argument("--turns", type=int, default=21)
    given = parser.parse_args()
    print(f"{'workload':<20} {'pullback':>13} {'jax.jit':>13} {'ratio':>7} {'apart':>10}")
    for name in given.names:
        print(compare(name, given.turns), flush=True)


if __name__ == "__main__":
    main()
