"""`Variable`: Keras's, whose value is kept in a variable of pullback."""

from __future__ import annotations

import numpy as np
from keras.src.backend.common import KerasVariable, global_state

import pullback as pb
from keras_pullback.src.ops.core import convert_to_numpy, convert_to_tensor


class Variable(KerasVariable):
    def _initialize(self, value):
        value = convert_to_tensor(value, self._dtype)
        self._value = pb.Variable(value, trainable=self._trainable)

    def _initialize_with_initializer(self, initializer):
        self._initialize(initializer(self._shape, dtype=self._dtype))

    def _direct_assign(self, value):
        self._value.assign(value)

    def _convert_to_tensor(self, value, dtype=None):
        return convert_to_tensor(value, dtype)

    @property
    def value(self):
        state = global_state.GLOBAL_STATE_TRACKER.__dict__
        scope = state.get("stateless_scope")
        if scope is None and self._value is not None and state.get("autocast_scope") is None:
            return self._value.value
        value = None
        if scope is not None:
            value = scope.get_current_value(self)
        if value is None:
            if self._value is None:
                value = self._initializer(self._shape, dtype=self._dtype)
            else:
                value = self._value.value
        return self._maybe_autocast(value)

    def __pullback_tensor__(self):
        return self.value

    def __array__(self, dtype=None, copy=None):
        return np.asarray(convert_to_numpy(self.value), dtype)
