"""NumPy's functions and ufuncs on tensors and variables: what `np.dot(x, y)` computes.

NumPy hands a call with a tensor among its arguments over to the tensor (`__array_function__` and
`__array_ufunc__`). A function with an equivalent is made of ops, so that tapes record it
(`table.FUNCTIONS`, filled by the other modules, and `ufuncs.UFUNCS`). `host` has the rule for all
others.
"""

from __future__ import annotations

from typing import Any

from pullback._operators import OPERATORS


def _run_function(function: object, types: object, args: object, kwargs: object) -> Any:
    from pullback._numpy.functions import run_function

    return run_function(function, types, args, kwargs)


def _run_ufunc(ufunc: object, method: str, inputs: object, kwargs: object) -> Any:
    from pullback._numpy.ufuncs import run_ufunc

    return run_ufunc(ufunc, method, inputs, kwargs)


def _call(name: str, *args: Any) -> Any:
    from pullback._numpy.functions import call

    return call(name, *args)


OPERATORS.numpy = _call
OPERATORS.numpy_function = _run_function
OPERATORS.numpy_ufunc = _run_ufunc
