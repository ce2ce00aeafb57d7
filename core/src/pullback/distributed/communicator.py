"""The base class of communicators: how the processes of one program exchange arrays.

A plugin subclasses it and registers an instance in the hook `pullback_register_communicator`; its
entry point is in the group `pullback.communicators`. Every method but `abort` is called by all
ranks, in the same order, with arrays of one shape and dtype: `pullback.distributed` sees to that.
"""

from __future__ import annotations

import os
import socket
from typing import ClassVar

from pullback import errors
from pullback.devices import Device
from pullback.plugins.records import Native
from pullback.spec import SPEC_VERSION

#: The values of `op` in `Communicator.all_reduce`.
REDUCTIONS = ("sum", "mean", "max", "min")
#: What launchers call the number of a process, and the number of all.
LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


class Communicator:
    """The base class of communicators.

    Arrays are NumPy arrays in the memory of the host, read-only and in any layout, or those of a
    device that `takes` says yes to. Their dtypes are all that tensors have; reductions get numbers.
    A method returns a new array and leaves its input as it is.
    """

    #: The name of the entry point, such as "mpi".
    name: ClassVar[str] = ""
    #: The version of the op specification that the plugin was written for.
    spec_version: ClassVar[str] = SPEC_VERSION
    #: True if a thread may call it while another one computes: sums of gradients then travel while
    #: the backward pass goes on.
    concurrent: bool = False
    #: The number of this process, from 0, and that of all processes.
    rank: int = 0
    size: int = 1

    def takes(self, device: Device) -> bool:
        """True if it takes native arrays of `device`; else they go through the host."""
        return False

    def host(self) -> str:
        """The name of the machine, for messages."""
        return socket.gethostname()

    def exchange(self, data: bytes) -> list[bytes]:
        """The bytes that each rank gave, by rank; all give equally many."""
        raise NotImplementedError(f"{type(self).__name__}.exchange")

    def all_reduce(self, array: Native, op: str) -> Native:
        """The sum, mean, maximum or minimum over all ranks; every rank gets the same bits.

        16-bit numbers are added in float32, or wider.
        """
        raise NotImplementedError(f"{type(self).__name__}.all_reduce")

    def all_reduce_own(self, array: Native) -> Native:
        """The sum over all ranks of an array that nobody else reads: it may be written to."""
        return self.all_reduce(array, "sum")

    def all_gather(self, array: Native) -> Native:
        """The arrays of all ranks, one behind the other along the first axis."""
        raise NotImplementedError(f"{type(self).__name__}.all_gather")

    def reduce_scatter(self, array: Native) -> Native:
        """This rank's part of the sum: of as many equal parts of the first axis as there are ranks.

        16-bit numbers are added in float32, or wider.
        """
        raise NotImplementedError(f"{type(self).__name__}.reduce_scatter")

    def broadcast(self, array: Native, root: int) -> Native:
        """The array of the rank `root`."""
        raise NotImplementedError(f"{type(self).__name__}.broadcast")

    def all_to_all(self, array: Native) -> Native:
        """Part i of the first axis goes to rank i; those that come stand in the order of ranks."""
        raise NotImplementedError(f"{type(self).__name__}.all_to_all")

    def barrier(self) -> None:
        """Waits until all ranks are here."""
        self.exchange(b"")

    def abort(self, code: int) -> None:
        """Ends all processes at once, with this exit status."""
        raise NotImplementedError(f"{type(self).__name__}.abort")

    def close(self) -> None:
        """Ends the connection; called at the end of the program, when all ranks have come there."""


def launched_as() -> tuple[int, int]:
    """The number of this process and the number of all, as its launcher gives them.

    Launchers are those of MPI and Slurm, and others that set `RANK` and `WORLD_SIZE`; 0 and 1
    without any.
    """
    for rank, size in LAUNCHERS:
        found = os.environ.get(rank, ""), os.environ.get(size, "")
        if all(map(str.isdigit, found)):
            return int(found[0]), int(found[1])
    return 0, 1


def meeting_place(name: str) -> tuple[str, int]:
    """The machine and port where the ranks meet: `MASTER_ADDR` and `MASTER_PORT`.

    Args:
        name: the name of the communicator, for the error.

    Raises:
        CommunicationError: if the environment does not have both.
    """
    missing = [one for one in ("MASTER_ADDR", "MASTER_PORT") if one not in os.environ]
    if missing:
        raise errors.CommunicationError(
            f"{name}: {' and '.join(missing)} must say where the ranks meet; start them with "
            f"pullback launch, or export the name of the machine of rank 0 and a "
            f"free port"
        )
    return os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
