"""The dtypes that a backend stores values in: conversion, transfers, copies, files, and refusals.

The references are made from the formats of the dtypes, not by a library that converts to them.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from pullback import dtypes, errors
from pullback._storage_dtypes import float8_e4m3fn, float8_e5m2, int4, uint4
from pullback.checkpoint.checkpoint import Checkpoint
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.graph.function import function
from pullback.ops.conversion import to_device
from pullback.spec import OPS, Arity, Op
from pullback.tensor import Tensor
from pullback.variable import Variable
from pullback_conformance.case import Case, takes_no_attributes, to_tensor
from pullback_conformance.compare import ConformanceError, identical, require
from pullback_conformance.derived.values import LARGE
from pullback_conformance.layouts import LAYOUTS
from pullback_conformance.registry import Area, check
from pullback_conformance.sample import Array, Sample, Suite
from pullback_conformance.whole import checked

#: Of the formats of floats: bits of the fraction, bias of the exponent, the largest number.
_FORMATS: dict[DType, tuple[int, int, float]] = {
    float8_e4m3fn: (3, 7, 448.0),
    float8_e5m2: (2, 15, 57344.0),
}
#: Of the formats of integers: the smallest and the largest.
_LIMITS: dict[DType, tuple[int, int]] = {int4: (-8, 7), uint4: (0, 15)}


def cases(op: Op, suite: Suite, device: Device) -> Iterator[Case]:
    """A case for each dtype that the device stores values in; `op` is `astype`."""
    for dtype in dtypes.STORAGE:
        if dtype in device.backend.storage_dtypes:
            sample = Sample(
                (numbers(dtype),), {"dtype": dtype.name}, gradient=False, note="storage"
            )
            yield Case(op, suite, sample, device, dtype)


# Formats -----------------------------------------------------------------------------------------


@cache
def codes(dtype: DType) -> Array:
    """All values of a dtype, in its own array."""
    if dtype in _LIMITS:
        low, high = _LIMITS[dtype]
        return np.arange(low, high + 1, dtype=np.int8).astype(dtype)
    return np.arange(256, dtype=np.uint8).view(dtype)


def decoded(array: Array) -> Array:
    """The values of an array of a dtype for storage, as float32."""
    dtype = array.dtype
    if dtype in _LIMITS:
        return array.astype(np.int8).astype(np.float32)
    code = np.asarray(array, order="C").view(np.uint8).astype(np.int64)
    fraction, bias, largest = _FORMATS[dtype]
    exponent, rest = (code & 127) >> fraction, code & ((1 << fraction) - 1)
    scale = np.exp2(np.maximum(exponent, 1) - bias)
    size = ((exponent > 0) + rest / (1 << fraction)) * scale
    beyond = np.where(rest == 0, np.inf, np.nan) if dtype == float8_e5m2 else np.nan
    size = np.where(size > largest, beyond, size)
    return np.copysign(size, np.where(code & 128, -1.0, 1.0)).astype(np.float32)


def rounded(x: Array, dtype: DType) -> Array:
    """float32 values as those of a dtype, in float32: float8 to the nearest, int4 towards zero."""
    if dtype in _LIMITS:
        return np.trunc(x) + np.float32(0)
    fraction, bias, largest = _FORMATS[dtype]
    size = np.abs(x.astype(np.float64))
    with np.errstate(invalid="ignore"):
        exponent = np.maximum(np.frexp(size)[1] - 1, 1 - bias)
        unit = np.exp2(exponent.astype(np.float64) - fraction)
        # The even one of two that are as near.
        nearest = np.rint(size / unit) * unit
        beyond = np.inf if dtype == float8_e5m2 else np.nan
        nearest = np.where(nearest > largest, beyond, nearest)
    return np.copysign(np.where(np.isnan(x), np.nan, nearest), x).astype(np.float32)


@cache
def numbers(dtype: DType) -> Array:
    """float32 values: all of the dtype's, those between two of them, and others beyond."""
    if dtype in _LIMITS:
        low, high = (float(limit) for limit in _LIMITS[dtype])
        every = np.arange(low, high + 1)
        inside = np.concatenate([every + step for step in (-0.9, -0.5, -0.1, 0.0, 0.1, 0.5, 0.9)])
        values = np.append(inside[(inside > low - 1) & (inside < high + 1)], [-0.0, 1e-40])
        return values.astype(np.float32)
    fraction, _, largest = _FORMATS[dtype]
    every = np.unique(decoded(codes(dtype)))
    positive = every[np.isfinite(every) & (every >= 0)]
    # The one after the largest, to which numbers round that are too large.
    positive = np.append(positive, positive[-1] + np.exp2(np.floor(np.log2(largest)) - fraction))
    ties = (positive[1:] + positive[:-1]) / 2
    ties = ties.astype(np.float32)
    beside = [np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(np.inf))]
    # A tie in float16, and a little more than that in float32: to be rounded once.
    twice = ties * np.float32(1 + 2.0**-13)
    rest = np.array([1e-45, 1e-38, 1e-20, 1e6, 3e38, np.inf, np.nan], np.float32)
    values = np.concatenate([positive, ties, *beside, twice, rest]).astype(np.float32)
    return np.concatenate([values, -values])


# Checks ------------------------------------------------------------------------------------------


@check(Area.VALUES, per="storage")
def storage_conversion(case: Case) -> None:
    """Checks the conversion from float32 and back, of every kind of value, in every layout."""
    dtype = _dtype(case)
    for layout, x in _arranged(numbers(dtype)):
        stored = _tensor(case, x).astype(dtype)
        _equal(case, stored, rounded(x, dtype), f"{layout} float32 as {dtype}")
    for layout, x in _arranged(codes(dtype)):
        back = _tensor(case, x).astype(dtypes.float32)
        require(
            back.dtype == dtypes.float32, case, f"{dtype} as float32 has the dtype {back.dtype}"
        )
        identical(case, back.numpy(), decoded(x), f"{layout} {dtype} as float32")
    captured = function(lambda x: x.astype(dtype).astype(dtypes.float32))
    back = checked(case, captured, _tensor(case, numbers(dtype)))
    identical(
        case, back.numpy(), rounded(numbers(dtype), dtype), f"{dtype} and back in a captured call"
    )


@check(Area.EDGES, per="storage")
def storage_transfer(case: Case) -> None:
    """Checks `from_host`, `to_host` and `holds`, of all values, in every layout and size."""
    dtype, backend = _dtype(case), case.device.backend
    subject = f"{type(backend).__name__}.from_host and to_host"
    for layout, x in _arranged(codes(dtype)):
        for shared in (True, False):
            native = backend.from_host(x, case.device.native, copy=not shared)
            require(
                tuple(native.shape) == x.shape,
                subject,
                f"{layout} {dtype}{list(x.shape)} has the shape {tuple(native.shape)}",
            )
            public = backend.public_dtypes[native.dtype]
            require(public == dtype, subject, f"an array of {dtype} has the dtype {public}")
            back = backend.to_host(native)
            require(back.dtype == dtype, subject, f"{dtype} came back as {back.dtype}")
            require(
                back.shape == x.shape, subject, f"{dtype}{list(x.shape)} came back as {back.shape}"
            )
            identical(
                subject, decoded(back), decoded(x), f"{layout} {dtype} from the host and back"
            )
    host = codes(dtype).copy()
    kept = _tensor(case, host, copied=True)
    host[...] = host[:1]
    identical(
        subject,
        decoded(kept.numpy()),
        decoded(codes(dtype)),
        f"{dtype} after the host array changed",
    )


@check(Area.EDGES, per="storage")
def storage_copies(case: Case) -> None:
    """Checks copies, variables, and moves to each device of the backend."""
    dtype, device = _dtype(case), case.device
    goal = decoded(codes(dtype))
    x = _tensor(case, codes(dtype))
    for name, make in _COPIES.items():
        _equal(case, make(x), goal, f"{dtype} after {name}")
    with device:
        variable = Variable(_tensor(case, codes(dtype)[::-1].copy()), trainable=False)
    variable.assign(x)
    _equal(case, variable.value, goal, f"a variable of {dtype} after assign")
    backend = device.backend
    for index in range(backend.device_count(device.kind)):
        native = backend.native_device(device.kind, index)
        moved = backend.to_host(backend.copy_to_device(x._array, native))
        identical(case, decoded(moved), goal, f"{dtype} on device {index} of {device.kind}")


_COPIES: dict[str, Callable[[Tensor], Tensor]] = {
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "x.astype(x.dtype)": lambda x: x.astype(x.dtype),
    "to_device": lambda x: to_device(x, x.device),
}


@check(Area.EDGES, per="storage")
def storage_checkpoint(case: Case) -> None:
    """Checks that a variable has its values after it was saved and restored."""
    dtype = _dtype(case)
    # An odd number: what packs two into a byte has one left over.
    host = np.resize(codes(dtype), (3, 89))
    with case.device, tempfile.TemporaryDirectory() as folder:
        saved = Variable(_tensor(case, host), trainable=False)
        other = Variable(_tensor(case, np.resize(codes(dtype)[:1], (3, 89))), trainable=False)
        path = Checkpoint(codes=saved).save(Path(folder) / "one")
        Checkpoint(codes=other).restore(path)
        _equal(case, other.value, decoded(host), f"a variable of {dtype} from a checkpoint")


@check(Area.EDGES, per="storage")
def storage_refusal(case: Case) -> None:
    """Checks that ops raise an error for these tensors where their rule does."""
    dtype = _dtype(case)
    x = _tensor(case, codes(dtype)[:4])
    for op in OPS.values():
        if not op.public or not op.inputs or op.name in _TAKE_STORAGE:
            continue
        if any(
            parameter.arity is not Arity.ONE for parameter in op.inputs
        ) or not takes_no_attributes(op):
            continue
        try:
            # Twice: the first call fills the tables of kernels.
            for _ in range(2):
                result = op.function(*[x] * len(op.inputs))
        except errors.DTypeError:
            continue
        except errors.PullbackError as error:
            raise ConformanceError(
                f"{case}: {op.name} of {dtype} raised {type(error).__name__} ({error}), not "
                f"DTypeError"
            ) from error
        raise ConformanceError(
            f"{case}: {op.name} of {dtype} returned {result!r}; DTypeError was to be raised"
        )


#: The ops that take dtypes for storage.
_TAKE_STORAGE = ("astype", "to_device")


def _dtype(case: Case) -> DType:
    assert case.dtype is not None
    return case.dtype


def _tensor(case: Case, host: Array, *, copied: bool = False) -> Tensor:
    tensor: Tensor = to_tensor(host, case.device, copy=copied)
    return tensor


def _arranged(x: Array) -> Iterator[tuple[str, Array]]:
    """The values in arrays of all sizes and layouts, each after its description."""
    yield "a vector of", x
    yield "a large vector of", np.resize(x, LARGE)
    for size in (0, 1, 2, 3, 67):
        yield f"{size} elements of", np.resize(x, size)
    yield "one element without axes of", x[5:6].reshape(())
    yield "no rows of", x[:0].reshape(0, 3)
    block = np.resize(x, (3, 5, 17))
    for name, lay in LAYOUTS.items():
        laid = lay(block)
        assert isinstance(laid, np.ndarray)
        yield name, laid


def _equal(case: Case, stored: Tensor, goal: Array, quantity: str) -> None:
    """Checks that a tensor of the dtype has these values."""
    dtype = _dtype(case)
    require(stored.dtype == dtype, case, f"{quantity} has the dtype {stored.dtype}")
    require(stored.device is case.device, case, f"{quantity} is on {stored.device}")
    host = stored.numpy()
    require(host.dtype == dtype, case, f"{quantity} is {host.dtype} on the host")
    identical(case, decoded(host), goal, quantity)
