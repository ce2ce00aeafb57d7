"""Graphs that look alike: compiled backward passes compared with plain ones, bit for bit.

A family is one op (here) or one random graph (`replay_programs`) in many variants: other shapes,
dtypes, attributes that compare equal, layouts, devices, orders of calls, sources. All variants of a
family take turns with one store of compiled passes, which keeps every pass that it makes and tries
all of them.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

import pullback as pb
from pullback._autodiff import replay
from pullback._tree import leaves
from pullback.devices import Device, as_device
from pullback.dtypes import is_floating
from pullback.plugins.records import Kernel
from pullback.spec import OPS
from pullback.tensor import Tensor
from pullback_conformance.case import Case, cases, to_tensor
from pullback_conformance.layouts import LAYOUTS
from pullback_conformance.samples import load
from pullback_numpy import NumPyBackend

#: A run of a graph under a tape: returns gradients.
Run: TypeAlias = Callable[[], Sequence[Tensor | None]]
#: The cases of every op, by the op's name.
Table: TypeAlias = dict[str, list[Case]]
#: What is compared of a gradient: device, dtype, shape and bits.
Bits: TypeAlias = tuple[str, str, tuple[int, ...], bytes]


_TWIN_KERNELS: dict[str, Kernel] = {
    **NumPyBackend.kernels,
    "negative": lambda x: np.subtract(x.dtype.type(0), x),
    "cos": lambda x: np.sin(x + x.dtype.type(0.5 * np.pi)),
}


class Twin(NumPyBackend):
    """NumPy's kernels under another name; two of them give other bits, which reveals a mix."""

    name = "twin"
    kernels = _TWIN_KERNELS


def devices() -> tuple[Device, Device]:
    """The device of the CPU, and the device of the twin."""
    if "twin" not in {backend.name for backend in pb.backends()}:
        pb.register_backend(Twin())
    return as_device("cpu"), as_device("twin")


# Bits ---------------------------------------------------------------------------------------------


def bits(gradient: Tensor | None) -> Bits | None:
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
    and a trace (`traced`), and the variants that raise without compiled code (`rejected`).
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        self.different: list[tuple[Run, object, object]] = []
        self._on = False
        gradients, traced = replay.gradients, replay._traced

        def switched(*args: Any) -> Any:
            if not self._on:
                return None
            results = gradients(*args)
            if results is not None:
                self.counts["answered"] += 1
            return results

        def counted(*args: Any) -> Any:
            results = traced(*args)
            self.counts["traced"] += results[0] is not None
            return results

        monkeypatch.setattr(replay, "gradients", switched)
        monkeypatch.setattr(replay, "_traced", counted)
        monkeypatch.setattr(replay, "PATIENCE", 1)
        monkeypatch.setattr(replay, "_ALIKE", 10_000)
        monkeypatch.setattr(replay, "_IN_ALL", 1_000_000)
        self._monkeypatch = monkeypatch

    @property
    def replayed(self) -> int:
        """The number of gradients that compiled code gave without a trace."""
        return self.counts["answered"] - self.counts["traced"]

    def _run(self, variant: Run, on: bool) -> tuple[Bits | None, ...] | type[Exception]:
        self._on = on
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return tuple(map(bits, variant()))
        except (pb.errors.PullbackError, TypeError, ValueError, ArithmeticError) as error:
            return type(error)
        finally:
            self._on = False

    def family(self, variants: Sequence[Run], rng: np.random.Generator, rounds: int) -> None:
        """Runs all variants in turns, `rounds` times; kernels change in the middle."""
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

    def _in_turns(self, variants: Sequence[Run], rng: np.random.Generator, rounds: int) -> None:
        expected = [self._run(variant, False) for variant in variants]
        for _ in range(rounds):
            for i in rng.permutation(len(variants)):
                results = self._run(variants[i], True)
                self.counts["gradients"] += 1
                self.counts["rejected"] += isinstance(expected[i], type)
                if results != expected[i]:
                    self.different.append((variants[i], expected[i], results))


# One op -------------------------------------------------------------------------------------------

#: From a result of an op to the target of the gradient.
TAILS: dict[str, Callable[[Tensor], Tensor]] = {
    "itself": lambda y: y,
    "sum": pb.sum,
    "mean": pb.mean,
    "negative": pb.negative,
    "times itself": lambda y: y * y,
    "half of it": lambda y: pb.sum(y * 0.5),
    "flipped": lambda y: pb.flip(y, axis=None),
}
LAID_OUT: dict[str, Callable[[Any], Any]] = {"row-major": lambda x: x, **LAYOUTS}


class Alone:
    """One sample of one op: its case, the layout of its inputs, and the ops before and after it."""

    def __init__(
        self,
        case: Case,
        layout: str,
        tail: str,
        output: int,
        head: float | None,
        is_given: bool,
    ) -> None:
        self.case, self.layout, self.tail, self.output, self.head = case, layout, tail, output, head
        self.is_given = is_given  #: whether the caller gives the cotangent

    def __repr__(self) -> str:
        return (
            f"{self.case} {self.layout}, {self.tail} of {self.output}, {self.head}, {self.is_given}"
        )

    def inputs(self) -> list[Any]:
        """The inputs of the case as tensors in the layout."""
        lay = LAID_OUT[self.layout]

        def made(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return [made(item) for item in value]
            return to_tensor(lay(value), self.case.device, copy=False)

        return [made(value) for value in self.case.inputs]

    def __call__(self) -> Sequence[Tensor | None]:
        inputs = self.inputs()
        floating = [t for t in leaves(inputs) if isinstance(t, Tensor) and is_floating(t.dtype)]
        with pb.GradientTape() as tape:
            tape.watch(floating)
            if self.head:
                inputs = [self._through(value) for value in inputs]
            results = [t for t in leaves(self.case.call(inputs)) if is_floating(t.dtype)]
            target = TAILS[self.tail](results[self.output % len(results)])
        given = pb.cos(target) + 1 if self.is_given else None
        gradients: list[Tensor | None] = tape.gradient(target, floating, output_gradients=given)
        return gradients

    def _through(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._through(item) for item in value]
        if self.head is None or not isinstance(value, Tensor) or not is_floating(value.dtype):
            return value
        return value * self.head


def table(device: Device) -> Table:
    """The cases of every op that has a gradient, by the op's name."""
    by_op: Table = {}
    for name, suite in load().items():
        if OPS[name].differentiable:
            floating = [case for case in cases(OPS[name], suite, device) if case.dtype is not None]
            if floating:
                by_op[name] = floating
    return by_op


def alone(tables: Sequence[Table], name: str, count: int, rng: np.random.Generator) -> list[Alone]:
    """Variants of one op: some of its cases on every device, laid out and used in every way."""
    heads = (None, None, 1, True, 1.0)
    variants = []
    for _ in range(count):
        of_op = tables[int(rng.integers(len(tables)))][name]
        variants.append(
            Alone(
                of_op[rng.integers(len(of_op))],
                list(LAID_OUT)[rng.integers(len(LAID_OUT)) if rng.random() < 0.5 else 0],
                list(TAILS)[rng.integers(len(TAILS))],
                int(rng.integers(3)),
                heads[rng.integers(len(heads))],
                bool(rng.random() < 0.4),
            )
        )
    return variants
