"""Faults to seed into the kernels of the NumPy backend, and ways to write them down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pullback as pb
from pullback import array_api
from pullback._dispatch.general import call_with_residuals
from pullback.spec import OPS
from pullback.tensor import wrap
from pullback_conformance.report import Report
from pullback_conformance.runner import conform
from pullback_numpy import NumPyBackend
from pullback_numpy.kernels import KERNELS, random

Kernel = Callable[..., Any]
#: Makes a faulty kernel of the right one.
Maker = Callable[[Kernel], Kernel]
#: Whether a call meets a condition.
Where = Callable[..., bool]


@dataclass(frozen=True)
class Fault:
    """A faulty backend.

    Args:
        op: the op whose kernel is faulty, and which the kit is run on.
        make: makes the faulty kernel; None if a member of the backend is faulty.
        says: a pattern that the name of a check, its sample and its message must match.
        members: other members of the backend.
    """

    op: str
    make: Maker | None
    says: str
    members: dict[str, Any] = field(default_factory=dict)

    def measure(self, *, quick: bool) -> Report:
        """The report of the faulty backend."""
        table = dict(KERNELS)
        if self.make is not None:
            table[self.op] = self.make(whole(self.op, table.get(self.op)))
        if "compile" in self.members:
            # In a graph the key is an array, which the kernels of NumPy need not take.
            table = {name: kernel for name, kernel in table.items() if name not in random.KERNELS}
            table["random_bits"] = array_api.kernels(np)["random_bits"]
        members = {"name": "faulty", "kernels": table, **self.members}
        pb.register_backend(type("FaultyBackend", (NumPyBackend,), members)(), replace=True)
        return conform("faulty", ops=[self.op], quick=quick)


def body_of(name: str) -> Kernel:
    """The kernel of an op that has none: its body, on the device of the right backend."""
    device = pb.device("numpy:cpu")

    def kernel(*inputs: Any, **attributes: Any) -> Any:
        tensors = [None if x is None else wrap(x, device) for x in inputs]
        found = tuple(y.numpy() for y in call_with_residuals(OPS[name], tensors, attributes))
        return found if len(found) > 1 else found[0]

    return kernel


def whole(name: str, kernel: Kernel | None) -> Kernel:
    """A kernel for all calls: the body takes those that it leaves to others."""
    if kernel is None:
        return body_of(name)

    def taken(*inputs: Any, **attributes: Any) -> Any:
        found = kernel(*inputs, **attributes)
        return body_of(name)(*inputs, **attributes) if found is NotImplemented else found

    return taken


def always(*_: Any, **__: Any) -> bool:
    """Every call."""
    return True


def changed(change: Callable[[Any], Any], where: Where = always) -> Maker:
    """The right result, changed where the call meets the condition."""

    def make(right: Kernel) -> Kernel:
        def kernel(*inputs: Any, **attributes: Any) -> Any:
            result = right(*inputs, **attributes)
            return change(result) if where(*inputs, **attributes) else result

        return kernel

    return make


def other(wrong: Kernel, where: Where = always) -> Maker:
    """Another function where the call meets the condition."""

    def make(right: Kernel) -> Kernel:
        return lambda *x, **a: (wrong if where(*x, **a) else right)(*x, **a)

    return make


def via(change: Callable[..., tuple[Any, ...]], where: Where = always) -> Maker:
    """The right function of other inputs, change(*inputs), where the call meets the condition."""

    def make(right: Kernel) -> Kernel:
        return lambda *x, **a: right(*(change(*x) if where(*x, **a) else x), **a)

    return make


def called_with(where: Where = always, **attributes: Any) -> Maker:
    """The right function with other attributes where the call meets the condition."""

    def make(right: Kernel) -> Kernel:
        return lambda *x, **a: right(*x, **({**a, **attributes} if where(*x, **a) else a))

    return make


def first_result(change: Callable[[Any], Any], where: Where = always) -> Maker:
    """The first of several results changed where the call meets the condition."""
    return changed(lambda results: (change(results[0]), *results[1:]), where)


def of_result(change: Callable[..., Any]) -> Maker:
    """change(result, *inputs, **attributes) for every call."""

    def make(right: Kernel) -> Kernel:
        return lambda *x, **a: change(right(*x, **a), *x, **a)

    return make


def elements(result: Any, mask: Any, value: Any) -> Any:
    """The result with another value where the mask is True."""
    return np.asarray(np.where(mask, value, result), np.asarray(result).dtype)


def nudged(result: Any) -> Any:
    """The result with its last elements changed, by more than any bound."""
    result = np.array(result, order="C")
    flat = result.reshape(-1)[-8:]
    with np.errstate(all="ignore"):
        flat[...] = ~flat if result.dtype == np.bool_ else flat * 2 + 1
    return result
