"""The long short-term memory and the gated recurrent unit.

One product serves the inputs of all steps. The loops run over all steps without Python, and a batch
is split over threads: its items are independent. NumPy's kernels do calls with masks.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from pullback.plugins.records import Kernel
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

_Optional: TypeAlias = Array | None


def _grain(batch: int) -> int:
    return max(_ITEMS, -(-batch // threads.threads()))


def _cost(time: int, units: int) -> float:
    """Nanoseconds for an item: products at 60 multiplications each, and the gates."""
    return time * units * (4 * units / 60 + 4)


def _projected(x: Array, kernel: Array, bias: _Optional) -> Array:
    """x @ kernel + bias for all steps."""
    batch, time, features = x.shape
    rows = plain(x).reshape(-1, features)
    return _native.linear(rows, kernel, plain_or_none(bias)).reshape(batch, time, kernel.shape[1])


def _supports(mask: _Optional, x: Array, *others: _Optional) -> bool:
    """Returns whether the loops take these arrays: float32, no mask, and not empty."""
    return mask is None and bool(x.size) and all_float32(x, *others)


def _run(loop: int, x: Array, units: int, reverse: bool, **arrays: _Optional) -> None:
    """Runs a loop over all steps, with the batch split over threads."""
    batch, time, _ = x.shape
    cost = _cost(time, units)
    status = run(loop, batch, _grain(batch), cost, arrays, time=time, units=units, reverse=reverse)
    needs_numpy(status, "a copy of the recurrent kernel")


def _kernel_gradients(
    x: Array, kernel: Array, states: Array, by_input: Array, by_state: Array
) -> tuple[Array, Array, Array]:
    """The gradients of x and of both kernels, from those of the gates in rows."""
    return (
        _native.matmul(by_input, kernel.T).reshape(x.shape),
        _native.matmul(plain(x).reshape(-1, x.shape[2]).T, by_input),
        _native.matmul(states.T, by_state),
    )


def _column_sums(x: Array) -> Array:
    return _native.sum(x, axis=(0,), keepdims=False, dtype=None)


def _states_before(out: Array, initial_h: Array, reverse: bool) -> Array:
    """The state before each step, (batch * time, units)."""
    before = empty(out.shape)
    if reverse:
        before[:, :-1], before[:, -1] = out[:, 1:], initial_h
    else:
        before[:, 1:], before[:, 0] = out[:, :-1], initial_h
    return before.reshape(-1, out.shape[2])


def _last(x: Array, reverse: bool) -> Array:
    """The values after the last step."""
    return x[:, 0 if reverse else -1].copy()


def _lstm(
    x: Array, initial_h: Array, initial_c: Array, kernel: Array, recurrent_kernel: Array,
    bias: _Optional, mask: _Optional, *, reverse: bool,
) -> tuple[Array, ...]:  # fmt: skip
    inputs = (x, initial_h, initial_c, kernel, recurrent_kernel, bias)
    batch, time, _ = x.shape
    if not _supports(mask, *inputs):
        results: tuple[Array, ...] = NUMPY_KERNELS["lstm"](*inputs, mask, reverse=reverse)
        return results
    units = recurrent_kernel.shape[0]
    gates = _projected(x, kernel, bias)
    out, cells = empty((batch, time, units)), empty((batch, time, units))
    _run(
        _LSTM, x, units, reverse, gates=gates, recurrent_kernel=plain(recurrent_kernel),
        h=plain(initial_h), c=plain(initial_c), y=out, cells=cells,
    )  # fmt: skip
    return out, _last(out, reverse), _last(cells, reverse), gates, cells


def _lstm_gradient(
    x: Array, initial_h: Array, initial_c: Array, kernel: Array, recurrent_kernel: Array,
    mask: _Optional, out: Array, gates: Array, cells: Array, out_g: Array, h_g: Array, c_g: Array,
    *, reverse: bool,
) -> tuple[Array, ...]:  # fmt: skip
    inputs = (x, initial_h, initial_c, kernel, recurrent_kernel)
    rest = (out, gates, cells, out_g, h_g, c_g)
    batch, time, _ = x.shape
    if not _supports(mask, *inputs, *rest):
        fallback = NUMPY_KERNELS["lstm_gradient"]
        gradients: tuple[Array, ...] = fallback(*inputs, mask, *rest, reverse=reverse)
        return gradients
    units = recurrent_kernel.shape[0]
    dh, dc = np.array(h_g, FLOAT32, order="C"), np.array(c_g, FLOAT32, order="C")
    dgates = empty((batch, time, 4 * units))
    _run(
        _LSTM_GRADIENT, x, units, reverse, gates=plain(gates),
        recurrent_kernel=plain(recurrent_kernel), c=plain(initial_c), cells=plain(cells),
        g=plain(out_g), dh=dh, dc=dc, dgates=dgates,
    )  # fmt: skip
    rows = dgates.reshape(-1, 4 * units)
    states = _states_before(out, initial_h, reverse)
    dx, dkernel, drecurrent = _kernel_gradients(x, kernel, states, rows, rows)
    return dx, dh, dc, dkernel, drecurrent, _column_sums(rows)


def _gru(
    x: Array, initial_h: Array, kernel: Array, recurrent_kernel: Array, bias: _Optional,
    recurrent_bias: _Optional, mask: _Optional, *, reverse: bool,
) -> tuple[Array, ...]:  # fmt: skip
    inputs = (x, initial_h, kernel, recurrent_kernel, bias, recurrent_bias)
    batch, time, _ = x.shape
    if not _supports(mask, *inputs):
        results: tuple[Array, ...] = NUMPY_KERNELS["gru"](*inputs, mask, reverse=reverse)
        return results
    units = recurrent_kernel.shape[0]
    gates = _projected(x, kernel, bias)
    out, candidates = empty((batch, time, units)), empty((batch, time, units))
    _run(
        _GRU, x, units, reverse, gates=gates, recurrent_kernel=plain(recurrent_kernel),
        h=plain(initial_h), bias=plain_or_none(recurrent_bias), y=out, candidates=candidates,
    )  # fmt: skip
    return out, _last(out, reverse), gates, candidates


def _gru_gradient(
    x: Array, initial_h: Array, kernel: Array, recurrent_kernel: Array, mask: _Optional,
    out: Array, gates: Array, candidates: Array, out_g: Array, h_g: Array, *, reverse: bool,
) -> tuple[Array, ...]:  # fmt: skip
    inputs = (x, initial_h, kernel, recurrent_kernel)
    rest = (out, gates, candidates, out_g, h_g)
    batch, time, _ = x.shape
    if not _supports(mask, *inputs, *rest):
        fallback = NUMPY_KERNELS["gru_gradient"]
        gradients: tuple[Array, ...] = fallback(*inputs, mask, *rest, reverse=reverse)
        return gradients
    units = recurrent_kernel.shape[0]
    dh = np.array(h_g, FLOAT32, order="C")
    by_input, by_state = empty((batch, time, 3 * units)), empty((batch, time, 3 * units))
    _run(
        _GRU_GRADIENT, x, units, reverse, gates=plain(gates),
        recurrent_kernel=plain(recurrent_kernel), h=plain(initial_h), y=plain(out),
        g=plain(out_g), candidates=plain(candidates), dh=dh, by_input=by_input, by_state=by_state,
    )  # fmt: skip
    da, db = by_input.reshape(-1, 3 * units), by_state.reshape(-1, 3 * units)
    states = _states_before(out, initial_h, reverse)
    dx, dkernel, drecurrent = _kernel_gradients(x, kernel, states, da, db)
    return dx, dh, dkernel, drecurrent, _column_sums(da), _column_sums(db)


KERNELS: dict[str, Kernel] = {
    "gru": _gru,
    "gru_gradient": _gru_gradient,
    "lstm": _lstm,
    "lstm_gradient": _lstm_gradient,
}
