"""Times what `fit` adds to a step beside a loop that is written out, eager and captured.

    uv run benchmarks/fit.py

The model is an MLP on batches of 32 items. Loops take turns, an epoch each; a time is a low
percentile of the times between two batches, so that other processes and the first steps disturb
little. `fit` has the metric "accuracy", and draws its bar on a terminal that shows nothing.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from typing import Any

import numpy as np

import pullback as pb

STEPS, ITEMS, FEATURES, CLASSES = 500, 32, 32, 10
ROUNDS, PERCENTILE = 10, 15


class Terminal(io.StringIO):
    """A terminal that shows nothing."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)


class Timed:
    """Batches that note when each was asked for."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.times: list[float] = []

    def __len__(self) -> int:
        return STEPS

    def __iter__(self) -> Iterator[Any]:
        for batch in self.source:
            self.times.append(time.perf_counter())
            yield batch
        self.times.append(float("nan"))  # between two epochs

    def microseconds(self) -> float:
        steps = np.diff(self.times)
        return float(np.percentile(steps[np.isfinite(steps)], PERCENTILE) * 1e6)


def model() -> pb.Sequential:
    return pb.Sequential([pb.layers.Dense(64, activation="relu"), pb.layers.Dense(CLASSES)])


def written_out(batches: Timed, *, capture: bool, metric: bool) -> Callable[[], None]:
    """A loop with the loss alone, or with its mean and the accuracy as `fit` keeps them."""
    network, optimizer = model(), pb.optimizers.SGD(0.01)
    accuracy, mean = pb.metrics.SparseCategoricalAccuracy(), pb.metrics.Mean()

    def step(x: Any, y: Any) -> Any:
        predictions: Any = None

        def loss() -> Any:
            nonlocal predictions
            predictions = network(x, training=True)
            return pb.losses.sparse_softmax_cross_entropy(y, predictions)

        value = optimizer.minimize(loss)
        if metric:
            accuracy(y, predictions)
        return value

    run: Any = pb.function(step) if capture else step

    def epoch() -> None:
        for x, y in batches:
            value = run(x, y)
            if metric:
                mean(value, ITEMS)

    return epoch


def by_fit(batches: Timed, *, capture: bool) -> Callable[[], None]:
    network = model()
    network.compile(
        pb.optimizers.SGD(0.01), "sparse_softmax_cross_entropy", ["accuracy"], capture=capture
    )

    def epoch() -> None:
        with redirect_stderr(Terminal()):
            network.fit(batches)

    return epoch


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((STEPS * ITEMS, FEATURES), np.float32)
    y = rng.integers(0, CLASSES, STEPS * ITEMS).astype(np.int32)
    dataset = pb.data.Dataset.from_tensor_slices((x, y)).shuffle().batch(ITEMS)
    sources = {"tensors": list(dataset), "arrays, shuffled": dataset}
    loops: dict[tuple[str, str, str], tuple[Timed, Callable[[], None]]] = {}
    for mode in ("eager", "captured"):
        for kind, source in sources.items():
            for name in ("written out", "written out, metrics", "fit"):
                batches, capture = Timed(source), mode == "captured"
                run = (
                    by_fit(batches, capture=capture)
                    if name == "fit"
                    else written_out(batches, capture=capture, metric="metrics" in name)
                )
                loops[mode, kind, name] = batches, run
    for batches, run in loops.values():
        run()  # compiles, and fills tables
        batches.times.clear()
    for _ in range(ROUNDS):
        for _, run in loops.values():
            run()
    print(f"Microseconds of a step, Python {sys.version.split()[0]}, {os.cpu_count()} processors")
    print(f"{'':28}{'written out':>10}{'+ metrics':>11}{'fit':>8}")
    for mode in ("eager", "captured"):
        for kind in sources:
            hand, metrics, fit = (
                loops[mode, kind, name][0].microseconds()
                for name in ("written out", "written out, metrics", "fit")
            )
            print(f"{mode + ', ' + kind:28}{hand:10.1f}{metrics:11.1f}{fit:8.1f}")


if __name__ == "__main__":
    main()
