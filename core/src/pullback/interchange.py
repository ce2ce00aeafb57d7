"""NumPy's protocols on tensors: its ufuncs and functions run our ops, and how values print."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pullback import errors

# NumPy's names of ufuncs where they differ from the array API standard's.
_UFUNC_NAMES = {
    "absolute": "abs",
    "power": "pow",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "true_divide": "divide",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "conjugate": "conj",
}

# And of its functions.
_FUNCTION_NAMES = {
    "amax": "max",
    "amin": "min",
    "concatenate": "concat",
    "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum",
}

Call = Mapping[str, Callable[..., Any]]


def run_ufunc(
    call: Call, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """np.multiply(t, t) and ndarray * t, as our op of that name: gradients survive.

    Raises:
        InputTypeError: for a ufunc that has no op here, or with arguments that an op has not.
    """
    function = call.get(_UFUNC_NAMES.get(ufunc.__name__, ufunc.__name__))
    if method != "__call__" or function is None or kwargs:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        raise errors.InputTypeError(
            f"np.{name} does not take pullback tensors"
            f"{' with ' + ', '.join(kwargs) if kwargs else ''}; "
            f"use the functions of pullback, or x.numpy() for a NumPy array"
        )
    return function(*inputs)


def run_function(call: Call, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """np.sum(t) and np.concatenate([t, t]), as our op of that name.

    What has no op here computes with the values, in NumPy.
    """
    own = call.get(_FUNCTION_NAMES.get(function.__name__, function.__name__))
    if own is not None and function.__module__.startswith(np.__name__):
        return own(*args, **kwargs)
    return function(*_on_host(args), **_on_host(kwargs))


def _on_host(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: _on_host(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return type(values)(_on_host(value) for value in values)
    return values.numpy() if hasattr(type(values), "__pullback_tensor__") else values


def printed(array: np.ndarray[Any, Any], **options: Any) -> str:
    """The values as NumPy prints them."""
    if array.dtype.kind not in "biufc":
        # NumPy would print the 16-bit floats of ml_dtypes as if they were integers.
        array = array.astype("float32")
    return np.array2string(array, **options)
