"""The gated recurrent unit (GRU) over time."""

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

__all__ = ["gru"]


def _gru_units(
    x: Shape, initial_h: Shape, kernel: Shape, recurrent_kernel: Shape, bias: Shape | None,
    recurrent_bias: Shape | None, mask: Shape | None, *_: object,
) -> int:  # fmt: skip
    biases = {"bias": bias, "recurrent_bias": recurrent_bias}
    return check_shapes(3, x, {"initial_h": initial_h}, kernel, recurrent_kernel, biases, mask)


def _gru_shapes(*shapes: Shape, **_: object) -> list[Shape]:
    """All states (batch, time, units), and the last one."""
    units, (batch, time, _features) = _gru_units(*shapes), shapes[0]
    return [(batch, time, units), (batch, units)]


@op(
    shape=_gru_shapes,
    dtype=float_and_mask(2),
    accuracy=ACCUMULATED,
    outputs=("out", "h"),
    residuals=("gates", "candidates"),
    normalize=checked(_gru_shapes),
)
def gru(
    x: Tensor,
    initial_h: Tensor,
    kernel: Tensor,
    recurrent_kernel: Tensor,
    bias: Tensor | None = None,
    recurrent_bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    reverse: bool = False,
    reset_after: bool = True,
) -> tuple[Tensor, Tensor]:
    """The gated recurrent unit (Cho et al., 2014), with the reset after the product or before.

    With a = x_t @ kernel + bias and b = h @ recurrent_kernel + recurrent_bias, each in three parts
    z, r, n of `units` columns: z = sigmoid(a_z + b_z), r = sigmoid(a_r + b_r), n = tanh(a_n + r *
    b_n) and h' = z * h + (1 - z) * n. That is version 3 of the paper, and cuDNN's. In version 1,
    `reset_after=False`, b_n = (r * h) @ recurrent_kernel_n + recurrent_bias_n, and n = tanh(a_n +
    b_n); ONNX's default is this one.

    Args:
        x: (batch, time, features).
        initial_h: the output before the first step (batch, units).
        kernel: (features, 3 * units).
        recurrent_kernel: (units, 3 * units).
        bias: (3 * units,); None for no bias.
        recurrent_bias: (3 * units,); None for no bias.
        mask: booleans (batch, time), True for steps that exist; all if not given.
        reverse: True to run from the last step to the first.
        reset_after: False to apply the reset r to h before the product, instead of to the product.

    Returns:
        All outputs (batch, time, units) and the last one (batch, units).

    Raises:
        ShapeError: if the shapes do not fit.

    >>> x, state = pb.ones((2, 3, 4)), pb.zeros((2, 5))
    >>> out, h = pb.gru(x, state, pb.ones((4, 15)), pb.ones((5, 15)))
    >>> out.shape, h.shape
    ((2, 3, 5), (2, 5))
    """
    like, units = x, recurrent_kernel.shape[0]
    x, h, recurrent = widened(x), widened(initial_h), widened(recurrent_kernel)
    projected = project(x, widened(kernel), None if bias is None else widened(bias))
    of_gates, of_candidate = _parted(recurrent, reset_after)
    extra = None if recurrent_bias is None else widened(recurrent_bias)
    if extra is not None and not reset_after:
        # It stands beside the other bias: no reset is between them.
        projected, extra = projected + extra, None
    outs, gates, candidates = {}, {}, {}
    for step in step_order(x.shape[1], reverse):
        a, b = at(projected, step), matmul(h, of_gates)
        if extra is not None:
            b = b + extra
        z = sigmoid(gate_of(a, 0, units) + gate_of(b, 0, units))
        r = sigmoid(gate_of(a, 1, units) + gate_of(b, 1, units))
        if of_candidate is None:
            kept = gate_of(b, 2, units)
            b_n = r * kept
        else:
            kept = r * h
            b_n = matmul(kept, of_candidate)
        n = tanh(gate_of(a, 2, units) + b_n)
        h_new = n + z * (h - n)  # z * h + (1 - z) * n
        h = select(mask_at(mask, step), h_new, h)
        outs[step], candidates[step] = h, kept
        gates[step] = concat([z, r, n], axis=1)
    return (  # type: ignore[return-value]
        narrowed(stack_steps(outs, x, units), like),
        narrowed(h, like),
        stack_steps(gates, x, 3 * units),
        stack_steps(candidates, x, units),
    )


def _parted(recurrent: Tensor, reset_after: bool) -> tuple[Tensor, Tensor | None]:
    """The weights of what is multiplied by h, and those of r * h."""
    if reset_after:
        return recurrent, None
    units = recurrent.shape[0]
    return recurrent[:, : 2 * units], recurrent[:, 2 * units :]


def _gradient_shapes(*shapes: Shape, **_: object) -> list[Shape]:
    """The shapes of the inputs before the mask, and those of the biases."""
    *inputs, mask, out, gates, candidates, out_g, h_g = shapes
    units = _gru_units(*inputs, None, None, mask)
    batch, time, _features = inputs[0]
    steps = (batch, time, units)
    check_results(
        {
            "out": (out, steps),
            "gates": (gates, (batch, time, 3 * units)),
            "candidates": (candidates, steps),
            "out_g": (out_g, steps),
            "h_g": (h_g, (batch, units)),
        }
    )
    return [*inputs, (3 * units,), (3 * units,)]


@op(
    shape=_gradient_shapes,
    dtype=gradient_dtypes(6),
    accuracy=ACCUMULATED,
    outputs=("dx", "dh", "dkernel", "drecurrent", "dbias", "drecurrent_bias"),
    normalize=checked(_gradient_shapes),
    public=False,
)
def gru_gradient(
    x: Tensor,
    initial_h: Tensor,
    kernel: Tensor,
    recurrent_kernel: Tensor,
    mask: Tensor | None,
    out: Tensor,
    gates: Tensor,
    candidates: Tensor,
    out_g: Tensor,
    h_g: Tensor,
    *,
    reverse: bool = False,
    reset_after: bool = True,
) -> tuple[Tensor, ...]:
    """The gradients of `gru` with respect to its floating inputs, both biases included.

    Args:
        x: the input of the op.
        initial_h: the input of the op.
        kernel: the input of the op.
        recurrent_kernel: the input of the op.
        mask: the input of the op.
        out: the result of the op.
        gates: z, r and n of each step, after their nonlinearities (batch, time, 3 * units).
        candidates: of each step b_n, or r * h where the reset comes first (batch, time, units).
        out_g: the gradient with respect to all outputs.
        h_g: the gradient with respect to the last output.
        reverse: as for the op.
        reset_after: as for the op.

    >>> x, state, weights = pb.ones((1, 1, 1)), pb.zeros((1, 1)), pb.zeros((1, 3))
    >>> gates, zeros = pb.full((1, 1, 3), 0.5), pb.zeros((1, 1, 1))
    >>> gradients = pb.ops.gru_gradient(
    ...     x, state, weights, weights, None, zeros, gates, zeros, x, state
    ... )
    >>> gradients[1].tolist(), gradients[4].tolist()
    ([[0.5]], [-0.125, 0.0, 0.375])
    """
    like, units = x, recurrent_kernel.shape[0]
    of_gates, of_candidate = _parted(widened(recurrent_kernel), reset_after)
    out_g, dh = widened(out_g), widened(h_g)
    h_before = previous_states(widened(out), widened(initial_h), reverse)
    das: dict[int, Tensor] = {}
    dbs: dict[int, Tensor] = {}
    for step in reversed(step_order(x.shape[1], reverse)):
        step_gates, present = at(gates, step), mask_at(mask, step)
        z, r, n = (gate_of(step_gates, index, units) for index in range(3))
        dh = dh + at(out_g, step)
        dn = dh * (1 - z) * (1 - n * n)
        h = at(h_before, step)
        dz = dh * (h - n) * (z * (1 - z))
        if of_candidate is None:
            dr, behind, left = dn * at(candidates, step), dn * r, dh * z
        else:
            dkept = matmul(dn, of_candidate.mT)
            dr, behind, left = dkept * h, dn, dh * z + dkept * r
        dr = dr * (r * (1 - r))
        da, db = concat([dz, dr, dn], axis=1), concat([dz, dr, behind], axis=1)
        if present is not None:
            da, db = where(present, da, 0), where(present, db, 0)
        through = db if of_candidate is None else db[:, : 2 * units]
        dh = select(present, left + matmul(through, of_gates.mT), dh)
        das[step], dbs[step] = da, db
    # One product for all steps.
    da = merge_time(stack_steps(das, widened(x), 3 * units))
    db = merge_time(stack_steps(dbs, widened(x), 3 * units))
    dx = reshape(matmul(da, widened(kernel).mT), x.shape)
    dkernel, drecurrent = matmul(merge_time(widened(x)).mT, da), matmul(merge_time(h_before).mT, db)
    if of_candidate is not None:
        ofh = matmul(merge_time(candidates).mT, db[:, 2 * units :])
        drecurrent = concat([drecurrent[:, : 2 * units], ofh], axis=1)
    gradients = (dx, dh, dkernel, drecurrent, sum(da, axis=0), sum(db, axis=0))
    return tuple(narrowed(gradient, like) for gradient in gradients)


@gru.vjp("x", "initial_h", "kernel", "recurrent_kernel", "bias", "recurrent_bias")
def _(
    g: tuple[Tensor, Tensor], x: Tensor, initial_h: Tensor, kernel: Tensor,
    recurrent_kernel: Tensor, mask: Tensor | None, out: Tensor, gates: Tensor,
    candidates: Tensor, reverse: bool, reset_after: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    return gru_gradient(
        x, initial_h, kernel, recurrent_kernel, mask, out, gates, candidates, *g, reverse=reverse,
        reset_after=reset_after,
    )  # fmt: skip


gru.vjp(mask=None)
