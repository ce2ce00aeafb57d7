"""One case: a sample of an op in one dtype on one device, as host arrays and as tensors.

NumPy is the kit's host reference. What is measured is reached through the device alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback._dispatch.arguments import canonicalize, shapes_of
from pullback._dispatch.convert import SCALAR_TYPES, align_inputs, counts, unflatten
from pullback._dispatch.plan import Plan
from pullback._dispatch.plan import resolve as plan_of
from pullback.casting import cast
from pullback.conformance.condition import moves
from pullback.conformance.sample import Array, Sample, Suite
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.spec import OPS, Op
from pullback.tensor import Tensor, wrap

#: The dtypes that float64 inputs of a sample are tried in.
REAL: tuple[DType, ...] = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
#: The dtypes that samples with complex128 inputs are tried in.
COMPLEX: tuple[DType, ...] = (dtypes.complex64, dtypes.complex128)
#: Floating dtypes whose kernels round a result of float32 once.
SHORT: tuple[DType, ...] = (dtypes.float16, dtypes.bfloat16)


@dataclass(frozen=True, eq=False)
class Case:
    """A sample of an op in one dtype on one device.

    `dtype` is what float64 inputs are cast to (complex128 ones to the complex dtype of its width);
    None for samples without floating inputs. Inputs of other dtypes stay as they are.
    """

    op: Op
    suite: Suite
    sample: Sample
    device: Device
    dtype: DType | None

    def __str__(self) -> str:
        dtype = "" if self.dtype is None else f",{self.dtype}"
        return f"{self.op.name}[{label(self.sample)}{dtype}]"

    @cached_property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs on the host, cast to the dtype under test."""
        with np.errstate(over="ignore"):
            return tuple(_map(self.cast, value) for value in self.sample.inputs)

    def cast(self, value: Any) -> Any:
        """One input in the dtype under test."""
        if isinstance(value, np.generic):
            value = np.asarray(value)
        if not isinstance(value, np.ndarray) or self.dtype is None:
            return value
        if value.dtype == np.float64:
            wanted = dtypes.real_of(self.dtype)
            return value if value.dtype == wanted else cast(value, wanted)
        if value.dtype == np.complex128:
            return value.astype(dtypes.complex_of(self.dtype), copy=False)
        return value

    def tensors(self, *, copy: bool = True) -> list[Any]:
        """The inputs as fresh tensors on the device; what is no array stays as it is."""
        return [_map(lambda x: to_tensor(x, self.device, copy=copy), one) for one in self.inputs]

    def call(self, inputs: list[Any] | None = None) -> Any:
        """The result of the op, as a caller gets it."""
        given = self.tensors() if inputs is None else inputs
        args, kwargs = arguments(self.op, given, self.sample.attributes)
        with self._in_force():
            return self.op.function(*args, **kwargs)

    def resolved(self, inputs: list[Any]) -> Resolved:
        """What dispatch and the op's rules make of these inputs."""
        with self._in_force():
            return resolve(self.op, inputs, self.sample.attributes)

    def _in_force(self) -> AbstractContextManager[Any]:
        """The device in force, for ops that make their results where they are told to.

        For all others another one stays in force: what they make has to follow their inputs.
        """
        told = any(attribute.form == "DeviceLike" for attribute in self.op.attributes)
        return self.device if told else nullcontext()

    def reference(self, kind: Any) -> list[Array]:
        """The reference's results for the inputs widened to `kind`, np.float64 or longdouble."""
        found = self._references.get(kind)
        if found is None:
            given = [_map(lambda x: widen(x, kind), value) for value in self.lifted()]
            with np.errstate(all="ignore"):
                found = results(self.suite.reference(*given, **self.sample.attributes))
            self._references[kind] = found
        return found

    @cached_property
    def _references(self) -> dict[Any, list[Array]]:
        return {}

    @cached_property
    def terms(self) -> list[Array] | None:
        """The sums of the absolute terms behind the results; None where they are not known.

        What the suite's `scale` gives, or the reference for the absolute values of the inputs.
        """
        try:
            if self.suite.scale is not None:
                with np.errstate(all="ignore"):
                    return results(self.suite.scale(*self.inputs, **self.sample.attributes))
            return self.with_inputs([_map(_absolute, value) for value in self.inputs]).reference(
                np.float64
            )
        except Exception:
            return None  # the reference is no sum, and does not take these inputs

    @cached_property
    def moves(self) -> list[float]:
        """How far each result moves with the inputs; see `condition`."""
        given = [_map(lambda x: widen(x, np.float64), value) for value in self.lifted()]
        moved = [leaf for leaf in leaves(given) if leaf.dtype.kind in "fc"]

        def function(point: list[Array]) -> list[Array]:
            rest = iter(point)

            def place(value: Any) -> Any:
                array = isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fc"
                return next(rest) if array else value

            found = self.suite.reference(
                *(_map(place, value) for value in given), **self.sample.attributes
            )
            if self.suite.compare is not None:
                found = self.suite.compare(self.inputs, found)
            return [one.astype(np.result_type(one, np.float64)) for one in results(found)]

        with np.errstate(all="ignore"):
            return moves(function, moved)

    def with_inputs(self, inputs: Iterable[Any]) -> Case:
        """The same call of other inputs."""
        return replace(self, sample=replace(self.sample, inputs=tuple(inputs)))

    def lifted(self) -> list[Any]:
        """The inputs with the integers and booleans that the op takes as floats made so."""
        given = list(self.inputs)
        if not any(leaf.dtype.kind in "biu" for leaf in leaves(given)):
            return given
        aligned = self.resolved(self.tensors()).inputs
        for i, value in enumerate(given):
            whole = isinstance(value, np.ndarray) and value.dtype.kind in "biu"
            if whole and dtypes.is_floating(aligned[i].dtype):
                given[i] = cast(value, aligned[i].dtype)
        return given


@dataclass(frozen=True)
class Resolved:
    """A call as dispatch sees it: aligned inputs, its plan, and the rules' shapes and dtypes."""

    inputs: list[Any]
    plan: Plan
    shapes: list[tuple[int, ...] | None]
    dtypes: tuple[DType, ...]

    @property
    def attributes(self) -> dict[str, Any]:
        """The canonical attributes."""
        return dict(self.plan.attributes)


def resolve(op: Op, inputs: list[Any], attributes: dict[str, Any]) -> Resolved:
    """What the rules of `op` say of a call.

    Raises:
        PullbackError: as the op would.
    """
    bound = bind(op, inputs, attributes)
    bound.apply_defaults()
    values = tuple(bound.arguments[one.name] for one in op.inputs)
    flat, device = align_inputs(op, values)
    aligned = unflatten(flat, counts(op, values))
    given = {attribute.name: bound.arguments[attribute.name] for attribute in op.attributes}
    plan = plan_of(op, aligned, given, device)
    shapes = plan.shapes(shapes_of(aligned))
    return Resolved(aligned, plan, shapes, plan.dtypes(operands(values)))


def bind(op: Op, inputs: list[Any], attributes: dict[str, Any]) -> inspect.BoundArguments:
    """A call of `op`, with attributes by name even where the signature wants them by position."""
    signature, named = _signatures(op)
    return inspect.BoundArguments(signature, named.bind(*inputs, **attributes).arguments)


def arguments(
    op: Op, inputs: list[Any], attributes: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and the keyword arguments of a call of `op`."""
    count = op.body.__code__.co_posonlyargcount
    if count <= len(op.inputs):
        return tuple(inputs), attributes
    bound = bind(op, inputs, attributes)
    return bound.args, bound.kwargs


@cache
def _signatures(op: Op) -> tuple[inspect.Signature, inspect.Signature]:
    """An op's signature, and the same with names for what has to be given by position."""
    signature = inspect.signature(op.function)
    by_name = [
        parameter.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY
        else parameter
        for parameter in signature.parameters.values()
    ]
    return signature, signature.replace(parameters=by_name)


def operands(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a dtype rule gets for inputs: dtypes, types of Python numbers, None."""
    found: list[Any] = []
    for value in values:
        for leaf in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(leaf, (Tensor, np.ndarray)):
                found.append(leaf.dtype)
            else:
                found.append(type(leaf) if type(leaf) in SCALAR_TYPES else None)
    return tuple(found)


def cases(op: Op, suite: Suite, device: Device) -> Iterator[Case]:
    """Every sample of a suite in every dtype that the op and the backend take."""
    for sample in suite.samples:
        kinds = {leaf.dtype for leaf in leaves(sample.inputs)}
        wanted: tuple[DType | None, ...] = (None,)
        if dtypes.complex128 in kinds:
            wanted = COMPLEX
        elif dtypes.float64 in kinds:
            wanted = REAL
        for dtype in wanted:
            case = Case(op, suite, sample, device, dtype)
            if _takes(case):
                yield case


def _takes(case: Case) -> bool:
    dtype, allowed = case.dtype, case.sample.dtypes
    with case._in_force():
        if not holds(case.device, case.op, case.inputs, case.sample.attributes):
            return False
        try:
            touched(case.op, case.inputs, case.sample.attributes)
        except errors.DTypeError:
            # Half precision is a wish of the kit; the dtype that the sample was written in is not.
            return dtype not in SHORT
    return dtype is None or allowed is None or dtype.name in allowed


def holds(device: Device, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> bool:
    """Whether the device's backend holds what comes in, what that is converted to, and the results.

    True for calls that the op's rule does not take.
    """
    held = set(device.backend.dtypes)
    if not {leaf.dtype for leaf in leaves(inputs)} <= held:
        return False
    try:
        return touched(op, inputs, attributes) <= held
    except (errors.PullbackError, TypeError, ValueError):
        return True


def touched(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> set[DType]:
    """The dtypes of the converted inputs and of the results, by the op's rule.

    Raises:
        PullbackError: as the rule does.
    """
    bound = bind(op, list(inputs), attributes)
    bound.apply_defaults()
    given = {one.name: bound.arguments[one.name] for one in op.attributes}
    for one in op.attributes:
        if one.form == "DTypeLike" and given[one.name] is not None:
            given[one.name] = dtypes.as_dtype(given[one.name])
    if not op.inputs:
        given = canonicalize(op, [], given)
    values = tuple(bound.arguments[one.name] for one in op.inputs)
    resolution = op.dtype(operands(values), **given)
    return {one for one in (*resolution.inputs, *resolution.outputs) if one is not None}


def find(name: str, suites: dict[str, Suite]) -> tuple[Op, Suite]:
    """The op called `name` and its suite."""
    return OPS[name], suites[name]


def label(sample: Sample) -> str:
    """A sample in a few characters: its note, or its attributes and shapes."""
    if sample.note:
        return sample.note
    words = [f"{name}={value}" for name, value in sample.attributes.items()]
    words.append("x".join(str(list(leaf.shape)) for leaf in leaves(sample.inputs)))
    return " ".join(words).replace(" ", "" if len(words) == 1 else " ")


def to_tensor(value: Any, device: Device, *, copy: bool = True) -> Any:
    """A NumPy array as a tensor on `device`; anything else as it is."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    return wrap(device.backend.from_host(np.asarray(value), device.native, copy=copy), device)


def to_host(value: Any) -> Any:
    """A tensor as a NumPy array; anything else as it is."""
    return value.numpy() if isinstance(value, Tensor) else value


def results(value: Any) -> list[Any]:
    """The results of an op or reference as a list of arrays."""
    several = value if isinstance(value, (tuple, list)) else [value]
    return [one.numpy() if isinstance(one, Tensor) else np.asarray(one) for one in several]


def widen(value: Any, kind: Any) -> Any:
    """An array in the widest form of its kind: short floats to `kind`, complex ones alike."""
    if not isinstance(value, np.ndarray) or value.dtype not in dtypes.ALL:
        return value
    if dtypes.is_complex(value.dtype):
        return value.astype(np.result_type(kind, np.complex64))
    return value.astype(kind) if dtypes.is_floating(value.dtype) else value


def leaves(inputs: Any) -> list[Array]:
    """The arrays among the inputs, those of sequences included."""
    found: list[Array] = []
    for value in inputs:
        for leaf in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(leaf, (np.ndarray, np.generic)):
                found.append(np.asarray(leaf))
    return found


def _absolute(value: Any) -> Any:
    return np.abs(value) if isinstance(value, np.ndarray) and value.dtype.kind != "b" else value


def _map(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [function(item) for item in value]
    return function(value)
