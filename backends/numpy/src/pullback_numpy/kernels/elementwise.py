"""Elementwise ops in NumPy, where a ufunc of the same name is not enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import array_api
from pullback.array_api.elementwise import POSITIVE_ZERO, negative_power
from pullback.plugins.records import Kernel
from pullback_numpy import threads
from pullback_numpy.half import narrowed, widened
from pullback_numpy.pieces import in_pieces
from pullback_numpy.typing import Array
from pullback_numpy.windows import even_ranges

_GENERIC = array_api.kernels(np)


def _split(ufunc: Any) -> Kernel:
    """A function of one array, whose large arrays are split over threads."""
    large = threads.LARGE

    def kernel(x: Array) -> Any:
        if x.size < large or not x.flags.c_contiguous or x.dtype.kind != "f":
            return ufunc(x)
        y = np.empty(x.shape, x.dtype)
        source, target = x.reshape(-1), y.reshape(-1)
        threads.run(
            lambda part: ufunc(source[slice(*part)], out=target[slice(*part)]),
            even_ranges(x.size, max(2, threads.threads())),
        )
        return y

    return kernel


def _tangent(ufunc: Any, infinite: str, other: str) -> Kernel:
    """tan or tanh; it is i or 1 where the part `infinite` of a complex number is infinite."""
    of_reals = _split(ufunc)

    def kernel(x: Array) -> Any:
        if x.dtype.kind != "c":
            return of_reals(x)
        y = np.asarray(ufunc(x))
        far = np.isinf(getattr(x, infinite)) & np.isfinite(getattr(x, other))
        if far.any():
            # The zero has the sign of the other part y; in C, and so in NumPy, that of sin(2 y).
            getattr(y, other)[far] = np.copysign(0, getattr(x, other)[far])
        return y

    return kernel


def _floor_divide(x1: Array, x2: Array) -> Any:
    if x1.dtype.kind in "iu":
        return np.floor_divide(x1, x2)
    if x1.dtype.itemsize == 2:
        # In float64, where no quotient of 16-bit floats is too small.
        return np.floor(np.divide(x1.astype(np.float64), x2.astype(np.float64))).astype(x1.dtype)
    quotient = np.divide(x1, x2)
    if x1.itemsize < 8 or not (np.abs(quotient) < 2.0**53).all():
        return _GENERIC["floor_divide"](x1, x2)
    # The generic kernel's way, for quotients whose fraction has digits left.
    whole = np.floor(quotient)
    doubtful = whole == quotient
    if not doubtful.any():
        return whole
    size, above = np.abs(x2), np.abs(np.remainder(x1, x2))
    return whole - (doubtful & (above > size - above))


def _expm1(x: Array) -> Array:
    y = np.expm1(x)
    if x.dtype.kind == "c":
        # NumPy multiplies infinities by zeros; exp follows the standard.
        finite = np.isfinite(x)
        if not finite.all():
            y = np.where(finite, y, np.exp(x) - 1)
        return y + POSITIVE_ZERO
    return y


def _log1p(x: Array) -> Array:
    if x.dtype.kind != "c":
        return np.log1p(x)
    # NumPy takes the logarithm of |1 + x|, in which the digits of a small x are lost.
    a, b = x.real, x.imag
    near = 0.5 * np.log1p(a * (2 + a) + b * b)
    far = np.log(np.hypot(1 + a, b))
    return _complex(np.where(np.abs(x) < 0.5, near, far), np.arctan2(b, 1 + a))


def _cube(x: Array, y: Array) -> None:
    np.multiply(x, x, out=y)
    np.multiply(y, x, out=y)


def _fourth(x: Array, y: Array) -> None:
    np.multiply(x, x, out=y)
    np.multiply(y, y, out=y)


def _fifth(x: Array, y: Array) -> None:
    _fourth(x, y)
    np.multiply(y, x, out=y)


def _inverse_square(x: Array, y: Array) -> None:
    np.divide(1, x, out=y)
    np.multiply(y, y, out=y)


def _root(x: Array, y: Array) -> None:
    np.sqrt(x, out=y)
    # As a power of -0, 0; as one of -inf, inf.
    np.add(y, 0, out=y)
    if x.size and not np.minimum.reduce(x, axis=None) > -np.inf:
        np.copyto(y, np.inf, where=x == -np.inf)


def _inverse_root(x: Array, y: Array) -> None:
    _root(x, y)
    np.divide(1, y, out=y)


#: By the exponent, what writes the power of x into y.
_POWERS: dict[float, Callable[[Array, Array], object]] = {
    2.0: lambda x, y: np.multiply(x, x, out=y),
    -1.0: lambda x, y: np.divide(1, x, out=y),
    3.0: _cube,
    4.0: _fourth,
    5.0: _fifth,
    -2.0: _inverse_square,
    0.5: _root,
    -0.5: _inverse_root,
}


def _fixed_power(x: Array, *, exponent: float) -> Array:
    write = _POWERS.get(exponent)
    if write is None:
        raise ValueError(f"exponent is {exponent}, which has no form; write x ** {exponent}")
    # Products of 16-bit floats are rounded once.
    return narrowed(_written(write, widened(x)), x)


def _fraction(x: Array, y: Array) -> None:
    np.floor(x, out=y)
    np.subtract(x, y, out=y)


def _remainder(x1: Array, x2: Array) -> Any:
    # What a division by 1 leaves is rounded once, as NumPy's remainder is, which is far slower.
    if x2.ndim == 0 and x1.dtype.kind not in "iu" and x2 == 1:
        return _written(_fraction, x1)
    if x2.ndim == 0 and x1.dtype.kind in "iu" and x1.size >= _DIVIDED and x2 != 0:
        # NumPy divides by one integer with products; the rest is exact, as all wraps around.
        y = np.floor_divide(x1, x2)
        y *= x2
        return np.subtract(x1, y, out=y)
    if x1.dtype == np.float32 and max(x1.size, x2.size) >= SMALL:
        return _rests(x1, x2) if x2.ndim else _written(lambda x, y: _rest(x, x2, y), x1)
    return np.remainder(x1, x2)


#: From so many integers on three calls take less time than a division of each.
_DIVIDED = 256
#: Arrays below are done before several calls of NumPy have begun.
SMALL = 2048
#: Arrays from here on are worth a Python function for each piece.
_MANY = 16384


def _rest(x: Array, divisor: Array, y: Array) -> None:
    """The remainders of float32: NumPy divides with remainder bit by bit."""
    # Quotients of up to 29 bits times a divisor of 24 are exact in float64, as is the difference.
    wide, by = x.astype(np.float64), divisor.astype(np.float64)
    quotient = np.divide(wide, by)
    np.floor(quotient, out=quotient)
    far = not np.maximum.reduce(np.abs(quotient), axis=None) < 2.0**29
    if far or not np.isfinite(np.maximum.reduce(np.abs(divisor), axis=None)):
        np.remainder(x, divisor, out=y)
        return
    quotient *= by
    wide -= quotient
    y[...] = wide
    if (zero := np.equal(y, 0)).any():
        np.copysign(y, divisor, out=y, where=zero)


_rests = in_pieces(_rest)


def _hypot(x1: Array, x2: Array) -> Any:
    alike = x1.shape == x2.shape and x1.flags.c_contiguous and x2.flags.c_contiguous
    if x1.dtype != np.float32 or x1.size < SMALL or not alike:
        return np.hypot(x1, x2)
    y = np.empty_like(x1)
    first, second, target = x1.reshape(-1), x2.reshape(-1), y.reshape(-1)

    def work(part: slice) -> None:
        # Squares of float32 are numbers in float64, without overflow.
        a, b = first[part].astype(np.float64), second[part].astype(np.float64)
        a *= a
        b *= b
        a += b
        size = np.sqrt(a, out=a)
        target[part] = size
        if np.isnan(np.maximum.reduce(size)):
            # An infinite side beside a NaN has an infinite hypotenuse.
            infinite = np.isinf(first[part]) | np.isinf(second[part])
            np.copyto(target[part], np.inf, where=infinite)

    threads.over(work, y.size)
    return y


def _written(write: Callable[[Array, Array], object], x: Array) -> Array:
    """A new array like x, which `write` fills from x: large ones piece by piece."""
    y = np.empty_like(x)
    if x.size <= threads.PIECE or not x.flags.c_contiguous:
        write(x, y)
    else:
        source, target = x.reshape(-1), y.reshape(-1)
        threads.over(lambda part: write(source[part], target[part]), x.size)
    return y


def _pow(x1: Array, x2: Array) -> Array:
    if x2.size == 1 and x2.ndim <= x1.ndim and x2.dtype.kind not in "iuc":
        exponent = float(x2.reshape(()))
        if exponent == 1:
            return x1
        if exponent in _POWERS:
            return _fixed_power(x1, exponent=exponent)
    if x1.dtype == np.complex64:
        # In single precision NumPy's powers lose five units in the last place.
        with np.errstate(all="ignore"):
            wide = np.power(x1.astype(np.complex128), x2.astype(np.complex128))
            return np.asarray(wide.astype(np.complex64))
    try:
        y = np.power(x1, x2)
    except ValueError:
        if x2.dtype.kind == "i" and (x2 < 0).any():
            raise negative_power(x2.dtype) from None
        raise
    # NumPy takes the root for an exponent of 0.5 that broadcasts: -0 for -0, NaN for -inf.
    if x1.dtype.kind == "f" and (half := x2 == 0.5).any():
        y = np.where(half & ((x1 == 0) | (x1 == -np.inf)), np.abs(x1), y)
    return y


def _slope_quotient(g: Array, slope: Array) -> Any:
    if g.dtype.kind == "c":
        undefined = (g == 0) & ((slope == 0) | (slope != slope))
        return np.divide(g, np.where(undefined, g.dtype.type(1), slope))
    y = np.divide(g, slope)
    # The quotient of 0 is NaN nowhere else.
    if not y.size or not np.isnan(np.maximum.reduce(y, axis=None)):
        return y
    return np.where(np.isnan(y) & (g == 0), g, y)


def _ldexp(x1: Array, x2: Array) -> Array:
    # NumPy takes exponents of C's int and long, ml_dtypes those of int32. Beyond 5000 nothing is
    # left of any number, or it is infinite.
    if x2.dtype != np.int32:
        if x2.itemsize > 2:
            x2 = np.minimum(x2, 5000) if x2.dtype.kind == "u" else np.clip(x2, -5000, 5000)
        x2 = x2.astype(np.int32)
    return np.asarray(np.ldexp(x1, x2))


def _frexp(x: Array) -> tuple[Array, Array]:
    mantissa, exponent = np.frexp(x)
    # C leaves the exponent of what is not finite open.
    return mantissa, np.where(np.isfinite(x), exponent, np.int32(0))


def _heaviside(x1: Array, x2: Array) -> Any:
    if x1.dtype.kind in "iu":
        return np.where(x1 == 0, x2, (x1 > 0).astype(x1.dtype))
    return np.heaviside(x1, x2)


def _real(x: Array) -> Array:
    return x.real if x.dtype.kind == "c" else x


def _imag(x: Array) -> Array:
    return x.imag if x.dtype.kind == "c" else np.zeros_like(x)


def _complex(real: Array, imag: Array) -> Array:
    whole = np.empty(
        np.broadcast_shapes(real.shape, imag.shape),
        np.complex64 if real.dtype == np.float32 else np.complex128,
    )
    whole.real = real
    whole.imag = imag
    return whole


def _extremum(ufunc: Any, *, lower: bool) -> Kernel:
    """np.maximum or np.minimum, which are slow beside one number."""

    def kernel(x1: Array, x2: Array) -> Any:
        x, bound = (x1, x2) if x1.ndim else (x2, x1)
        if bound.ndim or x.size < _MANY or x.dtype.char not in "fd":
            return ufunc(x1, x2)
        return _within(x, bound, np.inf) if lower else _within(x, -np.inf, bound)

    return kernel


maximum = _extremum(np.maximum, lower=True)
minimum = _extremum(np.minimum, lower=False)


def _within(x: Array, least: Any, most: Any) -> Array:
    return _written(lambda part, y: np.clip(part, least, most, out=y), x)


def clip(x: Array, least: Array | None, most: Array | None) -> Any:
    """min(max(x, least), most), without a bound that is None."""
    one = (least is None or not least.ndim) and (most is None or not most.ndim)
    if one and x.size >= _MANY:
        if x.dtype.char in "fd":
            low, high = -np.inf if least is None else least, np.inf if most is None else most
            return _within(x, low, high)
        if x.dtype.kind in "iu" and least is not None and most is not None:
            return _within(x, least, most)
    if least is not None:
        x = np.maximum(x, least)
    return x if most is None else np.minimum(x, most)


def _round(x: Array) -> Array:
    return x if x.dtype.kind in "iu" else np.rint(x)


def _sign(x: Array) -> Array:
    y = np.sign(x)
    # ml_dtypes gives -0 for -0, the standard and NumPy's own dtypes 0.
    return y + y.dtype.type(0) if x.dtype.kind == "V" else y


_BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def where(condition: Array, x1: Array, x2: Array) -> Array:
    """np.where for two arrays of one dtype."""
    if condition.size + x1.size + x2.size < 4096 or x1.itemsize > 8:
        return np.where(condition, x1, x2)
    bits, shape = _BITS[x1.itemsize], condition.shape
    first, second = x1.view(bits), x2.view(bits)
    arrays = [array for array in (condition, first, second) if array.ndim]
    if condition.size < threads.LARGE or not all(
        array.shape == shape and array.flags.c_contiguous for array in arrays
    ):
        chosen = _chosen(condition, first, second)
        return chosen.view(x1.dtype)
    y = np.empty(shape, bits)
    flat = [array.reshape(-1) if array.ndim else array for array in (condition, first, second, y)]

    def work(piece: slice) -> None:
        _chosen(*(array[piece] if array.ndim else array for array in flat))

    threads.over(work, y.size)
    return y.view(x1.dtype)


def _chosen(condition: Array, first: Array, second: Array, out: Array | None = None) -> Array:
    # np.where branches at every element. Without a branch, in bits: (x1 ^ x2) c ^ x2.
    chosen = np.multiply(np.bitwise_xor(first, second), condition.view(np.int8), out=out)
    chosen ^= second
    return chosen


KERNELS: dict[str, Kernel] = {
    "cbrt": _split(np.cbrt),
    "clip": clip,
    "complex": _complex,
    "conj": np.conjugate,
    "exp2": _split(np.exp2),
    "expm1": _expm1,
    "fixed_power": _fixed_power,
    "floor_divide": _floor_divide,
    "fmod": np.fmod,
    "frexp": _frexp,
    "gcd": np.gcd,
    "heaviside": _heaviside,
    "hypot": _hypot,
    "imag": _imag,
    "lcm": np.lcm,
    "ldexp": _ldexp,
    "log1p": _log1p,
    "maximum": maximum,
    "minimum": minimum,
    "multiply": np.multiply,  # which takes booleans itself
    "pow": _pow,
    "real": _real,
    "remainder": _remainder,
    "round": _round,
    "sign": _sign,
    "slope_quotient": _slope_quotient,
    "tan": _tangent(np.tan, "imag", "real"),
    "tanh": _tangent(np.tanh, "real", "imag"),
    "where": where,
    # Functions that take long enough an element for a second thread not to wait for memory.
    **{name: _split(getattr(np, name)) for name in ("exp", "log", "sin", "cos")},
}
