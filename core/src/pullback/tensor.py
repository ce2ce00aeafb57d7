"""The tensor: a handle on an array of some backend, the device it is on, and its place on a tape.

Buffers are immutable. Operators and methods call a table that the op specification fills, so this
file knows the names of ops and nothing of how they are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

import numpy as np

from pullback import errors
from pullback._array_methods import ArrayMethods
from pullback._foreign_names.tensors import TENSOR
from pullback._hints import answer_attributes
from pullback._operator_methods import OperatorMethods
from pullback._operators import OPERATORS
from pullback._printing import printed
from pullback._symbols import TRACES, Break
from pullback._views import Base, in_place, refuse_write
from pullback.casting import cast
from pullback.dtypes import INT, STORAGE, DType, DTypeLike, kind
from pullback.plugins.late_errors import LATE_ERRORS, raise_late
from pullback.plugins.records import Native
from pullback.shapes import Shape

if TYPE_CHECKING:
    from pullback.devices import Device, DeviceLike


class SupportsTensor(Protocol):
    """A value that is read as a tensor, such as a Variable."""

    def __pullback_tensor__(self) -> Tensor: ...


def _item(tensor: Any) -> Any:
    """The only element of a tensor or variable."""
    if TRACES.count:
        OPERATORS.reject_reading()
    try:
        return tensor._device.backend.item(tensor._array)
    except LATE_ERRORS as error:
        raise_late(error, tensor._device, tensor._device.backend)


class TensorType(type):
    """The type of the class `Tensor`, which answers calls of it with what to write."""

    def __call__(cls, *_: object, **__: object) -> NoReturn:
        """Raises: ops make tensors."""
        raise errors.InputTypeError(
            "pb.Tensor is the type of tensors and makes none: write pb.asarray(values), "
            "or pb.zeros(shape) for sizes"
        )


class Tensor(ArrayMethods, OperatorMethods, metaclass=TensorType):
    """An array on a device. Made by `pullback.asarray` and every op; never by calling `Tensor`."""

    __slots__ = ("__weakref__", "_array", "_base", "_device", "_node")
    _array: Any
    _device: Device
    _node: Any
    _base: Base

    def __pullback_tensor__(self) -> Tensor:
        return self

    # What it is ----------------------------------------------------------------------------------

    @property
    def dtype(self) -> DType:
        """The data type, an `np.dtype`."""
        return self._device.backend.named_dtypes[self._array.dtype]

    @property
    def shape(self) -> Shape:
        """The size along each axis."""
        shape = self._array.shape
        return shape if type(shape) is tuple else tuple(shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._array.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for length in self._array.shape:
            size *= length
        return size

    @property
    def nbytes(self) -> int:
        """The number of bytes that the elements take."""
        array = self._array
        if type(array) is np.ndarray:
            return array.nbytes
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes between neighbors along each axis of `numpy()`, which other libraries ask for.

        >>> pb.zeros((2, 3)).strides
        (12, 4)
        """
        array = self._array
        return tuple(self.numpy().strides) if type(array) is not np.ndarray else array.strides

    @property
    def device(self) -> Device:
        """The device of the array."""
        return self._device

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix; a vector and a scalar are their own, as in NumPy.

        Raises:
            ShapeError: for a tensor of more than two axes; use `mT` or `permute_dims` there.
        """
        if self.ndim < 2:
            return self
        if self.ndim > 2:
            raise errors.ShapeError(
                f"x.T needs a matrix, got shape {self.shape}; use x.mT or pb.permute_dims"
            )
        return OPERATORS.matrix_transpose(self)

    @property
    def mT(self) -> Tensor:
        """The transpose of the last two axes."""
        return OPERATORS.matrix_transpose(self)

    # To the host ---------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values as a NumPy array: read-only, and without a copy where the backend allows.

        Waits until they have been computed.

        Raises:
            BackendError: for an error that the device reports only now.
        """
        if TRACES.count:
            OPERATORS.reject_reading()
        try:
            return self._device.backend.to_host(self._array)
        except LATE_ERRORS as error:
            raise_late(error, self._device, self._device.backend)

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise errors.InputValueError(
                    f"a {array.dtype} tensor is no {dtype} array without a copy; drop copy=False"
                )
            return cast(array, np.dtype(dtype))
        return array.copy() if copy else array

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The namespace of array functions: pullback itself (array API standard)."""
        return OPERATORS.array_namespace(api_version)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return OPERATORS.numpy_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: object, types: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        return OPERATORS.numpy_function(function, types, args, kwargs)

    def item(self) -> bool | int | float | complex:
        """The only element, as a Python number.

        Raises:
            ShapeError: for a tensor of more or fewer elements than one.
        """
        if self.size != 1:
            raise errors.ShapeError(
                f"only a tensor of one element is a Python number, got shape {self.shape}; "
                f"index it, or use tolist()"
            )
        value: bool | int | float | complex = _item(self)
        return value

    def tobytes(self) -> bytes:
        """The bytes of the values, in the order of the last axis first."""
        return self.numpy().tobytes()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        return self.numpy().tolist()

    def _scalar(self, target: str) -> Any:
        if self._array.shape not in ((), (1,)) and self.size != 1:
            hint = "; use pb.any or pb.all" if target == "bool" else ""
            raise errors.ShapeError(
                f"{target}() needs a tensor of one element, got shape {self.shape}{hint}"
            )
        value = _item(self)
        if type(value) is complex and target in ("int", "float"):
            raise errors.InputTypeError(
                f"{target}() of a complex tensor would drop a part; take x.real or x.imag first"
            )
        return value

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        value = self._scalar("index")
        if kind(self.dtype) != INT or self.ndim:
            raise errors.InputTypeError(
                f"only a 0-d integer tensor is an index, got {self.dtype} of shape {self.shape}"
            )
        return int(value)

    def __len__(self) -> int:
        if not self._array.shape:
            raise errors.InputTypeError("a 0-d tensor has no length")
        return int(self._array.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not self._array.shape:
            raise errors.InputTypeError("a 0-d tensor cannot be iterated over")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: object) -> bool:
        return bool(OPERATORS.any(self == value))

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if self.size != 1:
            raise errors.ShapeError(
                f"the format {spec!r} is for one number, got shape {self.shape}; "
                f"index the tensor, or print it without a format"
            )
        return format(self.item(), spec)

    def _text(self) -> str | None:
        """The text in place of values, where there are none, or each item has others."""
        shown = OPERATORS.lifted(self) if TRACES.count else self
        return shown._device.text_of(shown)

    def __repr__(self) -> str:
        text = self._text()
        if text is not None:
            return text
        values = printed(self.numpy(), separator=", ", prefix="Tensor(")
        return f"Tensor({values}, shape={self.shape}, dtype={self.dtype}, device={self._device})"

    def __str__(self) -> str:
        text = self._text()
        if text is not None:
            return text
        if not self._array.shape:
            # In texts, progress bars and labels a scalar is its number, as NumPy's is.
            return str(self.numpy()[()])
        values = printed(self.numpy())
        return f"{values} shape={self.shape} dtype={self.dtype} device={self._device}"

    def _repr_html_(self) -> str:
        # As notebooks show it.
        from pullback._notebook import array_html

        title = f"Tensor of shape {self.shape}, {self.dtype}, on {self._device}"
        return array_html(title, self.numpy())

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self.__copy__()

    def __copy__(self) -> Tensor:
        # The buffer is immutable: another handle on it is a copy.
        source = OPERATORS.lifted(self) if TRACES.count else self
        other = new_tensor()
        other._array, other._device, other._node = source._array, source._device, source._node
        other._base = None
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return (OPERATORS.to_device, (np.array(self.numpy()), self._device))

    # Between devices and libraries ---------------------------------------------------------------

    def to(self, device: DeviceLike) -> Tensor:
        """The tensor on `device`; itself when it is there. Gradients flow back through the move."""
        return OPERATORS.to_device(self, device)

    def to_device(self, device: DeviceLike, /, *, stream: Any = None) -> Tensor:
        """The tensor on `device` (array API standard)."""
        if stream is not None:
            raise errors.InputValueError("streams are the backend's own; call to_device(device)")
        return OPERATORS.to_device(self, device)

    def cpu(self) -> Tensor:
        """The tensor on the CPU."""
        return self.to("cpu:0")

    def gpu(self, index: int = 0) -> Tensor:
        """The tensor on a GPU."""
        return self.to(f"gpu:{index}")

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The array as a DLPack capsule, for other libraries (array API standard)."""
        if self.dtype in STORAGE:
            raise errors.ExchangeError(
                f"{self.dtype} is not handed out by DLPack; convert with x.astype(pb.float32) "
                f"first, or take x.numpy()"
            )
        if TRACES.count:
            OPERATORS.reject_reading()
        return self._device.backend.to_dlpack(
            self._array, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, index = self._array.__dlpack_device__()
        return int(kind), int(index)

    # Indexing ------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        return OPERATORS.get_item(self, key)

    def __setitem__(self, key: Any, value: TensorLike) -> None:
        """Writes `value` at a key: the handle gets a new array and node, all others keep theirs.

        The array may be the old one with new contents where nothing else refers to it.

        Raises:
            InputValueError: for a view (by basic indexing, `reshape`, `flip`, ...) of a tensor in
                use, which the write would not reach. Write into that one, or into a copy.
        """
        if self._base is not None:
            refuse_write(self)
        result = OPERATORS.set_item(self, key, value)
        if result is self:
            return  # written into its array, which nobody else has
        if result._device is not self._device:
            raise Break(
                "assigns parts of a tensor that was made outside",
                "copy it in the function (x = pb.asarray(x, copy=True)) and return the copy",
            )
        self._array, self._node = result._array, result._node
        self._base = None


# Type checkers take `x += 1` for what Python makes of it, `x = x + 1`.
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    setattr(Tensor, f"__i{_name}__", in_place(getattr(Tensor, f"__{_name}__")))
for _name in ("and", "or", "xor", "lshift", "rshift"):
    setattr(Tensor, f"__i{_name}__", in_place(getattr(Tensor, f"__{_name}__")))


#: Makes a tensor, whose attributes the caller sets, in the time of a call of the class.
new_tensor: Callable[[], Tensor] = type.__call__.__get__(Tensor)


# An object, so that `TensorLike | None` is one in modules without the __future__ line.
TensorLike: TypeAlias = (
    Tensor | SupportsTensor | np.ndarray[Any, Any] | np.generic | complex | Sequence["TensorLike"]
)
"""A value that ops take for a tensor: a Tensor, a Variable, a NumPy array, a number, a sequence."""


answer_attributes(Tensor, TENSOR)


def wrap(array: Native, device: Device, node: object = None) -> Tensor:
    """A tensor on a native array."""
    tensor = new_tensor()
    tensor._array = array
    tensor._device = device
    tensor._base = None
    tensor._node = node
    return tensor
