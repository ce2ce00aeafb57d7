"""One case: a sample of an op in one dtype on one device, as host arrays and as tensors.

NumPy is the reference on the host. The backend under test is reached through the device alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from pullback import dtypes, errors
from pullback._dispatch.arguments import canonicalize, shapes_of
from pullback._dispatch.convert import align_inputs, sequence_lengths, unflatten
from pullback._dispatch.host_data import SCALAR_TYPES
from pullback._dispatch.plan import Plan
from pullback._dispatch.plan import resolve as plan_of
from pullback._tree import each
from pullback.casting import cast
from pullback.devices import Device
from pullback.dtypes import DType, Resolution
from pullback.plugins.records import Kernel, RegisteredKernel
from pullback.spec import Op
from pullback.tensor import Tensor, wrap
from pullback_conformance.condition import moves
from pullback_conformance.sample import Array, Sample, Suite

#: The types that references are computed in.
Wide: TypeAlias = type[np.float64] | type[np.longdouble]

#: The dtypes that float64 inputs of a sample are tried in.
REAL: tuple[DType, ...] = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
#: The dtypes that samples with complex128 inputs are tried in.
COMPLEX: tuple[DType, ...] = (dtypes.complex64, dtypes.complex128)
#: Floating dtypes whose kernels round a float32 result once.
SHORT: tuple[DType, ...] = (dtypes.float16, dtypes.bfloat16)


@dataclass(frozen=True, eq=False)
class Case:
    """A sample of an op in one dtype on one device.

    Float64 inputs are cast to `dtype` (complex128 inputs to the complex dtype of its width). It is
    None for samples without floating inputs. Inputs of other dtypes are not cast.
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
            return tuple(each(self.cast, value) for value in self.sample.inputs)

    def cast(self, value: object) -> object:
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
        """The inputs as new tensors on the device; other values than arrays as they are."""
        return [
            each(lambda x: to_tensor(x, self.device, copy=copy), value) for value in self.inputs
        ]

    def call(self, inputs: list[Any] | None = None) -> Any:
        """Calls the op."""
        tensors = self.tensors() if inputs is None else inputs
        args, kwargs = arguments(self.op, tensors, self.sample.attributes)
        with self._active_device():
            return self.op.function(*args, **kwargs)

    def resolved(self, inputs: list[Any]) -> Resolved:
        """Resolves a call of these inputs by the op's rules."""
        with self._active_device():
            return resolve(self.op, inputs, self.sample.attributes)

    @property
    def dtypes_of_results(self) -> tuple[DType, ...]:
        """The dtypes of the results by the op's rules."""
        return self._found[0]

    @property
    def kernel(self) -> Kernel | None:
        """The kernel that the call runs; None where core's body runs."""
        return self._found[1]

    @cached_property
    def _found(self) -> tuple[tuple[DType, ...], Kernel | None]:
        # Without the tensors of the call, which would stay as long as the case.
        resolved = self.resolved(self.tensors())
        return resolved.dtypes, resolved.plan.kernel

    def _active_device(self) -> AbstractContextManager[object]:
        """Activates the device for ops with a device attribute.

        Not for others: their results must follow the device of their inputs.
        """
        has_device = any(attribute.form == "DeviceLike" for attribute in self.op.attributes)
        return self.device if has_device else nullcontext()

    def reference(self, kind: Wide) -> list[Array]:
        """The reference's results for the inputs widened to `kind`, np.float64 or longdouble."""
        expected = self._references.get(kind)
        if expected is None:
            expected = self._once(self.suite.reference, self.lifted(), kind)
            self._references[kind] = expected
        return expected

    def _once(self, function: Callable[..., Any], inputs: Iterable[Any], kind: Wide) -> list[Array]:
        """The results of a function for the elements that do not repeat, repeated."""
        named, period, items = self.sample.attributes, self.sample.period, self.suite.items
        wide = list(inputs)
        if not self.suite.as_given:
            wide = [each(lambda x: widen(x, kind), value) for value in inputs]
        if period is not None:
            for i, parameter in enumerate(self.op.inputs):
                if isinstance(wide[i], np.ndarray) and (not items or parameter.name in items):
                    wide[i] = wide[i][:period]
            if "input_shape" in named:
                named = {**named, "input_shape": (period, *named["input_shape"][1:])}
        with np.errstate(all="ignore"):
            found = results(function(*wide, **named))
        if period is None:
            return found
        if not items:
            size = leaves(self.inputs)[0].size
            return [np.resize(array, size) for array in found]
        shapes = self.resolved(self.tensors()).shapes
        place = [parameter.name for parameter in self.op.inputs].index(items[0])
        times = len(self.inputs[place]) // period
        return [
            x * times if x.shape == shape else np.concatenate([x] * times)
            for x, shape in zip(found, shapes, strict=True)
        ]

    @cached_property
    def _references(self) -> dict[Wide, list[Array]]:
        return {}

    @cached_property
    def terms(self) -> list[Array] | None:
        """The sums of the absolute terms of the results; None if they are not known.

        They are the suite's `scale`, or the reference for the absolute values of the inputs.
        """
        try:
            if self.suite.scale is not None:
                # In the dtype of the inputs, sums of many terms stand still or overflow.
                return self._once(self.suite.scale, self.inputs, np.float64)
            # Integers beside floats are positions.
            positions = any(leaf.dtype.kind in "fc" for leaf in leaves(self.inputs))
            sizes = [each(partial(_absolute, positions), value) for value in self.inputs]
            return self.with_inputs(sizes).reference(np.float64)
        except Exception:
            return None  # the reference is not a sum, and rejects these inputs

    @cached_property
    def moves(self) -> list[float]:
        """The sensitivity of each result to the inputs; see `condition`."""
        inputs = [each(lambda x: widen(x, np.float64), value) for value in self.lifted()]
        moved = [leaf for leaf in leaves(inputs) if leaf.dtype.kind in "fc"]

        def function(point: list[Array]) -> list[Array]:
            rest = iter(point)

            def fill(value: object) -> object:
                array = isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fc"
                return next(rest) if array else value

            outputs = self.suite.reference(
                *(each(fill, value) for value in inputs), **self.sample.attributes
            )
            if self.suite.compare is not None:
                outputs = self.suite.compare(self.inputs, outputs)
            return [array.astype(np.result_type(array, np.float64)) for array in results(outputs)]

        with np.errstate(all="ignore"):
            return moves(function, moved)

    def with_inputs(self, inputs: Iterable[Any]) -> Case:
        """Returns the same case for other inputs."""
        return replace(self, sample=replace(self.sample, inputs=tuple(inputs)))

    def laid_out(self, lay: Callable[[object], object]) -> Case:
        """Returns the same case for all inputs in a memory layout."""
        return self.with_inputs(each(lay, value) for value in self.inputs)

    def lifted(self) -> list[Any]:
        """The inputs, with integers and booleans converted where the op takes them as floats."""
        inputs = list(self.inputs)
        if not any(leaf.dtype.kind in "biu" for leaf in leaves(inputs)):
            return inputs
        aligned = self.resolved(self.tensors()).inputs
        for i, value in enumerate(inputs):
            whole = isinstance(value, np.ndarray) and value.dtype.kind in "biu"
            if whole and dtypes.is_floating(aligned[i].dtype):
                inputs[i] = cast(value, aligned[i].dtype)
        return inputs


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
    """Applies the rules of `op` to a call.

    Raises:
        PullbackError: as the op would.
    """
    values, named = split(op, inputs, attributes)
    flat, device = align_inputs(op, values)
    aligned = unflatten(flat, sequence_lengths(op, values))
    plan = plan_of(op, aligned, named, device)
    shapes = plan.shapes(shapes_of(aligned))
    return Resolved(aligned, plan, shapes, plan.dtypes(operands(values)))


def bind(op: Op, inputs: Sequence[Any], attributes: dict[str, Any]) -> inspect.BoundArguments:
    """Binds the arguments of `op`, with attributes by name even if they are positional-only.

    Defaults are applied.
    """
    signature, order = _binding(op, len(inputs), tuple(attributes))
    given = (*inputs, *attributes.values())
    values = {
        name: given[place] if isinstance(place, int) else place.default for name, place in order
    }
    return inspect.BoundArguments(signature, values)


def split(
    op: Op, inputs: Sequence[Any], attributes: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The values of all inputs of `op` and of all its attributes in a call, defaults included."""
    bound = bind(op, inputs, attributes).arguments
    named = {attribute.name: bound[attribute.name] for attribute in op.attributes}
    return tuple(bound[parameter.name] for parameter in op.inputs), named


def takes_no_attributes(op: Op) -> bool:
    """Returns whether an op can be called with its inputs alone."""
    try:
        _binding(op, len(op.inputs), ())
    except TypeError:
        return False
    return True


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
def _binding(
    op: Op, count: int, names: tuple[str, ...]
) -> tuple[inspect.Signature, list[tuple[str, int | inspect.Parameter]]]:
    """An op's signature, and for each parameter its place in a call, or itself for its default.

    Raises:
        TypeError: if the op cannot be called so.
    """
    signature = inspect.signature(op.function)
    by_name = [
        parameter.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY
        else parameter
        for parameter in signature.parameters.values()
    ]
    named = dict(zip(names, range(count, count + len(names)), strict=True))
    places = signature.replace(parameters=by_name).bind(*range(count), **named).arguments
    return signature, [
        (name, places.get(name, parameter)) for name, parameter in signature.parameters.items()
    ]


def operands(values: tuple[object, ...]) -> tuple[DType | type | None, ...]:
    """The inputs as a dtype rule takes them: dtypes, types of Python numbers, None."""
    kinds: list[DType | type | None] = []
    for value in values:
        for leaf in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(leaf, (Tensor, np.ndarray)):
                kinds.append(leaf.dtype)
            else:
                kinds.append(type(leaf) if type(leaf) in SCALAR_TYPES else None)
    return tuple(kinds)


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
    if not (dtype is None or allowed is None or dtype.name in allowed):
        return False

    def empty(value: object) -> object:
        # The rules look at dtypes alone, and most cases are never called.
        if isinstance(value, (np.ndarray, np.generic)):
            return case.cast(np.empty(0, value.dtype))
        return value

    inputs = tuple(each(empty, value) for value in case.sample.inputs)
    with case._active_device():
        if not holds(case.device, case.op, inputs, case.sample.attributes):
            return False
        try:
            touched(case.op, inputs, case.sample.attributes)
        except errors.DTypeError:
            # The kit adds half precision; the dtype of the sample itself is required.
            return dtype not in SHORT
    return True


def holds(device: Device, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> bool:
    """Returns whether the backend has the dtypes of the inputs, converted inputs and results.

    True for calls that the op's rule rejects.
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
    found = resolution(op, inputs, attributes)
    return {dtype for dtype in (*found.inputs, *found.outputs) if dtype is not None}


def resolution(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Resolution:
    """The dtypes that the op's rule gives the inputs, converted, and the results.

    Raises:
        PullbackError: as the rule does.
    """
    values, named = split(op, inputs, attributes)
    for attribute in op.attributes:
        if attribute.form == "DTypeLike" and named[attribute.name] is not None:
            named[attribute.name] = dtypes.as_dtype(named[attribute.name])
    if not op.inputs:
        named = canonicalize(op, [], named)
    return op.dtype(operands(values), **named)


def kernels_of(case: Case) -> Sequence[RegisteredKernel]:
    """The kernels that the backend has for the op of a case."""
    return case.device.backend.kernels_for(case.op.name)


def runs_body(op: Op, device: Device) -> bool:
    """Returns whether the op runs core's body: it is a composite without a kernel."""
    return not op.primitive and not device.backend.kernels_for(op.name)


def label(sample: Sample) -> str:
    """A sample in a few characters: its note, or its attributes and shapes.

    A random call has its seed in front.
    """
    if sample.seed is not None:
        return f"seed {sample.seed}: {label(replace(sample, seed=None))}"
    if sample.note:
        return sample.note
    words = [f"{name}={value}" for name, value in sample.attributes.items()]
    words.append("x".join(str(list(leaf.shape)) for leaf in leaves(sample.inputs)))
    return " ".join(words).replace(" ", "" if len(words) == 1 else " ")


def to_tensor(value: object, device: Device, *, copy: bool = True) -> Any:
    """A NumPy array as a tensor on `device`; anything else as it is."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    return wrap(device.backend.from_host(np.asarray(value), device.native, copy=copy), device)


def as_tuple(result: Any) -> tuple[Any, ...]:
    """The results of an op as a tuple, if there is one result or several."""
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def results(value: object) -> list[Any]:
    """The results of an op or reference as a list of arrays."""
    return [x.numpy() if isinstance(x, Tensor) else np.asarray(x) for x in as_tuple(value)]


def widen(value: Any, kind: Wide) -> Any:
    """A floating array as `kind`, a complex one as the complex dtype of that width."""
    if not isinstance(value, np.ndarray) or value.dtype not in dtypes.ALL:
        return value
    if dtypes.is_complex(value.dtype):
        return value.astype(np.result_type(kind, np.complex64))
    return value.astype(kind) if dtypes.is_floating(value.dtype) else value


def leaves(inputs: Iterable[object]) -> list[Array]:
    """The arrays among the inputs, those in sequences included."""
    arrays: list[Array] = []
    for value in inputs:
        for leaf in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(leaf, (np.ndarray, np.generic)):
                arrays.append(np.asarray(leaf))
    return arrays


def _absolute(positions: bool, value: object) -> object:
    kept = "biu" if positions else "b"
    return (
        np.abs(value) if isinstance(value, np.ndarray) and value.dtype.kind not in kept else value
    )
