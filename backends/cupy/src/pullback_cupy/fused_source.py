"""The text of a fused kernel: what a thread computes for an element, or a block for a row."""

from __future__ import annotations

import math
from typing import Any

from pullback.casting import HALF
from pullback.dtypes import DType
from pullback.shapes import Shape
from pullback_cupy.compile import CUDA_NAMES, PREAMBLE, text_of, threads_of_row
from pullback_cupy.fused_ops import Unsupported, function
from pullback_cupy.kernels.reductions import columns_of, sum_dtype
from pullback_cupy.typing import Array

__all__ = ["Source", "offset", "repeats_a_number"]

_THREADS, _MOST_BLOCKS = 256, 1 << 16


class Source:
    """The text of the kernel of a region, and how it is launched.

    Args:
        region: a `pullback.graph.passes.regions.Region`.

    Raises:
        Unsupported: for what kernels are not made of.
    """

    def __init__(self, region: Any) -> None:
        self._region = region
        self._shape = _iteration_space(region)
        self._size = math.prod(self._shape)
        if not self._size:
            raise Unsupported
        #: The arrays that kernels get after the inputs.
        self.constants: list[Array] = []
        self._functions: dict[str, str] = {}
        self._loads: list[str] = []
        self._lines: list[str] = []
        self._parameters: list[str] = []
        self._variables: dict[str, str] = {}
        #: For each sum: what it adds up, the type to add in, and the value.
        self._sums: list[tuple[str, str, Any]] = []
        self._columns = 0
        self._has_halves = False
        self._read()
        for call in region.calls:
            self._add(call)
        self._write()
        #: The argument `size`: of the region, or of a row. The text is the same for many sizes.
        self.size = self._columns or self._size
        self.threads, self.blocks = _THREADS, min(-(-self._size // _THREADS), _MOST_BLOCKS)
        if self._sums:
            self.threads = threads_of_row(self._columns)
            self.blocks = self._size // self._columns

    @property
    def text(self) -> str:
        """The source of the kernel `fused`."""
        halves = "" if self._has_halves else "#define WITHOUT_HALVES\n"
        functions = "".join(self._functions.values())
        head = f"KERNEL(fused)({', '.join(('i64 size', *self._parameters))}) {{\n"
        body = "".join(f"    {line}\n" for line in (*self._loads, *self._lines))
        index = "unsigned int" if self._size < 1 << 31 else "u64"
        if not self._sums:
            body = (
                f"  for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < size;\n"
                f"       at += gridDim.x * (i64)blockDim.x) {{\n"
                f"    const {index} i = at;\n{body}  }}\n"
            )
        else:
            body = self._rows(index, body)
        common = text_of("common.cuh")
        return f"{halves}{common}\n{PREAMBLE}\n{functions}\n{head}{body}}}\n"

    def _rows(self, index: str, body: str) -> str:
        """The body for a block a row, whose sums it takes."""
        begun = "".join(f"  {type_} sum{k} = 0;\n" for k, (_, type_, _) in enumerate(self._sums))
        added = "".join(
            f"    sum{k} += ({type_})({what});\n" for k, (what, type_, _) in enumerate(self._sums)
        )
        ended = ""
        for k, (_, type_, value) in enumerate(self._sums):
            to = CUDA_NAMES[value.dtype.name]
            ended += f"  sum{k} = over_block<Sum, {type_}>(sum{k});\n"
            ended += f"  if (threadIdx.x == 0) s{k}[blockIdx.x] = ({to})(sum{k});\n"
        return (
            f"{begun}"
            f"  for (unsigned int j = threadIdx.x; j < size; j += blockDim.x) {{\n"
            f"    const {index} i = blockIdx.x * ({index})size + j;\n{body}{added}  }}\n"
            f"{ended}"
        )

    # Values --------------------------------------------------------------------------------------

    def _type(self, dtype: DType) -> str:
        if dtype.name not in CUDA_NAMES:
            raise Unsupported
        self._has_halves = self._has_halves or dtype in HALF
        return CUDA_NAMES[dtype.name]

    def _read(self) -> None:
        """The loads of inputs and constants, each once."""
        for entry in self._region.inputs:
            self._load(entry.value, entry.value.shape)
        used = dict.fromkeys(value for call in self._region.calls for value in call.values)
        for value in used:
            constant = self._region.constants.get(value.name)
            if constant is not None:
                self.constants.append(constant)
                repeats = repeats_a_number(constant)
                self._load(value, () if repeats else value.shape)

    def _load(self, value: Any, shape: Shape) -> None:
        type_, k = self._type(value.dtype), len(self._variables)
        self._parameters.append(f"const {type_}* x{k}")
        self._loads.append(f"const {type_} v{k} = x{k}[{offset(shape, self._shape)}];")
        self._variables[value.name] = f"v{k}"

    def _add(self, call: Any) -> None:
        name, result = call.op.name, call.results[0]
        values = [self._variables[value.name] for value in call.inputs]
        if name == "broadcast_to":
            if math.prod(call.inputs[0].shape) != 1:
                raise Unsupported
            self._variables[result.name] = values[0]
        elif name == "sum":
            self._sum(call, values[0])
        else:
            dtypes = tuple(value.dtype for value in call.inputs)
            made, text, numbers = function(name, dtypes, result.dtype, call.attributes)
            self._functions[made] = text
            variable = f"v{len(self._variables)}"
            arguments = ", ".join((*values, *numbers))
            self._lines.append(
                f"const {self._type(result.dtype)} {variable} = {made}({arguments});"
            )
            self._variables[result.name] = variable

    def _sum(self, call: Any, what: str) -> None:
        value, result = call.inputs[0], call.results[0]
        columns = columns_of(value.shape, call.attributes["axis"], value.dtype, result.dtype)
        if value.shape != self._shape or not columns or self._columns not in (0, columns):
            raise Unsupported
        self._columns = columns
        self._sums.append((what, self._type(sum_dtype(result.dtype)), result))

    def _write(self) -> None:
        """The stores of results, in the order of the region's outputs."""
        sums = {value.name: k for k, (_, _, value) in enumerate(self._sums)}
        for k, value in enumerate(self._region.outputs):
            type_ = self._type(value.dtype)
            if value.name in sums:
                self._parameters.append(f"{type_}* s{sums.pop(value.name)}")
            else:
                self._parameters.append(f"{type_}* y{k}")
                self._lines.append(f"y{k}[i] = {self._variables[value.name]};")
        if sums:
            raise Unsupported  # nobody reads it


def _iteration_space(region: Any) -> Shape:
    """The shape over which the calls of a region run."""
    for call in region.calls:
        if call.op.name != "broadcast_to":
            space: Shape = call.inputs[0].shape if call.op.name == "sum" else call.results[0].shape
            return space
    raise Unsupported


def repeats_a_number(array: Array) -> bool:
    """Returns whether all elements of an array are one number in memory."""
    return bool(array.size) and not any(
        stride for size, stride in zip(array.shape, array.strides, strict=True) if size > 1
    )


def offset(shape: Shape, space: Shape) -> str:
    """The place in a contiguous array that broadcasts to a space, for the place `i` in the space.

    >>> offset((3,), (2, 3)), offset((2, 1), (2, 3)), offset((2, 3), (2, 3)), offset((), (2, 3))
    ('i % 3', 'i / 3', 'i', '0')
    >>> offset((2, 1, 4), (2, 3, 4))
    'i / 12 * 4 + i % 4'
    """
    shape = (1,) * (len(space) - len(shape)) + shape
    total, below, distance = math.prod(space), 1, 1
    #: The number of places, the places below and the distance of axes that are walked as one.
    axes: list[list[int]] = []
    for size, full in zip(shape[::-1], space[::-1], strict=True):
        if full > 1:
            if size == 1:
                axes.append([0, 0, 0])
            elif axes and axes[-1][0]:
                axes[-1][0] *= full
            else:
                axes.append([full, below, distance])
        below *= full
        distance *= size
    terms = []
    for count, places, step in axes[::-1]:
        if count:
            term = f"i / {places}" if places > 1 else "i"
            term += f" % {count}" if places * count < total else ""
            terms.append(f"{term} * {step}" if step > 1 else term)
    return " + ".join(terms) or "0"
