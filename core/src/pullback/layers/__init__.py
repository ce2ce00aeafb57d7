"""Layers and models: plain objects whose variables are found in their attributes."""

from __future__ import annotations

from pullback.layers import initializers
from pullback.layers.basic import Activation, Dense, Dropout, Embedding, Flatten, Reshape
from pullback.layers.convolution import Conv1D, Conv2D, Conv3D
from pullback.layers.layer import Layer
from pullback.layers.model import Model, Sequential
from pullback.layers.normalization import BatchNormalization, LayerNormalization
from pullback.layers.pooling import (
    AveragePool1D,
    AveragePool2D,
    AveragePool3D,
    GlobalAveragePool1D,
    GlobalAveragePool2D,
    GlobalAveragePool3D,
    GlobalMaxPool1D,
    GlobalMaxPool2D,
    GlobalMaxPool3D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
)
from pullback.layers.recurrent import GRU, LSTM, Bidirectional, Recurrent, SimpleRNN

__all__ = [
    "GRU",
    "LSTM",
    "Activation",
    "AveragePool1D",
    "AveragePool2D",
    "AveragePool3D",
    "BatchNormalization",
    "Bidirectional",
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GlobalAveragePool1D",
    "GlobalAveragePool2D",
    "GlobalAveragePool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "Layer",
    "LayerNormalization",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "Model",
    "Recurrent",
    "Reshape",
    "Sequential",
    "SimpleRNN",
    "initializers",
]
