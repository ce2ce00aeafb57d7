"""Recurrent nets over time in NumPy: time first inside, so that every step is contiguous."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.backend import Kernel
from pullback_numpy.kernels.precision import like, wide


def _order(time: int, reverse: bool) -> range:
    return range(time - 1, -1, -1) if reverse else range(time)


def _sigmoid(z: Any, out: Any) -> Any:
    """The logistic function by tanh, in place: gates are no probabilities to be exact near 0."""
    np.multiply(z, z.dtype.type(0.5), out=out)
    np.tanh(out, out=out)
    out *= out.dtype.type(0.5)
    out += out.dtype.type(0.5)
    return out


def _time_first(x: Any) -> Any:
    return np.ascontiguousarray(x.swapaxes(0, 1))


def _projected(x: Any, kernel: Any, bias: Any) -> Any:
    """x @ kernel + bias for all steps, (time, batch, columns)."""
    batch, time, features = x.shape
    z = np.matmul(_time_first(x).reshape(-1, features), kernel)
    if bias is not None:
        z += bias
    return z.reshape(time, batch, kernel.shape[1])


def _batch_first(x: Any, dtype: Any) -> Any:
    return np.ascontiguousarray(x.swapaxes(0, 1)).astype(dtype, copy=False)


def _absent(mask: Any) -> Any:
    """For each step the rows that are not there; None where all are."""
    if mask is None:
        return None
    gone = ~_time_first(mask)
    return [rows if rows.any() else None for rows in gone]


def _lstm(
    x: Any, initial_h: Any, initial_c: Any, kernel: Any, recurrent_kernel: Any, bias: Any,
    mask: Any, *, reverse: bool,
) -> Any:  # fmt: skip
    h, c, recurrent = wide(initial_h), wide(initial_c), wide(recurrent_kernel)
    units = recurrent.shape[0]
    gates = _projected(wide(x), wide(kernel), None if bias is None else wide(bias))
    time, batch = gates.shape[:2]
    out = np.empty((time, batch, units), gates.dtype)
    cells = np.empty_like(out)
    gone = _absent(mask)
    i, f, g, o = (slice(n * units, (n + 1) * units) for n in range(4))
    product, room = np.empty((batch, 4 * units), gates.dtype), np.empty((batch, units), gates.dtype)
    for step in _order(time, reverse):
        z = gates[step]
        z += np.matmul(h, recurrent, out=product)
        np.tanh(z[:, g], out=z[:, g])
        _sigmoid(z[:, : 2 * units], z[:, : 2 * units])
        _sigmoid(z[:, o], z[:, o])
        cell = np.multiply(z[:, f], c, out=cells[step])
        cell += np.multiply(z[:, i], z[:, g], out=room)
        new = np.tanh(cell, out=out[step])
        new *= z[:, o]
        if gone is not None and gone[step] is not None:
            rows = gone[step]
            new[rows], cell[rows] = h[rows], c[rows]
        h, c = new, cell
    dtype = x.dtype
    return (
        _batch_first(out, dtype),
        like(h, x) if time else initial_h,
        like(c, x) if time else initial_c,
        gates.swapaxes(0, 1),
        cells.swapaxes(0, 1),
    )


def _lstm_gradient(
    x: Any, initial_h: Any, initial_c: Any, kernel: Any, recurrent_kernel: Any, mask: Any,
    out: Any, gates: Any, cells: Any, out_g: Any, h_g: Any, c_g: Any, *, reverse: bool,
) -> Any:  # fmt: skip
    recurrent = wide(recurrent_kernel)
    back = np.ascontiguousarray(recurrent.T)
    units = recurrent.shape[0]
    gates, cells = _time_first(gates), _time_first(cells)
    time, batch = gates.shape[:2]
    grads, dh, dc = _time_first(wide(out_g)), wide(h_g), wide(c_g)
    slopes = np.empty_like(gates)
    gone = _absent(mask)
    i, f, g, o = (slice(n * units, (n + 1) * units) for n in range(4))
    for step in reversed(_order(time, reverse)):
        z, dz = gates[step], slopes[step]
        before = step + (1 if reverse else -1)
        c = cells[before] if 0 <= before < time else wide(initial_c)
        dh = dh + grads[step]
        t = np.tanh(cells[step])
        # The gates' own slopes first: s (1 - s), and 1 - g^2 for the tanh.
        np.subtract(1, z, out=dz)
        dz *= z
        np.multiply(z[:, g], z[:, g], out=dz[:, g])
        np.subtract(1, dz[:, g], out=dz[:, g])
        dz[:, o] *= t
        dz[:, o] *= dh
        t *= t
        np.subtract(1, t, out=t)
        t *= z[:, o]
        t *= dh
        t += dc
        dz[:, i] *= z[:, g]
        dz[:, i] *= t
        dz[:, f] *= c
        dz[:, f] *= t
        dz[:, g] *= z[:, i]
        dz[:, g] *= t
        t *= z[:, f]
        rows = None if gone is None else gone[step]
        if rows is not None:
            dz[rows] = 0
            t[rows] = dc[rows]
        left = np.matmul(dz, back)
        if rows is not None:
            left[rows] = dh[rows]
        dh, dc = left, t
    dkernel, drecurrent = _weights(x, out, initial_h, slopes, slopes, reverse)
    dz = slopes.reshape(-1, 4 * units)
    dx = np.matmul(dz, wide(kernel).T).reshape(time, batch, x.shape[2])
    found = (dx.swapaxes(0, 1), dh, dc, dkernel, drecurrent, _sum_rows(dz))
    return tuple(like(one, x) for one in found)


def _weights(x: Any, out: Any, initial_h: Any, da: Any, db: Any, reverse: bool) -> tuple[Any, Any]:
    """The gradients of both kernels from the slopes (time, batch, columns) of all steps."""
    time, batch = da.shape[:2]
    flat = _time_first(wide(x)).reshape(time * batch, x.shape[2])
    before = np.empty((time, batch, out.shape[2]), da.dtype)
    if time:
        outs = wide(out).swapaxes(0, 1)
        if reverse:
            before[:-1], before[-1] = outs[1:], wide(initial_h)
        else:
            before[1:], before[0] = outs[:-1], wide(initial_h)
    earlier = before.reshape(time * batch, out.shape[2])
    columns = da.shape[2]
    return (
        np.matmul(flat.T, da.reshape(-1, columns)),
        np.matmul(earlier.T, db.reshape(-1, columns)),
    )


def _sum_rows(x: Any) -> Any:
    return np.matmul(np.ones(x.shape[0], x.dtype), x)


def _gru(
    x: Any, initial_h: Any, kernel: Any, recurrent_kernel: Any, bias: Any, recurrent_bias: Any,
    mask: Any, *, reverse: bool,
) -> Any:  # fmt: skip
    h, recurrent = wide(initial_h), wide(recurrent_kernel)
    units = recurrent.shape[0]
    gates = _projected(wide(x), wide(kernel), None if bias is None else wide(bias))
    time, batch = gates.shape[:2]
    out = np.empty((time, batch, units), gates.dtype)
    candidates = np.empty_like(out)
    gone = _absent(mask)
    both, n, r = slice(0, 2 * units), slice(2 * units, None), slice(units, 2 * units)
    extra = None if recurrent_bias is None else wide(recurrent_bias)
    for step in _order(time, reverse):
        a, b = gates[step], np.matmul(h, recurrent)
        if extra is not None:
            b += extra
        a[:, both] += b[:, both]
        _sigmoid(a[:, both], a[:, both])
        candidates[step] = b[:, n]
        a[:, n] += a[:, r] * candidates[step]
        np.tanh(a[:, n], out=a[:, n])
        new = np.subtract(h, a[:, n], out=out[step])
        new *= a[:, :units]
        new += a[:, n]
        if gone is not None and gone[step] is not None:
            new[gone[step]] = h[gone[step]]
        h = new
    return (
        _batch_first(out, x.dtype),
        like(h, x) if time else initial_h,
        gates.swapaxes(0, 1),
        candidates.swapaxes(0, 1),
    )


def _gru_gradient(
    x: Any, initial_h: Any, kernel: Any, recurrent_kernel: Any, mask: Any, out: Any, gates: Any,
    candidates: Any, out_g: Any, h_g: Any, *, reverse: bool,
) -> Any:  # fmt: skip
    recurrent = wide(recurrent_kernel)
    back = np.ascontiguousarray(recurrent.T)
    units = recurrent.shape[0]
    gates, candidates, outs = _time_first(gates), _time_first(candidates), _time_first(wide(out))
    time, batch = gates.shape[:2]
    grads, dh = _time_first(wide(out_g)), wide(h_g)
    by_input, by_state = np.empty_like(gates), np.empty_like(gates)
    gone = _absent(mask)
    z, r, n = (slice(i * units, (i + 1) * units) for i in range(3))
    for step in reversed(_order(time, reverse)):
        gate, da, db = gates[step], by_input[step], by_state[step]
        before = step + (1 if reverse else -1)
        h = outs[before] if 0 <= before < time else wide(initial_h)
        dh = dh + grads[step]
        np.subtract(1, gate, out=da)
        dn = np.multiply(dh, da[:, z])
        da *= gate
        dn *= 1 - gate[:, n] * gate[:, n]
        da[:, z] *= dh
        da[:, z] *= h - gate[:, n]
        da[:, r] *= dn
        da[:, r] *= candidates[step]
        da[:, n] = dn
        db[:] = da
        db[:, n] *= gate[:, r]
        rows = None if gone is None else gone[step]
        if rows is not None:
            da[rows] = 0
            db[rows] = 0
        left = np.matmul(db, back)
        left += dh * gate[:, z]
        if rows is not None:
            left[rows] = dh[rows]
        dh = left
    dkernel, drecurrent = _weights(x, out, initial_h, by_input, by_state, reverse)
    flat = by_input.reshape(-1, 3 * units)
    dx = np.matmul(flat, wide(kernel).T).reshape(time, batch, x.shape[2])
    biases = (_sum_rows(flat), _sum_rows(by_state.reshape(-1, 3 * units)))
    found = (dx.swapaxes(0, 1), dh, dkernel, drecurrent, *biases)
    return tuple(like(one, x) for one in found)


KERNELS: dict[str, Kernel] = {
    "gru": _gru,
    "gru_gradient": _gru_gradient,
    "lstm": _lstm,
    "lstm_gradient": _lstm_gradient,
}
