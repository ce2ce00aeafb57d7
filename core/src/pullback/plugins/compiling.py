"""The kernel calls of a graph as one Python function: what the hook `compile` is made of.

A library that compiles functions, such as `jax.jit`, calls the function once with arrays that stand
for values, so a kernel may not look at values there. `require` and `known` are for kernels that do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from pullback._tree import each
from pullback.plugins.records import Native

__all__ = ["as_function", "compiling", "known", "require"]


class _CompileState(threading.local):
    #: The tests of values in the graph that this thread compiles; None while it compiles none.
    tests: list[Any] | None = None


_LOCAL = _CompileState()


#: Calls a graph: from native arrays the outputs, and last whether what was required holds.
Nested: TypeAlias = "Callable[..., tuple[Any, ...]]"
#: Makes a call of branches or of a loop: of its inputs, and of its attributes by name, in which
#: graphs are functions (`Nested`). It returns the results, and last whether all of what the
#: functions required holds.
Control: TypeAlias = "Callable[..., Sequence[Any]]"


def as_function(
    graph: Any, control: Mapping[str, Control] | None = None
) -> Callable[..., tuple[Native, ...]]:
    """A function that calls the kernels of a graph, for a library that compiles functions.

    Args:
        graph: the graph that `Backend.compile` gets.
        control: for the calls that `Backend.control_flow` names, functions that make them in the
            library's way: of the inputs, with the attributes as keywords. Graphs among these are
            functions of their inputs, which return their outputs and a boolean, whether all that
            kernels required holds. They return the results and such a boolean.

    Returns:
        A function of the graph's inputs. It returns the outputs, and last, where kernels `require`
        something of values, a boolean that is true if all of that held.

    >>> import pullback as pb
    >>> from pullback.graph.trace import Trace
    >>> x = pb.asarray([1.0, 2.0])
    >>> trace = Trace(x.device)
    >>> y = pb.negative(trace.argument(x._array, "x"))
    >>> as_function(trace.graph([y._array.value]))(x._array)
    (array([-1., -2.], dtype=float32),)
    """
    run = _runner(graph, control or {})

    def function(*arrays: Any) -> tuple[Native, ...]:
        outputs, tests = run(*arrays)
        return *outputs, *_all(tests)

    return function


def _runner(
    graph: Any, control: Mapping[str, Control]
) -> Callable[..., tuple[list[Native], list[Any]]]:
    """A function of the inputs of a graph: its outputs, and what kernels required."""
    inputs = [source.value.name for source in graph.inputs]
    outputs = [value.name for value in graph.outputs]
    names = {*inputs, *graph.constants}
    names.update(value.name for call in graph.calls for value in call.results)
    kernels = [_kernel_of(call, control) for call in graph.calls]

    def run(*arrays: Any) -> tuple[list[Native], list[Any]]:
        values = dict(graph.constants)
        values.update(zip(inputs, arrays, strict=True))

        def array_of(value: Any) -> Native:
            array: Native = values[value.name]
            return array

        with compiling() as tests:
            for call, kernel in zip(graph.calls, kernels, strict=True):
                attributes = {
                    name: values[value.name] if getattr(value, "name", None) in names else value
                    for name, value in call.attributes.items()
                }
                operands = [each(array_of, operand) for operand in call.inputs]
                found = kernel(*operands, **attributes)
                results = found if isinstance(found, (tuple, list)) else (found,)
                for value, array, foreign in zip(call.results, results, call.foreign, strict=True):
                    native = graph.device.backend.native if foreign else None
                    values[value.name] = array if native is None else native(array)
        return [values[name] for name in outputs], tests

    return run


def _kernel_of(call: Any, control: Mapping[str, Control]) -> Callable[..., Any]:
    """The function for a call: its kernel, or the library's for branches and loops."""
    make = None if call.op.in_table else control.get(call.op.name)
    if make is None:
        kernel: Callable[..., Any] = call.kernel
        return kernel
    graphs: dict[str, Any] = {}
    for key, graph in call.graphs.items():
        name, several, _ = key.partition("[")
        nested = _nested(graph, control)
        # Several graphs are a tuple, in their order.
        graphs[name] = (*graphs.get(name, ()), nested) if several else nested

    def control_call(*operands: Any, **attributes: Any) -> Sequence[Any]:
        *results, held = make(*operands, **{**attributes, **graphs})
        if held is not True:
            require(held, ValueError("a value in a branch or a step of a loop"))
        return results

    return control_call


def _nested(graph: Any, control: Mapping[str, Control]) -> Nested:
    run = _runner(graph, control)

    def function(*arrays: Any) -> tuple[Any, ...]:
        outputs, tests = run(*arrays)
        return *outputs, *(_all(tests) or [True])

    return function


def _all(tests: Sequence[Any]) -> list[Any]:
    """A list of one boolean, true if all tests hold; empty if there is none."""
    held = list(tests[:1])
    for test in tests[1:]:
        held[0] = held[0] & test
    return held


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
