"""Compiles what the real CuPy would on a GPU, by NVRTC, which needs no driver.

Run with a Python that has CuPy and NVRTC (`pip install cupy-cuda13x 'cuda-toolkit[cudart,nvrtc]'`)
and, on its path, pullback and pullback_cupy: `python real_sources.py 80 90`.
"""

import sys
from pathlib import Path

import cupy
import ml_dtypes
import numpy as np
from cuda.pathfinder import find_nvidia_header_directory
from cupy._core import _carray, _kernel, _scalar, core
from cupy.cuda import nvrtc

MADE = []
_ElementwiseKernel = cupy.ElementwiseKernel


def remembered(*arguments, **options):
    MADE.append(_ElementwiseKernel(*arguments, **options))
    return MADE[-1]


cupy.ElementwiseKernel = remembered

import pullback_cupy.kernels  # noqa: E402, F401

sys.path.insert(0, str(Path(__file__).parent))
import sources  # noqa: E402

_ARRAY, _INDEXER, _SCALAR = 1, 2, 3
_PLAIN = {"double": "f8", "float64": "f8", "long long": "i8", "unsigned long long": "u8",
          "bool": "?", "int64": "i8", "uint64": "u8"}  # fmt: skip


def text_of(kernel, dtype):
    """The source that CuPy makes of an elementwise kernel for contiguous arrays of a dtype."""
    letters = {p.ctype for p in kernel.in_params + kernel.out_params if len(p.ctype) == 1}
    types = {
        letter: np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
        for letter, name in sources.usual(letters, dtype).items()
    }
    told = []
    for p in kernel.in_params + kernel.out_params:
        array = p.ctype in types or p.ctype == "bool" or p in kernel.out_params
        kind = (_ARRAY, cupy.ndarray) if array else (_SCALAR, _scalar.CScalar)
        of = types.get(p.ctype) or np.dtype(_PLAIN[p.ctype])
        told.append(_kernel._ArgInfo(*kind, of, int(array), True, True))
    told.append(_kernel._ArgInfo(_INDEXER, _carray.Indexer, None, 1, True, True))
    return _kernel._get_elementwise_kernel_code(
        tuple(told), _kernel._TypeMap(tuple(sorted(types.items()))), kernel.params,
        kernel.operation, kernel.name, kernel.preamble, "", "", (),
    )  # fmt: skip


def elementwise():
    """All of them for all floats, each in a namespace."""
    headers = ["cupy/cuda_workaround.h", *core._cupy_header_list, "cupy/float16.cuh",
               "cupy/bfloat16.cuh"]  # fmt: skip
    parts = [f"#include <{header}>" for header in headers]
    for number, kernel in enumerate(MADE):
        for dtype in sources.FLOATS:
            lines = text_of(kernel, dtype).replace('extern "C" __global__', "__global__")
            kept = [line for line in lines.splitlines() if not line.strip().startswith("#include")]
            parts += [f"namespace of_{number}_{dtype} {{", *kept, "}"]
    return "\n".join(parts)


def compile_for(arch, name, text):
    folder = core._get_header_dir_path()
    options = ["--std=c++17", f"-arch=sm_{arch}", f"-I{find_nvidia_header_directory('cudart')}"]
    options += [f"-I{folder}{part}" for part in ("", "/cupy/_cccl/libcudacxx", "/cupy/_cccl/cub",
                                                 "/cupy/_cccl/thrust")]  # fmt: skip
    program = nvrtc.createProgram(text, f"{name}.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
    except nvrtc.NVRTCError:
        sys.exit(f"{name} for sm_{arch}:\n{nvrtc.getProgramLog(program)[:4000]}")
    print(f"sm_{arch}: {name} compiles, {len(nvrtc.getCUBIN(program))} bytes")


if __name__ == "__main__":
    print(f"CuPy {cupy.__version__}, NVRTC {nvrtc.getVersion()}, {len(MADE)} elementwise kernels")
    for arch in sys.argv[1:]:
        compile_for(arch, "files", sources.files())
        compile_for(arch, "elementwise", elementwise())
