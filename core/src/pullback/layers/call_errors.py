"""Errors in the call of a layer: they name the layer, and keep the lines that led to them."""

from __future__ import annotations

import inspect
from types import NoneType
from typing import TYPE_CHECKING, Any

from pullback import _hints, errors
from pullback.state import objects
from pullback.strings import StringTensor
from pullback.tensor import Tensor
from pullback.variable import Variable

if TYPE_CHECKING:
    from pullback.layers.layer import Layer

__all__ = ["add_layer_note", "check_replacement", "of_input", "of_shape", "with_path"]

FRAMEWORK = __name__.partition(".")[0]


def check_replacement(layer: Layer, name: str, value: object) -> None:
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


def with_path(layer: Layer, error: errors.PullbackError, args: tuple[Any, ...]) -> Exception:
    """Returns the error with the path from this layer to the layer that raised it.

    For wrong shapes it is a LayerError. It says what the layer was called with, as does the error
    for text and for a structure, which is else told by a shape that nobody gave.
    """
    innermost = getattr(error, "layer", None)
    if innermost is None:
        of_shape = isinstance(error, (errors.ShapeError, errors.AxisError))
        reason = str(error)
        if of_shape or any(isinstance(arg, (StringTensor, list, tuple, dict)) for arg in args):
            reason += f" (called with {_described(args)})"
        if of_shape:
            notes = getattr(error, "__notes__", ())
            error = errors.LayerError(reason)
            for note in notes:
                error.add_note(note)
        innermost = error.layer = layer  # type: ignore[attr-defined]
        error.reason = reason  # type: ignore[attr-defined]
    if len(args) == 1 and isinstance(args[0], tuple):
        error.reason += _of_defaults(layer)  # type: ignore[attr-defined]
    path = objects.path_of(layer, innermost)
    kind = type(innermost).__name__
    where = f"{path} ({kind})" if path else f"{innermost.name} ({kind})"
    error.args = (f"{where}: {error.reason}",)  # type: ignore[attr-defined]
    return error


def _of_defaults(layer: Layer) -> str:
    """What to add to the error for one tuple, where `call` has further inputs with defaults."""
    parameters = [
        parameter
        for parameter in inspect.signature(layer.call).parameters.values()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name != "training"
    ]
    if len(parameters) < 2 or parameters[1].default is inspect.Parameter.empty:
        return ""
    first, second, *_ = several = [parameter.name for parameter in parameters]
    return (
        f"; {type(layer).__name__}.call got the tuple as {first}, as {second} has a default: write "
        f"def call(self, {', '.join(several)}) for inputs that are given apart"
    )


def of_input(layer: Layer, error: Exception, args: tuple[Any, ...]) -> errors.InputTypeError | None:
    """The error for inputs that are not tensors, at which code of the framework's has failed."""
    # A key or place that a structure lacks is of what is in the inputs, not of their kind.
    missing = isinstance(error, LookupError) and any(
        isinstance(arg, (dict, list, tuple)) for arg in args
    )
    if missing or not isinstance(error, (TypeError, AttributeError, ValueError, LookupError)):
        return None
    known = all(isinstance(arg, (Tensor, NoneType)) for arg in args)
    given = known and args[:1] not in ((), (None,))
    if given or not _is_own(error):
        return None
    text = "; turn text into integers first, such as places in a vocabulary"
    return errors.InputTypeError(
        f"{layer.name} ({type(layer).__name__}) takes tensors or arrays of numbers, got "
        f"{_described(args)}{text if any(isinstance(arg, StringTensor) for arg in args) else ''}"
    )


def of_shape(layer: Layer, error: Exception, shape: object) -> errors.InputTypeError | None:
    """The error for what is not a shape, at which code of the framework's has failed."""
    if not _is_own(error):
        return None
    return errors.InputTypeError(
        f"{layer.name} ({type(layer).__name__}) is built for the shape of its inputs, such as "
        f"(None, 3), got {shape!r}"
    )


def _is_own(error: Exception) -> bool:
    """Returns whether code of the framework's alone has led from here to an error."""
    at = error.__traceback__
    if isinstance(error, errors.PullbackError) or at is None or at.tb_next is None:
        return False
    while at is not None:
        if str(at.tb_frame.f_globals.get("__name__")).partition(".")[0] != FRAMEWORK:
            return False
        at = at.tb_next
    return True


def add_layer_note(layer: Layer, error: Exception, args: tuple[Any, ...]) -> None:
    """Adds the innermost layer to an error of Python's, or of another library's."""
    if getattr(error, "__notes__", None):
        return
    if isinstance(error, TypeError) and _hints.is_of_call(error):
        error.add_note(
            f"{type(layer).__name__}.call has the parameters {inspect.signature(layer.call)}; "
            f"a layer is called with as many inputs as its call takes: layer(a, b), and "
            f"fit((a, b), targets)"
        )
    elif isinstance(error, TypeError) and not isinstance(error, errors.PullbackError):
        advice = _hints.keyword_note(error)
        if advice is not None:
            error.add_note(advice)
    error.add_note(f"in {layer.name} ({type(layer).__name__}), called with {_described(args)}")


def _described(args: tuple[Any, ...]) -> str:
    return ", ".join(map(_description, args)) or "no inputs"


def _description(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} {value.shape}"
    if isinstance(value, StringTensor):
        return f"text of shape {value.shape}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_description(item) for item in value) + "]"
    return type(value).__name__
