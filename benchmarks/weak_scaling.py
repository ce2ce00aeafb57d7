"""Weak scaling of data-parallel steps on two ranks, beside PyTorch and what the machine allows.

    uv run benchmarks/weak_scaling.py
    uv run benchmarks/weak_scaling.py --only mlp_wide --communicator gloo --json weak.json

Starts two ranks by `pullback launch`, in an environment that also has PyTorch. Six things take
turns in the same two processes, a thread each: a step of pullback on one rank while the other one
sleeps; the same step on both, without a word between them; the data-parallel step; and the same
three of PyTorch, whose third is `DistributedDataParallel` on gloo. The second of them is what the
machine allows: two cores share caches and memory. Rates are items a second over those of one rank,
of the shortest times; a turn ends when both ranks have made their steps.

On a machine that does other work, `chrt -f 5` before the command lets it have the cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from scaling import MODELS

import pullback as pb

WAYS = ("alone", "apart", "together")
RATE = 1e-3


def torch_model(name: str) -> torch.nn.Module:
    nn = torch.nn
    if name == "mlp_wide":
        widths = (784, 1024, 1024, 1024)
        layers = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)]
        return nn.Sequential(*layers, nn.Linear(1024, 10))
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(1600, 10)),
    )


def ours(name: str, captured: bool) -> dict[str, object]:
    """The functions that take a step, by the way in which ranks take it."""
    steps = {}
    for way in ("alone", "together"):
        pb.random.seed(0)
        model, (items, *shape) = MODELS[name]()
        rng = np.random.default_rng(pb.distributed.rank())
        x = pb.asarray(rng.normal(size=(items, *shape)).astype("float32"))
        y = pb.asarray(rng.integers(0, 10, items))
        optimizer = pb.optimizers.SGD(RATE)
        if way == "together":
            optimizer = pb.distributed.DataParallel(optimizer)

        def step(optimizer=optimizer, model=model, x=x, y=y):
            return optimizer.minimize(lambda: pb.losses.sparse_softmax_cross_entropy(y, model(x)))

        run = pb.function(step) if captured else step
        steps[way] = lambda run=run: float(run())
    return {**steps, "apart": steps["alone"]}


def theirs(name: str) -> dict[str, object]:
    steps = {}
    for way in ("alone", "together"):
        torch.manual_seed(0)
        model = torch_model(name)
        _, (items, *shape) = MODELS[name]()
        if name == "cnn":
            shape = shape[-1:] + shape[:-1]
        rng = np.random.default_rng(dist.get_rank())
        x = torch.from_numpy(rng.normal(size=(items, *shape)).astype("float32"))
        y = torch.from_numpy(rng.integers(0, 10, items))
        if way == "together":
            model = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), RATE)

        def step(model=model, optimizer=optimizer, x=x, y=y):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.item()

        steps[way] = step
    return {**steps, "apart": steps["alone"]}


def turn(step, way: str, steps: int) -> tuple[float, float]:
    """The seconds of a step on the slower rank, and its processor time on this one."""
    dist.barrier()  # of gloo: who waits here takes no core
    begin, own = time.perf_counter(), time.process_time()
    if way != "alone" or dist.get_rank() == 0:
        for _ in range(steps):
            step()
    found = torch.tensor([time.perf_counter() - begin])
    own = time.process_time() - own
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.item() / steps, own / steps


def on_ranks(given: argparse.Namespace) -> None:
    """Measures on this rank; rank 0 prints."""
    torch.set_num_threads(1)
    pb.distributed.init()
    if not dist.is_initialized():
        dist.init_process_group("gloo", rank=pb.distributed.rank(), world_size=2)
    found = {}
    for name in given.only.split(","):
        runs = {"pullback": ours(name, captured=True), "torch": theirs(name)}
        if given.eager:
            runs["eager"] = ours(name, captured=False)
        times = {(who, way): [] for who in runs for way in WAYS}
        for who, way in times:  # compiles
            turn(runs[who][way], "apart", 4)
        for _ in range(given.rounds):
            for who, way in times:
                times[who, way].append(turn(runs[who][way], way, given.steps))
        found[name] = {f"{who} {way}": own for (who, way), own in times.items()}
    if dist.get_rank() == 0:
        print("measured", json.dumps(found), flush=True)


def report(found: dict) -> None:
    for name, times in found.items():
        for who in dict.fromkeys(key.split()[0] for key in times):
            wall = {way: min(own[0] for own in times[f"{who} {way}"]) for way in WAYS}
            busy = {way: min(own[1] for own in times[f"{who} {way}"]) for way in WAYS}
            rate = {way: 2 * wall["alone"] / wall[way] for way in WAYS}
            print(
                f"{name:9} {who:9} alone {wall['alone'] * 1e3:6.2f} ms, apart "
                f"{wall['apart'] * 1e3:6.2f}, together {wall['together'] * 1e3:6.2f} "
                f"(processor {busy['alone'] * 1e3:.2f}, {busy['apart'] * 1e3:.2f}, "
                f"{busy['together'] * 1e3:.2f}): {rate['together']:.2f} of one rank, of "
                f"{rate['apart']:.2f} that two apart have"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="mlp_wide,cnn")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=4, help="in a turn")
    parser.add_argument("--eager", action="store_true", help="steps that are not captured, too")
    parser.add_argument("--communicator", default="mpi")
    parser.add_argument("--json", type=Path, help="where to write what was measured")
    parser.add_argument("--on-ranks", action="store_true", help="what the ranks get")
    given = parser.parse_args()
    if given.on_ranks:
        on_ranks(given)
        return
    command = [sys.executable, "-m", "pullback", "launch", "-n", "2"]
    command += ["--communicator", given.communicator, __file__, "--on-ranks", *sys.argv[1:]]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **threads}, check=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    line = next(line for line in done.stdout.splitlines() if line.startswith("measured"))
    found = json.loads(line.partition(" ")[2])
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    report(found)


if __name__ == "__main__":
    main()
