"""Derivatives of functions, made of tapes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar, overload

from pullback import dtypes, errors
from pullback._autodiff.seeds import match
from pullback._autodiff.tape import GradientTape
from pullback._batching.arrays import BatchDevice, Batched
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import CONSTANT, HOOKS, RECORDING, capturing
from pullback._hints import answering
from pullback._tree import leaves, like, mapped
from pullback.ops.complex import conj
from pullback.ops.creation import full
from pullback.tensor import Tensor, TensorLike, wrap

__all__ = [
    "grad",
    "hessian",
    "implicit_gradients",
    "implicit_value_and_gradients",
    "jacobian",
    "jvp",
    "stop_gradient",
    "value_and_grad",
    "vjp",
]

P = ParamSpec("P")
R = TypeVar("R")

Argnums: TypeAlias = int | Sequence[int]
#: A gradient, in the structure of an argument.
Gradient: TypeAlias = Any
#: (gradient, variable) pairs, for `optimizer.apply_gradients`. Variables are a level above.
Pairs: TypeAlias = list[tuple[Tensor | None, Any]]


# ---------------------------------------------------------------------------------------------
# With respect to arguments.


@answering
def grad(
    f: Callable[..., object], argnums: Argnums = 0, *, has_aux: bool = False
) -> Callable[..., Gradient]:
    """Makes a function that returns the gradient of `f` with respect to some of its arguments.

    Args:
        f: returns a tensor; a tensor of several elements stands for its sum.
        argnums: the position of the argument, or several positions for a tuple of gradients. An
            argument may be a nested structure of tensors. Python integers count as floats.
        has_aux: True if `f` returns a pair: the value, and anything else, such as accuracies, that
            is not differentiated.

    Returns:
        A function of the same arguments. Arguments that `f` does not depend on have the gradient
        zero. With `has_aux` it returns a pair, the gradient and what else `f` returned.

    >>> square = lambda x: x * x
    >>> float(pb.grad(square)(3.0)), float(pb.grad(pb.grad(square))(3.0))
    (6.0, 2.0)
    >>> gradient, aux = pb.grad(lambda x: (x * x, "aux"), has_aux=True)(3.0)
    >>> float(gradient), aux
    (6.0, 'aux')

    Raises:
        DTypeError: for an argument of integers, which has no gradient.
        InputTypeError: if `f` is not a function, or returns several values, without `has_aux`.
    """
    both = value_and_grad(f, argnums, has_aux=has_aux)

    @functools.wraps(f)
    def gradient(*args: object, **kwargs: object) -> Gradient:
        value: Any
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


@answering
def value_and_grad(
    f: Callable[..., R], argnums: Argnums = 0, *, has_aux: bool = False
) -> Callable[..., tuple[R, Gradient]]:
    """Makes a function that returns the value of `f` and its gradient, as `grad` does.

    With `has_aux` the value is the pair that `f` returns.

    >>> value, gradient = pb.value_and_grad(lambda x: x * x)(3.0)
    >>> float(value), float(gradient)
    (9.0, 6.0)

    Raises:
        DTypeError: for an argument of integers, which has no gradient.
        InputTypeError: if `f` is not a function, or returns several values, without `has_aux`.
    """
    if not callable(f):
        raise errors.InputTypeError(
            f"grad takes a function that computes a tensor, got {type(f).__name__}; write "
            f"pb.grad(f)(x), or tape.gradient(y, x) for what a tape recorded"
        )

    @functools.wraps(f)
    def both(*args: object, **kwargs: object) -> tuple[R, Gradient]:
        arguments, sources = _sources(f, args, argnums)
        with GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            value = f(*arguments, **kwargs)
            target = recorded(_differentiated(f, value, has_aux))
        return value, tape.gradient(target, sources, unconnected_gradients="zero")

    return both


def jacobian(
    f: Callable[..., object], argnums: Argnums = 0, *, has_aux: bool = False
) -> Callable[..., Gradient]:
    """Makes a function that returns the Jacobian of `f`: shape value.shape + argument.shape.

    `argnums` and `has_aux` are those of `grad`.

    >>> pb.jacobian(lambda x: x * x)([1.0, 2.0]).tolist()
    [[2.0, 0.0], [0.0, 4.0]]

    Raises:
        DTypeError: for an argument of integers, which has no gradient.
    """

    @functools.wraps(f)
    def rows(*args: object, **kwargs: object) -> Gradient:
        arguments, sources = _sources(f, args, argnums)
        with GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            value: Any = f(*arguments, **kwargs)
            target = recorded(_differentiated(f, value, has_aux))
        jacobians = tape.jacobian(target, sources, unconnected_gradients="zero")
        return (jacobians, value[1]) if has_aux else jacobians

    return rows


def hessian(
    f: Callable[..., object], argnum: int = 0, *, has_aux: bool = False
) -> Callable[..., Gradient]:
    """Makes a function that returns the second derivatives of `f` in one argument.

    Shape argument.shape + argument.shape; `f` returns a number, or its result stands for its sum.
    `has_aux` is that of `grad`.

    >>> pb.hessian(lambda x: x[0] * x[0] * x[1])([1.0, 2.0]).tolist()
    [[4.0, 2.0], [2.0, 0.0]]

    Raises:
        DTypeError: for an argument of integers, which has no gradient.
    """
    return jacobian(grad(f, argnum, has_aux=has_aux), argnum, has_aux=has_aux)


def vjp(f: Callable[..., R], *args: object) -> tuple[R, Callable[[object], tuple[Gradient, ...]]]:
    """The value of `f` at `args`, and the map from its cotangent to those of the arguments.

    Returns:
        The value, and a function: it takes a cotangent in the structure of the value and returns
        a tuple of cotangents, one for each argument; it may be called any number of times.

    >>> value, pullback = pb.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> [float(g) for g in pullback(10.0)]
    [30.0, 20.0]

    Raises:
        DTypeError: for an argument of integers, which has no gradient.
    """
    arguments, sources = _sources(f, args, range(len(args)))
    with GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(sources)
        value = f(*arguments)
        target = recorded(value)

    def pullback(cotangent: object) -> tuple[Gradient, ...]:
        cotangents: tuple[Gradient, ...] = tape.gradient(
            target, sources, cotangent, unconnected_gradients="zero"
        )
        return cotangents

    return value, pullback


def jvp(f: Callable[..., R], primals: Sequence[object], tangents: Sequence[object]) -> tuple[R, R]:
    """The value of `f` at `primals`, and its derivative in the direction of `tangents`.

    The cotangents of the arguments are linear in the cotangent of the value; the vjp of that map
    at `tangents` is the directional derivative (J. Townsend, "A new trick for
    calculating Jacobian vector products", 2017).

    >>> value, tangent = pb.jvp(lambda x: x * x, [3.0], [1.0])
    >>> float(value), float(tangent)
    (9.0, 6.0)

    Raises:
        InputValueError: for another number of tangents than of arguments; for a tangent of another
            structure than its argument.
        ShapeError: for a tangent of another shape than its argument.
        DTypeError: for an argument of integers, which has no gradient.
    """
    for name, values in (("arguments", primals), ("tangents", tangents)):
        if not isinstance(values, (tuple, list)):
            raise errors.InputTypeError(
                f"jvp: the {name} are a tuple, as in jvp(f, (x,), (v,)), got "
                f"{type(values).__name__}"
            )
    if len(primals) != len(tangents):
        raise errors.InputValueError(
            f"jvp: {len(primals)} arguments and {len(tangents)} tangents; give one for each"
        )
    value, push = linearized(f, tuple(primals), persistent=False)
    tangent: R = push(tangents)
    return value, tangent


def linearized(
    f: Callable[..., R], primals: tuple[object, ...], *, persistent: bool
) -> tuple[R, Callable[[Sequence[object]], Any]]:
    """The value of a function, and its derivative as a function of the tangents of the arguments.

    Args:
        f: the function.
        primals: its arguments.
        persistent: whether the derivative may be called more than once.
    """
    arguments, sources = _sources(f, primals, range(len(primals)))
    with GradientTape(persistent=persistent, watch_accessed_variables=False) as outer:
        with GradientTape(watch_accessed_variables=False) as inner:
            inner.watch(sources)
            value = f(*arguments)
            target = recorded(value)
        dummies = [full(t.shape, 0, dtype=t.dtype, device=t.device) for t in leaves(target)]
        outer.watch(dummies)
        seeds = like(target, iter(dummies))
        pulled = inner.gradient(target, sources, seeds, unconnected_gradients="zero")
        pulled = [recorded(g) for g in leaves(pulled)]

    def push(tangents: Sequence[object]) -> Any:
        directions = match(sources, tuple(tangents))
        if directions is None:
            raise errors.InputValueError(
                "the tangents have another structure than the arguments; give each argument a "
                "tangent with the same keys and lengths"
            )
        reject_shapes("tangent", "an argument", directions, leaves(sources))
        flat = outer.gradient(pulled, dummies, directions, unconnected_gradients="zero")
        return like(target, iter(flat))

    return value, push


def reject_shapes(
    what: str, where: str, directions: Sequence[TensorLike], values: Sequence[Tensor]
) -> None:
    """Rejects directions of other shapes than what they are directions of.

    Raises:
        ShapeError: for one.
    """
    for direction, value in zip(directions, values, strict=True):
        shape = from_any(direction).shape
        if shape != value.shape:
            raise errors.ShapeError(
                f"a {what} of shape {shape} for {where} of shape {value.shape}; give the {what} "
                f"that shape"
            )


def _sources(
    f: Callable[..., object], args: tuple[object, ...], argnums: Argnums
) -> tuple[list[Any], Any]:
    """The arguments, those to differentiate in as new handles, and these handles."""
    name = getattr(f, "__name__", type(f).__name__)
    one_argument = isinstance(argnums, int)
    arguments: list[Any] = list(args)
    chosen = []
    for position in (argnums,) if isinstance(argnums, int) else argnums:
        if not -len(args) <= position < len(args):
            raise errors.InputValueError(
                f"the gradient of {name} in argument {position}, which was called with "
                f"{len(args)} positional arguments; pass the argument by position"
            )
        parts = [_source(name, position, value) for value in leaves(whole(args[position]))]
        arguments[position] = like(whole(args[position]), iter(parts))
        chosen.append(arguments[position])
    return arguments, chosen[0] if one_argument else tuple(chosen)


def whole(value: object) -> Any:
    """The value itself, or a tensor of nested lists of numbers: they stand for one array."""
    if isinstance(value, (list, tuple)) and not any(
        hasattr(type(leaf), "__pullback_tensor__") for leaf in leaves(value)
    ):
        return from_any(value)
    return value


def _source(name: str, position: int, value: object) -> Tensor:
    if type(value) is int:
        value = float(value)
    tensor = from_any(value)
    if not dtypes.is_floating(tensor.dtype):
        raise errors.DTypeError(
            f"the gradient of {name} in argument {position}, which holds {tensor.dtype}: only "
            f"floating and complex values have one; convert with x.astype('float32')"
        )
    # A handle of its own: watching it leaves the caller's as it was.
    return tensor.__copy__()


def _differentiated(f: object, value: Any, has_aux: bool) -> Any:
    """The part of what a function returned that is differentiated: one value.

    Raises:
        InputTypeError: for several values.
    """
    name = getattr(f, "__name__", type(f).__name__)
    if has_aux:
        if not isinstance(value, tuple) or len(value) != 2:
            raise errors.InputTypeError(
                f"{name} must return a pair (value, aux) with has_aux=True, "
                f"got {type(value).__name__}"
            )
        value = value[0]
    if isinstance(value, (list, tuple, dict)):
        raise errors.InputTypeError(
            f"{name} returned a {type(value).__name__}, and the gradient is that of one value; "
            f"return the value alone, or with has_aux=True a pair (value, aux); to differentiate "
            f"a sum of several values, add them in the function"
        )
    return value


def recorded(value: object) -> Any:
    """A result as a structure of targets: a tensor that no tape has recorded is a constant."""
    if not isinstance(value, (list, tuple, dict)):
        return _target(value)
    return mapped(_target, value)


def _target(value: object) -> Tensor:
    if value is None:
        raise errors.InputTypeError("the function to differentiate returned None; return its value")
    tensor = from_any(float(value) if type(value) is int else value)
    target = tensor.__copy__()
    target._node = target._node or CONSTANT
    return target


# ---------------------------------------------------------------------------------------------
# With respect to the variables that a function reads.


@overload
def implicit_gradients(
    f: Callable[P, object], *, has_aux: Literal[False] = False
) -> Callable[P, Pairs]: ...
@overload
def implicit_gradients(
    f: Callable[P, object], *, has_aux: bool
) -> Callable[P, Pairs | tuple[Pairs, Any]]: ...
def implicit_gradients(
    f: Callable[P, object], *, has_aux: bool = False
) -> Callable[P, Pairs | tuple[Pairs, Any]]:
    """Makes a function that returns the gradients of `f` in every trainable variable it reads.

    Returns:
        A function of the same arguments that returns (gradient, variable) pairs, as
        `optimizer.apply_gradients` takes them. A loss of several elements stands for its sum.
        With `has_aux`, `f` returns a pair (loss, aux), and the function a pair (pairs, aux).

    >>> v = pb.Variable(3.0)
    >>> [(gradient, variable)] = pb.implicit_gradients(lambda x: x * v * v)(2.0)
    >>> float(gradient), variable is v
    (12.0, True)

    Raises:
        TapeError: when `f` reads no trainable variable.
        InputTypeError: if `f` returns several values, without `has_aux`.
    """
    both = implicit_value_and_gradients(f, has_aux=has_aux)

    @functools.wraps(f)
    def gradients(*args: P.args, **kwargs: P.kwargs) -> Pairs | tuple[Pairs, Any]:
        value: Any
        value, pairs = both(*args, **kwargs)
        return (pairs, value[1]) if has_aux else pairs

    return gradients


def implicit_value_and_gradients(
    f: Callable[P, R], *, has_aux: bool = False
) -> Callable[P, tuple[R, Pairs]]:
    """Makes a function that returns the value of `f` and its `implicit_gradients`.

    With `has_aux` the value is the pair that `f` returns.

    >>> v = pb.Variable(3.0)
    >>> value, pairs = pb.implicit_value_and_gradients(lambda: v * v)()
    >>> float(value), float(pairs[0][0])
    (9.0, 6.0)

    Raises:
        TapeError: when `f` reads no trainable variable.
        InputTypeError: if `f` returns several values, without `has_aux`.
    """

    @functools.wraps(f)
    def both(*args: P.args, **kwargs: P.kwargs) -> tuple[R, Pairs]:
        with GradientTape() as tape:
            value = f(*args, **kwargs)
            target = recorded(_differentiated(f, value, has_aux))
        variables = tape.watched_variables()
        if not variables:
            raise errors.TapeError(
                f"{getattr(f, '__name__', type(f).__name__)} read no trainable variable; "
                f"use pb.grad for gradients with respect to its arguments"
            )
        gradients = tape.gradient(target, list(variables))
        return value, list(zip(gradients, variables, strict=True))

    return both


@overload
def stop_gradient(x: Tensor | complex) -> Tensor: ...
@overload
def stop_gradient(x: object) -> Any: ...
def stop_gradient(x: object) -> Any:
    """The value of `x`, as a constant: no gradient flows back through it.

    Args:
        x: a tensor, or a nested structure of them.

    >>> float(pb.grad(lambda x: x * pb.stop_gradient(x))(3.0))
    3.0
    """
    if isinstance(whole(x), (list, tuple, dict)):
        return mapped(stop_gradient, x)
    tensor = from_any(x)
    device = tensor._device
    if isinstance(device, BatchDevice):
        # For the tapes inside of the batch, and for those outside.
        array = Batched(stop_gradient(tensor._array.tensor), tensor._array.run)
        return wrap(array, device, CONSTANT if RECORDING.count else None)
    capture = capturing()
    if capture is not None:
        return capture.stop_gradient(tensor)
    return wrap(tensor._array, tensor._device, CONSTANT if RECORDING.count else None)


def _vjp_of_body(
    function: Callable[..., list[Tensor]], inputs: list[Tensor], parts: list[Tensor]
) -> list[Tensor | None]:
    """Cotangents of `inputs`, in the transpose convention, through a function of them."""
    copies = [value.__copy__() for value in inputs]
    with GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(copies)
        results = function(*copies)
    # A result that was folded to a constant depends on none of them.
    pairs = [pair for pair in zip(results, parts, strict=True) if pair[0]._node is not None]
    if not pairs:
        return [None] * len(inputs)
    conjugated = [conj(c) if dtypes.is_complex(c.dtype) else c for _, c in pairs]
    gradients = tape.gradient([result for result, _ in pairs], copies, conjugated)
    return [conj(g) if g is not None and dtypes.is_complex(g.dtype) else g for g in gradients]


# Dispatch uses this for the body of an op, where its rule does not reach.
HOOKS.vjp = _vjp_of_body
