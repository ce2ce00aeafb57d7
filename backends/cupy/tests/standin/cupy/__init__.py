"""A stand-in for CuPy without a GPU: its namespace over NumPy, its kernels compiled by g++.

It has the names and keywords of CuPy's (`names.json`, made by `record_names.py`) and no others,
keeps arrays of NumPy's out, and counts copies to the host.
"""

from __future__ import annotations

import functools
import inspect
import json
import types
from pathlib import Path

import ml_dtypes  # noqa: F401  makes bfloat16 known to NumPy
import numpy as np

from cupy import _array, _core, cuda
from cupy._array import ndarray, repeated, unwrap, wrap
from cupy._kernels import ElementwiseKernel, RawKernel, ReductionKernel

__all__ = ["ElementwiseKernel", "RawKernel", "ReductionKernel", "_core", "cuda", "ndarray"]
__version__ = "14.stand-in"

NAMES = json.loads(Path(__file__).with_name("names.json").read_text())
np.seterr(all="ignore")

_AS_THEY_ARE = {"dtype", "iinfo", "finfo", "isdtype", "result_type", "can_cast", "newaxis"}


def _checked(path, function):
    """The function of NumPy's with the keywords of CuPy's."""
    known = NAMES[path]

    @functools.wraps(function, updated=())
    def call(*args, **kwargs):
        if known is not None:
            unknown = set(kwargs) - set(known)
            if unknown:
                raise TypeError(f"cupy.{path} has no {', '.join(unknown)}")
        return repeated(lambda: wrap(function(*unwrap(args), **unwrap(kwargs))))

    call.__signature__ = inspect.Signature(
        [
            inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
            inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
        ]
    )
    return call


def _found(path):
    if path not in NAMES:
        raise AttributeError(f"cupy has no {path!r}")
    value = np
    for part in path.split("."):
        value = getattr(value, part)
    if isinstance(value, type) or path in _AS_THEY_ARE or not callable(value):
        return value
    return _checked(path, value)


class _Namespace(types.ModuleType):
    def __getattr__(self, name):
        return _found(f"{self.__name__}.{name}")


linalg, fft = _Namespace("linalg"), _Namespace("fft")


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    return _found(name)


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    # What comes from the host is copied to the device; what is there stays.
    if isinstance(a, ndarray):
        return wrap(np.array(np.asarray(a), dtype, copy=copy, order=order))
    return wrap(np.array(a, dtype, order=order or "K"))


array = asarray


def from_dlpack(array, *, device=None, copy=None):
    return wrap(np.from_dlpack(array, copy=copy))


def matmul(a, b):
    # 16-bit floats are added up in float32.
    a, b = unwrap(a), unwrap(b)
    dtype = np.result_type(a, b)
    wide = np.float32 if dtype.name in ("float16", "bfloat16") else dtype
    return wrap(np.matmul(a.astype(wide), b.astype(wide)).astype(dtype))


def argsort(a, axis=-1, kind=None):
    return wrap(np.argsort(np.asarray(a), axis, "stable"))  # as CuPy's always is


def get_default_memory_pool():
    return types.SimpleNamespace(used_bytes=lambda: 0, total_bytes=lambda: 0)


COPIES = _array.COPIES
