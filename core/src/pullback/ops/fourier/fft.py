"""Discrete Fourier transforms (array API standard, extension fft).

With w = exp(-2 pi i / n) the transform of x is X_k = sum_j x_j w^(jk), its inverse
x_j = sum_k X_k w^(-jk) / n. `norm` selects the transform that has the factor 1 / n: "backward" the
inverse, "forward" the transform; "ortho" gives both its root. A size `n` truncates the input along
its axis, or pads it with zeros at the end.
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

#: Each scaling, and that of the opposite transform.
SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def check_norm(norm: object) -> None:
    """Raises InputValueError for an unknown `norm`."""
    if norm not in SWAPPED:
        raise errors.InputValueError(f'norm must be "backward", "ortho" or "forward", got {norm!r}')


def check_size(n: object) -> int:
    """The number of elements of a transform along one axis; at least 1."""
    size = as_int(n, "the integer size of a transform")
    if size < 1:
        raise errors.InputValueError(f"a transform needs at least 1 element, got {size}")
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
    """The shape with n elements along the axis."""
    return (*x[:axis], n, *x[axis + 1 :])


def _half(x: Shape, *, n: int, axis: int, **_: object) -> Shape:
    """The shape with n // 2 + 1 elements along the axis."""
    return (*x[:axis], n // 2 + 1, *x[axis + 1 :])


def to_complex(operands: Operands, **_: object) -> Resolution:
    """A dtype rule: numbers of any kind, promoted to a complex dtype."""
    dtype = dtypes.complex_of(dtypes.floating(operands).outputs[0])
    return Resolution((dtype,), (dtype,))


def real_to_complex(operands: Operands, **_: object) -> Resolution:
    """A dtype rule: real numbers; the result is complex."""
    dtype = dtypes.complex_of(dtypes.real_floating(operands).outputs[0])
    return Resolution((dtypes.real_of(dtype),), (dtype,))


def complex_to_real(operands: Operands, **_: object) -> Resolution:
    """A dtype rule: numbers promoted to a complex dtype; the result is real."""
    (dtype,) = to_complex(operands).outputs
    return Resolution((dtype,), (dtypes.real_of(dtype),))


def fit(x: Tensor, n: int, axis: int) -> Tensor:
    """x truncated to n elements along `axis`, or padded with zeros."""
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
        x: a tensor; a real x is converted to complex.
        n: the number of elements to transform; by default the size of the axis.
        axis: the axis to transform.
        norm: "backward", "ortho" or "forward": the place of the factor 1 / n.

    Raises:
        AxisError: for an axis out of range.
        InputValueError: for an n below 1, or an unknown norm.

    >>> pb.fft.fft([1.0, 0.0, 0.0, 0.0]).real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """


# The matrix of a transform is symmetric, so the rule is the transform itself.
@fft.vjp("x")
def _(g: Tensor, x_shape: Shape, axis: int, norm: str) -> Tensor:
    return fit(fft(g, axis=axis, norm=norm), x_shape[axis], axis)


@op(shape=_whole, dtype=to_complex, accuracy=BACKWARD_STABLE, tier=Tier.FFT, normalize=_as_given)
def ifft(x: Tensor, /, *, n: int | None = None, axis: Axis = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft` along `axis`, with the same arguments.

    Raises:
        AxisError: for an axis out of range.
        InputValueError: for an n below 1, or an unknown norm.

    >>> pb.fft.ifft([4.0, 0.0, 0.0, 0.0]).real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return conj(fft(conj(x), n=n, axis=axis, norm=SWAPPED[norm]))


@ifft.vjp("x")
def _(g: Tensor, x_shape: Shape, axis: int, norm: str) -> Tensor:
    return fit(ifft(g, axis=axis, norm=norm), x_shape[axis], axis)


# ---------------------------------------------------------------------------------------------
# Real on one side: X_(n-k) = conj(X_k), so the first n // 2 + 1 elements determine all.


@op(
    shape=_half, dtype=real_to_complex, accuracy=BACKWARD_STABLE, tier=Tier.FFT, normalize=_as_given
)
def rfft(x: Tensor, /, *, n: int | None = None, axis: Axis = -1, norm: str = "backward") -> Tensor:
    """The first n // 2 + 1 elements of the transform of a real x along `axis`.

    Args:
        x: a real tensor.
        n: the number of elements to transform; by default the size of the axis.
        axis: the axis to transform.
        norm: "backward", "ortho" or "forward": the place of the factor 1 / n.

    Raises:
        AxisError: for an axis out of range.
        InputValueError: for an n below 1, or an unknown norm.
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
    """The inverse of `rfft` along `axis`: a real tensor.

    The imaginary parts of the first element, and for an even n of the last, are ignored.

    Args:
        x: the first n // 2 + 1 elements of a transform.
        n: the number of elements of the result; by default 2 (m - 1) for m elements of x.
        axis: the axis to transform.
        norm: "backward", "ortho" or "forward": the place of the factor 1 / n.

    Raises:
        AxisError: for an axis out of range.
        InputValueError: for an n below 1, or an unknown norm.

    >>> pb.fft.irfft([1.0, 1.0, 1.0]).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    assert n is not None
    half = fit(x, n // 2 + 1, axis)
    mirrored = conj(flip(_part(half, 1, n - n // 2, axis), axis=axis))
    return real(ifft(concat([half, mirrored], axis=axis), axis=axis, norm=norm))


@irfft.vjp("x")
def _(g: Tensor, x_shape: Shape, n: int, axis: int, norm: str) -> Tensor:
    # Every element counts twice, except the first and, for an even n, the last.
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
    """The real transform along `axis` of a Hermitian x, given by its first half.

    Args:
        x: the first n // 2 + 1 elements.
        n: the number of elements of the result; by default 2 (m - 1) for m elements of x.
        axis: the axis to transform.
        norm: "backward", "ortho" or "forward": the place of the factor 1 / n.

    Raises:
        AxisError: for an axis out of range.
        InputValueError: for an n below 1, or an unknown norm.

    >>> pb.fft.hfft([1.0, 0.0, 0.0]).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return irfft(conj(x), n=n, axis=axis, norm=SWAPPED[norm])


@op(
    shape=_half, dtype=real_to_complex, accuracy=BACKWARD_STABLE, tier=Tier.FFT, normalize=_as_given
)
def ihfft(x: Tensor, /, *, n: int | None = None, axis: Axis = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft` along `axis`: the first n // 2 + 1 elements.

    Args:
        x: a real tensor.
        n: the number of elements to transform; by default the size of the axis.
        axis: the axis to transform.
        norm: "backward", "ortho" or "forward": the place of the factor 1 / n.

    Raises:
        AxisError: for an axis out of range.
        InputValueError: for an n below 1, or an unknown norm.
        DTypeError: for a complex x.

    >>> pb.fft.ihfft([1.0, 1.0, 1.0, 1.0]).real.tolist()
    [1.0, 0.0, 0.0]
    """
    return conj(rfft(x, n=n, axis=axis, norm=SWAPPED[norm]))
