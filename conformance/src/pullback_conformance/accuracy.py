"""The distance that a result may have from the reference, for each class of accuracy.

The distance is measured from the reference rounded to the result's dtype, in units of the last
place of that. The classes (`pullback.spec.Accuracy`):

EXACT            equal.
ROUNDED          1 ulp.
FEW_ULP          4 ulp.
ACCUMULATED      2 log2(n) eps times the sum of the absolute terms, n the size of the largest input.
                 The sum is the reference for the absolute values of the inputs (or the suite's
                 `scale`), and no less than the result.
BACKWARD_STABLE  n eps times the sum of the norm of the result and of its sensitivity to the
                 inputs: the norm of its derivative times theirs (see `condition`). n is the length
                 of the longest axis.

float16 and bfloat16: half an ulp of theirs more than float32, because they are one rounding of a
float32 result. Where an op runs through its body, every op inside rounds: then 8 ulp of the
largest element.

Complex results have a distance in the plane, in ulp of the modulus. The real and imaginary part of
a product are each a difference, so that ROUNDED allows 4 there.

float64 is measured against the reference in extended precision where it can compute in it.
Where it cannot, the reference has an error too: 2 ulp are allowed for it (0 for EXACT).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from pullback import dtypes
from pullback.dtypes import DType
from pullback.spec import Accuracy
from pullback_conformance.case import SHORT, Case, leaves
from pullback_conformance.sample import Array

#: True if this machine has a wider type than float64 to compute references in.
EXTENDED = bool(np.finfo(np.longdouble).eps < np.finfo(np.float64).eps)

_ULPS = {Accuracy.EXACT: 0.0, Accuracy.ROUNDED: 1.0, Accuracy.FEW_ULP: 4.0}
_REFERENCE_ULPS = 2.0
_BODY_ULPS = 8.0


def finfo(dtype: DType) -> ml_dtypes.finfo:
    """The limits of a floating dtype, bfloat16 included."""
    return ml_dtypes.finfo(dtypes.real_of(dtype))  # type: ignore[no-untyped-call]


def eps(dtype: DType) -> float:
    """The distance from 1 to the next number of a floating dtype."""
    return float(finfo(dtype).eps)


def ulp(values: Array, dtype: DType) -> Array:
    """The unit in the last place of `dtype` at each of `values`."""
    info = finfo(dtype)
    size = np.abs(values)
    _, exponent = np.frexp(np.where(np.isfinite(size), size, 1.0))
    # frexp: size in [2^(e-1), 2^e); subnormal numbers share the unit of the smallest normal one.
    lowest = int(np.log2(float(info.smallest_normal)))
    exponent = np.maximum(np.where(size == 0, lowest, exponent - 1), lowest)
    # Extended: half the unit of a subnormal float64 is no float64.
    return np.asarray(np.ldexp(np.longdouble(1), exponent - info.nmant))


def allowed(
    case: Case,
    position: int,
    reference: Array,
    dtype: DType,
    *,
    extended: bool,
    through_body: bool = False,
    least: bool = False,
) -> Array:
    """The absolute distance that result `position` may have from `reference`, elementwise.

    With `least` it is what is allowed at least, which takes no other values of the reference.
    """
    accuracy = case.op.accuracy
    if accuracy is Accuracy.EXACT:
        return np.zeros(reference.shape)
    if dtype in SHORT:
        half = 0.5 * ulp(reference, dtype)
        if through_body:
            half = half + _BODY_ULPS * eps(dtype) * _largest(reference)
        inner = allowed(case, position, reference, dtypes.float32, extended=extended, least=least)
        return np.asarray(half + inner)
    unit = ulp(reference, dtype)
    # The distance includes the rounding of the reference to the dtype.
    own = 0.5 * unit
    if dtype in (dtypes.float64, dtypes.complex128) and not extended:
        own = own + _REFERENCE_ULPS * unit
    if accuracy in _ULPS:
        count = _ULPS[accuracy]
        if dtypes.is_complex(dtype):
            count = max(count, 4.0)
        return np.asarray(count * unit + own)
    if accuracy is Accuracy.ACCUMULATED:
        n = max([leaf.size for leaf in leaves(case.inputs)], default=1)
        steps = 2.0 * max(1.0, float(np.log2(max(n, 1))))
        # A rounding to a subnormal number errs as much as one to the smallest normal number.
        terms = _sizes(reference) if least else _terms(case, position, reference)
        terms = np.maximum(terms, finfo(dtype).smallest_normal)
        return np.asarray(steps * eps(dtype) * terms + own)
    n = longest(case)
    moved = 0.0 if least else case.moves[min(position, len(case.moves) - 1)]
    return np.asarray(n * eps(dtype) * (moved + _norm(reference)) + own)


def longest(case: Case) -> int:
    """The length of the longest axis of the inputs."""
    return max([size for leaf in leaves(case.inputs) for size in leaf.shape], default=1)


def _terms(case: Case, position: int, reference: Array) -> Array:
    """The sum of the absolute terms behind each element, and no less than the element."""
    size = _sizes(reference)
    if not case.terms:
        return size
    terms = np.abs(case.terms[min(position, len(case.terms) - 1)].astype(np.float64))
    try:
        terms = np.broadcast_to(terms, reference.shape)
    except ValueError:
        return size  # another number of results for other values
    return np.maximum(size, np.where(np.isfinite(terms), terms, 0.0))


def _sizes(values: Array) -> Array:
    return np.where(np.isfinite(values), np.abs(values), 0.0)


def _largest(values: Array) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


def _norm(values: Array) -> float:
    wide = np.abs(values).astype(np.float64)
    return float(np.sqrt(np.sum(np.square(wide[np.isfinite(wide)]))))
