"""Checks the communicator "nccl" on two GPUs; on one, that its single rank gets what it gives.

NCCL wants a GPU for each rank. Each rank is a process of its own, as torchrun would number it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import common
import numpy as np

on_ranks = common.module("tests/distributed/on_ranks.py")

SIZES = (0, 1, 7, 1000, 10**5)


def check_rank(device: str) -> list[str]:
    """Returns the failures of this rank, found as `pullback conform --communicator` does."""
    import pullback as pb
    from pullback_conformance.communicators import check

    pb.distributed.init("nccl")
    return [f"{title}: {problem}" for title, problem in check(SIZES, device=device) if problem]


def check_alone() -> list[str]:
    """Returns the failures of one rank, whose collectives are NCCL's all the same."""
    import cupy
    import ml_dtypes

    from pullback_cupy.communicator import NCCLCommunicator

    os.environ.update(on_ranks.meeting(1), RANK="0")
    communicator = NCCLCommunicator()
    communicator.connect()
    calls = {
        "all_reduce": lambda x: communicator.all_reduce(x, "mean"),
        "all_reduce_own": communicator.all_reduce_own,
        "reduce_scatter": communicator.reduce_scatter,
        "all_gather": communicator.all_gather,
        "broadcast": lambda x: communicator.broadcast(x, 0),
        "all_to_all": communicator.all_to_all,
    }
    failed = []
    for dtype in ("float32", "float16", "float64", "complex64", ml_dtypes.bfloat16):
        values = np.arange(24).reshape(4, 6).astype(dtype)
        arrays: list[tuple[str, Any]] = [("host", values), ("GPU", cupy.asarray(values)[:, ::2])]
        for where, given in arrays:
            for name, call in calls.items():
                found = call(given.copy() if name == "all_reduce_own" else given)
                got, goal = (x if where == "host" else x.get() for x in (found, given))
                if got.dtype != goal.dtype or not np.array_equal(got, goal):
                    failed.append(f"{name} of {goal.dtype} from the {where}")
    if communicator.exchange(b"one") != [b"one"]:
        failed.append("exchange")
    communicator.close()
    return failed


def main() -> None:
    given = common.arguments(__doc__)
    common.use_cupy()
    import cupy

    if "RANK" in os.environ:
        failed = check_rank(given.device.rpartition(":")[0] + f":{os.environ['RANK']}")
        print("\n".join(failed))
        sys.exit(bool(failed))
    ranks = min(2, cupy.cuda.runtime.getDeviceCount())
    if ranks == 1:
        failed = check_alone()
    else:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, *sys.argv[1:]]
            found = on_ranks.start(ranks, command, Path(folder), "nccl", "pullback_cupy")
        failed = [text for code, text in found if code]
    print("\n".join(failed))
    table = ["| ranks | failed |", "|---|---|", f"| {ranks} | {len(failed)} |"]
    common.finish(given, {"ranks": ranks, "failed": failed, "table": table}, not failed)


if __name__ == "__main__":
    main()
