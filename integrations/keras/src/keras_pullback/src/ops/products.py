"""Products of arrays."""

from __future__ import annotations

import builtins
import functools
import math

from keras.src.backend.common.backend_utils import vectorize_impl

import pullback as pb
from keras_pullback.src.ops.arrays import moveaxis, pad, raised, ravel
from keras_pullback.src.ops.core import (
    FLOATS,
    STABLE,
    convert_to_tensor,
    floating,
    name_of,
    numeric,
    result,
    same,
    to,
)
from keras_pullback.src.ops.elementwise import WEAK


def _product(x1, x2, int8=False):
    """The operands of a product; the dtype is bool where both are."""
    x1, x2 = convert_to_tensor(x1), convert_to_tensor(x2)
    if int8 and name_of(x1) == name_of(x2) == "int8":
        return x1.astype("int32"), x2.astype("int32"), "int32"
    if x1.dtype != x2.dtype or x1.dtype.name not in STABLE:
        x1, x2 = same(x1, x2)
    name = name_of(x1)
    return numeric(x1), numeric(x2), name


def matmul(x1, x2):
    if (
        isinstance(x1, pb.Tensor)
        and isinstance(x2, pb.Tensor)
        and x1.dtype == x2.dtype
        and x1.dtype in WEAK
    ):
        return pb.matmul(x1, x2)
    x1, x2, name = _product(x1, x2, int8=True)
    return to(pb.matmul(x1, x2), name)


def dot(x1, x2):
    x1, x2, name = _product(x1, x2)
    if x1.ndim == 0 or x2.ndim == 0:
        y = x1 * x2
    elif x2.ndim > 2:
        y = pb.tensordot(x1, x2, axes=((x1.ndim - 1,), (x2.ndim - 2,)))
    else:
        y = pb.matmul(x1, x2)
    return to(y, name)


def inner(x1, x2):
    x1, x2, name = _product(x1, x2)
    if x1.ndim == 0 or x2.ndim == 0:
        return to(x1 * x2, name)
    return to(pb.tensordot(x1, x2, axes=((x1.ndim - 1,), (x2.ndim - 1,))), name)


def vdot(x1, x2):
    x1, x2, name = _product(ravel(x1), ravel(x2))
    return to(pb.vecdot(x1, x2), name)


def outer(x1, x2):
    x1, x2, name = _product(ravel(x1), ravel(x2))
    return to(pb.expand_dims(x1, 1) * x2, name)


def kron(x1, x2):
    x1, x2, name = _product(x1, x2)
    ndim = builtins.max(x1.ndim, x2.ndim)
    x1, x2 = raised(x1, ndim), pb.reshape(x2, (1,) * (ndim - x2.ndim) + x2.shape)
    x1 = pb.reshape(x1, (1,) * (ndim - x1.ndim) + x1.shape)
    sizes = [m * n for m, n in zip(x1.shape, x2.shape, strict=True)]
    x1 = pb.reshape(x1, [n for m in x1.shape for n in (m, 1)])
    x2 = pb.reshape(x2, [n for m in x2.shape for n in (1, m)])
    return to(pb.reshape(x1 * x2, sizes), name)


def tensordot(x1, x2, axes=2):
    x1, x2, name = _product(x1, x2)
    if not isinstance(axes, int):
        axes = tuple(tuple(a) if isinstance(a, (list, tuple)) else (a,) for a in axes)
    return to(pb.tensordot(x1, x2, axes=axes), name)


@functools.lru_cache(1024)
def summed(equation):
    """The number of axes that a product of matrices sums, as "abc,cde->abde"; 0 of others."""
    terms, _, output = equation.partition("->")
    left, _, right = terms.partition(",")
    letters = set(left + right)
    count = len(left) + len(right) - len(letters)
    product = (
        (left + right + output).isalpha()
        and 0 < count < len(left)
        and len(letters) == len(output) + count
        and left.endswith(right[:count])
        and output == left[:-count] + right[count:]
    )
    return count if product else 0


def contracted(equation, x, y, bias=None):
    """An equation that sums as `summed` says, as a product of matrices without a plan of its own.

    None where the shapes are not those of the equation, or the bias not one of the last axes.
    """
    count = summed(equation)
    rest, sizes, last = x.shape[:-count], y.shape[:count], y.shape[count:]
    if x.shape[-count:] != sizes or x.ndim + y.ndim != len(equation.partition("->")[0]) - 1:
        return None
    if bias is not None and not last == bias.shape != ():
        return None
    if count > 1:
        x = pb.reshape(x, (*rest, math.prod(sizes)))
    if count > 1 or len(last) > 1:
        y = pb.reshape(y, (x.shape[-1], math.prod(last)))
    if bias is None:
        z = pb.matmul(x, y)
    else:
        z = pb.linear(x, y, bias if len(last) == 1 else pb.reshape(bias, (-1,)))
    return z if len(last) == 1 else pb.reshape(z, rest + last)


def einsum(subscripts, *operands, **kwargs):
    if len(operands) == 2 and summed(subscripts):
        x, y = same(*operands)
        z = contracted(subscripts, x, y) if name_of(x) in FLOATS else None
        if z is not None:
            return z
    operands = [convert_to_tensor(x) for x in operands]
    names = {name_of(x) for x in operands}
    name = "int32" if names == {"int8"} else result(*names)
    operands = [numeric(to(x, name)) for x in operands]
    return to(pb.einsum(subscripts, *operands), name)


def cross(x1, x2, axisa=-1, axisb=-1, axisc=-1, axis=None):
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis, axis, axis)
    x1, x2, name = _product(moveaxis(x1, axisa, -1), moveaxis(x2, axisb, -1))
    flat = x1.shape[-1] == x2.shape[-1] == 2
    x1, x2 = (
        x if x.shape[-1] == 3 else pad(x, [(0, 0)] * (x.ndim - 1) + [(0, 1)]) for x in (x1, x2)
    )
    x1, x2 = pb.broadcast_arrays(x1, x2)
    y = to(pb.linalg.cross(x1, x2), name)
    return y[..., 2] if flat else pb.moveaxis(y, -1, axisc)


def correlate(x1, x2, mode="valid"):
    x1, x2 = same(x1, x2)
    name = name_of(x1) if name_of(x1) in FLOATS else "float32"
    x1, x2 = to(x1, name), to(x2, name)
    swapped = x1.shape[0] < x2.shape[0]
    if swapped:
        x1, x2 = x2, x1
    n = x2.shape[0]
    before = {"valid": 0, "same": n // 2, "full": n - 1}[mode]
    after = {"valid": 0, "same": n - 1 - n // 2, "full": n - 1}[mode]
    y = pb.conv(pb.pad(x1, [(before, after)])[None, :, None], x2[:, None, None])[0, :, 0]
    return pb.flip(y) if swapped else y


def corrcoef(x):
    x = floating(x)
    rows = x[None, :] if x.ndim == 1 else x
    deviation = rows - pb.mean(rows, axis=1, keepdims=True)
    covariance = deviation @ pb.matrix_transpose(deviation)
    scale = pb.sqrt(pb.linalg.diagonal(covariance))
    y = pb.clip(covariance / scale[:, None] / scale[None, :], -1.0, 1.0)
    return y[0, 0] if x.ndim == 1 else y


def slogdet(x):
    return tuple(pb.linalg.slogdet(convert_to_tensor(x)))


def vectorize(pyfunc, *, excluded=None, signature=None):
    return vectorize_impl(pyfunc, pb.vmap, excluded=excluded, signature=signature)
