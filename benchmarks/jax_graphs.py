"""Captured steps on the JAX backend beside hand-written `jax.jit` of the same, in one process.

    JAX_PLATFORMS=cpu python benchmarks/jax_graphs.py mlp transformer

in an environment with pullback-jax. All take turns in blocks of some milliseconds, so that they
meet the same machine; what counts is the median of the ratios, to `jax.jit` with the old state
donated and without. Before that, the losses of twenty float32 steps are compared with those of the
hand-written step in float64.
"""

from __future__ import annotations

import argparse
import statistics
import time

import jax
import numpy as np
from workloads import with_jax, with_pullback
from workloads.shared import Block

import pullback as pb

STEPS = 20


def seconds(block: Block, count: int) -> float:
    began = time.perf_counter()
    block(count)
    return time.perf_counter() - began


def losses(name: str, block: Block) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The losses of the first steps, or an output."""
    if name.startswith("infer"):
        return np.asarray(block(3), np.float64).ravel()
    return np.asarray([float(block(1)) for _ in range(STEPS)])


def compare(name: str, turns: int) -> str:
    """A line with the times of a step, the medians of their ratios, and the errors of losses."""
    with pb.device("jax:cpu"):
        blocks = [
            with_pullback.builders(compiled=True)[name](),
            with_jax.builders(compiled=True)[name](),
            with_jax.builders(compiled=True, donated=False)[name](),
        ]
        found = [losses(name, block) for block in blocks]
        with jax.enable_x64(True):
            wide = with_jax.builders(compiled=True, dtype=np.float64)[name]()
            exact = losses(name, wide)
        errors = [np.max(np.abs(each - exact) / (np.abs(exact) + 1e-3)) for each in found]
        count = max(1, round(0.02 / seconds(blocks[1], 1)))
        times = [[seconds(block, count) for block in blocks] for _ in range(turns)]
    micro = [statistics.median(each) / count * 1e6 for each in zip(*times, strict=True)]
    ratios = [statistics.median(turn[0] / turn[i] for turn in times) for i in (1, 2)]
    return (
        f"{name:<14} {micro[0]:>10.0f} us {micro[1]:>10.0f} us {ratios[0]:>8.3f} {ratios[1]:>9.3f}"
        f" {errors[0]:>10.1e} {errors[1]:>10.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["mlp", "transformer"])
    parser.add_argument("--turns", type=int, default=41)
    given = parser.parse_args()
    print(
        f"{'workload':<14} {'pullback':>13} {'jax.jit':>13} {'donated':>8} {'without':>9} "
        f"{'error':>10} {'jax.jit':>10}"
    )
    for name in given.names:
        print(compare(name, given.turns), flush=True)


if __name__ == "__main__":
    main()
