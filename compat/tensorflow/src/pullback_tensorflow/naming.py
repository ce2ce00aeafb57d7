"""Maps calls of one framework to another: arguments are renamed, reordered or dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pullback as pb
from pullback import errors

#: Arguments of TensorFlow's functions and layers without effect here.
IGNORED = frozenset({"scope", "reuse", "_scope", "_reuse", "use_locking"})


def op(target: str | Callable[..., Any], parameters: str) -> Callable[..., Any]:
    """A function under TensorFlow's names of its first arguments; it takes a `name` and drops it.

    Args:
        target: the name of an op, or a function.
        parameters: TensorFlow's names of the arguments, in the order of the target's.

    >>> from pullback.compat.tensorflow.naming import op
    >>> add = op("add", "x y")
    >>> float(add(1.0, y=2.0, name="sum"))
    3.0
    """
    names = parameters.split()
    function = getattr(pb, target) if isinstance(target, str) else target

    def mapped(*args: Any, name: str | None = None, **kwargs: Any) -> Any:
        values = list(args)
        for parameter in names[len(args) :]:
            if parameter not in kwargs:
                break
            values.append(kwargs.pop(parameter))
        return function(*values, **kwargs)

    mapped.__name__ = mapped.__qualname__ = getattr(function, "__name__", "mapped")
    mapped.__doc__ = function.__doc__
    return mapped


def translate(
    what: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    order: Sequence[str],
    renamed: Mapping[str, str],
    dropped: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """The arguments of a call by pullback's names.

    Args:
        what: the name of the callee, for messages.
        args: the arguments by position.
        kwargs: the arguments by TensorFlow's names.
        order: TensorFlow's names of the arguments by position.
        renamed: pullback's names, where they differ.
        dropped: the names of arguments without effect here.

    Raises:
        InputTypeError: for more arguments than names, or an argument given twice.
    """
    if len(args) > len(order):
        raise errors.InputTypeError(
            f"{what} takes {len(order)} arguments by position ({', '.join(order)}), got {len(args)}"
        )
    named = dict(zip(order, args, strict=False))
    twice = sorted(named.keys() & kwargs.keys())
    if twice:
        raise errors.InputTypeError(f"{what} got {', '.join(twice)} twice")
    named |= kwargs
    return {
        renamed.get(name, name): value
        for name, value in named.items()
        if name not in dropped | IGNORED
    }
