"""Functions with a gradient of their own, as the tapes outside of a batch see them.

A tape outside records the calls on the devices below, one by one. For an op that runs its body,
and for a custom gradient, it must not: the gradient is that of the rule. So the calls are not
recorded there, and the results get a node that stands for all of them. Its gradient is the rule on
the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pullback import dtypes
from pullback._batching.arrays import BatchDevice, Batched, again, run_of, whole
from pullback._dispatch import general_vjp
from pullback._dispatch.bodies import run_body
from pullback._dispatch.convert import flatten
from pullback._dispatch.recording import (
    CONSTANT,
    LOCAL,
    Node,
    Output,
    live,
    node_of,
    paused,
)
from pullback._tree import each
from pullback.ops.reductions import sum
from pullback.spec import Op
from pullback.tensor import Tensor, wrap

#: From the results, and their cotangents by position, those of the inputs; None for no gradient.
Backward: TypeAlias = "Callable[[list[Tensor], dict[int, Tensor]], Sequence[Tensor | None]]"


def by_body(
    device: BatchDevice, op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> list[Batched]:
    """The results of an op's body, the residuals last; for tapes outside with the op's gradient.

    Args:
        device: the batch device.
        op: a composite.
        inputs: arrays as the op's kernel gets them.
        attributes: in canonical form.
    """
    tensors = [each(lambda array: wrap(array, device), value) for value in inputs]
    flat: list[Tensor | None] = flatten(tensors)

    def run() -> list[Tensor]:
        result = run_body(op, tensors, attributes)
        results = result if isinstance(result, (tuple, list)) else (result,)
        return [_on(tensor, device) for tensor in results]

    def backward(outs: list[Tensor], g: dict[int, Tensor]) -> list[Tensor | None]:
        return general_vjp.by_rules(op, tensors, outs, attributes, g)

    if not is_recorded_below(flat):
        return [tensor._array for tensor in run()]
    with paused():
        results = run()
    return [tensor._array for tensor in sealed(op.name, flat, results, backward)]


def is_recorded_below(tensors: Iterable[Tensor | None]) -> bool:
    """Returns whether a tape outside of the batch records what is done with some tensors."""
    if not LOCAL.state.recording:
        return False
    for tensor in tensors:
        below = tensor
        while below is not None and isinstance(below._array, Batched):
            below = below._array.tensor
            if live(below) is not None:
                return True
    return False


def sealed(
    name: str, inputs: Sequence[Tensor | None], results: Sequence[Tensor], backward: Backward
) -> list[Tensor]:
    """The results of a function with a node of its own on each device below.

    Args:
        name: the function's name, for messages.
        inputs: what it got; None where no gradient flows.
        results: what it returned; nothing has recorded how.
        backward: its gradient, on the device of the results.
    """
    devices = [tensor._device for tensor in (*results, *inputs) if tensor is not None]
    device = next((one for one in devices if isinstance(one, BatchDevice)), None)
    if device is None:
        return [*results]
    tops: list[Any] = [None if x is None else _on(x, device)._array for x in inputs]
    results = [_on(tensor, device) for tensor in results]
    run = run_of([*tops, *[tensor._array for tensor in results]])

    def up(tensor: Tensor) -> Tensor:
        return wrap(Batched(tensor, run), device)

    def down(array: Batched) -> Tensor:
        return array.tensor if run is None else whole(array, run.size)

    def backward_below(outs: list[Tensor], g: dict[int, Tensor]) -> list[Tensor | None]:
        cotangents = {position: up(part) for position, part in g.items()}
        # A tape outside comes here when the run is over.
        with again(run):
            parts = backward([*map(up, outs)], cotangents)
            found: list[Tensor | None] = []
            for top, part in zip(tops, parts, strict=True):
                tensor = None if top is None or part is None else down(_on(part, device)._array)
                if tensor is not None and run is not None and top.run is None:
                    tensor = sum(tensor, axis=0, dtype=tensor.dtype)
                found.append(tensor)
            return found

    below = [None if top is None else top.tensor for top in tops]
    out = [down(tensor._array) for tensor in results]
    handles = [tensor.__copy__() for tensor in sealed(name, below, out, backward_below)]
    parents = [*map(live, below)]
    nodes: list[Node] = [CONSTANT] * len(handles)
    if any(parent is not None for parent in parents):
        next_serial = LOCAL.state.next_serial
        node = node_of(_Sealed(name, handles, backward_below), parents, ())
        nodes = [
            Output(next_serial(), node, position) if dtypes.is_floating(handle.dtype) else CONSTANT
            for position, handle in enumerate(handles)
        ]
    for handle, one in zip(handles, nodes, strict=True):
        handle._node = one
    return [*map(up, handles)]


class _Sealed:
    """The op of a node that `sealed` makes."""

    def __init__(self, name: str, results: Sequence[Tensor], backward: Backward) -> None:
        self.name = name
        self._results = [(tensor._array, tensor._device) for tensor in results]
        self._backward = backward

    def vjp(
        self, node: Node, g: dict[int, Tensor], needed: Collection[Node] | None, *_: object
    ) -> list[tuple[Node, Tensor]]:
        """The cotangents of the inputs, from those of the results by position."""
        next_serial = LOCAL.state.next_serial
        outs = [
            wrap(array, device, Output(next_serial(), node, position))
            for position, (array, device) in enumerate(self._results)
        ]
        return general_vjp.pairs(node, self._backward(outs, g))


def _on(tensor: Tensor, device: BatchDevice) -> Tensor:
    """A tensor on a batch device; one of a device below is the value of every item."""
    lifted = device.lift(tensor)
    assert lifted is not None
    return lifted
