"""Adam's step without the layers of Keras between its ops: they take twice the ops' time."""

from __future__ import annotations

import types

from keras.src import optimizers
from keras.src.backend.common.stateless_scope import in_stateless_scope

import pullback as pb
from keras_pullback.src.ops.core import convert_to_tensor


def hasten(optimizer):
    """Gives Keras's own Adam a step of ours, which has the ops of its step in the same order."""
    if (
        type(optimizer) is optimizers.Adam
        and not optimizer.amsgrad
        and "update_step" not in vars(optimizer)
    ):
        optimizer.update_step = types.MethodType(_adam, optimizer)


def _adam(self, gradient, variable, learning_rate):
    if in_stateless_scope():
        return optimizers.Adam.update_step(self, gradient, variable, learning_rate)
    dtype, index = variable.dtype, self._get_variable_index(variable)
    gradient = convert_to_tensor(gradient, dtype)
    step = convert_to_tensor(self.iterations).astype(dtype) + 1
    scale = convert_to_tensor(learning_rate, dtype) * pb.sqrt(1 - pb.pow(self.beta_2, step))
    scale = scale / (1 - pb.pow(self.beta_1, step))
    m, v = self._momentums[index]._value, self._velocities[index]._value
    first, second = m.value, v.value
    first = first + (gradient - first) * (1 - self.beta_1)
    second = second + (gradient * gradient - second) * (1 - self.beta_2)
    m.assign(first)
    v.assign(second)
    value = variable._value
    value.assign(value.value - first * scale / (pb.sqrt(second) + self.epsilon))
    return None
