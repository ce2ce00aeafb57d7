"""Many processes that train one model: ranks, collectives, and data-parallel training.

`init` connects this process to the others that a launcher such as `mpiexec` has started; without it
the world has one rank, and every collective returns what it gets.
"""

from __future__ import annotations

from pullback.distributed.collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    barrier,
    broadcast,
    reduce_scatter,
)
from pullback.distributed.communicator import Communicator, launched_as, meeting_place
from pullback.distributed.data_parallel import DataParallel, broadcast_state
from pullback.distributed.share import share
from pullback.distributed.threads import run_threads
from pullback.distributed.world import init, is_initialized, rank, size

__all__ = [
    "Communicator",
    "DataParallel",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "broadcast_state",
    "init",
    "is_initialized",
    "launched_as",
    "meeting_place",
    "rank",
    "reduce_scatter",
    "run_threads",
    "share",
    "size",
]
