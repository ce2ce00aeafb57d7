"""The plan of a run: the checks of an op, by sample and dtype.

A check is counted only where it applies, so that checks that cannot fail do not raise the score.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from pullback import dtypes, errors
from pullback.conformance import (
    arrangements,
    by_reference,
    checks,
    graphs,
    ready,
    regions,
    repetition,
    services,
    storage,
    whole,
)
from pullback.conformance.case import Case, cases, holds, label, leaves, touched
from pullback.conformance.derived import FEW, RULES, derived, randomized
from pullback.conformance.lasting import lasting
from pullback.conformance.sample import Suite
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.plugins.backend import Backend
from pullback.spec import Op

#: The dtypes that central differences are taken in.
WIDE: tuple[DType, ...] = (dtypes.float64, dtypes.complex128)


class Area(enum.StrEnum):
    """The columns of the report."""

    VALUES = "values"
    DTYPES = "dtypes"
    GRADIENTS = "gradients"
    SECOND = "second"
    EDGES = "edges"


@dataclass(frozen=True, eq=False)
class Item:
    """One check of one op; `case` is None for the wrong calls, which are the op's."""

    op: Op
    suite: Suite
    device: Device
    check: str
    area: Area
    case: Case | None

    @property
    def sample(self) -> str:
        """The label of the sample."""
        return "" if self.case is None else label(self.case.sample)

    @property
    def dtype(self) -> str:
        """The dtype under test; empty for samples with dtypes of their own."""
        return "" if self.case is None or self.case.dtype is None else str(self.case.dtype)

    def run(self) -> None:
        """Runs the check.

        Raises:
            ConformanceError: if the check fails. Kernels may raise anything else.
        """
        if self.case is None:
            checks.wrong_calls(self.op, self.suite, self.device)
        else:
            _FUNCTIONS[self.check](self.case)


def items(op: Op, suite: Suite, device: Device, *, quick: bool) -> Iterator[Item]:
    """The items of an op; with `quick`, each sample in one dtype and few gradients.

    An op without a kernel of the backend runs core's body, whose ops are measured on their own. A
    quick run measures it with fewer samples, and only once in what a kernel alone can do wrong.
    """
    rules = FEW if quick and _has_body_alone(op, device) else RULES
    every_sample = (*suite.samples, *derived(op, suite, quick=quick, rules=rules))
    yield from _items(op, replace(suite, samples=every_sample), device, quick=quick)
    if op.name == "astype":
        for case in storage.cases(op, suite, device):
            for check in storage.CHECKS:
                area = Area.VALUES if check == "storage_conversion" else Area.EDGES
                yield Item(op, suite, device, check, area, case)
    if op.name == "to_device":
        for case in services.cases(op, suite, device):
            for check in services.CHECKS:
                yield Item(op, suite, device, check, Area.EDGES, case)
            if graphs.compiles_programs(case):
                yield Item(op, suite, device, "programs", Area.VALUES, case)
    if suite.errors:
        yield Item(op, suite, device, "wrong_calls", Area.EDGES, None)


def random_items(op: Op, suite: Suite, device: Device, calls: int, seed: int) -> Iterator[Item]:
    """The items of random calls of an op."""
    samples = tuple(randomized.samples(op, suite, calls, seed))
    yield from _items(op, replace(suite, samples=samples), device, quick=False)


def _items(op: Op, suite: Suite, device: Device, *, quick: bool) -> Iterator[Item]:
    by_sample: dict[int, list[Case]] = {}
    for case in cases(op, suite, device):
        by_sample.setdefault(id(case.sample), []).extend([case, *_other_integers(case)])
    every = [case for group in by_sample.values() for case in group]
    # In a quick run the samples take the dtypes in turn, so that an op is checked in all of them.
    turns = {group[turn % len(group)] for turn, group in enumerate(by_sample.values())}
    turns.update(case for case in every if case.sample.every_dtype)
    chosen = turns if quick else set(every)
    once = _once_if_quick(op, device) if quick else ()
    seen: set[tuple[str, object]] = set()
    for case in every:
        for check, (area, applies) in _CHECKS.items():
            wanted = case.sample.checks
            always = check in _ONCE or check in _ONCE_A_KIND
            if (wanted is not None and check not in wanted and not always) or not applies(case):
                continue
            if check in _ONCE:
                if case.sample.seed is not None:
                    continue
                # The programs with fused kernels have inputs of their own.
                size = "" if check == "fused" else _size(case)
                key: tuple[str, object] = (check, size if quick else (case.dtype, size))
                if key in seen or _size(case) == "none":
                    continue
                seen.add(key)
            elif check in _ONCE_A_KIND:
                key = (check, (arrangements.kinds(case), None if quick else case.dtype))
                size = _size(case)
                if case.sample.seed is not None or key in seen or size == "none":
                    continue
                if size == "many" and case.sample.period is None:
                    continue
                seen.add(key)
            elif area in (Area.GRADIENTS, Area.SECOND):
                if quick and (check, case.dtype) in seen:
                    continue
                seen.add((check, case.dtype))
            elif case not in chosen:
                continue
            if check in once and case.sample.period is None:
                if (check, None) in seen:
                    continue
                seen.add((check, None))
            if check == "value" and _is_edge(case):
                area = Area.EDGES
            yield Item(op, suite, device, check, area, case)


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


#: The checks that one sample of an op has to pass, and one that is large.
_ONCE = ("repeated", "threads", "compiled", "fused")
#: The checks that one sample of each kind of inputs has to pass.
_ONCE_A_KIND = ("shared", "alone_laid_out", "prepared_again")


def _has_body_alone(op: Op, device: Device) -> bool:
    """Returns whether the op runs core's body: it is a composite without a kernel."""
    return not op.primitive and not device.backend.kernels_for(op.name)


def _once_if_quick(op: Op, device: Device) -> tuple[str, ...]:
    """The checks that a quick run makes of one sample of an op, and of all values.

    Dtypes are mixed by rules of core. The body of an op is compared with the reference, as on
    every backend, unless a gradient rule takes residuals of either the body or the kernel.
    """
    if _has_body_alone(op, device):
        return ("mixed", "unchanged", "deterministic", "lasting", "layouts", "narrow_gradient")
    return ("mixed",) if op.residuals else ("mixed", "body")


def _size(case: Case) -> str:
    """The sizes of inputs between which a kernel may change its way: none, some, many elements."""
    size = sum(leaf.size for leaf in leaves(case.inputs))
    return "none" if not size else "some" if size <= 2**11 else "many"


def _is_edge(case: Case) -> bool:
    """Returns whether all inputs are scalars, or one is empty."""
    arrays = leaves(case.inputs)
    return all(leaf.ndim == 0 for leaf in arrays) or any(leaf.size == 0 for leaf in arrays)


def _always(case: Case) -> bool:
    return True


def _takes_arrays(case: Case) -> bool:
    return bool(leaves(case.inputs))


def _has_layouts(case: Case) -> bool:
    return any(leaf.ndim for leaf in leaves(case.inputs))


def _has_both(case: Case) -> bool:
    return not case.op.primitive and bool(case.device.backend.kernels_for(case.op.name))


def _mixes(case: Case) -> bool:
    alone = [x for x in case.inputs if not isinstance(x, (list, tuple))]
    return sum(leaf.dtype in dtypes.REAL_FLOATING for leaf in leaves(alone)) > 1


def _is_smooth(case: Case) -> bool:
    dtype = case.dtype
    floating = dtype is not None and dtypes.is_floating(dtype)
    return case.op.differentiable and case.sample.gradient and floating


def _is_wide(case: Case) -> bool:
    return _is_smooth(case) and case.dtype in WIDE


def _is_narrow(case: Case) -> bool:
    return _is_smooth(case) and case.dtype not in WIDE and _has_wide(case)


def _is_alone(case: Case) -> bool:
    return _is_smooth(case) and case.dtype not in WIDE and not _has_wide(case)


def _is_single(case: Case) -> bool:
    return case.dtype == dtypes.float32 and _is_alone(case)


def _has_wide(case: Case) -> bool:
    """Returns whether the backend has the wide dtype that gradients are compared in."""
    wide = dtypes.complex128 if case.dtype == dtypes.complex64 else dtypes.float64
    return wide in case.device.backend.dtypes


def _is_prepared(case: Case) -> bool:
    """True if the backend may make kernels ready: it has the hook, or the kernel does."""
    backend = case.device.backend
    kernels = (entry.kernel for entry in backend.kernels_for(case.op.name))
    own = type(backend).prepare is not Backend.prepare
    return own or any(hasattr(kernel, "prepare") for kernel in kernels)


def _is_in_place(case: Case) -> bool:
    kernels = case.device.backend.kernels_for(case.op.name)
    return any(entry.in_place is not None for entry in kernels)


def _is_kept(case: Case) -> bool:
    kernels = case.device.backend.kernels_for(case.op.name)
    return any(entry.keep is not None for entry in kernels)


_FUNCTIONS: dict[str, Callable[[Case], None]] = {
    **checks.CHECKS,
    **storage.CHECKS,
    **services.CHECKS,
    "programs": graphs.programs,
    "shared": arrangements.shared,
    "alone_laid_out": arrangements.alone_laid_out,
    "prepared_again": ready.prepared_again,
    "lasting": lasting,
    "repeated": repetition.repeated,
    "threads": repetition.threads,
    "compiled": whole.compiled,
    "fused": regions.fused,
    "reference_gradient": by_reference.first_order,
    "reference_second_gradient": by_reference.second_order,
}
#: The names of all checks; "process" is measured after the others of an op.
CHECK_NAMES = (*_FUNCTIONS, "wrong_calls", "process")
#: For each check of a case its column, and the function that says whether it applies.
_CHECKS: dict[str, tuple[Area, Callable[[Case], bool]]] = {
    "value": (Area.VALUES, _always),
    "body": (Area.VALUES, _has_both),
    "prepared": (Area.VALUES, _is_prepared),
    "prepared_again": (Area.EDGES, _is_prepared),
    "in_place": (Area.VALUES, _is_in_place),
    "kept": (Area.VALUES, _is_kept),
    "rules": (Area.DTYPES, _always),
    "mixed": (Area.DTYPES, _mixes),
    "unchanged": (Area.EDGES, _takes_arrays),
    "deterministic": (Area.EDGES, _always),
    "lasting": (Area.EDGES, _has_layouts),
    "layouts": (Area.EDGES, _has_layouts),
    "shared": (Area.EDGES, arrangements.has_alike),
    "alone_laid_out": (Area.EDGES, arrangements.has_several),
    "repeated": (Area.EDGES, _takes_arrays),
    "threads": (Area.EDGES, _takes_arrays),
    "compiled": (Area.VALUES, whole.compiles),
    "fused": (Area.VALUES, regions.fuses),
    "gradient": (Area.GRADIENTS, _is_wide),
    "narrow_gradient": (Area.GRADIENTS, _is_narrow),
    "second_gradient": (Area.SECOND, _is_wide),
    "reference_gradient": (Area.GRADIENTS, _is_alone),
    "reference_second_gradient": (Area.SECOND, _is_single),
}
