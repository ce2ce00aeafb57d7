"""RawKernel, ElementwiseKernel and ReductionKernel: their sources, run on the host."""

from __future__ import annotations

import ctypes
import functools
import re
import threading

import numpy as np

from cupy._array import ndarray, repeated, wrap
from cupy._host import library

_ONE_AT_A_TIME = threading.Lock()

#: Every kernel that was made, for tests that compile them.
RAW: list[RawKernel] = []
ELEMENTWISE: list[ElementwiseKernel] = []

_C_NAMES = {"bool": "bool", "complex64": "complex<float>", "complex128": "complex<double>"}


#: The dtypes of what CUDA C++ calls so.
_DTYPES = {
    "__half": "float16", "__nv_bfloat16": "bfloat16", "float": "float32", "double": "float64",
    "bool": "bool", "signed char": "int8", "short": "int16", "int": "int32", "long long": "int64",
    "unsigned char": "uint8", "unsigned short": "uint16", "unsigned int": "uint32",
    "unsigned long long": "uint64", "u64": "uint64", "i64": "int64",
}  # fmt: skip


def c_name(dtype) -> str:
    return _C_NAMES.get(dtype.name, dtype.name)


def typedefs(types) -> str:
    return "".join(f"typedef {c_name(dtype)} {letter};\n" for letter, dtype in types.items())


class RawKernel:
    def __init__(self, code, name, options=()):
        self.code, self.name, self.options = code, name, options
        RAW.append(self)

    def __call__(self, grid, block, args):
        headerless = re.sub(r"#include <cuda_\w+.h>", "", self.code)
        names = re.findall(r"^KERNEL\((\w+)\)", headerless, re.M)
        entries = "".join(
            f'extern "C" void run_{name}(void** args, int blocks, int x, int y, int waits) '
            f"{{ launch(&{name}, args, blocks, x, y, waits); }}\n"
            for name in names
        )
        code = f"#define KERNEL(name) static void name\n{headerless}\n{entries}"
        run = getattr(library(code), f"run_{self.name}")
        body = headerless.split(f"KERNEL({self.name})")[1].split("\nKERNEL(")[0]
        waits = any(word in body for word in ("__sync", "over_block", "largest(", "sum_of_exp("))
        self.check(headerless, args)
        kept = [argument(one) for one in args]
        addresses = (ctypes.c_void_p * len(kept))(*[one.ctypes.data for one in kept])
        blocks, (x, y) = int(grid[0]), (*block, 1)[:2]
        assert len(grid) == 1
        assert 0 < x * y <= 1024

        def step():
            with _ONE_AT_A_TIME:  # a block's threads take turns by way of what is global
                run(addresses, blocks, int(x), int(y), int(waits))
            return [args, kept]

        repeated(step)

    def compile(self, log_stream=None):
        pass

    def check(self, code, args):
        """Checks that arrays have the types of the kernel's pointers; CuPy does not."""
        types = {letter: name for name, letter in re.findall(r"^typedef (.+) (\w);", code, re.M)}
        declared = re.search(rf"^KERNEL\({self.name}\)\s*\(([^)]*)\)", code, re.M)[1].split(",")
        assert len(declared) == len(args), f"{self.name} takes {len(declared)} arguments"
        for text, one in zip(declared, args, strict=True):
            pointed = re.match(r"\s*(?:const )?(.+)\*", text)
            # np.uint64: an address.
            assert bool(pointed) == (one is None or isinstance(one, (ndarray, np.uint64))), text
            if isinstance(one, ndarray):
                name = types.get(pointed[1], pointed[1])
                assert one.dtype.name == _DTYPES[name], f"{self.name}: {text} is given {one.dtype}"


def argument(one) -> np.ndarray:
    """An argument of a kernel as the bytes that it is given as."""
    if one is None:
        return np.array(0, np.uint64)
    if isinstance(one, ndarray):
        assert one.flags.c_contiguous, "a kernel was given an array that is not contiguous"
        return np.array(np.asarray(one).ctypes.data, np.uint64)
    if isinstance(one, np.ndarray):
        if one.size != 1:
            raise TypeError("Only numpy.ndarrays of size one can be passed by value")
        return one
    if isinstance(one, (int, float)):
        return np.array(one, np.int64 if isinstance(one, int) else np.float64)
    assert isinstance(one, np.generic), f"CuPy does not take {one!r}"
    return np.array(one)


class Parameter:
    def __init__(self, text):
        *flags, self.type, self.name = text.split()
        self.raw = "raw" in flags
        self.letter = self.type if len(self.type) == 1 else None
        self.dtype = None if self.letter else np.dtype(getattr(np, self.type, self.type))


def parameters(text) -> list[Parameter]:
    return [Parameter(one) for one in text.split(",") if one.strip()]


def usual_types(letters, dtype):
    """The dtypes that letters usually stand for: wide for W, an index for I, else `dtype`."""
    wide = "float64" if dtype == "float64" else "float32"
    return {letter: np.dtype({"W": wide, "I": "int64"}.get(letter, dtype)) for letter in letters}


@functools.cache
def all_of(dtype) -> str:
    """Every kernel that there is for its usual types: to compile them one by one takes minutes."""
    parts = []
    for kernel in ELEMENTWISE:
        letters = [p.letter for p in kernel.inputs + kernel.outputs if p.letter]
        scalars = {p.name for p in kernel.inputs if p.letter is None}
        parts.append(
            f"namespace of_{kernel.number} {{\n{typedefs(usual_types(letters, dtype))}"
            f"{kernel.preamble}\n{kernel.function(scalars, f'run_{kernel.number}')}}}\n"
        )
    return "".join(parts)


class _Kernel:
    def __init__(self, in_params, out_params, preamble, name):
        self.inputs, self.outputs = parameters(in_params), parameters(out_params)
        self.preamble, self.name = preamble, name
        assert "i" not in [p.name for p in self.inputs + self.outputs], "i is CuPy's"

    def bind(self, args):
        """The inputs as arrays, results that were given, and the dtype of each letter."""
        args = list(args)
        given = args[len(self.inputs) :]
        types, values = {}, []
        for p, value in zip(self.inputs, args, strict=False):
            if isinstance(value, np.ndarray) and not isinstance(value, ndarray):
                raise TypeError(f"Unsupported type {type(value)}")
            array = np.asarray(value)
            if not isinstance(value, ndarray):
                dtype = p.dtype or types.get(p.letter) or array.dtype
                array = array.astype(dtype)
            dtype = p.dtype or types.setdefault(p.letter, array.dtype)
            if array.dtype != dtype:
                raise TypeError(f"{self.name}: {p.name} is {array.dtype}, {p.type} is {dtype}")
            values.append((p, array, isinstance(value, ndarray)))
        for p, value in zip(self.outputs, given, strict=False):
            types.setdefault(p.letter, value.dtype)
        return values, given, types


class ElementwiseKernel(_Kernel):
    def __init__(self, in_params, out_params, operation, name="kernel", preamble="", options=()):
        super().__init__(in_params, out_params, preamble, name)
        self.operation, self.options = operation, options
        self.number, self.late = len(ELEMENTWISE), all_of.cache_info().currsize > 0
        ELEMENTWISE.append(self)

    def function(self, scalars, name="run") -> str:
        """The kernel as a function over contiguous arrays."""
        declared = []
        for number, p in enumerate(self.inputs + self.outputs):
            const = "const " if number < len(self.inputs) else ""
            at = f"(({const}{p.type}*)args[{number}])"
            if p.raw:
                declared.append(f"{const}{p.type}* {p.name} = {at};")
            else:
                place = "0" if p.name in scalars else "i"
                declared.append(f"{const}{p.type}& {p.name} = {at}[{place}];")
        lines = "\n".join(declared)
        return (
            f'extern "C" void {name}(void** args, long long size) {{\n'
            f"for (long long i = 0; i < size; ++i) {{\n{lines}\n{self.operation};\n}}\n}}\n"
        )

    def compiled(self, types, scalars):
        """The kernel for these types: out of all usual ones, or by itself."""
        names = {dtype.name for dtype in types.values()}
        usual = next((t for t in ("float64", "float16", "bfloat16") if t in names), "float32")
        expected = {p.name for p in self.inputs if p.letter is None}
        if types == usual_types(types, usual) and scalars == expected and not self.late:
            return getattr(library(all_of(usual)), f"run_{self.number}")
        return library(f"{typedefs(types)}{self.preamble}\n{self.function(scalars)}").run

    def __call__(self, *args, size=None):
        values, given, types = self.bind(args)
        shapes = [a.shape for p, a, on_device in values if on_device and not p.raw]
        shapes += [x.shape for x in given]
        shape = np.broadcast_shapes(*shapes) if shapes else (size,)
        if given:
            assert all(x.shape == shape for x in given)
        results = given or [wrap(np.empty(shape, p.dtype or types[p.letter])) for p in self.outputs]
        scalars = {p.name for p, a, on_device in values if not on_device}
        run, length = self.compiled(types, scalars), ctypes.c_longlong(int(np.prod(shape)))

        def step():
            arrays = [
                np.ascontiguousarray(a if p.raw or p.name in scalars else np.broadcast_to(a, shape))
                for p, a, on_device in values
            ]
            arrays += [np.asarray(x) for x in results]
            assert all(x.flags.c_contiguous for x in arrays)
            run((ctypes.c_void_p * len(arrays))(*[x.ctypes.data for x in arrays]), length)

        repeated(step)
        return results[0] if len(results) == 1 else tuple(results)


class ReductionKernel(_Kernel):
    def __init__(
        self, in_params, out_params, map_expr, reduce_expr, post_map_expr, identity, name,
        preamble="", options=(),
    ):  # fmt: skip
        super().__init__(in_params, out_params, preamble, name)
        assert (reduce_expr, post_map_expr, identity) == ("a + b", "out = a", "0")
        out = self.outputs[0]
        inside = f"const {out.type} mapped = {map_expr}; y = mapped"
        self.mapped = ElementwiseKernel(in_params, f"{out.type} y", inside, name, preamble, options)

    def __call__(self, *args, axis=None, keepdims=False):
        assert axis != (), "CuPy reduces over at least one axis"
        values = np.asarray(self.mapped(*args))

        def step():
            wide = values.sum(axis=axis, keepdims=keepdims, dtype=np.float64)
            return wrap(np.asarray(wide).astype(values.dtype))

        return repeated(step)
