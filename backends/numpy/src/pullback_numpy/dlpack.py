"""bfloat16 by DLPack, which has a code for it that NumPy does not know.

The capsule of an array of the same bits is a record with a dtype in it. It is made for, or taken
from, NumPy as uint16; only the code of the kind is exchanged.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

Array = Any

_UNSIGNED, _BFLOAT = 1, 4
#: By the name of a capsule: where the kind of its dtype is, from the beginning of the record.
_PLACES = {b"dltensor": 20, b"dltensor_versioned": 52}

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def capsule(array: Array, **kwargs: Any) -> Any:
    """The capsule of an array, of bfloat16 too."""
    if array.dtype != ml_dtypes.bfloat16:
        return array.__dlpack__(**kwargs)
    made = array.view(np.uint16).__dlpack__(**kwargs)
    _dtype(made)[0].value = _BFLOAT
    return made


class Bits:
    """Another library's array of bfloat16 as one of uint16, for `np.from_dlpack`."""

    def __init__(self, value: Any) -> None:
        self._value = value
        #: True if the array was one of bfloat16.
        self.found = False

    def __dlpack__(self, **kwargs: Any) -> Any:
        capsule = self._value.__dlpack__(**kwargs)
        kind, bits, lanes = _dtype(capsule)
        if (kind.value, bits.value, lanes.value) == (_BFLOAT, 16, 1):
            kind.value = _UNSIGNED
            self.found = True
        return capsule

    def __dlpack_device__(self) -> Any:
        return self._value.__dlpack_device__()


def from_dlpack(value: Any, copy: bool | None) -> Array:
    """`np.from_dlpack`, for bfloat16 too."""
    try:
        return np.from_dlpack(value, copy=copy)
    except (RuntimeError, BufferError):
        bits = Bits(value)
        try:
            taken = np.from_dlpack(bits, copy=copy)
        except (RuntimeError, BufferError):
            taken = None
        if taken is None or not bits.found:
            raise
        return taken.view(ml_dtypes.bfloat16)


def _dtype(capsule: Any) -> tuple[Any, Any, Any]:
    """The kind, the bits and the lanes of the dtype in a capsule, each of which can be set."""
    for name, place in _PLACES.items():
        if _is_valid(capsule, name):
            address = _pointer(capsule, name) + place
            return (
                ctypes.c_uint8.from_address(address),
                ctypes.c_uint8.from_address(address + 1),
                ctypes.c_uint16.from_address(address + 2),
            )
    raise BufferError("the object is not a DLPack capsule")
