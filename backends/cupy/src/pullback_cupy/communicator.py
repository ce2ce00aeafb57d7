"""The communicator "nccl": the collectives of pullback between GPUs, by `cupyx.distributed`.

    pullback launch -n 2 --communicator nccl train.py
    PULLBACK_COMMUNICATOR=nccl torchrun --nproc-per-node 2 train.py

with `pb.distributed.init()` in `train.py`. Each rank has a GPU of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pullback import errors
from pullback.devices import Device
from pullback.distributed import Communicator, launched_as, meeting_place
from pullback.plugins.hookspecs import hookimpl
from pullback_cupy import driver

__all__ = ["NCCLCommunicator", "pullback_register_communicator"]

Array = Any
#: What launchers call the number of a process among those of its machine.
_LOCAL = ("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
#: Dtypes that NCCL does not reduce, or less exactly: what they are reduced as.
_AS = {"float16": "float32", "bfloat16": "float32", "int16": "int32", "uint16": "uint32"}


class NCCLCommunicator(Communicator):
    """The ranks of `cupyx.distributed`, each with the GPU of its number on its machine.

    They meet at `MASTER_ADDR` and `MASTER_PORT`, which `torchrun` and `pullback launch` set; where
    `torchrun` has the port itself, at the next one. Arrays on the GPU stay there; others,
    such as NumPy's, are copied to it and back.

    One process connects to nobody, and needs neither NCCL nor a GPU.

    Raises:
        CommunicationError: if there are several processes and no address, or no NCCL.
        DeviceError: if there are several processes and no GPU.
    """

    name = "nccl"

    def __init__(self) -> None:
        self.rank, self.size = launched_as()
        if self.size > 1:
            self.connect()

    def connect(self) -> None:
        """Meets the other ranks."""
        problem = driver.problem()
        if problem is not None:
            raise errors.DeviceError(f"nccl: {problem}")
        import cupy
        from cupy.cuda import nccl, runtime
        from cupyx.distributed import init_process_group

        if not nccl.available:
            raise errors.CommunicationError(
                "nccl: this CuPy finds no NCCL; `pip install nvidia-nccl-cu13` (or -cu12) brings it"
            )
        host, port = meeting_place("nccl")
        port += os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        local = next((int(os.environ[name]) for name in _LOCAL if name in os.environ), self.rank)
        self._cupy: Any = cupy
        self._gpu = cupy.cuda.Device(local % runtime.getDeviceCount())
        with self._gpu:
            self._ranks = init_process_group(self.size, self.rank, host=host, port=port)

    def takes(self, device: Device) -> bool:
        """True for the GPU of this rank."""
        return device.backend.name == "cupy" and device.native == self._gpu

    @contextmanager
    def _there(self, array: Array) -> Iterator[Callable[[Array], Array]]:
        """On the GPU; gives what brings a result to where the array is."""
        try:
            with self._gpu:
                yield (lambda x: x) if self._is_there(array) else lambda found: found.get()
        except RuntimeError as error:
            raise errors.CommunicationError(f"nccl: {error}") from error

    def _is_there(self, array: Array) -> bool:
        return isinstance(array, self._cupy.ndarray)

    def exchange(self, data: bytes) -> list[bytes]:
        """The bytes that each rank gave, by rank."""
        found = self.all_gather(np.frombuffer(data or b"-", np.uint8))
        return [part.tobytes() if data else b"" for part in np.split(found, self.size)]

    def all_reduce(self, array: Array, op: str) -> Array:
        """The sum, mean, maximum or minimum over all ranks."""
        with self._there(array) as back:
            given = self._cupy.asarray(_widened(array))
            found = self._cupy.empty_like(given)
            if given.size:
                self._ranks.all_reduce(given, found, "sum" if op == "mean" else op)
            found = found / self.size if op == "mean" else found
            return back(found).astype(array.dtype, copy=False)

    def all_reduce_own(self, array: Array) -> Array:
        """The sum over all ranks, in the place of the array where it can be."""
        is_reduced = array.dtype.name not in _AS and array.flags.c_contiguous and array.size
        if not (is_reduced and self._is_there(array)):
            return self.all_reduce(array, "sum")
        with self._there(array):
            self._ranks.all_reduce(array, array, "sum")
        return array

    def reduce_scatter(self, array: Array) -> Array:
        """This rank's part of the sum."""
        with self._there(array) as back:
            given = self._cupy.asarray(_widened(array))
            shape = given.shape[0] // self.size, *given.shape[1:]
            found = self._cupy.empty(shape, given.dtype)
            if given.size:
                self._ranks.reduce_scatter(given, found, found.size)
            return back(found).astype(array.dtype, copy=False)

    def all_gather(self, array: Array) -> Array:
        """The arrays of all ranks, one behind the other."""
        return self._moved(
            array,
            (array.shape[0] * self.size, *array.shape[1:]),
            lambda given, found: self._ranks.all_gather(given, found, given.size),
        )

    def broadcast(self, array: Array, root: int) -> Array:
        """The array of the root."""

        def move(given: Array, found: Array) -> None:
            found[...] = given
            self._ranks.broadcast(found, root)

        return self._moved(array, array.shape, move)

    def all_to_all(self, array: Array) -> Array:
        """Part i of the first axis goes to rank i."""
        parts = self.size, -1
        return self._moved(
            array,
            array.shape,
            lambda given, found: self._ranks.all_to_all(given.reshape(parts), found.reshape(parts)),
        )

    def _moved(
        self, array: Array, shape: tuple[int, ...], move: Callable[[Array, Array], None]
    ) -> Array:
        """The result of this shape of a collective that moves bytes.

        NCCL does not know every dtype.
        """
        with self._there(array) as back:
            given = self._cupy.asarray(_bytes(array))
            found = self._cupy.empty(given.size * int(np.prod(shape)) // max(array.size, 1), "B")
            if given.size:
                move(given, found)
            return back(found).view(array.dtype).reshape(shape)

    def abort(self, code: int) -> None:
        """Ends this process, whose end the launcher notices."""
        os._exit(code)

    def close(self) -> None:
        """Ends the connection."""
        if self.size > 1:
            self._ranks.stop()


def _widened(array: Array) -> Array:
    """The array in C order, in a dtype that is reduced."""
    dtype = _AS.get(array.dtype.name, array.dtype)
    return array.astype(dtype, order="C", copy=False)


def _bytes(array: Array) -> Array:
    """The elements as bytes, in C order."""
    return array.astype(array.dtype, order="C", copy=False).reshape(-1).view(np.uint8)


@hookimpl
def pullback_register_communicator(register: Any) -> None:
    """Registers the communicator of all processes."""
    register(NCCLCommunicator())
