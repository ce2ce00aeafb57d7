"""Rotary position embedding."""

from __future__ import annotations

import sys

from pullback import dtypes, errors
from pullback._dispatch.arguments import as_bool, as_float
from pullback._dispatch.convert import as_tensors, from_any
from pullback._dispatch.symbolic import takes_symbols
from pullback._hints import answer_calls
from pullback.ops.creation import arange
from pullback.ops.data_types import astype
from pullback.ops.joining import concat, stack, unstack
from pullback.ops.manipulation import expand_dims, reshape
from pullback.ops.precision import narrowed, widened
from pullback.ops.trigonometric import cos, sin
from pullback.shapes import as_int
from pullback.tensor import Tensor, TensorLike

__all__ = ["rotary"]


@takes_symbols
def rotary(
    x: TensorLike,
    /,
    positions: TensorLike | None = None,
    *,
    offset: TensorLike = 0,
    base: float = 10000.0,
    interleaved: bool = False,
    rotated: int | None = None,
) -> Tensor:
    """Rotates pairs of features by angles that grow with the position (Su et al., 2021).

    Products of queries and keys that are rotated so depend on the distance of their positions
    alone. Pair i of n turns by position * base ** (-i / n).

    Args:
        x: (..., length, size), such as queries (batch, heads, length, size).
        positions: numbers (length,), or (batch, length) for the first axis of x; 0 to length - 1 if
            not given.
        offset: what is added to the positions, such as the number of steps in a cache: a number, or
            a 0-d tensor.
        base: the base of the angles.
        interleaved: True for pairs of neighbours (0, 1), (2, 3), as in the paper; False for pairs
            of both halves (0, n), (1, n + 1), as in most models of today.
        rotated: the number of features that are rotated, the first ones; all if not given.

    Raises:
        ShapeError: for an odd number of features, or positions that do not fit.
        DTypeError: for x that is not real floating.

    >>> x = pb.ones((2, 4))
    >>> pb.rotary(x)[0].tolist()
    [1.0, 1.0, 1.0, 1.0]
    >>> pb.all(pb.abs(pb.rotary(x, offset=3)[0] - pb.rotary(x, [3, 5])[0]) < 1e-6).item()
    True
    """
    x = from_any(x)
    if dtypes.kind(x.dtype) != dtypes.FLOAT:
        raise errors.DTypeError(f"rotary: x must be real floating, got {x.dtype}")
    if x.ndim < 2:
        raise errors.ShapeError(f"rotary: x must be (..., length, size), got shape {x.shape}")
    *_, length, size = x.shape
    turned = size if rotated is None else as_int(rotated, "rotary: an integer rotated")
    if turned % 2 or not 0 <= turned <= size:
        raise errors.ShapeError(
            f"rotary: an even number of at most {size} features is rotated, got {turned}"
        )
    cosine, sine = _turns(x, length, turned // 2, positions, offset, as_float(base, "base"))
    wide = widened(x)
    part = wide if turned == size else wide[..., :turned]
    between = as_bool(interleaved, "interleaved")
    axis, pairs = (-1, (turned // 2, 2)) if between else (-2, (2, turned // 2))
    first, second = unstack(reshape(part, (*part.shape[:-1], *pairs)), axis=axis)
    both = [first * cosine - second * sine, second * cosine + first * sine]
    y = reshape(stack(both, axis=axis), part.shape)
    if turned != size:
        y = concat([y, wide[..., turned:]], axis=-1)
    return narrowed(y, x)


def _turns(
    x: Tensor,
    length: int,
    pairs: int,
    positions: TensorLike | None,
    offset: TensorLike,
    base: float,
) -> tuple[Tensor, Tensor]:
    """The cosines and sines of all angles, in shapes that broadcast to (..., length, pairs)."""
    places = arange(length, device=x.device) if positions is None else as_tensors([x, positions])[1]
    fits = [(length,)] if x.ndim == 2 else [(length,), (x.shape[0], length), (1, length)]
    if places.shape not in fits:
        raise errors.ShapeError(
            f"rotary: positions must have shape {' or '.join(map(str, fits[:2]))} for x of shape "
            f"{x.shape}, got {places.shape}"
        )
    dtype = dtypes.promote_types(x.dtype, dtypes.float32)
    places = astype(places + as_tensors([x, offset])[1], dtype)
    if places.ndim == 2:
        places = reshape(places, (places.shape[0], *[1] * (x.ndim - 3), length))
    speeds = from_any([base ** (-i / pairs) for i in range(pairs)], dtype, x.device)
    angles = expand_dims(places, axis=-1) * speeds
    return cos(angles), sin(angles)


answer_calls(sys.modules[__name__])
