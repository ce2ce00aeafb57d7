"""Dtypes for storage: conversion, transfers, packing, copies, files, and computing with them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from conformance_faults.faults import Fault, of_result, other, via

from pullback_numpy import NumPyBackend

E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
INT4, UINT4 = np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)
FLOATS, INTEGERS = (E4M3, E5M2), (INT4, UINT4)


def to(*dtypes):
    """The calls that convert to one of these dtypes."""
    return lambda x, *, dtype: dtype in dtypes


def back(x, *, dtype):
    """The calls that convert from a dtype for storage."""
    return x.dtype in (*FLOATS, *INTEGERS)


def before(change, *dtypes):
    """Values that are changed before they are converted to these dtypes."""
    return Fault("astype", via(lambda x: (change(x),), to(*dtypes)), "storage_conversion")


def converted(wrong, *dtypes):
    """Another conversion to these dtypes."""
    return Fault("astype", other(wrong, to(*dtypes)), "storage_conversion")


def toward_zero(x, *, dtype):
    """The nearest, and of those the one that is nearer to zero."""
    y = x.astype(dtype)
    beyond = np.abs(y.astype(np.float32)) > np.abs(x)
    return np.where(beyond, y.view(np.uint8) - np.uint8(1), y.view(np.uint8)).view(dtype)


def flushed(dtype):
    smallest = np.float32(ml_dtypes.finfo(dtype).smallest_normal)
    return lambda x: np.where(np.abs(x) < smallest, np.copysign(np.float32(0), x), x)


def up(x):
    """A little more, which moves ties away from zero."""
    return x * np.float32(1 + 2**-22)


def to_host(change, *dtypes):
    def member(self, x):
        return change(x) if x.dtype in dtypes else NumPyBackend.to_host(self, x)

    return Fault("astype", None, "storage_transfer", {"to_host": member})


def from_host(change, says="storage_transfer"):
    def member(self, x, device, *, copy):
        x = np.asarray(x)
        return change(x, copy) if x.dtype in (*FLOATS, *INTEGERS) else np.array(x)

    return Fault("astype", None, says, {"from_host": member})


def packed(x, copy):
    """Two numbers of four bits in a byte, without the one that is left over."""
    if x.dtype not in INTEGERS or x.size % 2 == 0:
        return np.array(x)
    y = np.array(x)
    y.reshape(-1)[-1] = 0
    return y


def other_device(self, x, device):
    """Bytes as numbers of their own."""
    return x.view(np.uint8).astype(np.float32).astype(x.dtype) if x.dtype in FLOATS else x


CONVERSIONS = {
    "float8 towards zero": converted(toward_zero, *FLOATS),
    "float8 of ties away from zero": before(up, *FLOATS),
    "float8 rounded by float16 first": before(
        lambda x: x.astype(np.float16).astype(np.float32), E5M2
    ),
    "float8_e4m3fn saturates": before(lambda x: np.clip(x, -448, 448), E4M3),
    "float8_e5m2 saturates": before(lambda x: np.clip(x, -57344, 57344), E5M2),
    "float8_e5m2 flushes subnormals": before(flushed(E5M2), E5M2),
    "float8_e4m3fn flushes subnormals": before(flushed(E4M3), E4M3),
    "float8 loses the sign of zero": before(lambda x: x + np.float32(0), *FLOATS),
    "float8_e5m2 of NaN is infinity": before(
        lambda x: np.where(np.isnan(x), np.float32(np.inf), x), E5M2
    ),
    "int4 rounds to the nearest": before(np.rint, INT4),
    "int4 rounds down": before(np.floor, INT4),
    "uint4 is signed on its way back": Fault(
        "astype",
        of_result(
            lambda y, x, *, dtype: y - np.float32(16) * (y > 7) if x.dtype == UINT4 else y
        ),
        "storage_conversion",
    ),
    "subnormals of float8 are zero on their way back": Fault(
        "astype",
        of_result(
            lambda y, x, *, dtype: np.where(np.abs(y) < 2.0**-6, np.float32(0) * y, y)
            if x.dtype == E4M3
            else y
        ),
        "storage_conversion",
    ),
    "float8 ignores strides on its way back": Fault(
        "astype",
        via(lambda x: (np.ascontiguousarray(x.T).reshape(x.shape),), back),
        "storage_conversion",
    ),
    "large float8": Fault(
        "astype",
        of_result(
            lambda y, x, *, dtype: np.where(np.arange(y.size).reshape(y.shape) < 2**16, y, y[:1])
            .astype(y.dtype)
            if dtype in FLOATS and y.size > 2**16
            else y
        ),
        "storage_conversion",
    ),
}  # fmt: skip
ARRAYS = {
    "int4 comes without its sign": to_host(lambda x: (x.astype(np.int8) & 7).astype(INT4), INT4),
    "float8 comes as bytes": to_host(lambda x: x.view(np.uint8), *FLOATS),
    "float8_e5m2 comes as the other float8": to_host(lambda x: x.view(E4M3), E5M2),
    "two in a byte, and one is left over": from_host(packed),
    "memory is shared that was to be copied": from_host(lambda x, copy: x),
    "float8 arrives through numbers of another range": from_host(
        lambda x, copy: x.astype(np.float32).astype(E4M3).astype(np.float32).astype(x.dtype)
    ),
    "bytes as numbers on another device": Fault(
        "astype", None, "storage_copies", {"copy_to_device": other_device}
    ),
}

FAULTS = {
    **{f"storage conversion: {name}": fault for name, fault in CONVERSIONS.items()},
    **{f"storage: {name}": fault for name, fault in ARRAYS.items()},
}
