"""Discrete Fourier transforms (array API standard, extension fft).

With w = exp(-2 pi i / n) the transform of x is X_k = sum_j x_j w^(jk), its inverse
x_j = sum_k X_k w^(-jk) / n. `norm` says where the 1 / n goes: "backward" to the inverse, "forward"
to the transform, "ortho" its root to both. A size `n` cuts the input along its axis, or fills it up
with zeros at the end.
"""

from __future__ import annotations

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution
from pullback.ops.complex import conj, real
from pullback.ops.joining import concat
from pullback.ops.manipulation import flip
from pullback.ops.padding import pad
from pullback.shapes import Axis, Shape, as_int
from pullback.spec import BACKWARD_STABLE, Tier
from pullback.tensor import Tensor

__all__ = ["fft", "hfft", "ifft", "ihfft", "irfft", "rfft"]

#: Each scaling, and that of the transform the other way round.
SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def check_norm(norm: object) -> None:
    """Raises an InputValueError unless `norm` is one of the standard's three."""
    if norm not in SWAPPED:
        raise errors.InputValueError(f'norm is "backward", "ortho" or "forward", got {norm!r}')


def check_size(n: object) -> int:
    """The number of elements of a transform along one axis; at least 1."""
    size = as_int(n, "the integer size of a transform")
    if size < 1:
        raise errors.InputValueError(f"a transform has at least 1 element, got {size}")
    return size


def _as_given(
    shapes: tuple[Shape, ...], *, n: int | None, axis: int, norm: str
) -> dict[str, object]:
    check_norm(norm)
    return {"n": check_size(shapes[0][axis] if n is None else n), "axis": axis, "norm": norm}


def _twice_less_one(
    shapes: tuple[Shape, ...], *, n: int | None, axis: int, norm: str
) -> dict[str, object]:
    check_norm(norm)
    n = 2 * (shapes[0][axis] - 1) if n is None else n
    return {"n": check_size(n), "axis": axis, "norm": norm}


def _whole(x: Shape, *, n: int, axis: int, **_: object) -> Shape:
    """n elements along the axis."""
    return (*x[:axis], n, *x[axis + 1 :])


def _half(x: Shape, *, n: int, axis: int, **_: object) -> Shape:
    """n // 2 + 1 elements along the axis."""
    return (*x[:axis], n // 2 + 1, *x[axis + 1 :])


def to_complex(operands: Operands, **_: object) -> Resolution:
    """A dtype rule: complex from anything."""
    dtype = dtypes.complex_of(dtypes.floating(operands).outputs[0])
    return Resolution((dtype,), (dtype,))


def real_to_complex(operands: Operands, **_: object) -> Resolution:
    """A dtype rule: complex from what is real."""
    dtype = dtypes.complex_of(dtypes.real_floating(operands).outputs[0])
    return Resolution((dtypes.real_of(dtype),), (dtype,))


def complex_to_real(operands: Operands, **_: object) -> Resolution:
    """A dtype rule: real, by way of complex, from anything."""
    (dtype,) = to_complex(operands).outputs
    return Resolution((dtype,), (dtypes.real_of(dtype),))


def fit(x: Tensor, n: int, axis: int) -> Tensor:
    """x cut to n elements along `axis`, or filled up with zeros."""
    have = x.shape[axis]
    if have < n:
        width = [(0, 0)] * x.ndim
        width[axis] = (0, n - have)
        return pad(x, tuple(width))
    return x if have == n else x[(*[slice(None)] * axis, slice(n))]


def _part(x: Tensor, start: int, stop: int, axis: int) -> Tensor:
    return x[(*[slice(None)] * axis, slice(start, stop))]


# ---------------------------------------------------------------------------------------------
# Complex.


@op(
    shape=_whole,
    dtype=to_complex,
    accuracy=BACKWARD_STABLE,
    tier=Tier.FFT,
    normalize=_as_given,
    primitive="A product with the matrix of roots of unity costs n**2, not n log(n).",
)
def fft(x: Tensor, /, *, n: int | None = None, axis: Axis = -1, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform along `axis`.

    Args:
        x: a tensor; a real one is taken as complex.
        n: the number of elements to transform; by default all along the axis.
        axis: the axis to transform.
        norm: where the factor 1 / n goes.

    Raises:
        AxisError: for an axis out of range.
        InputValueError: for an n below 1, or another norm.

    >>> pb.fft.fft([1.0, 0.0, 0.0, 0.0]).real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """


# The matrix of a transform is symmetric: it is its own transpose.
@fft.vjp("x")
def _(g: Tensor, x_shape: Shape, axis: int, norm: str) -> Tensor:
    return fit(fft(g, axis=axis, norm=norm), x_shape[axis], axis)


@op(
    shape=_whole,
    dtype=to_complex,
    accuracy=BACKWARD_STABLE,
    tier=Tier.FFT,
    normalize=_as_given,
)
def ifft(x: Tensor, /, *, n: int | None = None, axis: Axis = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft` along `axis`, with the same arguments.

    Raises:
        AxisError: for an axis out of range.
        InputValueError: for an n below 1, or another norm.

    >>> pb.fft.ifft([4.0, 0.0, 0.0, 0.0]).real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return conj(fft(conj(x), n=n, axis=axis, norm=SWAPPED[norm]))


@ifft.vjp("x")
def _(g: Tensor, x_shape: Shape, axis: int, norm: str) -> Tensor:
    return fit(ifft(g, axis=axis, norm=norm), x_shape[axis], axis)


# ---------------------------------------------------------------------------------------------
# Real on one side: X_(n-k) = conj(X_k), so that the first n // 2 + 1 elements say it all.


@op(
    shape=_half,
    dtype=real_to_complex,
    accuracy=BACKWARD_STABLE,
    tier=Tier.FFT,
    normalize=_as_given,
)
def rfft(x: Tensor, /, *, n: int | None = None, axis: Axis = -1, norm: str = "backward") -> Tensor:
    """The first n // 2 + 1 elements of the transform of a real x along `axis`: the others mirror.

    Args:
        x: a real tensor.
        n: the number of elements to transform; by default all along the axis.
        axis: the axis to transform.
        norm: where the factor 1 / n goes.

    Raises:
        AxisError: for an axis out of range.
        InputValueError: for an n below 1, or another norm.
        DTypeError: for a complex x.

    >>> pb.fft.rfft([1.0, 0.0, 0.0, 0.0]).real.tolist()
    [1.0, 1.0, 1.0]
    """
    assert n is not None
    spectrum = fft(x.astype(dtypes.complex_of(x.dtype)), n=n, axis=axis, norm=norm)
    return _part(spectrum, 0, n // 2 + 1, axis)


@rfft.vjp("x")
def _(g: Tensor, x_shape: Shape, n: int, axis: int, norm: str) -> Tensor:
    return fit(real(fft(g, n=n, axis=axis, norm=norm)), x_shape[axis], axis)


@op(
    shape=_whole,
    dtype=complex_to_real,
    accuracy=BACKWARD_STABLE,
    tier=Tier.FFT,
    normalize=_twice_less_one,
)
def irfft(x: Tensor, /, *, n: int | None = None, axis: Axis = -1, norm: str = "backward") -> Tensor:
    """The real tensor whose `rfft` along `axis` is x.

    The imaginary parts of the first element, and for an even n of the last, count for nothing.

    Args:
        x: the first n // 2 + 1 elements of a transform.
        n: the number of elements of the result; by default 2 (m - 1) for m elements of x.
        axis: the axis to transform.
        norm: where the factor 1 / n goes.

    Raises:
        AxisError: for an axis out of range.
        InputValueError: for an n below 1, or another norm.

    >>> pb.fft.irfft([1.0, 1.0, 1.0]).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    assert n is not None
    half = fit(x, n // 2 + 1, axis)
    mirrored = conj(flip(_part(half, 1, n - n // 2, axis), axis=axis))
    return real(ifft(concat([half, mirrored], axis=axis), axis=axis, norm=norm))


@irfft.vjp("x")
def _(g: Tensor, x_shape: Shape, n: int, axis: int, norm: str) -> Tensor:
    # Every element but the first, and for an even n the last, stands for its mirror image as well.
    spectrum = conj(rfft(g, axis=axis, norm=SWAPPED[norm]))
    ends = (n + 1) // 2
    parts = [
        _part(spectrum, 0, 1, axis),
        2 * _part(spectrum, 1, ends, axis),
        _part(spectrum, ends, n // 2 + 1, axis),
    ]
    return fit(concat(parts, axis=axis), x_shape[axis], axis)


@op(
    shape=_whole,
    dtype=complex_to_real,
    accuracy=BACKWARD_STABLE,
    tier=Tier.FFT,
    normalize=_twice_less_one,
)
def hfft(x: Tensor, /, *, n: int | None = None, axis: Axis = -1, norm: str = "backward") -> Tensor:
    """The transform along `axis` of x with x_(n-j) = conj(x_j), of which the first half is given.

    Args:
        x: the first n // 2 + 1 elements.
        n: the number of elements of the result; by default 2 (m - 1) for m elements of x.
        axis: the axis to transform.
        norm: where the factor 1 / n goes.

    Raises:
        AxisError: for an axis out of range.
        InputValueError: for an n below 1, or another norm.

    >>> pb.fft.hfft([1.0, 0.0, 0.0]).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return irfft(conj(x), n=n, axis=axis, norm=SWAPPED[norm])


@op(
    shape=_half,
    dtype=real_to_complex,
    accuracy=BACKWARD_STABLE,
    tier=Tier.FFT,
    normalize=_as_given,
)
def ihfft(x: Tensor, /, *, n: int | None = None, axis: Axis = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft` along `axis`: the first n // 2 + 1 elements.

    Args:
        x: a real tensor.
        n: the number of elements to transform; by default all along the axis.
        axis: the axis to transform.
        norm: where the factor 1 / n goes.

    Raises:
        AxisError: for an axis out of range.
        InputValueError: for an n below 1, or another norm.
        DTypeError: for a complex x.

    >>> pb.fft.ihfft([1.0, 1.0, 1.0, 1.0]).real.tolist()
    [1.0, 0.0, 0.0]
    """
    return conj(rfft(x, n=n, axis=axis, norm=SWAPPED[norm]))
