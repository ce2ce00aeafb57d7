"""Recurrent layers: nets that go over a sequence and keep a state from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pullback import dtypes, errors
from pullback._dispatch.recording import paused
from pullback.layers.initializers import InitializerLike
from pullback.layers.layer import Layer
from pullback.ops.creation import full
from pullback.ops.joining import concat
from pullback.ops.nn.recurrent import simple_rnn
from pullback.shapes import as_count
from pullback.spec import OPS
from pullback.state import objects
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["GRU", "LSTM", "Bidirectional", "Recurrent", "SimpleRNN"]


class Recurrent(Layer):
    """What recurrent layers share. Inputs are (batch, time, features).

    A call takes, besides the sequences:

    - `mask`: truth values (batch, time), which steps are there. At the others state and output stay
      what they were.
    - `initial_state`: the state before the first step, or a list where a layer has several;
      zeros if not given.

    Args:
        units: the size of the state.
        use_bias: whether there is a bias.
        return_sequences: the outputs of all steps (batch, time, units) instead of the last one.
        return_state: the last state as well: a call gives (output, *state).
        reverse: from the last step to the first; results stay at their places.
        stateful: each call begins where the one before ended, sequence by sequence, until
            `reset_states()`. No gradient flows from one call into an earlier one.
        kernel_initializer: of the kernel (features, gates * units).
        recurrent_initializer: of the recurrent kernel (units, gates * units).
        bias_initializer: of the bias (gates * units).
        rest: as of `Layer`.

    Raises:
        LayerError: for inputs that are no sequences, or a state of another shape than theirs.
    """

    #: The op, the parts of its kernels, and the parts of its state.
    op: ClassVar[str]
    gates: ClassVar[int] = 1
    state_count: ClassVar[int] = 1

    def __init__(
        self,
        units: int,
        *,
        use_bias: bool = True,
        return_sequences: bool = False,
        return_state: bool = False,
        reverse: bool = False,
        stateful: bool = False,
        kernel_initializer: InitializerLike = "glorot_uniform",
        recurrent_initializer: InitializerLike = "orthogonal",
        bias_initializer: InitializerLike = "zeros",
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.units = as_count(units, "units")
        self.use_bias = use_bias
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.reverse = reverse
        self.stateful = stateful
        self.kernel_initializer = kernel_initializer
        self.recurrent_initializer = recurrent_initializer
        self.bias_initializer = bias_initializer
        self.kernel: Any = None
        self.recurrent_kernel: Any = None
        self.bias: Any = None
        #: Of a stateful layer, where the next call begins; empty for zeros.
        self.states: list[Variable] = []
        self._build_if_sized()

    def build(self, input_shape: Any) -> None:
        """Makes the kernels and the biases."""
        self._check(input_shape)
        columns = self.gates * self.units
        self.kernel = self.add_variable(
            "kernel", (input_shape[-1], columns), initializer=self.kernel_initializer
        )
        self.recurrent_kernel = self.add_variable(
            "recurrent_kernel", (self.units, columns), initializer=self.recurrent_initializer
        )
        if self.use_bias:
            self.bias = self.add_variable("bias", (columns,), initializer=self.bias_initializer)

    def call(self, x: Any, mask: Any = None, initial_state: Any = None) -> Any:
        """The output: (batch, units), or (batch, time, units); with `return_state`, a tuple."""
        self._check(x.shape)
        before = self._before(x, initial_state)
        outputs, *after = self.run(x, before, mask)
        if self.stateful:
            self._keep(after)
        # The last output is the first part of the state, where the sequence ended for each.
        y = outputs if self.return_sequences else after[0]
        return (y, *after) if self.return_state else y

    def run(self, x: Tensor, before: Sequence[Any], mask: Any) -> tuple[Tensor, ...]:
        """All outputs, and the parts of the state after the last step."""
        found: Any = OPS[self.op].function(
            x, *before, self.kernel, self.recurrent_kernel, *self.biases(), mask,
            reverse=self.reverse,
        )  # fmt: skip
        return tuple(found)

    def biases(self) -> tuple[Any, ...]:
        """Those that the op takes."""
        return (self.bias,)

    def reset_states(self) -> None:
        """Has the next call of a stateful layer begin with zeros, for any size of batch."""
        self.states = []

    def mirrored(self) -> Recurrent:
        """A layer of the same settings that runs the other way, with variables of its own."""
        return self.made_again(reverse=not self.reverse)

    # State ---------------------------------------------------------------------------------------

    def _before(self, x: Tensor, given: Any) -> list[Any]:
        shape = (x.shape[0], self.units)
        if given is not None:
            parts = list(given) if isinstance(given, (list, tuple)) else [given]
            parts = [self._cast(self._input(0, part)) for part in parts]
        elif self.stateful:
            if not self.states:
                self._make_states(shape, x)
            parts = list(self.states)
        else:
            zeros = full(shape, 0, dtype=self._state_dtype(x), device=x.device)
            return [zeros] * self.state_count
        if [tuple(part.shape) for part in parts] != [shape] * self.state_count:
            found = ", ".join(str(tuple(part.shape)) for part in parts)
            fix = "; reset_states() lets another batch begin" if given is None else ""
            raise errors.LayerError(
                f"the state for these inputs is {self.state_count} times {shape}, got {found}{fix}"
            )
        return parts

    def _state_dtype(self, x: Tensor) -> dtypes.DType:
        return x.dtype if dtypes.is_floating(x.dtype) else self.compute_dtype

    def _make_states(self, shape: tuple[int, ...], x: Tensor) -> None:
        with paused():
            zeros = full(shape, 0, dtype=self._state_dtype(x), device=x.device)
            self.states = [Variable(zeros, trainable=False) for _ in range(self.state_count)]
        if objects.PENDING_RESTORES:
            objects.restore_pending()

    def _keep(self, after: Sequence[Tensor]) -> None:
        if not self.states:
            self._make_states(tuple(after[0].shape), after[0])
        for variable, value in zip(self.states, after, strict=True):
            variable.assign(value)

    def _check(self, shape: Any) -> None:
        if len(shape) != 3:
            raise errors.LayerError(
                f"needs sequences (batch, time, features), got shape {tuple(shape)}; "
                f"one sequence is x[None]"
            )


class SimpleRNN(Recurrent):
    """h' = tanh(x_t @ kernel + h @ recurrent_kernel + bias) (Elman, 1990).

    Args:
        units: the size of the state h.
        activation: "tanh" or "relu".
        rest: as of `Recurrent`.

    >>> pb.layers.SimpleRNN(5)(pb.zeros((2, 3, 4))).shape
    (2, 5)

    Raises:
        LayerError: as of `Recurrent`.
        InputValueError: at the first call, for another activation.
    """

    op = "simple_rnn"

    def __init__(
        self, units: int, activation: Literal["tanh", "relu"] = "tanh", **rest: Any
    ) -> None:
        self.activation = activation
        super().__init__(units, **rest)

    def run(self, x: Tensor, before: Sequence[Any], mask: Any) -> tuple[Tensor, ...]:
        """All outputs and the last one."""
        [h0] = before
        found: Any = simple_rnn(
            x, h0, self.kernel, self.recurrent_kernel, self.bias, mask,
            activation=self.activation, reverse=self.reverse,
        )  # fmt: skip
        return tuple(found)


class LSTM(Recurrent):
    """The long short-term memory (Hochreiter and Schmidhuber, 1997; Gers et al., 2000).

    Its state is the output h and the cell c, each (batch, units).

    Args:
        units: the size of both parts of the state.
        forget_bias: added to the bias of the forget gate at first (Jozefowicz et al., 2015).
        rest: as of `Recurrent`.

    >>> layer = pb.layers.LSTM(5, return_sequences=True, return_state=True)
    >>> y, h, c = layer(pb.zeros((2, 3, 4)))
    >>> y.shape, h.shape, c.shape
    ((2, 3, 5), (2, 5), (2, 5))
    >>> y, h, c = layer(pb.zeros((2, 3, 4)), initial_state=[h, c])

    Raises:
        LayerError: as of `Recurrent`.
    """

    op, gates, state_count = "lstm", 4, 2

    def __init__(self, units: int, *, forget_bias: float = 1.0, **rest: Any) -> None:
        self.forget_bias = forget_bias
        super().__init__(units, **rest)

    def build(self, input_shape: Any) -> None:
        """Makes the kernels and the bias, whose columns are those of the gates i, f, g, o."""
        super().build(input_shape)
        if self.use_bias and self.forget_bias:
            gates = [
                full((self.units,), value, dtype=self.dtype)
                for value in (0.0, self.forget_bias, 0.0, 0.0)
            ]
            self.bias.assign_add(concat(gates))


class GRU(Recurrent):
    """The gated recurrent unit (Cho et al., 2014), with the reset after the product.

    Args:
        units: the size of the state h.
        rest: as of `Recurrent`; `bias_initializer` is also that of the recurrent bias.

    >>> pb.layers.GRU(5, return_sequences=True)(pb.zeros((2, 3, 4))).shape
    (2, 3, 5)

    Raises:
        LayerError: as of `Recurrent`.
    """

    op, gates = "gru", 3

    recurrent_bias: Any = None

    def build(self, input_shape: Any) -> None:
        """Makes the kernels and the biases, whose columns are those of z, r, n."""
        super().build(input_shape)
        if self.use_bias:
            self.recurrent_bias = self.add_variable(
                "recurrent_bias", (3 * self.units,), initializer=self.bias_initializer
            )

    def biases(self) -> tuple[Any, ...]:
        """Those of the inputs and of the state."""
        return self.bias, self.recurrent_bias


class Bidirectional(Layer):
    """A recurrent layer in both directions of time (Schuster and Paliwal, 1997).

    A call takes `mask`, and gives what the layers give, merged; with `return_state`, the states of
    the first layer and then of the other follow.

    Args:
        forward: a recurrent layer.
        backward: one that runs the other way; one of the same settings if None.
        merge: "concat" along the last axis, "sum", "mean", "multiply", or None for a pair.
        rest: as of `Layer`.

    >>> pb.layers.Bidirectional(pb.layers.LSTM(5))(pb.zeros((2, 3, 4))).shape
    (2, 10)

    Raises:
        InputValueError: for layers that run the same way, or another merge.
    """

    def __init__(
        self,
        forward: Recurrent,
        backward: Recurrent | None = None,
        *,
        merge: str | None = "concat",
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.forward = forward
        self.backward = forward.mirrored() if backward is None else backward
        if self.forward.reverse == self.backward.reverse:
            raise errors.InputValueError("both layers run the same way; give one reverse=True")
        for setting in ("return_sequences", "return_state"):
            if getattr(self.forward, setting) != getattr(self.backward, setting):
                raise errors.InputValueError(f"the layers differ in {setting}; set both alike")
        if merge not in ("concat", "sum", "mean", "multiply", None):
            raise errors.InputValueError(
                f"merge is 'concat', 'sum', 'mean', 'multiply' or None, got {merge!r}"
            )
        self.merge = merge

    def call(self, x: Any, mask: Any = None) -> Any:
        """The outputs of both layers, merged."""
        first, second = self.forward(x, mask=mask), self.backward(x, mask=mask)
        if not self.forward.return_state:
            return self._merged(first, second)
        merged = self._merged(first[0], second[0])
        return (*(merged if self.merge is None else (merged,)), *first[1:], *second[1:])

    def _merged(self, first: Tensor, second: Tensor) -> Any:
        if self.merge is None:
            return first, second
        if self.merge == "concat":
            return concat([first, second], axis=-1)
        if self.merge == "multiply":
            return first * second
        total = first + second
        return total / 2 if self.merge == "mean" else total
