"""Recurrent networks over time.

Sequences are (batch, time, features). One matrix product handles all inputs, and one more per step
handles the state. A mask (batch, time) is True for steps that exist: the other steps keep state and
output. With `reverse`, time runs backwards, and results keep their positions.
"""

from __future__ import annotations

from typing import Literal

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import DTypeRule, Operands, Resolution, bool_
from pullback.ops.creation import zeros
from pullback.ops.joining import concat, stack
from pullback.ops.linalg.linear_algebra import linear, matmul
from pullback.ops.manipulation import reshape
from pullback.ops.nn.activations import relu
from pullback.ops.precision import narrowed, widened
from pullback.ops.selection import where
from pullback.ops.slicing import strided_slice
from pullback.ops.trigonometric import tanh
from pullback.shapes import Shape
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["simple_rnn"]


# Shared helpers -----------------------------------------------------------------------


def check_shapes(
    gates: int, x: Shape, states: dict[str, Shape], kernel: Shape, recurrent: Shape,
    biases: dict[str, Shape | None], mask: Shape | None,
) -> int:  # fmt: skip
    """Checks that all shapes fit; returns the number of units."""
    if len(x) != 3:
        raise errors.ShapeError(f"x must be (batch, time, features), got {x}")
    if len(recurrent) != 2 or recurrent[1] != gates * recurrent[0]:
        raise errors.ShapeError(
            f"recurrent_kernel must be (units, {gates} * units), got {recurrent}"
        )
    units = recurrent[0]
    expected: dict[str, tuple[Shape | None, Shape]] = {
        "kernel": (kernel, (x[2], gates * units)),
        "mask": (mask, x[:2]),
        **{name: (shape, (gates * units,)) for name, shape in biases.items()},
        **{name: (shape, (x[0], units)) for name, shape in states.items()},
    }
    for name, (shape, right) in expected.items():
        if shape is not None and shape != right:
            raise errors.ShapeError(
                f"{name} must have shape {right} for x {x} and {units} units, got {shape}"
            )
    return units


def check_results(expected: dict[str, tuple[Shape, Shape]]) -> None:
    """Raises ShapeError unless the two shapes of each pair are equal."""
    for name, (shape, right) in expected.items():
        if shape != right:
            raise errors.ShapeError(f"{name} must have shape {right}, got {shape}")


def float_and_mask(outputs: int) -> DTypeRule:
    """All inputs have one real floating dtype; the last one is a boolean mask."""

    @DTypeRule
    def rule(operands: Operands, **_: object) -> Resolution:
        """Real floating inputs in one dtype, which the results have; a boolean mask."""
        inputs, outs = dtypes.real_floating(operands[:-1])
        mask = None if operands[-1] is None else bool_
        return Resolution((*inputs, mask), outs * outputs)

    return rule


def step_order(time: int, reverse: bool) -> range:
    """The steps in the order in which they run."""
    return range(time - 1, -1, -1) if reverse else range(time)


def project(x: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    """x @ kernel + bias for all steps at once."""
    batch, time, features = x.shape
    y = linear(reshape(x, (batch * time, features)), kernel, bias)
    return reshape(y, (batch, time, kernel.shape[1]))


def at(x: Tensor, step: int) -> Tensor:
    """x[:, step]."""
    return strided_slice(x, key=(slice(0, x.shape[0], 1), step, ...))


def gate_of(z: Tensor, index: int, units: int) -> Tensor:
    """The columns of one gate."""
    return strided_slice(
        z, key=(slice(0, z.shape[0], 1), slice(index * units, (index + 1) * units, 1), ...)
    )


def mask_at(mask: Tensor | None, step: int) -> Tensor | None:
    """The mask of one step, (batch, 1)."""
    if mask is None:
        return None
    return reshape(at(mask, step), (mask.shape[0], 1))


def select(present: Tensor | None, new: Tensor, old: Tensor) -> Tensor:
    """The new state where the step exists, else the old one."""
    return new if present is None else where(present, new, old)


def stack_steps(steps: dict[int, Tensor], like: Tensor, width: int) -> Tensor:
    """Results per step, stacked to (batch, time, width)."""
    if not steps:
        return zeros((like.shape[0], 0, width), dtype=like.dtype, device=like.device)
    return stack([steps[step] for step in range(len(steps))], axis=1)


def merge_time(x: Tensor) -> Tensor:
    """x with batch and time merged into one axis."""
    return reshape(x, (x.shape[0] * x.shape[1], x.shape[2]))


def previous_states(states: Tensor, initial: Tensor, reverse: bool) -> Tensor:
    """The state before each step."""
    batch, time, units = states.shape
    if not time:
        return states
    first = reshape(initial, (batch, 1, units))
    steps = slice(1, time, 1) if reverse else slice(0, time - 1, 1)
    rest = strided_slice(states, key=(slice(0, batch, 1), steps, ...))
    return concat([rest, first] if reverse else [first, rest], axis=1)


def gradient_dtypes(count: int) -> DTypeRule:
    @DTypeRule
    def rule(operands: Operands, **_: object) -> Resolution:
        """Each input keeps its dtype; the results have that of x."""
        inputs = dtypes.each("any")(operands).inputs
        dtype = inputs[0]
        assert dtype is not None
        return Resolution(inputs, (dtype,) * count)

    return rule


# The simple network -------------------------------------------------------------------------------


def _rnn_units(
    x: Shape, initial_h: Shape, kernel: Shape, recurrent_kernel: Shape, bias: Shape | None,
    mask: Shape | None,
) -> int:  # fmt: skip
    return check_shapes(
        1, x, {"initial_h": initial_h}, kernel, recurrent_kernel, {"bias": bias}, mask
    )


def _rnn_shapes(*shapes: Shape, **_: object) -> list[Shape]:
    """All states (batch, time, units), and the last one."""
    units, (batch, time, _features) = _rnn_units(*shapes), shapes[0]
    return [(batch, time, units), (batch, units)]


def _rnn_checked(shapes: tuple[Shape, ...], *, activation: str, reverse: bool) -> dict[str, object]:
    _rnn_units(*shapes)
    if activation not in ("tanh", "relu"):
        raise errors.InputValueError(f'activation must be "tanh" or "relu", got {activation!r}')
    return {"activation": activation, "reverse": reverse}


@op(
    shape=_rnn_shapes,
    dtype=float_and_mask(2),
    accuracy=ACCUMULATED,
    outputs=("out", "h"),
    normalize=_rnn_checked,
)
def simple_rnn(
    x: Tensor,
    initial_h: Tensor,
    kernel: Tensor,
    recurrent_kernel: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    activation: Literal["tanh", "relu"] = "tanh",
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """h' = tanh(x_t @ kernel + h @ recurrent_kernel + bias) (Elman, 1990).

    Args:
        x: (batch, time, features).
        initial_h: the output before the first step (batch, units).
        kernel: (features, units).
        recurrent_kernel: (units, units).
        bias: (units,); None for no bias.
        mask: booleans (batch, time), True for steps that exist; all if not given.
        activation: "tanh" or "relu".
        reverse: True to run from the last step to the first.

    Returns:
        All outputs (batch, time, units) and the last one (batch, units).

    Raises:
        ShapeError: if the shapes do not fit.
        InputValueError: for an unknown activation.

    >>> x, state = pb.ones((2, 3, 4)), pb.zeros((2, 5))
    >>> out, h = pb.simple_rnn(x, state, pb.ones((4, 5)), pb.ones((5, 5)))
    >>> out.shape, h.shape
    ((2, 3, 5), (2, 5))
    """
    like, activate = x, tanh if activation == "tanh" else relu
    x, h, recurrent = widened(x), widened(initial_h), widened(recurrent_kernel)
    projected = project(x, widened(kernel), None if bias is None else widened(bias))
    outs = {}
    for step in step_order(x.shape[1], reverse):
        h_new = activate(at(projected, step) + matmul(h, recurrent))
        h = select(mask_at(mask, step), h_new, h)
        outs[step] = h
    return narrowed(stack_steps(outs, x, recurrent.shape[0]), like), narrowed(h, like)
