"""Convolution and attention by cuDNN, through `nvidia-cudnn-frontend` where it is installed.

Each function returns None if cuDNN does not support the call, or not as the op demands: the caller
has kernels of its own. A graph is planned once for each combination of shapes and kept. Plans that
give other bits at every run are not used, nor plans that round float32 to TF32, unless
`pullback_cupy.use_tf32()` allows it. PULLBACK_CUDNN=0 switches cuDNN off.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import cupy

from pullback.dtypes import DType, name_of
from pullback.shapes import Pads, Shape, channels_of, image_shape, output_sizes, spatial_of
from pullback_cupy import precision
from pullback_cupy.typing import Array, ConvOptions

_TYPES = {"float16": "HALF", "bfloat16": "BFLOAT16", "float32": "FLOAT"}
#: Notes of plans that are unfit for an op whose results must be exact to the last digits.
_NOTES = ("NONDETERMINISTIC", "REDUCED_PRECISION_REDUCTION")
_NOTES_OF_FLOAT32 = ("TENSOR_CORE", "DOWN_CONVERT_INPUTS", "WINOGRAD", "WINOGRAD_TILE_4x4",
                     "WINOGRAD_TILE_6x6", "WINOGRAD_TILE_13x13", "FFT")  # fmt: skip


@functools.cache
def library() -> Any:
    """The module `cudnn`; None if it, or its library, is not installed."""
    if os.environ.get("PULLBACK_CUDNN") == "0":
        return None
    try:
        import cudnn

        cudnn.backend_version()
    except Exception:  # an optional library that does not fit may raise anything
        return None
    return cudnn


class _Handles(threading.local):
    """cuDNN's handles, each for one thread and one device."""

    def __init__(self) -> None:
        self.of_device: dict[int, Any] = {}

    def current(self) -> Any:
        """The handle of the current device, set to CuPy's current stream."""
        cudnn, device = library(), cupy.cuda.get_device_id()
        handle = self.of_device.get(device)
        if handle is None:
            handle = self.of_device[device] = cudnn.create_handle()
        cudnn.set_stream(handle=handle, stream=cupy.cuda.get_current_stream().ptr)
        return handle


_handles = _Handles()
_plans: dict[Any, Any] = {}


class _Plan:
    """A graph that has been planned; `make(graph)` builds it and returns its inputs and outputs."""

    def __init__(self, dtype: str, make: Callable[[Any], Any], handle: Any) -> None:
        cudnn = library()
        number = cudnn.data_type
        self.graph = cudnn.pygraph(
            io_data_type=getattr(number, _TYPES[dtype]), intermediate_data_type=number.FLOAT,
            compute_data_type=number.FLOAT, handle=handle,
        )  # fmt: skip
        self.inputs, self.outputs = make(self.graph)
        self.graph.validate()
        self.graph.build_operation_graph()
        self.graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        unfit = _NOTES + (_NOTES_OF_FLOAT32 if dtype == "float32" and not precision.tf32() else ())
        notes = cudnn.numerical_note
        self.graph.deselect_numeric_notes([getattr(notes, n) for n in unfit if hasattr(notes, n)])
        self.graph.check_support()
        self.graph.build_plans()
        self.bytes = self.graph.get_workspace_size()

    def run(self, handle: Any, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Runs the plan on arrays."""
        arrays = zip((*self.inputs, *self.outputs), (*inputs, *outputs), strict=True)
        pointers = {tensor: array.data.ptr for tensor, array in arrays}
        workspace = cupy.empty(max(1, self.bytes), cupy.uint8)
        self.graph.execute(pointers, workspace.data.ptr, handle=handle)


def _run(
    key: Any,
    dtype: str,
    make: Callable[[Any], Any],
    inputs: Sequence[Array],
    outputs: Sequence[Array],
) -> bool:
    """Runs the graph that `make` builds; returns False if cuDNN has no plan for it."""
    handle = _handles.current()
    key = (key, dtype, precision.tf32(), cupy.cuda.get_device_id())
    if key not in _plans:
        try:
            _plans[key] = _Plan(dtype, make, handle)
        except Exception:  # the type of cuDNN's error depends on its version
            _plans[key] = None
    plan = _plans[key]
    if plan is None:
        return False
    plan.run(handle, inputs, outputs)
    return True


def _steps(shape: Shape, order: Any) -> list[int]:
    """The strides of an array in C order, with its axes in another order."""
    steps = [1] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        steps[axis] = steps[axis + 1] * shape[axis + 1]
    return [steps[axis] for axis in order]


# Convolution ----------------------------------------------------------------------------------


class _Convolution:
    """The images, results and kernel of a convolution, as cuDNN describes them."""

    def __init__(self, shape: Shape, kernel_shape: Shape, *, strides: Shape, padding: Pads,
                 dilation: Shape, groups: int, data_format: str) -> None:  # fmt: skip
        *window, _, filters = kernel_shape
        spatial = spatial_of(shape, data_format)
        out = output_sizes(spatial, window, strides, padding, dilation)
        # cuDNN needs two spatial dimensions: a line is an image one pixel high.
        extra = (1,) if len(window) == 1 else ()
        self.out_shape = image_shape(shape[0], out, filters, data_format)
        channels = channels_of(shape, data_format)
        self.images = self._images(image_shape(shape[0], extra + spatial, channels, data_format),
                                   data_format)  # fmt: skip
        self.results = self._images(
            image_shape(shape[0], extra + out, filters, data_format), data_format
        )
        # cuDNN declares kernels (filters, *window, channels) as (filters, channels, *window).
        laid = (filters, *extra, *window, kernel_shape[-2])
        order = (0, len(laid) - 1, *range(1, len(laid) - 1))
        self.kernel = [laid[axis] for axis in order], _steps(laid, order)
        pads = [(0, 0)] * len(extra) + list(padding)
        self.options = {
            "pre_padding": [low for low, _ in pads], "post_padding": [high for _, high in pads],
            "stride": [*extra, *strides], "dilation": [*extra, *dilation],
        }  # fmt: skip
        self.key = (tuple(shape), tuple(kernel_shape), strides, padding, dilation, data_format)

    @staticmethod
    def _images(shape: Shape, data_format: str) -> tuple[list[int], list[int]]:
        axes = range(len(shape))
        order = (0, axes[-1], *axes[1:-1]) if data_format == "channels_last" else tuple(axes)
        return [shape[axis] for axis in order], _steps(shape, order)

    def run(
        self, node: str, dtype: DType, inputs: Sequence[Array], output: Array, layouts: Any
    ) -> Array | None:
        """Runs a node of cuDNN's graph; None if it has no plan. Layouts: of inputs, then output."""

        def make(graph: Any) -> Any:
            names = {"conv_fprop": ("image", "weight"), "conv_dgrad": ("loss", "filter"),
                     "conv_wgrad": ("image", "loss")}[node]  # fmt: skip
            tensors = {
                name: graph.tensor(name=name, dim=dim, stride=stride)
                for name, (dim, stride) in zip(names, layouts, strict=False)
            }
            result = getattr(graph, node)(**tensors, **self.options)
            dim, stride = layouts[-1]
            result.set_output(True).set_dim(dim).set_stride(stride)
            return tuple(tensors.values()), (result,)

        done = _run((node, self.key), name_of(dtype), make, inputs, (output,))
        return output if done else None


def _fits(*arrays: Array) -> bool:
    return (
        library() is not None
        and all(x.size for x in arrays)
        and all(name_of(x.dtype) in _TYPES for x in arrays)
    )


def _turned(kernel: Array) -> Array:
    """(*window, channels, filters) as (filters, *window, channels)."""
    return cupy.ascontiguousarray(cupy.moveaxis(kernel, -1, 0))


def conv(x: Array, kernel: Array, **options: Unpack[ConvOptions]) -> Array | None:
    """See `pullback.conv`; None where cuDNN has no plan."""
    if not _fits(x, kernel):
        return None
    of = _Convolution(x.shape, kernel.shape, **options)
    y = cupy.empty(of.out_shape, x.dtype)
    if not y.size:
        return None
    inputs = cupy.ascontiguousarray(x), _turned(kernel)
    return of.run("conv_fprop", x.dtype, inputs, y, (of.images, of.kernel, of.results))


def conv_input_gradient(
    g: Array, kernel: Array, *, input_shape: Shape, **options: Unpack[ConvOptions]
) -> Array | None:
    """See `pullback.conv_input_gradient`; None where cuDNN has no plan."""
    if not _fits(g, kernel):
        return None
    of = _Convolution(input_shape, kernel.shape, **options)
    dx = cupy.empty(input_shape, g.dtype)
    inputs = cupy.ascontiguousarray(g), _turned(kernel)
    return of.run("conv_dgrad", g.dtype, inputs, dx, (of.results, of.kernel, of.images))


def conv_kernel_gradient(
    x: Array, g: Array, *, kernel_shape: Shape, **options: Unpack[ConvOptions]
) -> Array | None:
    """See `pullback.conv_kernel_gradient`; None where cuDNN has no plan."""
    if not _fits(x, g):
        return None
    of = _Convolution(x.shape, kernel_shape, **options)
    *window, channels, filters = kernel_shape
    dk = cupy.empty((filters, *window, channels), x.dtype)
    inputs = cupy.ascontiguousarray(x), cupy.ascontiguousarray(g)
    result = of.run("conv_wgrad", x.dtype, inputs, dk, (of.images, of.results, of.kernel))
    return None if result is None else cupy.moveaxis(result, 0, -1)


# Attention ------------------------------------------------------------------------------------


def _attends(query: Array, key: Array, value: Array, mask: Array | None) -> bool:
    """Returns whether cuDNN's fused attention supports these arrays: 16-bit, with four axes."""
    return (
        mask is None
        and _fits(query, key, value)
        and name_of(query.dtype) != "float32"
        and query.ndim == 4
        and all(x.shape[-1] % 8 == 0 and x.shape[-1] <= 128 for x in (query, value))
    )


def _tensors(graph: Any, **arrays: Any) -> dict[str, Any]:
    return {
        name: graph.tensor(name=name, dim=list(shape), stride=_steps(shape, range(4)))
        for name, shape in arrays.items()
    }


def attention(
    query: Array, key: Array, value: Array, mask: Array | None, *, is_causal: bool, scale: float
) -> tuple[Array, ...] | None:
    """See `pullback.scaled_dot_product_attention`; (result, normalizer), or None without a plan."""
    if not _attends(query, key, value, mask):
        return None
    shapes = {"q": query.shape, "k": key.shape, "v": value.shape}
    out_shape, stats_shape = (*query.shape[:-1], value.shape[-1]), (*query.shape[:-1], 1)

    def make(graph: Any) -> Any:
        tensors = _tensors(graph, **shapes)
        out, stats = graph.sdpa(
            name="attention", **tensors, generate_stats=True, attn_scale=scale,
            use_causal_mask=is_causal,
        )  # fmt: skip
        out.set_output(True).set_dim(list(out_shape)).set_stride(_steps(out_shape, range(4)))
        stats.set_output(True).set_data_type(library().data_type.FLOAT)
        return tuple(tensors.values()), (out, stats)

    out, normalizer = cupy.empty(out_shape, query.dtype), cupy.empty(stats_shape, cupy.float32)
    inputs = [cupy.ascontiguousarray(x) for x in (query, key, value)]
    graph_key = ("sdpa", *shapes.values(), is_causal, scale)
    done = _run(graph_key, name_of(query.dtype), make, inputs, (out, normalizer))
    return (out, normalizer) if done else None
