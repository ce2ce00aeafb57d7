"""Graphs that look alike: compiled backward passes compared with plain ones, bit for bit.

A family is one op (here) or one random graph (`replay_programs`) in many variants: other shapes,
dtypes, attributes that compare equal, layouts, devices, orders of calls, sources. All variants of a
family take turns with one store of compiled passes, which keeps every pass that it makes and tries
all of them.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import ClassVar

import numpy as np

import pullback as pb
from pullback._autodiff import replay
from pullback._tree import leaves
from pullback.conformance.case import cases, to_tensor
from pullback.conformance.layouts import LAYOUTS
from pullback.conformance.samples import load
from pullback.devices import as_device
from pullback.dtypes import is_floating
from pullback.spec import OPS
from pullback.tensor import Tensor
from pullback_numpy import NumPyBackend


class Twin(NumPyBackend):
    """NumPy's kernels under another name; two of them give other bits, which gives away a mix."""

    name = "twin"
    kernels: ClassVar = {
        **NumPyBackend.kernels,
        "negative": lambda x: np.subtract(x.dtype.type(0), x),
        "cos": lambda x: np.sin(x + x.dtype.type(0.5 * np.pi)),
    }


def devices():
    """The device of the CPU, and that of the twin."""
    if "twin" not in {backend.name for backend in pb.backends()}:
        pb.register_backend(Twin())
    return as_device("cpu"), as_device("twin")


# Bits ---------------------------------------------------------------------------------------------


def bits(gradient):
    """A key that is equal for gradients of the same values (NaN too), shape, dtype and device."""
    if gradient is None:
        return None
    shape, dtype = gradient.shape, gradient.dtype
    flat = np.array(gradient.numpy(), order="C").reshape(-1)
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    flat[flat != flat] = np.nan
    return str(gradient.device), str(dtype), shape, flat.tobytes()


class Comparison:
    """Runs variants with compiled backward passes and without, and counts.

    `counts` has the gradients that were compared, how many of them compiled code gave (`replayed`)
    and a trace (`traced`), and the variants that raise where nothing is compiled (`refused`).
    """

    def __init__(self, monkeypatch):
        self.counts = Counter()
        self.different = []
        self._on = False
        gradients, traced = replay.gradients, replay._traced

        def switched(*args):
            if not self._on:
                return None
            found = gradients(*args)
            if found is not None:
                self.counts["answered"] += 1
            return found

        def counted(*args):
            found = traced(*args)
            self.counts["traced"] += found is not None
            return found

        monkeypatch.setattr(replay, "gradients", switched)
        monkeypatch.setattr(replay, "_traced", counted)
        monkeypatch.setattr(replay, "PATIENCE", 1)
        monkeypatch.setattr(replay, "_ALIKE", 10_000)
        monkeypatch.setattr(replay, "_IN_ALL", 1_000_000)
        self._monkeypatch = monkeypatch

    @property
    def replayed(self):
        return self.counts["answered"] - self.counts["traced"]

    def _run(self, variant, on):
        self._on = on
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return tuple(map(bits, variant()))
        except (pb.errors.PullbackError, TypeError, ValueError, ArithmeticError) as error:
            return type(error)
        finally:
            self._on = False

    def family(self, variants, rng, rounds):
        """All variants in turns, `rounds` times; kernels change in the middle."""
        self._monkeypatch.setattr(replay, "_forms", {})
        backend = as_device("cpu").backend
        for switched in (False, True):
            if switched:
                backend.register_kernel(
                    "negative", lambda x: 0 - x, source="switched", priority=500
                )
            try:
                self._in_turns(variants, rng, rounds)
            finally:
                if switched:
                    backend.unregister_kernels("switched")

    def _in_turns(self, variants, rng, rounds):
        expected = [self._run(one, False) for one in variants]
        for _ in range(rounds):
            for i in rng.permutation(len(variants)):
                found = self._run(variants[i], True)
                self.counts["gradients"] += 1
                self.counts["refused"] += isinstance(expected[i], type)
                if found != expected[i]:
                    self.different.append((variants[i], expected[i], found))


# One op -------------------------------------------------------------------------------------------

#: From the results of an op to what a gradient is asked of.
TAILS = {
    "itself": lambda y: y,
    "sum": pb.sum,
    "mean": pb.mean,
    "negative": pb.negative,
    "times itself": lambda y: y * y,
    "half of it": lambda y: pb.sum(y * 0.5),
    "flipped": lambda y: pb.flip(y, axis=None),
}
LAID_OUT = {"row-major": lambda x: x, **LAYOUTS}


class Alone:
    """One sample of one op: its case, how its inputs lie in memory, and what is done afterwards."""

    def __init__(self, case, layout, tail, output, head):
        self.case, self.layout, self.tail, self.output, self.head = case, layout, tail, output, head

    def __repr__(self):
        return f"{self.case} {self.layout}, {self.tail} of {self.output}, {self.head}"

    def inputs(self):
        lay = LAID_OUT[self.layout]

        def made(value):
            if isinstance(value, (list, tuple)):
                return [made(one) for one in value]
            return to_tensor(lay(value), self.case.device, copy=False)

        return [made(value) for value in self.case.inputs]

    def __call__(self):
        inputs = self.inputs()
        floating = [t for t in leaves(inputs) if isinstance(t, Tensor) and is_floating(t.dtype)]
        with pb.GradientTape() as tape:
            tape.watch(floating)
            if self.head:
                inputs = [self._through(value) for value in inputs]
            results = [t for t in leaves(self.case.call(inputs)) if is_floating(t.dtype)]
            target = TAILS[self.tail](results[self.output % len(results)])
        return tape.gradient(target, floating)

    def _through(self, value):
        if isinstance(value, list):
            return [self._through(one) for one in value]
        return (
            value * self.head if isinstance(value, Tensor) and is_floating(value.dtype) else value
        )


def table(device):
    """The cases of every op that has a gradient, by the op's name."""
    found = {}
    for name, suite in load().items():
        if OPS[name].differentiable:
            some = [case for case in cases(OPS[name], suite, device) if case.dtype is not None]
            if some:
                found[name] = some
    return found


def alone(tables, name, count, rng):
    """Variants of one op: some of its cases on every device, laid out and used in every way."""
    found = []
    for _ in range(count):
        some = tables[rng.integers(len(tables))][name]
        found.append(
            Alone(
                some[rng.integers(len(some))],
                list(LAID_OUT)[rng.integers(len(LAID_OUT)) if rng.random() < 0.5 else 0],
                list(TAILS)[rng.integers(len(TAILS))],
                int(rng.integers(3)),
                [None, None, 1, True, 1.0][rng.integers(5)],
            )
        )
    return found
