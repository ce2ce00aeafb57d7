"""A backend of pullback in one file: the core primitives in plain NumPy, and nothing else.

A kernel gets native arrays by position and attributes by keyword: an axis counts from the front,
several are a tuple, or None for all of them; a dtype is an `np.dtype`. It never writes into its
arguments. Inputs have the dtypes that the op's rule decides, and the result must have its dtype.
"""

import math

import numpy as np

import pullback as pb

# Functions of NumPy with the op's name and arguments.
NAMESAKES = """
    add argwhere atan2 bitwise_and broadcast_to concat cos divide equal exp less log matmul max
    multiply negative nextafter permute_dims pow remainder reshape signbit sin sqrt where
"""


# Creation: no arrays. `device` is the result of Backend.native_device, here None.


def full(*, shape, fill_value, dtype, device):
    return np.full(shape, fill_value, dtype)


def arange(*, start, stop, step, dtype, device):
    if type(start) is type(stop) is type(step) is int:
        return np.arange(start, stop, step, dtype)
    length = max(0, math.ceil((stop - start) / step))
    return (start + step * np.arange(length, dtype=np.float64)).astype(dtype)


def random_bits(*, shape, key, counter, dtype, device):
    size = math.prod(shape)
    words = size if dtype == np.uint64 else (size + 1) // 2
    drawn = np.random.Philox(key=key, counter=counter).random_raw(words)
    # The low half of a word first, whatever the byte order of the machine.
    return drawn.astype("<u8").view(dtype.newbyteorder("<"))[:size].reshape(shape).astype(dtype)


def astype(x, *, dtype):
    return x.astype(dtype)


# Parts of an array. A view is enough: no kernel writes into its arguments.


def strided_slice(x, *, key):
    return x[key]


def strided_update(x, value, *, key):
    result = x.copy()
    result[key] = value
    return result


# Positions along one axis. Negative positions count from the end; others outside it raise.


def at(x, indices, axis):
    size = x.shape[axis]
    if np.any((indices < -size) | (indices >= size)):
        raise IndexError(f"an index is outside an axis of size {size}")
    return (slice(None),) * axis + (indices,)


def take(x, indices, *, axis):
    return x[at(x, indices, axis)]


def scatter_add(x, indices, updates, *, axis):
    # NumPy adds one update after the other: in more digits, since the error grows with each.
    result = x.astype(np.longdouble) if x.dtype.kind == "f" else x.copy()
    np.add.at(result, at(x, indices, axis), updates)
    return result.astype(x.dtype)


def scatter_update(x, indices, updates, *, axis):
    return strided_update(x, updates, key=at(x, indices, axis))


# Sums and products.


def sum(x, *, axis, dtype, keepdims):
    return np.sum(x, axis, dtype or result_of_sum(x), keepdims=keepdims)


def prod(x, *, axis, dtype, keepdims):
    return np.prod(x, axis, dtype or result_of_sum(x), keepdims=keepdims)


def cumulative_sum(x, *, axis, dtype, include_initial):
    dtype = dtype or result_of_sum(x)
    return np.cumulative_sum(x, axis=axis, dtype=dtype, include_initial=include_initial)


def cumulative_prod(x, *, axis, dtype, include_initial):
    dtype = dtype or result_of_sum(x)
    return np.cumulative_prod(x, axis=axis, dtype=dtype, include_initial=include_initial)


def result_of_sum(x):
    return np.int32 if x.dtype == np.bool_ else x.dtype  # NumPy would widen int32 to int64


# Order. Positions are int64, as NumPy returns them.


def argsort(x, *, axis, descending, stable):
    if not descending:
        return np.argsort(x, axis, stable=True)
    # Backwards before and after, so that equal elements keep their order.
    backwards = np.argsort(np.flip(x, axis), axis, stable=True)
    return x.shape[axis] - 1 - np.flip(backwards, axis)


def searchsorted(x1, x2, sorter, *, side):
    return np.searchsorted(x1, x2, side, sorter)


OTHERS = (
    full, arange, random_bits, astype, strided_slice, strided_update, take,
    scatter_add, scatter_update, sum, prod, cumulative_sum, cumulative_prod, argsort, searchsorted,
)  # fmt: skip
# Division by zero and the like give infinities and NaN without a warning.
quiet = np.errstate(all="ignore")
KERNELS = {name: quiet(getattr(np, name)) for name in NAMESAKES.split()}
KERNELS |= {kernel.__name__: quiet(kernel) for kernel in OTHERS}
KERNELS["integer_floor_divide"] = quiet(np.floor_divide)

DTYPES = ("bool", "int32", "int64", "uint32", "uint64", "float32", "float64")
# Public dtypes, and the `.dtype` of native arrays: the same here.
NATIVE = {np.dtype(name): np.dtype(name) for name in DTYPES}


class MinimalBackend(pb.Backend):
    name = "minimal"
    kinds = ("cpu",)
    tiers = frozenset({"core"})
    dtypes = NATIVE
    kernels = KERNELS

    def from_host(self, array, device, *, copy):
        return np.array(array, order="C", copy=copy or None)

    def to_host(self, array):
        view = array.view()
        view.flags.writeable = False
        return view

    def native(self, value):
        return np.asarray(value)  # NumPy gives scalars in place of arrays without axes


@pb.hookimpl
def pullback_register_backend(register):
    register(MinimalBackend())
