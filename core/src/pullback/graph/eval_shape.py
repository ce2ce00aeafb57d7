"""`eval_shape`: the shapes and dtypes of what a function returns, with nothing computed.

Its tensors are on a device whose kernels are the shape and dtype rules of the ops. Dispatch, tapes,
batches, layers and optimizers run on it as on any other. What changes from call to call (variables,
generators, host states) asks the run of its thread, as it asks the trace of a captured function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, NoReturn

import numpy as np

from pullback import dtypes, errors
from pullback._dispatch.bodies import run_body
from pullback._dispatch.host_state import HostState
from pullback._dispatch.recording import (
    CONSTANT,
    LOCAL,
    NO_TAPES,
    RECORDING,
    capturing,
    paused,
    tapes,
    uncaptured,
)
from pullback._symbols import TRACES, Break
from pullback._tree import each, mapped
from pullback.devices import Device, StandIn, as_device
from pullback.dtypes import DType, DTypeLike
from pullback.plugins.backend import Backend
from pullback.plugins.records import Kernel
from pullback.shapes import Shape, ShapeLike, as_shape
from pullback.spec import OPS, Op
from pullback.tensor import Tensor, wrap

__all__ = ["TensorSpec", "eval_shape"]


class TensorSpec:
    """The shape and dtype of a tensor, without values.

    Args:
        shape: the size along each axis.
        dtype: the dtype; the default float if not given.

    >>> pb.TensorSpec((2, 3), "int32")
    TensorSpec((2, 3), int32)

    Raises:
        ShapeError: for a negative size.
        InputTypeError: for a size that is not an integer.
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: ShapeLike, dtype: DTypeLike | None = None) -> None:
        self.shape: Shape = as_shape(shape)
        self.dtype: DType = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, TensorSpec)
        return same and (self.shape, self.dtype) == (other.shape, other.dtype)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"TensorSpec({self.shape}, {self.dtype})"


def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of what a function returns, with nothing computed.

    The function runs once, on tensors without values. Layers that are called for the first time
    are built, with the random numbers of a first call; nothing else outside changes: variables keep
    their values, what the function draws leaves generators as they are, and the steps of optimizers
    and the sums of metrics are not taken.

    Args:
        f: a function of tensors, such as a model.
        args: its arguments: `pb.TensorSpec`, tensors or arrays, and structures of them; all other
            values are passed as they are.
        kwargs: more of them, by keyword.

    Returns:
        What the function returns, with a `pb.TensorSpec` for each tensor.

    >>> x = pb.TensorSpec((10**6, 10**6))
    >>> pb.eval_shape(lambda x: pb.sum(x @ x.T, axis=0), x)
    TensorSpec((1000000,), float32)
    >>> model = pb.Sequential([pb.layers.Dense(3)])
    >>> pb.eval_shape(model, pb.TensorSpec((8, 4))), model.parameter_count
    (TensorSpec((8, 3), float32), 15)

    Raises:
        InputValueError: where the function asks for values (`float(x)`, `if x:`, `x.numpy()`) or
            makes a variable.
        ShapeError: for an op whose result has a shape that depends on values; and as the ops raise.
    """
    return shapes_and_reads(f, args, kwargs)[0]


def shapes_and_reads(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, list[Any]]:
    """The result of `eval_shape`, and the variables that the function reads."""
    run = ShapeRun(as_device(None))
    inside = mapped(run.enter, (args, kwargs))
    with run.running():
        result = f(*inside[0], **inside[1])
    result = mapped(spec_of, result)
    return result, [*run.variables.values()]


def spec_of(value: Any) -> Any:
    """The spec of a tensor, a variable or an array; other values as they are."""
    if hasattr(type(value), "__pullback_tensor__") or isinstance(value, np.ndarray):
        return TensorSpec(tuple(value.shape), value.dtype)
    return value


class Meta:
    """A native array without values."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape = shape
        self.dtype = dtype


class MetaDevice(StandIn):
    """A device without values."""

    __slots__ = ()

    def lift(self, tensor: Tensor) -> Tensor:
        """A tensor without its values; a tape has watched it by its node."""
        if tensor._device.stands_on(self):
            return tensor
        return wrap(Meta(tensor.shape, tensor.dtype), self, tensor._node)

    def text_of(self, tensor: Tensor) -> str:
        """The kind of a tensor."""
        kind = f"shape={tensor.shape}, dtype={tensor.dtype}, device={self}"
        return f"Tensor({kind}, without values)"

    def holds_anywhere(self, condition: Tensor) -> bool:
        """Returns False: rules that ask compute the same shapes either way."""
        return False


class MetaBackend(Backend):
    """A backend whose kernels are the shape and dtype rules of the ops.

    Args:
        real: the device that it stands for.
    """

    keeps_bodies = False

    def __init__(self, real: Device) -> None:
        below = real.backend
        self.dtypes = {dtype: dtype for dtype in below.dtypes}
        self.storage_dtypes = {dtype: dtype for dtype in below.storage_dtypes}
        super().__init__()
        #: The number of bodies that run for their residuals.
        self._bodies = 0
        self.device = device = MetaDevice()
        device.real, device.backend, device.native = real, self, None
        device.kind, device.index = real.kind, real.index
        device.tables, device.constants, device._str = self.tables, {}, str(real)

    def kernel(self, op_name: str, dtype: DType | None) -> Kernel | None:
        """The rules of an op."""
        return partial(self._evaluate, OPS[op_name])

    def _evaluate(self, op: Op, /, *inputs: Any, **attributes: Any) -> Any:
        if op.residuals and (LOCAL.state.recording or self._bodies):
            # Rules say nothing of residuals, which gradients and bodies of other ops read.
            tensors = [each(lambda array: wrap(array, self.device), value) for value in inputs]
            self._bodies += 1
            try:
                with paused():
                    return tuple([tensor._array for tensor in run_body(op, tensors, attributes)])
            finally:
                self._bodies -= 1
        shapes = op.shape(*[each(_shape, value) for value in inputs], **attributes)
        flat = [x for value in inputs for x in (value if isinstance(value, list) else [value])]
        operands = tuple([None if x is None else x.dtype for x in flat])
        kinds = op.dtype(operands, **attributes).outputs
        arrays = []
        for shape, dtype in zip(
            shapes if isinstance(shapes, list) else [shapes], kinds, strict=True
        ):
            if shape is None:
                raise errors.ShapeError(
                    "the shape of the result depends on values, and pb.eval_shape has none; write "
                    "what keeps the shape, such as pb.where(mask, x, 0) in place of x[mask] or "
                    "pb.nonzero, or call it outside of the function"
                )
            arrays.append(Meta(shape, self.public_dtypes[dtype]))
        arrays += [Meta((0,), dtypes.float32) for _ in op.residuals]
        return arrays[0] if len(arrays) == 1 else tuple(arrays)

    def from_host(self, array: np.ndarray[Any, Any], device: object, *, copy: bool) -> Meta:
        """The shape and dtype of host data."""
        return Meta(array.shape, self.public_dtypes[array.dtype])

    def from_dlpack(self, value: Any, device: object, *, copy: bool | None) -> Meta:
        """The shape and dtype of another library's array."""
        real = self.device.real
        tensor = wrap(real.backend.from_dlpack(value, real.native, copy=copy), real)
        return Meta(tensor.shape, tensor.dtype)

    def to_host(self, array: Meta) -> NoReturn:
        """Raises: there are no values."""
        _reject_values()


def _shape(array: Meta) -> Shape:
    return array.shape


def _reject_values() -> NoReturn:
    raise errors.InputValueError(
        "the value of a tensor is asked for inside pb.eval_shape, where tensors have shapes and "
        "dtypes alone; compute with ops, such as pb.where or pb.cond in place of if, or look at "
        "x.shape and x.dtype"
    )


def meta_device(real: Device) -> MetaDevice:
    """The device without values for a real one; there is one for each."""
    if isinstance(real, MetaDevice):
        return real
    known: dict[tuple[str, int], MetaDevice] = vars(real.backend).setdefault("_meta", {})
    device = known.get((real.kind, real.index))
    if device is None or device.real is not real:
        device = known[real.kind, real.index] = MetaBackend(real).device
    return device


class ShapeRun:
    """One run of a function on tensors without values.

    Args:
        real: the device that tensors are made on.
    """

    #: Control flow calls each of its functions once.
    shapes_alone = True
    is_differentiated = False

    def __init__(self, real: Device) -> None:
        self.device = meta_device(real)
        self._states: dict[HostState, Any] = {}
        #: The variables that were read, by their identity.
        self.variables: dict[int, Any] = {}

    def enter(self, value: Any) -> Any:
        """A tensor without values for a spec or a tensor; other values as they are."""
        spec = spec_of(value)
        if not isinstance(spec, TensorSpec):
            return value
        dtype = self.device.backend.public_dtypes[spec.dtype]
        return wrap(Meta(spec.shape, dtype), self.device)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Has what this thread calls in the `with` block compute shapes alone."""
        state: Any = LOCAL.state
        before, runs, state.runs = state.capture, state.runs, []
        RECORDING.count += 1
        TRACES.count += 1
        state.capture = self
        try:
            with tapes(NO_TAPES), self.device:
                yield
        except Break as error:
            way_out = f"; {error.way_out}" if error.way_out else ""
            raise errors.InputValueError(
                f"pb.eval_shape: the function {error.reason}{way_out}"
            ) from None
        finally:
            state.capture, state.runs = before, runs
            RECORDING.count -= 1
            TRACES.count -= 1

    @contextmanager
    def building(self, device: Device) -> Iterator[None]:
        """Has a layer make its variables with values."""
        with uncaptured(), self.device.real:
            yield

    def reject_making(self, what: str, *, holds_values: bool) -> None:
        """Raises for a variable, which would have no values."""
        if holds_values:
            raise Break(f"makes {what}", "make it before the call, or in the build of a layer")

    def is_outside(self, device: Device) -> bool:
        """Returns whether a tensor on a device has values."""
        return not device.stands_on(self.device)

    def reject_reading(self) -> NoReturn:
        """Raises: there are no values."""
        _reject_values()

    def lift(self, tensor: Tensor) -> Tensor:
        """A tensor without its values."""
        return self.device.lift(tensor)

    constant = lift

    def renewing(self, after: Tensor) -> AbstractContextManager[None]:
        """Does nothing: there is no program."""
        return nullcontext()

    def stop_gradient(self, tensor: Tensor) -> Tensor:
        """The tensor as a constant for all tapes."""
        return wrap(self.lift(tensor)._array, self.device, CONSTANT)

    def traced_device(self, device: Device) -> Device:
        """This device, for every one."""
        return device if device.stands_on(self.device) else self.device

    def read(self, variable: Any) -> Tensor:
        """The value of a variable, without its values."""
        self.variables[id(variable)] = variable
        return wrap(Meta(variable.shape, variable.dtype), self.device)

    def write(self, variable: object, value: Tensor) -> None:
        """Does nothing: another value has the same shape and dtype."""

    def number(self, function: Callable[..., Any], *arguments: object) -> Any:
        """The number that a function of other numbers gives."""
        return function(*arguments)

    def decide(self, function: Callable[[Any], Any], number: object) -> Any:
        """Returns what a function makes of a number."""
        return function(number)

    def get(self, state: HostState) -> Any:
        """The value of a host state in this run."""
        return self._states.get(state, state.value)

    def set(self, state: HostState, value: object) -> None:
        """Sets a host state for this run."""
        self._states[state] = value

    def when(self, condition: Tensor, function: Callable[[], object]) -> None:
        """Calls a function whose changes count only where a condition holds."""
        function()

    def _nothing(self, *_: object, **__: object) -> None:
        """Does nothing: what would be called looks at values, and there is no program."""

    effect = guard = custom_gradient = reads = traversed = reads_ambient = calls = _nothing

    def reserve(self, generator: object, words: int) -> tuple[int, int]:
        """A key and counter that no generator has reserved."""
        return 0, 0


def has_shapes_alone() -> bool:
    """Returns whether `eval_shape` runs in this thread."""
    return getattr(capturing(), "shapes_alone", False)
