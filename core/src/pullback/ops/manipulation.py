"""Shapes changed, values moved and joined."""

from __future__ import annotations

from typing import Any

from pullback import errors
from pullback.dispatch import op, primitive
from pullback.dispatch.general import unbroadcast
from pullback.dtypes import same
from pullback.shapes import Shape, ShapeLike, broadcast_shapes, size_of
from pullback.spec import EXACT
from pullback.tensor import Tensor, TensorLike



def _one_unknown(shapes: tuple[Shape, ...], *, shape: Any, **rest: Any) -> dict[str, Any]:
    sizes = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    unknown = [i for i, size in enumerate(sizes) if size == -1]
    if unknown:
        known = size_of(size for size in sizes if size != -1)
        total = size_of(shapes[0])
        if len(unknown) > 1 or known == 0 or total % known:
            raise errors.ShapeError(f"{total} elements of shape {shapes[0]} do not fill {shape}")
        sizes[unknown[0]] = total // known
    return {"shape": tuple(sizes), **rest}


def _same_size(x: Shape, shape: Shape, **_: Any) -> Shape:
    if size_of(x) != size_of(shape):
        raise errors.ShapeError(
            f"shape {x} has {size_of(x)} elements and shape {shape} {size_of(shape)}"
        )
    return shape


@op(shape=_same_size, dtype=same, accuracy=EXACT, normalize=_one_unknown)
def reshape(x: TensorLike, /, shape: Any) -> Tensor:
    """The elements of x, in C order, in another shape; one size may be -1.

    >>> pb.reshape([1, 2, 3, 4], (2, -1)).tolist()
    [[1, 2], [3, 4]]
    """
    return primitive()


reshape.vjp(x=lambda g, x_shape: reshape(g, tuple(x_shape)))


def _broadcasts(x: Shape, shape: Shape, **_: Any) -> Shape:
    if broadcast_shapes(x, shape) != shape:
        raise errors.ShapeError(f"shape {x} does not broadcast to {shape}")
    return shape


@op(shape=_broadcasts, dtype=same, accuracy=EXACT)
def broadcast_to(x: TensorLike, /, shape: ShapeLike) -> Tensor:
    """x repeated along new and size-one axes until it has `shape`.

    >>> pb.broadcast_to([1, 2], (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    return primitive()


broadcast_to.vjp(x=lambda g, x_shape: unbroadcast(g, x_shape))
