"""Keras's ops."""

from keras_pullback.src.ops import core, image, linalg, math, nn, numpy
from keras_pullback.src.ops.core import *
