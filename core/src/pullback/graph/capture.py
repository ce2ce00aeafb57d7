"""A backend that runs the kernels of another one and writes down which, in what order, on what.

Whatever is made of ops can be traced by giving it tensors on a trace's device: dispatch looks its
kernels up there, as it would on any device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pullback.devices import Device
from pullback.dtypes import DType, is_complex
from pullback.plugins.backend import Backend, Kernel, Native
from pullback.shapes import broadcast
from pullback.spec import EXACT, OPS, ROUNDED, Op
from pullback.tensor import Tensor, wrap

#: The number of elements up to which what is computed from constants is a constant.
_FOLDED = 1 << 14


class NoTraceError(TypeError):
    """This is nothing that a trace could stand for."""


class Traced:
    """A native array while it is traced: the array, and its name in what is written down."""

    __slots__ = ("array", "name")

    def __init__(self, array: Native, name: str) -> None:
        self.array = array
        self.name = name

    @property
    def shape(self) -> Any:
        """The shape of the array."""
        return self.array.shape

    @property
    def dtype(self) -> Any:
        """The native dtype of the array."""
        return self.array.dtype


class Call(NamedTuple):
    """One call of a kernel. Arrays stand as their names; None and lists of them as they are."""

    op: Op
    kernel: Kernel
    inputs: tuple[Any, ...]
    attributes: dict[str, Any]
    #: The names of what it returned; `several` says that it was a tuple or list.
    results: tuple[str, ...]
    several: bool
    #: Of each result, whether it was no native array yet.
    foreign: tuple[bool, ...]

    @property
    def by_element(self) -> bool:
        """Whether an array's layout in memory cannot be seen in the bits of the result.

        Sums add in another order where arrays lie otherwise.
        """
        return self.op.shape is broadcast and self.op.accuracy in (EXACT, ROUNDED)


class Trace(Backend):
    """What kernels were called on tensors of `trace.device`."""

    def __init__(self, device: Device, array: Native) -> None:
        super().__init__()
        self._real = real = device.backend
        self._kind = type(array)
        self.dtypes = real.dtypes
        self.public_dtypes = real.public_dtypes
        self.calls: list[Call] = []
        #: What calls gave, by op, the names of the inputs, and attributes.
        self.found: dict[Any, Any] = {}
        #: Arrays made of host data on the way, by name.
        self.constants: dict[str, Native] = {}
        #: The names of arrays that are 1 at every element, and too large to be constants.
        self._ones: set[str] = set()
        #: The names of products with 1, and of the other factors.
        self.same: dict[str, str] = {}
        #: False when values were looked at: what was called may then depend on them.
        self.sound = True
        self.device = here = Device()
        here.backend = self
        here.kind, here.index, here.native = device.kind, device.index, device.native
        here.tables = self.tables
        here.constants = {}
        here._str = str(device)

    def tensor(self, array: Native, name: str) -> Tensor:
        """A tensor on the trace's device for an array that has a name already."""
        return wrap(Traced(array, name), self.device)

    # What dispatch asks of a backend --------------------------------------------------------------

    def kernel(self, op_name: str, dtype: DType | None) -> Kernel | None:
        """The kernel of the real backend, with a pen."""
        kernel = self._real.kernel(op_name, dtype)
        return None if kernel is None else partial(self._run, op_name, kernel)

    def _run(self, op_name: str, kernel: Kernel, /, *inputs: Any, **attributes: Any) -> Any:
        if op_name == "reshape" and attributes["shape"] == tuple(inputs[0].shape):
            return inputs[0]
        names = tuple(_each(one, _name) for one in inputs)
        key = _key(op_name, names, attributes)
        if key in self.found:
            return self.found[key]
        result = kernel(*(_each(one, _array) for one in inputs), **attributes)
        several = isinstance(result, (tuple, list))
        arrays = list(result) if several else [result]
        foreign = tuple(
            type(array) is not self._kind or array.dtype not in self.public_dtypes
            for array in arrays
        )
        arrays = [
            self._real.native(array) if strange else array
            for array, strange in zip(arrays, foreign, strict=True)
        ]
        if not several and self._known(inputs) and math.prod(arrays[0].shape) <= _FOLDED:
            return self._constant(arrays[0])
        op = OPS[op_name]
        if _by_value(op, inputs, attributes):
            self.sound = False
        results = tuple(f"v{len(self.calls)}_{i}" for i in range(len(arrays)))
        if op_name == "broadcast_to" and self._is_one(inputs[0]):
            self._ones.add(results[0])
        elif op_name == "multiply":
            same = self._times_one(*inputs) or self._times_one(*inputs[::-1])
            if same is not None:
                self.same[results[0]] = same.name
        self.calls.append(Call(op, kernel, names, attributes, results, several, foreign))
        found = tuple(map(Traced, arrays, results))
        if key is not None:
            self.found[key] = found if several else found[0]
        return found if several else found[0]

    def _times_one(self, one: Traced, other: Traced) -> Traced | None:
        """The other factor, where the one is 1: the cotangent of a sum is, at every element.

        None for complex numbers: 1 times infinity is infinity + NaN i there.
        """
        if tuple(one.shape) not in ((), tuple(other.shape)):
            return None
        if is_complex(self.public_dtypes[one.dtype]):
            return None
        return other if self._is_one(one) else None

    def _is_one(self, one: Traced) -> bool:
        if one.name in self._ones:
            return True
        known = one.name in self.constants
        return known and bool((self._real.to_host(one.array) == 1).all())

    def _known(self, inputs: Any) -> bool:
        """Whether nothing among the inputs of a kernel depends on what is given."""
        if isinstance(inputs, (list, tuple)):
            return all(map(self._known, inputs))
        return inputs is None or inputs.name in self.constants

    def _constant(self, array: Native) -> Traced:
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return Traced(array, name)

    def from_host(self, array: np.ndarray[Any, Any], device: Any, *, copy: bool) -> Traced:
        """A constant of the trace."""
        return self._constant(self._real.from_host(array, device, copy=copy))

    def to_host(self, array: Traced) -> np.ndarray[Any, Any]:
        """The values; what follows may depend on them."""
        self.sound = False
        return self._real.to_host(array.array)

    def native(self, value: Any) -> Any:
        """What a kernel returned is made an array where it is written down."""
        return value


def _each(value: Any, function: Callable[[Traced], Any]) -> Any:
    if type(value) is Traced:
        return function(value)
    if isinstance(value, list):
        return [_each(one, function) for one in value]
    return value


def _key(op_name: str, names: Any, attributes: dict[str, Any]) -> Any:
    """What is equal for calls that give the same; None where attributes do not say."""
    try:
        return op_name, repr(names), frozen(list(attributes.items()))
    except NoTraceError:
        return None


def _by_value(op: Op, inputs: Any, attributes: dict[str, Any]) -> bool:
    """Whether the shapes of the results depend on values: what looks at them looks at values."""
    shapes = op.shape(*(_each(one, _shape) for one in inputs), **attributes)
    return shapes is None or (isinstance(shapes, list) and None in shapes)


def _shape(value: Traced) -> tuple[int, ...]:
    return tuple(value.shape)


def _array(value: Traced) -> Native:
    return value.array


def _name(value: Traced) -> str:
    return value.name


def frozen(value: Any) -> Any:
    """A key that is equal for values which a rule cannot tell apart: 1 is not True, -0.0 not 0.0.

    Raises:
        NoTraceError: for values that have no such key.
    """
    kind = type(value)
    if value is None or value is ... or kind in (bool, int, str) or isinstance(value, np.dtype):
        return kind, value
    if kind is float:
        return kind, value.hex()
    if kind is complex:
        return kind, value.real.hex(), value.imag.hex()
    if kind in (tuple, list):
        return kind, *map(frozen, value)
    if kind is slice:
        return kind, frozen(value.start), frozen(value.stop), frozen(value.step)
    raise NoTraceError
