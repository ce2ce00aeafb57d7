"""The kernel calls of a graph as one Python function: what the hook `compile` is made of.

A library that compiles functions, such as `jax.jit`, calls the function once with arrays that stand
for values, so a kernel may not look at values there. `require` and `known` are for kernels that do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pullback._tree import each
from pullback.plugins.records import Native

__all__ = ["as_function", "compiling", "known", "require"]


class _Local(threading.local):
    #: The tests of values in the graph that this thread compiles; None while it compiles none.
    tests: list[Any] | None = None


_LOCAL = _Local()


def as_function(graph: Any) -> Callable[..., tuple[Native, ...]]:
    """A function that calls the kernels of a graph, for a library that compiles functions.

    Args:
        graph: the graph that `Backend.compile` gets.

    Returns:
        A function of the graph's inputs. It returns the outputs, and last, where kernels `require`
        something of values, a boolean that is true if all of that held.

    >>> import pullback as pb
    >>> from pullback.graph.capture import Trace
    >>> x = pb.asarray([1.0, 2.0])
    >>> trace = Trace(x.device)
    >>> y = pb.negative(trace.argument(x._array, "x"))
    >>> as_function(trace.graph([y._array.value]))(x._array)
    (array([-1., -2.], dtype=float32),)
    """
    inputs = [source.value.name for source in graph.inputs]
    outputs = [value.name for value in graph.outputs]
    names = {*inputs, *graph.constants}
    names.update(value.name for call in graph.calls for value in call.results)

    def run(*arrays: Any) -> tuple[Native, ...]:
        values = dict(graph.constants)
        values.update(zip(inputs, arrays, strict=True))

        def array_of(value: Any) -> Native:
            array: Native = values[value.name]
            return array

        with compiling() as tests:
            for call in graph.calls:
                attributes = {
                    name: values[value.name] if getattr(value, "name", None) in names else value
                    for name, value in call.attributes.items()
                }
                operands = [each(array_of, operand) for operand in call.inputs]
                found = call.kernel(*operands, **attributes)
                results = found if isinstance(found, (tuple, list)) else (found,)
                for value, array, foreign in zip(call.results, results, call.foreign, strict=True):
                    native = graph.device.backend.native if foreign else None
                    values[value.name] = array if native is None else native(array)
            held = tests[:1]
            for test in tests[1:]:
                held[0] = held[0] & test
        return *(values[name] for name in outputs), *held

    return run


@contextmanager
def compiling() -> Iterator[list[Any]]:
    """Has `require` and `known` look at no values in the `with` block.

    Yields:
        What kernels required: arrays of one boolean.
    """
    tests: list[Any] = []
    before, _LOCAL.tests = _LOCAL.tests, tests
    try:
        yield tests
    finally:
        _LOCAL.tests = before


def require(holds: Any, error: Exception) -> None:
    """Raises an error in a kernel unless something holds of the values of its inputs.

    In a graph that is being compiled nothing is looked at: the compiled function gives what was
    required as a result, and where it does not hold, the calls of the graph run one by one, so that
    the one at fault raises.

    Args:
        holds: a native array of one boolean.
        error: what is raised.

    >>> import numpy as np
    >>> require(np.all(np.asarray([1, 2]) > 0), ValueError("must be positive"))
    """
    if _LOCAL.tests is not None:
        _LOCAL.tests.append(holds)
    elif not holds:
        raise error


def known(condition: Any, *, otherwise: bool) -> bool:
    """A boolean that a kernel has from values, to choose between ways of computing.

    Args:
        condition: a native array of one boolean.
        otherwise: what is returned in a graph that is being compiled: the way that is right for all
            values.

    >>> import numpy as np
    >>> known(np.any(np.asarray([1, 2]) > 1), otherwise=False)
    True
    """
    return otherwise if _LOCAL.tests is not None else bool(condition)
