"""The communicator "mpi": the collectives of pullback by any library of MPI, through mpi4py.

    mpiexec -n 2 python train.py

with `pb.distributed.init()` in `train.py`.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

import pullback
from pullback.devices import Device
from pullback.distributed import Communicator

__all__ = ["MPICommunicator", "pullback_register_communicator"]

Array = np.ndarray[Any, Any]
#: How long a rank looks for the others without a pause, and the pause, in seconds.
_SPINNING, _PAUSE = 1e-3, 5e-5


class MPICommunicator(Communicator):
    """The ranks of a communicator of mpi4py; of a copy, so that messages of others stay apart.

    Arrays go to MPI as they are, without a copy, if they are contiguous.

    Args:
        communicator: the communicator; all processes of the program if None.
    """

    name = "mpi"

    def __init__(self, communicator: Any = None) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        whole = MPI.COMM_WORLD if communicator is None else communicator
        self._comm = whole.Dup()
        self.rank, self.size = whole.Get_rank(), whole.Get_size()
        self.concurrent = MPI.Query_thread() == MPI.THREAD_MULTIPLE
        self._ops = {"sum": MPI.SUM, "mean": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN}

    def takes(self, device: Device) -> bool:
        """True for arrays of NumPy, which may be written to where a collective owns them."""
        name: str = device.backend.name
        return name == "numpy"

    def exchange(self, data: bytes) -> list[bytes]:
        """The bytes that each rank gave, by rank.

        Who has waited for a moment sleeps between two looks: calls of MPI that wait take a whole
        core, which a rank that computes may need.
        """
        found = bytearray(len(data) * self.size)
        request = self._comm.Iallgather(data, found)
        is_helper = threading.current_thread() is not threading.main_thread()
        until = time.perf_counter() + (0 if is_helper else _SPINNING)
        while not request.Test():
            if time.perf_counter() > until:
                time.sleep(_PAUSE)
        count = len(data)
        return [bytes(found[i * count : (i + 1) * count]) for i in range(self.size)]

    def all_reduce(self, array: Any, op: str) -> Array:
        """The sum, mean, maximum or minimum over all ranks."""
        given = _summed(array)
        found = np.empty_like(given)
        self._comm.Allreduce(_flat(given), _flat(found), self._ops[op])
        if op == "mean":
            found /= self.size
        return _like(array, found)

    def all_reduce_own(self, array: Any) -> Array:
        """The sum over all ranks, in the place of the array where it can be."""
        found = _summed(array)
        if found is not array or not array.flags.writeable:
            return self.all_reduce(array, "sum")
        self._comm.Allreduce(self._mpi.IN_PLACE, _flat(found), self._mpi.SUM)
        return _like(array, found)

    def reduce_scatter(self, array: Any) -> Array:
        """This rank's part of the sum."""
        given = _summed(array)
        found = np.empty((array.shape[0] // self.size, *array.shape[1:]), given.dtype)
        self._comm.Reduce_scatter_block(_flat(given), _flat(found), self._mpi.SUM)
        return _like(array, found)

    def all_gather(self, array: Any) -> Array:
        """The arrays of all ranks, one behind the other."""
        found = np.empty((array.shape[0] * self.size, *array.shape[1:]), array.dtype)
        self._comm.Allgather(_bytes(array), _bytes(found))
        return found

    def broadcast(self, array: Any, root: int) -> Array:
        """The array of the root."""
        found = np.array(array, order="C") if self.rank == root else np.empty_like(array, order="C")
        self._comm.Bcast(_bytes(found), root)
        return found

    def all_to_all(self, array: Any) -> Array:
        """Part i of the first axis goes to rank i."""
        found = np.empty(array.shape, array.dtype)
        self._comm.Alltoall(_bytes(array), _bytes(found))
        return found

    def barrier(self) -> None:
        """Waits until all ranks are here."""
        self._comm.Barrier()

    def abort(self, code: int) -> None:
        """Ends all processes."""
        self._mpi.COMM_WORLD.Abort(code)


def _summed(array: Any) -> Array:
    """The array in C order, in a dtype that MPI adds: float32 for those of 16 bits."""
    narrow = array.dtype.kind in "fV" and array.itemsize == 2
    return np.asarray(array, np.float32 if narrow else array.dtype, order="C")


def _like(array: Any, found: Array) -> Array:
    return found if found.dtype == array.dtype else found.astype(array.dtype)


def _flat(array: Any) -> Array:
    found: Array = array.reshape(-1)
    return found


def _bytes(array: Any) -> Array:
    """The elements as bytes, in C order: MPI knows neither bfloat16 nor the 8-bit floats."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


@pullback.hookimpl
def pullback_register_communicator(register: Any) -> None:
    """Registers the communicator of all processes."""
    register(MPICommunicator())
