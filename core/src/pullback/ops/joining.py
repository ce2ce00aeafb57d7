"""Tensors put together, taken apart, repeated and padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pullback import errors
from pullback.dispatch import op, primitive
from pullback.dispatch.convert import from_any
from pullback.dtypes import same
from pullback.ops.creation import full
from pullback.ops.manipulation import broadcast_to, expand_dims, reshape
from pullback.ops.slicing import strided_slice, strided_update
from pullback.shapes import Axes, Axis, Shape, as_int, first, normal_axis, size_of
from pullback.spec import EXACT
from pullback.tensor import CALL, Tensor, TensorLike

__all__ = ["concat", "pad", "repeat", "roll", "split", "stack", "tile", "unstack"]


def part(axis: int, start: int, stop: int) -> tuple[Any, ...]:
    """The key of start:stop along `axis`; both within it."""
    return (*[slice(None)] * axis, slice(start, stop, 1), ...)


# ---------------------------------------------------------------------------------------------
# Joining.


def _joined(arrays: list[Shape], *, axis: int | None) -> Shape:
    if not arrays:
        raise errors.InputValueError("needs at least one tensor, got an empty sequence")
    if axis is None:
        return (sum(size_of(shape) for shape in arrays),)
    head = arrays[0]
    for shape in arrays[1:]:
        if len(shape) != len(head) or any(
            a != b for i, (a, b) in enumerate(zip(head, shape, strict=True)) if i != axis
        ):
            raise errors.ShapeError(
                f"shapes {head} and {shape} differ elsewhere than along axis {axis}"
            )
    if not head:
        raise errors.ShapeError("0-d tensors have no axis to be joined along; use stack")
    return (*head[:axis], sum(shape[axis] for shape in arrays), *head[axis + 1 :])


@op(shape=_joined, dtype=same, accuracy=EXACT)
def concat(arrays: Sequence[TensorLike], /, *, axis: Axis | None = 0) -> Tensor:
    """The arrays one after the other along an axis that they have (array API standard).

    Args:
        arrays: tensors of one shape but for their sizes along `axis`; dtypes are promoted.
        axis: the axis; None joins the flattened arrays.

    Raises:
        ShapeError: for shapes that differ elsewhere.
        AxisError: for an axis that is not there.

    >>> pb.concat([[[1, 2]], [[3, 4]]]).tolist()
    [[1, 2], [3, 4]]
    """
    return primitive()


@concat.vjp("arrays")
def _(g: Tensor, arrays_shape: list[Shape], axis: int | None) -> list[Tensor]:
    parts = []
    start = 0
    for shape in arrays_shape:
        stop = start + (size_of(shape) if axis is None else shape[axis])
        piece = strided_slice(g, key=part(axis or 0, start, stop))
        parts.append(reshape(piece, tuple(shape)) if axis is None else piece)
        start = stop
    return parts


def _new_axis(shapes: tuple[list[Shape], ...], *, axis: Any) -> dict[str, Any]:
    if not shapes[0]:
        raise errors.InputValueError("needs at least one tensor, got an empty sequence")
    return {"axis": normal_axis(axis, len(shapes[0][0]) + 1)}


def _stacked(arrays: list[Shape], *, axis: int) -> Shape:
    head = arrays[0]
    for shape in arrays[1:]:
        if shape != head:
            raise errors.ShapeError(f"shapes {head} and {shape} differ")
    return (*head[:axis], len(arrays), *head[axis:])


@op(shape=_stacked, dtype=same, accuracy=EXACT, normalize=_new_axis)
def stack(arrays: Sequence[TensorLike], /, *, axis: int = 0) -> Tensor:
    """The arrays side by side along a new axis (array API standard).

    Args:
        arrays: tensors of one shape; dtypes are promoted.
        axis: where the new axis is in the result.

    Raises:
        ShapeError: for shapes that differ.
        AxisError: for a place outside the result.

    >>> pb.stack([[1, 2], [3, 4]], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    return concat([expand_dims(array, axis) for array in arrays], axis=axis)


stack.vjp(arrays=lambda g, axis: unstack(g, axis=axis))


# ---------------------------------------------------------------------------------------------
# Taking apart.


def unstack(x: TensorLike, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of x along an axis, without it (array API standard).

    Args:
        x: a tensor of at least one axis.
        axis: the axis that the slices are taken along.

    Raises:
        AxisError: for an axis that is not there.

    >>> [row.tolist() for row in pb.unstack([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]
    """
    x = from_any(x)
    axis = normal_axis(axis, x.ndim)
    before = (slice(None),) * axis
    return tuple([strided_slice(x, key=(*before, i, ...)) for i in range(x.shape[axis])])


def split(
    x: TensorLike, /, indices_or_sections: int | Sequence[int], *, axis: int = 0
) -> list[Tensor]:
    """x cut into consecutive parts along an axis, as by NumPy's function.

    Args:
        x: a tensor of at least one axis.
        indices_or_sections: the number of equal parts, or the positions to cut at.
        axis: the axis to cut.

    Raises:
        ShapeError: when the axis does not divide into that many parts.
        AxisError: for an axis that is not there.

    >>> [part.tolist() for part in pb.split([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    >>> [part.tolist() for part in pb.split([1, 2, 3, 4], [1])]
    [[1], [2, 3, 4]]
    """
    x = from_any(x)
    axis = normal_axis(axis, x.ndim)
    size = x.shape[axis]
    if isinstance(indices_or_sections, Sequence):
        cuts = [slice(as_int(cut, "an integer position")) for cut in indices_or_sections]
        bounds = [0, *[cut.indices(size)[1] for cut in cuts], size]
    else:
        sections = as_int(indices_or_sections, "an integer number of parts")
        if sections <= 0 or size % sections:
            raise errors.ShapeError(
                f"split: axis {axis} of shape {x.shape} does not divide into {sections} equal "
                f"parts; give the positions to cut at"
            )
        bounds = [i * (size // sections) for i in range(sections + 1)]
    return [
        strided_slice(x, key=part(axis, low, max(low, high)))
        for low, high in zip(bounds, bounds[1:], strict=False)
    ]


# ---------------------------------------------------------------------------------------------
# Repeating.


def _shifts(shapes: tuple[Shape, ...], *, shift: Any, axis: Any) -> dict[str, Any]:
    if axis is None:
        return {"shift": as_int(shift, "an integer shift"), "axis": None}
    shifts = tuple(shift) if isinstance(shift, tuple | list) else (shift,)
    axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise errors.InputValueError(f"{len(shifts)} shifts for {len(axes)} axes; give one each")
    return {
        "shift": tuple([as_int(one, "an integer shift") for one in shifts]),
        "axis": tuple([normal_axis(one, len(shapes[0])) for one in axes]),
    }


@op(shape=first, dtype=same, accuracy=EXACT, normalize=_shifts)
def roll(
    x: TensorLike,
    /,
    shift: int | tuple[int, ...],
    *,
    axis: int | tuple[int, ...] | None = None,
) -> Tensor:
    """x with its elements moved along axes, round the end (array API standard).

    Args:
        x: a tensor of any shape and dtype.
        shift: how far, towards larger indices; one number, or one for each axis.
        axis: the axes; the flattened x is rolled if None.

    Raises:
        AxisError: for an axis that is not there.
        InputValueError: for unequal numbers of shifts and axes.

    >>> pb.roll([1, 2, 3, 4], 1).tolist()
    [4, 1, 2, 3]
    """
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, axis=0), x.shape)
    for distance, one in zip(shift, axis, strict=True):  # type: ignore[arg-type]
        size = x.shape[one]
        cut = -distance % size if size else 0
        if cut:
            tail = strided_slice(x, key=part(one, cut, size))
            x = concat([tail, strided_slice(x, key=part(one, 0, cut))], axis=one)
    return x  # type: ignore[no-any-return]


@roll.vjp("x")
def _(g: Tensor, shift: Any, axis: Any) -> Tensor:
    return roll(g, -shift if axis is None else tuple([-one for one in shift]), axis=axis)


def _repetitions(shapes: tuple[Shape, ...], *, repetitions: Any) -> dict[str, Any]:
    given = tuple(repetitions) if isinstance(repetitions, tuple | list) else (repetitions,)
    normal = tuple([as_int(one, "an integer number of repetitions") for one in given])
    if normal and min(normal) < 0:
        raise errors.InputValueError(f"repetitions must not be negative, got {normal}")
    return {"repetitions": (1,) * (len(shapes[0]) - len(normal)) + normal}


def _tiled(x: Shape, *, repetitions: Shape) -> Shape:
    sizes = (1,) * (len(repetitions) - len(x)) + x
    return tuple([size * times for size, times in zip(sizes, repetitions, strict=True)])


@op(shape=_tiled, dtype=same, accuracy=EXACT, normalize=_repetitions)
def tile(x: TensorLike, repetitions: tuple[int, ...], /) -> Tensor:
    """Copies of x side by side (array API standard).

    Args:
        x: a tensor of any shape and dtype.
        repetitions: how many copies along each axis; axes are counted from the last, and either
            side is filled up with ones.

    Raises:
        InputValueError: for negative numbers.

    >>> pb.tile([1, 2], (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    sizes = (1,) * (len(repetitions) - x.ndim) + x.shape
    apart = reshape(x, tuple([n for size in sizes for n in (1, size)]))
    spread = [n for pair in zip(repetitions, sizes, strict=True) for n in pair]
    return reshape(broadcast_to(apart, spread), _tiled(x.shape, repetitions=repetitions))


@tile.vjp("x")
def _(g: Tensor, x_shape: Shape, repetitions: Shape) -> Tensor:
    sizes = (1,) * (len(repetitions) - len(x_shape)) + tuple(x_shape)
    apart = reshape(g, tuple([n for pair in zip(repetitions, sizes, strict=True) for n in pair]))
    return reshape(apart.sum(tuple(range(0, 2 * len(sizes), 2))), tuple(x_shape))


def repeat(
    x: TensorLike, repeats: int | TensorLike, /, *, axis: int | None = None
) -> Tensor:
    """x with each element (or slice along an axis) repeated in place (array API standard).

    Args:
        x: a tensor of any shape and dtype.
        repeats: how often: an integer, or a 1-d integer tensor with a number for each slice.
        axis: the axis; the flattened x is repeated if None.

    Raises:
        InputValueError: for negative numbers.
        ShapeError: for another count of numbers than slices.
        AxisError: for an axis that is not there.

    >>> pb.repeat([1, 2], 2).tolist(), pb.repeat([1, 2], [3, 1]).tolist()
    ([1, 1, 2, 2], [1, 1, 1, 2])
    """
    x = from_any(x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = normal_axis(axis, x.ndim)
    size = x.shape[axis]
    times = from_any(repeats, None, x.device) if not isinstance(repeats, int) else None
    if times is not None and times.size == 1:
        times, repeats = None, int(times)
    if times is None:
        if repeats < 0:
            raise errors.InputValueError(f"repeat: repeats must not be negative, got {repeats}")
        apart = expand_dims(x, axis + 1)
        shape = list(apart.shape)
        shape[axis + 1] = repeats
        merged = (*x.shape[:axis], size * repeats, *x.shape[axis + 1 :])
        return reshape(broadcast_to(apart, shape), merged)
    if times.shape != (size,):
        raise errors.ShapeError(
            f"repeat: repeats of shape {times.shape} for axis {axis} of shape {x.shape}; "
            f"give one number, or {size} of them"
        )
    counts = times.tolist()
    if any(count < 0 for count in counts):
        raise errors.InputValueError(f"repeat: repeats must not be negative, got {counts}")
    positions = [i for i, count in enumerate(counts) for _ in range(count)]
    where = from_any(positions).astype("int32") if not positions else from_any(positions)
    return CALL["take"](x, where.to(x.device), axis=axis)


# ---------------------------------------------------------------------------------------------
# Padding.

#: The index in an axis of `size` that position i (from -before) of the padded one shows.
_MODES = {
    "edge": lambda i, size: min(max(i, 0), size - 1),
    "reflect": lambda i, size: size - 1 - abs(i % max(2 * (size - 1), 1) - (size - 1)),
    "symmetric": lambda i, size: min(i % (2 * size), -(i + 1) % (2 * size)),
    "wrap": lambda i, size: i % size,
}


def _widths(
    shapes: tuple[Shape, ...], *, pad_width: Any, mode: str, constant_values: Any
) -> dict[str, Any]:
    shape = shapes[0]
    if mode != "constant" and mode not in _MODES:
        raise errors.InputValueError(
            f'{mode!r} is no mode; use "constant", {", ".join(map(repr, _MODES))}'
        )
    given = pad_width.tolist() if hasattr(pad_width, "tolist") else pad_width
    pairs = list(given) if isinstance(given, tuple | list) else [given]
    if len(pairs) == 2 and not any(isinstance(one, tuple | list) for one in pairs):
        pairs = [tuple(pairs)]
    pairs = [
        (pair[0], pair[-1]) if isinstance(pair, tuple | list) else (pair, pair) for pair in pairs
    ]
    if len(pairs) == 1:
        pairs *= len(shape)
    if len(pairs) != len(shape):
        raise errors.ShapeError(f"{len(pairs)} pairs of widths for shape {shape}; give one each")
    widths = tuple([tuple([as_int(n, "an integer width") for n in pair]) for pair in pairs])
    for (before, after), size in zip(widths, shape, strict=True):
        if before < 0 or after < 0:
            raise errors.InputValueError(f"widths must not be negative, got {widths}")
        if not size and before + after and mode != "constant":
            raise errors.ShapeError(f'mode {mode!r} has nothing to repeat in shape {shape}')
    if hasattr(constant_values, "item"):
        constant_values = constant_values.item()
    return {"pad_width": widths, "mode": mode, "constant_values": constant_values}


def _padded(x: Shape, *, pad_width: Any, **_: Any) -> Shape:
    return tuple([a + size + b for size, (a, b) in zip(x, pad_width, strict=True)])


@op(shape=_padded, dtype=same, accuracy=EXACT, normalize=_widths)
def pad(
    x: TensorLike,
    /,
    pad_width: int | Sequence[Any],
    *,
    mode: Literal["constant", "edge", "reflect", "symmetric", "wrap"] = "constant",
    constant_values: bool | int | float | complex = 0,
) -> Tensor:
    """x with more elements before and after along its axes, as by NumPy's function.

    Args:
        x: a tensor of any shape and dtype.
        pad_width: one number for all sides, one pair (before, after) for all axes, or one pair for
            each axis.
        mode: what goes there: a constant; the nearest element ("edge"); the elements mirrored, at
            the edge ("symmetric") or at the last element ("reflect"); those of the other end
            ("wrap").
        constant_values: the constant.

    Raises:
        InputValueError: for negative widths, or another mode.
        ShapeError: when the pairs are not one for each axis.

    >>> pb.pad([1, 2, 3], (1, 2)).tolist(), pb.pad([1, 2, 3], 2, mode="reflect").tolist()
    ([0, 1, 2, 3, 0, 0], [3, 2, 1, 2, 3, 2, 1])
    """
    if mode == "constant":
        key = [slice(a, a + size, 1) for size, (a, _) in zip(x.shape, pad_width, strict=True)]
        shape = _padded(x.shape, pad_width=pad_width)
        filled = full(shape, constant_values, dtype=x.dtype, device=x.device)
        return strided_update(filled, x, key=(*key, ...))
    source = _MODES[mode]
    for axis, (before, after) in enumerate(pad_width):
        if before or after:
            size = x.shape[axis]
            index = [source(i, size) for i in range(-before, size + after)]
            x = CALL["take"](x, from_any(index).to(x.device), axis=axis)
    return x  # type: ignore[no-any-return]
