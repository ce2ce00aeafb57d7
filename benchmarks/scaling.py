"""Weak scaling of data-parallel steps, and a model of their cost, drawn to 1,024 ranks.

    uv run benchmarks/scaling.py --json scaling.json
    uv run benchmarks/scaling.py --read scaling.json --svg docs/images/scaling.svg

Starts ranks by `pullback launch`, so it needs a communicator (`pip install "pullback[mpi]"`). Each
rank has the same number of items. The model of a step:

    computing + the part of communication that the backward pass does not hide
    communication = 2 (n - 1)/n bytes / bandwidth + 2 (n - 1) buckets latency       (a ring)

Latency and bandwidth are fitted to sums of many sizes on 2 ranks, computing to steps on 1. Steps on
2 and 4 ranks check it: ranks beyond the cores of the machine take turns, so the model multiplies
computing by ranks / cores there. The picture is of a cluster where each rank has its own core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import pullback as pb

SIZES = (1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24)


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


def best(function, rounds: int) -> float:
    """The least seconds of a call, after two that do not count."""
    times = []
    for _ in range(rounds + 2):
        pb.distributed.barrier()
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times[2:])


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
        optimizer = pb.distributed.DataParallel(pb.optimizers.SGD(1e-3))

        def loss(model=model, x=x, y=y):
            return pb.losses.sparse_softmax_cross_entropy(y, model(x))

        step = pb.function(lambda optimizer=optimizer, loss=loss: optimizer.minimize(loss))
        seconds = best(lambda step=step: float(step()), rounds)
        sizes = [v.size for v in model.trainable_variables]
        found[name] = {"seconds": seconds, "bytes": 4 * sum(sizes)}
    if pb.distributed.size() == 2:
        sums = {}
        for size in SIZES:
            array = pb.zeros(size // 4)
            sums[size] = best(lambda array=array: pb.distributed.all_reduce(array), rounds)
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
        sizes = np.array([float(size) for size in sums])
        times = np.array([*sums.values()])
        # On two ranks a ring sends bytes + 2 messages; relative errors count alike.
        matrix = np.stack([np.full_like(sizes, 2.0), sizes], axis=1) / times[:, None]
        latency, per_byte = np.linalg.lstsq(matrix, np.ones(len(times)), rcond=None)[0]
        self.latency, self.per_byte = max(float(latency), 1e-7), float(per_byte)

    def step(self, computing: float, size: int, ranks: int, cores: float, hidden: float) -> float:
        """The seconds of a step.

        Args:
            computing: the seconds of a step on one rank.
            size: the bytes of all gradients.
            ranks: the number of ranks.
            cores: the number of ranks that compute at the same time.
            hidden: the part of the backward pass, two thirds of computing, that can hide buckets.
        """
        computing *= max(1.0, ranks / cores)
        if ranks == 1:
            return computing
        buckets = 1 + -(-max(size - (1 << 20), 0) // (25 << 20))
        wire = 2 * (ranks - 1) * (size / ranks * self.per_byte + buckets * self.latency)
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
        drawn = [
            one["seconds"] / model.step(one["seconds"], one["bytes"], n, n, 0.9) for n in ranks
        ]
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
            seconds = found[ranks][name]["seconds"]
            said = model.step(one["seconds"], one["bytes"], int(ranks), cores, 0.0)
            rate = int(ranks) * one["seconds"] / seconds
            print(f"{name:9} {ranks} ranks: {seconds * 1e3:7.2f} ms, model {said * 1e3:7.2f} ms; "
                  f"{rate:.2f} of one rank")  # fmt: skip


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
