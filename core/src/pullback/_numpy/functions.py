"""Runs a function of NumPy's on tensors: `__array_function__`."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from pullback import errors
from pullback._numpy import (  # noqa: F401  (each fills the table)
    creation,
    elementwise,
    fourier,
    joining,
    linear_algebra,
    manipulation,
    norms,
    order,
    reductions,
    sequences,
    statistics,
)
from pullback._numpy.host import (
    is_one_of,
    is_recorded,
    name_of,
    on_host,
    read_variables,
    reject_writing,
)
from pullback._numpy.table import FUNCTIONS, Function, Unsupported

_SIGNATURES: dict[Any, inspect.Signature] = {}

#: Arguments that say how NumPy stores or copies, and change no value here.
_WITHOUT_EFFECT = frozenset({"subok", "optimize", "overwrite_input", "sorted", "stable"})
_HARMLESS = {
    "order": ("C", "K", "A"),
    "where": (True,),
    "method": ("linear",),
    "copy": (True, False),
    "kind": ("quicksort", "mergesort", "heapsort", "stable", "introselect"),
    "casting": ("same_kind", "safe", "unsafe"),
    "device": ("cpu",),
}


def run_function(function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Runs `function(*args, **kwargs)`, with a tensor or variable among the arguments.

    Raises:
        TapeError: for what has no equivalent, if a tape records one of the tensors.
        InputTypeError: for what would write into a tensor.
    """
    if not all(_is_known(one) for one in types):
        return NotImplemented
    name = name_of(function)
    args, kwargs = read_variables(args), read_variables(kwargs)
    reject_writing(name, args, kwargs)
    own = FUNCTIONS.get(name)
    if own is None:
        return on_host(name, function, args, kwargs)
    try:
        positional, named = _arguments(function, own, args, kwargs)
        return own(*positional, **named)
    except Unsupported as error:
        return on_host(name, function, args, kwargs, argument=str(error))
    except errors.DTypeError:
        # NumPy takes more dtypes, such as booleans for the largest of them.
        if is_recorded((args, kwargs)):
            raise
        return on_host(name, function, args, kwargs)


def call(name: str, *args: Any) -> Any:
    """Runs the function of the table with NumPy's name `name`."""
    return FUNCTIONS[name](*args)


def _is_known(kind: type) -> bool:
    """Returns whether values of a type are ours, or arrays that leave functions to NumPy."""
    if hasattr(kind, "__pullback_tensor__"):
        return True
    return getattr(kind, "__array_function__", None) is np.ndarray.__array_function__


def _arguments(
    function: Any, own: Function, args: Any, kwargs: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments in the order, and by the names, that `own` knows.

    Raises:
        Unsupported: for an argument that `own` does not know, unless it changes nothing.
    """
    parameters = _signature(function, own).parameters
    try:
        bound = _signature(function, own).bind(*args, **kwargs)
    except TypeError as error:
        raise errors.InputTypeError(f"np.{name_of(function)}: {error}") from None
    code = own.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        parameter = parameters[name]
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional = (*positional, value)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            positional = (*positional, *named.values(), *value)
            named = {}
        elif parameter.kind is parameter.VAR_KEYWORD:
            for key, extra in value.items():
                _take(named, known, key, extra, None)
        else:
            _take(named, known, name, value, parameter.default)
    return positional, named


def _take(
    named: dict[str, Any], known: tuple[str, ...], name: str, value: Any, default: Any
) -> None:
    if name in known:
        # NumPy's mark for what was not given is no value.
        if type(value).__name__ != "_NoValueType":
            named[name] = value
    elif value is None or value is default or name in _WITHOUT_EFFECT:
        return
    elif not is_one_of(value, _HARMLESS.get(name, ())):
        raise Unsupported(f"{name}={value!r}" if isinstance(value, str) else f"{name}=")


def _signature(function: Any, own: Function) -> inspect.Signature:
    found = _SIGNATURES.get(function)
    if found is None:
        try:
            found = inspect.signature(function)
        except ValueError:
            # Functions in C say nothing of their arguments before NumPy 2.4.
            signature = inspect.signature(own)
            rest = inspect.Parameter("rest", inspect.Parameter.VAR_KEYWORD)
            found = signature.replace(parameters=[*signature.parameters.values(), rest])
        _SIGNATURES[function] = found
    return found
