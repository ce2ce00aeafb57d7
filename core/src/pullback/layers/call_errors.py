"""Errors in the call of a layer: they name the layer, and keep the lines that led to them."""

from __future__ import annotations

import inspect
from typing import Any

from pullback import _hints, errors
from pullback._tree import leaves
from pullback.state import objects
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["add_layer_note", "check_replacement", "reject_input", "with_path"]


def check_replacement(layer: Any, name: str, value: object) -> None:
    """Checks what is assigned over a variable of a layer: nothing that could be its value.

    Raises:
        LayerError: for a tensor, an array, a number or a list.
    """
    if isinstance(value, (int, float, complex, list, tuple)) or (
        not isinstance(value, Variable) and hasattr(type(value), "__array__")
    ):
        raise errors.LayerError(
            f"{layer.name}: {name} is a variable, and a {type(value).__name__} in its place would "
            f"not be trained or saved; write layer.{name}.assign(value) to change its value, or "
            f"`del layer.{name}` first to do without the variable"
        )


def with_path(layer: Any, error: errors.PullbackError, args: tuple[Any, ...]) -> Exception:
    """Returns the error with the path from this layer to the layer that raised it.

    For wrong shapes it is a LayerError, which says what the layer was called with.
    """
    innermost = getattr(error, "layer", None)
    if innermost is None:
        reason = str(error)
        if isinstance(error, (errors.ShapeError, errors.AxisError)):
            notes = getattr(error, "__notes__", ())
            error = errors.LayerError(f"{reason} (called with {_described(args)})")
            for note in notes:
                error.add_note(note)
        innermost = error.layer = layer  # type: ignore[attr-defined]
        error.reason = str(error)  # type: ignore[attr-defined]
    path = objects.path_of(layer, innermost)
    kind = type(innermost).__name__
    where = f"{path} ({kind})" if path else f"{innermost.name} ({kind})"
    error.args = (f"{where}: {error.reason}",)  # type: ignore[attr-defined]
    return error


def add_layer_note(layer: Any, error: Exception, args: tuple[Any, ...]) -> None:
    """Adds the innermost layer to an error of Python's, or of another library's."""
    if getattr(error, "__notes__", None):
        return
    if isinstance(error, TypeError) and _hints.is_of_call(error):
        error.add_note(
            f"{type(layer).__name__}.call has the parameters {inspect.signature(layer.call)}; "
            f"a layer is called with as many inputs as its call takes, and fit passes all inputs "
            f"as one argument: `def call(self, inputs): a, b = inputs`"
        )
    elif isinstance(error, TypeError) and not isinstance(error, errors.PullbackError):
        advice = _hints.keyword_note(error)
        if advice is not None:
            error.add_note(advice)
    error.add_note(f"in {layer.name} ({type(layer).__name__}), called with {_described(args)}")


def reject_input(layer: Any, error: Exception, args: tuple[Any, ...]) -> None:
    """Raises where one of the framework's layers has failed for want of a tensor.

    Raises:
        InputTypeError: from the error, if the first input has no tensor.
    """
    own = type(layer).__module__.startswith("pullback.")
    if not own or not args or any(type(leaf) is Tensor for leaf in leaves(args[0])):
        return
    kind = type(args[0])
    text = "; turn text into integers first, such as places in a vocabulary" if kind is str else ""
    raise errors.InputTypeError(
        f"{layer.name} ({type(layer).__name__}) takes tensors or arrays of numbers, got "
        f"{kind.__name__}{text}"
    ) from error


def _described(args: tuple[Any, ...]) -> str:
    return ", ".join(map(_description, args)) or "no inputs"


def _description(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} {value.shape}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_description(item) for item in value) + "]"
    return type(value).__name__
