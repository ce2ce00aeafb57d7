"""`functional_call`: a model with other values in place of those of its variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import LOCAL, RECORDING
from pullback._hints import close_names
from pullback.state.objects import named_variables
from pullback.tensor import Tensor, TensorLike
from pullback.variable import Variable

__all__ = ["functional_call"]


def functional_call(
    model: Callable[..., Any],
    values: Mapping[str, TensorLike] | Sequence[TensorLike],
    *args: Any,
    assigned: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls a model with other values in place of those of its variables.

    The model keeps its own values: what the call assigns to a variable that has another value, as
    batch normalization does, is seen by the rest of the call alone. Gradients flow to the values.

    Args:
        model: a model, a layer, or any object with variables that can be called.
        values: for variables their values, by the paths of `pb.state.named_variables(model)`;
            variables that are left out keep theirs. Or a list, one for each of
            `model.trainable_variables`.
        args: what the model is called with.
        assigned: True for a pair: the result, and the values after the call by path.
        kwargs: what the model is called with, by keyword.

    Returns:
        What the model returns.

    >>> model = pb.layers.Dense(1, use_bias=False)
    >>> x = pb.ones((2, 3))
    >>> _ = model(x)
    >>> pb.functional_call(model, {"kernel": pb.ones((3, 1))}, x).tolist()
    [[3.0], [3.0]]
    >>> loss = lambda values: pb.sum(pb.functional_call(model, values, x))
    >>> pb.grad(loss)([pb.ones((3, 1))])[0].shape
    (3, 1)

    Raises:
        InputValueError: for a path that no variable has, or another number of values.
        ShapeError, DTypeError: for a value of another shape or dtype than the variable's.
    """
    if not callable(model):
        raise errors.InputTypeError(
            f"pb.functional_call takes a model that can be called, got {type(model).__name__}"
        )
    named = named_variables(model)
    if not isinstance(values, (Mapping, Sequence)) or isinstance(values, str):
        raise errors.InputTypeError(
            f"pb.functional_call: values is a dict by path or a list of tensors, got "
            f"{type(values).__name__}"
        )
    if isinstance(values, Mapping):
        chosen = {path: _named(named, path) for path in values}
        given = list(values.values())
    else:
        own: list[Variable] = list(getattr(model, "trainable_variables", named.values()))
        given = list(values)
        if len(given) != len(own):
            raise errors.InputValueError(
                f"pb.functional_call: {len(given)} values for {len(own)} trainable variables; give "
                f"one for each, or a dict by path"
            )
        paths = {id(variable): path for path, variable in named.items()}
        chosen = {paths[id(variable)]: variable for variable in own}
    pairs = {
        path: (variable, _fitting(path, variable, value))
        for (path, variable), value in zip(chosen.items(), given, strict=True)
    }
    with replaced(pairs.values()) as now:
        result = model(*args, **kwargs)
    if not assigned:
        return result
    return result, {path: now[id(variable)] for path, (variable, _) in pairs.items()}


def _named(named: Mapping[str, Variable], path: str) -> Variable:
    if not named:
        raise errors.InputValueError(
            "pb.functional_call: the model has no variables yet; call it once with data, or build "
            "it, and they have paths"
        )
    if path not in named:
        close = close_names(str(path), named, 3, 0.6) or list(named)[:5]
        raise errors.InputValueError(
            f"pb.functional_call: no variable has the path {path!r}; there are "
            f"{', '.join(map(repr, close))}: pb.state.named_variables(model) lists all"
        )
    return named[path]


def _fitting(path: str, variable: Variable, value: TensorLike) -> Tensor:
    is_tensor = hasattr(type(value), "__pullback_tensor__")
    tensor = from_any(value) if is_tensor else from_any(value, variable.dtype, variable.device)
    for kind, own, other in (
        (errors.ShapeError, variable.shape, tensor.shape),
        (errors.DTypeError, variable.dtype, tensor.dtype),
    ):
        if own != other:
            raise kind(
                f"pb.functional_call: the value of {path!r} has {other}, and the variable {own}"
            )
    return tensor


@contextmanager
def replaced(pairs: Any) -> Iterator[dict[int, Tensor]]:
    """Has variables read as other tensors in this thread."""
    state = LOCAL.state
    before = state.values
    # The variables are kept alive by their model.
    now = {**before, **{id(variable): tensor for variable, tensor in pairs}}
    state.values = now
    RECORDING.count += 1
    try:
        yield now
    finally:
        RECORDING.count -= 1
        state.values = before
