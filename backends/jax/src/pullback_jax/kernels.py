"""The kernels: those of `pullback.array_api` over JAX, and its own where JAX differs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from pullback import array_api
from pullback.casting import HALF
from pullback.plugins.compiling import require
from pullback.plugins.records import Kernel, may_decline
from pullback_jax import indexing, neural
from pullback_jax.neural import narrowed, widened
from pullback_jax.settings import with_settings

GENERIC = array_api.kernels(jnp)

#: Functions that JAX computes in several steps, each of which it rounds to 16 bits.
ROUNDED_OFTEN = """
    acos acosh asin asinh atan atan2 atanh cos cosh exp expm1 hypot log log10 log1p log2 logaddexp
    pow reciprocal remainder sin sinh sqrt tan tanh
"""


def _astype(x: jax.Array, *, dtype: Any) -> jax.Array:
    if x.dtype == jnp.float64 and dtype in HALF:
        x = _rounded_to_odd(x)
    converted: jax.Array = GENERIC["astype"](x, dtype=dtype)
    return converted


def _rounded_to_odd(x: jax.Array) -> jax.Array:
    """float64 as float32, whose last bit says whether digits are lost.

    XLA rounds to 16 bits by way of float32. Rounded so, nothing looks like the middle of two
    numbers of 16 bits that is not.
    """
    near = x.astype(jnp.float32)
    back = near.astype(jnp.float64)
    bits = lax.bitcast_convert_type(near, jnp.int32)
    towards_zero = bits - (jnp.abs(back) > jnp.abs(x)).astype(jnp.int32)
    odd = jnp.where(back == x, bits, towards_zero | 1)
    return jnp.where(jnp.isnan(x), near, lax.bitcast_convert_type(odd, jnp.float32))


def _in_float32(kernel: Kernel) -> Kernel:
    """A kernel that computes 16-bit floats in float32, and rounds once."""

    def computed(*arrays: jax.Array) -> Any:
        if arrays[0].dtype not in HALF:
            return kernel(*arrays)
        return narrowed(kernel(*map(widened, arrays)), arrays[0])

    return computed


def _bitcast(x: jax.Array, *, dtype: Any, parts: int, whole: int) -> jax.Array:
    return lax.bitcast_convert_type(x, dtype)


@may_decline
def _lu_factor(x: jax.Array) -> Any:
    if jnp.iscomplexobj(x):
        return NotImplemented  # LAPACK's pivots are by |re| + |im|, the op's by the absolute value
    lu, pivots, _ = lax.linalg.lu(widened(x))
    return narrowed(lu, x), pivots


def _row_order(pivots: jax.Array, *, rows: int) -> jax.Array:
    if pivots.shape[-1] > rows:
        raise ValueError("there are more pivots than rows")
    order = lax.linalg.lu_pivots_to_permutation(pivots.astype(jnp.int32), rows)
    return order.astype(jnp.int64)


def _of_integers(name: str) -> Kernel:
    """A quotient or remainder, which is 0 for integers divided by 0."""
    function = GENERIC[name]

    def kernel(x1: jax.Array, x2: jax.Array) -> jax.Array:
        if not jnp.issubdtype(x1.dtype, jnp.integer):
            found: jax.Array = function(x1, x2)
            return found
        zero = x2 == 0
        found = function(x1, jnp.where(zero, jnp.ones_like(x2), x2))
        return jnp.where(zero, jnp.zeros_like(found), found)

    return kernel


def _remainder(x1: jax.Array, x2: jax.Array) -> jax.Array:
    found: jax.Array = _of_integers("remainder")(x1, x2)
    if jnp.issubdtype(x1.dtype, jnp.integer):
        return found
    # A remainder of zero has the sign of the divisor.
    return jnp.where(found == 0, jnp.copysign(found, x2), found)


def _sign(x: jax.Array) -> jax.Array:
    found: jax.Array = GENERIC["sign"](x)
    return jnp.where(x == 0, jnp.zeros_like(x), found)


def _hyperbolic(name: str) -> Kernel:
    """cosh or sinh: XLA's take exp(x - log(2)), which loses digits of a large x."""
    function, odd = GENERIC[name], name == "sinh"

    def kernel(x: jax.Array) -> jax.Array:
        if jnp.iscomplexobj(x):
            found: jax.Array = function(x)
            return found
        wide = x.astype(jnp.float64)
        size = jnp.abs(wide)
        power, root = jnp.exp(size), jnp.exp(size / 2)
        large = jnp.where(jnp.isinf(power), root * (root / 2), power / 2)
        if odd:
            far = jnp.copysign(large - 0.5 / power, wide)
            result = jnp.where(size < 1, function(wide), far)
        else:
            result = large + 0.5 / power
        return _astype(result, dtype=x.dtype)

    return kernel


def _complex(real: jax.Array, imag: jax.Array) -> jax.Array:
    """The generic kernel multiplies and adds, by which subnormal parts become 0."""
    return lax.complex(*jnp.broadcast_arrays(real, imag))


def _of_nonzero(name: str) -> Kernel:
    """any or all: JAX's look at the real part of a complex number alone."""
    function = GENERIC[name]

    def kernel(x: jax.Array, **attributes: Any) -> jax.Array:
        found: jax.Array = function(x != 0 if jnp.iscomplexobj(x) else x, **attributes)
        return found

    return kernel


def _matmul(x1: jax.Array, x2: jax.Array) -> jax.Array:
    product = jnp.matmul(widened(x1), widened(x2), precision=jax.lax.Precision.HIGHEST)
    return narrowed(product, x1)


def _cholesky(x: jax.Array, *, upper: bool) -> jax.Array:
    factor: jax.Array = GENERIC["cholesky"](x, upper=upper)
    require(
        jnp.all(jnp.isfinite(factor)), ValueError("the matrix is not positive definite")
    )  # JAX returns NaN
    return factor


def _solve(x1: jax.Array, x2: jax.Array) -> jax.Array:
    found: jax.Array = GENERIC["solve"](x1, x2)
    given = jnp.all(jnp.isfinite(x1)) & jnp.all(jnp.isfinite(x2))
    require(jnp.all(jnp.isfinite(found)) | ~given, ValueError("the matrix is singular"))
    return found


def _sqrt(x: jax.Array) -> jax.Array:
    """JAX's takes a negative number to be above the branch cut, whatever the sign of its zero."""
    root: jax.Array = GENERIC["sqrt"](x)
    if not jnp.iscomplexobj(x):
        return root
    return lax.complex(root.real, jnp.copysign(root.imag, x.imag))


_TABLE: dict[str, Kernel] = {
    **GENERIC,
    **{name: _in_float32(GENERIC[name]) for name in ROUNDED_OFTEN.split()},
    "all": _of_nonzero("all"),
    "any": _of_nonzero("any"),
    "astype": _astype,
    "cholesky": _cholesky,
    "complex": _complex,
    "cosh": _hyperbolic("cosh"),
    "floor_divide": _of_integers("floor_divide"),
    "integer_floor_divide": _of_integers("integer_floor_divide"),
    "matmul": _matmul,
    "remainder": _in_float32(_remainder),
    "sign": _sign,
    "sinh": _hyperbolic("sinh"),
    "solve": _solve,
    "sqrt": _in_float32(_sqrt),
    **indexing.KERNELS,
    **neural.KERNELS,
    "bitcast": _bitcast,
    "lu_factor": _lu_factor,
    "row_order": _row_order,
}
KERNELS = {name: with_settings(kernel) for name, kernel in _TABLE.items()}
