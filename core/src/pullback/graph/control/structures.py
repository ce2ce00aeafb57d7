"""Structures of tensors, which control flow takes and returns, and their comparison."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from pullback import errors
from pullback._batching.arrays import BatchDevice
from pullback._dispatch.convert import as_tensor, from_any
from pullback._dispatch.recording import capturing
from pullback._hints import is_of_call
from pullback._tree import leaves, mapped
from pullback.dtypes import bool_
from pullback.tensor import Tensor, wrap

R = TypeVar("R")


def handle(value: object) -> Tensor:
    """The tensor of a value, in a handle of its own: `x[0] = 1` on it leaves the value as it is.

    Raises:
        ConversionError: for something that is not an array of numbers.
    """
    tensor = value if type(value) is Tensor else from_any(value)
    capture = capturing()
    if capture is not None:
        # Before the new handle: what the user assigns to a tensor from outside is seen.
        tensor = capture.lift(tensor)
    return wrap(tensor._array, tensor._device, tensor._node)


def tensors(structure: object) -> Any:
    """The structure with a tensor for each value."""
    return mapped(handle, structure)


def checked_function(name: str, argument: str, f: Callable[..., R], takes: str) -> Callable[..., R]:
    """Returns a function whose calls say what it has to take, where it takes something else.

    Raises:
        InputTypeError: for something that cannot be called.
    """
    if not callable(f):
        raise errors.InputTypeError(
            f"{name}: {argument} must be a function of {takes}, got {type(f).__name__}"
        )

    def call(*args: object) -> R:
        try:
            return f(*args)
        except TypeError as error:
            if not is_of_call(error):
                raise
            reason = str(error).partition("() ")[2] or str(error)
            reason = f"{'it is' if reason.startswith('missing') else 'it'} {reason}"
        raise errors.InputTypeError(f"{name}: {argument} is called with {takes}, but {reason}")

    return call


def operands(structure: object) -> Any:
    """The structure with new handles of its tensors and arrays; other values are as they are."""
    kinds = (Tensor, np.ndarray)
    return mapped(lambda value: handle(value) if type(value) in kinds else value, structure)


def form(structure: object) -> Any:
    """A description of a structure without its values; equal for structures that are alike.

    >>> form({"a": (1, None)}) == form({"a": (2, None)}), form([1]) == form((1,))
    (True, False)
    """
    if isinstance(structure, dict):
        return dict, tuple((key, form(item)) for key, item in structure.items())
    if isinstance(structure, (list, tuple)):
        return type(structure), tuple(map(form, structure))
    return "None" if structure is None else "*"


def paths(structure: object, path: str = "") -> Iterator[str]:
    """The paths of the values of a structure: "[0]['a']"."""
    if isinstance(structure, dict):
        for key, item in structure.items():
            yield from paths(item, f"{path}[{key!r}]")
    elif isinstance(structure, (list, tuple)):
        for i, item in enumerate(structure):
            yield from paths(item, f"{path}[{i}]")
    elif structure is not None:
        yield path


def check_alike(
    name: str, first: str, one: object, second: str, other: object, advice: str
) -> None:
    """Compares two structures of tensors.

    Args:
        name: the function that the user called: "pb.cond".
        first: what the first structure is: "true_fn returns".
        one: the first structure.
        second: what the second one is: "false_fn returns".
        other: the second structure.
        advice: what to do about a difference.

    Raises:
        InputValueError: for another structure.
        ShapeError: for a tensor of another shape.
        DTypeError: for a tensor of another dtype.
    """
    if form(one) != form(other):
        raise errors.InputValueError(
            f"{name}: {first} {_text(one)}, {second} {_text(other)}; {advice}"
        )
    for path, x, y in zip(paths(one), leaves(one), leaves(other), strict=True):
        kind = errors.ShapeError if x.shape != y.shape else errors.DTypeError
        if x.shape != y.shape or x.dtype != y.dtype:
            at = f" at {path}" if path else ""
            raise kind(f"{name}: {first} {_text(x)}, {second} {_text(y)}{at}; {advice}")


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_text(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, tuple):
        items = ", ".join(map(_text, value))
        name = type(value).__name__ if hasattr(value, "_fields") else ""
        return f"{name}({items}{',' if len(value) == 1 else ''})"
    return "None" if value is None else f"{value.dtype}{list(value.shape)}"


# What is chosen by --------------------------------------------------------------------------------


def predicate(name: str, argument: str, value: object) -> bool | Tensor:
    """A boolean to choose by: a tensor in a trace or a batch, else a bool.

    Raises:
        DTypeError: for a tensor that is not boolean.
        ShapeError: for a tensor of several elements.
        InputTypeError: for a value that is not a boolean.
    """
    if isinstance(value, (bool, int)) or (isinstance(value, np.generic) and value.dtype == bool_):
        return bool(value)
    tensor = _scalar(name, argument, value, "a boolean scalar", "write pb.any(x) or pb.all(x)")
    if tensor.dtype != bool_:
        raise errors.DTypeError(
            f"{name}: {argument} must be a boolean scalar, got {tensor.dtype}; write a comparison, "
            f"such as x > 0 or x != 0"
        )
    return tensor if _is_unknown(tensor) else bool(tensor)


def integer(name: str, argument: str, value: object) -> int | Tensor:
    """An integer to choose by: a tensor in a trace or a batch, else an int.

    Raises:
        DTypeError: for a tensor that is not of integers.
        ShapeError: for a tensor of several elements.
        InputTypeError: for a value that is not an integer.
    """
    if not hasattr(type(value), "__pullback_tensor__"):
        try:
            return operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            pass
    tensor = _scalar(name, argument, value, "an integer", "index it, such as x[0]")
    if tensor.dtype.kind not in "iu":
        raise errors.DTypeError(
            f"{name}: {argument} must be an integer, got {tensor.dtype}; write x.astype('int32')"
        )
    return tensor if _is_unknown(tensor) else int(tensor)


def _is_unknown(tensor: Tensor) -> bool:
    """Returns whether a choice is made later: in a trace, and where items of a batch differ."""
    return capturing() is not None or differs(tensor)


def differs(tensor: Tensor) -> bool:
    """Returns whether each item of a batch may have another value of a tensor."""
    at = tensor
    while isinstance(at._device, BatchDevice):
        if at._array.run is not None:
            return True
        at = at._array.tensor
    return False


def _scalar(name: str, argument: str, value: Any, what: str, way_out: str) -> Tensor:
    tensor = as_tensor(value)
    if tensor is None:
        if isinstance(value, (float, complex, str)) or value is None:
            raise errors.InputTypeError(
                f"{name}: {argument} must be {what}, got {type(value).__name__}; write a "
                f"comparison or an int"
            )
        tensor = from_any(value)
    if tensor.shape:
        raise errors.ShapeError(
            f"{name}: {argument} must be {what}, got shape {tensor.shape}; {way_out}"
        )
    capture = capturing()
    return tensor if capture is None else capture.lift(tensor)
