"""One framework in a process of its own: does what `run.py` asks on standard input.

    python worker.py torch eager                serves run.py
    python worker.py torch eager --peak mlp     five steps of a workload, and the peak of memory

Run with the Python of an environment that has the framework: nothing else than it and NumPy is
needed here.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any

import numpy as np

CHECKED = 3  # steps whose results are compared
SHOWN = 30  # values of an output that are compared


class Worker:
    """The workloads of a framework, one loaded at a time."""

    def __init__(self, framework: str, mode: str) -> None:
        module = importlib.import_module(f"workloads.with_{framework}")
        self.builders = module.builders(mode == "compiled")
        self.settle = getattr(module, "settle", None) if mode == "compiled" else None
        self.block: Any = None

    def names(self) -> list[str]:
        """The workloads there are."""
        return list(self.builders)

    def load(self, name: str) -> dict[str, Any]:
        """The results of the first steps, and the seconds until the first."""
        self.block = None
        begin = time.perf_counter()
        self.block = self.builders[name]()
        results = [summary(self.block(1))]
        first = time.perf_counter() - begin
        results += [summary(self.block(1)) for _ in range(CHECKED - 1)]
        if self.settle is not None:
            self.settle(self.block)
        return {"results": results, "first": first}

    def time(self, n: int) -> list[float]:
        """Seconds of wall and of processor time for n steps, after one to warm the caches."""
        self.block(1)
        begin, cpu = time.perf_counter(), time.process_time()
        self.block(n)
        return [time.perf_counter() - begin, time.process_time() - cpu]


def summary(result: Any) -> list[float]:
    """A loss as it is; of an output some values, the mean and the root of the mean square."""
    if hasattr(result, "detach"):
        result = result.detach()
    values = np.asarray(result, np.float64)
    if not values.ndim:
        return [float(values)]
    some = values.reshape(-1)[:: max(1, values.size // SHOWN)][:SHOWN]
    return [*some.tolist(), float(values.mean()), float(np.sqrt((values * values).mean()))]


def memory(key: str) -> float:
    """MiB of this process: VmRSS now, VmHWM at most."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(key))
    return int(line.split()[1]) / 1024


def peak(worker: Worker, name: str) -> dict[str, float]:
    """MiB at most in five steps, in all and above what there was before the weights."""
    before = memory("VmRSS")
    worker.builders[name]()(5)
    return {"peak": memory("VmHWM"), "step": memory("VmHWM") - before}


def main() -> None:
    # Frameworks write to standard output; what goes back to run.py has a channel of its own.
    back = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if "torch" in sys.argv[1]:
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    worker = Worker(sys.argv[1], sys.argv[2])
    if "--peak" in sys.argv:
        print(json.dumps(peak(worker, sys.argv[-1])), file=back, flush=True)
        return
    print(json.dumps(worker.names()), file=back, flush=True)
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        try:
            answer = getattr(worker, method)(*arguments)
        except Exception as error:  # one workload that fails is a gap in the table
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=back, flush=True)


if __name__ == "__main__":
    main()
