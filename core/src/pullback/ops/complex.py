"""Complex numbers and their parts.

Rules follow the transpose convention: a cotangent g stands for dL = Re(g dz). The rules of
functions that are not holomorphic follow from it. The tape conjugates the gradients it returns.
"""

from __future__ import annotations

from pullback._dispatch import op
from pullback.dtypes import (
    DTypeRule,
    Operands,
    Resolution,
    complex_,
    complex_of,
    floating,
    is_complex,
    numeric,
    real_floating,
    real_of,
    uniform,
)
from pullback.ops.arithmetic import negative, positive
from pullback.ops.calculus import zeros
from pullback.ops.trigonometric import atan2
from pullback.shapes import Shape, broadcast
from pullback.spec import EXACT, FEW_ULP, Tier
from pullback.tensor import Tensor

__all__ = ["angle", "complex", "complex_parts", "conj", "imag", "real"]


def _part_of(whole: DTypeRule) -> DTypeRule:
    @uniform
    def rule(operands: Operands, **_: object) -> Resolution:
        """Inputs promoted to one dtype; the result has the real dtype of their parts."""
        inputs, (dtype,) = whole(operands)
        return Resolution(inputs, (real_of(dtype),))

    return rule


@uniform
def _whole(operands: Operands, **_: object) -> Resolution:
    """Real parts, promoted to float32 or float64; the result has their complex dtype."""
    inputs = real_floating(operands).inputs
    assert inputs[0] is not None
    whole = complex_of(inputs[0])
    return Resolution((real_of(whole),) * 2, (whole,))


@op(
    shape=broadcast,
    dtype=_whole,
    accuracy=EXACT,
    tier=Tier.COMPLEX,
    primitive="real + imag * 1j has a NaN real part when imag is infinite.",
)
def complex(real: Tensor, imag: Tensor, /) -> Tensor:
    """The complex number real + imag * 1j.

    >>> pb.complex([1.0, 2.0], 3.0).tolist()
    [(1+3j), (2+3j)]
    """


@uniform
def _both_parts(operands: Operands, **_: object) -> Resolution:
    """The real dtype of a complex input, twice."""
    inputs, (dtype,) = complex_(operands)
    return Resolution(inputs, (real_of(dtype),) * 2)


def _twice(x: Shape) -> list[Shape]:
    """The shape of the input, twice."""
    return [x, x]


@op(
    shape=_twice,
    dtype=_both_parts,
    accuracy=EXACT,
    tier=Tier.COMPLEX,
    outputs=("real", "imag"),
    primitive="Arithmetic on complex numbers gives complex numbers, and mixes infinite parts.",
)
def complex_parts(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """The real and the imaginary part of complex numbers.

    >>> real, imag = pb.complex_parts([1 + 2j, 3 - 4j])
    >>> real.tolist(), imag.tolist()
    ([1.0, 3.0], [2.0, -4.0])
    """


complex_parts.vjp(x=lambda g: complex(g[0], -g[1]))


@op(shape=broadcast, dtype=_part_of(numeric), accuracy=EXACT, view=True)
def real(x: Tensor, /) -> Tensor:
    """The real part; a real x is returned as it is.

    >>> pb.real([1 + 2j, 3 - 4j]).tolist()
    [1.0, 3.0]
    """
    return complex_parts(x)[0] if is_complex(x.dtype) else positive(x)


@op(shape=broadcast, dtype=_part_of(numeric), accuracy=EXACT, view=True)
def imag(x: Tensor, /) -> Tensor:
    """The imaginary part; 0 for a real x.

    >>> pb.imag([1 + 2j, 3 - 4j]).tolist()
    [2.0, -4.0]
    """
    return complex_parts(x)[1] if is_complex(x.dtype) else zeros(x)


complex.vjp(real=lambda g: real(g), imag=lambda g: -imag(g))
real.vjp(x=lambda g, x_dtype: g.astype(x_dtype))
imag.vjp(x=lambda g, x_dtype: complex(zeros(g), -g) if is_complex(x_dtype) else zeros(g))


@op(shape=broadcast, dtype=numeric, accuracy=EXACT)
def conj(x: Tensor, /) -> Tensor:
    """The complex conjugate; a real x is returned as it is.

    >>> pb.conj([1 + 2j, 3 - 4j]).tolist()
    [(1-2j), (3+4j)]
    """
    return complex(real(x), negative(imag(x))) if is_complex(x.dtype) else positive(x)


conj.vjp(x=lambda g: conj(g))


@op(shape=broadcast, dtype=_part_of(floating), accuracy=FEW_ULP)
def angle(x: Tensor, /) -> Tensor:
    """The angle of x in the complex plane, in [-pi, pi]. The gradient at 0 is 0.

    >>> pb.angle([1j, -1 + 0j]).tolist()
    [1.5707963705062866, 3.1415927410125732]
    """
    return atan2(imag(x), real(x))
