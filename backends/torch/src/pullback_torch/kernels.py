"""The kernels: those of `pullback.array_api` over torch, and torch's own where they are faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat.torch as xp
import numpy as np
import torch

from pullback import array_api
from pullback.backend import Kernel
from pullback_torch import neural
from pullback_torch.host import on_host

GENERIC = array_api.kernels(xp)
HOST = array_api.kernels(np)
WIDE = (torch.float32, torch.float64, torch.complex64, torch.complex128)

# torch's functions of two arrays of one dtype. Those of the generic table promote first.
ELEMENTWISE = {
    "add": torch.add, "atan2": torch.atan2, "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or, "bitwise_xor": torch.bitwise_xor, "complex": torch.complex,
    "copysign": torch.copysign, "divide": torch.div, "equal": torch.eq, "greater": torch.gt,
    "greater_equal": torch.ge, "hypot": torch.hypot, "less": torch.lt, "less_equal": torch.le,
    "logical_and": torch.logical_and, "logical_or": torch.logical_or, "maximum": torch.maximum,
    "minimum": torch.minimum, "multiply": torch.mul, "not_equal": torch.ne,
    "subtract": torch.sub, "where": torch.where,
}  # fmt: skip

# Parts of a tensor ---------------------------------------------------------------------------


def _forwards(x: Any, key: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int]]:
    """The key without the negative steps that torch does not take, and what to turn round then."""
    if not any(type(entry) is slice and (entry.step or 1) < 0 for entry in key):
        return key, []
    found, turned, axis = [], [], 0
    for entry in key[:-1]:
        if type(entry) is slice:
            places = range(*entry.indices(x.shape[axis]))
            if places.step < 0:
                turned.append(sum(type(one) is not int for one in found))
                entry = slice(places[-1], places[0] + 1, -places.step) if places else slice(0)
        axis += entry is not None
        found.append(entry)
    return (*found, ...), turned


def _strided_slice(x: Any, *, key: tuple[Any, ...]) -> Any:
    key, turned = _forwards(x, key)
    return torch.flip(x[key], turned) if turned else x[key]


def _strided_update(x: Any, value: Any, *, key: tuple[Any, ...]) -> Any:
    key, turned = _forwards(x, key)
    result = x.clone()
    part = result[key]
    part.copy_(torch.flip(value.expand(part.shape), turned) if turned else value)
    return result


def _scatter_add(x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    # torch adds one after the other: in float64 on a CPU, which costs little there.
    wide = x.dtype
    if wide.is_floating_point:
        wide = torch.float64 if x.device.type == "cpu" else torch.promote_types(wide, torch.float32)
    flat = _in_range(indices, x.shape[axis])
    updates = updates.reshape((*x.shape[:axis], flat.shape[0], *x.shape[axis + 1 :]))
    updates = torch.movedim(updates, axis, 0).to(wide)
    if x.device.type != "cpu" or x.dtype in (torch.float64, torch.complex64, torch.complex128):
        flat, updates = _in_bunches(flat, updates)
    result = torch.movedim(x, axis, 0).to(wide, copy=True)
    # index_put_ is deterministic on a GPU too, which index_add_ is not.
    result.index_put_((flat,), updates, accumulate=True)
    return torch.movedim(result, 0, axis).to(x.dtype)


def _in_bunches(flat: Any, updates: Any) -> tuple[Any, Any]:
    """Adds up what goes to one place in bunches of 32, then these, until each place has few."""
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


def _scatter_update(x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    flat = _in_range(indices, x.shape[axis])
    updates = updates.reshape((*x.shape[:axis], flat.shape[0], *x.shape[axis + 1 :]))
    return torch.index_copy(x, axis, flat, updates)


def _in_range(indices: Any, size: int) -> Any:
    # An index out of range would end the process on a GPU: it has to be looked for.
    flat = indices.reshape(-1).to(torch.int64)
    if flat.numel():
        low, high = torch.stack(torch.aminmax(flat)).tolist()
        if low < -size or high >= size:
            raise IndexError(f"an index is outside an axis of size {size}")
        if low < 0:
            flat = torch.where(flat < 0, flat + size, flat)
    return flat


def _take(x: Any, indices: Any, *, axis: int) -> Any:
    taken = torch.index_select(x, axis, _in_range(indices, x.shape[axis]))
    return taken.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _searchsorted(x1: Any, x2: Any, sorter: Any, *, side: str) -> Any:
    found = GENERIC["searchsorted"](x1, x2, sorter, side=side)
    if not x1.dtype.is_floating_point or not (torch.isnan(x1).any() or torch.isnan(x2).any()):
        return found
    # NaN comes last, after infinity, and torch is at a loss with it.
    numbers = (~torch.isnan(x1)).sum()
    clean = torch.where(torch.isnan(x1), torch.inf, x1)
    found = torch.minimum(GENERIC["searchsorted"](clean, x2, sorter, side=side), numbers)
    last = numbers if side == "left" else torch.full_like(numbers, x1.shape[0])
    return torch.where(torch.isnan(x2), last, found)


# What differs from the standard -----------------------------------------------------------------

_ACCUMULATED = {torch.uint8: torch.uint32}
_LACKING = (torch.uint16, torch.uint32, torch.uint64)


def _in_int64(name: str) -> Kernel:
    """A sum or product; in int64, modulo its range, where torch has none of the result's dtype."""
    kernel = GENERIC[name]

    def total(x: Any, *, dtype: Any, **attributes: Any) -> Any:
        result = _ACCUMULATED.get(x.dtype) if dtype is None else getattr(torch, dtype.name)
        if result not in _LACKING:
            return kernel(x, dtype=dtype, **attributes)
        return kernel(x, dtype=np.dtype(np.int64), **attributes).to(result)

    return total


def _line_by_line(kernel: Kernel) -> Kernel:
    """A Fourier transform; without any lines, of which MKL makes an error."""

    def transform(x: Any, **attributes: Any) -> Any:
        if x.numel():
            return kernel(x, **attributes)
        found = kernel(x.new_zeros([max(1, size) for size in x.shape]), **attributes)
        axes = attributes.get("axes") or (attributes.get("axis"),)
        return found[tuple(slice(None if i in axes else n) for i, n in enumerate(x.shape))]

    return transform


def _checked(kernel: Kernel) -> Kernel:
    """A kernel of linear algebra; its errors are about the values that came in."""

    def solved(*arrays: Any, **attributes: Any) -> Any:
        try:
            return kernel(*arrays, **attributes)
        except torch.linalg.LinAlgError as error:
            raise ValueError(str(error)) from None

    return solved


def _eig(x: Any) -> Any:
    # In double precision: a matrix may have eigenvalues of any condition.
    wide = torch.complex128 if x.dtype.is_complex else torch.float64
    double = x.dtype in (torch.float64, torch.complex128)
    result = torch.complex128 if double else torch.complex64
    return tuple(found.to(result) for found in torch.linalg.eig(x.to(wide)))


def _sum(x: Any, *, axis: Any, dtype: Any, keepdims: bool) -> Any:
    # torch takes no axes for all of them.
    if dtype is None and axis != () and x.dtype in WIDE:
        return torch.sum(x, axis, keepdims)
    return _in_int64("sum")(x, axis=axis, dtype=dtype, keepdims=keepdims)


def _matmul(x1: Any, x2: Any) -> Any:
    gpu = x1.device.type == "cuda"
    if x1.dtype in WIDE or (gpu and x1.dtype.is_floating_point):
        return torch.matmul(x1, x2)
    # Integers have no product of matrices on a GPU; 16-bit floats none on a CPU that adds in more.
    return on_host(np.matmul)(x1, x2) if gpu else GENERIC["matmul"](x1, x2)


def _each(names: str, make: Callable[[Kernel], Kernel]) -> dict[str, Kernel]:
    return {name: make(GENERIC[name]) for name in names.split() if name in GENERIC}


KERNELS: dict[str, Kernel] = {
    **GENERIC,
    **ELEMENTWISE,
    **{name: _in_int64(name) for name in ("prod", "cumulative_sum", "cumulative_prod")},
    **_each("fft hfft ifft ihfft irfft rfft fftn ifftn irfftn rfftn", _line_by_line),
    **_each("cholesky eigh qr slogdet solve svd", _checked),
    # torch.log is further off than NumPy's, and the terms of digamma cancel.
    "digamma": on_host(HOST["digamma"]),
    "eig": _eig,
    "matmul": _matmul,
    "scatter_add": _scatter_add,
    "scatter_update": _scatter_update,
    "searchsorted": _searchsorted,
    "strided_slice": _strided_slice,
    "strided_update": _strided_update,
    "sum": _sum,
    "take": _take,
    **neural.KERNELS,
}

#: torch stores uint16, uint32 and uint64, and computes next to nothing with them: NumPy does.
UNSIGNED_KERNELS: dict[str, Kernel] = {
    name: on_host(kernel) for name, kernel in HOST.items() if name != "astype"
}
