"""Checks of the arguments of optimizers: rates, fractions, pairs of gradients and variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, SupportsFloat, TypeAlias

from pullback import errors
from pullback._dispatch.arguments import as_float
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import LOCAL
from pullback.shapes import check_number
from pullback.tensor import Tensor, TensorLike
from pullback.variable import Variable

__all__ = ["Pairs", "checked_fraction", "checked_pairs", "checked_rate", "unpacked"]

#: Gradients and their variables.
Pairs: TypeAlias = "list[tuple[Tensor, Variable]]"


def checked_fraction(name: str, value: float) -> float:
    """Returns a value that is in [0, 1).

    Raises:
        InputTypeError: for what is not a number.
        InputValueError: for a value outside [0, 1).
    """
    if not 0 <= as_float(value, name) < 1:
        raise errors.InputValueError(f"{name} must be in [0, 1), got {value}")
    return value


def checked_rate(rate: SupportsFloat) -> float:
    """Returns a learning rate as a number.

    Raises:
        InputTypeError: for anything that is not a number.
        InputValueError: for a negative or non-finite one.
    """
    try:
        check_number(rate, "a learning rate")
    except errors.InputTypeError:
        raise errors.InputTypeError(
            f"a learning rate must be a number, a variable or a function of the step, got "
            f"{type(rate).__name__}; pass variables to apply_gradients or minimize"
        ) from None
    number = float(rate)
    if not 0 <= number < float("inf"):
        raise errors.InputValueError(f"a learning rate must be 0 or more and finite, got {number}")
    return number


def unpacked(pairs: Any) -> Iterator[tuple[Any, Any]]:
    """Yields pairs, of an iterable of whatever holds two.

    Raises:
        InputTypeError: for what is not iterable, and for what does not hold two.
    """
    try:
        several = iter(pairs)
    except TypeError:
        several = iter([pairs])
    for pair in several:
        try:
            gradient, variable = pair
        except (TypeError, ValueError):
            raise errors.InputTypeError(
                f"apply_gradients takes (gradient, variable) pairs, such as "
                f"zip(gradients, variables), got {type(pair).__name__} for a pair"
            ) from None
        yield gradient, variable


def checked_pairs(pairs: Iterable[tuple[TensorLike | None, Variable]]) -> Pairs:
    """Returns the pairs that have a gradient, each as a tensor on the device of its variable.

    Raises:
        InputTypeError: for a value that is not a variable.
        InputValueError: if no pair has a gradient, or a variable is in two of them.
        ShapeError: for a gradient of another shape than its variable.
    """
    checked: Pairs = []
    seen: set[int] = set()
    without = 0
    replaced = LOCAL.state.values
    for gradient, variable in unpacked(pairs):
        if not isinstance(variable, Variable):
            raise errors.InputTypeError(
                f"apply_gradients takes (gradient, variable) pairs, got "
                f"{type(variable).__name__} for a variable"
            )
        if gradient is None:
            without += 1
            continue
        if replaced and id(variable) in replaced:
            raise errors.VariableError(
                f"{variable.name or 'a variable'} has another value inside pb.functional_call, and "
                f"an optimizer steps the variable itself; compute the next values with ops"
            )
        if id(variable) in seen:
            raise errors.InputValueError(f"{variable!r} is in two pairs; add its gradients first")
        seen.add(id(variable))
        device = variable._device
        if type(gradient) is Tensor and gradient._device is device:
            tensor = gradient
        else:
            tensor = from_any(gradient, None, device)
        if tensor._array.shape != variable._array.shape:
            raise errors.ShapeError(
                f"the gradient of {variable.name or 'a variable'} has shape {tensor.shape}, and "
                f"the variable {variable.shape}"
            )
        checked.append((tensor, variable))
    if not checked:
        raise errors.InputValueError(
            f"none of {without} variables has a gradient; compute the loss from them "
            f"inside `with tape:`"
            if without
            else "there are no variables to move; does the loss read any that are trainable?"
        )
    return checked
