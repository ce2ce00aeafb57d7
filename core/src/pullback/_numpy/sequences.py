"""NumPy's functions of sequences: differences, integrals, convolutions, polynomials."""

from __future__ import annotations

from math import pi
from typing import Any

from pullback import errors
from pullback._numpy.table import Unsupported, routed
from pullback.dtypes import is_floating
from pullback.ops import difference
from pullback.ops.arithmetic import abs, remainder
from pullback.ops.complex import conj
from pullback.ops.conversion import asarray
from pullback.ops.creation import arange
from pullback.ops.cumulative import cumulative_sum
from pullback.ops.exponential import sqrt
from pullback.ops.indexing import take
from pullback.ops.joining import concat
from pullback.ops.linalg.decompositions import pinv
from pullback.ops.linalg.eigenvalues import eigvals
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.manipulation import expand_dims, flip, moveaxis, reshape
from pullback.ops.padding import pad
from pullback.ops.patterns import eye
from pullback.ops.reductions import sum
from pullback.ops.selection import where
from pullback.shapes import Axes, canonical_axis, check_choice
from pullback.tensor import Tensor, TensorLike


def _beside(a: Tensor, value: TensorLike | None, axis: int) -> Any:
    """An array for `diff` to put before or after another: a number stands for one slice of it."""
    if value is None:
        return None
    value = asarray(value, dtype=a.dtype)
    if value.ndim:
        return value
    along = canonical_axis(axis, a.ndim)
    one = tuple([1 if i == along else size for i, size in enumerate(a.shape)])
    return value + take(a, [0], axis=axis) * 0 if 0 not in one else reshape(a, one)


@routed("diff")
def _(
    a: TensorLike,
    n: int = 1,
    axis: int = -1,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Any:
    a = asarray(a)
    prepend, append = _beside(a, prepend, axis), _beside(a, append, axis)
    return difference.diff(a, axis=axis, n=n, prepend=prepend, append=append)


@routed("ediff1d")
def _(ary: TensorLike, to_end: TensorLike | None = None, to_begin: TensorLike | None = None) -> Any:
    steps = difference.diff(reshape(ary, -1))
    parts = [to_begin, steps, to_end]
    return concat([reshape(part, -1) for part in parts if part is not None])


@routed("gradient")
def _(f: TensorLike, *varargs: Any, axis: Axes = None, edge_order: int = 1) -> Any:
    f = asarray(f)
    axes = range(f.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = [canonical_axis(one, f.ndim) for one in axes]
    steps = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    if edge_order != 1:
        raise Unsupported("edge_order=")
    if len(steps) != len(axes) or any(asarray(step).ndim for step in steps):
        raise Unsupported("positions in place of one step for each axis")
    slopes = []
    for one, step in zip(axes, steps, strict=True):
        a = moveaxis(f, one, 0)
        if a.shape[0] < 2:
            raise errors.ShapeError(
                f"np.gradient: at least 2 elements along axis {one}, got shape {f.shape}"
            )
        inside = (a[2:] - a[:-2]) / (2 * step)
        slope = concat([(a[1:2] - a[:1]) / step, inside, (a[-1:] - a[-2:-1]) / step])
        slopes.append(moveaxis(slope, 0, one))
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


@routed("trapezoid", "trapz")
def _(y: TensorLike, x: TensorLike | None = None, dx: TensorLike = 1.0, axis: int = -1) -> Any:
    y = moveaxis(y, axis, -1)
    if x is not None:
        x = asarray(x)
        dx = difference.diff(x if x.ndim == 1 else moveaxis(x, axis, -1))
    return sum((y[..., 1:] + y[..., :-1]) / 2 * dx, axis=-1)


def _convolve(a: Tensor, v: Tensor, mode: str) -> Any:
    n, m = a.shape[0], v.shape[0]
    if not n or not m:
        raise errors.InputValueError("np.convolve: an array must have elements, got none")
    # Row i has the elements that the kernel meets at i, in its order.
    rows = reshape(arange(n + m - 1, device=a.device), (-1, 1)) + (m - 1)
    full = matmul(take(pad(a, m - 1), rows - arange(m, device=a.device), axis=0), v)
    low, high = sorted((n, m))
    if mode == "same":
        return full[(low - 1) // 2 : (low - 1) // 2 + high]
    return full if mode == "full" else full[low - 1 : high]


def _vectors(a: TensorLike, v: TensorLike) -> tuple[Tensor, Tensor]:
    a, v = asarray(a), asarray(v)
    if a.ndim > 1 or v.ndim > 1:
        raise errors.ShapeError(f"vectors are convolved, got shapes {a.shape} and {v.shape}")
    return reshape(a, -1), reshape(v, -1)


@routed("convolve")
def _(a: TensorLike, v: TensorLike, mode: str = "full") -> Any:
    check_choice(mode, "mode", ("full", "same", "valid"))
    return _convolve(*_vectors(a, v), mode)


@routed("correlate")
def _(a: TensorLike, v: TensorLike, mode: str = "valid") -> Any:
    check_choice(mode, "mode", ("full", "same", "valid"))
    a, v = _vectors(a, v)
    if a.shape[0] < v.shape[0]:
        # NumPy swaps them, which decides where the middle of "same" is.
        return flip(_convolve(conj(v), flip(a), mode))
    return _convolve(a, flip(conj(v)), mode)


# Polynomials, the highest power first.


@routed("polyval")
def _(p: TensorLike, x: TensorLike) -> Any:
    p, x = asarray(p), asarray(x)
    value = x * 0
    for i in range(p.shape[0]):
        value = value * x + p[i]
    return value


@routed("polymul")
def _(a1: TensorLike, a2: TensorLike) -> Any:
    return _convolve(*_vectors(a1, a2), "full")


def _aligned(a1: TensorLike, a2: TensorLike) -> tuple[Tensor, Tensor]:
    a1, a2 = _vectors(a1, a2)
    more = a1.shape[0] - a2.shape[0]
    return pad(a1, (max(-more, 0), 0)), pad(a2, (max(more, 0), 0))


@routed("polyadd")
def _(a1: TensorLike, a2: TensorLike) -> Any:
    a1, a2 = _aligned(a1, a2)
    return a1 + a2


@routed("polysub")
def _(a1: TensorLike, a2: TensorLike) -> Any:
    a1, a2 = _aligned(a1, a2)
    return a1 - a2


@routed("polyder")
def _(p: TensorLike, m: int = 1) -> Any:
    p = asarray(p)
    for _turn in range(m):
        count = p.shape[0] - 1
        p = p[:-1] * arange(count, 0, -1, dtype=p.dtype, device=p.device)
    return p


@routed("polyint")
def _(p: TensorLike, m: int = 1, k: object = None) -> Any:
    if k is not None:
        raise Unsupported("k=")
    p = asarray(p)
    for _turn in range(m):
        powers = arange(p.shape[0], 0, -1, dtype=p.dtype, device=p.device)
        p = pad(p / powers, (0, 1))
    return p


@routed("roots")
def _(p: TensorLike) -> Any:
    p = asarray(p)
    if p.ndim != 1 or p.shape[0] < 2 or bool(p[0] == 0) or bool(p[-1] == 0):
        raise Unsupported("coefficients that begin or end with 0")
    below = eye(p.shape[0] - 2, p.shape[0] - 1, dtype=p.dtype, device=p.device)
    return eigvals(concat([expand_dims(-p[1:] / p[0], axis=0), below]))


@routed("polyfit")
def _(x: TensorLike, y: TensorLike, deg: object) -> Any:
    if not isinstance(deg, int):
        raise Unsupported("several degrees")
    x = asarray(x)
    powers = arange(deg, -1, -1, dtype=x.dtype, device=x.device)
    matrix = expand_dims(x, axis=1) ** powers
    # Columns of one size, as NumPy has them, keep the digits of high powers.
    sizes = sqrt(sum(matrix * matrix, axis=0))
    found = matmul(pinv(matrix / sizes), y)
    return found / (sizes if found.ndim == 1 else expand_dims(sizes, axis=1))


@routed("poly")
def _(seq_of_zeros: TensorLike) -> Any:
    zeros = asarray(seq_of_zeros)
    if zeros.ndim != 1:
        raise Unsupported("a matrix in place of its eigenvalues")
    coefficients = pad(zeros[:0], (1, 0), constant_values=1)
    for i in range(zeros.shape[0]):
        coefficients = pad(coefficients, (0, 1)) - pad(coefficients * zeros[i], (1, 0))
    return coefficients


@routed("unwrap")
def _(p: TensorLike, discont: float | None = None, axis: int = -1, period: float = 2 * pi) -> Any:
    p = asarray(p)
    if not is_floating(p.dtype):
        raise Unsupported("integers")
    steps = difference.diff(p, axis=axis)
    half = period / 2
    short = remainder(steps + half, period) - half
    short = where((short == -half) & (steps > 0), half, short)
    jump = half if discont is None else max(discont, half)
    added = where(abs(steps) < jump, 0, short - steps)
    first = take(p, [0], axis=axis) * 0 if p.shape[axis] else p
    return p + concat([first, cumulative_sum(added, axis=axis)], axis=axis)
