"""The inputs of a call beside each other: one tensor as two of them, one of another layout."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from pullback.spec import Op
from pullback_conformance.case import Case, leaves, to_tensor
from pullback_conformance.checks import value_of
from pullback_conformance.layouts import LAYOUTS, REPEATED
from pullback_conformance.registry import Area, check
from pullback_conformance.sample import Array

#: Where an array is among the inputs: the position of the input, and that in a sequence.
Place = tuple[int, int | None]


def kinds(case: Case) -> tuple[object, ...]:
    """Returns what tells calls apart: the axes and kinds of the inputs, and whole domains."""
    shapes = [[(leaf.ndim, leaf.dtype.kind) for leaf in leaves([value])] for value in case.inputs]
    return str(shapes), case.sample.period is not None


def has_several(case: Case) -> bool:
    """Returns whether two or more inputs are arrays with axes."""
    return case.sample.period is None and sum(x.ndim > 0 for x in leaves(case.inputs)) > 1


def has_alike(case: Case) -> bool:
    """Returns whether one tensor may stand for two inputs."""
    return "shared" not in case.suite.without and any(True for _ in _pairs(case))


@check(Area.EDGES, per="kind", applies=has_alike)
def shared(case: Case) -> None:
    """Checks the result where one tensor is two of the inputs, as in x - x.

    Libraries simplify such calls, or write into what they take for an input of their own.
    """
    for first, second in _pairs(case):
        array = _at(case.inputs, second)
        alike = case.with_inputs(_with(_with(case.inputs, first, array), second, array))
        try:
            found = alike.reference(np.float64)
        except Exception:
            continue  # not defined there
        if any(x.dtype.kind == "c" and not np.isfinite(x).all() for x in found):
            continue  # infinite complex numbers have no parts that libraries agree on
        tensor = to_tensor(array, case.device)
        inputs = _with(_with(alike.tensors(), first, tensor), second, tensor)
        names = f"{_name(case.op, first)} and {_name(case.op, second)}"
        value_of(alike, alike.call(inputs), f"the result for one tensor as {names}")


@check(Area.EDGES, per="kind", applies=has_several)
def alone_laid_out(case: Case) -> None:
    """Checks the result where one input has another memory layout than the others."""
    places = [place for place in _places(case.inputs) if _at(case.inputs, place).ndim]
    for (name, lay), place in itertools.product(LAYOUTS.items(), places[:4]):
        if name in REPEATED:
            continue  # other values
        laid = case.with_inputs(_with(case.inputs, place, lay(_at(case.inputs, place))))
        words = f"the result for {name} {_name(case.op, place)} beside others"
        value_of(case, laid.call(laid.tensors(copy=False)), words)


def _places(inputs: Iterable[object]) -> Iterator[Place]:
    for i, value in enumerate(inputs):
        if isinstance(value, np.ndarray):
            yield i, None
        elif isinstance(value, (list, tuple)):
            for k, item in enumerate(value):
                if isinstance(item, np.ndarray):
                    yield i, k


def _pairs(case: Case) -> Iterator[tuple[Place, Place]]:
    """Neighbors of one shape and dtype, and the first beside the last."""
    groups: dict[object, list[Place]] = {}
    for place in _places(case.inputs):
        x = _at(case.inputs, place)
        if x.size:
            groups.setdefault((x.shape, x.dtype), []).append(place)
    for group in groups.values():
        yield from itertools.pairwise(group[:4])
        if len(group) > 2:
            yield group[0], group[-1]


def _at(inputs: Any, place: Place) -> Array:
    i, k = place
    found: Array = inputs[i] if k is None else inputs[i][k]
    return found


def _with(inputs: Iterable[Any], place: Place, value: object) -> list[Any]:
    """The inputs with another one at a place."""
    changed = [list(x) if isinstance(x, (list, tuple)) else x for x in inputs]
    i, k = place
    if k is None:
        changed[i] = value
    else:
        changed[i][k] = value
    return changed


def _name(op: Op, place: Place) -> str:
    i, k = place
    return op.inputs[i].name + ("" if k is None else f"[{k}]")
