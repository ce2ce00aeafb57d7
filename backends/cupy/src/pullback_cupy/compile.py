"""CUDA sources as functions: the files in `cuda/`, and expressions for single elements.

CuPy compiles each once per types and machine, and keeps the result on disk.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, NamedTuple

import cupy

from pullback.casting import compute_dtype
from pullback_cupy.typing import Array

#: CUDA's names of the dtypes.
CUDA_NAMES: Mapping[str, str] = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long", "float16": "__half", "bfloat16": "__nv_bfloat16",
    "float32": "float", "float64": "double",
}  # fmt: skip

#: The most blocks of a launch over elements: each thread takes several elements.
_MOST_BLOCKS = 1 << 16
_MOST_ROWS = (1 << 31) - 1

#: Goes before every expression: the wide type W for the stored type T, and functions of W.
PREAMBLE = """
template <class T> struct wide_of { typedef float type; };
template <> struct wide_of<double> { typedef double type; };
template <class W> __device__ inline W within(W x, W low, W high) {
  return x < low ? low : x > high ? high : x;
}
template <class W> __device__ inline W masked(W score, bool seen) {
  return seen ? score : W(__int_as_float(0xff800000));
}
template <class W, class M> __device__ inline W masked(W score, const M& mask) {
  return score + W(mask);
}
template <class W> __device__ inline W sigmoid(W x) {
  const W e = exp(-fabs(x));  // nothing overflows
  return (x < 0 ? e : W(1)) / (1 + e);
}
template <class W> __device__ inline W softplus(W x) {
  return (x > 0 ? x : W(0)) + log1p(exp(-fabs(x)));
}
"""

OPTIONS = ("--std=c++17",)
#: Of expressions for single elements: each operation rounds, as it is written. Else a product in
#: one op and a sum in the next would be one rounding in a fused kernel, and two outside of it.
ROUNDED = (*OPTIONS, "--fmad=false")


class Expression(NamedTuple):
    """What a kernel computes for each element, as `elementwise` got it."""

    inputs: str
    outputs: str
    operation: str


#: The expressions of `elementwise` by name, for fused kernels.
EXPRESSIONS: dict[str, Expression] = {}


def contiguous(x: Array) -> Array:
    """x in C order, in its own shape: CuPy's function of this name gives 0-d arrays an axis."""
    return x if x.flags.c_contiguous else cupy.ascontiguousarray(x)


@functools.cache
def text_of(file: str) -> str:
    """The text of a file in the folder `cuda`."""
    return files("pullback_cupy").joinpath("cuda", file).read_text()


@functools.cache
def source(file: str, **types: str) -> str:
    """The text to compile for a file and the dtypes of its letters."""
    named = "".join(f"typedef {CUDA_NAMES[name]} {letter};\n" for letter, name in types.items())
    return f"{text_of('common.cuh')}\n{named}\n{text_of(file + '.cu')}"


@functools.cache
def _raw(file: str, name: str, **types: str) -> Any:
    return cupy.RawKernel(source(file, **types), name, options=OPTIONS)


def launch(
    file: str, name: str, grid: int, block: Any, arguments: tuple[Any, ...], **dtypes: Any
) -> None:
    """Launches `name` of `cuda/file.cu` for the dtypes of its letters; W is by default the wide T.

    Arguments are CuPy arrays (as pointers; None is null), numbers, and structs: 0-d arrays of
    NumPy's.
    """
    if "T" in dtypes:
        dtypes.setdefault("W", compute_dtype(dtypes["T"]))
    types = {letter: dtype.name for letter, dtype in dtypes.items()}
    block = block if isinstance(block, tuple) else (block,)
    _raw(file, name, **types)((grid,), block, arguments)


def over_elements(
    file: str, name: str, size: int, arguments: tuple[Any, ...], **dtypes: Any
) -> None:
    """`launch` with a thread for each element, or for several of them."""
    if size:
        launch(file, name, min(-(-size // 256), _MOST_BLOCKS), 256, arguments, **dtypes)


def over_rows(
    file: str, name: str, rows: int, columns: int, arguments: tuple[Any, ...], **dtypes: Any
) -> None:
    """`launch` with a block for each row, with a number of threads by the number of columns."""
    if rows:
        launch(file, name, min(rows, _MOST_ROWS), threads_of_row(columns), arguments, **dtypes)


def threads_of_row(columns: int) -> int:
    """The number of threads of a block for a row: a power of two from a warp to 512."""
    return min(512, max(32, 1 << (columns - 1).bit_length() >> 1))


def elementwise(name: str, inputs: str, outputs: str, operation: str) -> Any:
    """A kernel of one expression for each element, over inputs that broadcast."""
    EXPRESSIONS[name] = Expression(inputs, outputs, operation)
    return cupy.ElementwiseKernel(
        inputs, outputs, operation, f"pullback_{name}", preamble=PREAMBLE, options=ROUNDED
    )


def reduction(name: str, inputs: str, outputs: str, element: str) -> Any:
    """A kernel that sums an expression over axes; `W` in it is the type of the sum."""
    return cupy.ReductionKernel(
        inputs, outputs, element, "a + b", "out = a", "0", f"pullback_{name}",
        preamble=PREAMBLE, options=OPTIONS,
    )  # fmt: skip
