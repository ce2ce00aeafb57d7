"""Samples of the recurrent nets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import normal
from pullback_conformance.sample import Sample, WrongCall, call, suite, wrong

Array: TypeAlias = Any

_MASK = np.array([[True, True, False, True], [False, True, True, False], [True] * 4])


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _steps(x: Array, mask: Array, reverse: bool) -> list[tuple[int, Array]]:
    """Each step in order, and which rows are there (batch, 1)."""
    order = range(x.shape[1])
    there = np.ones(x.shape[:2], bool) if mask is None else mask
    return [(t, there[:, t, None]) for t in (reversed(order) if reverse else order)]


def _or_zero(bias: Array) -> Array:
    return 0 if bias is None else bias


def _run_lstm(
    x: Array, h: Array, c: Array, kernel: Array, recurrent: Array, bias: Array = None,
    mask: Array = None, *, reverse: bool = False,
) -> tuple[Array, Array, Array, Array, Array]:  # fmt: skip
    """The results, and what the op keeps: gates and cells of every step."""
    out, gates, cells = (np.zeros((*x.shape[:2], n * h.shape[1]), x.dtype) for n in (1, 4, 1))
    for t, there in _steps(x, mask, reverse):
        z = x[:, t] @ kernel + h @ recurrent + _or_zero(bias)
        i, f, g, o = np.split(z, 4, axis=1)
        i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
        cell = f * c + i * g
        h, c = np.where(there, o * np.tanh(cell), h), np.where(there, cell, c)
        out[:, t], cells[:, t], gates[:, t] = h, c, np.concatenate([i, f, g, o], axis=1)
    return out, h, c, gates, cells


def _lstm(*inputs: Array, **how: Any) -> tuple[Array, ...]:
    return _run_lstm(*inputs, **how)[:3]


def _run_gru(
    x: Array, h: Array, kernel: Array, recurrent: Array, bias: Array = None,
    recurrent_bias: Array = None, mask: Array = None, *, reverse: bool = False,
    reset_after: bool = True,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """The results, and what the op keeps: gates and candidates of every step."""
    out, gates, candidates = (np.zeros((*x.shape[:2], n * h.shape[1]), x.dtype) for n in (1, 3, 1))
    for t, there in _steps(x, mask, reverse):
        az, ar, an = np.split(x[:, t] @ kernel + _or_zero(bias), 3, axis=1)
        bz, br, bn = np.split(h @ recurrent + _or_zero(recurrent_bias), 3, axis=1)
        z, r = _sigmoid(az + bz), _sigmoid(ar + br)
        if not reset_after:
            bn, extra = r * h, np.split(_or_zero(recurrent_bias) + np.zeros(3 * h.shape[1]), 3)[2]
        n = np.tanh(an + (r * bn if reset_after else bn @ recurrent[:, 2 * h.shape[1] :] + extra))
        h = np.where(there, z * h + (1 - z) * n, h)
        out[:, t], candidates[:, t], gates[:, t] = h, bn, np.concatenate([z, r, n], axis=1)
    return out, h, gates, candidates


def _gru(*inputs: Array, **how: Any) -> tuple[Array, ...]:
    return _run_gru(*inputs, **how)[:2]


def _simple(
    x: Array, h: Array, kernel: Array, recurrent: Array, bias: Array = None, mask: Array = None,
    *, activation: str = "tanh", reverse: bool = False,
) -> tuple[Array, Array]:  # fmt: skip
    out = np.zeros((*x.shape[:2], h.shape[1]), x.dtype)
    for t, there in _steps(x, mask, reverse):
        a = x[:, t] @ kernel + h @ recurrent + _or_zero(bias)
        h = np.where(there, np.tanh(a) if activation == "tanh" else np.maximum(a, 0), h)
        out[:, t] = h
    return out, h


def _terms(reference: Any, states: int) -> Any:
    """Errors of a step go on into the next one: the size of one step, once for each."""

    def scale(x: Array, *rest: Array, **how: Any) -> Any:
        results = reference(x, *rest, **how)
        sizes = [np.abs(value).max(initial=0) for value in rest if value is not None]
        one = (1 + np.abs(x).max(initial=0)) * (1 + max(sizes)) * (1 + rest[states + 1].shape[0])
        return tuple(np.full(result.shape, one * (1 + x.shape[1])) for result in results)

    return scale


def _inputs(gates: int, states: int, biases: int, batch: int = 3, time: int = 4) -> list[Array]:
    features, units = 2, 3
    return [
        normal(batch, time, features),
        *(normal(batch, units, seed=i) / 2 for i in range(states)),
        normal(features, gates * units, seed=5) / 2,
        normal(units, gates * units, seed=6) / 2,
        *(normal(gates * units, seed=7 + i) / 2 for i in range(biases)),
    ]


def _samples(gates: int, states: int, biases: int) -> list[Sample]:
    full = _inputs(gates, states, biases)
    bare = [*full[: len(full) - biases], *[None] * biases]
    return [
        call(*full, None),
        call(*bare, None, reverse=True),
        call(*full, _MASK, note="mask"),
        call(*full, _MASK, reverse=True, note="mask, reverse"),
        call(*_inputs(gates, states, biases, time=1), None, note="one step"),
        call(*_inputs(gates, states, biases, time=0), None, note="no steps"),
        call(*_inputs(gates, states, biases, batch=0), None, note="no items"),
    ]


def _errors(gates: int, states: int, biases: int) -> list[WrongCall]:
    full = _inputs(gates, states, biases)

    def with_one(place: int, value: Array) -> WrongCall:
        return wrong(errors.ShapeError, *full[:place], value, *full[place + 1 :], None)

    return [
        with_one(0, normal(3, 4)),
        with_one(1, normal(2, 3)),
        with_one(1, normal(1, 3)),
        with_one(1 + states, normal(3, gates * 3)),
        with_one(2 + states, normal(3, gates * 3 + 1)),
        with_one(3 + states, normal(1)),
        wrong(errors.ShapeError, *full, _MASK[:, :3]),
    ]


#: The inputs that have an item each, in all nets and gradients.
_ITEMS = ("x", "initial_h", "initial_c", "mask", "out", "gates", "cells", "candidates",
          "out_g", "h_g", "c_g")  # fmt: skip

for _name, _reference, _sizes in (
    ("lstm", _lstm, (4, 2, 1)),
    ("gru", _gru, (3, 1, 2)),
    ("simple_rnn", _simple, (1, 1, 1)),
):
    _found = _samples(*_sizes)
    _wrong = _errors(*_sizes)
    if _name == "simple_rnn":
        _relu = [abs(value) + 0.1 for value in _inputs(1, 1, 1)]
        _found.append(call(*_relu, None, activation="relu"))
        _wrong.append(wrong(errors.InputValueError, *_relu, None, activation="elu"))
    if _name == "gru":
        _found += [
            replace(one, attributes={**one.attributes, "reset_after": False}) for one in _found
        ]
    suite(
        _name, _reference, scale=_terms(_reference, _sizes[1]), items=_ITEMS,
        # What is not bounded grows with the steps.
        slow=_name == "simple_rnn",
    )(*_found, *_wrong)  # fmt: skip


# The gradients --------------------------------------------------------------------------------


# What a step has kept decides, whatever the inputs were: the slopes of the formulas in `lstm` and
# `gru`, step by step backwards.


def _before(states: Array, initial: Array, t: int, reverse: bool) -> Array:
    t = t + 1 if reverse else t - 1
    return states[:, t] if 0 <= t < states.shape[1] else initial


def _lstm_gradient(
    x: Array, h: Array, c: Array, kernel: Array, recurrent: Array, mask: Array, out: Array,
    gates: Array, cells: Array, out_g: Array, h_g: Array, c_g: Array, *, reverse: bool = False,
) -> tuple[Array, ...]:  # fmt: skip
    dx, dkernel, drecurrent = np.zeros_like(x), np.zeros_like(kernel), np.zeros_like(recurrent)
    dbias, dh, dc = np.zeros(kernel.shape[1], x.dtype), h_g, c_g
    for t, there in reversed(_steps(x, mask, reverse)):
        i, f, g, o = np.split(gates[:, t], 4, axis=1)
        dh = dh + out_g[:, t]
        tanh = np.tanh(cells[:, t])
        dcell = dc + dh * o * (1 - tanh**2)
        di, df = dcell * g, dcell * _before(cells, c, t, reverse)
        dg, do = dcell * i, dh * tanh
        slopes = [di * i * (1 - i), df * f * (1 - f), dg * (1 - g**2), do * o * (1 - o)]
        dz = np.where(there, np.concatenate(slopes, axis=1), 0)
        dx[:, t] = dz @ kernel.T
        dkernel += x[:, t].T @ dz
        drecurrent += _before(out, h, t, reverse).T @ dz
        dbias += dz.sum(axis=0)
        dh, dc = np.where(there, dz @ recurrent.T, dh), np.where(there, dcell * f, dc)
    return dx, dh, dc, dkernel, drecurrent, dbias


def _gru_gradient(
    x: Array, h: Array, kernel: Array, recurrent: Array, mask: Array, out: Array, gates: Array,
    candidates: Array, out_g: Array, h_g: Array, *, reverse: bool = False,
    reset_after: bool = True,
) -> tuple[Array, ...]:  # fmt: skip
    dx, dkernel, drecurrent = np.zeros_like(x), np.zeros_like(kernel), np.zeros_like(recurrent)
    dbias, dextra, dh = (np.zeros(kernel.shape[1], x.dtype) for _ in range(3))
    dh = h_g
    for t, there in reversed(_steps(x, mask, reverse)):
        z, r, n = np.split(gates[:, t], 3, axis=1)
        dh = dh + out_g[:, t]
        old = _before(out, h, t, reverse)
        dn = dh * (1 - z) * (1 - n**2)
        dz = dh * (old - n) * z * (1 - z)
        units = old.shape[1]
        dkept = dn @ recurrent[:, 2 * units :].T
        dr = (dn * candidates[:, t] if reset_after else dkept * old) * r * (1 - r)
        da = np.where(there, np.concatenate([dz, dr, dn], axis=1), 0)
        db = np.where(there, np.concatenate([dz, dr, dn * r], axis=1), 0) if reset_after else da
        dx[:, t] = da @ kernel.T
        dkernel += x[:, t].T @ da
        dbias, dextra = dbias + da.sum(axis=0), dextra + db.sum(axis=0)
        if reset_after:
            drecurrent += old.T @ db
            left = dh * z + db @ recurrent.T
        else:
            drecurrent[:, : 2 * units] += old.T @ db[:, : 2 * units]
            drecurrent[:, 2 * units :] += candidates[:, t].T @ db[:, 2 * units :]
            left = dh * z + dkept * r + db[:, : 2 * units] @ recurrent[:, : 2 * units].T
        dh = np.where(there, left, dh)
    return dx, dh, dkernel, drecurrent, dbias, dextra


def _gradient_samples(gates: int, states: int, run: Any, **how: Any) -> Iterator[Sample]:
    for mask, reverse in itertools.product((None, _MASK), (False, True)):
        full, biases = _inputs(gates, states, 0), (None,) * (3 - states)
        out, *results = run(*full, *biases, mask, reverse=reverse, **how)
        cotangents = (normal(3, 4, 3, seed=8), *(normal(3, 3, seed=9 + i) for i in range(states)))
        note = f"mask {mask is not None}, reverse {reverse}"
        inputs = (*full, mask, out, *results[states:], *cotangents)
        yield call(*inputs, reverse=reverse, **how, dtypes=("float32", "float64"), note=note)


def _gradient_terms(reference: Any, states: int) -> Any:
    """The gradients of the weights are sums over items and steps, the others over steps."""

    def scale(x: Array, *rest: Array, **how: Any) -> Any:
        sizes = [1 + np.abs(v).max(initial=0) for v in (x, *rest) if v is not None]
        worst = float(np.prod([max(sizes), sizes[0], sizes[-1]]))
        found = reference(x, *rest, **how)
        items, steps = x.shape[:2]
        terms = [steps if i <= states else items * steps for i in range(len(found))]
        return tuple(np.full(y.shape, n * worst) for y, n in zip(found, terms, strict=True))

    return scale


_STEPS = {"large": "the reference takes one step at a time"}
for _name, _reference, _states, _found in (
    ("lstm_gradient", _lstm_gradient, 2, [*_gradient_samples(4, 2, _run_lstm)]),
    (
        "gru_gradient",
        _gru_gradient,
        1,
        [*_gradient_samples(3, 1, _run_gru), *_gradient_samples(3, 1, _run_gru, reset_after=False)],
    ),
):
    _scale = _gradient_terms(_reference, _states)
    suite(_name, _reference, scale=_scale, items=_ITEMS, without=_STEPS)(*_found)
