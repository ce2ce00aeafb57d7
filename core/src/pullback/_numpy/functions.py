"""Runs a function of NumPy's on tensors: `__array_function__`."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from pullback import errors
from pullback._numpy import (  # noqa: F401  (each fills the table)
    choices,
    creation,
    elementwise,
    fourier,
    joining,
    linear_algebra,
    manipulation,
    norms,
    order,
    positions,
    reductions,
    sequences,
    statistics,
    windows,
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
from pullback._operators import OPERATORS

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
        positional, named = arguments(function, own, args, kwargs)
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


class Parameters:
    """The parameters of a function of NumPy's, in order."""

    __slots__ = ("defaults", "known", "named", "names", "only_by_position", "variadic")

    def __init__(self, function: Any, own: Function) -> None:
        try:
            found = [*inspect.signature(function).parameters.values()]
        except ValueError:
            # Functions in C say nothing of their arguments before NumPy 2.4.
            found = [*inspect.signature(own).parameters.values()]
        kinds = inspect.Parameter
        by_position = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        self.names = [one.name for one in found if one.kind in by_position]
        self.only_by_position = len([one for one in found if one.kind is kinds.POSITIONAL_ONLY])
        self.variadic = any(one.kind is kinds.VAR_POSITIONAL for one in found)
        #: Whether it takes others by name, which its signature does not show.
        self.named = any(one.kind is kinds.VAR_KEYWORD for one in found)
        self.defaults = {one.name: one.default for one in found}
        code = own.__code__
        self.known = frozenset(
            code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + self.variadic]
        )


def parameters_of(function: object, own: Function) -> Parameters:
    """The parameters of a function of NumPy's, for which the table has `own`."""
    parameters = _PARAMETERS.get(function)
    if parameters is None:
        parameters = _PARAMETERS[function] = Parameters(function, own)
    return parameters


def arguments(
    function: object, own: Function, args: Any, kwargs: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments in the order, and by the names, that `own` knows.

    NumPy has checked that they fit its function.

    Raises:
        Unsupported: for an argument that `own` does not know, unless it changes nothing.
    """
    parameters = parameters_of(function, own)
    count = len(args) if parameters.variadic else parameters.only_by_position
    named = dict(zip(parameters.names[count:], args[count:], strict=False))
    named.update(kwargs)
    for name in [*named]:
        if not _is_taken(parameters, name, named[name]):
            del named[name]
    return args[:count], named


def _is_taken(parameters: Parameters, name: str, value: object) -> bool:
    """Returns whether an argument is passed on; one that changes nothing need not be known."""
    if type(value).__name__ == "_NoValueType":
        return False  # NumPy's mark for what was not given
    if name in parameters.known:
        return True
    if value is None or value is parameters.defaults.get(name) or name in _WITHOUT_EFFECT:
        return False
    if not is_one_of(value, _HARMLESS.get(name, ())):
        raise Unsupported(f"{name}={value!r}" if isinstance(value, str) else f"{name}=")
    return False


_PARAMETERS: dict[object, Parameters] = {}

# From now on without the look-up of this module.
OPERATORS.numpy = call
OPERATORS.numpy_function = run_function
