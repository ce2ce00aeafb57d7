"""`pb.padded`: arguments of many lengths become arguments of few."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback.ops.padding import pad
from pullback.tensor import Tensor

__all__ = ["padded"]

P = ParamSpec("P")
R = TypeVar("R")


def padded(
    axes: Mapping[str, int], /, *, value: float = 0
) -> Callable[[Callable[P, R]], Padded[P, R]]:
    """Pads arguments to the next power of two before each call of a function.

    A captured function has one program for each shape. With padded arguments it has one for 8,
    one for 16 and so on: ten for lengths up to 1,000, so `limit` has to be as many. What the
    function computes of the padding is the function's: give it the lengths, or a mask.

    Args:
        axes: the axis to pad of each argument, by the name of the parameter. The end is padded.
        value: what the padding is filled with.

    Returns:
        A decorator; it stands above `pb.function`.

    >>> @pb.padded({"x": 0})
    ... @pb.function(limit=10)
    ... def mean(x, length):
    ...     return pb.sum(x) / length
    >>> [float(mean(pb.ones(n), float(n))) for n in range(3, 17)][-3:]
    [1.0, 1.0, 1.0]
    >>> mean
    <padded mean, 2 programs>

    Raises:
        InputTypeError: for other axes than a dict of ints, and an argument that does not become a
            tensor.
        InputValueError: for the name of a parameter that the function does not have, and a call
            whose argument does not have the axis.
    """
    if not isinstance(axes, Mapping) or not all(type(axis) is int for axis in axes.values()):
        raise errors.InputTypeError(
            f'padded takes a dict of names and axes, such as {{"x": 1}}, got {axes!r}'
        )
    return functools.partial(Padded, axes=axes, value=value)


class Padded(Generic[P, R]):
    """A function whose arguments are padded. Made by `pullback.padded`."""

    def __init__(self, f: Callable[P, R], *, axes: Mapping[str, int], value: float) -> None:
        functools.update_wrapper(self, f, updated=())
        self._f = f
        self._axes, self._value = dict(axes), value
        names = [*inspect.signature(f).parameters]
        for name in axes:
            if name not in names:
                raise errors.InputValueError(
                    f"padded: {self._name} has no parameter {name!r}; it has {', '.join(names)}"
                )
        self._places = {name: names.index(name) for name in axes}

    @property
    def _name(self) -> str:
        return getattr(self._f, "__name__", type(self._f).__name__)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function with padded arguments."""
        given: list[Any] = [*args]
        for name, axis in self._axes.items():
            place = self._places[name]
            if name in kwargs:
                kwargs[name] = self._pad(kwargs[name], name, axis)
            elif place < len(given):
                given[place] = self._pad(given[place], name, axis)
        return self._f(*given, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """The padded method of an instance."""
        if instance is None:
            return self
        bind = getattr(self._f, "__get__", None)
        bound = MethodType(self._f, instance) if bind is None else bind(instance, owner)
        return Padded(bound, axes=self._axes, value=self._value)

    def __getattr__(self, name: str) -> Any:
        # `explain`, `graph` and `lower` of a captured function.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._f, name)

    def __repr__(self) -> str:
        return repr(self._f).replace("<captured", "<padded", 1)

    def _pad(self, value: Any, name: str, axis: int) -> Tensor:
        x = value if isinstance(value, Tensor) else from_any(value)
        if not isinstance(x, Tensor):
            raise errors.InputTypeError(
                f"padded: {name} of {self._name} must be a tensor, got {type(value).__name__}"
            )
        if not -x.ndim <= axis < x.ndim:
            raise errors.InputValueError(
                f"padded: {name} of {self._name} has shape {tuple(x.shape)}, and no axis {axis}"
            )
        length = x.shape[axis]
        missing = (1 << (length - 1).bit_length()) - length if length else 1
        if not missing:
            return x
        widths = [(0, 0)] * x.ndim
        widths[axis] = (0, missing)
        return pad(x, widths, constant_values=self._value)
