"""The long short-term memory and the gated recurrent unit.

One product serves the inputs of all steps, where the loop does not multiply them along with the
states. The loops run over all steps without Python, and a batch is split over threads: its items
are independent. NumPy's kernels do calls with masks.
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
#: So many features of an input are multiplied along with the states: the kernels of more are read
#: from too far away in every step.
_FEATURES = 256

_Optional: TypeAlias = Array | None


def _grain(batch: int) -> int:
    return max(_ITEMS, -(-batch // threads.threads()))


def _cost(time: int, inner: int, units: int) -> float:
    """Nanoseconds for an item: products at 60 multiplications each, and the gates."""
    return time * units * (4 * inner / 60 + 4)


def _projected(x: Array, kernel: Array, bias: _Optional) -> Array:
    """x @ kernel + bias for all steps."""
    batch, time, features = x.shape
    rows = plain(x).reshape(-1, features)
    return _native.linear(rows, kernel, plain_or_none(bias)).reshape(batch, time, kernel.shape[1])


def _supports(mask: _Optional, x: Array, *others: _Optional) -> bool:
    """Returns whether the loops take these arrays: float32, no mask, and not empty."""
    return mask is None and bool(x.size) and all_float32(x, *others)


def _run(
    loop: int, shape: tuple[int, ...], inner: int, units: int, reverse: bool,
    **arguments: _Optional | int,
) -> None:  # fmt: skip
    """Runs a loop over all steps, with the batch split over threads."""
    batch, time, _ = shape
    cost = _cost(time, inner, units)
    status = run(
        loop, batch, _grain(batch), cost, arguments, time=time, units=units, reverse=reverse
    )  # fmt: skip
    needs_numpy(status, "a copy of the recurrent kernel")


def _column_sums(x: Array) -> Array:
    return _native.sum(x, axis=(0,), keepdims=False, dtype=None)


def _states_before(out: Array, initial_h: Array, reverse: bool, before: Array) -> None:
    """Writes the state before each step, (batch, time, units)."""
    if reverse:
        before[:, :-1], before[:, -1] = out[:, 1:], initial_h
    else:
        before[:, 1:], before[:, 0] = out[:, :-1], initial_h


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
    units, features = recurrent_kernel.shape[0], x.shape[2]
    # By the batch, not by a thread's part of it: results do not depend on the number of threads.
    along = batch >= _ITEMS and features <= _FEATURES
    gates = empty((batch, time, 4 * units)) if along else _projected(x, kernel, bias)
    read = map(plain_or_none, (x, kernel, bias) if along else (None, None, None))
    out, cells = empty((batch, time, units)), empty((batch, time, units))
    _run(
        _LSTM, x.shape, units + features * along, units, reverse, gates=gates,
        **dict(zip(("x", "kernel", "bias"), read, strict=True)), inputs=features * along,
        recurrent_kernel=plain(recurrent_kernel), h=plain(initial_h), c=plain(initial_c), y=out,
        cells=cells,
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
        _LSTM_GRADIENT, x.shape, units, units, reverse, gates=plain(gates),
        recurrent_kernel=plain(recurrent_kernel), c=plain(initial_c), cells=plain(cells),
        g=plain(out_g), dh=dh, dc=dc, dgates=dgates,
    )  # fmt: skip
    rows, features = dgates.reshape(-1, 4 * units), x.shape[2]
    # Both kernels have the same gradients of gates: one product of rows [input, state] reads them.
    read = empty((batch, time, features + units))
    read[..., :features] = x
    _states_before(out, initial_h, reverse, read[..., features:])
    dkernels = _native.matmul(read.reshape(-1, features + units).T, rows)
    dx = _native.matmul(rows, kernel.T).reshape(x.shape)
    return dx, dh, dc, dkernels[:features], dkernels[features:], _column_sums(rows)


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
        _GRU, x.shape, units, units, reverse, gates=gates, recurrent_kernel=plain(recurrent_kernel),
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
        _GRU_GRADIENT, x.shape, units, units, reverse, gates=plain(gates),
        recurrent_kernel=plain(recurrent_kernel), h=plain(initial_h), y=plain(out),
        g=plain(out_g), candidates=plain(candidates), dh=dh, by_input=by_input, by_state=by_state,
    )  # fmt: skip
    da, db = by_input.reshape(-1, 3 * units), by_state.reshape(-1, 3 * units)
    before = empty((batch, time, units))
    _states_before(out, initial_h, reverse, before)
    dx = _native.matmul(da, kernel.T).reshape(x.shape)
    dkernel = _native.matmul(plain(x).reshape(-1, x.shape[2]).T, da)
    drecurrent = _native.matmul(before.reshape(-1, units).T, db)
    return dx, dh, dkernel, drecurrent, _column_sums(da), _column_sums(db)


KERNELS: dict[str, Kernel] = {
    "gru": _gru,
    "gru_gradient": _gru_gradient,
    "lstm": _lstm,
    "lstm_gradient": _lstm_gradient,
}
