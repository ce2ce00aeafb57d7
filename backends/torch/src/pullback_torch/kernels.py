"""The kernels: those of `pullback.array_api` over torch, and torch's own where they are faster."""

from __future__ import annotations

from typing import Any

import array_api_compat.torch as xp
import numpy as np
import torch

from pullback import array_api, dtypes
from pullback.casting import HALF, cast
from pullback.dtypes import DType, name_of
from pullback.plugins.records import Kernel, may_decline
from pullback.shapes import Shape
from pullback_torch import neural, special_cases
from pullback_torch.host import from_numpy, on_host, to_numpy
from pullback_torch.neural import widened

GENERIC = array_api.kernels(xp)
HOST = {name: on_host(kernel) for name, kernel in array_api.kernels(np).items()}

#: Dtypes whose products of matrices torch adds up in the same precision.
WIDE = (torch.float32, torch.float64, torch.complex64, torch.complex128)
#: Products of longer vectors are summed in parts.
LONG = 16384

#: torch stores these dtypes and has few functions for them: NumPy computes.
UNSIGNED = frozenset({dtypes.uint16, dtypes.uint32, dtypes.uint64})
_NATIVE_UNSIGNED = frozenset({torch.uint16, torch.uint32, torch.uint64})

# torch's functions of arrays of one dtype. Those of the generic table promote first.
ELEMENTWISE = """
    add atan2 bitwise_and bitwise_or bitwise_xor complex copysign divide greater greater_equal hypot
    less less_equal logical_and logical_or maximum minimum multiply not_equal subtract where
"""

# Parts of a tensor ---------------------------------------------------------------------------


def _forwards(x: torch.Tensor, key: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int]]:
    """The key without negative steps, which torch lacks, and the axes to flip before."""
    entries, turned, axis = [], [], 0
    for entry in key:
        if type(entry) is slice and (entry.step or 1) < 0:
            positions, last = range(*entry.indices(x.shape[axis])), x.shape[axis] - 1
            entry = slice(last - positions.start, last - positions.stop, -positions.step)
            turned.append(axis)
        axis += entry is not None
        entries.append(entry)
    return tuple(entries), turned


def _strided_slice(x: torch.Tensor, *, key: tuple[Any, ...]) -> torch.Tensor:
    key, turned = _forwards(x, key)
    return torch.flip(x, turned)[key] if turned else x[key]


def _strided_update(x: torch.Tensor, value: torch.Tensor, *, key: tuple[Any, ...]) -> torch.Tensor:
    key, turned = _forwards(x, key)
    result = torch.flip(x, turned)
    result[key] = value
    return torch.flip(result, turned) if turned else result


def _in_range(indices: torch.Tensor, size: int) -> torch.Tensor:
    # An index out of range would end the process on a GPU, so indices are checked.
    flat = indices.reshape(-1).to(torch.int64)
    if flat.numel() and not (flat.min() >= -size and flat.max() < size):
        raise IndexError(f"an index is outside an axis of size {size}")
    return torch.where(flat < 0, flat + size, flat)


def _take(x: torch.Tensor, indices: torch.Tensor, *, axis: int) -> torch.Tensor:
    taken = torch.index_select(x, axis, _in_range(indices, x.shape[axis]))
    return taken.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _scatter_update(
    x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, *, axis: int
) -> torch.Tensor:
    flat = _in_range(indices, x.shape[axis])
    updates = updates.reshape((*x.shape[:axis], flat.shape[0], *x.shape[axis + 1 :]))
    return torch.index_copy(x, axis, flat, updates)


def _scatter_add(
    x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, *, axis: int
) -> torch.Tensor:
    # torch adds one after the other: in float64, and in small groups if x is as wide as that.
    work = torch.float64 if x.dtype.is_floating_point else x.dtype
    flat = _in_range(indices, x.shape[axis])
    updates = updates.reshape((*x.shape[:axis], flat.shape[0], *x.shape[axis + 1 :]))
    updates = torch.movedim(updates, axis, 0).to(work)
    if x.dtype == work and work in WIDE:
        flat, updates = _in_bunches(flat, updates)
    result = torch.movedim(x, axis, 0).to(work, copy=True)
    # index_put_ is deterministic on a GPU too, which index_add_ is not.
    result.index_put_((flat,), updates, accumulate=True)
    return torch.movedim(result, 0, axis).to(x.dtype)


def _in_bunches(flat: torch.Tensor, updates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Adds updates of one index in bunches of 32, and the sums again, until 32 are left at most."""
    while flat.numel() > 32:
        flat, order = torch.sort(flat, stable=True)
        updates = updates[order]
        counts = torch.unique_consecutive(flat, return_counts=True)[1]
        if int(counts.max()) <= 32:
            break
        begins = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        first = (torch.arange(flat.numel(), device=flat.device) - begins) % 32 == 0
        bunch = first.cumsum(0) - 1
        sums = updates.new_zeros((int(bunch[-1]) + 1, *updates.shape[1:]))
        flat, updates = flat[first], sums.index_put_((bunch,), updates, accumulate=True)
    return flat, updates


# Functions of torch that differ from the standard -----------------------------------------------


def _astype(x: torch.Tensor, *, dtype: DType) -> torch.Tensor:
    # torch cannot compare unsigned integers, which a rounding to 16 bits needs.
    if x.dtype == torch.uint64 and dtype in HALF:
        return from_numpy(cast(to_numpy(x), dtype), x.device, copy=False)
    found: torch.Tensor = GENERIC["astype"](x, dtype=dtype)
    return found


def _bitcast(x: torch.Tensor, *, dtype: DType, parts: int, whole: int) -> torch.Tensor:
    # Without elements any strides are contiguous to torch, and not all can be viewed.
    x = x.contiguous() if x.numel() else x.new_empty(x.shape)
    y = (x.unsqueeze(-1) if parts > 1 else x).view(getattr(torch, name_of(dtype)))
    return y[..., 0] if whole > 1 else y


def _relu(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype in _NATIVE_UNSIGNED else torch.relu(x)


def _total(name: str) -> Kernel:
    """A sum or product; on the host for unsigned integers, which torch lacks."""

    def total(x: torch.Tensor, *, dtype: DType | None, **attributes: Any) -> Any:
        unsigned = x.dtype == torch.uint8 if dtype is None else dtype in UNSIGNED
        return (HOST if unsigned else GENERIC)[name](x, dtype=dtype, **attributes)

    return total


def _sum(x: torch.Tensor, *, axis: Shape | None, dtype: DType | None, keepdims: bool) -> Any:
    # torch takes `()` as all axes.
    if dtype is None and axis != () and x.dtype in WIDE:
        return torch.sum(x, axis, keepdims)
    return _total("sum")(x, axis=axis, dtype=dtype, keepdims=keepdims)


def _where_not_empty(name: str) -> Kernel:
    """A Fourier transform, on the host for empty arrays, which MKL rejects."""
    return lambda x, **attributes: (GENERIC if x.numel() else HOST)[name](x, **attributes)


def _searchsorted(
    x1: torch.Tensor, x2: torch.Tensor, sorter: torch.Tensor | None, *, side: str
) -> torch.Tensor:
    # NaN comes last, after infinity; torch does not support it.
    lost = x1.dtype.is_floating_point and (torch.isnan(x1).any() or torch.isnan(x2).any())
    kernel = (HOST if lost else GENERIC)["searchsorted"]
    positions: torch.Tensor = kernel(widened(x1), widened(x2), sorter, side=side)
    return positions


def _checked(name: str) -> Kernel:
    """A kernel of linear algebra whose errors are those of wrong values."""

    def solved(*arrays: torch.Tensor, **attributes: Any) -> Any:
        try:
            return GENERIC[name](*arrays, **attributes)
        except torch.linalg.LinAlgError as error:
            raise ValueError(str(error)) from None

    return solved


def _eig(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    # In double precision: a matrix may have eigenvalues of any condition.
    double = x.to(torch.complex128 if x.dtype.is_complex else torch.float64)
    result = torch.promote_types(widened(x).dtype, torch.complex64)
    return tuple(part.to(result) for part in torch.linalg.eig(double))


@may_decline
def _lu_factor(x: torch.Tensor) -> Any:
    if x.dtype.is_complex:
        return NotImplemented  # LAPACK's pivots are by |re| + |im|, the op's by the absolute value
    lu, pivots, _ = torch.linalg.lu_factor_ex(widened(x))
    return lu.to(x.dtype), pivots - 1


def _in_parts(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """The matrix product, with the sums of long vectors in parts.

    torch's loops for few rows or columns have one sum for each result: of a million positive
    products in float32 it is off by 5,000 units in the last place, in parts by some tens.
    """
    size = x1.shape[-1]
    if size <= LONG:
        return torch.matmul(x1, x2)
    columns = min(1, x2.ndim - 1)
    product: torch.Tensor | None = None
    for begin in range(0, size, LONG):
        count = min(LONG, size - begin)
        part = torch.matmul(
            x1.narrow(-1, begin, count), x2.narrow(x2.ndim - 1 - columns, begin, count)
        )
        product = part if product is None else product.add_(part)
    assert product is not None
    return product


def _matmul(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    gpu = x1.device.type == "cuda"
    if x1.dtype in WIDE and not gpu:
        return _in_parts(x1, x2)
    if x1.dtype in WIDE or (gpu and x1.dtype.is_floating_point):
        return torch.matmul(x1, x2)
    # torch has no matrix product of integers on a GPU, nor one of 16-bit floats on a CPU that adds
    # in float32.
    product: torch.Tensor = (HOST if gpu else GENERIC)["matmul"](x1, x2)
    return product


KERNELS: dict[str, Kernel] = {
    **GENERIC,
    **{name: getattr(torch, name) for name in ELEMENTWISE.split()},
    **{name: _total(name) for name in ("prod", "cumulative_sum", "cumulative_prod")},
    **{name: _checked(name) for name in ("cholesky", "eigh", "qr", "slogdet", "solve", "svd")},
    **{name: _where_not_empty(name) for name in GENERIC if "fft" in name},
    "astype": _astype,
    "bitcast": _bitcast,
    "lu_factor": _lu_factor,
    # torch.log is further off than NumPy's, and the terms of digamma cancel.
    "digamma": HOST["digamma"],
    "eig": _eig,
    "equal": torch.eq,
    "matmul": _matmul,
    "relu": _relu,
    "scatter_add": _scatter_add,
    "scatter_update": _scatter_update,
    "searchsorted": _searchsorted,
    "strided_slice": _strided_slice,
    "strided_update": _strided_update,
    "sum": _sum,
    "take": _take,
    **special_cases.KERNELS,
    **neural.KERNELS,
}
