"""Random straight lines of ops, and their graphs: what tests of fused kernels share."""

from __future__ import annotations

from hypothesis import strategies as st

import pullback as pb
from pullback.devices import as_device
from pullback.graph.graph import Fused
from pullback.graph.passes.simplify import simplify
from pullback.graph.trace import Trace
from pullback.tensor import Tensor


def recorded(function, *arrays):
    """The graph of a function of arrays, and the arrays as kernels get them."""
    arrays = [pb.asarray(array)._array for array in arrays]
    trace = Trace(as_device("cpu"))
    results = function(*[trace.argument(array, f"x{i}") for i, array in enumerate(arrays)])
    results = [results] if isinstance(results, Tensor) else list(results)
    trace.close()
    return simplify(trace.graph([result._array.value for result in results])), arrays


def groups(graph):
    """The names of the ops of each call, with those of a fused one in a list."""
    return [
        [each.op.name for each in call.op.graph.calls]
        if isinstance(call.op, Fused)
        else call.op.name
        for call in graph.calls
    ]


@st.composite
def programs(draw, unary, binary, longest):
    """Functions of two arrays, a row and a number: straight lines of sums, means and other ops.

    Args:
        draw: what Hypothesis gives.
        unary: functions of a tensor.
        binary: functions of two tensors.
        longest: the largest number of calls.
    """
    place = st.integers(0, 200)
    functions = [*((f, 1) for f in (pb.sum, pb.mean, *unary)), *((f, 2) for f in binary)]
    line = st.tuples(st.sampled_from(functions), place, place, st.integers(0, 4))
    lines = draw(st.lists(line, min_size=2, max_size=longest))
    kept = draw(st.lists(place, min_size=1, max_size=4))

    def function(*inputs):
        values = list(inputs)
        for (f, count), i, j, axis in lines:
            x, y = values[i % len(values)], values[j % len(values)]
            if f in (pb.sum, pb.mean):
                values.append(f(x, axis=None if axis >= x.ndim else axis, keepdims=axis == 1))
            else:
                values.append(f(x) if count == 1 else f(x, y))
        return [values[-1 - i % len(lines)] for i in kept]

    return function
