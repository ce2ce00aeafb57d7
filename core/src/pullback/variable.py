"""`Variable`: the only thing that changes."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from pullback import dtypes, errors
from pullback._array_methods import ArrayMethods
from pullback._dispatch.arguments import as_bool
from pullback._dispatch.convert import from_any, reject_traced
from pullback._dispatch.recording import (
    CONSTANT,
    LOCAL,
    RECORDING,
    Leaf,
    Node,
    capturing,
    lifted,
    reject_making,
    reject_reading,
)
from pullback._foreign_names.tensors import TENSOR, VARIABLE
from pullback._hints import answer_attributes, answer_constructor, answer_module_call
from pullback._operator_methods import OperatorMethods
from pullback._operators import OPERATORS
from pullback._symbols import TRACES
from pullback.devices import Device, DeviceLike, as_device
from pullback.dtypes import DType, DTypeLike
from pullback.ops.arithmetic import add, subtract
from pullback.plugins.late_errors import LATE_ERRORS, raise_late
from pullback.shapes import Shape
from pullback.tensor import Tensor, TensorLike, new_tensor, wrap

__all__ = ["Variable"]


def _as_tensors_do(method: Any) -> Callable[..., Any]:
    """A method that a variable shares with its value: it works on both, through an op."""
    function: Callable[..., Any] = method
    return function


class Variable(ArrayMethods, OperatorMethods):
    """A value that can be assigned anew. Goes in wherever a tensor may.

    A tape watches a variable as it is read; what the tape has recorded stays as it was when another
    value is assigned. The value's shape, dtype and device are those of the first one for good.

    Args:
        value: the first value: a tensor, a NumPy array, a number, nested lists.
        name: a name for messages; it need not be unique.
        trainable: whether tapes watch it by themselves; integers never are.
        dtype: the dtype, where it is not the value's.
        device: the device, where it is not the value's or the active one.

    >>> v = pb.Variable(5.0, name="weight")
    >>> _ = v.assign_add(1.0)
    >>> v
    <Variable 'weight' 6., shape=(), dtype=float32, device=cpu:0>

    Raises:
        ConversionError: for a value that is not an array of numbers.
    """

    __slots__ = ("__weakref__", "_array", "_device", "_frozen", "_trainable", "_watched", "name")

    def __init__(
        self,
        value: TensorLike,
        *,
        name: str | None = None,
        trainable: bool = True,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> None:
        reject_making("a variable" if name is None else f"a variable ({name!r})")
        tensor = from_any(
            value,
            None if dtype is None else dtypes.as_dtype(dtype),
            None if device is None else as_device(device),
        )
        self.name = name
        self._array = tensor._array
        self._device = tensor._device
        self._trainable = as_bool(trainable, "trainable") and dtypes.is_floating(tensor.dtype)
        self._frozen = False
        self._watched = self._trainable

    # Reading -------------------------------------------------------------------------------------

    def __pullback_tensor__(self) -> Tensor:
        tensor = new_tensor()
        tensor._array = self._array
        tensor._device = self._device
        tensor._base = None
        tensor._node = _leaf_of(self, tensor) if RECORDING.count else None
        return tensor

    @property
    def value(self) -> Tensor:
        """The value now; it stays what it is when another one is assigned."""
        return self.__pullback_tensor__()

    @property
    def dtype(self) -> DType:
        """The data type."""
        return self._device.backend.named_dtypes[self._array.dtype]

    @property
    def shape(self) -> Shape:
        """The size along each axis."""
        return tuple(self._array.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._array.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.value.size

    @property
    def nbytes(self) -> int:
        """The number of bytes that the elements take."""
        return self.value.nbytes

    @property
    def device(self) -> Device:
        """The device of the value."""
        return self._device

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix."""
        return self._part(self.value.T)

    @property
    def mT(self) -> Tensor:
        """The transpose of the last two axes."""
        return self._part(self.value.mT)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The value as a NumPy array, read-only; what is assigned later does not show in it."""
        if self.is_replaced:
            return LOCAL.state.values[id(self)].numpy()
        if TRACES.count:
            reject_reading()
        try:
            return self._device.backend.to_host(self._array)
        except LATE_ERRORS as error:
            raise_late(error, self._device, self._device.backend)

    # Changing ------------------------------------------------------------------------------------

    def assign(self, value: TensorLike) -> Variable:
        """Gives the variable another value, of its shape, dtype and device.

        Python numbers, lists and NumPy arrays are converted; tensors must fit as they are.

        Returns:
            The variable.

        >>> pb.Variable([1.0, 2.0]).assign([3.0, 4.0]).numpy().tolist()
        [3.0, 4.0]

        Raises:
            ShapeError: for a value of another shape.
            DTypeError: for a tensor of another dtype.
            DeviceError: for a tensor on another device.
        """
        tensor = self._fitting("assign", value)
        if RECORDING.count:
            state = LOCAL.state
            if id(self) in state.values:
                # No gradient flows through what is assigned.
                state.values[id(self)] = wrap(tensor._array, tensor._device)
                return self
            if state.again is not None:
                state.again.note(self, as_stored)
            note_assigned(self, tensor)
            if state.capture is not None:
                state.capture.write(self, tensor)
                return self
        self._array = tensor._array
        return self

    def assign_add(self, value: TensorLike) -> Variable:
        """Adds `value`, which may be broadcast, and returns the variable.

        Raises:
            ShapeError, DTypeError, DeviceError: as `assign`.
        """
        return self._update("assign_add", add, value)

    def assign_sub(self, value: TensorLike) -> Variable:
        """Subtracts `value`, which may be broadcast, and returns the variable.

        Raises:
            ShapeError, DTypeError, DeviceError: as `assign`.
        """
        return self._update("assign_sub", subtract, value)

    def _update(self, method: str, op: Callable[..., Tensor], value: TensorLike) -> Variable:
        if RECORDING.count:
            state = LOCAL.state
            if id(self) in state.values:
                now = lifted(state.values[id(self)])
                return self.assign(op(wrap(now._array, now._device), value))
            if state.again is not None:
                state.again.note(self, as_stored)
            note_assigned(self, value)
            if (capture := state.capture) is not None:
                capture.write(self, self._fitting(method, op(capture.read(self), value)))
                return self
        now = wrap(self._array, self._device)
        self._array = self._fitting(method, op(now, value))._array
        return self

    @property
    def is_replaced(self) -> bool:
        """True inside a `functional_call` that has another value in place of this one."""
        return RECORDING.count != 0 and id(self) in LOCAL.state.values

    def _fitting(self, method: str, value: TensorLike) -> Tensor:
        if type(value) is Tensor and value._device is self._device:
            now, then = self._array, value._array
            if then.dtype is now.dtype and then.shape == now.shape:
                return value
        if hasattr(type(value), "__pullback_tensor__"):
            tensor = from_any(value)
            capture = capturing()
            if capture is not None:
                tensor = capture.lift(tensor)
            elif tensor._device is not self._device and not (
                self.is_replaced and tensor._device.stands_on(self._device)
            ):
                reject_traced(tensor._device)
                if tensor._device.stands_on(self._device):
                    raise errors.VariableError(
                        f"{self._label}.{method}: inside pb.vmap each item has another value; "
                        f"return the value, and assign what is made of all of them"
                    )
                raise errors.DeviceError(
                    f"{self._label}.{method}: the variable is on {self._device}, the value on "
                    f"{tensor._device}; move it with x.to('{self._device}')"
                )
            if tensor.dtype != self.dtype:
                raise errors.DTypeError(
                    f"{self._label}.{method}: the variable is {self.dtype}, the value "
                    f"{tensor.dtype}; convert it with x.astype('{self.dtype}')"
                )
        else:
            tensor = from_any(value, self.dtype, self._device)
        if tensor.shape != self.shape:
            raise errors.ShapeError(
                f"{self._label}.{method}: the variable has shape {self.shape}, the value "
                f"{tensor.shape}; a variable keeps its shape: reshape the value, "
                f"or make another variable"
            )
        return tensor

    # Training ------------------------------------------------------------------------------------

    @property
    def trainable(self) -> bool:
        """True if tapes watch the variable by themselves, and optimizers train it.

        To set it freezes the variable, or has it trained again.

        Raises:
            VariableError: when it is set to True for a variable that was not made to be trained.
        """
        if (capture := capturing()) is not None:
            capture.guard(getattr, f"whether {self._label} is trained", self, "_watched")
        return self._watched

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        if trainable and not self._trainable:
            raise errors.VariableError(
                f"{self._label} was made with trainable=False, or has no floating-point dtype; "
                f"make another one: pb.Variable(value, trainable=True)"
            )
        self.frozen = not trainable

    @property
    def frozen(self) -> bool:
        """True if a trainable variable is not trained now; `trainable = False` sets it."""
        return self._frozen

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        self._frozen = bool(frozen)
        self._watched = self._trainable and not frozen

    # What would go wrong unseen ------------------------------------------------------------------

    @property
    def _label(self) -> str:
        return "Variable" if self.name is None else f"Variable {self.name!r}"

    def __getitem__(self, key: Any) -> Tensor:
        return self._part(self.value[key])

    def _part(self, part: Tensor) -> Tensor:
        """A part of the value; a view of that is one of the variable, which lives on."""
        if part._base is not None:
            part._base = weakref.ref(self)
        return part

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise errors.VariableError(
            f"{self._label}: parts are not assigned; change a tensor and assign that: "
            f"x = v.value; x[i] = part; v.assign(x)"
        )

    # As its value --------------------------------------------------------------------------------

    def __repr__(self) -> str:
        name = "" if self.name is None else f"{self.name!r} "
        # Not through a read: printing must not make a tape watch the variable.
        value = repr(wrap(self._array, self._device)).removeprefix("Tensor(").removesuffix(")")
        return f"<Variable {name}{value}>"

    def _repr_html_(self) -> str:
        from pullback._notebook import array_html

        frozen = ", frozen" if self._frozen else ""
        title = f"{self._label} of shape {self.shape}, {self.dtype}, on {self._device}{frozen}"
        return array_html(title, self.numpy())

    def __iter__(self) -> Iterator[Tensor]:
        return map(self._part, iter(self.value))

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        return self.value.__array__(dtype, copy)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The namespace of array functions: pullback itself (array API standard)."""
        return self.value.__array_namespace__(api_version=api_version)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return OPERATORS.numpy_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: object, types: object, args: object, kwargs: object
    ) -> Any:
        return OPERATORS.numpy_function(function, types, args, kwargs)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.value.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.value.__dlpack_device__()

    def __len__(self) -> int:
        return len(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __complex__(self) -> complex:
        return complex(self.value)

    def __index__(self) -> int:
        return self.value.__index__()

    def __contains__(self, value: object) -> bool:
        return value in self.value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else repr(self)

    # A copy of a variable is another variable.

    def __copy__(self) -> Variable:
        copy = Variable(self.value, name=self.name, trainable=self._trainable)
        copy.frozen = self._frozen
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        return self.__copy__()

    def __getstate__(self) -> dict[str, Any]:
        slots = [name for cls in type(self).__mro__ for name in vars(cls).get("__slots__", ())]
        state = {name: getattr(self, name) for name in slots if name != "__weakref__"}
        return {**state, "_array": np.array(self.numpy())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        device = self._device
        self._array = device.backend.from_host(state["_array"], device.native, copy=False)

    item = _as_tensors_do(Tensor.item)
    tolist = _as_tensors_do(Tensor.tolist)
    tobytes = _as_tensors_do(Tensor.tobytes)
    to = _as_tensors_do(Tensor.to)
    cpu = _as_tensors_do(Tensor.cpu)
    gpu = _as_tensors_do(Tensor.gpu)


def as_stored(variable: Variable) -> Tensor:
    """The value of a variable, also of one that reads in another dtype."""
    return Variable.__pullback_tensor__(variable)


def note_assigned(variable: Variable, source: object) -> None:
    """Tells the tapes of this thread of a value that one has recorded, which none will follow."""
    if type(source) is Tensor and source._node is not None and source._node is not CONSTANT:
        for tape in LOCAL.state.tapes:
            tape.note_assigned(variable)


def _leaf_of(variable: Variable, tensor: Tensor) -> Node | None:
    """The node of a tensor just read from a variable: the leaves of the tapes that watch it.

    In a captured function the tensor becomes one of the trace.
    """
    state = LOCAL.state
    if RECORDING.count == 1 and state.recording and state.again is None:
        # The case of a training loop: all that is counted is one tape, which records here.
        tape = state.tapes[0]
        wanted = variable._watched and tape.watch_accessed_variables
        return tape.leaf_of(variable, wanted) or CONSTANT
    if state.values:
        other = state.values.get(id(variable))
        if other is not None:
            other = lifted(other)
            tensor._array, tensor._device = other._array, other._device
            return other._node or CONSTANT
    if state.again is not None:
        state.again.note(variable, as_stored)
    if state.capture is not None:
        traced = state.capture.read(variable)
        tensor._array, tensor._device = traced._array, traced._device
    if not state.recording:
        return None
    leaves = []
    for tape in state.tapes:
        leaf = tape.leaf_of(variable, variable._watched and tape.watch_accessed_variables)
        if leaf is not None:
            leaves.append(leaf)
    if len(leaves) == 1:
        return leaves[0]
    # Each tape finds its own leaf behind this one.
    return Leaf(state.next_serial(), *leaves) if leaves else CONSTANT


def _refusal(operator: str, instead: str) -> Callable[[Variable, Any], NoReturn]:
    def refuse(self: Variable, other: Any) -> NoReturn:
        raise errors.VariableError(
            f"{self._label}: `v {operator} x` would put a tensor in the variable's place; "
            f"write {instead}"
        )

    return refuse


for _name, _operator, _instead in (
    ("__iadd__", "+=", "v.assign_add(x)"),
    ("__isub__", "-=", "v.assign_sub(x)"),
    ("__imul__", "*=", "v.assign(v * x)"),
    ("__itruediv__", "/=", "v.assign(v / x)"),
    ("__ifloordiv__", "//=", "v.assign(v // x)"),
    ("__imod__", "%=", "v.assign(v % x)"),
    ("__ipow__", "**=", "v.assign(v ** x)"),
    ("__imatmul__", "@=", "v.assign(v @ x)"),
    ("__iand__", "&=", "v.assign(v & x)"),
    ("__ior__", "|=", "v.assign(v | x)"),
    ("__ixor__", "^=", "v.assign(v ^ x)"),
    ("__ilshift__", "<<=", "v.assign(v << x)"),
    ("__irshift__", ">>=", "v.assign(v >> x)"),
):
    setattr(Variable, _name, _refusal(_operator, _instead))

answer_attributes(Variable, VARIABLE, TENSOR)
answer_constructor(Variable)
answer_module_call(sys.modules[__name__])
