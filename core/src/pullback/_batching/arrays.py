"""The parts of a batch: its device, the arrays on it, and the call that they are of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pullback import errors
from pullback._dispatch.recording import LOCAL, RECORDING
from pullback.devices import Device, StandIn
from pullback.ops.manipulation import broadcast_to, reshape
from pullback.shapes import Shape
from pullback.tensor import Tensor, wrap


class VmapCall:
    """One call of a function that `vmap` made.

    Args:
        size: the number of items.
        device: the batch device.
        draws_alike: whether all items get the same random numbers.
    """

    __slots__ = ("device", "draws_alike", "is_over", "size")

    def __init__(self, size: int, device: BatchDevice, draws_alike: bool) -> None:
        self.size = size
        self.device = device
        self.draws_alike = draws_alike
        self.is_over = False


@contextmanager
def running(run: VmapCall) -> Iterator[None]:
    """Has branches, loops and random numbers know that they are called for a batch."""
    runs = LOCAL.state.runs
    runs.append(run)
    RECORDING.count += 1
    try:
        yield
    finally:
        RECORDING.count -= 1
        runs.pop()


@contextmanager
def again(run: VmapCall | None) -> Iterator[None]:
    """Allows what the tensors of a run are used for once it is over."""
    if run is None:
        yield
        return
    before, run.is_over = run.is_over, False
    try:
        with running(run):
            yield
    finally:
        run.is_over = before


class Batched:
    """The native array of a batch device: a tensor of the device below.

    Args:
        tensor: with the items along the first axis; if `run` is None, the value of every item.
        run: the call that the items are of.
    """

    __slots__ = ("dtype", "run", "shape", "tensor")

    def __init__(self, tensor: Tensor, run: VmapCall | None) -> None:
        self.tensor = tensor
        self.run = run
        self.dtype = tensor._array.dtype
        shape = tensor.shape
        self.shape: Shape = shape if run is None else shape[1:]


class BatchDevice(StandIn):
    """The device of a batch of what is on another one."""

    __slots__ = ()

    def lift(self, tensor: Tensor) -> Tensor | None:
        """A tensor of a device below as the value of every item; None for other devices."""
        if tensor._device is self:
            return tensor
        inner = tensor if tensor._device is self.real else self.real.lift(tensor)
        # A tape inside the batch has watched the tensor by its node, one outside as well.
        return None if inner is None else wrap(Batched(inner, None), self, tensor._node)

    def holds_anywhere(self, condition: Tensor) -> bool:
        """Returns whether any element of any item is true."""
        return self.real.holds_anywhere(condition._array.tensor)

    def text_of(self, tensor: Tensor) -> str | None:
        """The kind of an item, where the items have other values."""
        array = tensor._array
        if array.run is None:
            below: Tensor = array.tensor
            return below._device.text_of(below)
        kind = f"shape={tensor.shape}, dtype={tensor.dtype}, device={self}"
        return f"BatchedTensor({kind}, one of {array.run.size} items)"

    def stands_on(self, device: Device) -> bool:
        """Returns whether it is a batch of what is on a device, or that device itself."""
        return device is self or self.real.stands_on(device)


def batches_on(inner: Device) -> Iterable[BatchDevice]:
    """The devices that `vmap` has made for batches of what is on the devices of a backend."""
    known: dict[tuple[str, int], BatchDevice] = vars(inner.backend).get("_batches", {})
    return known.values()


def run_of(arrays: Iterable[Batched | None]) -> VmapCall | None:
    """The run that arrays are of; None if they have one value for every item.

    Raises:
        InputValueError: for a tensor of a call that has ended.
    """
    found: VmapCall | None = None
    for array in arrays:
        run = None if array is None else array.run
        if run is None:
            continue
        if run.is_over or (found is not None and run is not found):
            raise errors.InputValueError(
                "a tensor from inside a function that pb.vmap has called is used after that call; "
                "return it from the function"
            )
        found = run
    return found


def whole(x: Batched, size: int) -> Tensor:
    """The tensor with the items along its first axis, also where they all have one value."""
    return x.tensor if x.run is not None else broadcast_to(x.tensor, (size, *x.shape))


def aligned(x: Batched | None, ndim: int, size: int) -> Tensor | None:
    """The tensor of an array that is to be broadcast with items of so many axes."""
    if x is None or x.run is None or len(x.shape) == ndim:
        return None if x is None else x.tensor
    return reshape(x.tensor, (size, *[1] * (ndim - len(x.shape)), *x.shape))
