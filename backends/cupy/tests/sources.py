"""Every CUDA source of the backend as one translation unit, for a compiler to look at."""

import itertools

from pullback_cupy import compile as compiling

#: The letters of each file of `cuda/`.
FILES = {
    "rows": "TWIG",
    "norms": "TWSOG",
    "windows": "TW",
    "philox": "TW",
    "scatter": "TWIA",
    "recurrent": "TWG",
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
