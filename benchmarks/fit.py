"""Times what `fit` adds to a step beside a loop that is written out, eager and captured.

    uv run benchmarks/fit.py

The model is an MLP on batches of 32 items. `fit` takes its batches from an iterable that, before
it gives one, takes the same step by two loops that are written out: one with the loss alone, and
one with its mean and the accuracy as `fit` keeps them. So all three share what disturbs the
machine, step by step. Times are of the processor; a difference is the median of the differences
step by step. `fit` has the metric "accuracy", and draws its bar on a terminal that shows nothing.
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
ROUNDS = 12
#: Steps at the beginning of an epoch that are left out: they open the bar.
FIRST = 5


class Terminal(io.StringIO):
    """A terminal that shows nothing."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)


class Turns:
    """Batches for `fit`, which takes turns with other loops: seconds of a step of each."""

    def __init__(self, source: Any, others: list[Callable[[Any, Any], None]]) -> None:
        self.source = source
        self.others = others
        #: A row of one step: the others, then `fit`.
        self.times: list[list[float]] = []

    def __len__(self) -> int:
        return STEPS

    def __iter__(self) -> Iterator[Any]:
        clock = time.process_time
        for number, (x, y) in enumerate(self.source):
            row = []
            begin = clock()
            for step in self.others:
                step(x, y)
                end = clock()
                row.append(end - begin)
                begin = end
            yield x, y
            row.append(clock() - begin)
            if number >= FIRST:
                self.times.append(row)

    def report(self) -> str:
        """Medians, and how much more `fit` takes than each of the others."""
        rows = np.array(self.times) * 1e6
        medians = np.median(rows, 0)
        more = np.median(rows[:, -1:] - rows[:, :-1], 0)
        return "".join(f"{one:10.1f}" for one in (*medians, *more))


def model() -> pb.Sequential:
    return pb.Sequential([pb.layers.Dense(64, activation="relu"), pb.layers.Dense(CLASSES)])


def written_out(*, capture: bool, metric: bool) -> Callable[[Any, Any], None]:
    """A step with the loss alone, or with its mean and the accuracy as `fit` keeps them."""
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

    def whole(x: Any, y: Any) -> None:
        value = run(x, y)
        if metric:
            mean(value, ITEMS)

    return whole


def measure(source: Any, *, capture: bool) -> str:
    """The line of the table for a source of batches."""
    network = model()
    network.compile(
        pb.optimizers.SGD(0.01), "sparse_softmax_cross_entropy", ["accuracy"], capture=capture
    )
    turns = Turns(source, [written_out(capture=capture, metric=metric) for metric in (False, True)])
    with redirect_stderr(Terminal()):
        network.fit(turns)  # compiles, and fills tables
        turns.times.clear()
        network.fit(turns, epochs=ROUNDS)
    return turns.report()


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((STEPS * ITEMS, FEATURES), np.float32)
    y = rng.integers(0, CLASSES, STEPS * ITEMS).astype(np.int32)
    dataset = pb.data.Dataset.from_tensor_slices((x, y)).shuffle().batch(ITEMS)
    print(
        f"Microseconds of processor time of a step, medians of {ROUNDS * (STEPS - FIRST)}, "
        f"Python {sys.version.split()[0]}, {os.cpu_count()} processors, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    print(f"{'':26}{'written':>10}{'+':>10}{'':>10}{'fit beyond':>20}")
    print(f"{'':26}{'out':>10}{'metrics':>10}{'fit':>10}{'the first':>10}{'metrics':>10}")
    for mode in ("eager", "captured"):
        for kind, source in {"tensors": list(dataset), "arrays, shuffled": dataset}.items():
            print(f"{mode + ', ' + kind:26}{measure(source, capture=mode == 'captured')}")


if __name__ == "__main__":
    main()
