"""Layers and models: plain objects that keep their variables in attributes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pullback import _hints
from pullback._foreign_names.objects import LAYER, MODEL
from pullback._masked import Masked
from pullback.layers import initializers, regularizers
from pullback.layers.activations import Activation, LeakyReLU, ReLU, Softmax
from pullback.layers.attention import MultiHeadAttention, RotaryEmbedding
from pullback.layers.augmentation import (
    Augmentation,
    RandomBrightness,
    RandomContrast,
    RandomCrop,
    RandomFlip,
    RandomRotation,
    RandomTranslation,
    RandomZoom,
)
from pullback.layers.basic import Dense, EinsumDense, Embedding, Lambda, Masking, Rescaling
from pullback.layers.convolution import (
    Conv,
    Conv1D,
    Conv2D,
    Conv3D,
    DepthwiseConv,
    DepthwiseConv1D,
    DepthwiseConv2D,
    SeparableConv,
    SeparableConv1D,
    SeparableConv2D,
)
from pullback.layers.convolution_recurrent import ConvLSTM, ConvLSTM1D, ConvLSTM2D, ConvLSTM3D
from pullback.layers.convolution_transpose import (
    Conv1DTranspose,
    Conv2DTranspose,
    Conv3DTranspose,
    ConvTranspose,
)
from pullback.layers.initializers import uninitialized
from pullback.layers.layer import Layer
from pullback.layers.masks import keep_mask, pass_mask
from pullback.layers.merging import (
    Add,
    Average,
    Concatenate,
    Dot,
    Maximum,
    Merge,
    Minimum,
    Multiply,
    Subtract,
)
from pullback.layers.mixing import CutMix, MixUp
from pullback.layers.model import Model, Sequential
from pullback.layers.normalization import (
    BatchNormalization,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    RMSNormalization,
    UnitNormalization,
)
from pullback.layers.options import LayerOptions
from pullback.layers.policy import Policy, policy
from pullback.layers.pooling import (
    AdaptiveAveragePool1D,
    AdaptiveAveragePool2D,
    AdaptiveAveragePool3D,
    AdaptiveMaxPool1D,
    AdaptiveMaxPool2D,
    AdaptiveMaxPool3D,
    AdaptivePool,
    AveragePool1D,
    AveragePool2D,
    AveragePool3D,
    GlobalAveragePool1D,
    GlobalAveragePool2D,
    GlobalAveragePool3D,
    GlobalMaxPool1D,
    GlobalMaxPool2D,
    GlobalMaxPool3D,
    GlobalPool,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
    Pool,
)
from pullback.layers.preprocessing import (
    CategoryEncoding,
    Discretization,
    Hashing,
    Normalization,
)
from pullback.layers.recurrent import GRU, LSTM, Bidirectional, Recurrent, SimpleRNN
from pullback.layers.regularization import (
    ActivityRegularization,
    AlphaDropout,
    Dropout,
    GaussianDropout,
    GaussianNoise,
    SpatialDropout,
    SpatialDropout1D,
    SpatialDropout2D,
    SpatialDropout3D,
)
from pullback.layers.shaping import (
    Cropping,
    Cropping1D,
    Cropping2D,
    Cropping3D,
    Flatten,
    Permute,
    RepeatVector,
    Reshape,
    UpSampling,
    UpSampling1D,
    UpSampling2D,
    UpSampling3D,
    ZeroPadding,
    ZeroPadding1D,
    ZeroPadding2D,
    ZeroPadding3D,
)
from pullback.layers.symbolic import Input
from pullback.layers.text import IntegerLookup, StringLookup, TextVectorization
from pullback.layers.wrappers import (
    SpectralNormalization,
    TimeDistributed,
    WeightNormalization,
)
from pullback.training import Trainable

__all__ = [
    "GRU",
    "LSTM",
    "Activation",
    "ActivityRegularization",
    "AdaptiveAveragePool1D",
    "AdaptiveAveragePool2D",
    "AdaptiveAveragePool3D",
    "AdaptiveMaxPool1D",
    "AdaptiveMaxPool2D",
    "AdaptiveMaxPool3D",
    "AdaptivePool",
    "Add",
    "AlphaDropout",
    "Augmentation",
    "Average",
    "AveragePool1D",
    "AveragePool2D",
    "AveragePool3D",
    "BatchNormalization",
    "Bidirectional",
    "CategoryEncoding",
    "Concatenate",
    "Conv",
    "Conv1D",
    "Conv1DTranspose",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "ConvLSTM",
    "ConvLSTM1D",
    "ConvLSTM2D",
    "ConvLSTM3D",
    "ConvTranspose",
    "Cropping",
    "Cropping1D",
    "Cropping2D",
    "Cropping3D",
    "CutMix",
    "Dense",
    "DepthwiseConv",
    "DepthwiseConv1D",
    "DepthwiseConv2D",
    "Discretization",
    "Dot",
    "Dropout",
    "EinsumDense",
    "Embedding",
    "Flatten",
    "GaussianDropout",
    "GaussianNoise",
    "GlobalAveragePool1D",
    "GlobalAveragePool2D",
    "GlobalAveragePool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "GlobalPool",
    "GroupNormalization",
    "Hashing",
    "Input",
    "InstanceNormalization",
    "IntegerLookup",
    "Lambda",
    "Layer",
    "LayerNormalization",
    "LayerOptions",
    "LeakyReLU",
    "Masked",
    "Masking",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "Maximum",
    "Merge",
    "Minimum",
    "MixUp",
    "Model",
    "MultiHeadAttention",
    "Multiply",
    "Normalization",
    "Permute",
    "Policy",
    "Pool",
    "RMSNormalization",
    "RandomBrightness",
    "RandomContrast",
    "RandomCrop",
    "RandomFlip",
    "RandomRotation",
    "RandomTranslation",
    "RandomZoom",
    "ReLU",
    "Recurrent",
    "RepeatVector",
    "Rescaling",
    "Reshape",
    "RotaryEmbedding",
    "SeparableConv",
    "SeparableConv1D",
    "SeparableConv2D",
    "Sequential",
    "SimpleRNN",
    "Softmax",
    "SpatialDropout",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "SpatialDropout3D",
    "SpectralNormalization",
    "StringLookup",
    "Subtract",
    "TextVectorization",
    "TimeDistributed",
    "UnitNormalization",
    "UpSampling",
    "UpSampling1D",
    "UpSampling2D",
    "UpSampling3D",
    "WeightNormalization",
    "ZeroPadding",
    "ZeroPadding1D",
    "ZeroPadding2D",
    "ZeroPadding3D",
    "initializers",
    "keep_mask",
    "pass_mask",
    "policy",
    "regularizers",
    "uninitialized",
]


if not TYPE_CHECKING:
    __getattr__ = _hints.answer_module("pullback.layers")
    _hints.answer_calls(sys.modules[__name__])
    _hints.answer_attributes(Layer, LAYER, settings=("requires_grad", "training"))
    _hints.answer_attributes(Model, MODEL)
    _hints.answer_calls(Trainable)
