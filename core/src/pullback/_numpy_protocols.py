"""NumPy's protocols on tensors: its ufuncs and functions run our ops, and how values print."""

from __future__ import annotations

import inspect
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
    name = function.__name__
    if function.__module__.startswith(np.__name__):
        composed = _COMPOSED.get(name)
        if composed is not None:
            return composed(call, *args, **kwargs)
        own = call.get(_FUNCTION_NAMES.get(name, name))
        if own is not None:
            args, kwargs = _named(function, own, args, kwargs)
            return own(*args, **kwargs)
    return function(*_on_host(args), **_on_host(kwargs))


def _named(
    function: Any, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with those by keyword that our op takes so and NumPy's function by position."""
    code = inspect.unwrap(own).__code__
    count = code.co_argcount
    if len(args) <= count or code.co_flags & inspect.CO_VARARGS:
        return args, kwargs
    names = list(inspect.signature(function).parameters)[count : len(args)]
    return args[:count], {**dict(zip(names, args[count:], strict=True)), **kwargs}


def _transpose(call: Call, a: Any, axes: Any = None) -> Any:
    a = call["asarray"](a)
    return call["permute_dims"](a, tuple(range(a.ndim))[::-1] if axes is None else axes)


def _swapaxes(call: Call, a: Any, axis1: int, axis2: int) -> Any:
    a = call["asarray"](a)
    order = list(range(a.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return call["permute_dims"](a, tuple(order))


def _ravel(call: Call, a: Any) -> Any:
    return call["reshape"](a, (-1,))


def _dot(call: Call, a: Any, b: Any) -> Any:
    a, b = call["asarray"](a), call["asarray"](b)
    if not a.ndim or not b.ndim:
        return call["multiply"](a, b)
    return call["tensordot"](a, b, axes=((a.ndim - 1,), (max(b.ndim - 2, 0),)))


#: What NumPy has and the array API standard writes with others: on the host it would leave a tape.
_COMPOSED: dict[str, Callable[..., Any]] = {
    "dot": _dot,
    "ravel": _ravel,
    "swapaxes": _swapaxes,
    "transpose": _transpose,
}


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
