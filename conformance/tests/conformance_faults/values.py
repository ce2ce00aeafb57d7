"""Signs of zero, subnormals, infinities, NaN, and parts of the domain of elementwise ops."""

from __future__ import annotations

import numpy as np
from conformance_faults.faults import Fault, changed, elements, of_result, other, via

F32 = np.dtype("float32")


def positive_zero(y, *_, **__):
    return y + 0.0 if np.asarray(y).dtype.kind == "f" else y


def flushed(y, *_, **__):
    small = np.abs(y) < np.finfo(y.dtype).smallest_normal if y.dtype.kind == "f" else False
    return elements(y, small, 0.0)


def inputs_flushed(*inputs):
    return tuple(map(flushed, inputs))


def floats(x, *_, **__):
    return x.dtype.kind == "f"


SIGNS = {
    "the sign of zero is lost in negative": Fault(
        "negative", of_result(positive_zero), "sign of zero"
    ),
    "in trunc": Fault("trunc", of_result(positive_zero), "sign of zero"),
    "in ceil": Fault("ceil", of_result(positive_zero), "sign of zero"),
    "in round": Fault("round", of_result(positive_zero), "sign of zero"),
    "in sin": Fault("sin", of_result(positive_zero), "sign of zero"),
    "in multiply": Fault("multiply", of_result(positive_zero), "sign of zero"),
    "in divide": Fault("divide", of_result(positive_zero), "sign of zero"),
    "in sqrt": Fault("sqrt", of_result(positive_zero), "sign of zero"),
    "in where": Fault("where", of_result(positive_zero), "sign of zero"),
    "in copysign": Fault(
        "copysign",
        other(
            lambda a, b: np.where(b < 0, -np.abs(a), np.abs(a)).astype(np.asarray(a).dtype),
            lambda a, b: a.dtype in (np.float32, np.float64),
        ),
        "value",
    ),
    "in atanh": Fault("atanh", of_result(positive_zero), "sign of zero"),
    "in astype": Fault(
        "astype", of_result(lambda y, x, *, dtype: positive_zero(y)), "sign of zero"
    ),
    "in reshape": Fault("reshape", of_result(positive_zero), "value|sign of zero"),
}

SUBNORMAL = {
    "subnormal results are flushed in exp": Fault("exp", of_result(flushed), "every float"),
    "in multiply": Fault("multiply", of_result(flushed), "every float"),
    "in add": Fault("add", of_result(flushed), "every float"),
    "in expm1": Fault("expm1", of_result(flushed), "every float"),
    "in sinh": Fault("sinh", of_result(flushed), "every float"),
    "in tanh of float64 only": Fault(
        "tanh", changed(flushed, lambda x: x.dtype == np.float64), "every float64"
    ),
    "subnormal inputs are zero in sign": Fault("sign", via(inputs_flushed, floats), "every float"),
    "in log of float32": Fault(
        "log", via(inputs_flushed, lambda x: x.dtype == F32), "every float32"
    ),
    "in a comparison": Fault("less", via(inputs_flushed, floats), "every float"),
}


def finite_only(y, *inputs, **__):
    return np.nan_to_num(y, nan=0.0) if np.asarray(y).dtype.kind == "f" else y


def max_of_numbers(x, *, axis, keepdims):
    return np.asarray(np.fmax.reduce(x, axis=axis, keepdims=keepdims))


SPECIAL = {
    "NaN is 0 in add": Fault("add", of_result(finite_only), "NaN|infinity|infinities"),
    "NaN is 0 in multiply": Fault("multiply", of_result(finite_only), "NaN|infinity|infinities"),
    "an infinity is the largest number in subtract": Fault(
        "subtract",
        of_result(lambda y, *_: np.nan_to_num(y, nan=np.nan) if y.dtype.kind == "f" else y),
        "infinity|infinities",
    ),
    "NaN is larger than all in maximum": Fault("maximum", other(np.fmax, floats), "NaN"),
    "NaN is lost in max": Fault("max", other(max_of_numbers, floats), "NaN"),
    "NaN is lost in max of float16": Fault(
        "max", other(max_of_numbers, lambda x, **_: x.dtype == np.float16), "NaN"
    ),
    "inf - inf is 0 in sum": Fault(
        "sum",
        of_result(
            lambda y, x, **_: (
                elements(y, np.isnan(y) & ~np.isnan(x).any(), 0.0) if x.dtype.kind == "f" else y
            )
        ),
        "NaN",
    ),
    "NaN is equal to itself": Fault(
        "equal", of_result(lambda y, a, b: y | ((a != a) & (b != b))), "every float"
    ),
    "an infinity is not a number in isfinite": Fault(
        "isfinite", other(lambda x: ~np.isnan(x), floats), "value"
    ),
    "0 * inf is 0": Fault(
        "multiply",
        of_result(
            lambda y, a, b: (
                elements(y, np.isnan(y) & ~np.isnan(a) & ~np.isnan(b), 0.0)
                if y.dtype.kind == "f"
                else y
            )
        ),
        "NaN",
    ),
}


def beyond(limit, value):
    """Wrong for inputs larger than a limit."""
    return of_result(
        lambda y, x, **_: elements(y, np.abs(x) > limit, value) if y.dtype.kind == "f" else y
    )


DOMAIN = {
    "sin is wrong beyond 1000": Fault("sin", beyond(1000.0, 0.5), "every float"),
    "cos is wrong beyond 2**20": Fault("cos", beyond(2.0**20, 0.5), "every float"),
    "exp is infinite from 80 on": Fault(
        "exp",
        of_result(lambda y, x: elements(y, np.real(x) > 80, np.inf) if y.dtype == F32 else y),
        "every float32",
    ),
    "log1p is log(1 + x)": Fault("log1p", other(lambda x: np.log(1 + x), floats), "value"),
    "expm1 is exp(x) - 1": Fault("expm1", other(lambda x: np.exp(x) - 1, floats), "value"),
    "tanh is 1 from 5 on": Fault(
        "tanh",
        of_result(lambda y, x: elements(y, x > 5, 1.0) if y.dtype.kind == "f" else y),
        "value",
    ),
    "atan is wrong for negative large numbers": Fault(
        "atan",
        of_result(lambda y, x: elements(y, x < -1e4, -1.5) if y.dtype.kind == "f" else y),
        "every float",
    ),
    "hypot overflows": Fault(
        "hypot",
        other(lambda a, b: np.sqrt(a * a + b * b), lambda a, b: a.dtype == F32),
        "every float32",
    ),
    "abs of the smallest integer": Fault(
        "abs",
        of_result(
            lambda y, x: (
                np.asarray(np.abs(x.astype(np.float64)).astype(x.dtype))
                if x.dtype == np.int64
                else y
            )
        ),
        "large int64|every int64",
    ),
    "floor of large numbers through int32": Fault(
        "floor",
        other(lambda x: np.floor(x.astype(np.int32).astype(x.dtype)), lambda x: x.dtype == F32),
        "value",
    ),
    "sqrt by exp and log": Fault(
        "sqrt", other(lambda x: np.exp(0.5 * np.log(x)), lambda x: x.dtype == F32), "value"
    ),
    "pow of a negative base": Fault(
        "pow",
        of_result(
            lambda y, a, b: (
                elements(y, (a < 0) & (np.abs(b) > 100), np.nan) if y.dtype.kind == "f" else y
            )
        ),
        "every float",
    ),
}

FAULTS = {
    **{f"sign: {name}": fault for name, fault in SIGNS.items()},
    **{f"subnormal: {name}": fault for name, fault in SUBNORMAL.items()},
    **{f"special: {name}": fault for name, fault in SPECIAL.items()},
    **{f"domain: {name}": fault for name, fault in DOMAIN.items()},
}
