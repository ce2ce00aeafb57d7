"""Recurrent nets over time in NumPy: time first inside, so that every step is contiguous."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.plugins.records import Kernel, may_decline
from pullback_numpy import products, threads
from pullback_numpy.half import narrowed, widened
from pullback_numpy.typing import Array, DType
from pullback_numpy.windows import even_ranges, scratch


def _order(time: int, reverse: bool) -> range:
    return range(time - 1, -1, -1) if reverse else range(time)


def _sigmoid(z: Array, out: Array) -> Array:
    """The logistic function by tanh, in place: gates need not be exact near 0."""
    np.multiply(z, z.dtype.type(0.5), out=out)
    np.tanh(out, out=out)
    out *= out.dtype.type(0.5)
    out += out.dtype.type(0.5)
    return out


def _time_first(x: Array) -> Array:
    return np.ascontiguousarray(x.swapaxes(0, 1))


def _projected(x: Array, kernel: Array, bias: Array | None) -> Any:
    """x @ kernel + bias for all steps, (time, batch, columns)."""
    batch, time, features = x.shape
    z = products.matmul(_time_first(x).reshape(time * batch, features), kernel)
    if bias is not None:
        z += bias
    return z.reshape(time, batch, kernel.shape[1])


def _batch_first(x: Array, dtype: DType) -> Array:
    return np.ascontiguousarray(x.swapaxes(0, 1)).astype(dtype, copy=False)


def _absent(mask: Array | None) -> Any:
    """For each step the rows that the mask leaves out, or None; None without a mask."""
    if mask is None:
        return None
    gone = ~_time_first(mask)
    return [rows if rows.any() else None for rows in gone]


# The long short-term memory -------------------------------------------------------------------
# Inside, units come before items: (time, 4 * units, batch). A gate is then one run of memory, and
# a step is a product and a dozen passes over what the cache holds.
#
# sigmoid(z) = (1 + tanh(z / 2)) / 2: where the weights of i, f and o are halved beforehand, one
# tanh serves all four gates.


@threads.single_blas
def _lstm(
    x: Array, initial_h: Array, initial_c: Array, kernel: Array, recurrent_kernel: Array,
    bias: Array | None, mask: Array | None, *, reverse: bool,
) -> tuple[Array, ...]:  # fmt: skip
    h, c = _units_first(widened(initial_h)), _units_first(widened(initial_c))
    recurrent = _halved(widened(recurrent_kernel))
    units, batch = h.shape
    time = x.shape[1]
    gates = _gates_of_inputs(widened(x), widened(kernel), None if bias is None else widened(bias))
    out = np.empty((batch, time, units), x.dtype)
    cells = np.empty((time, units, batch), gates.dtype)
    product, room = np.empty((4 * units, batch), gates.dtype), np.empty(c.shape, gates.dtype)
    states = np.empty((2, *c.shape), gates.dtype)
    finish = _sigmoids(units, batch, gates.dtype)
    gone = _absent(mask)
    for number, step in enumerate(_order(time, reverse)):
        z = gates[step]
        z += np.matmul(recurrent, h, out=product)
        np.tanh(z, out=z)
        finish(z)
        i, f, g, o = z.reshape(4, units, batch)
        cell = np.multiply(f, c, out=cells[step])
        cell += np.multiply(i, g, out=room)
        new = np.tanh(cell, out=states[number % 2])
        new *= o
        if gone is not None and gone[step] is not None:
            absent = gone[step]
            new[:, absent], cell[:, absent] = h[:, absent], c[:, absent]
        out[:, step] = new.T
        h, c = new, cell
    return (
        out,
        narrowed(_items_first(h), x),
        narrowed(_items_first(c), x),
        gates.transpose(2, 0, 1),
        cells.transpose(2, 0, 1),
    )


def _sigmoids(units: int, batch: int, dtype: DType) -> Callable[[Array], None]:
    """A function that turns the tanh of i, f and o into sigmoids, in place."""
    half = np.array(0.5, dtype)
    if units * batch <= _SHORT:
        # A call takes as long as a thousand elements: g is included, times 1 and plus 0.
        factor: Array = np.full((4, units, batch), half)
        factor[2] = 1
        factor = factor.reshape(4 * units, batch)
        summand = 1 - factor

        def at_once(z: Array) -> None:
            np.multiply(z, factor, out=z)
            np.add(z, summand, out=z)

        return at_once

    def by_part(z: Array) -> None:
        for part in (z[: 2 * units], z[3 * units :]):
            np.multiply(part, half, out=part)
            np.add(part, half, out=part)

    return by_part


#: Cells in a step, items times units, up to which the number of calls counts.
_SHORT = 1 << 11


def _units_first(x: Array) -> Array:
    # Always a copy, since it is written into: the transpose of an input may be contiguous.
    return np.array(x.T, order="C")


_items_first = _units_first


def _halved(weights: Array) -> Array:
    """(inputs, 4 * units) as (4 * units, inputs), with the rows of i, f and o halved."""
    turned = np.array(weights.T, order="C")  # a copy: it is written into
    i, f, _, o = turned.reshape(4, turned.shape[0] // 4, weights.shape[0])
    for part in (i, f, o):
        part *= part.dtype.type(0.5)
    return turned


def _gates_of_inputs(x: Array, kernel: Array, bias: Array | None) -> Any:
    """The contribution of the inputs of all steps to the gates, (time, 4 * units, batch)."""
    batch, time, features = x.shape
    # The bias is the row of an input that is always 1.
    inputs = np.ones((time, features + (bias is not None), batch), x.dtype)
    inputs[:, :features] = x.transpose(1, 2, 0)
    weights = _halved(kernel if bias is None else np.concatenate([kernel, bias[None]]))
    if batch == 1:
        return np.matmul(inputs[..., 0], weights.T)[..., None]
    z = np.empty((time, weights.shape[0], batch), x.dtype)

    def work(steps: tuple[int, int]) -> None:
        part = slice(*steps)
        np.matmul(weights, inputs[part], out=z[part])

    threads.run(work, even_ranges(time, 8 if z.size > _MANY else 1))
    return z


#: At least this many gates in all are worth a second thread.
_MANY = 1 << 17


@threads.single_blas
def _lstm_gradient(
    x: Array, initial_h: Array, initial_c: Array, kernel: Array, recurrent_kernel: Array,
    mask: Array | None, out: Array, gates: Array, cells: Array, out_g: Array, h_g: Array,
    c_g: Array, *, reverse: bool,
) -> tuple[Array, ...]:  # fmt: skip
    recurrent, first_c = widened(recurrent_kernel), _units_first(widened(initial_c))
    units, batch = first_c.shape
    time = x.shape[1]
    gates, cells = (np.ascontiguousarray(a.transpose(1, 2, 0)) for a in (gates, cells))
    grads, dh, dc = widened(out_g), _units_first(widened(h_g)), _units_first(widened(c_g))
    # Used in this call only: memory that is kept has its pages already.
    (slopes,) = scratch(gates.dtype, (4 * units, time, batch))
    z, t = np.empty((4 * units, batch), gates.dtype), np.empty(dc.shape, gates.dtype)
    dz, one = z.reshape(4, units, batch), gates.dtype.type(1)
    gone = _absent(mask)
    for step in reversed(_order(time, reverse)):
        gate = gates[step].reshape(dz.shape)
        i, f, g, o = gate
        earlier = step + (1 if reverse else -1)
        c = cells[earlier] if 0 <= earlier < time else first_c
        dh += grads[:, step].T
        np.tanh(cells[step], out=t)
        # The nonlinearities' own slopes: s (1 - s), and 1 - g^2 for the candidate.
        np.subtract(one, gate, out=dz)
        dz *= gate
        np.subtract(one, np.multiply(g, g, out=dz[2]), out=dz[2])
        dz[3] *= t
        dz[3] *= dh
        t *= t
        np.subtract(one, t, out=t)
        t *= o
        t *= dh
        t += dc
        dz[:3] *= t
        dz[0] *= g
        dz[1] *= c
        dz[2] *= i
        t *= f
        left = np.empty(dh.shape, dh.dtype)
        if gone is not None and gone[step] is not None:
            absent = gone[step]
            dz[..., absent] = 0
            t[:, absent] = dc[:, absent]
            np.matmul(recurrent, z, out=left)
            left[:, absent] = dh[:, absent]
        else:
            np.matmul(recurrent, z, out=left)
        slopes[:, step] = z
        dh, dc, t = left, t, dc
    flat = slopes.reshape(4 * units, time * batch)
    inputs, before = _rows(x), _rows_before(out, initial_h, reverse)
    drecurrent, dkernel, dx, dbias = _run_tasks(
        flat.size * 4 * units,
        lambda: np.matmul(flat, before).T,
        lambda: np.matmul(flat, inputs).T,
        lambda: np.matmul(widened(kernel), flat),
        lambda: np.add.reduce(flat, 1),
    )
    dx = dx.reshape(x.shape[2], time, batch).transpose(2, 1, 0)
    gradients = (dx, _items_first(dh), _items_first(dc), dkernel, drecurrent, dbias)
    return tuple(narrowed(gradient, x) for gradient in gradients)


# Helpers of both gradients --------------------------------------------------------------------


def _rows(x: Array) -> Array:
    """All inputs, (time * batch, features)."""
    batch, time, features = x.shape
    return _time_first(widened(x)).reshape(time * batch, features)


def _rows_before(out: Array, initial_h: Array, reverse: bool) -> Array:
    """The state before each step, (time * batch, units)."""
    batch, time, units = out.shape
    before = np.empty((time, batch, units), widened(initial_h).dtype)
    if time:
        outs = widened(out).swapaxes(0, 1)
        if reverse:
            before[:-1], before[-1] = outs[1:], widened(initial_h)
        else:
            before[1:], before[0] = outs[:-1], widened(initial_h)
    return before.reshape(time * batch, units)


def _run_tasks(terms: int, *tasks: Any) -> list[Any]:
    """The results of all tasks, computed on several threads if there are many terms."""
    results: list[Any] = [None] * len(tasks)

    def work(number: int) -> None:
        results[number] = tasks[number]()

    if terms > _LARGE:
        threads.run(work, range(len(tasks)))
    else:
        for number in range(len(tasks)):
            work(number)
    return results


#: Products of fewer terms run one after the other.
_LARGE = 1 << 24


# The gated recurrent unit ---------------------------------------------------------------------


@threads.single_blas
@may_decline
def _gru(
    x: Array, initial_h: Array, kernel: Array, recurrent_kernel: Array, bias: Array | None,
    recurrent_bias: Array | None, mask: Array | None, *, reverse: bool, reset_after: bool = True,
) -> Any:  # fmt: skip
    if not reset_after:
        return NotImplemented
    h, recurrent = widened(initial_h), widened(recurrent_kernel)
    units = recurrent.shape[0]
    gates = _projected(widened(x), widened(kernel), None if bias is None else widened(bias))
    time, batch = gates.shape[:2]
    out = np.empty((time, batch, units), gates.dtype)
    candidates = np.empty_like(out)
    gone = _absent(mask)
    both, n, r = slice(0, 2 * units), slice(2 * units, None), slice(units, 2 * units)
    extra = None if recurrent_bias is None else widened(recurrent_bias)
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
        narrowed(h, x) if time else initial_h,
        gates.swapaxes(0, 1),
        candidates.swapaxes(0, 1),
    )


@threads.single_blas
@may_decline
def _gru_gradient(
    x: Array, initial_h: Array, kernel: Array, recurrent_kernel: Array, mask: Array | None,
    out: Array, gates: Array, candidates: Array, out_g: Array, h_g: Array, *, reverse: bool,
    reset_after: bool = True,
) -> Any:  # fmt: skip
    if not reset_after:
        return NotImplemented
    recurrent = widened(recurrent_kernel)
    back = np.ascontiguousarray(recurrent.T)
    units = recurrent.shape[0]
    gates, candidates, outs = _time_first(gates), _time_first(candidates), _time_first(widened(out))
    time = gates.shape[0]
    grads, dh = _time_first(widened(out_g)), widened(h_g)
    by_input, by_state = np.empty_like(gates), np.empty_like(gates)
    gone = _absent(mask)
    z, r, n = (slice(i * units, (i + 1) * units) for i in range(3))
    for step in reversed(_order(time, reverse)):
        gate, da, db = gates[step], by_input[step], by_state[step]
        earlier = step + (1 if reverse else -1)
        h = outs[earlier] if 0 <= earlier < time else widened(initial_h)
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
    da, db = (slopes.reshape(time * x.shape[0], 3 * units) for slopes in (by_input, by_state))
    inputs, before = _rows(x), _rows_before(out, initial_h, reverse)
    dx, *weights = _run_tasks(
        da.size * 3 * units,
        lambda: np.matmul(da, widened(kernel).T),
        lambda: np.matmul(inputs.T, da),
        lambda: np.matmul(before.T, db),
        lambda: products.column_totals(da),
        lambda: products.column_totals(db),
    )
    dx = dx.reshape(time, x.shape[0], x.shape[2]).swapaxes(0, 1)
    return tuple(narrowed(gradient, x) for gradient in (dx, dh, *weights))


KERNELS: dict[str, Kernel] = {
    "gru": _gru,
    "gru_gradient": _gru_gradient,
    "lstm": _lstm,
    "lstm_gradient": _lstm_gradient,
}
