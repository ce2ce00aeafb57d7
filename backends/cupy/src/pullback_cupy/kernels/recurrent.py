"""The long short-term memory over time: a product and one kernel for each step."""

from __future__ import annotations

import cupy

from pullback.casting import compute_dtype
from pullback.plugins.records import Kernel
from pullback_cupy.compile import contiguous, over_elements
from pullback_cupy.typing import Array


def _order(time: int, reverse: bool) -> range:
    return range(time - 1, -1, -1) if reverse else range(time)


def _wide(array: Array, x: Array) -> Array:
    """An array in the dtype in which inputs like x are computed."""
    return contiguous(array).astype(compute_dtype(x.dtype), copy=False)


def _rows(x: Array) -> Array:
    """(batch, time, columns) as one matrix."""
    return x.reshape(x.shape[0] * x.shape[1], x.shape[2])


def _lstm(
    x: Array, initial_h: Array, initial_c: Array, kernel: Array, recurrent_kernel: Array,
    bias: Array | None, mask: Array | None, *, reverse: bool,
) -> tuple[Array, ...]:  # fmt: skip
    (batch, time, _), units, dtype = x.shape, recurrent_kernel.shape[0], x.dtype
    h, c, recurrent = _wide(initial_h, x), _wide(initial_c, x), _wide(recurrent_kernel, x)
    inputs = cupy.matmul(_rows(_wide(x, x)), _wide(kernel, x))
    if bias is not None:
        inputs += _wide(bias, x)
    mask = None if mask is None else contiguous(mask)
    gates, cells = (cupy.empty((batch, time, n * units), h.dtype) for n in (4, 1))
    out = cupy.empty((batch, time, units), dtype)
    for step in _order(time, reverse):
        new_h, new_c = cupy.empty_like(h), cupy.empty_like(c)
        over_elements(
            "recurrent", "lstm_step", batch * units,
            (inputs, cupy.matmul(h, recurrent), mask, h, c, gates, cells, out, new_h, new_c,
             batch, time, units, step),
            T=dtype, G=dtype,
        )  # fmt: skip
        h, c = new_h, new_c
    return out, h.astype(dtype, copy=False), c.astype(dtype, copy=False), gates, cells


def _lstm_gradient(
    x: Array, initial_h: Array, initial_c: Array, kernel: Array, recurrent_kernel: Array,
    mask: Array | None, out: Array, gates: Array, cells: Array, out_g: Array, h_g: Array,
    c_g: Array, *, reverse: bool,
) -> tuple[Array, ...]:  # fmt: skip
    (batch, time, _), units, dtype = x.shape, recurrent_kernel.shape[0], x.dtype
    turned, first = _wide(recurrent_kernel, x).T, _wide(initial_c, x)
    gates, cells, slopes = _wide(gates, x), _wide(cells, x), contiguous(out_g)
    mask = None if mask is None else contiguous(mask)
    dz, of_step = cupy.empty_like(gates), cupy.empty((batch, 4 * units), gates.dtype)
    back, dc = _wide(h_g, x), _wide(c_g, x)
    kept, later, order = back, -1, list(_order(time, reverse))
    for number in reversed(range(time)):
        step, before = order[number], order[number - 1] if number else -1
        new_kept, new_dc = cupy.empty_like(dc), cupy.empty_like(dc)
        over_elements(
            "recurrent", "lstm_step_gradient", batch * units,
            (gates, cells, cells if number else first, before, mask, slopes, back, kept, later, dc,
             dz, of_step, new_kept, new_dc, batch, time, units, step),
            T=dtype, G=slopes.dtype,
        )  # fmt: skip
        back, kept, dc, later = cupy.matmul(of_step, turned), new_kept, new_dc, step
    if mask is not None and time:
        back = cupy.where(mask[:, order[0], None], back, kept)
    rows, states = _rows(dz), _states_before(_wide(out, x), _wide(initial_h, x), reverse)
    gradients = (
        cupy.matmul(rows, _wide(kernel, x).T).reshape(x.shape),
        back,
        dc,
        cupy.matmul(_rows(_wide(x, x)).T, rows),
        cupy.matmul(_rows(states).T, rows),
        rows.sum(axis=0),
    )
    return tuple(gradient.astype(dtype, copy=False) for gradient in gradients)


def _states_before(states: Array, initial: Array, reverse: bool) -> Array:
    """The state before each step, (batch, time, units)."""
    if reverse:
        return cupy.concatenate([states[:, 1:], initial[:, None]], axis=1)[:, : states.shape[1]]
    return cupy.concatenate([initial[:, None], states[:, :-1]], axis=1)[:, : states.shape[1]]


KERNELS: dict[str, Kernel] = {"lstm": _lstm, "lstm_gradient": _lstm_gradient}
