"""Integers beyond 2**53, conversions, step counts, residuals."""

from __future__ import annotations

import numpy as np
from conformance_faults.faults import Fault, other, via

from pullback import dtypes

I64, F32, F64 = np.dtype("int64"), np.dtype("float32"), np.dtype("float64")


def through_float(right):
    """Integers compared, sorted or added as float64."""
    return lambda *x, **a: right(
        *(v.astype(F64) if v is not None and v.dtype in (np.int64, np.uint64) else v for v in x),
        **a,
    )


def back(right):
    def kernel(x, *more, **a):
        y = through_float(right)(x, *more, **a)
        with np.errstate(all="ignore"):
            return np.asarray(y).astype(right(x, *more, **a).dtype)

    return kernel


INTEGERS = {
    "equal of int64 as float64": Fault("equal", through_float, "int64"),
    "less of int64 as float64": Fault("less", through_float, "int64"),
    "maximum of int64 as float64": Fault("maximum", back, "int64"),
    "sort of int64 as float64": Fault("sort", back, "int64"),
    "argsort of uint64 as float64": Fault("argsort", through_float, "int64"),
    "sum of int64 as float64": Fault("sum", back, "int64"),
    "max of uint64 as float64": Fault("max", back, "int64"),
    "cumulative_sum of int64 as float64": Fault("cumulative_sum", back, "int64"),
    "unique values of int64 as float64": Fault("argmax", through_float, "int64"),
    "multiply of uint32 saturates": Fault(
        "multiply",
        other(
            lambda a, b: np.minimum(a.astype(np.uint64) * b, 2**32 - 1).astype(np.uint32),
            lambda a, b: a.dtype == np.uint32,
        ),
        "uint32",
    ),
    "less of uint64 as int64": Fault(
        "less",
        via(lambda a, b: (a.view(I64), b.view(I64)), lambda a, b: a.dtype == np.uint64 and a.ndim),
        "uint64",
    ),
}


def truncated(x, dtype):
    """To bfloat16 by leaving out bits."""
    bits = x.astype(F32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(F32).astype(dtype)


def converts(source, target, change):
    """Conversions between two dtypes go by another array."""

    def where(x, *, dtype):
        return x.dtype == source and dtype == target

    says = f"{np.dtype(source)} to {np.dtype(target)}"
    return Fault("astype", via(lambda x: (change(x),), where), says)


CONVERSIONS = {
    "float32 to bfloat16 truncates": Fault(
        "astype",
        other(truncated, lambda x, *, dtype: x.dtype == F32 and dtype == dtypes.bfloat16),
        "float32 to bfloat16",
    ),
    "float64 to float16 rounds twice": converts(F64, np.float16, lambda x: x.astype(F32)),
    "float64 to bfloat16 rounds twice": converts(F64, dtypes.bfloat16, lambda x: x.astype(F32)),
    "int64 to float32 rounds twice": converts(I64, F32, lambda x: x.astype(F64)),
    "float to int rounds": converts(F32, np.int32, np.rint),
    "uint32 to float32 as int32": converts(np.uint32, F32, lambda x: x.astype(np.int32)),
    "float to bool by truncation": converts(F64, np.bool_, np.trunc),
}


def late(place, limit):
    """Steps beyond the limit stay at it."""

    def make(right):
        def kernel(*x, **a):
            x = list(x)
            x[place] = np.minimum(x[place], np.asarray(limit, x[place].dtype))
            return right(*x, **a)

        return kernel

    return make


STEPS = {
    "adam's correction stops at step 8": Fault("adam_update", late(5, 8), "step"),
    "adam's correction stops at step 100": Fault("adam_update", late(5, 100), "step"),
    "adam's correction stops at step 2,000": Fault("adam_update", late(5, 2000), "step"),
    "adam counts from 0": Fault("adam_update", via(lambda *x: (*x[:5], x[5] + 1)), "step|value"),
}


def residual(index, factor=1.001):
    def make(right):
        def kernel(*x, **a):
            results = list(right(*x, **a))
            results[index] = np.asarray(results[index] * np.asarray(factor, results[index].dtype))
            return tuple(results)

        return kernel

    return make


def shifted(index):
    def make(right):
        def kernel(*x, **a):
            results = list(right(*x, **a))
            results[index] = np.array(results[index])
            if results[index].size:
                results[index].reshape(-1)[0] += 1
            return tuple(results)

        return kernel

    return make


RESIDUALS = {
    "layer_norm's center": Fault("layer_norm", residual(1), "center"),
    "layer_norm's spread": Fault("layer_norm", residual(2), "spread"),
    "rms_norm's spread": Fault("rms_norm", residual(1), "spread"),
    "max_pool's indices": Fault("max_pool", shifted(1), "indices"),
    "the loss's normalizer": Fault(
        "sparse_softmax_cross_entropy_with_logits", residual(1), "normalizer"
    ),
    "lstm's cells": Fault("lstm", residual(4), "cells"),
    "lstm's gates": Fault("lstm", residual(3), "gates"),
    "gru's candidates": Fault("gru", residual(3), "candidates"),
    "attention's normalizer": Fault("scaled_dot_product_attention", residual(1), "normalizer"),
}

FAULTS = {
    **{f"integer: {name}": fault for name, fault in INTEGERS.items()},
    **{f"conversion: {name}": fault for name, fault in CONVERSIONS.items()},
    **{f"step: {name}": fault for name, fault in STEPS.items()},
    **{f"residual: {name}": fault for name, fault in RESIDUALS.items()},
}
