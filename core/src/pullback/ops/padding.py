"""Padding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pullback import errors
from pullback._dispatch import op
from pullback._dispatch.convert import as_number, from_any
from pullback._once import remembered
from pullback.dtypes import same
from pullback.ops.creation import full
from pullback.ops.indexing import scatter_add, take
from pullback.ops.joining import concat, part
from pullback.ops.slicing import strided_slice, strided_update
from pullback.shapes import PAD_SOURCES, Shape, as_int
from pullback.spec import EXACT
from pullback.tensor import Tensor

__all__ = ["pad"]


@remembered
def _pairs(shapes: tuple[Shape, ...], *, pad_width: Any, mode: str) -> tuple[Any, ...]:
    """The width before and behind each axis."""
    (shape,) = shapes
    if mode != "constant" and mode not in PAD_SOURCES:
        raise errors.InputValueError(
            f'unknown mode {mode!r}; use "constant", {", ".join(map(repr, PAD_SOURCES))}'
        )
    if hasattr(pad_width, "tolist"):
        pad_width = pad_width.tolist()
    pairs = list(pad_width) if isinstance(pad_width, tuple | list) else [pad_width]
    if len(pairs) == 2 and not any(isinstance(pair, tuple | list) for pair in pairs):
        pairs = [tuple(pairs)]
    pairs = [
        (pair[0], pair[-1]) if isinstance(pair, tuple | list) else (pair, pair) for pair in pairs
    ]
    if len(pairs) == 1:
        pairs *= len(shape)
    if len(pairs) != len(shape):
        raise errors.ShapeError(
            f"{len(pairs)} pairs of widths for shape {shape}; give one pair per axis"
        )
    widths = tuple([tuple([as_int(n, "an integer width") for n in pair]) for pair in pairs])
    for (before, after), size in zip(widths, shape, strict=True):
        if before < 0 or after < 0:
            raise errors.InputValueError(f"widths must not be negative, got {widths}")
        if not size and before + after and mode != "constant":
            raise errors.ShapeError(f"mode {mode!r} needs elements to repeat, got shape {shape}")
    return widths


def _widths(
    shapes: tuple[Shape, ...], *, pad_width: object, mode: str, constant_values: object
) -> dict[str, object]:
    widths = _pairs(shapes, pad_width=pad_width, mode=mode)
    constant_values = as_number(
        constant_values, "constant_values", "pb.pad(x - value, pad_width) + value"
    )
    if not isinstance(constant_values, (bool, int, float, complex)):
        raise errors.InputTypeError(f"constant_values must be a number, got {constant_values!r}")
    return {"pad_width": widths, "mode": mode, "constant_values": constant_values}


def _padded(x: Shape, *, pad_width: Any, **_: object) -> Shape:
    """Each size plus the widths before and after."""
    return tuple([a + size + b for size, (a, b) in zip(x, pad_width, strict=True)])


@op(shape=_padded, dtype=same, accuracy=EXACT, normalize=_widths)
def pad(
    x: Tensor,
    /,
    pad_width: Any,
    *,
    mode: Literal["constant", "edge", "reflect", "symmetric", "wrap"] = "constant",
    constant_values: bool | int | float | complex = 0,
) -> Tensor:
    """x padded before and after along its axes, as by `numpy.pad`.

    Args:
        x: a tensor of any shape and dtype.
        pad_width: one number for all sides, one pair (before, after) for all axes, or one pair for
            each axis.
        mode: the new elements: a constant ("constant"), the nearest element ("edge"), a reflection
            that repeats the edge ("symmetric") or not ("reflect"), or the elements of the other
            end ("wrap").
        constant_values: the value for mode "constant".

    Raises:
        InputValueError: for negative widths, or an unknown mode.
        ShapeError: if the number of pairs is not the number of axes.

    >>> pb.pad([1, 2, 3], (1, 2)).tolist(), pb.pad([1, 2, 3], 2, mode="reflect").tolist()
    ([0, 1, 2, 3, 0, 0], [3, 2, 1, 2, 3, 2, 1])
    """
    if mode == "constant":
        key = [slice(a, a + size, 1) for size, (a, _) in zip(x.shape, pad_width, strict=True)]
        shape = _padded(x.shape, pad_width=pad_width)
        filled = full(shape, constant_values, dtype=x.dtype, device=x.device)
        return strided_update(filled, x, key=(*key, ...))
    for axis, (before, after) in enumerate(pad_width):
        if before or after:
            size = x.shape[axis]
            sides = (range(-before, 0), range(size, size + after))
            first, last = (
                [take(x, _sources(x, mode, size, i), axis=axis)] if i else [] for i in sides
            )
            x = concat([*first, x, *last], axis=axis)
    return x


def _sources(x: Tensor, mode: str, size: int, places: Iterable[int]) -> Tensor:
    """The indices into an axis of `size` for places of the padded axis."""
    return from_any([PAD_SOURCES[mode](i, size) for i in places]).to(x.device)


@pad.vjp("x")
def _(g: Tensor, x_shape: Shape, pad_width: Any, mode: str) -> Tensor:
    if mode == "constant":
        key = [slice(a, a + size, 1) for size, (a, _) in zip(x_shape, pad_width, strict=True)]
        return strided_slice(g, key=(*key, ...))
    for axis, ((before, after), size) in enumerate(zip(pad_width, x_shape, strict=True)):
        if before or after:
            sides = [(0, before), (before + size, before + size + after)]
            # What was repeated is added to where it came from.
            repeated = [
                strided_slice(g, key=part(axis, *side)) for side in sides if side[0] < side[1]
            ]
            places = [*range(-before, 0), *range(size, size + after)]
            inside = strided_slice(g, key=part(axis, before, before + size))
            updates = repeated[0] if len(repeated) == 1 else concat(repeated, axis=axis)
            g = scatter_add(inside, _sources(g, mode, size, places), updates, axis=axis)
    return g
