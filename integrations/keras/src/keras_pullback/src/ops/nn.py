"""Keras's `nn` ops."""

from __future__ import annotations

import math

import numpy as np
from keras.src import backend
from keras.src.backend.common.backend_utils import (
    canonicalize_axis,
    check_conv_input_channels,
    check_conv_transpose_input_channels,
    compute_conv_transpose_padding_args_for_jax,
)

import pullback as pb
from keras_pullback.src.ops.core import (
    FLOATS,
    cast,
    convert_to_tensor,
    floating,
    name_of,
    numeric,
    result,
    same,
    to,
)
from keras_pullback.src.ops.decoding import ctc_decode
from keras_pullback.src.ops.reductions import max as largest

# Activations -------------------------------------------------------------------------------------


def _activation(op):
    return lambda x: op(floating(x))


# Functions that are an op of pullback's.
hard_sigmoid = _activation(pb.hard_sigmoid)
hard_silu = _activation(pb.hard_silu)
hard_tanh = _activation(pb.hard_tanh)
log_sigmoid = _activation(pb.log_sigmoid)
relu6 = _activation(pb.relu6)
selu = _activation(pb.selu)
sigmoid = _activation(pb.sigmoid)
silu = _activation(pb.silu)
softplus = _activation(pb.softplus)
softsign = _activation(pb.softsign)
tanh = _activation(pb.tanh)


def relu(x):
    x = convert_to_tensor(x)
    return pb.relu(x) if name_of(x) != "bool" else x


def leaky_relu(x, negative_slope=0.2):
    return pb.leaky_relu(floating(x), negative_slope=float(negative_slope))


def elu(x, alpha=1.0):
    return pb.elu(floating(x), alpha=float(alpha))


def celu(x, alpha=1.0):
    return pb.celu(floating(x), alpha=float(alpha))


def gelu(x, approximate=True):
    return pb.gelu(floating(x), approximate=approximate)


def glu(x, axis=-1):
    return pb.glu(floating(x), axis=axis)


def sparse_sigmoid(x):
    return pb.clip(0.5 * (floating(x) + 1), 0.0, 1.0)


def tanh_shrink(x):
    x = floating(x)
    return x - pb.tanh(x)


def soft_shrink(x, threshold=0.5):
    x = floating(x)
    return pb.where(x > threshold, x - threshold, pb.where(x < -threshold, x + threshold, 0.0))


def hard_shrink(x, threshold=0.5):
    x = floating(x)
    return pb.where(pb.abs(x) > threshold, x, 0.0)


def threshold(x, threshold, default_value):
    x = floating(x)
    return pb.where(x > threshold, x, default_value)


def sparse_plus(x):
    x = floating(x)
    return pb.where(x <= -1, 0.0, pb.where(x < 1, 0.25 * pb.square(x + 1), x))


def squareplus(x, b=4):
    x = floating(x)
    return (x + pb.sqrt(x * x + b)) / 2


def _over(op):
    """A function over one axis, over several: these are flattened, and made anew."""

    def function(x, axis=-1):
        x = floating(x)
        if isinstance(axis, int):
            return op(x, axis=axis)
        axes = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in axis)
        order = [a for a in range(x.ndim) if a not in axes] + list(axes)
        moved = pb.permute_dims(x, tuple(order))
        flat = pb.reshape(moved, (*moved.shape[: x.ndim - len(axes)], -1))
        y = pb.reshape(op(flat, axis=-1), moved.shape)
        return pb.permute_dims(y, tuple(int(i) for i in np.argsort(order)))

    return function


softmax = _over(pb.softmax)
log_softmax = _over(pb.log_softmax)


def sparsemax(x, axis=-1):
    x = floating(x)
    ordered = pb.sort(x, axis=axis, descending=True)
    sums = pb.cumulative_sum(ordered, axis=axis)
    sizes = [1] * x.ndim
    sizes[axis] = -1
    ranks = pb.reshape(pb.arange(1, x.shape[axis] + 1, dtype=x.dtype), sizes)
    support = ordered - (sums - 1) / ranks > 0
    count = pb.sum(support, axis=axis, keepdims=True)
    # The sum up to the last element of the support.
    total = pb.sum(pb.where(support, ordered, 0.0), axis=axis, keepdims=True)
    return pb.relu(x - (total - 1) / count.astype(x.dtype))


# Windows -----------------------------------------------------------------------------------------


def _check_padding(padding):
    if padding not in ("same", "valid"):
        raise ValueError(f"Invalid padding '{padding}', must be 'same' or 'valid'.")


def max_pool(inputs, pool_size, strides=None, padding="valid", data_format=None):
    _check_padding(padding)
    return pb.max_pool(
        convert_to_tensor(inputs),
        pool_size,
        strides=strides,
        padding=padding,
        data_format=backend.standardize_data_format(data_format),
    )


def average_pool(inputs, pool_size, strides=None, padding="valid", data_format=None):
    _check_padding(padding)
    return pb.avg_pool(
        floating(inputs),
        pool_size,
        strides=strides,
        padding=padding,
        data_format=backend.standardize_data_format(data_format),
    )


def adaptive_average_pool(inputs, output_size, data_format=None):
    data_format = backend.standardize_data_format(data_format)
    return pb.adaptive_avg_pool(floating(inputs), output_size, data_format=data_format)


def adaptive_max_pool(inputs, output_size, data_format=None):
    data_format = backend.standardize_data_format(data_format)
    return pb.adaptive_max_pool(convert_to_tensor(inputs), output_size, data_format=data_format)


def conv(inputs, kernel, strides=1, padding="valid", data_format=None, dilation_rate=1):
    inputs, kernel = same(inputs, kernel, floating=True)
    data_format = backend.standardize_data_format(data_format)
    channels = inputs.shape[-1 if data_format == "channels_last" else 1]
    if channels % kernel.shape[-2]:
        raise ValueError(
            "The number of input channels must be evenly divisible by kernel's in_channels. "
            f"Received input channels {channels} and kernel in_channels {kernel.shape[-2]}. "
        )
    try:
        y = pb.conv(
            inputs,
            kernel,
            strides=strides,
            padding=padding,
            dilation=dilation_rate,
            groups=channels // kernel.shape[-2],
            data_format=data_format,
        )
        empty = y.size == 0 and inputs.size != 0
    except pb.errors.ShapeError as error:
        raise ValueError(
            f"The convolution operation resulted in an empty output: {error}"
        ) from error
    if empty:
        raise ValueError(
            "The convolution operation resulted in an empty output. This can happen if the input "
            "is too small for the given kernel size, strides, dilation rate, and padding mode."
        )
    return y


def depthwise_conv(inputs, kernel, strides=1, padding="valid", data_format=None, dilation_rate=1):
    inputs, kernel = same(inputs, kernel, floating=True)
    data_format = backend.standardize_data_format(data_format)
    check_conv_input_channels(inputs, kernel, data_format)
    channels = inputs.shape[-1 if data_format == "channels_last" else 1]
    kernel = pb.reshape(kernel, (*kernel.shape[:-2], 1, channels * kernel.shape[-1]))
    return conv(inputs, kernel, strides, padding, data_format, dilation_rate)


def separable_conv(
    inputs,
    depthwise_kernel,
    pointwise_kernel,
    strides=1,
    padding="valid",
    data_format=None,
    dilation_rate=1,
):
    y = depthwise_conv(inputs, depthwise_kernel, strides, padding, data_format, dilation_rate)
    return conv(y, pointwise_kernel, data_format=data_format)


def conv_transpose(
    inputs,
    kernel,
    strides=1,
    padding="valid",
    output_padding=None,
    data_format=None,
    dilation_rate=1,
):
    inputs, kernel = same(inputs, kernel, floating=True)
    data_format = backend.standardize_data_format(data_format)
    check_conv_transpose_input_channels(inputs, kernel, data_format)
    count = inputs.ndim - 2
    dilation = [dilation_rate] * count if isinstance(dilation_rate, int) else dilation_rate
    pads = compute_conv_transpose_padding_args_for_jax(
        input_shape=inputs.shape,
        kernel_shape=kernel.shape,
        strides=strides,
        padding=padding,
        output_padding=output_padding,
        dilation_rate=dilation_rate,
    )
    spans = [(n - 1) * step for n, step in zip(kernel.shape, dilation, strict=False)]
    crops = [(span - low, span - high) for span, (low, high) in zip(spans, pads, strict=True)]
    y = pb.conv_transpose(
        inputs,
        kernel,
        strides=strides,
        padding=[tuple(max(n, 0) for n in crop) for crop in crops],
        dilation=dilation_rate,
        data_format=data_format,
    )
    # A crop below zero adds zeros.
    added = [tuple(max(-n, 0) for n in crop) for crop in crops]
    if any(n for pair in added for n in pair):
        first = 1 if data_format == "channels_last" else 2
        widths = [(0, 0)] * first + added + [(0, 0)] * (2 - first)
        y = pb.pad(y, widths)
    return y


def _pair(x):
    return (x, x) if isinstance(x, int) else tuple(x)


def _windows(dilation, padding, stride):
    pads = tuple((p, p) for p in _pair(padding))
    how = {"strides": _pair(stride), "padding": pads, "dilation": _pair(dilation)}
    return how | {"data_format": "channels_first"}


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    x = convert_to_tensor(input)
    y = pb.unfold(x, _pair(kernel_size), **_windows(dilation, padding, stride))
    return pb.reshape(y, (x.shape[0], -1, math.prod(y.shape[4:])))


def fold(x, output_size, kernel_size, dilation=1, padding=0, stride=1):
    x = convert_to_tensor(x)
    output, kernel, how = (
        _pair(output_size),
        _pair(kernel_size),
        _windows(dilation, padding, stride),
    )
    sizes = [
        (n + sum(pair) - (k - 1) * d - 1) // s + 1
        for n, pair, k, d, s in zip(
            output, how["padding"], kernel, how["dilation"], how["strides"], strict=True
        )
    ]
    channels = x.shape[1] // math.prod(kernel)
    return pb.fold(pb.reshape(x, (x.shape[0], channels, *kernel, *sizes)), output, **how)


def depth_to_space(x, block_size, data_format="channels_last"):
    x = convert_to_tensor(x)
    x = x if data_format == "channels_last" else pb.moveaxis(x, 1, -1)
    n, h, w, c = x.shape
    new = c // block_size**2
    if data_format == "channels_last":
        x = pb.permute_dims(
            pb.reshape(x, (n, h, w, block_size, block_size, new)), (0, 1, 3, 2, 4, 5)
        )
    else:
        x = pb.permute_dims(
            pb.reshape(x, (n, h, w, new, block_size, block_size)), (0, 1, 4, 2, 5, 3)
        )
    x = pb.reshape(x, (n, h * block_size, w * block_size, new))
    return x if data_format == "channels_last" else pb.moveaxis(x, -1, 1)


def space_to_depth(x, block_size, data_format="channels_last"):
    x = convert_to_tensor(x)
    x = x if data_format == "channels_last" else pb.moveaxis(x, 1, -1)
    n, h, w, c = x.shape
    h, w = h // block_size, w // block_size
    x = pb.reshape(x, (n, h, block_size, w, block_size, c))
    order = (0, 1, 3, 2, 4, 5) if data_format == "channels_last" else (0, 1, 3, 5, 2, 4)
    x = pb.reshape(pb.permute_dims(x, order), (n, h, w, c * block_size**2))
    return x if data_format == "channels_last" else pb.moveaxis(x, -1, 1)


# Labels and losses -------------------------------------------------------------------------------


def one_hot(x, num_classes, axis=-1, dtype=None, sparse=False):
    if sparse:
        raise ValueError("Unsupported value `sparse=True` with the pullback backend")
    x = convert_to_tensor(x)
    x = x if "int" in name_of(x) else x.astype("int32")
    if not num_classes:
        num_classes = int(pb.max(x)) + 1
    classes = pb.arange(num_classes)
    y = pb.expand_dims(x, -1) == classes.astype(x.dtype)
    return cast(pb.moveaxis(y, -1, axis), dtype or "float32")


def multi_hot(x, num_classes, axis=-1, dtype=None, sparse=False):
    y = one_hot(cast(x, "int32"), num_classes, axis=axis, dtype=dtype, sparse=sparse)
    return largest(y, axis=1 if len(x.shape) > 1 else 0)


def _check_same(target, output):
    if target.shape != output.shape:
        raise ValueError(
            "Arguments `target` and `output` must have the same shape. Received: "
            f"target.shape={target.shape}, output.shape={output.shape}"
        )


def _log_probabilities(output, from_logits, axis):
    if from_logits:
        return log_softmax(output, axis=axis)
    output = output / pb.sum(output, axis=axis, keepdims=True)
    return pb.log(pb.clip(output, backend.epsilon(), 1.0 - backend.epsilon()))


def categorical_crossentropy(target, output, from_logits=False, axis=-1):
    target, output = convert_to_tensor(target), floating(output)
    _check_same(target, output)
    if output.ndim < 1:
        raise ValueError(
            "Arguments `target` and `output` must be at least rank 1. Received: "
            f"target.shape={target.shape}, output.shape={output.shape}"
        )
    target = to(target, name_of(output))
    if from_logits:
        return pb.softmax_cross_entropy_with_logits(output, target, axis=axis)
    return -pb.sum(target * _log_probabilities(output, from_logits, axis), axis=axis)


def sparse_categorical_crossentropy(target, output, from_logits=False, axis=-1):
    target, output = cast(target, "int32"), floating(output)
    if target.ndim == output.ndim and target.shape[-1] == 1:
        target = pb.squeeze(target, axis=-1)
    if output.ndim < 1:
        raise ValueError(
            f"Argument `output` must be at least rank 1. Received: output.shape={output.shape}"
        )
    if target.shape != output.shape[:-1]:
        raise ValueError(
            "Arguments `target` and `output` must have the same shape up until the last dimension: "
            f"target.shape={target.shape}, output.shape={output.shape}"
        )
    # A label that is no class has no part in the loss.
    classes = output.shape[canonicalize_axis(axis, output.ndim)]
    missing = pb.logical_or(target < 0, target >= classes)
    target = pb.where(missing, -1, target)
    if from_logits:
        return pb.sparse_softmax_cross_entropy_with_logits(
            output, target, axis=axis, ignore_label=-1
        )
    chosen = pb.take_along_axis(
        _log_probabilities(output, from_logits, axis),
        pb.expand_dims(pb.maximum(target, 0), axis),
        axis=axis,
    )
    return pb.where(missing, 0.0, -pb.squeeze(chosen, axis=axis))


def binary_crossentropy(target, output, from_logits=False):
    target, output = convert_to_tensor(target), floating(output)
    _check_same(target, output)
    target = to(target, name_of(output))
    if from_logits:
        return pb.sigmoid_cross_entropy_with_logits(output, target)
    output = pb.clip(output, backend.epsilon(), 1.0 - backend.epsilon())
    return -(target * pb.log(output) + (1.0 - target) * pb.log(1.0 - output))


def ctc_loss(target, output, target_length, output_length, mask_index=0):
    output = convert_to_tensor(output)
    output = to(output, result(name_of(output), "float32"))
    return pb.ctc_loss(
        output,
        cast(target, "int32"),
        cast(output_length, "int32"),
        cast(target_length, "int32"),
        blank=mask_index,
    )


# Normalization -----------------------------------------------------------------------------------


def moments(x, axes, keepdims=False, synchronized=False):
    if synchronized:
        raise NotImplementedError("Argument synchronized=True is not supported with pullback.")
    x = convert_to_tensor(x)
    axes = tuple(axes) if isinstance(axes, list) else axes
    name = name_of(x)
    # The range of float16 is too small for statistics.
    wide = x.astype("float32") if name in ("float16", "bfloat16") else x
    mean = pb.mean(wide, axis=axes, keepdims=keepdims)
    variance = pb.var(wide, axis=axes, keepdims=keepdims)
    if name == "float16":
        mean, variance = (pb.clip(v, -65504.0, 65504.0) for v in (mean, variance))
    return to(mean, name), to(variance, name)


def batch_normalization(x, mean, variance, axis, offset=None, scale=None, epsilon=1e-3):
    x = floating(x)
    parameters = [
        None if v is None else to(convert_to_tensor(v), name_of(x))
        for v in (mean, variance, scale, offset)
    ]
    return pb.batch_norm_inference(x, *parameters, axis=axis, epsilon=epsilon)


def layer_normalization(x, gamma, beta, axis, epsilon):
    """Layer normalization in float32 at least; None for parameters that have other axes than it."""
    x = convert_to_tensor(x)
    name = result(name_of(x), "float32")
    if isinstance(axis, int):
        axes, shape = (axis % x.ndim,), x.shape[axis:][:1]
    else:
        axes = tuple(sorted(i % x.ndim for i in axis))
        shape = tuple(x.shape[i] for i in axes)
    gamma, beta = (None if v is None else convert_to_tensor(v, name) for v in (gamma, beta))
    if any(v is not None and v.shape != shape for v in (gamma, beta)) or "float" not in name:
        return None
    y = pb.layer_norm(to(x, name), gamma, beta, axis=axes, epsilon=epsilon)
    return to(y, name_of(x))


# Attention ---------------------------------------------------------------------------------------


def dot_product_attention(
    query,
    key,
    value,
    bias=None,
    mask=None,
    scale=None,
    is_causal=False,
    flash_attention=None,
    attn_logits_soft_cap=None,
):
    query, key, value = same(query, key, value)
    if query.ndim != 4:
        raise ValueError(
            "`dot_product_attention` only supports 4D inputs. Received: "
            f"query.shape={query.shape}, key.shape={key.shape}, value.shape={value.shape}."
        )
    name = name_of(query)
    # `flash_attention` asks for the fused kernel, which is used wherever it fits.
    query, key, value = (pb.permute_dims(x, (0, 2, 1, 3)) for x in (query, key, value))
    scale = 1.0 / math.sqrt(key.shape[-1]) if scale is None else float(scale)
    if mask is not None:
        mask = cast(mask, "bool")
    if attn_logits_soft_cap is not None or (bias is not None and (mask is not None or is_causal)):
        logits = pb.matmul(query, pb.matrix_transpose(key)).astype("float32") * scale
        if bias is not None:
            logits = logits + cast(bias, "float32")
        if attn_logits_soft_cap is not None:
            logits = pb.tanh(logits / attn_logits_soft_cap) * attn_logits_soft_cap
        if is_causal:
            causal = pb.tril(pb.ones(logits.shape[-2:], dtype="int32")) > 0
            mask = causal if mask is None else pb.logical_and(mask, causal)
        if mask is not None:
            logits = pb.where(mask, logits, -0.7 * 3.38953e38)
        y = pb.matmul(pb.softmax(logits, axis=-1).astype(name), value)
    else:
        if bias is not None:
            mask = cast(bias, name)
        elif mask is not None and is_causal:
            causal = pb.tril(pb.ones((query.shape[-2], key.shape[-2]), dtype="int32")) > 0
            mask, is_causal = pb.logical_and(mask, causal), False
        y = pb.scaled_dot_product_attention(
            query, key, value, mask, is_causal=is_causal, scale=scale
        )
    return pb.permute_dims(y, (0, 2, 1, 3))


def psnr(x1, x2, max_val):
    x1, x2 = same(x1, x2, floating=True)
    if x1.shape != x2.shape:
        raise ValueError(
            f"Input shapes {x1.shape} and {x2.shape} must match for PSNR calculation. "
        )
    mse = pb.mean(pb.square(x1 - x2))
    return 20 * pb.log10(cast(max_val, name_of(x2))) - 10 * pb.log10(mse)
