"""Products with Jacobians and Hessians, which are never made as matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pullback import dtypes, errors
from pullback._autodiff.custom_gradient import with_rule
from pullback._autodiff.functional import grad, linearized, reject_shapes, vjp, whole
from pullback._autodiff.seeds import match
from pullback._dispatch.convert import from_any
from pullback._tree import leaves, like, mapped
from pullback.ops.creation import full
from pullback.tensor import Tensor

__all__ = ["custom_jvp", "gauss_newton_product", "hvp", "linearize"]

R = TypeVar("R")


def linearize(f: Callable[..., R], *args: object) -> tuple[R, Callable[..., R]]:
    """The value of `f` at `args`, and its derivative there as a function of tangents.

    `f` is called once. Each call of the function of tangents costs about a gradient; `pb.jvp` is
    for one of them.

    Returns:
        The value, and a function: it takes a tangent for each argument, in its structure, and
        returns that of the value; it may be called any number of times.

    >>> value, push = pb.linearize(lambda x, y: x * y, 2.0, 3.0)
    >>> float(value), [float(push(1.0, 0.0)), float(push(0.0, 1.0))]
    (6.0, [3.0, 2.0])

    Raises:
        DTypeError: for an argument of integers, which has no gradient.
        InputValueError: from the function, for another number of tangents than of arguments, or a
            tangent of another structure than its argument.
        ShapeError: from the function, for a tangent of another shape than its argument.
    """
    value, push = linearized(f, args, persistent=True)

    def tangent(*tangents: object) -> R:
        if len(tangents) != len(args):
            raise errors.InputValueError(
                f"linearize: {len(args)} arguments and {len(tangents)} tangents; give one for each"
            )
        found: R = push(tangents)
        return found

    return value, tangent


def hvp(f: Callable[[Any], object], x: object, v: object) -> Any:
    """The product of the Hessian of `f` at `x` with `v`, at the cost of some gradients.

    Args:
        f: a function of one argument that returns a number; a tensor of several elements stands
            for its sum.
        x: real numbers: a tensor, or a structure of tensors.
        v: what the Hessian is multiplied by, in the structure of `x`.

    >>> pb.hvp(lambda x: x[0] * x[0] * x[1], [1.0, 2.0], [1.0, 0.0]).tolist()
    [4.0, 2.0]

    Raises:
        DTypeError: for integers and complex numbers.
        ShapeError: for a `v` of another shape.
    """
    for leaf in leaves(whole(x)):
        if dtypes.is_complex(from_any(leaf).dtype):
            raise errors.DTypeError(
                "hvp: the Hessian of a function of complex numbers is not symmetric; write it as "
                "a function of their real and imaginary parts"
            )
    sources = [from_any(leaf) for leaf in leaves(whole(x))]
    directions = match(whole(x), whole(v))
    if directions is not None:
        reject_shapes("v", "an x", directions, sources)
    # The Hessian is its own transpose.
    _, pull = vjp(grad(f), x)
    return pull(v)[0]


def gauss_newton_product(
    f: Callable[[Any], Any], loss: Callable[[Any], object], x: object, v: object
) -> Any:
    """The product of the Gauss-Newton matrix of `loss(f(x))` with `v` (Schraudolph, 2002).

    That is the Hessian without the second derivatives of `f`: J' H J, with the Jacobian J of `f` at
    `x` and the Hessian H of `loss` at `f(x)`. It has no negative eigenvalues if `loss` is convex.

    Args:
        f: a function of one argument, such as the parameters of a model: its outputs.
        loss: a function of the outputs that returns a number.
        x: real numbers: a tensor, or a structure of tensors.
        v: what the matrix is multiplied by, in the structure of `x`.

    >>> f = lambda x: x * x
    >>> pb.gauss_newton_product(f, lambda y: pb.sum(y * y), [1.0, 2.0], [1.0, 1.0]).tolist()
    [8.0, 32.0]

    Raises:
        DTypeError: for integers and complex numbers.
        ShapeError: for a `v` of another shape.
    """
    value, push = linearize(f, x)
    _, pull = vjp(f, x)
    return pull(hvp(loss, value, push(v)))[0]


def custom_jvp(f: Callable[..., tuple[R, Callable[..., Any]]]) -> Callable[..., R]:
    """Makes a function whose derivative is computed by a function that it returns.

    As `pb.custom_gradient`, with the derivative in the other direction, which is often simpler:
    from tangents of the arguments to that of the result.

    Args:
        f: a function of floating tensors, or structures of them. It returns its result and
            `tangent_fn`, which takes a tangent for each positional argument and returns that of the
            result. It is linear in the tangents and written with ops; the gradient is made of its
            transpose.

    Returns:
        A function that returns the result alone.

    >>> @pb.custom_jvp
    ... def log1pexp(x):
    ...     return pb.log1p(pb.exp(x)), lambda dx: pb.sigmoid(x) * dx
    >>> float(pb.grad(log1pexp)(200.0)), float(pb.jvp(log1pexp, [200.0], [2.0])[1])
    (1.0, 2.0)

    Raises:
        InputTypeError: when `f` returns something else.
        TapeError: when `f` reads variables that a tape watches, rather than to take their values
            as arguments.
        DTypeError: from the gradient, for an argument of integers.
    """
    if not callable(f):
        raise errors.InputTypeError(f"custom_jvp takes a function, got {type(f).__name__}")

    def with_gradient(*args: Any, **kwargs: Any) -> Any:
        returned = f(*args, **kwargs)
        if not (isinstance(returned, tuple) and len(returned) == 2 and callable(returned[1])):
            raise errors.InputTypeError(
                f"{with_gradient.__name__}: return the result and the function of tangents, such "
                f"as `return y, lambda dx: slope * dx`; got {type(returned).__name__}"
            )
        result, tangent_fn = returned

        def transposed(*cotangents: Any) -> list[Any]:
            zeros = [mapped(_zeros, arg) for arg in args]
            _, pull = vjp(tangent_fn, *zeros)
            pulled = pull(like(result, iter(cotangents)))
            # An argument without a tensor, such as None, has one entry.
            return [leaf for part in pulled for leaf in leaves(part) or [None]]

        return result, transposed

    with_gradient.__name__ = getattr(f, "__name__", type(f).__name__)
    with_gradient.__doc__ = f.__doc__
    advice = "which its function of tangents takes no tangents of; pass their values as arguments"
    found: Callable[..., R] = with_rule(with_gradient, advice)
    return found


def _zeros(value: Any) -> Tensor:
    tensor = from_any(value)
    return full(tensor.shape, 0, dtype=tensor.dtype, device=tensor.device)
