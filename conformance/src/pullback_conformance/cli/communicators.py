"""`pullback conform --communicator NAME -n N`: measures a communicator on N ranks."""

from __future__ import annotations

import os
import sys

from pullback import errors
from pullback.cli.launch import command_of, launch
from pullback.distributed import init, rank, run_threads, size
from pullback.distributed.collectives import all_reduce
from pullback_conformance.communicators import SIZES, check

__all__ = ["run"]

#: Set in the ranks that `run` starts.
_RANKS = "PULLBACK_CONFORM_RANKS"


def run(name: str, ranks: int, device: str) -> int:
    """Checks a communicator; returns 0 if nothing fails on any rank.

    Args:
        name: the communicator; "threads" for ranks that are threads.
        ranks: the number of ranks.
        device: the device of the tensors.

    Raises:
        CommunicationError: if another number of ranks has come.
    """
    if name == "threads":
        return max(run_threads(lambda: _checked(name, device), ranks))
    if os.environ.get(_RANKS) is None:
        command = [*command_of(ranks), sys.executable, "-P", "-m", "pullback", "conform"]
        command += [device, "--communicator", name, "-n", str(ranks)]
        return launch(command, {**os.environ, _RANKS: str(ranks)})
    init(name)
    if size() != ranks:
        raise errors.CommunicationError(
            f"{name!r} has connected {size()} ranks, and mpiexec has started {ranks}; the "
            f"communicator does not know mpiexec's processes"
        )
    return _checked(name, device)


def _checked(name: str, device: str) -> int:
    failed = count = 0
    if rank() == 0:
        print(f"{name}: conformance on {size()} ranks of {device}, sizes to {max(SIZES)}")
    for title, problem in check(device=device):
        count += 1
        wrong = int(all_reduce(int(bool(problem)), "max"))
        failed += wrong
        if problem:
            print(f"FAILED {title} on rank {rank()}: {problem}", flush=True)
    if rank() == 0:
        print(f"{count - failed} of {count} checks pass", flush=True)
    return int(failed > 0)
