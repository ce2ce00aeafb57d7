"""Captured steps on the JAX backend beside hand-written `jax.jit` of the same, in one process.

    JAX_PLATFORMS=cpu python benchmarks/jax_graphs.py mlp transformer

in an environment with pullback-jax. All take turns in blocks of some milliseconds, so that they
meet the same machine; what counts is the median of the ratios, to `jax.jit` with the old state
donated and without: of times, and of processor times, in which other programs matter less. Before
that, the losses of twenty float32 steps are compared with those of the hand-written step in
float64.
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


def seconds(block: Block, count: int) -> tuple[float, float]:
    """The time of a block, and the processor time of all threads."""
    began = time.perf_counter(), time.process_time()
    block(count)
    return time.perf_counter() - began[0], time.process_time() - began[1]


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
        count = max(1, round(0.02 / seconds(blocks[1], 1)[0]))
        times = [[seconds(block, count) for block in blocks] for _ in range(turns)]
    text = f"{name:<14}"
    for clock in (0, 1):
        mine, *others = zip(*([block[clock] for block in turn] for turn in times), strict=True)
        micro = statistics.median(mine) / count * 1e6
        ratios = [
            statistics.median(x / y for x, y in zip(mine, other, strict=True)) for other in others
        ]
        text += f" {micro:>8.0f} us {ratios[0]:>8.3f} {ratios[1]:>8.3f}"
    return f"{text} {errors[0]:>9.1e} {errors[1]:>9.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["mlp", "transformer"])
    parser.add_argument("--turns", type=int, default=41)
    given = parser.parse_args()
    columns = f"{'donated':>8} {'without':>8}"
    print(
        f"{'workload':<14} {'time':>11} {columns} {'processor':>11} {columns} {'error':>9} "
        f"{'jax.jit':>9}"
    )
    for name in given.names:
        print(compare(name, given.turns), flush=True)


if __name__ == "__main__":
    main()
