"""Measures the part of a link's time that a step hides behind its backward pass.

    uv run benchmarks/overlap.py
    uv run benchmarks/overlap.py --eager
    uv run benchmarks/overlap.py --exact
    uv run benchmarks/overlap.py --layers 6 --width 1024 --megabytes-per-second 200

One process stands for two: its communicator waits as long as a link of that bandwidth takes, and
then returns twice what it got. Three ways take turns: no link, a link that the backward pass
waits for, and one that works beside it.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

import pullback as pb
from pullback.distributed.world import World, entering


class Link(pb.distributed.Communicator):
    """A rank beside another one that does the same."""

    name = "link"
    size = 2

    def __init__(self, bandwidth: float, *, concurrent: bool) -> None:
        self.bandwidth, self.concurrent = bandwidth, concurrent
        self.seconds = 0.0

    def exchange(self, data: bytes) -> list[bytes]:
        return [data, data]

    def all_reduce(self, array, op):
        seconds = array.nbytes / self.bandwidth
        self.seconds += seconds
        time.sleep(seconds)
        return array + array if op == "sum" else np.array(array)

    def all_to_all(self, array):
        time.sleep(array.nbytes / 2 / self.bandwidth)
        self.seconds += array.nbytes / 2 / self.bandwidth
        return np.concatenate([array[: len(array) // 2]] * 2)

    def all_gather(self, array):
        time.sleep(array.nbytes / self.bandwidth)
        self.seconds += array.nbytes / self.bandwidth
        return np.concatenate([array] * 2)

    def broadcast(self, array, root):
        return np.array(array)


def stepper(link: Link, given: argparse.Namespace):
    """A function that takes a step, and returns its seconds."""
    layers, width, items = given.layers, given.width, given.items
    world = World(link)
    model = pb.Sequential([pb.layers.Dense(width, activation="relu") for _ in range(layers)])
    rng = np.random.default_rng(0)
    x = pb.asarray(rng.normal(size=(items, width)).astype("float32"))
    with entering(world):
        optimizer = pb.distributed.DataParallel(pb.optimizers.SGD(1e-4), exact=given.exact)

        def step(x):
            return optimizer.minimize(lambda: pb.mean(model(x) ** 2))

        if not given.eager:
            step = pb.function(step)

        def run() -> float:
            with entering(world):
                begin = time.perf_counter()
                float(step(x))
                return time.perf_counter() - begin

        for _ in range(4):
            run()
    return run


def measure(given: argparse.Namespace, bandwidth: float | None):
    """The medians of a step without a link, with one that is waited for, and beside; its time."""
    layers, width = given.layers, given.width
    ways = {"none": Link(np.inf, concurrent=True)}
    runs = {"none": stepper(ways["none"], given)}
    if bandwidth is None:  # as long as half of the step: a backward pass takes two thirds
        step = statistics.median(runs["none"]() for _ in range(3))
        bandwidth = layers * (width + 1) * width * 4 / (0.5 * step)
    for name in ("waits", "beside"):
        ways[name] = Link(bandwidth, concurrent=name == "beside")
        runs[name] = stepper(ways[name], given)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for link in ways.values():
        link.seconds = 0.0
    for _ in range(given.rounds):
        for name, run in runs.items():
            times[name].append(run())
    found = {name: statistics.median(own) for name, own in times.items()}
    return found, ways["beside"].seconds / given.rounds, bandwidth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--items", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--megabytes-per-second", type=float, help="of the link")
    parser.add_argument("--eager", action="store_true", help="steps that are not captured")
    parser.add_argument("--exact", action="store_true", help="sums in pairs of ranks")
    given = parser.parse_args()
    bandwidth = given.megabytes_per_second and given.megabytes_per_second * 1e6
    found, link, bandwidth = measure(given, bandwidth)
    print(f"gradients of {given.layers * (given.width + 1) * given.width * 4 / 1e6:.0f} MB, "
          f"a link of {bandwidth / 1e6:.0f} MB/s: {link * 1e3:.0f} ms a step")  # fmt: skip
    for name, seconds in found.items():
        print(f"{name:8} {seconds * 1e3:8.1f} ms")
    hidden = 1 - (found["beside"] - found["none"]) / link
    print(f"hidden: {hidden:.0%} of the link's time")


if __name__ == "__main__":
    main()
