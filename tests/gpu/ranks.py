"""Checks the communicator "nccl" on two GPUs; on one, that its single rank gets what it gives.

NCCL wants a GPU for each rank. Each rank is a process of its own, as torchrun would number it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import common
import numpy as np

SIZES = (0, 1, 7, 1000, 10**5)
#: What pullback-cupy's entry point says, where it is not installed.
ENTRY = "[pullback.communicators]\nnccl = pullback_cupy.communicator\n"


def meeting(ranks: int) -> dict[str, str]:
    """Returns the variables that torchrun would set for so many ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}


def start(ranks: int, command: list[str], folder: Path) -> list[tuple[int, str]]:
    """Runs a command on ranks; their exit codes and what they print.

    Args:
        ranks: the number of ranks.
        command: the command.
        folder: where a distribution with the entry point is written.
    """
    here = folder / "pullback_cupy_here-1.dist-info"
    here.mkdir()
    (here / "METADATA").write_text("Metadata-Version: 2.1\nName: pullback-cupy-here\nVersion: 1\n")
    (here / "entry_points.txt").write_text(ENTRY)
    paths = os.pathsep.join([str(folder), *sys.path])
    shared = {**os.environ, **meeting(ranks), "PYTHONPATH": paths}
    started = [
        subprocess.Popen(
            command, env={**shared, "RANK": str(rank)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for rank in range(ranks)
    ]  # fmt: skip
    return [(one.wait(), text) for one in started for text in one.communicate()[:1]]


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

    os.environ.update(meeting(1), RANK="0")
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
        for where, given in (("host", values), ("GPU", cupy.asarray(values)[:, ::2])):
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
            found = start(ranks, [sys.executable, __file__, *sys.argv[1:]], Path(folder))
        failed = [text for code, text in found if code]
    print("\n".join(failed))
    table = ["| ranks | failed |", "|---|---|", f"| {ranks} | {len(failed)} |"]
    common.finish(given, {"ranks": ranks, "failed": failed, "table": table}, not failed)


if __name__ == "__main__":
    main()
