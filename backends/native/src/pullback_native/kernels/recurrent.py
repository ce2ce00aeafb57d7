"""The long short-term memory and the gated recurrent unit.

One product serves the inputs of all steps, where the loop does not multiply them along with the
states. The loops run over all steps without Python, and a batch is split over threads: its items
are independent. Steps that a mask leaves out are computed as the others are, and keep the state.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from pullback.plugins.records import Kernel, may_decline
from pullback_native import _native
from pullback_native.loops import (
    FLOAT32,
    LOOPS,
    Array,
    all_float32,
    empty,
    needs_numpy,
    plain,
    plain_or_none,
    run,
)
from pullback_numpy import threads
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

_LSTM, _LSTM_GRADIENT = LOOPS["lstm_step"], LOOPS["lstm_step_gradient"]
_GRU, _GRU_GRADIENT = LOOPS["gru_step"], LOOPS["gru_step_gradient"]
#: Fewer items than this are not worth a product of their own.
_ITEMS = 16
#: So many features of an input are multiplied along with the states: the kernels of more are read
#: from too far away in every step.
_FEATURES = 256

_Optional: TypeAlias = Array | None


def _grain(batch: int) -> int:
    return max(_ITEMS, -(-batch // threads.threads()))


def _cost(time: int, inner: int, units: int) -> float:
    """Nanoseconds for an item: products at 60 multiplications each, and the gates."""
    return time * units * (4 * inner / 60 + 4)


def _along(x: Array) -> bool:
    """Returns whether the loops multiply the inputs of a step where they multiply its states.

    By the batch, not by a thread's part of it: results do not depend on the number of threads.
    """
    batch, _, features = x.shape
    return bool(batch >= _ITEMS and features <= _FEATURES)


def _by_step(x: Array) -> Array:
    """x of (batch, time, ...) as (time, batch, ...) in C order, as it lies if a loop wrote it."""
    return plain(x.transpose(1, 0, 2))


def _projected(x: Array, kernel: Array, bias: _Optional) -> Array:
    """x @ kernel + bias for all steps, (time, batch, ...)."""
    rows = _by_step(x)
    product = _native.linear(rows.reshape(-1, x.shape[2]), kernel, plain_or_none(bias))
    projected: Array = product.reshape(*rows.shape[:2], kernel.shape[1])
    return projected


def _supports(x: Array, *others: _Optional) -> bool:
    """Returns whether the loops take these arrays: float32, and not empty."""
    return bool(x.size) and all_float32(x, *others)


def _run(
    loop: int, shape: tuple[int, ...], inner: int, units: int, mask: _Optional, reverse: bool,
    **arguments: _Optional | int,
) -> None:  # fmt: skip
    """Runs a loop over all steps, with the batch split over threads."""
    batch, time, _ = shape
    cost = _cost(time, inner, units)
    status = run(
        loop, batch, _grain(batch), cost, arguments, batch=batch, time=time, units=units,
        mask=None if mask is None else mask.astype(np.int32, order="C"), reverse=reverse,
    )  # fmt: skip
    needs_numpy(status, "copies of the kernels")


def _spreads(mask: _Optional, recurrent_kernel: Array) -> bool:
    """True where a step that a mask hides would reach others: its slopes of 0 times infinity."""
    return mask is not None and not np.isfinite(recurrent_kernel).all()


def _column_sums(x: Array) -> Array:
    return _native.sum(x, axis=(0,), keepdims=False, dtype=None)


def _rows_before(x: Array | None, out: Array, initial_h: Array, reverse: bool) -> Array:
    """Rows [input, state before the step, 1] of all steps and items, or [state, 1] without x.

    Their product with gradients of gates is the gradient of the kernels, and of the bias below.
    """
    batch, time, units = out.shape
    features = 0 if x is None else x.shape[2]
    rows = empty((time, batch, features + units + 1))
    if x is not None:
        rows[..., :features] = plain(x).transpose(1, 0, 2)
    states, before = out.transpose(1, 0, 2), rows[..., features:-1]
    if reverse:
        before[:-1], before[-1] = states[1:], initial_h
    else:
        before[1:], before[0] = states[:-1], initial_h
    rows[..., -1] = 1
    return rows.reshape(time * batch, -1)


def _input_gradient(rows: Array, kernel: Array, shape: tuple[int, ...]) -> Array:
    """The gradient of x, where the loop did not compute it, by rows of (time, batch)."""
    batch, time, features = shape
    dx: Array = _native.matmul(rows, kernel.T).reshape(time, batch, features)
    return plain(dx.transpose(1, 0, 2))


def _last(x: Array, reverse: bool) -> Array:
    """The values after the last step."""
    return x[:, 0 if reverse else -1].copy()


def _lstm(
    x: Array, initial_h: Array, initial_c: Array, kernel: Array, recurrent_kernel: Array,
    bias: _Optional, mask: _Optional, *, reverse: bool,
) -> tuple[Array, ...]:  # fmt: skip
    inputs = (x, initial_h, initial_c, kernel, recurrent_kernel, bias)
    batch, time, _ = x.shape
    if not _supports(*inputs):
        results: tuple[Array, ...] = NUMPY_KERNELS["lstm"](*inputs, mask, reverse=reverse)
        return results
    units, features, along = recurrent_kernel.shape[0], x.shape[2], _along(x)
    gates = empty((time, batch, 4 * units)) if along else _projected(x, kernel, bias)
    read = map(plain_or_none, (x, kernel, bias) if along else (None, None, None))
    out, cells = empty((batch, time, units)), empty((time, batch, units))
    _run(
        _LSTM, x.shape, units + features * along, units, mask, reverse, gates=gates,
        **dict(zip(("x", "kernel", "bias"), read, strict=True)), inputs=features * along,
        recurrent_kernel=plain(recurrent_kernel), h=plain(initial_h), c=plain(initial_c), y=out,
        cells=cells,
    )  # fmt: skip
    gates, cells = gates.transpose(1, 0, 2), cells.transpose(1, 0, 2)
    return out, _last(out, reverse), _last(cells, reverse), gates, cells


def _lstm_gradient(
    x: Array, initial_h: Array, initial_c: Array, kernel: Array, recurrent_kernel: Array,
    mask: _Optional, out: Array, gates: Array, cells: Array, out_g: Array, h_g: Array, c_g: Array,
    *, reverse: bool,
) -> tuple[Array, ...]:  # fmt: skip
    inputs = (x, initial_h, initial_c, kernel, recurrent_kernel)
    rest = (out, gates, cells, out_g, h_g, c_g)
    batch, time, features = x.shape
    if not _supports(*inputs, *rest) or _spreads(mask, recurrent_kernel):
        fallback = NUMPY_KERNELS["lstm_gradient"]
        gradients: tuple[Array, ...] = fallback(*inputs, mask, *rest, reverse=reverse)
        return gradients
    units, along = recurrent_kernel.shape[0], _along(x)
    dh, dc = np.array(h_g, FLOAT32, order="C"), np.array(c_g, FLOAT32, order="C")
    dgates, dx = empty((time, batch, 4 * units)), empty(x.shape) if along else None
    _run(
        _LSTM_GRADIENT, x.shape, units + features * along, units, mask, reverse,
        gates=_by_step(gates),
        kernel=plain(kernel) if along else None, recurrent_kernel=plain(recurrent_kernel),
        c=plain(initial_c), cells=_by_step(cells), g=plain(out_g), dh=dh, dc=dc, dgates=dgates,
        dx=dx, inputs=features,
    )  # fmt: skip
    slopes = dgates.reshape(-1, 4 * units)
    # Both kernels and the bias have the same gradients of gates: one product reads them.
    weights = _native.matmul(_rows_before(x, out, initial_h, reverse).T, slopes)
    if dx is None:
        dx = _input_gradient(slopes, kernel, x.shape)
    return dx, dh, dc, weights[:features], weights[features:-1], weights[-1]


@may_decline
def _gru(
    x: Array, initial_h: Array, kernel: Array, recurrent_kernel: Array, bias: _Optional,
    recurrent_bias: _Optional, mask: _Optional, *, reverse: bool, reset_after: bool = True,
) -> Any:  # fmt: skip
    if not reset_after:
        return NotImplemented
    inputs = (x, initial_h, kernel, recurrent_kernel, bias, recurrent_bias)
    batch, time, _ = x.shape
    if not _supports(*inputs):
        results: tuple[Array, ...] = NUMPY_KERNELS["gru"](
            *inputs, mask, reverse=reverse, reset_after=True
        )
        return results
    units = recurrent_kernel.shape[0]
    gates = _projected(x, kernel, bias)
    out, candidates = empty((batch, time, units)), empty((time, batch, units))
    _run(
        _GRU, x.shape, units, units, mask, reverse, gates=gates,
        recurrent_kernel=plain(recurrent_kernel), h=plain(initial_h),
        bias=plain_or_none(recurrent_bias), y=out, candidates=candidates,
    )  # fmt: skip
    return out, _last(out, reverse), gates.transpose(1, 0, 2), candidates.transpose(1, 0, 2)


@may_decline
def _gru_gradient(
    x: Array, initial_h: Array, kernel: Array, recurrent_kernel: Array, mask: _Optional,
    out: Array, gates: Array, candidates: Array, out_g: Array, h_g: Array, *, reverse: bool,
    reset_after: bool = True,
) -> Any:  # fmt: skip
    if not reset_after:
        return NotImplemented
    inputs = (x, initial_h, kernel, recurrent_kernel)
    rest = (out, gates, candidates, out_g, h_g)
    batch, time, features = x.shape
    if not _supports(*inputs, *rest) or _spreads(mask, recurrent_kernel):
        fallback = NUMPY_KERNELS["gru_gradient"]
        gradients: tuple[Array, ...] = fallback(
            *inputs, mask, *rest, reverse=reverse, reset_after=True
        )
        return gradients
    units, along = recurrent_kernel.shape[0], _along(x)
    dh, dx = np.array(h_g, FLOAT32, order="C"), empty(x.shape) if along else None
    by_input, by_state = empty((time, batch, 3 * units)), empty((time, batch, 3 * units))
    _run(
        _GRU_GRADIENT, x.shape, units + features * along, units, mask, reverse,
        gates=_by_step(gates),
        kernel=plain(kernel) if along else None, recurrent_kernel=plain(recurrent_kernel),
        h=plain(initial_h), y=plain(out), g=plain(out_g), candidates=_by_step(candidates), dh=dh,
        by_input=by_input, by_state=by_state, dx=dx, inputs=features,
    )  # fmt: skip
    da, db = by_input.reshape(-1, 3 * units), by_state.reshape(-1, 3 * units)
    if dx is None:
        dx = _input_gradient(da, kernel, x.shape)
    dkernel = _native.matmul(_by_step(x).reshape(-1, features).T, da)
    drecurrent = _native.matmul(_rows_before(None, out, initial_h, reverse).T, db)
    return dx, dh, dkernel, drecurrent[:-1], _column_sums(da), drecurrent[-1]


KERNELS: dict[str, Kernel] = {
    "gru": _gru,
    "gru_gradient": _gru_gradient,
    "lstm": _lstm,
    "lstm_gradient": _lstm_gradient,
}
