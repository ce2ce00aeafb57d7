"""`vmap`: a function of one item, called for all items of a batch at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, ParamSpec, TypeAlias

from pullback import errors
from pullback._batching.arrays import Batched, VmapCall, running, whole
from pullback._batching.batch import device_on
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import CONSTANT, LOCAL, announce_call, lifted
from pullback._hints import answering
from pullback._tree import leaves, like
from pullback.devices import Device
from pullback.ops.manipulation import moveaxis
from pullback.shapes import canonical_axis, check_choice
from pullback.tensor import Tensor, wrap

__all__ = ["vmap"]

P = ParamSpec("P")
#: An axis, None for no axis, or one of these for each part of a structure.
AxesOf: TypeAlias = "int | Sequence[Any] | dict[str, Any] | None"


@answering
def vmap(
    f: Callable[P, Any],
    in_axes: AxesOf = 0,
    out_axes: AxesOf = 0,
    *,
    axis_size: int | None = None,
    randomness: Literal["different", "same"] = "different",
) -> Callable[P, Any]:
    """Makes a function of batches of a function of one item.

    Every op runs once, on all items. Inside `f` a tensor has the shape of one item; tensors from
    outside, variables among them, are the same for every item. Gradients, loops and further batches
    may be inside of it and around it.

    Args:
        f: a function of tensors, or of nested structures of them, that returns such.
        in_axes: the axis of the items in each positional argument: one for all, or a sequence of
            one for each. None stands for an argument that every item gets whole. For an argument
            that is a structure, an axis for all of it, or a structure of axes. Arguments by keyword
            are passed as they are.
        out_axes: the axis where the items of the results are put, for all of them or for each.
            None for a result that is the same for every item.
        axis_size: the number of items, where no argument has them.
        randomness: "different" gives each item random numbers of its own, "same" the same to all.

    Returns:
        A function of the same arguments with one more axis.

    >>> dot = pb.vmap(lambda x, y: pb.sum(x * y))
    >>> dot(pb.asarray([[1.0, 2.0], [3.0, 4.0]]), pb.ones((2, 2))).tolist()
    [3.0, 7.0]
    >>> slopes = pb.vmap(pb.grad(lambda w, x: pb.tanh(w * x)), in_axes=(None, 0))
    >>> slopes(2.0, pb.asarray([0.0, 1.0, 2.0])).shape
    (3,)

    Raises:
        InputValueError: for other numbers of items in two arguments, where no argument has any, and
            where `f` asks for the value of a tensor.
        AxisError: for an axis that an argument does not have.
        InputTypeError: for an `f` that is not a function, and where `in_axes` or `out_axes` have
            another structure than what they are for.
    """
    check_choice(randomness, "randomness", ("different", "same"))
    if not callable(f):
        raise errors.InputTypeError(f"pb.vmap takes a function, got {type(f).__name__}")

    @functools.wraps(f)
    def batched(*args: P.args, **kwargs: P.kwargs) -> Any:
        axes = [*_matched(in_axes, args, "in_axes")]
        flat = leaves(args)
        mapped = [i for i, axis in enumerate(axes) if axis is not None]
        tensors = {i: lifted(from_any(flat[i])) for i in mapped}
        inner = _device_of([*tensors.values()])
        for i, tensor in tensors.items():
            lower = inner.lift(tensor)
            assert lower is not None
            tensors[i] = moveaxis(lower, _axis_of(axes[i], tensor, args, i), 0)
        size = _size({i: tensor.shape[0] for i, tensor in tensors.items()}, axis_size, args)
        run = VmapCall(size, device_on(inner), randomness == "same")
        for i, tensor in tensors.items():
            flat[i] = wrap(Batched(tensor, run), run.device, CONSTANT)
        announce_call(f, getattr(f, "__name__", "the function of vmap"))
        with running(run):
            result = f(*like(args, iter(flat)), **kwargs)
        try:
            outs = _matched(out_axes, result, "out_axes")
            parts = [
                _whole(leaf, axis, run) for leaf, axis in zip(leaves(result), outs, strict=True)
            ]
        finally:
            run.is_over = True
        return like(result, iter(parts))

    return batched


def _whole(value: Any, axis: int | None, run: VmapCall) -> Tensor:
    """A result with the items along an axis."""
    tensor = run.device.lift(lifted(from_any(value)))
    if tensor is None:
        raise errors.DeviceError(
            f"the function of pb.vmap returns a tensor on {value.device}, and its arguments are on "
            f"{run.device}; move one of them with x.to(...)"
        )
    array = tensor._array
    if axis is None:
        if array.run is not None:
            raise errors.InputValueError(
                "out_axes is None for a result that has another value for each item; give the axis "
                "where the items are to be"
            )
        same: Tensor = array.tensor
        return same
    if array.run not in (None, run):
        raise errors.InputValueError(
            "a function returns a tensor from inside another call of pb.vmap; return it there"
        )
    items = whole(array, run.size)
    return moveaxis(items, 0, _axis(axis, items.ndim, "out_axes"))


def _axis(axis: Any, ndim: int, name: str) -> int:
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise errors.InputTypeError(f"{name}: an axis is an int or None, got {axis!r}")
    try:
        return canonical_axis(axis, ndim)
    except errors.AxisError as error:
        raise errors.AxisError(f"{name}: {error}") from None


def _axis_of(axis: Any, tensor: Tensor, args: Sequence[object], leaf: int) -> int:
    """The axis of the items in a tensor among the leaves of the arguments."""
    try:
        return _axis(axis, tensor.ndim, "in_axes")
    except errors.AxisError:
        raise errors.AxisError(
            f"pb.vmap: in_axes has the axis {axis} for {_argument(args, leaf)}, which has the "
            f"shape {tensor.shape}; write None in its place, as in in_axes=(0, None) for two "
            f"arguments, if every item gets it whole"
        ) from None


def _argument(args: Sequence[object], leaf: int) -> str:
    """The argument that a leaf is in, for messages."""
    position = [i for i, arg in enumerate(args) for _ in leaves(arg)][leaf]
    return f"argument {position}"


def _size(found: Mapping[int, int], axis_size: int | None, args: Sequence[object]) -> int:
    """The number of items.

    Raises:
        InputValueError: if arguments have different numbers of them, or none has any.
    """
    sizes = [*found.values(), *([] if axis_size is None else [axis_size])]
    if not sizes:
        raise errors.InputValueError(
            "pb.vmap: no argument has items, since in_axes is None for all; give axis_size="
        )
    if len({*sizes}) > 1:
        parts = [f"{_argument(args, i)} has {size} items" for i, size in found.items()]
        if axis_size is not None:
            parts.append(f"axis_size is {axis_size}")
        raise errors.InputValueError(
            f"pb.vmap: {', '.join(parts)} along in_axes; give as many of each, or None as the axis "
            f"of one that every item gets whole"
        )
    return sizes[0]


def _device_of(tensors: list[Tensor]) -> Device:
    """The device below the batch: that of the arguments, or of the batch that runs on it.

    Raises:
        DeviceError: for arguments on several.
    """
    devices = [tensor._device for tensor in tensors or [lifted(from_any(0))]]
    found = next((a for a in devices if all(map(a.stands_on, devices))), None)
    if found is None:
        names = " and ".join(sorted({*map(str, devices)}))
        raise errors.DeviceError(f"pb.vmap: arguments on {names}; move one of them with x.to(...)")
    for run in LOCAL.state.runs:
        if run.device.stands_on(found):
            found = run.device
    return found


def _matched(axes: Any, structure: Any, name: str) -> Iterator[Any]:
    """The axis of each leaf of a structure, from one for all of it or a structure of them.

    Raises:
        InputTypeError: if the two do not fit.
    """
    if axes is None or isinstance(axes, int):
        yield from [axes] * len(leaves(structure))
        return
    if isinstance(axes, dict) and isinstance(structure, dict) and axes.keys() == structure.keys():
        for key in structure:
            yield from _matched(axes[key], structure[key], name)
        return
    are_sequences = isinstance(axes, (list, tuple)) and isinstance(structure, (list, tuple))
    if are_sequences and len(axes) == len(structure):
        for axis, part in zip(axes, structure, strict=True):
            yield from _matched(axis, part, name)
        return
    what = f"{len(structure)} values" if isinstance(structure, (list, tuple)) else "what it is for"
    raise errors.InputTypeError(
        f"{name}={axes!r} does not fit {what}; give an axis for all, or one for each"
    )
