"""The communicator "jax": the collectives of pullback by those of XLA between processes.

    pullback launch -n 2 --communicator jax train.py
    PULLBACK_COMMUNICATOR=jax torchrun --nproc-per-node 2 train.py

with `pb.distributed.init()` in `train.py`, before the first tensor of JAX. On processors XLA's
collectives are gloo's, on NVIDIA's GPUs NCCL's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pullback import errors
from pullback.devices import Device
from pullback.distributed import Communicator, launched_as, meeting_place
from pullback.plugins.hookspecs import hookimpl
from pullback_jax.settings import with_settings

__all__ = ["JaxCommunicator", "pullback_register_communicator"]

Array = Any
#: The one axis of the mesh: rank i has the device i.
_RANKS = "ranks"


def _widened(x: Array) -> Array:
    """16-bit floats are added in float32."""
    return x.astype("float32") if x.dtype.name in ("float16", "bfloat16") else x


def _sum(x: Array, over: int = 1) -> Array:
    wide = lax.psum(_widened(x), _RANKS)
    return (wide if over == 1 else wide / over).astype(x.dtype)


def _gathered(x: Array) -> Array:
    return lax.all_gather(x[0], _RANKS, tiled=True)[None]


def _sum_in_parts(x: Array) -> Array:
    return lax.psum_scatter(_widened(x)[0], _RANKS, tiled=True)[None].astype(x.dtype)


def _exchanged(x: Array) -> Array:
    return lax.all_to_all(x[0], _RANKS, 0, 0, tiled=True)[None]


class JaxCommunicator(Communicator):
    """The processes of `jax.distributed`, each with the first of its devices.

    They meet at `MASTER_ADDR` and `MASTER_PORT`, which `torchrun` and `pullback launch` set; where
    `torchrun` has the port itself, at the next one. Arrays of JAX stay on their device; others are
    copied to it and back. One process connects to nobody.

    Raises:
        CommunicationError: if there are several processes and no address, or if JAX has computed
            something before.
    """

    name = "jax"

    def __init__(self) -> None:
        self.rank, self.size = launched_as()
        if self.size == 1:
            return
        host, port = meeting_place("jax")
        port += os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        try:
            jax.distributed.initialize(f"{host}:{port}", self.size, self.rank)
        except RuntimeError as error:
            raise errors.CommunicationError(
                f"jax: {error}; call pb.distributed.init() before the first tensor of JAX"
            ) from error
        firsts = {device.process_index: device for device in reversed(jax.devices())}
        self._device = firsts[self.rank]
        mesh = Mesh(np.array([firsts[rank] for rank in range(self.size)]), (_RANKS,))
        self._sharding = NamedSharding(mesh, PartitionSpec(_RANKS))
        self._over = partial(
            jax.shard_map, mesh=mesh, in_specs=PartitionSpec(_RANKS),
            out_specs=PartitionSpec(_RANKS), check_vma=False,
        )  # fmt: skip
        reductions: dict[str, Callable[[Array], Array]] = {
            "sum": _sum,
            "mean": partial(_sum, over=self.size),
            "max": lambda x: lax.pmax(x, _RANKS),
            "min": lambda x: lax.pmin(x, _RANKS),
        }
        self._reduced = {op: self._compiled(function) for op, function in reductions.items()}
        self._gathered = self._compiled(_gathered)
        self._sum_in_parts = self._compiled(_sum_in_parts)
        self._exchanged = self._compiled(_exchanged)

    def _compiled(
        self, function: Callable[[Array], Array]
    ) -> Callable[[Array, tuple[int, ...]], Array]:
        """A function of the part of each rank, called with an array and the shape of the result."""
        run = jax.jit(self._over(function))

        @with_settings
        def call(array: Array, shape: tuple[int, ...]) -> Array:
            if not array.size:  # XLA has no collective of nothing
                return array.reshape(shape)
            given = jax.device_put(array, self._device)[None]
            whole = jax.make_array_from_single_device_arrays(
                (self.size, *given.shape[1:]), self._sharding, [given]
            )
            try:
                found = run(whole).addressable_data(0)[0]
                return found if isinstance(array, jax.Array) else np.asarray(found)
            except jax.errors.JaxRuntimeError as error:
                raise errors.CommunicationError(f"jax: {error}") from error

        return call

    def takes(self, device: Device) -> bool:
        """True for the device of JAX that is this rank's."""
        return device.backend.name == "jax" and device.native == self._device

    def exchange(self, data: bytes) -> list[bytes]:
        """The bytes that each rank gave, by rank."""
        found = self.all_gather(np.frombuffer(data or b"-", np.uint8))
        return [part.tobytes() if data else b"" for part in np.split(found, self.size)]

    def all_reduce(self, array: Array, op: str) -> Array:
        """The sum, mean, maximum or minimum over all ranks."""
        return self._reduced[op](array, array.shape)

    def all_gather(self, array: Array) -> Array:
        """The arrays of all ranks, one behind the other."""
        return self._gathered(array, (array.shape[0] * self.size, *array.shape[1:]))

    def reduce_scatter(self, array: Array) -> Array:
        """This rank's part of the sum."""
        return self._sum_in_parts(array, (array.shape[0] // self.size, *array.shape[1:]))

    def broadcast(self, array: Array, root: int) -> Array:
        """The array of the root."""
        return self.all_gather(array[None])[root] if array.size else array

    def all_to_all(self, array: Array) -> Array:
        """Part i of the first axis goes to rank i."""
        return self._exchanged(array, array.shape)

    def abort(self, code: int) -> None:
        """Ends this process, whose end the launcher and the other ranks notice."""
        os._exit(code)

    def close(self) -> None:
        """Ends the connection."""
        if self.size > 1:
            jax.distributed.shutdown()


@hookimpl
def pullback_register_communicator(register: Any) -> None:
    """Registers the communicator of all processes."""
    register(JaxCommunicator())
