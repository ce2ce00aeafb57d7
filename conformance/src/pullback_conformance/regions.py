"""The check of fused kernels: programs with calls of an op, fused and one by one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback.graph.emit import emit
from pullback.graph.graph import Fused, Graph
from pullback.graph.passes.regions import fuse, takes_rows
from pullback.graph.passes.simplify import simplify
from pullback.graph.trace import Trace
from pullback.plugins.records import Fuser, Kernel
from pullback.shapes import Shape
from pullback_conformance.case import Case, as_tuple, leaves, to_tensor
from pullback_conformance.compare import ConformanceError, all_identical, require
from pullback_conformance.derived.programs import Partners, Program, partners, programs
from pullback_conformance.derived.values import LARGE, of
from pullback_conformance.layouts import LAYOUTS
from pullback_conformance.registry import Area, check
from pullback_conformance.sample import Array

#: Shapes of the inputs, and of how many programs one is tried in each: no axes, no elements, one
#: element, columns, several axes, short and long vectors, and sizes that take blocks and threads.
SHAPES: dict[Shape, int] = {
    (): 3,
    (0, 3): 4,
    (7,): 3,
    (2131,): 3,
    (1,): 6,
    (3, 1): 6,
    (2, 3, 5): 6,
    (300, 257): 6,
    (LARGE,): 6,
}
#: The shape in which all programs are tried, and inputs have other layouts.
COMMON: Shape = (5, 67)


def fuses(case: Case) -> bool:
    """Returns whether calls of the op may be part of a fused kernel."""
    return (
        not case.op.copies_elements
        and all(isinstance(value, np.ndarray) for value in case.inputs)
        and not any(x.dtype in dtypes.COMPLEX for x in leaves(case.inputs))
        and any(case.op.name in fuser.ops for fuser in case.device.backend.fusers())
    )


@check(Area.VALUES, per="size", applies=fuses)
def fused(case: Case) -> None:
    """Checks that programs give the same bits with fused kernels as with the calls one by one."""
    for fuser in tuple(case.device.backend.fusers()):
        if case.op.name not in fuser.ops:
            continue
        ops = partners(fuser.ops)
        first = sorted(fuser.ops).index(case.op.name)
        if not _compare_all(case, fuser, ops.turned(first), COMMON, 1):
            continue  # such as a dtype that its kernels do not take
        for shape, count in SHAPES.items():
            _compare_all(case, fuser, ops.turned(first), shape, count)


def _compare_all(case: Case, fuser: Fuser, ops: Partners, shape: Shape, count: int) -> bool:
    """Compares one program of `count` for inputs of a shape; returns whether a kernel was made."""
    special, finite = (_inputs(case, shape, special=special) for special in (True, False))
    some = False
    start = len(shape) + len(case.op.name)
    for description, program in itertools.islice(
        programs(case, ops, shape), start % count, None, count
    ):
        graph = _recorded(case, program, special)
        if graph is None:
            continue
        pair = _Pair(case, graph, fuser, f"{description}, {list(shape)}")
        if not pair.regions:
            continue
        some = True
        taken = [pair.compare(inputs) for inputs in (special, finite)]
        if shape == COMMON:
            for name, lay in LAYOUTS.items():
                pair.compare([lay(x) for x in special], f"{name} inputs")
        if all(taken):
            pair.keeps_results(special, finite)
    return some


class _Pair:
    """A program as it is recorded, and with the fused kernels of one source."""

    def __init__(self, case: Case, graph: Graph, fuser: Fuser, description: str) -> None:
        self._case = case
        self._subject = f"{case}: {description}"
        self._fuser = fuser
        self._raised = ""
        result = fuse(graph, [Fuser(self._make, fuser.ops, fuser.source, fuser.priority)])
        require(not self._raised, self._subject, self._raised)
        ops: list[Any] = [call.op for call in result.calls]
        self.regions = [op.graph for op in ops if isinstance(op, Fused)]
        self._one_by_one, self._fused = emit(graph), emit(result)

    def compare(self, inputs: Sequence[Any], layout: str = "") -> bool:
        """Compares the results for these inputs; returns False for values that are rejected."""
        arrays = self._arrays(inputs)
        # Arrays may share memory with the inputs.
        before = [np.array(x) for x in inputs]
        try:
            expected = self._hosts(self._one_by_one(*arrays))
        except (errors.PullbackError, ValueError, ArithmeticError):
            return False
        found = self._results(arrays)
        where = ", ".join(part for part in (self._name(), layout) if part)
        words = f"{where}: input {{i}} after the call"
        all_identical(self._subject, self._hosts(arrays), before, words)
        require(
            len(found) == len(expected),
            self._subject,
            f"{where}: {len(found)} results instead of {len(expected)}",
        )
        words = f"{where}: result {{i}} beside the calls one by one"
        all_identical(self._subject, found, expected, words)
        return True

    def keeps_results(self, inputs: Sequence[Any], others: Sequence[Any]) -> None:
        """Checks that a call with other values leaves the results of an earlier one as they are."""
        before = self._results(self._arrays(inputs))
        kept = [np.array(array) for array in before]
        self._results(self._arrays(others))
        words = f"{self._name()}: a result after another call"
        all_identical(self._subject, before, kept, words)

    def _name(self) -> str:
        calls = ", ".join(str([call.op.name for call in region.calls]) for region in self.regions)
        return f"{self._fuser.source!r} fuses {calls}"

    def _make(self, region: Any) -> Kernel | None:
        try:
            return self._fuser.fuse(region)
        except Exception as error:
            calls = [call.op.name for call in region.calls]
            source = self._fuser.source
            self._raised = (
                f"fuse of {source!r}, for {calls}, raised {type(error).__name__}: {error}"
            )
            return None

    def _results(self, arrays: Sequence[Any]) -> list[Array]:
        try:
            return self._hosts(self._fused(*arrays))
        except Exception as error:
            raise ConformanceError(
                f"{self._subject}: {self._name()}: raised {type(error).__name__}: {error}"
            ) from error

    def _arrays(self, inputs: Sequence[Any]) -> list[Any]:
        return [to_tensor(x, self._case.device, copy=False)._array for x in inputs]

    def _hosts(self, arrays: Sequence[Any]) -> list[Array]:
        return [self._case.device.backend.to_host(array) for array in arrays]


def _recorded(case: Case, program: Program, inputs: Sequence[Array]) -> Graph | None:
    """The graph of a program; None if the rules of its ops reject the call."""
    trace = Trace(case.device)
    values = [
        trace.argument(to_tensor(x, case.device)._array, f"x{i}") for i, x in enumerate(inputs)
    ]
    count = len(case.inputs)
    try:
        results = as_tuple(program(values[:count], values[count:]))
    except errors.PullbackError:
        return None
    finally:
        trace.close()
    return simplify(trace.graph([result._array.value for result in results]))


def _shape(case: Case, x: Array, shape: Shape) -> Shape:
    """The shape of an input: that of rows for parameters of an op over rows, such as a scale."""
    is_parameter = takes_rows(case.op) and x.ndim < case.inputs[0].ndim
    return shape[max(0, len(shape) - x.ndim) :] if is_parameter else shape


def _inputs(case: Case, shape: Shape, *, special: bool) -> list[Array]:
    """Arrays for the inputs of the op, and a row, a number and a column beside them.

    They have every kind of value, such as infinities and NaN, or numbers near 1.
    """
    arrays = [(x.dtype, _shape(case, x, shape)) for x in case.inputs]
    floating = next((dtype for dtype, _ in arrays if dtype in dtypes.FLOATING), arrays[0][0])
    column = (*shape[:-1], 1) if shape else ()
    made = []
    for i, (dtype, size) in enumerate(
        [*arrays, *((floating, s) for s in (shape[-1:], (), column))]
    ):
        rng = np.random.default_rng([i, *size])
        if special or dtype not in dtypes.FLOATING:
            drawn = rng.permutation(of(dtype))
        else:
            drawn = rng.standard_normal(size or 1)
        with np.errstate(over="ignore"):
            made.append(np.resize(drawn, size).astype(dtype))
    return made
