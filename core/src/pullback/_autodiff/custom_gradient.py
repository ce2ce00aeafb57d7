"""`custom_gradient`: functions with a derivative of their own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, cast

from pullback import dtypes, errors
from pullback._autodiff.functional import whole
from pullback._autodiff.tape import GradientTape
from pullback._batching.sealed import is_recorded_below, sealed
from pullback._dispatch.convert import from_any
from pullback._dispatch.general_vjp import pairs
from pullback._dispatch.recording import (
    CONSTANT,
    LOCAL,
    Node,
    Output,
    capturing,
    live,
    node_of,
)
from pullback._tree import leaves, like
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.ops.complex import conj
from pullback.ops.creation import full
from pullback.shapes import Shape
from pullback.tensor import Tensor, wrap

__all__ = ["custom_gradient"]

P = ParamSpec("P")
R = TypeVar("R")
#: Shape, dtype and device of an input or a result.
Kind: TypeAlias = tuple[Shape, DType, Device]


class ReadVariable(Protocol):
    """A variable that a function reads; the class is a level above."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> Shape: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def device(self) -> Device: ...
    def __pullback_tensor__(self) -> Tensor: ...


def custom_gradient(f: Callable[P, tuple[R, Callable[..., Any]]]) -> Callable[P, R]:
    """Makes a function whose gradient is computed by a function that it returns.

    Args:
        f: returns its result and `grad_fn`. `grad_fn` takes a cotangent for each result and
            returns a gradient for each positional argument of `f`, as a list if there are several,
            with None for an argument without a gradient. It is written with ops, so it can be
            differentiated again. If `f` reads trainable variables, `grad_fn` takes `variables=`,
            the list of them, and returns a pair: the gradients of the arguments, and a list of
            those of the variables.

    Returns:
        A function that returns the result alone. The ops inside `f` have no part in its gradient.

    >>> @pb.custom_gradient
    ... def halve_gradient(x):
    ...     return x * 1.0, lambda g: g * 0.5
    >>> float(pb.grad(halve_gradient)(3.0))
    0.5

    Raises:
        TapeError: when `f` reads variables that a tape watches and `grad_fn` takes no
            `variables=`.
        InputTypeError: when `f` returns something else, or a tensor with a gradient is passed by
            keyword.
    """
    return with_rule(
        f,
        "and its gradient function takes no variables=; give it that parameter, or pass the "
        "variables as arguments",
    )


def with_rule(f: Callable[P, tuple[R, Callable[..., Any]]], advice: str) -> Callable[P, R]:
    """A function with the gradient that it returns, as `custom_gradient` makes it.

    Args:
        f: returns its result and its gradient function.
        advice: the end of the error for the variables that `f` reads without a gradient.
    """
    name = getattr(f, "__name__", type(f).__name__)

    @functools.wraps(f)
    def function(*args: P.args, **kwargs: P.kwargs) -> R:
        capture = capturing()
        call = None if capture is None else capture.custom_gradient(name)
        if call is None and not LOCAL.state.recording:
            return cast("R", _pair(name, f(*args, **kwargs))[0])
        _reject_tracked(name, kwargs)
        if call is None:
            return cast("R", RuleCall(name, f, args, kwargs, advice).recorded())
        arguments, inputs = _inputs(args)

        def run(tensors: Iterable[Tensor]) -> RuleCall:
            return RuleCall(name, f, _with_tensors(arguments, tensors), kwargs, advice)

        rule, results = call(run, [tensor for tensor in inputs if tensor is not None])
        return cast("R", like(rule.result, iter(results)))

    return function


class RuleCall:
    """One call of a function with a gradient of its own.

    Args:
        name: the name of the function.
        f: returns its result and its gradient function.
        args: the arguments by position.
        kwargs: the arguments by keyword.
        advice: the end of the error for the variables that `f` reads without a gradient.
    """

    def __init__(
        self,
        name: str,
        f: Callable[..., tuple[object, Callable[..., Any]]],
        args: Iterable[object],
        kwargs: Mapping[str, object],
        advice: str,
    ) -> None:
        arguments, self._inputs = _inputs(args)
        # The ops inside are recorded, but nothing links them to the result: only `grad_fn` keeps
        # what it needs of them, and through those its own derivatives flow.
        with GradientTape() as tape:
            self.result, self._grad_fn = _pair(name, f(*arguments, **kwargs))
        #: The results, and the variables that the function reads: with gradients of them, without.
        self.outputs = [from_any(value) for value in leaves(self.result)]
        self.variables: Sequence[ReadVariable] = tape.watched_variables()
        self.unruled: Sequence[ReadVariable] = ()
        #: The error for one of the latter.
        self.error = ""
        if self.variables and not _takes_variables(self._grad_fn):
            self.variables, self.unruled = (), self.variables
            self.error = _unruled(name, self.unruled, advice)
        self._custom = _Custom(name, self.outputs, self._inputs, self.variables)

    def gradients(self, cotangents: dict[int, Tensor]) -> list[Tensor | None]:
        """The cotangents of the tensors, then of the variables, from those of the results."""
        found = self._custom.cotangents(self._grad_fn, cotangents)
        kinds = [*self._custom.inputs, *self.variables]
        return [part for part, kind in zip(found, kinds, strict=True) if kind is not None]

    def recorded(self) -> Any:
        """The result in new handles, on a node that stands for the whole function."""
        if any(live(variable.__pullback_tensor__()) is not None for variable in self.unruled):
            raise errors.TapeError(self.error)
        custom, grad_fn, outputs = self._custom, self._grad_fn, self.outputs
        sources = [*self._inputs, *(each.__pullback_tensor__() for each in self.variables)]
        if is_recorded_below(sources):
            outputs = sealed(
                custom.name, sources, outputs, lambda _, g: custom.cotangents(grad_fn, g)
            )
        parents = [*map(live, sources)]
        handles = [wrap(tensor._array, tensor._device, CONSTANT) for tensor in outputs]
        if any(parent is not None for parent in parents):
            state = LOCAL.state
            node = node_of(custom, parents, grad_fn)
            for position, handle in enumerate(handles):
                if dtypes.is_floating(handle.dtype):
                    handle._node = Output(state.next_serial(), node, position)
        return like(self.result, iter(handles))


def _with_tensors(arguments: Iterable[object], tensors: Iterable[Tensor]) -> list[object]:
    """The arguments with these tensors in place of theirs, in order."""
    rest = iter(tensors)
    return [
        like(arg, (next(rest) if type(part) is Tensor else part for part in leaves(arg)))
        for arg in arguments
    ]


def _unruled(name: str, variables: Sequence[ReadVariable], advice: str) -> str:
    names = [v.name or f"of shape {v.shape}" for v in variables]
    return f"{name} reads the variables {', '.join(names)}, {advice}"


def _pair(name: str, returned: object) -> tuple[Any, Callable[..., Any]]:
    """The result and the gradient function that the function returned."""
    if isinstance(returned, (tuple, list)) and len(returned) == 2 and callable(returned[1]):
        return returned[0], returned[1]
    raise errors.InputTypeError(
        f"{name}: a function with a gradient of its own must return its result and the gradient "
        f"function, such as `return y, lambda g: g * slope`; got {type(returned).__name__}"
    )


def _inputs(args: Iterable[object]) -> tuple[list[Any], list[Tensor | None]]:
    """The arguments with tensors in new handles, and these handles, None for other leaves."""
    arguments: list[Any] = []
    inputs: list[Tensor | None] = []
    for arg in map(whole, args):
        parts = [_handle(leaf) for leaf in leaves(arg)]
        arguments.append(like(arg, iter(parts)))
        inputs += [part if type(part) is Tensor else None for part in parts] or [None]
    return arguments, inputs


def _handle(value: object) -> object:
    if not (hasattr(type(value), "__pullback_tensor__") or hasattr(type(value), "__array__")):
        return value
    tensor = from_any(value)
    return tensor.__copy__()


def _reject_tracked(name: str, kwargs: dict[str, object]) -> None:
    for keyword, value in kwargs.items():
        for leaf in leaves(value):
            if type(leaf) is Tensor and live(leaf) is not None:
                raise errors.InputTypeError(
                    f"{name}: its gradient function returns no gradient for the keyword argument "
                    f"{keyword!r}; pass it by position"
                )


def _takes_variables(grad_fn: Callable[..., object]) -> bool:
    parameters = inspect.signature(grad_fn).parameters
    return "variables" in parameters or any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )


class _Custom:
    """The op of a custom gradient's node."""

    __slots__ = ("inputs", "name", "outputs", "variables")

    def __init__(
        self,
        name: str,
        outputs: Sequence[Tensor],
        inputs: Sequence[Tensor | None],
        variables: Sequence[ReadVariable],
    ) -> None:
        self.name = name
        self.variables = list(variables)
        self.outputs = [_kind(tensor) for tensor in outputs]
        self.inputs = [None if tensor is None else _kind(tensor) for tensor in inputs]

    def vjp(
        self, node: Node, g: dict[int, Tensor], needed: Collection[Node] | None, *_: object
    ) -> list[tuple[Node, Tensor]]:
        """The cotangents of the inputs and variables, from those of the results by position."""
        return pairs(node, self.cotangents(node.saved, g))

    def cotangents(self, grad_fn: Callable[..., Any], g: dict[int, Tensor]) -> list[Tensor | None]:
        """The cotangents of the inputs and variables, by the function that computes them."""
        cotangents = [
            _conjugate(g[position]) if position in g else full(shape, 0, dtype=dtype, device=device)
            for position, (shape, dtype, device) in enumerate(self.outputs)
        ]
        if not self.variables:
            return self._checked(grad_fn(*cotangents), self.inputs)
        parts, more = grad_fn(*cotangents, variables=self.variables)
        return self._checked(parts, self.inputs) + self._checked(more, map(_kind, self.variables))

    def _checked(self, returned: object, kinds: Iterable[Kind | None]) -> list[Tensor | None]:
        """The returned gradients as cotangents of inputs of these kinds."""
        parts = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        kinds = list(kinds)
        if len(parts) != len(kinds):
            raise errors.InputValueError(
                f"the gradient function of {self.name} returned {len(parts)} gradients for "
                f"{len(kinds)} inputs; return one for each, None for an input without gradient"
            )
        cotangents: list[Tensor | None] = []
        for position, (part, kind) in enumerate(zip(parts, kinds, strict=True)):
            if part is None or kind is None:
                cotangents.append(None)
                continue
            shape, dtype, device = kind
            tensor = from_any(part, dtype, device)
            if tensor.shape != shape:
                raise errors.ShapeError(
                    f"the gradient function of {self.name} returned a gradient of shape "
                    f"{tensor.shape} for input {position}, which has shape {shape}"
                )
            cotangents.append(_conjugate(tensor))
        return cotangents


def _kind(value: Tensor | ReadVariable) -> Kind:
    return value.shape, value.dtype, value.device


def _conjugate(tensor: Tensor) -> Tensor:
    # Users' functions follow the field's convention, rules the plain transpose (see the tape).
    # They get a handle of their own to write into: the cotangent goes to others too.
    if dtypes.is_complex(tensor.dtype):
        return conj(tensor)
    return tensor.__copy__()
