"""The names that Keras imports from a backend."""

from keras.src.backend.common.name_scope import name_scope

SUPPORTS_SPARSE_TENSORS = False
SUPPORTS_RAGGED_TENSORS = False
SUPPORTS_COMPLEX_DTYPES = True
SUPPORTS_GRADIENT = True
IS_THREAD_SAFE = True
distribution_lib = None

from keras_pullback.src.variable import Variable  # isort: skip
from keras_pullback.src import ops, random
from keras_pullback.src.ops import core, image, linalg, math, nn, numpy
from keras_pullback.src.ops.core import (
    cast,
    compute_output_spec,
    cond,
    convert_to_numpy,
    convert_to_tensor,
    device_scope,
    is_tensor,
    random_seed_dtype,
    shape,
    vectorized_map,
)
from keras_pullback.src.rnn import bidirectional_gru, bidirectional_lstm, cudnn_ok, gru, lstm, rnn
