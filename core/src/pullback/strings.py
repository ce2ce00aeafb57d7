"""Tensors of strings. They stay on the host: no device computes with text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pullback import errors
from pullback._operators import OPERATORS

__all__ = ["StringTensor", "is_text"]


def is_text(value: Any) -> bool:
    """Returns whether a value is a string, or an array or nested list of nothing but strings."""
    if isinstance(value, (str, bytes, StringTensor)):
        return True
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return all(isinstance(item, (str, bytes)) for item in value.flat)
        return value.dtype.kind in "US"
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(is_text, value))
    return False


class StringTensor:
    """Strings in the shape of an array, as datasets give them.

    It can be sliced, compared, iterated over and printed; single elements are Python strings.
    Comparisons return tensors of booleans.

    Args:
        value: a string, or nested lists or an array of strings.

    >>> names = pb.StringTensor(["cat", "dog"])
    >>> names
    StringTensor(['cat', 'dog'], shape=(2,))
    >>> names[1], (names == "cat").tolist()
    ('dog', [True, False])

    Raises:
        ConversionError: for values that are not an array of strings.
    """

    __slots__ = ("_array",)
    # NumPy leaves operators to this class, which raises for them.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        if not is_text(value):
            raise errors.ConversionError(f"{type(value).__name__} is not an array of strings")
        self._array: np.ndarray[Any, Any]
        try:
            self._array = np.array(value)
        except ValueError:
            raise errors.ConversionError(
                "nested lists of unequal lengths cannot be an array; pad them to one length"
            ) from None
        self._array.flags.writeable = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return tuple(self._array.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """The number of strings."""
        return self._array.size

    @property
    def dtype(self) -> Any:
        """NumPy's dtype of the strings."""
        return self._array.dtype

    @property
    def device(self) -> str:
        """The device of strings: "host"."""
        return "host"

    def numpy(self) -> np.ndarray[Any, Any]:
        """The strings as an array that cannot be written to."""
        return self._array

    def tolist(self) -> Any:
        """The strings as nested lists; one string for a 0-d tensor."""
        return self._array.tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._array, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        if not self._array.ndim:
            raise errors.InputTypeError("a 0-d string tensor has no length; use x.size")
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and text in self._array

    def __getitem__(self, key: Any) -> Any:
        entries = key if isinstance(key, tuple) else (key,)
        try:
            selected = self._array[tuple(map(_index, entries))]
        except (IndexError, ValueError) as error:
            raise errors.IndexingError(str(error)) from None
        if isinstance(selected, np.ndarray):
            return StringTensor(selected)
        # An element of an array of Python objects is the string itself.
        return selected.item() if isinstance(selected, np.generic) else selected

    def __str__(self) -> str:
        return f"{self._array} shape={self.shape} dtype=str device=host"

    def __repr__(self) -> str:
        return f"StringTensor({self.tolist()!r}, shape={self.shape})"

    def __format__(self, spec: str) -> str:
        return format(self._array.item() if spec and not self.ndim else str(self), spec)

    # Comparisons ---------------------------------------------------------------------------------

    def _compare(self, name: str, other: Any) -> Any:
        if not is_text(other):
            return NotImplemented
        array = other._array if isinstance(other, StringTensor) else np.asarray(other)
        try:
            return OPERATORS.asarray(np.asarray(getattr(self._array, name)(array)))
        except ValueError:
            raise errors.ShapeError(
                f"strings of shapes {self.shape} and {array.shape} cannot be compared; "
                f"they must broadcast"
            ) from None

    def __eq__(self, other: object) -> Any:
        return self._compare("__eq__", other)

    def __ne__(self, other: object) -> Any:
        return self._compare("__ne__", other)

    def __lt__(self, other: Any) -> Any:
        return self._compare("__lt__", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("__le__", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare("__gt__", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare("__ge__", other)

    # Arithmetic ----------------------------------------------------------------------------------

    def _no_arithmetic(self, *_: object) -> Any:
        raise errors.DTypeError(
            "there is no arithmetic on strings; convert them to Python's with x.tolist()"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_arithmetic
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _no_arithmetic
    __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _no_arithmetic
    __neg__ = __pos__ = __abs__ = __float__ = __int__ = __bool__ = _no_arithmetic


def _index(entry: Any) -> Any:
    """An entry of a key for NumPy: tensors of integers or booleans as arrays."""
    return entry.numpy() if hasattr(type(entry), "__pullback_tensor__") else entry
