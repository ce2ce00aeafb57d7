"""Weak scaling of data-parallel steps, and a model of their cost, drawn to 1,024 ranks.

    uv run benchmarks/scaling.py --json scaling.json
    uv run benchmarks/scaling.py --read scaling.json --svg docs/images/scaling.svg

Starts ranks by `pullback launch`, so it needs a communicator (`pip install "pullback[mpi]"`). Each
rank has the same number of items. The model of a step:

    computing + the part of communication that the backward pass does not hide
    communication = 2 (n - 1)/n bytes / bandwidth + 2 log2(n) buckets latency

as for the halving and doubling by which libraries of MPI add large vectors (Thakur, Rabenseifner
and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005).

Latency is that of small sums on 2 ranks, and bandwidth that of large ones; both have a bucket's
copy in them. Computing is measured on each number of ranks, by steps without a word to the others
that take turns with those of all: what cores take from each other, in caches and memory, is not
communication. Steps on 2 and 4 ranks check the model. In shared memory communication is work of the
same cores, so ranks beyond them take turns with it, and nothing is hidden. The picture is of a
cluster where each rank has its own core.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import pullback as pb
from pullback.distributed.collectives import begin_all_reduce, finish_all_reduce

SMALL, LARGE = (1 << 10, 1 << 12, 1 << 14), (1 << 22, 1 << 23, 1 << 24)


def mlp_wide() -> tuple[pb.Model, tuple[int, ...]]:
    layers = [pb.layers.Dense(1024, activation="relu") for _ in range(3)]
    return pb.Sequential([*layers, pb.layers.Dense(10)]), (64, 784)


def cnn() -> tuple[pb.Model, tuple[int, ...]]:
    layers = [
        *(pb.layers.Conv2D(32, 3, activation="relu"), pb.layers.MaxPool2D(2)),
        *(pb.layers.Conv2D(64, 3, activation="relu"), pb.layers.MaxPool2D(2)),
        *(pb.layers.Flatten(), pb.layers.Dense(10)),
    ]
    return pb.Sequential(layers), (32, 28, 28, 1)


MODELS = {"mlp_wide": mlp_wide, "cnn": cnn}


def best(rounds: int, *functions, until_all: bool = False) -> list[float]:
    """The least seconds of each function, which take turns, after two rounds that do not count.

    Args:
        rounds: how many turns each takes.
        functions: what is measured.
        until_all: whether a turn ends when all ranks are there.
    """
    times = [[] for _ in functions]
    for _ in range(rounds + 2):
        for function, own in zip(functions, times, strict=True):
            pb.distributed.barrier()
            begin = time.perf_counter()
            function()
            if until_all:
                pb.distributed.barrier()
            own.append(time.perf_counter() - begin)
    return [min(own[2:]) for own in times]


def bucket(array: pb.Tensor) -> None:
    """Sums a bucket of gradients."""
    finish_all_reduce(begin_all_reduce([array], in_pairs=False, beside=False, items=1))


def on_ranks(rounds: int) -> None:
    """Measures on this rank; rank 0 prints."""
    pb.distributed.init()
    found: dict[str, object] = {"ranks": pb.distributed.size()}
    for name, make in MODELS.items():
        pb.random.seed(0)
        model, (items, *shape) = make()
        rng = np.random.default_rng(pb.distributed.rank())
        x = pb.asarray(rng.normal(size=(items, *shape)).astype("float32"))
        y = pb.asarray(rng.integers(0, 10, items))
        optimizers = pb.optimizers.SGD(1e-3), pb.distributed.DataParallel(pb.optimizers.SGD(1e-3))

        def loss(model=model, x=x, y=y):
            return pb.losses.sparse_softmax_cross_entropy(y, model(x))

        steps = [
            pb.function(lambda optimizer=optimizer, loss=loss: optimizer.minimize(loss))
            for optimizer in optimizers
        ]
        calls = [lambda step=step: float(step()) for step in steps]
        apart, seconds = best(rounds, *calls, until_all=True)
        sizes = [v.size for v in model.trainable_variables]
        found[name] = {"apart": apart, "seconds": seconds, "bytes": 4 * sum(sizes)}
    if pb.distributed.size() == 2:
        sums = {}
        for size in SMALL + LARGE:
            array = pb.zeros(size // 4)
            (sums[size],) = best(rounds, lambda array=array: bucket(array))
        found["sums"] = sums
    if pb.distributed.rank() == 0:
        print("measured", json.dumps(found), flush=True)


def measured(ranks: int, rounds: int, communicator: str) -> dict:
    command = [sys.executable, "-m", "pullback", "launch", "-n", str(ranks)]
    command += ["--communicator", communicator, __file__, "--on-ranks", "--rounds", str(rounds)]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **threads}, check=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    line = next(line for line in done.stdout.splitlines() if line.startswith("measured"))
    return json.loads(line.partition(" ")[2])


class Model:
    """The cost of a step, with a latency and a bandwidth that were fitted."""

    def __init__(self, sums: dict[str, float]) -> None:
        # Two ranks send two messages, each of half the bytes.
        self.latency = float(np.mean([sums[str(size)] for size in SMALL])) / 2
        self.per_byte = float(np.median([sums[str(size)] / size for size in LARGE]))

    def step(self, computing: float, size: int, ranks: int, cores: float, hidden: float) -> float:
        """The seconds of a step.

        Args:
            computing: the seconds of a step that does not communicate.
            size: the bytes of all gradients.
            ranks: the number of ranks.
            cores: the number of ranks that compute at the same time.
            hidden: the part of the backward pass, two thirds of computing, that can hide buckets.
        """
        if ranks == 1:
            return computing
        buckets = 1 + -(-max(size - (1 << 20), 0) // (25 << 20))
        wire = 2 * (ranks - 1) / ranks * size * self.per_byte
        wire += 2 * math.log2(ranks) * buckets * self.latency
        wire *= max(1.0, ranks / cores)
        return computing + max(wire - hidden * computing * 2 / 3, wire / buckets)


def draw(path: Path, found: dict) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "pullback"
    from matplotlib import pyplot

    model = Model(found["2"]["sums"])
    ranks = [2**i for i in range(11)]
    figure, axes = pyplot.subplots(figsize=(6.4, 3.6))
    for name in MODELS:
        one = found["1"][name]
        drawn = [one["apart"] / model.step(one["apart"], one["bytes"], n, n, 0.9) for n in ranks]
        axes.plot(ranks, drawn, marker=".", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, [f"{n:,}" for n in ranks])
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("ranks, each with a core and as many items")
    axes.set_ylabel("efficiency")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def report(found: dict, cores: float) -> None:
    model = Model(found["2"]["sums"])
    print(f"latency {model.latency * 1e6:.0f} us, bandwidth {1e-9 / model.per_byte:.2f} GB/s")
    for name in MODELS:
        one = found["1"][name]
        for ranks in ("1", "2", "4"):
            own = found[ranks][name]
            seconds, apart = own["seconds"], own["apart"]
            said = model.step(apart, one["bytes"], int(ranks), cores, 0.0)
            rate = int(ranks) * one["apart"] / seconds
            print(f"{name:9} {ranks} ranks: {seconds * 1e3:7.2f} ms, apart {apart * 1e3:7.2f} ms, "
                  f"model {said * 1e3:7.2f} ms; {rate:.2f} of one rank")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--communicator", default="mpi")
    parser.add_argument("--json", type=Path, help="where to write what was measured")
    parser.add_argument("--read", type=Path, help="takes this in place of measuring")
    parser.add_argument("--svg", type=Path, help="where to draw")
    parser.add_argument("--cores", type=float, default=os.cpu_count())
    parser.add_argument("--on-ranks", action="store_true", help="what the ranks get")
    given = parser.parse_args()
    if given.on_ranks:
        on_ranks(given.rounds)
        return
    if given.read:
        found = json.loads(given.read.read_text())
    else:
        runs = [measured(n, given.rounds, given.communicator) for n in (1, 2, 4)]
        found = json.loads(json.dumps({str(run["ranks"]): run for run in runs}))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    report(found, given.cores)
    if given.svg:
        draw(given.svg, found)


if __name__ == "__main__":
    main()
