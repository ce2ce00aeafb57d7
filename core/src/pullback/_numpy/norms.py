"""NumPy's norms."""

from __future__ import annotations

from typing import Any

from pullback import errors
from pullback._numpy.table import routed
from pullback.ops.conversion import asarray
from pullback.ops.linalg import norms
from pullback.ops.linalg.decompositions import svdvals
from pullback.ops.linalg.norms import vector_norm
from pullback.ops.linalg.solvers import inv
from pullback.ops.manipulation import expand_dims, moveaxis
from pullback.shapes import Axes, canonical_axes
from pullback.tensor import TensorLike


def _matrix_norm(x: TensorLike, order: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    norm = norms.matrix_norm(moveaxis(x, axis, (-2, -1)), ord=order)
    return expand_dims(norm, axis=axis) if keepdims else norm


@routed("linalg.norm")
def _(x: TensorLike, ord: Any = None, axis: Axes = None, keepdims: bool = False) -> Any:
    x = asarray(x)
    if ord is None:
        return vector_norm(x, axis=axis, keepdims=keepdims)
    axes = tuple(range(x.ndim)) if axis is None else canonical_axes(axis, x.ndim)
    assert axes is not None
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=ord)
    if len(axes) != 2:
        raise errors.AxisError(
            f"np.linalg.norm: ord={ord!r} is of vectors or matrices, got {len(axes)} axes; "
            f"give axis="
        )
    return _matrix_norm(x, ord, axes, keepdims)


@routed("linalg.matrix_norm")
def _(x: TensorLike, keepdims: bool = False, ord: Any = "fro") -> Any:
    return norms.matrix_norm(x, keepdims=keepdims, ord=ord)


@routed("linalg.vector_norm")
def _(x: TensorLike, axis: Axes = None, keepdims: bool = False, ord: Any = 2) -> Any:
    return vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)


@routed("linalg.cond")
def _(x: TensorLike, p: Any = None) -> Any:
    x = asarray(x)
    if p is None or p in (2, -2):
        values = svdvals(x)
        ratio = values[..., 0] / values[..., -1]
        return 1 / ratio if p == -2 else ratio
    return norms.matrix_norm(x, ord=p) * norms.matrix_norm(inv(x), ord=p)
