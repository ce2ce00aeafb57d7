"""Recurrent layers: networks that process a sequence step by step and keep a state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack

from pullback import dtypes, errors
from pullback._dispatch.arguments import as_bool, as_float
from pullback._dispatch.convert import as_tensors
from pullback._dispatch.recording import paused
from pullback._masked import Masked
from pullback.graph.eval_shape import has_shapes_alone
from pullback.layers.initializers import InitializerLike
from pullback.layers.layer import Layer
from pullback.layers.masks import mask_of_lengths
from pullback.layers.options import UNBUILT, LayerOptions
from pullback.ops.creation import full
from pullback.ops.joining import concat
from pullback.ops.manipulation import reshape
from pullback.ops.nn.recurrent import simple_rnn
from pullback.ops.nn.recurrent_gru import gru
from pullback.ops.nn.recurrent_lstm import lstm
from pullback.ops.selection import where
from pullback.shapes import Shape, as_count, check_choice
from pullback.state import objects
from pullback.tensor import Tensor, TensorLike
from pullback.variable import Variable

__all__ = ["GRU", "LSTM", "Bidirectional", "Recurrent", "RecurrentOptions", "SimpleRNN"]


class RecurrentOptions(LayerOptions, total=False):
    """The keyword arguments of recurrent layers; `Recurrent` describes them."""

    use_bias: bool
    return_sequences: bool
    return_state: bool
    zero_output_for_mask: bool
    reverse: bool
    stateful: bool
    kernel_initializer: InitializerLike
    recurrent_initializer: InitializerLike
    bias_initializer: InitializerLike


class Recurrent(Layer):
    """The base of the recurrent layers. Inputs are (batch, time, features).

    A call also takes:

    - `mask`: booleans (batch, time), False for steps to skip. State and output keep their values
      there, so that sequences that end early give what each gives alone. `Masked` inputs have one.
    - `lengths`: integers (batch,) in place of a mask, for sequences that are padded at the end.
    - `initial_state`: the state before the first step, a list where a layer has several; None for
      zeros.

    Args:
        units: the size of the state.
        use_bias: whether there is a bias.
        return_sequences: whether a call returns the outputs of all steps (batch, time, units)
            instead of the last one; those of `Masked` inputs are `Masked`.
        return_state: whether a call returns (output, *state) with the last state.
        zero_output_for_mask: whether, among the outputs of all steps, those of skipped ones are 0.
        reverse: whether it runs from the last step to the first; outputs keep their positions.
        stateful: whether each call starts from the last state of the previous call, until
            `reset_states()`. No gradient flows between calls.
        kernel_initializer: the initializer of the kernel (features, gates * units).
        recurrent_initializer: the initializer of the recurrent kernel (units, gates * units).
        bias_initializer: the initializer of the bias (gates * units).
        options: see `Layer`.

    Raises:
        LayerError: for inputs that are not sequences, or a state of another shape.
    """

    #: The op, the number of gates in its kernels, and the number of tensors in its state.
    op: ClassVar[Callable[..., tuple[Tensor, ...]]]
    gates: ClassVar[int] = 1
    state_count: ClassVar[int] = 1

    def __init__(
        self,
        units: int,
        *,
        use_bias: bool = True,
        return_sequences: bool = False,
        return_state: bool = False,
        zero_output_for_mask: bool = False,
        reverse: bool = False,
        stateful: bool = False,
        kernel_initializer: InitializerLike = "glorot_uniform",
        recurrent_initializer: InitializerLike = "orthogonal",
        bias_initializer: InitializerLike = "zeros",
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.units = as_count(units, "units")
        self.use_bias = as_bool(use_bias, "use_bias")
        self.return_sequences = as_bool(return_sequences, "return_sequences")
        self.return_state = as_bool(return_state, "return_state")
        self.zero_output_for_mask = as_bool(zero_output_for_mask, "zero_output_for_mask")
        self.reverse = as_bool(reverse, "reverse")
        self.stateful = as_bool(stateful, "stateful")
        self.kernel_initializer = kernel_initializer
        self.recurrent_initializer = recurrent_initializer
        self.bias_initializer = bias_initializer
        self.kernel: Variable = UNBUILT
        self.recurrent_kernel: Variable = UNBUILT
        self.bias: Variable | None = None
        #: The state from which the next call of a stateful layer starts; empty for zeros.
        self.states: list[Variable] = []
        self._build_if_sized()

    def build(self, input_shape: Shape) -> None:
        """Makes the kernels and the biases."""
        self._check(input_shape)
        of_inputs, of_state = self.kernel_shapes(input_shape)
        self.kernel = self.add_variable("kernel", of_inputs, initializer=self.kernel_initializer)
        self.recurrent_kernel = self.add_variable(
            "recurrent_kernel", of_state, initializer=self.recurrent_initializer
        )
        if self.use_bias:
            size = self.gates * self.units
            self.bias = self.add_variable("bias", (size,), initializer=self.bias_initializer)

    def kernel_shapes(self, input_shape: Shape) -> tuple[Shape, Shape]:
        """The shapes of the kernel and of the recurrent kernel."""
        columns = self.gates * self.units
        return (input_shape[-1], columns), (self.units, columns)

    def state_shape(self, x: Tensor) -> Shape:
        """The shape of each tensor of the state."""
        return x.shape[0], self.units

    if TYPE_CHECKING:

        def __call__(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Any:
            """Returns a tensor or, with `return_state`, a tuple."""

    def call_masked(self, x: Masked, *args: Any, **kwargs: Any) -> Any:
        """Returns the same for `Masked` inputs; all outputs are `Masked`, too."""
        y = self(x.values, *args, **with_mask(self, x, args, kwargs))
        if not self.return_sequences:
            return y
        return (Masked(y[0], x.mask), *y[1:]) if self.return_state else Masked(y, x.mask)

    def call(
        self,
        x: Tensor,
        mask: TensorLike | None = None,
        initial_state: TensorLike | None = None,
        *,
        lengths: TensorLike | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        """Returns (batch, units) or (batch, time, units); with `return_state`, (output, *state)."""
        self._check(x.shape)
        mask = self.mask_of(x, mask, lengths)
        outputs, *after = self.run(x, self._state_before(x, initial_state), mask)
        if self.stateful:
            self._keep(after)
        # The first tensor of the state is the last output of each sequence, masks considered.
        y = outputs if self.return_sequences else after[0]
        if mask is not None and self.zero_output_for_mask and self.return_sequences:
            y = where(_beside(mask, y), y, 0)
        return (y, *after) if self.return_state else y

    def mask_of(
        self, x: Tensor, mask: TensorLike | None, lengths: TensorLike | None
    ) -> Tensor | None:
        """The mask of a call, from a mask or lengths.

        Raises:
            LayerError: for both, or for lengths that are not integers (batch,).
        """
        if lengths is None:
            return None if mask is None else as_tensors([x, mask])[1]
        given = as_tensors([x, lengths])[1]
        if mask is not None:
            raise errors.LayerError("the call has a mask and lengths; pass one of them")
        if given.shape != x.shape[:1] or dtypes.kind(given.dtype) != dtypes.INT:
            raise errors.LayerError(
                f"lengths must be integers of shape {x.shape[:1]}, got {given.dtype} {given.shape}"
            )
        return mask_of_lengths(given, x.shape[1])

    def run(
        self, x: Tensor, before: Sequence[Tensor | Variable], mask: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Returns all outputs, and the state after the last step."""
        return tuple(
            self.op(
                x, *before, self.kernel, self.recurrent_kernel, *self.biases(), mask,
                reverse=self.reverse,
            )
        )  # fmt: skip

    def biases(self) -> tuple[Variable | None, ...]:
        """The biases that the op takes."""
        return (self.bias,)

    def reset_states(self) -> None:
        """Makes the next call of a stateful layer start from zeros, for any batch size."""
        self.states = []

    def mirrored(self) -> Recurrent:
        """Returns a layer with the same settings and the opposite direction."""
        return self.made_again(reverse=not self.reverse)

    # State ---------------------------------------------------------------------------------------

    def _state_before(self, x: Tensor, initial: TensorLike | None) -> list[Tensor | Variable]:
        shape = self.state_shape(x)
        state: list[Tensor | Variable]
        if initial is not None:
            parts = initial if isinstance(initial, (list, tuple)) else [initial]
            state = [self._cast(self._input(0, part)) for part in parts]
        elif self.stateful and (self.states or not has_shapes_alone()):
            if not self.states:
                self._make_states(shape, x)
            state = [*self.states]
        else:
            zeros = full(shape, 0, dtype=self._state_dtype(x), device=x.device)
            return [zeros] * self.state_count
        if [tuple(part.shape) for part in state] != [shape] * self.state_count:
            shapes = ", ".join(str(tuple(part.shape)) for part in state)
            fix = "; call reset_states() before another batch" if initial is None else ""
            raise errors.LayerError(
                f"the state for these inputs is {self.state_count} times {shape}, got {shapes}{fix}"
            )
        return state

    def _state_dtype(self, x: Tensor) -> dtypes.DType:
        return x.dtype if dtypes.is_floating(x.dtype) else self.compute_dtype

    def _make_states(self, shape: tuple[int, ...], x: Tensor) -> None:
        with paused():
            zeros = full(shape, 0, dtype=self._state_dtype(x), device=x.device)
            self.states = [Variable(zeros, trainable=False) for _ in range(self.state_count)]
        if objects.PENDING_RESTORES:
            objects.restore_pending()

    def _keep(self, after: Sequence[Tensor]) -> None:
        if has_shapes_alone():
            return
        if not self.states:
            self._make_states(tuple(after[0].shape), after[0])
        for variable, value in zip(self.states, after, strict=True):
            variable.assign(value)

    def _check(self, shape: Shape) -> None:
        if len(shape) != 3:
            raise errors.LayerError(
                f"inputs must be sequences (batch, time, features), got shape {tuple(shape)}; "
                f"for a single sequence use x[None]"
            )


def with_mask(
    layer: Layer, x: Masked, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The keyword arguments of a call with the mask of its inputs."""
    if args or kwargs.get("mask") is not None or kwargs.get("lengths") is not None:
        raise errors.LayerError("the inputs have a mask; call the layer with x.values for another")
    return kwargs | {"mask": x.mask}


def _beside(mask: Tensor, y: Tensor) -> Tensor:
    """A mask (batch, time) with as many axes as y."""
    return reshape(mask, (*mask.shape, *[1] * (y.ndim - mask.ndim)))


class SimpleRNN(Recurrent):
    """h' = tanh(x_t @ kernel + h @ recurrent_kernel + bias) (Elman, 1990).

    Args:
        units: the size of the state h.
        activation: "tanh" or "relu".
        options: see `Recurrent`.

    >>> pb.layers.SimpleRNN(5)(pb.zeros((2, 3, 4))).shape
    (2, 5)

    Raises:
        LayerError: see `Recurrent`.
        InputValueError: at the first call, for another activation.
    """

    op = staticmethod(simple_rnn)

    def __init__(
        self,
        units: int,
        activation: Literal["tanh", "relu"] = "tanh",
        **options: Unpack[RecurrentOptions],
    ) -> None:
        self.activation = activation
        super().__init__(units, **options)

    def run(
        self, x: Tensor, before: Sequence[Tensor | Variable], mask: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Returns all outputs and the last one."""
        [h0] = before
        return tuple(
            simple_rnn(
                x, h0, self.kernel, self.recurrent_kernel, self.bias, mask,
                activation=self.activation, reverse=self.reverse,
            )
        )  # fmt: skip


class LSTM(Recurrent):
    """The long short-term memory (Hochreiter and Schmidhuber, 1997; Gers et al., 2000).

    Its state is the output h and the cell c, each (batch, units).

    Args:
        units: the size of h and of c.
        forget_bias: the number added to the initial bias of the forget gate (Jozefowicz et al.,
            2015).
        options: see `Recurrent`.

    >>> layer = pb.layers.LSTM(5, return_sequences=True, return_state=True)
    >>> y, h, c = layer(pb.zeros((2, 3, 4)))
    >>> y.shape, h.shape, c.shape
    ((2, 3, 5), (2, 5), (2, 5))
    >>> y, h, c = layer(pb.zeros((2, 3, 4)), initial_state=[h, c])

    Raises:
        LayerError: see `Recurrent`.
    """

    op = staticmethod(lstm)
    gates, state_count = 4, 2

    def __init__(
        self, units: int, *, forget_bias: float = 1.0, **options: Unpack[RecurrentOptions]
    ) -> None:
        self.forget_bias = as_float(forget_bias, "forget_bias")
        super().__init__(units, **options)

    def build(self, input_shape: Shape) -> None:
        """Makes the kernels and the bias, with columns for the gates i, f, g, o."""
        super().build(input_shape)
        if self.bias is not None and self.forget_bias:
            gates = [
                full((self.units,), value, dtype=self.dtype)
                for value in (0.0, self.forget_bias, 0.0, 0.0)
            ]
            self.bias.assign_add(concat(gates))


class GRU(Recurrent):
    """The gated recurrent unit (Cho et al., 2014), with the reset gate after the product or before.

    Args:
        units: the size of the state h.
        reset_after: False to apply the reset gate to h before the product; there is no recurrent
            bias then.
        options: see `Recurrent`; `bias_initializer` also initializes the recurrent bias.

    >>> pb.layers.GRU(5, return_sequences=True)(pb.zeros((2, 3, 4))).shape
    (2, 3, 5)

    Raises:
        LayerError: see `Recurrent`.
    """

    op = staticmethod(gru)
    gates = 3

    recurrent_bias: Variable | None = None

    def __init__(
        self, units: int, *, reset_after: bool = True, **options: Unpack[RecurrentOptions]
    ) -> None:
        self.reset_after = as_bool(reset_after, "reset_after")
        super().__init__(units, **options)

    def build(self, input_shape: Shape) -> None:
        """Makes the kernels and the biases, with columns for z, r, n."""
        super().build(input_shape)
        if self.use_bias and self.reset_after:
            self.recurrent_bias = self.add_variable(
                "recurrent_bias", (3 * self.units,), initializer=self.bias_initializer
            )

    def run(
        self, x: Tensor, before: Sequence[Tensor | Variable], mask: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Returns all outputs and the last one."""
        [h0] = before
        return tuple(
            gru(
                x, h0, self.kernel, self.recurrent_kernel, self.bias, self.recurrent_bias, mask,
                reverse=self.reverse, reset_after=self.reset_after,
            )
        )  # fmt: skip


#: What joins the results of the two directions.
MERGES = ("concat", "sum", "mean", "multiply", None)


class Bidirectional(Layer):
    """A recurrent layer in both directions of time (Schuster and Paliwal, 1997).

    A call takes `mask` or `lengths`, so that `backward` begins at the end of each sequence. It
    returns the merged outputs; with `return_state`, the states of `forward` and then of `backward`
    follow.

    Args:
        forward: a recurrent layer.
        backward: a layer with the opposite direction; a mirrored copy of `forward` if None.
        merge: "concat" along the last axis, "sum", "mean", "multiply", or None for a pair.
        options: see `Layer`.

    >>> pb.layers.Bidirectional(pb.layers.LSTM(5))(pb.zeros((2, 3, 4))).shape
    (2, 10)

    Raises:
        InputValueError: for layers with the same direction, or another merge.
    """

    def __init__(
        self,
        forward: Recurrent,
        backward: Recurrent | None = None,
        *,
        merge: str | None = "concat",
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        for layer in (forward, forward if backward is None else backward):
            if not isinstance(layer, Recurrent):
                raise errors.InputTypeError(
                    f"Bidirectional takes recurrent layers, such as pb.layers.LSTM(64), got "
                    f"{type(layer).__name__}"
                )
        self.forward = forward
        self.backward = forward.mirrored() if backward is None else backward
        if self.forward.reverse == self.backward.reverse:
            raise errors.InputValueError(
                "forward and backward have the same direction; set reverse=True in one of them"
            )
        for setting in ("return_sequences", "return_state"):
            if getattr(self.forward, setting) != getattr(self.backward, setting):
                raise errors.InputValueError(f"the layers differ in {setting}; set both alike")
        check_choice(merge, "merge", MERGES)
        self.merge = merge

    if TYPE_CHECKING:

        def __call__(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Any:
            """Returns a tensor, or a tuple with `return_state` or without `merge`."""

    def call_masked(self, x: Masked, *args: Any, **kwargs: Any) -> Any:
        """Returns the same for `Masked` inputs; all outputs are `Masked`, too."""
        y = self(x.values, *args, **with_mask(self, x, args, kwargs))
        if not self.forward.return_sequences:
            return y
        if isinstance(y, Tensor):
            return Masked(y, x.mask)
        outputs = 1 if self.merge is not None else 2
        return (*[Masked(part, x.mask) for part in y[:outputs]], *y[outputs:])

    def call(
        self, x: Tensor, mask: TensorLike | None = None, *, lengths: TensorLike | None = None
    ) -> Tensor | tuple[Tensor, ...]:
        """Returns the merged outputs of both layers."""
        mask = self.forward.mask_of(x, mask, lengths)
        first, second = self.forward(x, mask=mask), self.backward(x, mask=mask)
        if not self.forward.return_state:
            return self._merged(first, second)
        merged = self._merged(first[0], second[0])
        outputs = merged if isinstance(merged, tuple) else (merged,)
        return (*outputs, *first[1:], *second[1:])

    def _merged(self, first: Tensor, second: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        if self.merge is None:
            return first, second
        if self.merge == "concat":
            return concat([first, second], axis=-1)
        if self.merge == "multiply":
            return first * second
        total = first + second
        return total / 2 if self.merge == "mean" else total
