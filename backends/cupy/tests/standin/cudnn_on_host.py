"""A stand-in for `cudnn`: graphs of one convolution or attention, computed by NumPy.

Arrays are read and written through the dims and strides that the graph was told, so what does not
fit the memory gives wrong numbers here as it would there.
"""

from __future__ import annotations

import ctypes
import types

import ml_dtypes
import numpy as np

import pullback as pb

data_type = types.SimpleNamespace(HALF=np.float16, BFLOAT16=ml_dtypes.bfloat16, FLOAT=np.float32)
heur_mode = types.SimpleNamespace(A="A", FALLBACK="FALLBACK")
numerical_note = types.SimpleNamespace(NONDETERMINISTIC="N", TENSOR_CORE="T")


def backend_version():
    return 91000


def create_handle():
    return object()


def set_stream(*, handle, stream):
    pass


class Tensor:
    def __init__(self, dim=None, stride=None, dtype=None):
        self.dim, self.stride, self.dtype = dim, stride, dtype

    def set_output(self, is_output):
        return self

    def set_dim(self, dim):
        self.dim = dim
        return self

    def set_stride(self, stride):
        self.stride = stride
        return self

    def set_data_type(self, dtype):
        self.dtype = dtype
        return self

    def at(self, pointer):
        """The array that the tensor is at an address."""
        item = np.dtype(self.dtype)
        size = 1 + sum((n - 1) * step for n, step in zip(self.dim, self.stride, strict=True))
        raw = (ctypes.c_char * (size * item.itemsize)).from_address(pointer)
        flat = np.frombuffer(raw, item)
        strides = [step * item.itemsize for step in self.stride]
        return np.lib.stride_tricks.as_strided(flat, self.dim, strides)


def _channels_first(kernel):
    """(*window, channels, filters) of (filters, channels, *window)."""
    return np.moveaxis(kernel, (0, 1), (-1, -2))


class pygraph:
    made = 0

    def __init__(self, *, io_data_type, intermediate_data_type, compute_data_type, handle):
        self.dtype = io_data_type
        pygraph.made += 1

    def tensor(self, *, name, dim, stride):
        return Tensor(dim, stride, self.dtype)

    def _convolution(self, what, inputs, padding):
        result = Tensor(dtype=self.dtype)
        self.run = lambda at: self._convolve(what, inputs, result, padding, at)
        return result

    def conv_fprop(self, image, weight, **how):
        return self._convolution("fprop", (image, weight), how)

    def conv_dgrad(self, loss, filter, **how):
        return self._convolution("dgrad", (loss, filter), how)

    def conv_wgrad(self, image, loss, **how):
        return self._convolution("wgrad", (image, loss), how)

    def _convolve(self, what, inputs, result, how, at):
        first, second = (np.ascontiguousarray(x.at(at[x])).astype(np.float32) for x in inputs)
        out = result.at(at[result])
        options = {
            "strides": tuple(how["stride"]), "dilation": tuple(how["dilation"]),
            "padding": tuple(zip(how["pre_padding"], how["post_padding"], strict=True)),
            "data_format": "channels_first",
        }  # fmt: skip
        if what == "wgrad":
            groups = first.shape[1] // out.shape[1]
            shape = _channels_first(out).shape
            y = pb.ops.conv_kernel_gradient(
                pb.asarray(first, device="cpu"), pb.asarray(second, device="cpu"),
                kernel_shape=shape, groups=groups, **options,
            ).numpy()  # fmt: skip
            out[...] = np.moveaxis(y, (-1, -2), (0, 1))
            return
        kernel = pb.asarray(np.ascontiguousarray(_channels_first(second)), device="cpu")
        images = pb.asarray(first, device="cpu")
        if what == "fprop":
            groups = first.shape[1] // second.shape[1]
            out[...] = pb.conv(images, kernel, groups=groups, **options).numpy()
        else:
            groups = out.shape[1] // second.shape[1]
            out[...] = pb.ops.conv_input_gradient(
                images, kernel, input_shape=out.shape, groups=groups, **options
            ).numpy()

    def sdpa(self, *, name, q, k, v, generate_stats, attn_scale, use_causal_mask):
        out, stats = Tensor(dtype=self.dtype), Tensor()
        stats.dim = [*q.dim[:-1], 1]
        stats.stride = [q.dim[1] * q.dim[2], q.dim[2], 1, 1]

        def run(at):
            arrays = [x.at(at[x]).astype(np.float32) for x in (q, k, v)]
            given = [pb.asarray(np.ascontiguousarray(x), device="cpu") for x in arrays]
            out.at(at[out])[...] = pb.scaled_dot_product_attention(
                *given, is_causal=use_causal_mask, scale=attn_scale
            ).numpy()
            groups = q.dim[1] // k.dim[1]
            scores = arrays[0] @ np.repeat(arrays[1], groups, 1).swapaxes(-1, -2) * attn_scale
            if use_causal_mask:
                scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
            stats.at(at[stats])[...] = np.log(np.exp(scores).sum(-1, keepdims=True))

        self.run = run
        return out, stats

    def validate(self):
        pass

    build_operation_graph = check_support = build_plans = validate

    def create_execution_plans(self, modes):
        assert modes == ["A", "FALLBACK"]

    def deselect_numeric_notes(self, notes):
        assert "N" in notes

    def get_workspace_size(self):
        return 0

    def execute(self, pointers, workspace, handle):
        self.run(pointers)
