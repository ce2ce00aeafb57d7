"""The values by which control flow chooses: Python's are looked at, a trace's stay tensors."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from pullback import errors
from pullback._dispatch.convert import as_tensor, from_any
from pullback._dispatch.recording import capturing
from pullback.dtypes import bool_
from pullback.tensor import Tensor


def predicate(name: str, argument: str, value: object) -> bool | Tensor:
    """A boolean to choose by: a tensor in a trace, else a bool.

    Raises:
        DTypeError: for a tensor that is not boolean.
        ShapeError: for a tensor of several elements.
        InputTypeError: for a value that is not a boolean.
    """
    if isinstance(value, (bool, int)) or (isinstance(value, np.generic) and value.dtype == bool_):
        return bool(value)
    tensor = _scalar(name, argument, value, "a boolean scalar", "write pb.any(x) or pb.all(x)")
    if tensor.dtype != bool_:
        raise errors.DTypeError(
            f"{name}: {argument} must be a boolean scalar, got {tensor.dtype}; write a comparison, "
            f"such as x > 0 or x != 0"
        )
    return tensor if capturing() is not None else bool(tensor)


def integer(name: str, argument: str, value: object) -> int | Tensor:
    """An integer to choose by: a tensor in a trace, else an int.

    Raises:
        DTypeError: for a tensor that is not of integers.
        ShapeError: for a tensor of several elements.
        InputTypeError: for a value that is not an integer.
    """
    if not hasattr(type(value), "__pullback_tensor__"):
        try:
            return operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            pass
    tensor = _scalar(name, argument, value, "an integer", "index it, such as x[0]")
    if tensor.dtype.kind not in "iu":
        raise errors.DTypeError(
            f"{name}: {argument} must be an integer, got {tensor.dtype}; write x.astype('int32')"
        )
    return tensor if capturing() is not None else int(tensor)


def _scalar(name: str, argument: str, value: Any, what: str, way_out: str) -> Tensor:
    tensor = as_tensor(value)
    if tensor is None:
        if isinstance(value, (float, complex, str)) or value is None:
            raise errors.InputTypeError(
                f"{name}: {argument} must be {what}, got {type(value).__name__}; write a "
                f"comparison or an int"
            )
        tensor = from_any(value)
    if tensor.shape:
        raise errors.ShapeError(
            f"{name}: {argument} must be {what}, got shape {tensor.shape}; {way_out}"
        )
    capture = capturing()
    return tensor if capture is None else capture.lift(tensor)
