"""Programs of captured functions as CUDA graphs: one launch instead of one for each kernel.

The calls of a program are recorded on a stream, with arrays of their own as inputs and a memory
pool of their own, so that all addresses stay. A run copies its inputs there, launches the graph,
and copies the results out. It is off by default: nothing of it has run on a GPU yet.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any

import cupy
import numpy as np

from pullback.plugins.compiling import as_function
from pullback.shapes import broadcast, reduce
from pullback_cupy import faults
from pullback_cupy.typing import Array

__all__ = ["Recorded", "enabled", "recorded", "use_cuda_graphs"]

_enabled = os.environ.get("PULLBACK_CUDA_GRAPHS", "0") not in ("", "0")

#: Ops beside those of elements and reductions whose kernels are launches and nothing else. Not
#: among them: products, convolution, attention and recurrent layers, as CuPy calls no cuBLAS while
#: it records; sorting and decompositions, which wait; joining, which copies addresses to the GPU.
_LAUNCHES = frozenset({
    "argmax", "argmin", "astype", "avg_pool", "avg_pool_gradient", "batch_norm",
    "batch_norm_gradient", "batch_norm_inference", "broadcast_to", "celu", "elu", "expand_dims",
    "flip", "full", "fused", "gelu", "hard_sigmoid", "hard_silu", "hard_tanh", "layer_norm",
    "layer_norm_gradient", "leaky_relu", "log_sigmoid", "log_softmax", "log_softmax_gradient",
    "matrix_transpose", "max", "max_pool", "max_pool_gradient", "min", "mish", "moveaxis",
    "permute_dims", "relu", "relu6", "reshape", "rms_norm", "rms_norm_gradient", "selu", "sigmoid",
    "silu", "softmax", "softmax_cross_entropy_with_logits", "softmax_gradient", "softplus",
    "softsign", "sparse_softmax_cross_entropy_gradient",
    "sparse_softmax_cross_entropy_with_logits", "squeeze", "strided_slice", "take",
    "adadelta_update", "adagrad_update", "adam_update", "adamax_update", "amsgrad_update",
    "ftrl_update", "lion_update", "momentum_update", "nadam_update", "rmsprop_momentum_update",
    "rmsprop_update", "sgd_update",
})  # fmt: skip


def enabled() -> bool:
    """Returns whether programs become CUDA graphs."""
    return _enabled


def use_cuda_graphs(use: bool = True) -> None:
    """Has the programs of captured functions that are made from now on run as CUDA graphs, or not.

    Programs with products of matrices, random numbers or ops that wait for the device are left as
    they are.
    """
    global _enabled
    _enabled = bool(use)


def recorded(graph: Any) -> Recorded | None:
    """A graph as a function that records a CUDA graph; None for graphs that cannot be recorded.

    Args:
        graph: a `pullback.graph.graph.Graph` without writes.
    """
    if not _enabled or faults.BLOCKING or not graph.calls:
        return None
    inputs = [entry.value for entry in graph.inputs]
    for call in graph.calls:
        op = call.op
        if op.name not in _LAUNCHES and op.shape is not broadcast and op.shape is not reduce:
            return None
        # Keys and counters of random numbers are attributes that the host gives at each run.
        if any(given is value for given in call.attributes.values() for value in inputs):
            return None
    return Recorded(graph)


class Recorded:
    """A graph that is run call by call once, and then recorded and launched.

    The first run compiles kernels, which is not possible while a stream records.

    Args:
        graph: a graph of ops that launch kernels and do nothing else.
    """

    def __init__(self, graph: Any) -> None:
        self._run = as_function(graph)
        self._values = [entry.value for entry in graph.inputs]
        self._count = len(graph.outputs)
        self._device = graph.device.native
        self._lock = threading.Lock()
        self._pool: Any = None
        self._graph: Any = None
        #: When the arrays of the graph may be written again, on whatever stream.
        self._free: Any = None
        self._inputs: list[Array] = []
        self._outputs: tuple[Array, ...] = ()

    def __call__(self, *inputs: Any) -> tuple[Array, ...]:
        """The outputs for native arrays, and NumPy arrays of numbers of the host.

        Raises:
            RuntimeError: for kernels that look at values.
        """
        with self._lock, self._device:
            # Of other layouts the results may have other layouts and bits.
            if not all(x.flags.c_contiguous for x in inputs):
                return self._call_by_call(inputs)
            if self._pool is None:
                self._pool = cupy.cuda.MemoryPool()
                return self._call_by_call(inputs)
            if self._graph is None:
                self._record()
            stream = cupy.cuda.get_current_stream()
            stream.wait_event(self._free)
            for own, given in zip(self._inputs, inputs, strict=True):
                if type(given) is np.ndarray:
                    own.set(given)
                else:
                    cupy.copyto(own, given)
            self._graph.launch()
            results = tuple([output.copy(order="K") for output in self._outputs])
            self._free.record(stream)
            return results

    def _call_by_call(self, inputs: Any) -> tuple[Array, ...]:
        arrays = [cupy.asarray(x) if type(x) is np.ndarray else x for x in inputs]
        results = self._run(*arrays)
        if len(results) > self._count:
            raise RuntimeError("a kernel looks at values, which no CUDA graph can do")
        return results

    def _record(self) -> None:
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream, cupy.cuda.using_allocator(self._pool.malloc):
            self._inputs = [cupy.empty(value.shape, value.dtype) for value in self._values]
            stream.begin_capture()
            try:
                self._outputs = self._run(*self._inputs)
            except BaseException:
                # What broke the recording is the error to show.
                with contextlib.suppress(Exception):
                    stream.end_capture()
                raise
            graph = stream.end_capture()
        self._free = cupy.cuda.Event(block=False, disable_timing=True)
        self._graph = graph
