"""The plan of a run: the checks of a row of the report, by sample and dtype.

A check is counted only where it applies, so that checks that cannot fail do not raise the score.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pullback import dtypes, errors
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.spec import Op
from pullback_conformance import (
    arrangements,
    by_reference,
    checks,
    gradients,
    graphs,
    ready,
    regions,
    repetition,
    services,
    storage,
    there,
    whole,
)
from pullback_conformance.case import Case, cases, holds, label, leaves, runs_body, touched
from pullback_conformance.derived import FEW, RULES, derived, randomized
from pullback_conformance.registry import BACKEND, CHECKS, Area, Check, Per
from pullback_conformance.sample import Sample, Suite

#: The modules whose checks are in the table.
MODULES = (
    *(checks, arrangements, by_reference, gradients, graphs, ready, regions, repetition),
    *(services, storage, there, whole),
)


@dataclass(frozen=True, eq=False)
class Item:
    """One check of a row, which is an op's or the backend's; `case` is None for all of the row."""

    row: str
    device: Device
    check: str
    area: Area
    case: Case | None
    #: Makes the check.
    run: Callable[[], None]

    @property
    def sample(self) -> str:
        """The label of the sample."""
        return "" if self.case is None else label(self.case.sample)

    @property
    def dtype(self) -> str:
        """The dtype under test; empty for samples with dtypes of their own."""
        return "" if self.case is None or self.case.dtype is None else str(self.case.dtype)


def items(op: Op, suite: Suite, device: Device, *, quick: bool) -> Iterator[Item]:
    """The items of an op; with `quick`, each sample in one dtype and few gradients.

    An op without a kernel of the backend runs core's body, whose ops are measured on their own. A
    quick run measures it with fewer samples, and only once in what a kernel alone can do wrong.
    """
    rules = FEW if quick and runs_body(op, device) else RULES
    every_sample = (*suite.samples, *derived(op, suite, quick=quick, rules=rules))
    yield from _of_samples(
        op, replace(suite, samples=every_sample), device, quick=quick, seen=set()
    )
    yield from _of_op(op, suite, device)


def in_parts(
    op: Op, suite: Suite, device: Device, *, quick: bool, seed: str
) -> Iterator[list[Item]]:
    """The items of a quick run's samples: of those that are written, then a rule at a time.

    Samples are made when their part is asked for. The rules are in a random order.
    """
    seen: set[Hashable] = set()

    def part(samples: tuple[Sample, ...]) -> Iterator[Item]:
        return _of_samples(op, replace(suite, samples=samples), device, quick=quick, seen=seen)

    yield [*part(suite.samples), *_of_op(op, suite, device)]
    rules = sorted(FEW if quick and runs_body(op, device) else RULES)
    random.Random(seed).shuffle(rules)
    for rule in rules:
        yield list(part(derived(op, suite, quick=True, rules=[rule])))


def _of_op(op: Op, suite: Suite, device: Device) -> Iterator[Item]:
    """The items of no single sample."""
    if op.name == "astype":
        for case in storage.cases(op, suite, device):
            yield from (_item(check, case) for check in _per("storage"))
    if suite.errors:
        calls = checks.Calls(op, suite, device)
        for check in _per("op"):
            area, run = Area.EDGES, partial(check.function, calls)
            yield Item(op.name, device, check.name, area, None, run)


def by_cost(items: Iterable[Item], seed: str) -> list[Item]:
    """The items in a random order, in which one comes the earlier, the less it costs.

    So all sizes have as much of a limited time.
    """
    draws = random.Random(seed)
    # The first of these is each of them as often as its cost says: a race.
    return sorted(items, key=lambda item: draws.expovariate(1 / _cost(item)))


def _cost(item: Item) -> float:
    """A cost of a check, of which one of few elements is the unit."""
    size = 0 if item.case is None else sum(leaf.size for leaf in leaves(item.case.inputs))
    return 1 + size / 2**12


def random_items(op: Op, suite: Suite, device: Device, calls: int, seed: int) -> Iterator[Item]:
    """The items of random calls of an op."""
    samples = tuple(randomized.calls(op, suite, calls, seed))
    varied = replace(suite, samples=samples)
    yield from _of_samples(op, varied, device, quick=False, seen=set())


def backend_items(device: Device) -> Iterator[Item]:
    """The items of what a backend does beside kernels."""
    for check in _per("backend"):
        if check.applies(device):
            area = check.area(device)
            yield Item(BACKEND, device, check.name, area, None, partial(check.function, device))


def _per(per: Per) -> Iterator[Check]:
    return (check for check in CHECKS.values() if check.per == per)


def _item(check: Check, case: Case) -> Item:
    run = partial(check.function, case)
    return Item(case.op.name, case.device, check.name, check.area(case), case, run)


def _of_samples(
    op: Op, suite: Suite, device: Device, *, quick: bool, seen: set[Hashable]
) -> Iterator[Item]:
    by_sample: dict[int, list[Case]] = {}
    for case in cases(op, suite, device):
        by_sample.setdefault(id(case.sample), []).extend([case, *_other_integers(case)])
    every = [case for group in by_sample.values() for case in group]
    # In a quick run the samples take the dtypes in turn, so that an op is checked in all of them.
    turns = {group[turn % len(group)] for turn, group in enumerate(by_sample.values())}
    turns.update(case for case in every if case.sample.every_dtype)
    chosen = turns if quick else set(every)
    spared = {check.name for check in EACH if quick and check.spared(op, device)}
    for case in every:
        for check in EACH:
            wanted = case.sample.checks
            if wanted is not None and check.name not in wanted and check.per in ("case", "dtype"):
                continue
            if not check.applies(case) or (check.per == "case" and case not in chosen):
                continue
            turns_of = _TURNS[check.per](check, case, quick)
            if turns_of is not None and check.name in spared and case.sample.period is None:
                turns_of = [*turns_of, (check.name, "one sample")]
            if turns_of is not None and all(_is_new(turn, seen) for turn in turns_of):
                for turn in turns_of:
                    seen.update(turn if isinstance(turn, _Either) else [turn])
                yield _item(check, case)


class _Either(tuple[Hashable, ...]):
    """Turns of which a single one that has not been taken is enough."""


def _is_new(turn: Hashable, seen: set[Hashable]) -> bool:
    return not seen.issuperset(turn) if isinstance(turn, _Either) else turn not in seen


def _by_size(check: Check, case: Case, quick: bool) -> list[Hashable] | None:
    """One sample with some elements, and one with many."""
    size = _size(case)
    if case.sample.seed is not None or size == "none":
        return None
    # The programs with fused kernels have inputs of their own.
    size = "" if check.name == "fused" else size
    return [(check.name, size if quick else (case.dtype, size))]


def _by_kind(check: Check, case: Case, quick: bool) -> list[Hashable] | None:
    """One sample of each kind of inputs, and whole domains."""
    size = _size(case)
    if case.sample.seed is not None or size == "none":
        return None
    if size == "many" and case.sample.period is None:
        return None
    return [(check.name, (arrangements.kinds(case), None if quick else case.dtype))]


def _by_attributes(check: Check, case: Case, quick: bool) -> list[Hashable] | None:
    """The samples of `_by_size`, and one for each set of attributes, in a quick run of names."""
    turns = _by_size(check, case, quick)
    given = case.sample.attributes
    if turns is None or not given:
        return turns
    return [_Either((*turns, (check.name, repr(sorted(given)) if quick else repr(given))))]


#: The turns that a check takes with a case, each of which is taken once; None for none.
_TURNS: dict[Per, Callable[[Check, Case, bool], list[Hashable] | None]] = {
    "case": lambda check, case, quick: [],
    "dtype": lambda check, case, quick: [(check.name, case.dtype)] if quick else [],
    "size": _by_size,
    "attributes": _by_attributes,
    "kind": _by_kind,
}
#: The checks of one case.
EACH = tuple(check for check in CHECKS.values() if check.per in _TURNS)


def _size(case: Case) -> str:
    """The sizes of inputs between which a kernel may change its way: none, some, many elements."""
    size = sum(leaf.size for leaf in leaves(case.inputs))
    return "none" if not size else "some" if size <= 2**11 else "many"


def _other_integers(case: Case) -> Iterator[Case]:
    """A case of int32 inputs only, in the other integer dtypes that hold its values."""
    whole = [leaf for leaf in leaves(case.inputs) if leaf.dtype == dtypes.int32]
    if case.dtype is not None or not whole or case.sample.checks is not None:
        return
    for dtype in dtypes.INTEGER:
        info = np.iinfo(dtype)
        fits = all(np.all((info.min <= leaf) & (leaf <= info.max)) for leaf in whole)
        if dtype != dtypes.int32 and fits:
            inputs = tuple(_cast(value, dtype) for value in case.inputs)
            other = replace(case, sample=replace(case.sample, inputs=inputs), dtype=dtype)
            if _takes(other):
                yield other


def _takes(case: Case) -> bool:
    """Returns whether the op takes these dtypes, and the backend has them."""
    attributes = case.sample.attributes
    try:
        touched(case.op, case.inputs, attributes)
    except errors.DTypeError:
        return False
    return holds(case.device, case.op, case.inputs, attributes)


def _cast(value: object, dtype: DType) -> object:
    if isinstance(value, (list, tuple)):
        return [_cast(item, dtype) for item in value]
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype == dtypes.int32:
        return value.astype(dtype)
    return value
