"""Waits for a machine that others use to be as fast as it was at its best.

A virtual machine shares its cores, their caches and their clock with neighbours that it does not
see. What tells is how long something takes that always takes the same: a matrix product of NumPy's,
on every core at once.

    python quiet.py       serves Quiet: a line with the seconds for each line of standard input
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

#: Nothing is measured while the product takes longer than at its best by this factor.
SLOWER = 1.12


def probe() -> float:
    """Seconds of a product, the median of some 10 ms."""
    import numpy as np

    x = np.ones((160, 160), np.float32)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(20):
            np.matmul(x, x)
        times.append((time.perf_counter() - begin) / 20)
    return statistics.median(times)


class Quiet:
    """The time of the product on the slowest core now, and at its best."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds  #: how long to wait at most
        self.noise: list[float] = []  #: how slow it was when a round began
        single = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.cores = [
            subprocess.Popen(
                [sys.executable, __file__], env=single, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
            for _ in range(os.cpu_count() or 1)
        ]  # fmt: skip
        self.best = min(self.now() for _ in range(50))

    def now(self) -> float:
        """Seconds of a product where every core has one to do."""
        for core in self.cores:
            assert core.stdin is not None
            print(file=core.stdin, flush=True)
        return max(float(core.stdout.readline()) for core in self.cores if core.stdout is not None)

    def wait(self) -> None:
        """Returns when the machine is quiet, or the time is over."""
        until = time.monotonic() + self.seconds
        while True:
            now = self.now()
            self.best = min(self.best, now)
            if now <= SLOWER * self.best or time.monotonic() > until:
                self.noise.append(now / self.best)
                return
            time.sleep(0.2)


if __name__ == "__main__":
    for _ in sys.stdin:
        print(probe(), flush=True)
