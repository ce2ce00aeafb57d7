"""`tf.nn.rnn_cell`: one step of a recurrent network at a time, and loops over the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pullback as pb
from pullback import dtypes
from pullback.layers import Layer
from pullback.layers.activations import activation_of
from pullback.tensor import Tensor

__all__ = ["BasicLSTMCell", "BasicRNNCell", "GRUCell", "LSTMCell", "LSTMStateTuple", "RNNCell"]


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM: the cell c and the output h."""

    c: Any
    h: Any


class RNNCell(Layer):
    """One step: `output, state = cell(inputs, state)`. A subclass writes `build` and `call`."""

    def __init__(
        self, num_units: int, activation: Any = "tanh", reuse: Any = None, **rest: Any
    ) -> None:
        super().__init__(**rest)
        self.units = int(num_units)
        self.activation: Callable[[Tensor], Any] = activation_of(activation) or pb.positive

    @property
    def output_size(self) -> int:
        """The size of the output."""
        return self.units

    @property
    def state_size(self) -> Any:
        """The size of the state."""
        return self.units

    def zero_state(self, batch_size: int, dtype: Any = dtypes.float32) -> Any:
        """The state before the first step."""
        zeros: Tensor = pb.zeros((int(batch_size), self.units), dtype=dtype)
        return zeros

    def _gates(self, name: str, inputs: int, count: int, bias: float = 0.0) -> None:
        shape = (inputs + self.units, count * self.units)
        self.add_variable(f"{name}kernel", shape)
        self.add_variable(f"{name}bias", shape[1:], initializer=bias)

    def _linear(self, name: str, x: Tensor, h: Tensor) -> Any:
        kernel, bias = getattr(self, f"{name}kernel"), getattr(self, f"{name}bias")
        return pb.linear(pb.concat([x, h], axis=-1), kernel, bias)


class BasicRNNCell(RNNCell):
    """h' = tanh([x, h] @ kernel + bias) (Elman, 1990)."""

    def build(self, input_shape: Any) -> None:
        """Makes the kernel and the bias."""
        self._gates("", input_shape[-1], 1)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """The output, which is the state as well."""
        h = self.activation(self._linear("", inputs, state))
        return h, h


class BasicLSTMCell(RNNCell):
    """The long short-term memory (Hochreiter and Schmidhuber, 1997); its state is (c, h)."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = "tanh",
        **rest: Any,
    ) -> None:
        super().__init__(num_units, activation, **rest)
        self.forget_bias = float(forget_bias)

    @property
    def state_size(self) -> Any:
        """The sizes of both parts of the state."""
        return LSTMStateTuple(self.units, self.units)

    def zero_state(self, batch_size: int, dtype: Any = dtypes.float32) -> Any:
        """The state before the first step."""
        zeros = super().zero_state(batch_size, dtype)
        return LSTMStateTuple(zeros, zeros)

    def build(self, input_shape: Any) -> None:
        """Makes the kernel and the bias, whose columns are those of the gates i, j, f, o."""
        self._gates("", input_shape[-1], 4)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """The output, and the state after the step."""
        c, h = state
        i, j, f, o = pb.split(self._linear("", inputs, h), 4, axis=-1)
        sigmoid = pb.sigmoid
        c = c * sigmoid(f + self.forget_bias) + sigmoid(i) * self.activation(j)
        h = self.activation(c) * sigmoid(o)
        return h, LSTMStateTuple(c, h)


class LSTMCell(BasicLSTMCell):
    """`BasicLSTMCell`."""


class GRUCell(RNNCell):
    """The gated recurrent unit (Cho et al., 2014), with the reset before the product."""

    def build(self, input_shape: Any) -> None:
        """Makes the kernels and the biases, of the gates r, u and of the candidate."""
        self._gates("gates_", input_shape[-1], 2, bias=1.0)
        self._gates("candidate_", input_shape[-1], 1)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """The output, which is the state as well."""
        gates = pb.sigmoid(self._linear("gates_", inputs, state))
        r, u = pb.split(gates, 2, axis=-1)
        h = u * state + (1 - u) * self.activation(self._linear("candidate_", inputs, r * state))
        return h, h


def static_rnn(
    cell: Any, inputs: Sequence[Any], initial_state: Any = None, dtype: Any = None, **_: Any
) -> tuple[list[Any], Any]:
    """Steps over a list of inputs; gives the outputs, and the state after the last."""
    state = initial_state
    if state is None:
        state = cell.zero_state(inputs[0].shape[0], dtype or dtypes.float32)
    outputs = []
    for x in inputs:
        output, state = cell(x, state)
        outputs.append(output)
    return outputs, state


def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    time_major: bool = False,
    **_: Any,
) -> tuple[Tensor, Any]:
    """The same over sequences (batch, time, features), or (time, batch, features)."""
    axis = 0 if time_major else 1
    steps = list(pb.unstack(pb.asarray(inputs), axis=axis))
    outputs, state = static_rnn(cell, steps, initial_state, dtype)
    return pb.stack(outputs, axis=axis), state
