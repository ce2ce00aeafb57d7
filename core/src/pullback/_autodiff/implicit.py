"""`custom_root`: solutions of equations, with the gradients of the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback import errors
from pullback._autodiff.custom_gradient import custom_gradient
from pullback._autodiff.functional import jacobian, recorded, stop_gradient, vjp
from pullback._autodiff.tape import GradientTape
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import LOCAL, NO_TAPES, tapes
from pullback._tree import leaves, like, mapped
from pullback.ops.joining import concat
from pullback.ops.linalg.solvers import solve as dense_solve
from pullback.ops.manipulation import matrix_transpose, reshape
from pullback.shapes import size_of
from pullback.tensor import Tensor

__all__ = ["custom_root"]


def custom_root(
    f: Callable[..., Any],
    solver: Callable[..., Any],
    *,
    linear_solver: Callable[[Callable[[Any], Any], Any], Any] | None = None,
) -> Callable[..., Any]:
    """Makes a function that returns the x with f(x, *args) = 0, with gradients in `args`.

    The gradient is that of the implicit function theorem at the solution: it costs one linear
    system, whatever the solver has done, which nothing records. Fixed points x = g(x) are roots of
    x - g(x); minima are roots of a gradient.

    Args:
        f: takes x and further arguments, and returns residuals in the structure of x. It may read
            trainable variables, which have gradients too.
        solver: `solver(f, x0, *args)` returns x, by any method.
        linear_solver: `linear_solver(a, b)` returns the y with a(y) = b, for a linear function a of
            the structure of x: the transposed Jacobian of `f`. None makes the matrix and solves it.

    Returns:
        A function `root(x0, *args)` of a first guess, through which no gradient flows.

    >>> def newton(f, x, a):
    ...     for _ in range(20):
    ...         x = x - f(x, a) / pb.grad(f)(x, a)
    ...     return x
    >>> square_root = pb.custom_root(lambda x, a: x * x - a, newton)
    >>> round(float(pb.grad(square_root, 1)(1.0, 4.0)), 6)
    0.25

    Raises:
        InputTypeError: for what is not a function.
        InputValueError: for residuals in another structure than x.
        ShapeError: for residuals of another shape than x.
    """
    for name, value in (("f", f), ("solver", solver)):
        if not callable(value):
            raise errors.InputTypeError(
                f"custom_root: {name} is a function, got {type(value).__name__}"
            )

    @custom_gradient
    def root(x0: object, *args: object) -> Any:
        # It may have tapes of its own.
        with tapes(NO_TAPES):
            x = solver(f, stop_gradient(x0), *args)
        x = mapped(stop_gradient, x)
        # Tapes learn here which variables it reads.
        _check(x, _tensors(f(x, *args)))

        def gradient(*g: Tensor, variables: Sequence[Any] = ()) -> Any:
            # For a tape that records the gradient, the solution depends on the arguments.
            at = root(x, *args) if LOCAL.state.recording else x

            def transposed(y: Any) -> Any:
                return vjp(lambda x: f(x, *args), at)[1](y)[0]

            b = like(x, iter(g))
            solved = (
                _dense(f, at, args, b) if linear_solver is None else linear_solver(transposed, b)
            )
            y = like(x, iter([-leaf for leaf in leaves(solved)]))
            sources = [leaf for leaf in leaves(args) if type(leaf) is Tensor]
            handles = [leaf.__copy__() for leaf in sources]
            with GradientTape(watch_accessed_variables=False) as tape:
                tape.watch([handles, [*variables]])
                given = iter(handles)
                new = [next(given) if type(leaf) is Tensor else leaf for leaf in leaves(args)]
                residual = recorded(f(at, *like(args, iter(new))))
            found, more = tape.gradient(residual, (handles, [*variables]), y)
            rest = iter(found)
            # An argument without a tensor, such as None, has one entry.
            entries = [leaf for arg in args for leaf in leaves(arg) or [None]]
            parts = [next(rest) if type(leaf) is Tensor else None for leaf in entries]
            parts = [None] * max(1, len(leaves(x0))) + parts
            return (parts, more) if variables else parts

        return x, gradient

    def solution(x0: object, *args: object) -> Any:
        return root(_tensors(x0), *args)

    return solution


def _tensors(structure: Any) -> Any:
    """The structure with a tensor in place of each leaf."""
    return mapped(from_any, structure)


def _dense(f: Callable[..., Any], x: object, args: Sequence[Any], b: object) -> Any:
    """Solves the system of the transposed Jacobian, as a matrix."""
    kinds = [(leaf.shape, size_of(leaf.shape)) for leaf in leaves(x)]

    def flat(tree: Any) -> Tensor:
        return concat([reshape(leaf, (-1,)) for leaf in leaves(tree)])

    def parts(vector: Tensor) -> Any:
        found, begin = [], 0
        for shape, size in kinds:
            found.append(reshape(vector[begin : begin + size], shape))
            begin += size
        return like(x, iter(found))

    matrix = jacobian(lambda vector: flat(f(parts(vector), *args)))(flat(x))
    return parts(dense_solve(matrix_transpose(matrix), flat(b)))


def _check(x: object, residual: object) -> None:
    if len(leaves(x)) != len(leaves(residual)):
        raise errors.InputValueError(
            f"custom_root: x has {len(leaves(x))} tensors and f returns {len(leaves(residual))}; "
            f"return one residual for each"
        )
    for one, other in zip(leaves(x), leaves(residual), strict=True):
        if one.shape != other.shape:
            raise errors.ShapeError(
                f"custom_root: x has the shape {one.shape} and f returns {other.shape}; there are "
                f"as many equations as unknowns"
            )
