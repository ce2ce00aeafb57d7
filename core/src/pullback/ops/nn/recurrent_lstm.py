"""The long short-term memory (LSTM) over time."""

from __future__ import annotations

from pullback._dispatch import op
from pullback.ops.joining import concat
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.manipulation import reshape
from pullback.ops.nn.activations import sigmoid
from pullback.ops.nn.recurrent import (
    at,
    check_results,
    check_shapes,
    float_and_mask,
    gate_of,
    gradient_dtypes,
    mask_at,
    merge_time,
    previous_states,
    project,
    select,
    stack_steps,
    step_order,
)
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import sum
from pullback.ops.selection import where
from pullback.ops.trigonometric import tanh
from pullback.shapes import Shape, checked
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["lstm"]


def _lstm_units(
    x: Shape, initial_h: Shape, initial_c: Shape, kernel: Shape, recurrent_kernel: Shape,
    bias: Shape | None, mask: Shape | None, *_: object,
) -> int:  # fmt: skip
    states = {"initial_h": initial_h, "initial_c": initial_c}
    return check_shapes(4, x, states, kernel, recurrent_kernel, {"bias": bias}, mask)


def _lstm_shapes(*shapes: Shape, **_: object) -> list[Shape]:
    """All states (batch, time, units), the last one, and the last cell."""
    units, (batch, time, _features) = _lstm_units(*shapes), shapes[0]
    return [(batch, time, units), (batch, units), (batch, units)]


# ACCUMULATED: a matrix product per step.
@op(
    shape=_lstm_shapes,
    dtype=float_and_mask(3),
    accuracy=ACCUMULATED,
    outputs=("out", "h", "c"),
    residuals=("gates", "cells"),
    normalize=checked(_lstm_shapes),
)
def lstm(
    x: Tensor,
    initial_h: Tensor,
    initial_c: Tensor,
    kernel: Tensor,
    recurrent_kernel: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The long short-term memory (Hochreiter and Schmidhuber, 1997; Gers et al., 2000).

    With z = x_t @ kernel + h @ recurrent_kernel + bias in four parts i, f, g, o of `units` columns:
    c' = sigmoid(f) * c + sigmoid(i) * tanh(g) and h' = sigmoid(o) * tanh(c').

    Args:
        x: (batch, time, features).
        initial_h: the output before the first step (batch, units).
        initial_c: the cell before the first step (batch, units).
        kernel: (features, 4 * units).
        recurrent_kernel: (units, 4 * units).
        bias: (4 * units,); None for no bias.
        mask: booleans (batch, time), True for steps that exist; all if not given.
        reverse: True to run from the last step to the first.

    Returns:
        All outputs (batch, time, units), the last output and the last cell (batch, units).

    Raises:
        ShapeError: if the shapes do not fit.

    >>> x, state = pb.ones((2, 3, 4)), pb.zeros((2, 5))
    >>> out, h, c = pb.lstm(x, state, state, pb.ones((4, 20)), pb.ones((5, 20)))
    >>> out.shape, h.shape, c.shape
    ((2, 3, 5), (2, 5), (2, 5))
    """
    like, units = x, recurrent_kernel.shape[0]
    x, h, c = widened(x), widened(initial_h), widened(initial_c)
    recurrent = widened(recurrent_kernel)
    projected = project(x, widened(kernel), None if bias is None else widened(bias))
    outs, gates, cells = {}, {}, {}
    for step in step_order(x.shape[1], reverse):
        z = at(projected, step) + matmul(h, recurrent)
        i, f = sigmoid(gate_of(z, 0, units)), sigmoid(gate_of(z, 1, units))
        g, o = tanh(gate_of(z, 2, units)), sigmoid(gate_of(z, 3, units))
        c_new = f * c + i * g
        h_new = o * tanh(c_new)
        present = mask_at(mask, step)
        h, c = select(present, h_new, h), select(present, c_new, c)
        outs[step], cells[step] = h, c
        gates[step] = concat([i, f, g, o], axis=1)
    return (  # type: ignore[return-value]
        narrowed(stack_steps(outs, x, units), like),
        narrowed(h, like),
        narrowed(c, like),
        stack_steps(gates, x, 4 * units),
        stack_steps(cells, x, units),
    )


def _gradient_shapes(*shapes: Shape, **_: object) -> list[Shape]:
    """The shapes of the inputs before the mask, and those of the biases."""
    *inputs, mask, out, gates, cells, out_g, h_g, c_g = shapes
    units = _lstm_units(*inputs, None, mask)
    batch, time, _features = inputs[0]
    steps, state = (batch, time, units), (batch, units)
    check_results(
        {
            "out": (out, steps),
            "gates": (gates, (batch, time, 4 * units)),
            "cells": (cells, steps),
            "out_g": (out_g, steps),
            "h_g": (h_g, state),
            "c_g": (c_g, state),
        }
    )
    return [*inputs, (4 * units,)]


@op(
    shape=_gradient_shapes,
    dtype=gradient_dtypes(6),
    accuracy=ACCUMULATED,
    outputs=("dx", "dh", "dc", "dkernel", "drecurrent", "dbias"),
    normalize=checked(_gradient_shapes),
    public=False,
)
def lstm_gradient(
    x: Tensor,
    initial_h: Tensor,
    initial_c: Tensor,
    kernel: Tensor,
    recurrent_kernel: Tensor,
    mask: Tensor | None,
    out: Tensor,
    gates: Tensor,
    cells: Tensor,
    out_g: Tensor,
    h_g: Tensor,
    c_g: Tensor,
    *,
    reverse: bool = False,
) -> tuple[Tensor, ...]:
    """The gradients of `lstm` with respect to its floating inputs, bias included.

    Args:
        x: the input of the op.
        initial_h: the input of the op.
        initial_c: the input of the op.
        kernel: the input of the op.
        recurrent_kernel: the input of the op.
        mask: the input of the op.
        out: the result of the op.
        gates: i, f, g and o of each step, after their nonlinearities (batch, time, 4 * units).
        cells: the cell after each step (batch, time, units).
        out_g: the gradient with respect to all outputs.
        h_g: the gradient with respect to the last output.
        c_g: the gradient with respect to the last cell.
        reverse: as for the op.

    >>> x, state, weights = pb.ones((1, 1, 1)), pb.zeros((1, 1)), pb.zeros((1, 4))
    >>> gates, cells = pb.full((1, 1, 4), 0.5), pb.zeros((1, 1, 1))
    >>> gradients = pb.ops.lstm_gradient(
    ...     x, state, state, weights, weights, None, cells, gates, cells, x, state, state
    ... )
    >>> gradients[2].tolist(), gradients[5].tolist()
    ([[0.25]], [0.0625, 0.0, 0.1875, 0.0])
    """
    like, units = x, recurrent_kernel.shape[0]
    recurrent = widened(recurrent_kernel)
    out_g, dh, dc = widened(out_g), widened(h_g), widened(c_g)
    c_before = previous_states(cells, widened(initial_c), reverse)
    dzs: dict[int, Tensor] = {}
    for step in reversed(step_order(x.shape[1], reverse)):
        step_gates, present = at(gates, step), mask_at(mask, step)
        i, f, g, o = (gate_of(step_gates, index, units) for index in range(4))
        dh = dh + at(out_g, step)
        # A masked step keeps h and c: what is computed of it here is not used.
        tanh_c = tanh(at(cells, step))
        dc_new = dc + dh * o * (1 - tanh_c * tanh_c)
        dz = concat(
            [
                dc_new * g * (i * (1 - i)),
                dc_new * at(c_before, step) * (f * (1 - f)),
                dc_new * i * (1 - g * g),
                dh * tanh_c * (o * (1 - o)),
            ],
            axis=1,
        )
        if present is not None:
            dz = where(present, dz, 0)
        dh, dc = select(present, matmul(dz, recurrent.mT), dh), select(present, dc_new * f, dc)
        dzs[step] = dz
    # One product for all steps.
    dz = merge_time(stack_steps(dzs, widened(x), 4 * units))
    h_before = merge_time(previous_states(widened(out), widened(initial_h), reverse))
    dx = reshape(matmul(dz, widened(kernel).mT), x.shape)
    dkernel, drecurrent = matmul(merge_time(widened(x)).mT, dz), matmul(h_before.mT, dz)
    dbias = sum(dz, axis=0)
    gradients = (dx, dh, dc, dkernel, drecurrent, dbias)
    return tuple(narrowed(gradient, like) for gradient in gradients)


@lstm.vjp("x", "initial_h", "initial_c", "kernel", "recurrent_kernel", "bias")
def _(
    g: tuple[Tensor, Tensor, Tensor], x: Tensor, initial_h: Tensor, initial_c: Tensor,
    kernel: Tensor, recurrent_kernel: Tensor, mask: Tensor | None, out: Tensor, gates: Tensor,
    cells: Tensor, reverse: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    return lstm_gradient(
        x, initial_h, initial_c, kernel, recurrent_kernel, mask, out, gates, cells, *g,
        reverse=reverse,
    )  # fmt: skip


lstm.vjp(mask=None)
