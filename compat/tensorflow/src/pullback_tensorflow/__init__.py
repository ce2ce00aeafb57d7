"""The names of TensorFlow's eager guides (releases 1.5 to 1.13), as thin mappings.

    import pullback.compat.tensorflow as tf

    tfe = tf.contrib.eager

A snippet from a guide runs with its import line changed. What only graphs have raises, and says
what to write instead; what eager execution does not need, such as `tf.enable_eager_execution()`,
does nothing.
"""
# ruff: noqa: F401, F403, F405  (a namespace: every module brings its own `__all__`)

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from pullback import GradientTape, __version__, custom_gradient, executing_eagerly, stop_gradient
from pullback.dtypes import (
    DType,
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from pullback.dtypes import bool_ as bool
from pullback.tensor import Tensor
from pullback_tensorflow import (
    arrays,
    basics,
    contrib,
    data,
    errors,
    gfile,
    initializers,
    keras,
    layers,
    losses,
    math,
    nn,
    random,
    test,
    train,
)
from pullback_tensorflow.arrays import *
from pullback_tensorflow.basics import *
from pullback_tensorflow.contrib.eager import py_func
from pullback_tensorflow.math import *
from pullback_tensorflow.nn import sigmoid, tanh

string = str
newaxis = None
reset_default_graph = train.reset_global_step

# By the names that they have beside the modules.
constant_initializer = initializers.constant
glorot_uniform_initializer = initializers.glorot_uniform
ones_initializer = initializers.ones
orthogonal_initializer = initializers.orthogonal
random_normal_initializer = initializers.random_normal
random_uniform_initializer = initializers.random_uniform
truncated_normal_initializer = initializers.truncated_normal
zeros_initializer = initializers.zeros


@contextmanager
def name_scope(name: str | None = None, *args: Any, **kwargs: Any) -> Any:
    """Does nothing: names of ops are for graphs."""
    yield name


variable_scope = name_scope
control_dependencies = name_scope


def Print(input_: Any, values: Any, message: str = "", **_: Any) -> Any:
    """Prints tensors, and gives the first argument."""
    print(message + "".join(f"[{convert_to_tensor(one)}]" for one in values))
    return input_
