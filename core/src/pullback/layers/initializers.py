"""Initializers: the first values of variables.

An initializer is a function of a shape and a dtype. The random ones draw from the default
generator, which `pb.random.seed` seeds, or from the `generator` they are made with.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from pullback import _hints, dtypes, errors
from pullback.dtypes import DType
from pullback.ops.creation import full
from pullback.ops.data_types import astype
from pullback.ops.exponential import sqrt
from pullback.ops.joining import stack
from pullback.ops.linalg.decompositions import qr
from pullback.ops.linalg.linear_algebra import diagonal
from pullback.ops.manipulation import broadcast_to
from pullback.ops.reductions import sum as reduce_sum
from pullback.ops.selection import where
from pullback.random import Generator, default_generator
from pullback.shapes import Shape, size_of
from pullback.state.serialization import recipe
from pullback.tensor import Tensor

__all__ = [
    "constant",
    "get",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "zeros",
]

Initializer: TypeAlias = Callable[[Shape, DType], Tensor]
InitializerLike: TypeAlias = "str | float | Initializer"


class _Uninitialized(threading.local):
    uninitialized: int = 0


_STATE = _Uninitialized()


class uninitialized:
    """Variables that would get random values get zeros, without memory of their own.

    For models whose weights are loaded next: random numbers would take longer to make than the
    weights to read. Values that are not random, such as the ones of a normalization, stay.

    >>> with pb.layers.uninitialized():
    ...     layer = pb.layers.Dense(2, input_shape=(3,))
    >>> layer.kernel.numpy().tolist()
    [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    """

    def __enter__(self) -> None:
        _STATE.uninitialized += 1

    def __exit__(self, *_: object) -> None:
        _STATE.uninitialized -= 1


def get(value: InitializerLike) -> Initializer:
    """Returns the initializer for a name ("he_normal"), a number, or a function.

    Raises:
        InputValueError: for an unknown name.
        InputTypeError: for what is neither a name, a number nor a function.
    """
    if isinstance(value, str):
        # He and Glorot by the first names that PyTorch uses.
        name = value.replace("kaiming", "he").replace("xavier", "glorot")
        known = [name for name in __all__ if name not in ("get", "constant")]
        if name not in known:
            raise errors.InputValueError(
                f"unknown initializer {value!r}; use one of {', '.join(known)}"
            )
        initializer: Initializer = globals()[name]()
        return initializer
    if isinstance(value, (int, float)):
        return constant(value)
    if not callable(value):
        raise errors.InputTypeError(
            f"an initializer is a name such as 'zeros', a number, or a function of a shape and a "
            f"dtype, got {type(value).__name__}"
        )
    return value


@recipe
def constant(value: float) -> Initializer:
    """All elements equal to `value`."""
    return lambda shape, dtype: full(shape, value, dtype=dtype)


@recipe
def zeros() -> Initializer:
    """All elements 0."""
    return constant(0)


@recipe
def ones() -> Initializer:
    """All elements 1."""
    return constant(1)


# ---------------------------------------------------------------------------------------------
# Random.


def _drawing(
    draw: Callable[[Generator, Shape, DType], Tensor], generator: Generator | None
) -> Initializer:
    """Returns an initializer that draws in at least float32 and rounds to narrower dtypes."""

    def initializer(shape: Shape, dtype: DType) -> Tensor:
        if _STATE.uninitialized:
            # A view of one number, which takes no memory.
            return broadcast_to(full((), 0, dtype=dtype), shape)
        wide = dtype if dtype == dtypes.float64 else dtypes.float32
        drawn = draw(generator or default_generator, shape, wide)
        return drawn if dtype == wide else astype(drawn, dtype)

    return initializer


@recipe
def uniform(
    low: float = -0.05, high: float = 0.05, *, generator: Generator | None = None
) -> Initializer:
    """Uniform values in [low, high)."""
    return _drawing(lambda g, shape, dtype: g.uniform(shape, low, high, dtype=dtype), generator)


@recipe
def normal(
    mean: float = 0.0, stddev: float = 0.05, *, generator: Generator | None = None
) -> Initializer:
    """Normal values."""
    return _drawing(lambda g, shape, dtype: g.normal(shape, mean, stddev, dtype=dtype), generator)


@recipe
def truncated_normal(
    mean: float = 0.0, stddev: float = 0.05, *, generator: Generator | None = None
) -> Initializer:
    """Normal values within two standard deviations (`stddev` is that before truncation)."""
    return _drawing(
        lambda g, shape, dtype: g.truncated_normal(shape, mean, stddev, dtype=dtype), generator
    )


def fans(shape: Shape) -> tuple[int, int]:
    """Returns (fan in, fan out): the inputs per output, and the outputs per input.

    Kernels are (inputs, outputs), or (*window, inputs, outputs).

    >>> from pullback.layers.initializers import fans
    >>> fans((3, 3, 8, 16))
    (72, 144)
    """
    if len(shape) < 2:
        return (shape[0], shape[0]) if shape else (1, 1)
    window = size_of(shape[:-2])
    return window * shape[-2], window * shape[-1]


def _scaled(
    variance: Callable[[int, int], float], kind: str, generator: Generator | None
) -> Initializer:
    """Returns an initializer whose variance is a function of the fans."""

    def draw(g: Generator, shape: Shape, dtype: DType) -> Tensor:
        deviation = math.sqrt(variance(*[max(fan, 1) for fan in fans(shape)]))
        if kind == "uniform":
            limit = math.sqrt(3) * deviation
            return g.uniform(shape, -limit, limit, dtype=dtype)
        return g.normal(shape, 0.0, deviation, dtype=dtype)

    return _drawing(draw, generator)


@recipe
def glorot_uniform(*, generator: Generator | None = None) -> Initializer:
    """Uniform with variance 2 / (fan in + fan out) (Glorot and Bengio, 2010, equation 16)."""
    return _scaled(lambda fan_in, fan_out: 2 / (fan_in + fan_out), "uniform", generator)


@recipe
def glorot_normal(*, generator: Generator | None = None) -> Initializer:
    """Normal with variance 2 / (fan in + fan out) (Glorot and Bengio, 2010, equation 12)."""
    return _scaled(lambda fan_in, fan_out: 2 / (fan_in + fan_out), "normal", generator)


@recipe
def he_uniform(*, generator: Generator | None = None) -> Initializer:
    """Uniform with variance 2 / fan in, for rectifiers (He et al., 2015, equation 10)."""
    return _scaled(lambda fan_in, fan_out: 2 / fan_in, "uniform", generator)


@recipe
def he_normal(*, generator: Generator | None = None) -> Initializer:
    """Normal with variance 2 / fan in, for rectifiers (He et al., 2015, equation 10)."""
    return _scaled(lambda fan_in, fan_out: 2 / fan_in, "normal", generator)


@recipe
def lecun_uniform(*, generator: Generator | None = None) -> Initializer:
    """Uniform with variance 1 / fan in (LeCun et al., 1998, Efficient BackProp, section 4.6)."""
    return _scaled(lambda fan_in, fan_out: 1 / fan_in, "uniform", generator)


@recipe
def lecun_normal(*, generator: Generator | None = None) -> Initializer:
    """Normal with variance 1 / fan in (LeCun et al., 1998, Efficient BackProp, section 4.6)."""
    return _scaled(lambda fan_in, fan_out: 1 / fan_in, "normal", generator)


@recipe
def orthogonal(gain: float = 1.0, *, generator: Generator | None = None) -> Initializer:
    """A matrix (..., columns) with orthonormal rows or columns, times gain (Saxe et al., 2014).

    Its distribution is uniform: Q of a normal matrix, multiplied by the signs of the diagonal of R
    (Mezzadri, 2007).
    """

    def draw(g: Generator, shape: Shape, dtype: DType) -> Tensor:
        if len(shape) < 2:
            raise errors.ShapeError(f"orthogonal needs a shape with two axes or more, got {shape}")
        rows, columns = size_of(shape[:-1]), shape[-1]
        tall = g.normal((max(rows, columns), min(rows, columns)), dtype=dtype)
        try:
            q, r = qr(tall)
            q = q * where(diagonal(r) < 0, -1.0, 1.0)
        except errors.MissingKernelError:  # a backend without linear algebra
            q = _orthonormal(tall)
        # In C order, as a checkpoint brings it back: BLAS rounds products by their layout.
        flat = (q if rows >= columns else q.mT).reshape((-1,))
        return flat.reshape(shape) * gain

    return _drawing(draw, generator)


def _orthonormal(x: Tensor) -> Tensor:
    """Returns Q of a tall matrix, for R with a positive diagonal, with ops of the core tier.

    This is Gram-Schmidt; two projections per column are enough (Giraud et al., 2005).
    """
    rows: list[Tensor] = []
    for row in x.mT:
        for _ in range(2 if rows else 0):
            matrix = stack(rows)
            row = row - (matrix @ row) @ matrix
        rows.append(row / sqrt(reduce_sum(row * row)))
    return stack(rows).mT


if not TYPE_CHECKING:
    __getattr__ = _hints.answer_module("pullback.layers.initializers")
