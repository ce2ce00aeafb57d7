"""Padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pullback import errors
from pullback._dispatch import op
from pullback._dispatch.convert import as_number, from_any
from pullback.dtypes import same
from pullback.ops.creation import full
from pullback.ops.indexing import take
from pullback.ops.joining import concat
from pullback.ops.slicing import strided_update
from pullback.shapes import Shape, as_int
from pullback.spec import EXACT
from pullback.tensor import Tensor

__all__ = ["pad"]

#: The index into an axis of `size` for position i of the padded axis, which starts at -before.
_MODES: dict[str, Callable[[int, int], int]] = {
    "edge": lambda i, size: min(max(i, 0), size - 1),
    "reflect": lambda i, size: size - 1 - abs(i % max(2 * (size - 1), 1) - (size - 1)),
    "symmetric": lambda i, size: min(i % (2 * size), -(i + 1) % (2 * size)),
    "wrap": lambda i, size: i % size,
}


def _widths(
    shapes: tuple[Shape, ...], *, pad_width: Any, mode: str, constant_values: Any
) -> dict[str, object]:
    shape = shapes[0]
    if mode != "constant" and mode not in _MODES:
        raise errors.InputValueError(
            f'unknown mode {mode!r}; use "constant", {", ".join(map(repr, _MODES))}'
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
    source = _MODES[mode]
    for axis, (before, after) in enumerate(pad_width):
        if before or after:
            size = x.shape[axis]
            sides = (
                [source(i, size) for i in places]
                for places in (range(-before, 0), range(size, size + after))
            )
            first, last = (_taken(x, indices, axis) for indices in sides)
            x = concat([*first, x, *last], axis=axis)
    return x


def _taken(x: Tensor, indices: list[int], axis: int) -> list[Tensor]:
    """The elements at indices along an axis as one part, or no part of none."""
    return [take(x, from_any(indices).to(x.device), axis=axis)] if indices else []
