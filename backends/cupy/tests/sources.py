"""Every CUDA source of the backend as one translation unit, for a compiler to look at."""

import itertools
import re

import numpy as np

from pullback.dtypes import ALL
from pullback_cupy import compile as compiling
from pullback_cupy import fused_ops

#: The letters of each file of `cuda/`.
FILES = {
    "rows": "TWIG",
    "norms": "TWSOG",
    "windows": "TW",
    "philox": "TW",
    "scatter": "TWIA",
    "recurrent": "TWG",
    "sums": "TSA",
}
FLOATS = ("float16", "bfloat16", "float32", "float64")


def usual(letters, dtype):
    """The dtypes that letters usually stand for: wide for W and A, an index for I, else `dtype`."""
    wide = "float64" if dtype == "float64" else "float32"
    return {letter: {"W": wide, "A": wide, "I": "int64"}.get(letter, dtype) for letter in letters}


def files(dtypes=FLOATS):
    """The files of `cuda/` for some dtypes, each in a namespace."""
    parts = ["#define KERNEL(name) __global__ void name", compiling.text_of("common.cuh")]
    for file, dtype in itertools.product(FILES, dtypes):
        types = usual(FILES[file], dtype).items()
        named = "".join(f"typedef {compiling.CUDA_NAMES[t]} {letter};\n" for letter, t in types)
        text = compiling.text_of(f"{file}.cu")
        parts.append(f"namespace {file}_{dtype} {{\n{named}{text}\n}}\n#undef TILE")
    return "\n".join(parts)


_TYPES = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
typedef __half float16;
typedef __nv_bfloat16 bfloat16;
typedef float float32;
typedef double float64;
typedef long long int64;
typedef unsigned long long uint64;
"""


def expressions(standin, dtypes=FLOATS):
    """The expressions of elementwise kernels and reductions, as kernels."""
    kernels = standin._kernels
    parts = [_TYPES]
    for dtype in dtypes:
        text = kernels.all_of(dtype).replace('extern "C" void', "__global__ void")
        parts.append(f"namespace of_{dtype} {{\n{text}\n}}")
    return "\n".join(parts)


def functions():
    """The functions of single elements of fused kernels, of every op and dtype."""
    attributes = {
        "celu": {"alpha": 1.5},
        "elu": {"alpha": 1.5},
        "huber_loss": {"delta": 0.5},
        "leaky_relu": {"negative_slope": 0.1},
    }
    found, boolean = {}, np.dtype("bool")
    dtypes = [dtype for dtype in ALL if dtype.name in compiling.CUDA_NAMES]
    for op, dtype, other in itertools.product(sorted(fused_ops.FUSIBLE), dtypes, dtypes):
        choices = [(1, dtype), (2, dtype), (1, boolean), (2, boolean)] if dtype == other else []
        tried = [((dtype,) * count, result) for count, result in choices]
        tried += [((dtype,), other), ((boolean, dtype, dtype), dtype)]
        for inputs, result in tried:
            if op not in ("astype", "where") and (len(inputs) > 2 or dtype != other):
                continue
            for approximate in (False, True):
                try:
                    given = {"approximate": approximate} if op.startswith("gelu") else {}
                    given |= attributes.get(op, {})
                    name, text, _ = fused_ops.function(op, inputs, result, given)
                except (fused_ops.Unsupported, ValueError):
                    continue
                # An op of two numbers is not called with one.
                if len(inputs) > 1 or not re.search(r"return .*\b[bq]\b", text):
                    found[name] = text
    head = f"{compiling.text_of('common.cuh')}\n{compiling.PREAMBLE}\n"
    return head + "".join(found.values())
