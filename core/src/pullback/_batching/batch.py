"""The backend of a batch: dispatch finds the batching rules where kernels are on other devices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, NoReturn

import numpy as np

from pullback import errors
from pullback._batching.arrays import BatchDevice, Batched, run_of
from pullback._batching.rules import DRAWN, BatchedOp, draws, rule_of
from pullback._batching.sealed import by_body
from pullback._dispatch.convert import flatten
from pullback._dispatch.recording import LOCAL
from pullback._tree import each
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.plugins.backend import Backend
from pullback.plugins.records import Kernel
from pullback.spec import OPS, Op
from pullback.tensor import Tensor, wrap


class BatchBackend(Backend):
    """Calls ops for all items of a batch at once, on the device below.

    Whatever is made of ops can be called for many items by giving it tensors on its device. So
    batches nest, and tapes inside and outside of a batch see the calls at their own level.

    Args:
        inner: the device below.
    """

    # A body is recorded at each level: its rules are for the tapes of the level that called it.
    keeps_bodies = False

    def __init__(self, inner: Device) -> None:
        super().__init__()
        below = inner.backend
        self.dtypes, self.storage_dtypes = below.dtypes, below.storage_dtypes
        self.public_dtypes, self.named_dtypes = below.public_dtypes, below.named_dtypes
        self.device = device = BatchDevice()
        device.real = device.native = inner
        device.backend = self
        device.kind, device.index = inner.kind, inner.index
        device.tables = self.tables
        device.constants = {}
        device._str = str(inner)

    def kernel(self, op_name: str, dtype: DType | None) -> Kernel | None:
        """The rule of an op; None for a composite whose body tapes may record at every level."""
        op = OPS[op_name]
        if not op.inputs:
            return partial(self._create, op) if op.primitive or op.name in DRAWN else None
        rule = rule_of(op)
        if rule is not None:
            return partial(self._call, op, rule)
        return partial(self._run_body, op) if op.rules or op.residuals else None

    def _call(
        self, op: Op, rule: Callable[..., Any], /, *inputs: Any, **attributes: Any
    ) -> Batched | tuple[Batched, ...]:
        run = run_of(flatten(inputs))
        if run is None:
            result = BatchedOp(op, 1, attributes).all_on(*[each(_tensor, x) for x in inputs])
        else:
            result = rule(BatchedOp(op, run.size, attributes), *inputs)
            if result is None:
                body: Batched | tuple[Batched, ...] = self._run_body(op, *inputs, **attributes)
                return body
        tensors = [result] if isinstance(result, Tensor) else result
        arrays = tuple([Batched(tensor, run) for tensor in tensors])
        return arrays if len(arrays) > 1 else arrays[0]

    def _run_body(self, op: Op, /, *inputs: Any, **attributes: Any) -> Any:
        results = by_body(self.device, op, inputs, attributes)
        return results[0] if len(results) == 1 else tuple(results)

    def _create(self, op: Op, /, **attributes: Any) -> Batched:
        call = BatchedOp(op, 1, {**attributes, "device": self.device.real})
        if "counter" not in attributes:
            return Batched(call.on(), None)
        runs: list[Any] = LOCAL.state.runs
        run = next((run for run in reversed(runs) if run.device is self.device), None)
        tensor = draws(call, run)
        return Batched(tensor, None if run is None or run.draws_alike else run)

    def from_host(self, array: np.ndarray[Any, Any], device: Device, *, copy: bool) -> Batched:
        """Host data are the value of every item."""
        native = device.backend.from_host(array, device.native, copy=copy)
        return Batched(wrap(native, device), None)

    def to_host(self, array: Batched) -> np.ndarray[Any, Any]:
        """The values, where they are those of every item."""
        if array.run is not None:
            _reject_values()
        return array.tensor.numpy()


_tensor = attrgetter("tensor")


def _reject_values() -> NoReturn:
    raise errors.InputValueError(
        "the value of a tensor is asked for inside pb.vmap, where each item has another one; "
        "compute with ops, such as pb.where in place of if, and print what the function returns"
    )


def device_on(inner: Device) -> BatchDevice:
    """The device of batches of what is on another one; there is one for each."""
    known: dict[tuple[str, int], BatchDevice] = vars(inner.backend).setdefault("_batches", {})
    device = known.get((inner.kind, inner.index))
    if device is None or device.real is not inner:
        device = known[inner.kind, inner.index] = BatchBackend(inner).device
    return device
