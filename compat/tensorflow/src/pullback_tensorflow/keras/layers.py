"""`tf.keras.layers`: those of `tf.layers`, and the others that the guides use."""

from __future__ import annotations

import functools

import pullback as pb
from pullback import layers
from pullback_tensorflow.layers import (
    AveragePooling1D,
    AveragePooling2D,
    AveragePooling3D,
    BatchNormalization,
    Conv1D,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
    Dense,
    Dropout,
    Flatten,
    Layer,
    MaxPooling1D,
    MaxPooling2D,
    MaxPooling3D,
    SeparableConv1D,
    SeparableConv2D,
    embedding,
    layer,
    recurrent,
)

__all__ = [
    "ELU",
    "GRU",
    "LSTM",
    "Activation",
    "Add",
    "Average",
    "AveragePooling1D",
    "AveragePooling2D",
    "AveragePooling3D",
    "AvgPool2D",
    "BatchNormalization",
    "Bidirectional",
    "Concatenate",
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "Cropping2D",
    "CuDNNGRU",
    "CuDNNLSTM",
    "Dense",
    "DepthwiseConv2D",
    "Dropout",
    "Embedding",
    "Flatten",
    "GaussianNoise",
    "GlobalAveragePooling1D",
    "GlobalAveragePooling2D",
    "GlobalMaxPooling1D",
    "GlobalMaxPooling2D",
    "Lambda",
    "Layer",
    "LayerNormalization",
    "LeakyReLU",
    "MaxPool2D",
    "MaxPooling1D",
    "MaxPooling2D",
    "MaxPooling3D",
    "Maximum",
    "Minimum",
    "Multiply",
    "Permute",
    "ReLU",
    "RepeatVector",
    "Reshape",
    "SeparableConv1D",
    "SeparableConv2D",
    "SimpleRNN",
    "Softmax",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "Subtract",
    "UpSampling2D",
    "ZeroPadding2D",
]  # fmt: skip

AvgPool2D, MaxPool2D = AveragePooling2D, MaxPooling2D
_GLOBAL = "data_format"
GlobalAveragePooling1D = layer(layers.GlobalAveragePool1D, _GLOBAL)
GlobalAveragePooling2D = layer(layers.GlobalAveragePool2D, _GLOBAL)
GlobalMaxPooling1D = layer(layers.GlobalMaxPool1D, _GLOBAL)
GlobalMaxPooling2D = layer(layers.GlobalMaxPool2D, _GLOBAL)
DepthwiseConv2D = layer(
    layers.DepthwiseConv2D,
    "kernel_size strides padding depth_multiplier data_format activation use_bias",
    {"depthwise_initializer": "kernel_initializer"},
)
UpSampling2D = layer(layers.UpSampling2D, "size data_format interpolation")
ZeroPadding2D = layer(layers.ZeroPadding2D, "padding data_format")
Cropping2D = layer(layers.Cropping2D, "cropping data_format")

Activation = layer(layers.Activation, "activation")
Reshape = layer(layers.Reshape, "target_shape")
Permute = layer(layers.Permute, "dims", {"dims": "axes"})
RepeatVector = layer(layers.RepeatVector, "n")
Lambda = layer(layers.Lambda, "function")
Embedding = embedding
SpatialDropout1D = layer(layers.SpatialDropout1D, "rate")
SpatialDropout2D = layer(layers.SpatialDropout2D, "rate data_format")
GaussianNoise = layer(layers.GaussianNoise, "stddev")
LayerNormalization = layer(layers.LayerNormalization, "axis epsilon center scale", epsilon=1e-3)

Add, Subtract, Multiply, Average, Maximum, Minimum = (
    layer(one, "")
    for one in (
        layers.Add,
        layers.Subtract,
        layers.Multiply,
        layers.Average,
        layers.Maximum,
        layers.Minimum,
    )
)
Concatenate = layer(layers.Concatenate, "axis")

SimpleRNN = layer(layers.SimpleRNN, "units activation use_bias")
LSTM, GRU = recurrent(layers.LSTM), recurrent(layers.GRU)
CuDNNLSTM, CuDNNGRU = LSTM, GRU
Bidirectional = layer(
    layers.Bidirectional,
    "layer merge_mode weights backward_layer",
    {"layer": "forward", "merge_mode": "merge", "backward_layer": "backward"},
)


def _activation(title: str, op: str, parameters: dict[str, str] | None = None) -> object:
    """A layer that is one function, such as `ReLU()`."""

    def made(*args: float, name: str | None = None, **kwargs: float) -> layers.Activation:
        given = dict(zip(parameters or {}, args, strict=False)) | kwargs
        options = {(parameters or {}).get(key, key): value for key, value in given.items()}
        function = functools.partial(getattr(pb, op), **options) if options else op
        return layers.Activation(function, name=name)

    made.__name__ = made.__qualname__ = title
    made.__doc__ = getattr(pb, op).__doc__
    return made


ReLU = _activation("ReLU", "relu")
ELU = _activation("ELU", "elu", {"alpha": "alpha"})
LeakyReLU = _activation("LeakyReLU", "leaky_relu", {"alpha": "negative_slope"})
Softmax = _activation("Softmax", "softmax", {"axis": "axis"})
