"""`tf.nn`: ops of neural networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pullback as pb
from pullback import dtypes
from pullback.random import Generator, default_generator
from pullback.tensor import Tensor, TensorLike
from pullback_tensorflow.naming import op
from pullback_tensorflow.nn import rnn_cell
from pullback_tensorflow.nn.rnn_cell import dynamic_rnn, static_rnn

__all__ = [
    "avg_pool", "batch_normalization", "bias_add", "conv2d", "dropout", "dynamic_rnn", "elu",
    "embedding_lookup", "in_top_k", "l2_loss", "l2_normalize", "leaky_relu", "log_softmax",
    "max_pool", "moments", "relu", "relu6", "rnn_cell", "selu", "sigmoid",
    "sigmoid_cross_entropy_with_logits", "softmax", "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2", "softplus", "softsign",
    "sparse_softmax_cross_entropy_with_logits", "static_rnn", "tanh", "top_k",
]  # fmt: skip

elu, relu, relu6, selu, softplus, softsign = (
    op(name, "features") for name in ("elu", "relu", "relu6", "selu", "softplus", "softsign")
)
sigmoid, tanh = op("sigmoid", "x"), op("tanh", "x")


def leaky_relu(features: TensorLike, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """The larger of a value and alpha times the value."""
    return pb.leaky_relu(features, negative_slope=alpha)


def softmax(
    logits: TensorLike, axis: int = -1, name: str | None = None, dim: int | None = None
) -> Tensor:
    """Probabilities of log odds."""
    return pb.softmax(logits, axis=axis if dim is None else dim)


def log_softmax(
    logits: TensorLike, axis: int = -1, name: str | None = None, dim: int | None = None
) -> Tensor:
    """The logarithm of softmax."""
    return pb.log_softmax(logits, axis=axis if dim is None else dim)


def dropout(
    x: TensorLike,
    keep_prob: float | None = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: float | None = None,
) -> Tensor:
    """Sets a fraction of the elements to 0, and scales up the others."""
    generator = default_generator if seed is None else Generator(seed)
    lost = (1 - float(1 if keep_prob is None else keep_prob)) if rate is None else float(rate)
    return generator.dropout(x, lost, noise_shape=noise_shape)


# Images -----------------------------------------------------------------------------------------


def _format(data_format: str) -> Literal["channels_first", "channels_last"]:
    return "channels_first" if data_format[1:2] in ("C", "c") else "channels_last"


def _spatial(sizes: Any, data_format: str) -> tuple[int, ...]:
    """Sizes for four axes without those of the batch and the channels."""
    values = tuple(int(size) for size in sizes)
    if len(values) != 4:
        return values
    return values[2:] if _format(data_format) == "channels_first" else values[1:3]


def conv2d(
    input: TensorLike,
    filter: TensorLike,
    strides: Any = (1, 1, 1, 1),
    padding: str = "SAME",
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The convolution of images with filters (height, width, channels, filters)."""
    return pb.conv(
        input,
        filter,
        strides=_spatial(strides, data_format),
        padding=padding,
        dilation=_spatial(dilations, data_format),
        data_format=_format(data_format),
    )


def _pool(target: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def pool(
        value: TensorLike,
        ksize: Any,
        strides: Any,
        padding: str,
        data_format: str = "NHWC",
        name: str | None = None,
    ) -> Tensor:
        return target(
            value,
            window=_spatial(ksize, data_format),
            strides=_spatial(strides, data_format),
            padding=padding,
            data_format=_format(data_format),
        )

    pool.__name__ = pool.__qualname__ = target.__name__
    pool.__doc__ = target.__doc__
    return pool


max_pool, avg_pool = _pool(pb.max_pool), _pool(pb.avg_pool)


def bias_add(
    value: TensorLike, bias: TensorLike, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """A number added for each channel."""
    tensor = pb.asarray(value)
    if _format(data_format or "NHWC") == "channels_first":
        bias = pb.reshape(bias, (-1, *[1] * (tensor.ndim - 2)))
    return pb.add(tensor, bias)


# Normalization ----------------------------------------------------------------------------------


def moments(
    x: TensorLike, axes: Any, shift: Any = None, name: str | None = None, keep_dims: bool = False
) -> tuple[Tensor, Tensor]:
    """The mean and the variance over axes."""
    along = tuple(axes) if isinstance(axes, (list, tuple)) else axes
    return (
        pb.mean(x, axis=along, keepdims=keep_dims),
        pb.var(x, axis=along, keepdims=keep_dims),
    )


def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: float, **_: Any
) -> Any:
    """(x - mean) / sqrt(variance + epsilon), scaled and moved."""
    factor = pb.reciprocal(pb.sqrt(pb.add(variance, variance_epsilon)))
    if scale is not None:
        factor = factor * scale
    y = (pb.asarray(x) - mean) * factor
    return y if offset is None else y + offset


def l2_loss(t: TensorLike, name: str | None = None) -> Tensor:
    """Half the sum of squares."""
    return pb.sum(pb.square(t)) / 2


def l2_normalize(
    x: TensorLike, axis: Any = None, epsilon: float = 1e-12, dim: Any = None, **_: Any
) -> Tensor:
    """Scaled to the norm 1 along an axis."""
    along = dim if axis is None else axis
    along = tuple(along) if isinstance(along, (list, tuple)) else along
    total = pb.sum(pb.square(x), axis=along, keepdims=True)
    return pb.divide(x, pb.sqrt(pb.maximum(total, epsilon)))


def embedding_lookup(params: TensorLike, ids: TensorLike, **_: Any) -> Tensor:
    """Rows of a table, by number."""
    return pb.take(params, ids, axis=0)


def top_k(
    input: TensorLike, k: int = 1, sorted: bool = True, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The k largest values of each row, and their indices."""
    values, indices = pb.top_k(input, int(k))
    return values, pb.astype(indices, dtypes.int32)


def in_top_k(
    predictions: TensorLike, targets: TensorLike, k: int, name: str | None = None
) -> Tensor:
    """Returns, for each row, whether the target is among the k highest predictions."""
    scores = pb.asarray(predictions)
    column = pb.expand_dims(pb.asarray(targets), axis=-1)
    own = pb.take_along_axis(scores, column, axis=-1)
    return pb.less(pb.count_nonzero(scores > own, axis=-1), k)


# Losses of items, by keyword as the guides write them --------------------------------------------


def softmax_cross_entropy_with_logits(
    *, labels: Any = None, logits: Any = None, axis: int = -1, name: Any = None, dim: Any = None
) -> Tensor:
    """The cross entropy of each row between distributions and softmax(logits)."""
    along = axis if dim is None else dim
    if along not in (-1, pb.asarray(logits).ndim - 1):
        labels, logits = (pb.moveaxis(x, along, -1) for x in (labels, logits))
    return pb.softmax_cross_entropy_with_logits(logits, labels)


softmax_cross_entropy_with_logits_v2 = softmax_cross_entropy_with_logits


def sparse_softmax_cross_entropy_with_logits(
    *, labels: Any = None, logits: Any = None, name: Any = None
) -> Tensor:
    """The cross entropy of each row between a class, by number, and softmax(logits)."""
    return pb.sparse_softmax_cross_entropy_with_logits(logits, labels)


def sigmoid_cross_entropy_with_logits(
    *, labels: Any = None, logits: Any = None, name: Any = None
) -> Tensor:
    """The cross entropy of each element between a probability and sigmoid(logits)."""
    return pb.sigmoid_cross_entropy_with_logits(logits, labels)
