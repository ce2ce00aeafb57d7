"""Functions of the binary operators of tensors: those of the ops, but for values of other types.

`x + y` runs the code of `pb.add`. Where that comes to a value to be converted, an operator first
asks whether the value has its own way with operators (see `defers`), while `pb.add(x, y)` converts
what it can. So operators on tensors and numbers cost no more than calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from pullback import errors
from pullback._dispatch import general
from pullback._dispatch.host_data import SCALAR_TYPES, host_array
from pullback._operators import INFIX, REFLECTED, Deferred
from pullback._symbols import HostNumber
from pullback.spec import Op
from pullback.tensor import Tensor

#: Types of values that are converted as they are.
_CONVERTED = frozenset({*SCALAR_TYPES, HostNumber, Tensor, np.ndarray, list, tuple, range})

#: What the type of an array has; an array of no numbers is an error that says so.
_ARRAYS = ("__array__", "__array_interface__", "__dlpack__")


def make_infix(op: Op, public: FunctionType, stub: CodeType, lock: Lock) -> None:
    """Makes the function of an operator; its code is that of the op's public function."""
    names: dict[str, Any] = {"__name__": public.__module__}
    function = FunctionType(stub, names, public.__name__)

    def specialize(keywords: Mapping[str, Any]) -> FunctionType:
        if public.__code__ is stub:
            public.__globals__["SPECIALIZE"](keywords)
        with lock:
            names.update(public.__globals__, SPECIALIZE=specialize, _align=align_operands)
            function.__code__ = public.__code__
        return function

    names["SPECIALIZE"] = specialize
    setattr(INFIX, op.name, function)


def align_operands(op: Op, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands as tensors, as `general.align` makes them of the inputs of a call.

    Raises:
        Deferred: for an operand that has its own way with operators, or is not an array.
    """
    left, right = values
    if _is_foreign(right) and (defers(right, REFLECTED[op.name]) or not _is_array(right)):
        raise Deferred
    # The method of a value on the left had its turn before.
    if _is_foreign(left) and (_opts_out(left) or not _is_array(left)):
        raise Deferred
    return general.align(op, values)


def _is_foreign(value: Any) -> bool:
    kind = type(value)
    if kind in _CONVERTED or hasattr(kind, "__pullback_tensor__"):
        return False
    return not isinstance(value, np.generic)


def _opts_out(value: Any) -> bool:
    return getattr(type(value), "__array_ufunc__", Deferred) is None


def defers(value: Any, reflected: str) -> bool:
    """Returns whether an operator leaves a value on its right to the value's own method.

    As NumPy does, if the type says `__array_ufunc__ = None`, or has the reflected method and
    either takes ufuncs in its own way or has a higher `__array_priority__`. Plain arrays of other
    libraries, which exchange their memory by DLPack, are converted.
    """
    kind = type(value)
    if _opts_out(value):
        return True
    if not hasattr(kind, reflected):
        return False
    ufunc = getattr(kind, "__array_ufunc__", None)
    if ufunc is not None and ufunc is not np.ndarray.__array_ufunc__:
        return True
    priority: float = getattr(kind, "__array_priority__", 0)
    return priority > 0 and (issubclass(kind, np.ndarray) or not hasattr(kind, "__dlpack__"))


def _is_array(value: Any) -> bool:
    """Returns whether a value is an array, of numbers or not, or becomes one of numbers."""
    if any(hasattr(type(value), name) for name in _ARRAYS):
        return True
    try:
        host_array(value)
    except errors.ConversionError:
        return False
    return True
