"""Gathering and scattering at positions in several axes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution
from pullback.ops.indexing import (
    index_dtype,
    ravel_indices,
    scatter_add,
    scatter_update,
    take,
)
from pullback.ops.joining import unstack
from pullback.ops.manipulation import reshape
from pullback.ops.scattering import scatter_max, scatter_min, scatter_multiply
from pullback.ops.slicing import into_first
from pullback.shapes import Shape, check_choice, size_of
from pullback.spec import ACCUMULATED, EXACT
from pullback.tensor import Tensor

__all__ = ["gather_nd", "scatter_nd"]

Mode: TypeAlias = Literal["update", "add", "multiply", "max", "min"]

_SCATTER: Mapping[str, Callable[..., Tensor]] = {
    "update": scatter_update,
    "add": scatter_add,
    "multiply": scatter_multiply,
    "max": scatter_max,
    "min": scatter_min,
}


def _gathered_shape(x: Shape, indices: Shape) -> Shape:
    """The axes of the indices but the last, and the axes of x that they do not reach."""
    if not indices or not 1 <= indices[-1] <= len(x):
        raise errors.ShapeError(
            f"the last axis of the indices has a position in each of the first axes of x, from 1 "
            f"to {len(x)} of them; got x {x} and indices {indices}"
        )
    return (*indices[:-1], *x[indices[-1] :])


def _gathered(operands: Operands, **_: object) -> Resolution:
    """The dtype of x; indices in an integer dtype."""
    x, index = operands
    assert index is not None
    (dtype,), outputs = dtypes.same((x,))
    return Resolution((dtype, index_dtype(index)), outputs)


@op(shape=_gathered_shape, dtype=_gathered, accuracy=EXACT)
def gather_nd(x: Tensor, indices: Tensor, /) -> Tensor:
    """The parts of x at positions in its first axes (ONNX's GatherND).

    Args:
        x: a tensor of at least one axis.
        indices: integers (..., k), a position in each of the first k axes of x: each in
            [-size, size).

    Returns:
        A tensor of shape (*indices.shape[:-1], *x.shape[k:]).

    Raises:
        IndexingError: for a position outside its axis.
        ShapeError: for more positions than axes.

    >>> pb.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, -2]]).tolist()
    [2, 3]
    """
    places, rows = _flat(x, indices)
    return reshape(take(rows, places), _gathered_shape(x.shape, indices.shape))


def _flat(x: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """The indices into the merged first axes of x, and x with these merged."""
    count = indices.shape[-1]
    places = ravel_indices(unstack(indices, axis=-1), x.shape[:count])
    return places, reshape(x, (size_of(x.shape[:count]), *x.shape[count:]))


def _scattered_shape(x: Shape, indices: Shape, updates: Shape, **_: object) -> Shape:
    """The shape of x; the updates have that of what `gather_nd` takes."""
    if (wanted := _gathered_shape(x, indices)) != updates:
        raise errors.ShapeError(
            f"updates have shape {updates}; indices of shape {indices} into shape {x} need {wanted}"
        )
    return x


def _scattered(operands: Operands, *, mode: str = "update", **_: object) -> Resolution:
    """The dtype of x, to which updates are converted; indices in an integer dtype."""
    x, index, updates = operands
    assert index is not None
    if mode in ("max", "min"):
        dtypes.real((x,))
    (dtype, _same), outputs = into_first((x, updates))
    return Resolution((dtype, index_dtype(index), dtype), outputs)


def _with_mode(shapes: tuple[Any, ...], *, mode: str) -> dict[str, Any]:
    check_choice(mode, "mode", _SCATTER)
    _scattered_shape(*shapes)
    return {"mode": mode}


@op(shape=_scattered_shape, dtype=_scattered, accuracy=ACCUMULATED, normalize=_with_mode)
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, /, *, mode: Mode = "update") -> Tensor:
    """x with updates at positions in its first axes (ONNX's ScatterND).

    It writes where `gather_nd` reads. If a position repeats with "update", one of its updates is
    kept; the backend chooses which.

    Args:
        x: a tensor of at least one axis.
        indices: integers (..., k), a position in each of the first k axes of x: each in
            [-size, size).
        updates: values (*indices.shape[:-1], *x.shape[k:]).
        mode: what becomes of an element and its updates: "update" replaces it, "add", "multiply",
            "max" and "min" combine them.

    Raises:
        IndexingError: for a position outside its axis.
        ShapeError: for updates of another shape.
        InputValueError: for an unknown mode.

    >>> pb.scatter_nd([[1, 1], [1, 1]], [[0, 1], [1, 0], [0, 1]], [10, 20, 30], mode="add").tolist()
    [[1, 41], [21, 1]]
    """
    places, rows = _flat(x, indices)
    return reshape(_SCATTER[mode](rows, places, updates, axis=0), x.shape)
