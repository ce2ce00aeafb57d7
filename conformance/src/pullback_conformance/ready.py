"""The check of kernels that are made ready for their shapes, as programs call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from pullback import errors
from pullback._dispatch.plan import Plan, arrays_of
from pullback._tree import leaves
from pullback_conformance.case import Case
from pullback_conformance.checks import is_prepared, kinds_of
from pullback_conformance.compare import ConformanceError, all_identical
from pullback_conformance.layouts import LAYOUTS
from pullback_conformance.registry import Area, check
from pullback_conformance.repetition import at_once, other
from pullback_conformance.sample import Array

#: The number of calls of each of two threads.
TURNS = 20


@check(Area.EDGES, per="kind", applies=is_prepared)
def prepared_again(case: Case) -> None:
    """Checks a kernel made ready: other values, all layouts, earlier results, two threads."""
    resolved = case.resolved(case.tensors())
    plan, backend = resolved.plan, case.device.backend
    if plan.kernel is None:
        return
    kernel = backend.prepare(
        case.op, plan.kernel, kinds_of(arrays_of(resolved.inputs)), plan.attributes
    )
    if kernel is None:
        return
    ready = Plan(case.op, plan.device, kernel, plan.attributes, plan.guard)

    def hosts(results: Sequence[Any]) -> list[Array]:
        return [backend.to_host(array) for array in results]

    def compare(changed: Case, words: str) -> Sequence[Any]:
        arrays = arrays_of(changed.resolved(changed.tensors(copy=False)).inputs)
        before = [np.array(leaf) for leaf in hosts(leaves(arrays))]
        expected = [np.array(array) for array in hosts(plan.run(arrays))]
        results = ready.run(arrays)
        all_identical(case, hosts(results), expected, f"made ready for its shapes, {words}")
        all_identical(case, hosts(leaves(arrays)), before, f"an input after the call, {words}")
        return results

    first = compare(case, "first")
    kept = [np.array(array) for array in hosts(first)]
    others = [case]
    try:
        changed = case.with_inputs(other(case))
        compare(changed, "with other values")
        others.append(changed)
    except errors.PullbackError:
        pass  # values that the op rejects
    all_identical(case, hosts(first), kept, "made ready: an earlier result after another call")
    compare(case, "with the first values again")
    for name, lay in LAYOUTS.items():
        try:
            compare(case.laid_out(lay), f"with {name} inputs")
        except errors.PullbackError:
            continue  # values that the op rejects
    _at_once(case, ready, others, hosts)


def _at_once(
    case: Case, ready: Plan, others: Sequence[Case], hosts: Callable[[Sequence[Any]], list[Array]]
) -> None:
    """Two threads call the kernel, each with its own values."""
    inputs = [arrays_of(one.resolved(one.tensors()).inputs) for one in [others[0], others[-1]]]
    calls = [partial(lambda arrays: hosts(ready.run(arrays)), arrays) for arrays in inputs]
    error = at_once(case, case.device, calls, TURNS, "made ready, while another thread calls it")
    if error is not None:
        raise ConformanceError(f"{case}: made ready, in two threads: {error}")
