"""`check_gradients`: derivatives beside differences of values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback import dtypes, errors
from pullback._autodiff.functional import value_and_grad, whole
from pullback._autodiff.seeds import unit_seeds
from pullback._dispatch.convert import from_any
from pullback._tree import leaves, like, mapped
from pullback.ops.complex import imag, real
from pullback.ops.creation import arange
from pullback.ops.reductions import sum as sum_of
from pullback.ops.trigonometric import cos
from pullback.shapes import Shape, as_count, check_number
from pullback.tensor import Tensor

__all__ = ["check_gradients"]

#: The step of the differences, by the numbers' size; of two points on each side.
_STEP = 2.0**-10


def check_gradients(
    f: Callable[..., Any],
    *args: Any,
    order: int = 2,
    rtol: float = 1e-6,
    atol: float = 1e-8,
) -> None:
    """Compares the gradients of `f` at `args` with differences of its values.

    Floating arguments are float64 or complex128 meanwhile. The results are summed with fixed
    weights, so that one gradient has errors of all of them. The second order does the same with
    the gradient, and so on. A point where `f` has no derivative fails.

    Args:
        f: a function of tensors, or of structures of them, that returns such. It computes the same
            for the same arguments; its variables are float64.
        args: its arguments; those of integers are left as they are.
        order: the highest order of derivatives that is compared.
        rtol: the error allowed, relative to the largest difference of an argument.
        atol: the error that is always allowed.

    >>> pb.check_gradients(lambda x: pb.sin(x) * x, [0.5, 1.0])

    Raises:
        InputValueError: for a derivative that is wrong; the error names the argument and the index.
            For arguments that are infinite or NaN.
        DTypeError: if no argument is floating, or no result of `f`.
    """
    if not callable(f):
        raise errors.InputTypeError(f"check_gradients takes a function, got {type(f).__name__}")
    order = as_count(order, "order")
    check_number(rtol, "rtol")
    check_number(atol, "atol")
    given = [_wide(whole(arg)) for arg in args]
    flat = leaves(given)
    floating = [i for i, x in enumerate(flat) if isinstance(x, Tensor) and _is_floating(x)]
    if not floating:
        raise errors.DTypeError(
            "check_gradients: no argument is floating; pass one that f is to be differentiated in"
        )
    paths = [f"argument {i}{path}" for i, arg in enumerate(given) for path in _paths(arg)]

    def number(*values: Tensor) -> Tensor:
        new = list(flat)
        for i, value in zip(floating, values, strict=True):
            new[i] = value
        results = [from_any(leaf) for leaf in leaves(f(*like(given, iter(new))))]
        if not any(map(_is_floating, results)):
            kinds = ", ".join(str(result.dtype) for result in results) or "no tensor"
            raise errors.DTypeError(
                f"check_gradients: f returns {kinds}, which has no gradient; return a floating "
                f"tensor"
            )
        return _weighted(results, 0)

    at = [flat[i] for i in floating]
    everything = tuple(range(len(at)))
    for which in range(1, order + 1):
        slopes = value_and_grad(number, everything)
        _compare(number, slopes(*at)[1], at, [paths[i] for i in floating], which, rtol, atol)
        number = _following(slopes, which)


def _following(slopes: Callable[..., Any], which: int) -> Callable[..., Tensor]:
    """A gradient as a number."""
    return lambda *values: _weighted(leaves(slopes(*values)[1]), which)


def _compare(
    number: Callable[..., Tensor],
    gradients: Sequence[Tensor],
    at: Sequence[Tensor],
    paths: Sequence[str],
    order: int,
    rtol: float,
    atol: float,
) -> None:
    for place, (x, gradient) in enumerate(zip(at, gradients, strict=True)):
        is_complex = dtypes.is_complex(x.dtype)

        def value(moved: Tensor, place: int = place) -> float:
            return float(number(*at[:place], moved, *at[place + 1 :]))

        differences: list[complex] = []
        for size, direction in zip(x.reshape(-1).tolist(), unit_seeds(x), strict=True):
            if not math.isfinite(abs(size)):
                raise errors.InputValueError(
                    f"check_gradients: an argument is {size}; pass finite numbers, about which "
                    f"there are others"
                )
            # Powers of two: the points are exact.
            step = _STEP * 2.0 ** math.floor(math.log2(max(1.0, abs(size))))
            # The gradient of a real number in a complex one has the two slopes as its parts.
            units = (1.0, 1.0j) if is_complex else (1.0,)
            slopes = [
                _difference(value, x, direction * (step * unit), step) * unit for unit in units
            ]
            differences.append(sum(slopes))
        allowed = atol + rtol * max(map(abs, differences), default=0.0)
        found = gradient.reshape(-1).tolist()
        wrong = [abs(one - other) for one, other in zip(found, differences, strict=True)]
        # NaN is an error, and the largest.
        wrong = [math.inf if error != error else error for error in wrong]
        if max(wrong, default=0.0) <= allowed:
            continue
        worst = wrong.index(max(wrong))
        where = f" at {_index(worst, x.shape)}" if x.shape else ""
        raise errors.InputValueError(
            f"check_gradients: the derivative of order {order} in {paths[place]}{where} is "
            f"{found[worst]:.9g}, differences give {differences[worst]:.9g}"
        )


def _difference(value: Callable[[Tensor], float], x: Tensor, move: Tensor, step: float) -> float:
    """The slope in a direction, from four values: its error is that of the fourth power."""
    near, far = (value(x + move * k) - value(x - move * k) for k in (1.0, 2.0))
    return (8 * near - far) / (12 * step)


def _index(position: int, shape: Shape) -> tuple[int, ...]:
    """The index of an element that is counted in order."""
    index: tuple[int, ...] = ()
    for size in reversed(shape):
        position, last = divmod(position, size)
        index = (last, *index)
    return index


def _wide(arg: Any) -> Any:
    return mapped(_wide_leaf, arg)


def _wide_leaf(value: Any) -> Any:
    tensor = from_any(value)
    if not _is_floating(tensor):
        return tensor
    return tensor.astype(dtypes.complex128 if dtypes.is_complex(tensor.dtype) else dtypes.float64)


def _is_floating(tensor: Tensor) -> bool:
    return dtypes.is_floating(tensor.dtype)


def _weighted(results: Sequence[Tensor], seed: int) -> Tensor:
    """One real number of all results, with other weights for each element."""
    total: Any = 0.0
    for i, result in enumerate(results):
        if not _is_floating(result):
            continue
        parts = [real(result), imag(result)] if dtypes.is_complex(result.dtype) else [result]
        for j, part in enumerate(parts):
            turn = 1.0 + seed + i + 0.5 * j
            numbers = cos(arange(part.size, dtype=part.dtype, device=part.device) * 0.7 + turn)
            weights = numbers.reshape(part.shape)
            total = total + sum_of(part * weights)
    return from_any(total)


def _paths(structure: Any, path: str = "") -> list[str]:
    items: Any = None
    if isinstance(structure, dict):
        items = structure.items()
    elif isinstance(structure, (list, tuple)):
        items = enumerate(structure)
    if items is None:
        return [] if structure is None else [path]
    return [found for key, item in items for found in _paths(item, f"{path}[{key!r}]")]
