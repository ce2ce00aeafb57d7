"""The long short-term memory and the gated recurrent unit.

One product serves the inputs of all steps. The loops go through all of time without Python, and a
batch is split over threads: its items do not meet. What a mask leaves out is NumPy's affair.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.plugins.backend import Kernel
from pullback_native import _native
from pullback_native.loops import FLOAT32, LOOPS, all_float32, empty, plain, run_with_room
from pullback_numpy import threads
from pullback_numpy.kernels import KERNELS as NUMPYS

_LSTM, _LSTM_GRADIENT = LOOPS["lstm_step"], LOOPS["lstm_step_gradient"]
_GRU, _GRU_GRADIENT = LOOPS["gru_step"], LOOPS["gru_step_gradient"]
#: Fewer items than this are not worth a product of their own.
_ITEMS = 16


def _grain(batch: int) -> int:
    return max(_ITEMS, -(-batch // threads.threads()))


def _cost(time: int, units: int) -> float:
    """Nanoseconds for an item: products at 60 multiplications each, and the gates."""
    return time * units * (4 * units / 60 + 4)


def _projected(x: Any, kernel: Any, bias: Any) -> Any:
    """x @ kernel + bias for all steps."""
    batch, time, features = x.shape
    rows = plain(x).reshape(-1, features)
    z = _native.linear(rows, kernel, None if bias is None else plain(bias))
    return z.reshape(batch, time, kernel.shape[1])


def _serves(mask: Any, x: Any, *others: Any) -> bool:
    """Whether the loops are for it: float32, no mask, and something to go through."""
    batch, time, _ = x.shape
    return mask is None and bool(batch and time) and all_float32(x, *others)


def _run(loop: int, x: Any, units: int, reverse: bool, *arrays: Any) -> None:
    """Goes through all of time, with a batch split over threads."""
    batch, time, _ = x.shape
    room, numbers = "a copy of the recurrent kernel", (time, units, reverse)
    run_with_room(loop, batch, _grain(batch), _cost(time, units), arrays, numbers, room=room)


def _columns(x: Any) -> Any:
    return _native.sum(x, axis=(0,), keepdims=False, dtype=None)


def _before(out: Any, initial_h: Any, reverse: bool) -> Any:
    """The states with which the steps begin, (batch * time, units)."""
    before = empty(out.shape)
    if reverse:
        before[:, :-1], before[:, -1] = out[:, 1:], initial_h
    else:
        before[:, 1:], before[:, 0] = out[:, :-1], initial_h
    return before.reshape(-1, out.shape[2])


def _lstm(
    x: Any, initial_h: Any, initial_c: Any, kernel: Any, recurrent_kernel: Any, bias: Any,
    mask: Any, *, reverse: bool,
) -> Any:  # fmt: skip
    given = (x, initial_h, initial_c, kernel, recurrent_kernel, bias)
    batch, time, _ = x.shape
    if not _serves(mask, *given):
        return NUMPYS["lstm"](*given, mask, reverse=reverse)
    units = recurrent_kernel.shape[0]
    gates = _projected(x, kernel, bias)
    out, cells = (empty((batch, time, units)) for _ in range(2))
    state = plain(initial_h), plain(initial_c)
    _run(_LSTM, x, units, reverse, gates, plain(recurrent_kernel), *state, out, cells)
    last = 0 if reverse else time - 1
    return out, out[:, last].copy(), cells[:, last].copy(), gates, cells


def _lstm_gradient(
    x: Any, initial_h: Any, initial_c: Any, kernel: Any, recurrent_kernel: Any, mask: Any,
    out: Any, gates: Any, cells: Any, out_g: Any, h_g: Any, c_g: Any, *, reverse: bool,
) -> Any:  # fmt: skip
    given = (x, initial_h, initial_c, kernel, recurrent_kernel)
    rest = (out, gates, cells, out_g, h_g, c_g)
    batch, time, features = x.shape
    if not _serves(mask, *given, *rest):
        return NUMPYS["lstm_gradient"](*given, mask, *rest, reverse=reverse)
    units = recurrent_kernel.shape[0]
    dh, dc = (np.array(one, FLOAT32, order="C") for one in (h_g, c_g))
    slopes = empty((batch, time, 4 * units))
    arrays = map(plain, (gates, recurrent_kernel, initial_c, cells, out_g))
    _run(_LSTM_GRADIENT, x, units, reverse, *arrays, dh, dc, slopes)
    before = _before(out, initial_h, reverse)
    flat = slopes.reshape(-1, 4 * units)
    return (
        _native.matmul(flat, kernel.T).reshape(x.shape),
        dh,
        dc,
        _native.matmul(plain(x).reshape(-1, features).T, flat),
        _native.matmul(before.T, flat),
        _columns(flat),
    )


def _gru(
    x: Any, initial_h: Any, kernel: Any, recurrent_kernel: Any, bias: Any, recurrent_bias: Any,
    mask: Any, *, reverse: bool,
) -> Any:  # fmt: skip
    given = (x, initial_h, kernel, recurrent_kernel, bias, recurrent_bias)
    batch, time, _ = x.shape
    if not _serves(mask, *given):
        return NUMPYS["gru"](*given, mask, reverse=reverse)
    units = recurrent_kernel.shape[0]
    gates = _projected(x, kernel, bias)
    out, candidates = (empty((batch, time, units)) for _ in range(2))
    beside = None if recurrent_bias is None else plain(recurrent_bias)
    arrays = gates, plain(recurrent_kernel), plain(initial_h), out, candidates, beside
    _run(_GRU, x, units, reverse, *arrays)
    return out, out[:, 0 if reverse else time - 1].copy(), gates, candidates


def _gru_gradient(
    x: Any, initial_h: Any, kernel: Any, recurrent_kernel: Any, mask: Any, out: Any, gates: Any,
    candidates: Any, out_g: Any, h_g: Any, *, reverse: bool,
) -> Any:  # fmt: skip
    given = (x, initial_h, kernel, recurrent_kernel)
    rest = (out, gates, candidates, out_g, h_g)
    batch, time, features = x.shape
    if not _serves(mask, *given, *rest):
        return NUMPYS["gru_gradient"](*given, mask, *rest, reverse=reverse)
    units = recurrent_kernel.shape[0]
    dh = np.array(h_g, FLOAT32, order="C")
    by_input, by_state = (empty((batch, time, 3 * units)) for _ in range(2))
    arrays = map(plain, (gates, recurrent_kernel, initial_h, out, out_g, candidates))
    _run(_GRU_GRADIENT, x, units, reverse, *arrays, dh, by_input, by_state)
    da, db = by_input.reshape(-1, 3 * units), by_state.reshape(-1, 3 * units)
    return (
        _native.matmul(da, kernel.T).reshape(x.shape),
        dh,
        _native.matmul(plain(x).reshape(-1, features).T, da),
        _native.matmul(_before(out, initial_h, reverse).T, db),
        _columns(da),
        _columns(db),
    )


KERNELS: dict[str, Kernel] = {
    "gru": _gru,
    "gru_gradient": _gru_gradient,
    "lstm": _lstm,
    "lstm_gradient": _lstm_gradient,
}
