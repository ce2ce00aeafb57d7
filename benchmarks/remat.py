"""Measures `pb.remat` on a deep transformer: the peak of a step's memory, its time, its bits.

    uv run benchmarks/remat.py
    uv run benchmarks/remat.py --layers 12 --dropout 0.1

Each value is that of a step with `Sequential(..., remat=True)` over one without, op by op and
captured. A peak is what a step needs beside what there is between steps, in a process of its own;
times are medians of steps in turns. Bars: 0.35 of the peak, 1.4 times the time, the same bits.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb

WIDTH, HEADS, TOKENS, BATCH = 256, 4, 128, 8
Step = Callable[[], Any]


class Block(pb.layers.Layer):
    """A layer of a decoder, normalized before each part."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.norms = [pb.layers.LayerNormalization(), pb.layers.LayerNormalization()]
        self.attend = pb.layers.MultiHeadAttention(HEADS, WIDTH // HEADS, dropout=dropout)
        self.widen = pb.layers.Dense(4 * WIDTH, "gelu")
        self.narrow = pb.layers.Dense(WIDTH)
        self.drop = pb.layers.Dropout(dropout)

    def call(self, x: Any) -> Any:
        y = self.norms[0](x)
        x = x + self.drop(self.attend(y, y, is_causal=True))
        return x + self.drop(self.narrow(self.widen(self.norms[1](x))))


def training_step(layers: int, dropout: float, captured: bool, remat: bool) -> Step:
    """A step of training, which returns the loss."""
    pb.random.seed(0)
    model = pb.Sequential([Block(dropout) for _ in range(layers)], remat=remat)
    optimizer = pb.optimizers.SGD(0.1)
    x = pb.random.normal((BATCH, TOKENS, WIDTH))
    target = pb.random.normal((BATCH, TOKENS, WIDTH))

    def step() -> Any:
        with pb.GradientTape() as tape:
            loss = pb.mean((model(x, training=True) - target) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return pb.function(step) if captured else step


def peak(layers: int, dropout: float, captured: bool, remat: bool) -> tuple[float, str]:
    """MiB that a step needs at its peak, and the bits of some losses."""
    step = training_step(layers, dropout, captured, remat)
    losses = [np.asarray(step()) for _ in range(4)]
    gc.collect()
    tracemalloc.start()  # NumPy tells it of each array
    step()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    losses += [np.asarray(step()) for _ in range(2)]
    most = tracemalloc.get_traced_memory()[1]
    bits = hashlib.sha256(b"".join(loss.tobytes() for loss in losses)).hexdigest()
    return (most - before) / 2**20, bits


def seconds(layers: int, dropout: float, captured: bool, rounds: int) -> list[float]:
    """The median time of a step, without `remat` and with it."""
    steps = [training_step(layers, dropout, captured, remat) for remat in (False, True)]
    times: list[list[float]] = [[], []]
    for turn in range(rounds + 4):
        for step, row in zip(steps, times, strict=True):
            begin = time.perf_counter()
            np.asarray(step())
            if turn > 3:  # programs and compiled backward passes are there
                row.append(time.perf_counter() - begin)
    return [statistics.median(row) for row in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peak", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        print(json.dumps(peak(given.layers, given.dropout, *map(bool, given.peak))))
        return
    for captured in (False, True):
        answers = []
        for remat in (False, True):
            command = [sys.executable, __file__, "--layers", str(given.layers)]
            command += ["--dropout", str(given.dropout)]
            command += ["--peak", str(int(captured)), str(int(remat))]
            found = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            answers.append(json.loads(found.stdout))
        (plain, bits), (small, same) = answers
        times = seconds(given.layers, given.dropout, captured, given.rounds)
        print(
            f"{'captured' if captured else 'eager':9} peak {plain:.1f} -> {small:.1f} MiB, "
            f"{small / plain:.2f}; step {times[0] * 1e3:.0f} -> {times[1] * 1e3:.0f} ms, "
            f"{times[1] / times[0]:.2f}; {'the same bits' if bits == same else 'OTHER BITS'}"
        )


if __name__ == "__main__":
    main()
