"""The communicator "gloo": the collectives of pullback by `torch.distributed`.

    pullback launch -n 2 --communicator gloo train.py
    PULLBACK_COMMUNICATOR=gloo torchrun --nproc-per-node 2 train.py

with `pb.distributed.init()` in `train.py`. Arrays on GPUs of torch go by NCCL, all others by gloo.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from pullback import errors
from pullback.devices import Device
from pullback.distributed import Communicator, launched_as, meeting_place
from pullback.plugins.hookspecs import hookimpl
from pullback_torch.host import from_numpy, to_numpy

__all__ = ["TorchCommunicator", "pullback_register_communicator"]

Array = Any
_OPS = {
    "sum": dist.ReduceOp.SUM,
    "mean": dist.ReduceOp.SUM,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
}
#: How long a rank that has lost another one waits before it says so, in seconds: the cause is the
#: other one's to tell.
_GRACE = 1.5
_SIGN = -(1 << 63)


def _by_sign(x: torch.Tensor) -> torch.Tensor:
    """64-bit numbers without a sign as those with one, in the same order; and back."""
    return x.view(torch.int64).bitwise_xor(_SIGN)


#: Dtypes that are reduced as another one: how they become it, and how they come back.
_AS: dict[torch.dtype, tuple[Callable[..., Any], Callable[..., Any]]] = {
    torch.int16: (lambda x: x.to(torch.int32), lambda x: x.to(torch.int16)),
    torch.uint16: (lambda x: x.to(torch.int32), lambda x: x.to(torch.uint16)),
    torch.uint32: (lambda x: x.to(torch.int64), lambda x: x.to(torch.uint32)),
    torch.uint64: (lambda x: x.view(torch.int64), lambda x: x.view(torch.uint64)),
    torch.float16: (lambda x: x.to(torch.float32), lambda x: x.to(torch.float16)),
    torch.bfloat16: (lambda x: x.to(torch.float32), lambda x: x.to(torch.bfloat16)),
    torch.complex64: (torch.view_as_real, torch.view_as_complex),
    torch.complex128: (torch.view_as_real, torch.view_as_complex),
}
_ORDERED: dict[torch.dtype, tuple[Callable[..., Any], Callable[..., Any]]]
_ORDERED = {**_AS, torch.uint64: (_by_sign, lambda x: _by_sign(x).view(torch.uint64))}


class TorchCommunicator(Communicator):
    """The ranks of `torch.distributed`.

    They meet as that has it: at `MASTER_ADDR` and `MASTER_PORT`, which `torchrun` and
    `pullback launch` set. The number of a process is `torchrun`'s, or that of MPI or Slurm.

    Raises:
        CommunicationError: if there are several processes and no address.
    """

    name = "gloo"
    concurrent = True

    def __init__(self) -> None:
        self.rank, self.size = launched_as()
        self._on_gpus = torch.cuda.is_available() and dist.is_nccl_available()
        if self.size == 1:
            return
        meeting_place("gloo")
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if self._on_gpus else "gloo", rank=self.rank, world_size=self.size
        )

    def takes(self, device: Device) -> bool:
        """True for the devices of torch, where GPUs need NCCL, and for arrays of NumPy."""
        of_torch = device.backend.name == "torch" and (device.kind == "cpu" or self._on_gpus)
        return of_torch or device.backend.name == "numpy"

    def _run(self, collective: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        try:
            collective(*arguments, **options)
        except (RuntimeError, dist.DistError) as error:
            time.sleep(_GRACE)
            raise errors.CommunicationError(f"gloo has lost a rank: {error}") from error

    def exchange(self, data: bytes) -> list[bytes]:
        """The bytes that each rank gave, by rank."""
        if not data:
            self._run(dist.barrier)
            return [b""] * self.size
        given = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        found = [torch.empty_like(given) for _ in range(self.size)]
        self._run(dist.all_gather, found, given)
        return [part.numpy().tobytes() for part in found]

    def all_reduce(self, array: Array, op: str) -> Array:
        """The sum, mean, maximum or minimum over all ranks."""
        x = _tensor(array)
        there, back = (_AS if op in ("sum", "mean") else _ORDERED).get(x.dtype, _ITSELF)
        found = there(x).contiguous()
        if found.data_ptr() == x.data_ptr():
            found = found.clone()
        self._run(dist.all_reduce, found, _OPS[op])
        if op == "mean":
            found /= self.size
        return _like(array, back(found))

    def all_reduce_own(self, array: Array) -> Array:
        """The sum over all ranks, in the place of the array where it can be."""
        x = _tensor(array)
        there, _ = _AS.get(x.dtype, _ITSELF)
        writable = isinstance(array, torch.Tensor) or array.flags.writeable
        if there is not _ITSELF[0] or not x.is_contiguous() or not writable:
            return self.all_reduce(array, "sum")
        self._run(dist.all_reduce, x, _OPS["sum"])
        return array

    def reduce_scatter(self, array: Array) -> Array:
        """This rank's part of the sum, which it adds in the order of ranks."""
        x = _tensor(array)
        there, back = _AS.get(x.dtype, _ITSELF)
        given = there(x).contiguous()
        parts = torch.empty_like(given)
        if given.numel():
            self._run(dist.all_to_all_single, _bytes(parts), _bytes(given))
        first, *others = parts.reshape(self.size, -1).unbind()
        for part in others:
            first += part
        shape = given.shape[0] // self.size, *given.shape[1:]
        return _like(array, back(first.reshape(shape)))

    def all_gather(self, array: Array) -> Array:
        """The arrays of all ranks, one behind the other."""
        x = _tensor(array).contiguous()
        found = x.new_empty((x.shape[0] * self.size, *x.shape[1:]))
        if x.numel():
            self._run(dist.all_gather, list(_bytes(found).chunk(self.size)), _bytes(x))
        return _like(array, found)

    def broadcast(self, array: Array, root: int) -> Array:
        """The array of the root."""
        found = _tensor(array).clone(memory_format=torch.contiguous_format)
        if found.numel():
            self._run(dist.broadcast, _bytes(found), root)
        return _like(array, found)

    def all_to_all(self, array: Array) -> Array:
        """Part i of the first axis goes to rank i."""
        x = _tensor(array).contiguous()
        found = torch.empty_like(x)
        if x.numel():
            self._run(dist.all_to_all_single, _bytes(found), _bytes(x))
        return _like(array, found)

    def barrier(self) -> None:
        """Waits until all ranks are here."""
        self._run(dist.barrier)

    def abort(self, code: int) -> None:
        """Ends this process, whose end the launcher and the other ranks notice."""
        os._exit(code)

    def close(self) -> None:
        """Ends the connection."""
        if self.size > 1:
            dist.destroy_process_group()


_ITSELF: tuple[Callable[..., Any], Callable[..., Any]] = (lambda x: x, lambda x: x)


def _tensor(array: Array) -> torch.Tensor:
    """The array as one of torch; a copy of what is read-only."""
    if isinstance(array, torch.Tensor):
        return array
    return from_numpy(array, torch.device("cpu"), copy=False)


def _like(array: Array, found: torch.Tensor) -> Array:
    return found if isinstance(array, torch.Tensor) else to_numpy(found)


def _bytes(x: torch.Tensor) -> torch.Tensor:
    """The elements as bytes: gloo does not move every dtype."""
    return x.reshape(-1).view(torch.uint8)


@hookimpl
def pullback_register_communicator(register: Any) -> None:
    """Registers the communicator of all processes."""
    register(TorchCommunicator())
