"""The checks of an op on a device: one function for each property, each for one case.

A check takes a `Case` and raises a `ConformanceError` that names the case, the index and the two
values. It is in the table of `registry` by its decorator.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pullback import _tree, dtypes, errors
from pullback._autodiff.tape import GradientTape
from pullback._dispatch.bodies import run_body, without_residuals
from pullback._dispatch.plan import Plan, arrays_of
from pullback._tree import each
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.plugins.backend import Backend
from pullback.plugins.kind import Kind
from pullback.spec import OPS, Accuracy, Op
from pullback.tensor import Tensor
from pullback_conformance.accuracy import EXTENDED, allowed, eps
from pullback_conformance.case import (
    Case,
    arguments,
    as_tuple,
    holds,
    kernels_of,
    leaves,
    results,
    runs_body,
    to_tensor,
    widen,
)
from pullback_conformance.compare import (
    ConformanceError,
    all_identical,
    identical,
    near,
    require,
    rounds_to,
)
from pullback_conformance.layouts import LAYOUTS, REPEATED
from pullback_conformance.registry import Area, check
from pullback_conformance.sample import Array, Suite

#: The largest difference of residuals, in units of their dtype's eps times the largest.
RESIDUAL_EPS = 32.0

#: Numbers of elements beyond the vectors of any processor that leave each rest of 16.
RESTS = range(193, 209)

#: The number of terms from which on the order of a sum matters for equal numbers.
LONG_SUM = 256

#: The classes of accuracy in which the sign of zero is that of the reference. A sum of zeros, or a
#: product of matrices, may have either.
SIGNED = (Accuracy.EXACT, Accuracy.ROUNDED, Accuracy.FEW_ULP)


def is_edge(case: Case) -> bool:
    """Returns whether all inputs are scalars, or one is empty."""
    arrays = leaves(case.inputs)
    return all(leaf.ndim == 0 for leaf in arrays) or any(leaf.size == 0 for leaf in arrays)


def takes_arrays(case: Case) -> bool:
    """Returns whether an input is an array."""
    return bool(leaves(case.inputs))


def has_layouts(case: Case) -> bool:
    """Returns whether an input is an array with axes."""
    return any(leaf.ndim for leaf in leaves(case.inputs))


def _has_both(case: Case) -> bool:
    return not case.op.primitive and bool(kernels_of(case))


def _mixes(case: Case) -> bool:
    alone = [x for x in case.inputs if not isinstance(x, (list, tuple))]
    return sum(leaf.dtype in dtypes.REAL_FLOATING for leaf in leaves(alone)) > 1


def is_prepared(case: Case) -> bool:
    """True if the backend may make kernels ready: it has the hook, or the kernel does."""
    own = type(case.device.backend).prepare is not Backend.prepare
    return own or any(hasattr(entry.kernel, "prepare") for entry in kernels_of(case))


@check(lambda case: Area.EDGES if is_edge(case) else Area.VALUES, by_value=True)
def value(case: Case) -> None:
    """Checks that the result is within the op's accuracy of the float64 reference."""
    value_of(case, case.call(), "the result")
    by_element = case.sample.period is not None and not case.suite.items
    # In one dtype: a library that compiles does so for each of these sizes.
    if by_element and case.dtype == dtypes.float32 and case.kernel is not None:
        _rests(case)


def value_of(case: Case, outputs: Any, quantity: str) -> None:
    """Checks that results of the op are within its accuracy of the reference, in its dtypes."""
    expected = case.dtypes_of_results
    for name, output, dtype in zip(case.op.outputs, as_tuple(outputs), expected, strict=False):
        found = output.dtype
        require(found == dtype, case, f"{quantity}: {name} is {found}, the rule says {dtype}")
    _measure(case, outputs, quantity, through_body=case.kernel is None)


@check(Area.DTYPES)
def rules(case: Case) -> None:
    """Checks that shape and dtype are those of the op's rules, and the result is on the device."""
    inputs = case.tensors()
    expected = case.resolved(inputs)
    outputs = as_tuple(case.call(inputs))
    names = case.op.outputs
    require(
        len(outputs) == len(names), case, f"{len(outputs)} results, the op defines {len(names)}"
    )
    for i, (name, output) in enumerate(zip(names, outputs, strict=True)):
        require(type(output) is Tensor, case, f"{name} is {type(output).__name__}, not a tensor")
        shape = expected.shapes[i]
        if shape is not None:
            actual = output.shape
            require(actual == shape, case, f"{name} has shape {actual}, the rule says {shape}")
        want = expected.dtypes[i]
        require(output.dtype == want, case, f"{name} is {output.dtype}, the rule says {want}")
        require(output.device is case.device, case, f"{name} is on {output.device}")


def _rests(case: Case) -> None:
    """Checks results of as many elements as leave each rest that a loop over vectors may leave."""
    reference, extended = _reference(case, [x.dtype for x in results(case.call())])
    through_body = case.kernel is None
    bounds: list[Array] = []
    for size in RESTS:
        part = case.with_inputs(x[:size] for x in case.inputs)
        quantity = f"the result of {size} elements"
        for i, (found, goal) in enumerate(zip(results(part.call()), reference, strict=True)):
            dtype = found.dtype
            if len(bounds) <= i:
                exact = dtype not in dtypes.FLOATING
                bounds.append(
                    np.zeros(goal.shape)
                    if exact
                    else allowed(case, i, goal, dtype, extended=extended, through_body=through_body)
                )
            cut, bound = goal[:size], bounds[i][:size]
            near(case, found, cut, bound, dtype, quantity, signs=_signed(case))


@check(Area.EDGES, applies=takes_arrays, spared=runs_body, by_value=True)
def unchanged(case: Case) -> None:
    """Checks that a call does not change its inputs, recorded and differentiated or not.

    A recorded call has the same result.
    """
    inputs = case.tensors()
    tensors = [leaf for leaf in _tree.leaves(inputs) if isinstance(leaf, Tensor)]
    before = [np.array(tensor.numpy()) for tensor in tensors]
    floating = [tensor for tensor in tensors if dtypes.is_floating(tensor.dtype)]
    case.call(inputs)
    # Here too: a second call may restore the values that the first has changed.
    _same(case, tensors, before)
    with GradientTape() as tape:
        tape.watch(floating)
        outputs = case.call(inputs)
    several = as_tuple(outputs)
    targets = [x for x in several if dtypes.is_floating(x.dtype) and x._node is not None]
    kept = [np.array(x.numpy()) for x in several]
    if targets and floating:
        with contextlib.suppress(errors.NotDifferentiableError):  # by one of the inputs, on purpose
            tape.gradient(targets, floating)
    _same(case, tensors, before)
    all_identical(case, several, kept, "the result after its gradient")
    _measure(case, outputs, "the result under a tape", through_body=True)


def _asked(case: Case) -> bool:
    return takes_arrays(case) and "unchanged_many" in (case.sample.checks or ())


@check(Area.EDGES, applies=_asked, spared=runs_body)
def unchanged_many(case: Case) -> None:
    """Checks that a call does not change its inputs, for samples that ask for this check."""
    inputs = case.tensors()
    tensors = [leaf for leaf in _tree.leaves(inputs) if isinstance(leaf, Tensor)]
    before = [np.array(tensor.numpy()) for tensor in tensors]
    case.call(inputs)
    _same(case, tensors, before)


def _same(case: Case, inputs: Sequence[Tensor], before: Sequence[Array]) -> None:
    all_identical(case, inputs, before, "written into by the call: input {i} after the call")


@check(Area.EDGES, spared=runs_body, by_value=True)
def deterministic(case: Case) -> None:
    """Checks that two calls have the same bits."""
    once, again = results(case.call()), results(case.call())
    all_identical(case, again, once, "the second call")


# The body is compared with the reference, as on every backend, unless a gradient rule takes
# residuals of either the body or the kernel.
@check(Area.VALUES, applies=_has_both, spared=lambda op, device: not op.residuals)
def body(case: Case) -> None:
    """Checks that a composite's body and kernel agree, residuals included."""
    if case.op.primitive or case.kernel is None:
        return
    op, call = case.op, case.resolved(case.tensors())
    by_body = run_body(op, call.inputs, call.attributes)
    _measure(case, without_residuals(op, by_body), "the body's result", through_body=True)
    if not op.residuals:
        return
    count = len(op.outputs)
    native = call.plan.run(arrays_of(call.inputs))[count:]
    for name, array, other in zip(op.residuals, native, by_body[count:], strict=True):
        # A rule takes either of the two, so they must agree.
        goal, actual = other.numpy(), case.device.backend.to_host(array)
        require(actual.dtype == goal.dtype, case, f"{name} is {actual.dtype}, {goal.dtype} by body")
        wide = widen(goal, np.float64)
        largest = float(np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide)))
        bound = RESIDUAL_EPS * eps(goal.dtype) * largest if goal.dtype in dtypes.FLOATING else 0.0
        near(case, actual, wide, np.full(goal.shape, bound), goal.dtype, f"{name} of the kernel")


def kinds_of(operands: Sequence[Any]) -> list[Any]:
    """The operands with a kind for each array."""
    return [each(lambda x: Kind(tuple(x.shape), x.dtype), operand) for operand in operands]


@check(Area.VALUES, applies=is_prepared)
def prepared(case: Case) -> None:
    """Checks that a kernel that is made ready for the shapes gives the bits of the kernel."""
    resolved = case.resolved(case.tensors())
    plan = resolved.plan
    if plan.kernel is None:
        return
    backend, arrays = case.device.backend, arrays_of(resolved.inputs)
    kinds = kinds_of(arrays)
    kernel = backend.prepare(case.op, plan.kernel, kinds, plan.attributes)
    if kernel is None:
        return
    ready = Plan(case.op, plan.device, kernel, plan.attributes, plan.guard)
    found, expected = (map(backend.to_host, one.run(arrays)) for one in (ready, plan))
    all_identical(case, found, expected, "made ready for its shapes")


class _Owner:
    """Has an array, as a variable does."""

    def __init__(self, array: Any) -> None:
        self._array = array


@check(
    Area.VALUES, applies=lambda case: any(entry.in_place is not None for entry in kernels_of(case))
)
def in_place(case: Case) -> None:
    """Checks that an update of variables gives the bits of the kernel, and spares held arrays."""
    resolved = case.resolved(case.tensors())
    plan, backend = resolved.plan, case.device.backend
    update = None if plan.kernel is None else backend.in_place(case.op.name, plan.kernel)
    if update is None:
        return
    arrays = arrays_of(resolved.inputs)
    host = [backend.to_host(array).copy() for array in arrays]
    expected = [backend.to_host(array).copy() for array in plan.run(arrays)]
    changed = (0, *range(2, 1 + len(expected)))
    for held in (None, *changed):
        owners = {
            i: _Owner(backend.from_host(host[i], case.device.native, copy=True)) for i in changed
        }
        kept = None if held is None else owners[held]._array
        update(*(owners.get(i, array) for i, array in enumerate(arrays)), **plan.attributes)
        updated = [backend.to_host(owner._array) for owner in owners.values()]
        all_identical(case, updated, expected, "updated in place")
        if held is not None:
            identical(case, backend.to_host(kept), host[held], "what somebody else has")


@check(Area.VALUES, applies=lambda case: any(entry.keep is not None for entry in kernels_of(case)))
def kept(case: Case) -> None:
    """Checks that a kernel that keeps what it makes of weights sees them change."""
    resolved = case.resolved(case.tensors())
    plan, backend = resolved.plan, case.device.backend
    keep = None if plan.kernel is None else backend.keeper(case.op.name, plan.kernel)
    if keep is None:
        return
    arrays = arrays_of(resolved.inputs)
    kinds = kinds_of(arrays)
    host = {
        i: backend.to_host(array).copy()
        for i, (array, kind) in enumerate(zip(arrays, kinds, strict=True))
        if isinstance(kind, Kind)
    }
    owners = {i: _Owner(arrays[i]) for i in host}
    kernel = keep(plan.kernel, kinds, plan.attributes, owners)
    if kernel is None:
        return
    others: list[Any] = [None if i in host else array for i, array in enumerate(arrays)]
    del arrays, resolved

    def inputs() -> list[Any]:
        return [owners[i]._array if i in owners else array for i, array in enumerate(others)]

    turned = {i: array[..., ::-1] if array.ndim else array for i, array in host.items()}
    for values in (host, turned, host):
        for i, array in values.items():
            owners[i]._array = backend.from_host(array, case.device.native, copy=True)
        expected = plan.run(inputs())
        for _ in range(5):
            found = map(backend.to_host, as_tuple(kernel(*inputs(), **plan.attributes)))
            all_identical(case, found, map(backend.to_host, expected), "with kept weights")


def differs_for_equal(case: Case) -> bool:
    """Returns whether equal numbers are another problem: a singular matrix, or a long sum.

    All terms of that round to the same side; the samples of equal numbers look at it.
    """
    longest = max((size for leaf in leaves(case.inputs) for size in leaf.shape), default=0)
    is_sum = case.op.accuracy is Accuracy.ACCUMULATED and longest > LONG_SUM
    return is_sum or case.op.accuracy is Accuracy.BACKWARD_STABLE


@check(Area.EDGES, applies=has_layouts, spared=runs_body, by_value=True)
def layouts(case: Case) -> None:
    """Checks that inputs in other memory layouts have the same result, and do not change."""
    through_body = case.kernel is None
    for name, lay in LAYOUTS.items():
        if name in REPEATED and differs_for_equal(case):
            continue
        laid = case.laid_out(lay)
        kept = [np.array(leaf) for leaf in leaves(laid.inputs)]
        outputs = laid.call(laid.tensors(copy=False))
        all_identical(case, leaves(laid.inputs), kept, f"{name} input {{i}} after the call")
        # Some layouts have other values, which need their own reference.
        measured = laid if name in REPEATED else case
        quantity = f"the result for {name} inputs"
        _measure(measured, outputs, quantity, through_body=through_body)


# Dtypes are mixed by rules of core.
@check(Area.DTYPES, applies=_mixes, spared=lambda op, device: True)
def mixed(case: Case) -> None:
    """Checks that inputs of several dtypes, and Python numbers, promote as the rule says."""
    floating = [
        i
        for i, x in enumerate(case.inputs)
        if isinstance(x, np.ndarray) and x.dtype in dtypes.REAL_FLOATING
    ]
    if len(floating) < 2:
        return
    first, second = floating[:2]
    held = case.device.backend.dtypes
    for dtype in (dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int32):
        if dtype in held and dtype != case.inputs[first].dtype:
            with np.errstate(all="ignore"):
                ahead, behind = (case.inputs[i].astype(dtype) for i in (first, second))
            _promotes(case, {first: ahead}, f"{dtype} first")
            _promotes(case, {second: behind}, f"{dtype} second")
    for scalar in (2, 0.5, True):
        _promotes(case, {second: scalar}, f"{scalar!r} second")
        _promotes(case, {first: scalar}, f"{scalar!r} first")


def _has_forms(case: Case) -> bool:
    # Products of complex numbers lose more digits than a power may.
    real = all(isinstance(x, np.ndarray) and x.dtype.kind != "c" for x in case.inputs)
    return bool(case.op.number_forms) and real


@check(Area.VALUES, applies=_has_forms)
def number_forms(case: Case) -> None:
    """Checks what computes an op of a tensor and some Python numbers in fewer steps."""
    for number in case.op.number_forms:
        alike = {type(value): value for value in (number, float(number), bool(number))}
        for value in (value for value in alike.values() if value == number):
            for place in range(len(case.inputs)):
                _with_number(case, place, value)


def _with_number(case: Case, place: int, number: float) -> None:
    """Checks a call with a Python number against the reference of its value."""
    tensors = case.tensors()
    tensors[place] = number
    try:
        dtype = case.resolved(tensors).inputs[place].dtype
    except errors.PullbackError:
        return  # a Python number has no axes, or the rule rejects its type
    inputs = list(case.inputs)
    inputs[place] = np.asarray(number).astype(dtype)
    alike = case.with_inputs(inputs)
    try:
        alike.call()
    except errors.PullbackError:
        return  # not a number that the op takes
    outputs = case.call(tensors)
    value_of(alike, outputs, f"the result with {number!r} as {case.op.inputs[place].name}")


@dataclass(frozen=True, slots=True)
class Calls:
    """All calls of an op: what a check of the op as a whole takes."""

    op: Op
    suite: Suite
    device: Device


@check(Area.EDGES, per="op")
def wrong_calls(calls: Calls) -> None:
    """Checks that wrong calls of the suite raise the right type, and the message names the op."""
    op, device = calls.op, calls.device
    for inputs, attributes, kind in calls.suite.errors:
        if not holds(device, op, inputs, attributes):
            continue
        tensors = [each(partial(to_tensor, device=device), value) for value in inputs]
        described = ", ".join(
            f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else repr(x) for x in inputs
        )
        subject = f"{op.name}({described}{''.join(f', {k}={v!r}' for k, v in attributes.items())})"
        named = [op.name]
        try:
            args, kwargs = arguments(op, tensors, attributes)
            result = op.function(*args, **kwargs)
            if runs_body(op, device):  # what comes late is of an op that the body calls
                named = list(OPS)
            # An asynchronous backend raises here at the latest.
            device.synchronize()
        except errors.PullbackError as error:
            name = type(error).__name__
            require(
                isinstance(error, kind), subject, f"raised {name} ({error}), not {kind.__name__}"
            )
            told = any(name in str(error) for name in named)
            require(told, subject, f"the message does not name the op: {error}")
        except Exception as error:
            require(False, subject, f"raised {error!r}, not {kind.__name__}")
        else:
            require(False, subject, f"returned {result!r}; {kind.__name__} was to be raised")


def _measure(case: Case, outputs: Any, quantity: str, *, through_body: bool) -> None:
    actual, names = results(outputs), case.op.outputs
    reference, extended = _reference(case, [x.dtype for x in actual])
    if case.suite.compare is not None:
        actual = results(case.suite.compare(case.inputs, _plain(actual)))
        reference = results(case.suite.compare(case.inputs, _plain(reference)))
    require(
        len(actual) == len(reference), case, f"{len(actual)} results, reference {len(reference)}"
    )
    for i, (result, goal) in enumerate(zip(actual, reference, strict=True)):
        named = quantity if len(actual) == 1 else f"{quantity} {names[i] if i < len(names) else i}"
        dtype = result.dtype
        signs = _signed(case)
        if dtype not in dtypes.FLOATING:
            near(case, result, goal, np.zeros(goal.shape), dtype, named, signs=signs)
            continue
        if rounds_to(result, goal):
            continue
        bound = partial(allowed, case, i, goal, dtype, extended=extended, through_body=through_body)
        if case.op.accuracy not in SIGNED:
            # What is near enough anyway needs no other values of the reference, which take long.
            with contextlib.suppress(ConformanceError):
                near(case, result, goal, bound(least=True), dtype, named, signs=signs)
                continue
        near(case, result, goal, bound(), dtype, named, signs=signs)


def _signed(case: Case) -> bool:
    """Returns whether the sign of zero is that of the reference."""
    either = case.suite.either_zero or case.sample.either_zero
    return case.op.accuracy in SIGNED and not either


def _plain(arrays: list[Array]) -> Array | tuple[Array, ...]:
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def _reference(case: Case, kinds: list[DType]) -> tuple[list[Array], bool]:
    if EXTENDED and any(kind in (dtypes.float64, dtypes.complex128) for kind in kinds):
        try:
            wide = case.reference(np.longdouble)
        except Exception:
            wide = []  # the reference cannot compute in extended precision
        if wide and all(
            x.dtype.kind not in "fc" or x.dtype in (np.longdouble, np.clongdouble) for x in wide
        ):
            return wide, True
    return case.reference(np.float64), False


def _promotes(case: Case, changed: dict[int, object], quantity: str) -> None:
    inputs = [
        to_tensor(changed.get(i, value), case.device) for i, value in enumerate(case.tensors())
    ]
    try:
        expected = case.resolved(inputs)
    except errors.DTypeError:
        try:
            case.call(inputs)
        except errors.DTypeError:
            return
        require(False, case, f"{quantity}: the rule rejects these dtypes, the op takes them")
    except errors.PullbackError:
        return  # a Python number has no axes
    if not case.device.backend.dtypes.keys() >= set(expected.dtypes):
        return
    try:
        outputs = as_tuple(case.call(inputs))
    except errors.InputValueError:
        return  # values that the other dtype cannot hold
    except errors.ShapeError:
        if not all(isinstance(value, np.ndarray) for value in changed.values()):
            return  # a Python number has no axes, which only the body may need
        raise
    for name, output, dtype in zip(case.op.outputs, outputs, expected.dtypes, strict=False):
        require(
            output.dtype == dtype,
            case,
            f"{quantity}: {name} is {output.dtype}, the rule says {dtype}",
        )
