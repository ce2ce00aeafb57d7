"""Layouts that only the device itself can make, and memory that it gives back.

A library that copies what comes from the host has no other layout than its own until an op returns
one: a turned, reversed or repeated array is then an input of the next op.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback._tree import each
from pullback.ops.manipulation import broadcast_to, flip, permute_dims
from pullback.tensor import Tensor
from pullback_conformance.case import Case, to_tensor
from pullback_conformance.checks import differs_for_equal, has_layouts, value_of
from pullback_conformance.compare import require
from pullback_conformance.layouts import LAYOUTS, REPEATED
from pullback_conformance.registry import Area, check
from pullback_conformance.sample import Array

#: Makes a tensor of an array of the host.
Put: TypeAlias = Callable[[Array], Tensor]
#: The name of the layout that changes the values.
_REPEATED = "repeated"


def _turned(x: Array, put: Put) -> Tensor:
    return permute_dims(put(np.ascontiguousarray(x.T)), tuple(range(x.ndim))[::-1])


def _reversed(x: Array, put: Put) -> Tensor:
    return flip(put(np.ascontiguousarray(np.flip(x))))


def _stepped(x: Array, put: Put) -> Tensor:
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    tensor: Tensor = put(wide)[..., ::2]
    return tensor


def _parts(x: Array, put: Put) -> Tensor:
    wide = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
    wide[..., 1:-2] = x
    tensor: Tensor = put(wide)[..., 1:-2]
    return tensor


def _repeated(x: Array, put: Put) -> Tensor:
    # The values are those of the layout of this name of the host.
    return broadcast_to(put(np.array(x[..., :1])), x.shape) if x.shape[-1] else put(x)


def _every_second(x: Array, put: Put) -> Tensor:
    wide = np.zeros((2 * x.shape[0], *x.shape[1:]), x.dtype)
    wide[::2] = x
    tensor: Tensor = put(wide)[::2]
    return tensor


def _exchanged(x: Array, put: Put) -> Tensor:
    if x.ndim < 3:
        return put(x)
    order = (0, *range(2, x.ndim), 1)
    turned = put(np.ascontiguousarray(np.transpose(x, order)))
    return permute_dims(turned, tuple(int(i) for i in np.argsort(order)))


_LAID: dict[str, Callable[[Array, Put], Tensor]] = {
    "column-major": _turned,
    "reversed": _reversed,
    "strided": _stepped,
    "parts of rows": _parts,
    "every second item": _every_second,
    "axes exchanged": _exchanged,
    _REPEATED: _repeated,
}
#: The layouts of the host and the device with the same values.
_KEEPING = [name for name in {**LAYOUTS, **_LAID} if name not in REPEATED]


@check(Area.EDGES, per="kind", applies=has_layouts, by_value=True)
def laid_out_there(case: Case) -> None:
    """Checks the result for inputs that the device's own ops have laid out."""

    def put(array: Array) -> Tensor:
        tensor: Tensor = to_tensor(array, case.device)
        return tensor

    for name, lay in _LAID.items():
        if name == _REPEATED and differs_for_equal(case):
            continue

        def laid(value: object, lay: Callable[[Array, Put], Tensor] = lay) -> Any:
            if isinstance(value, np.ndarray) and value.ndim:
                return lay(value, put)
            return to_tensor(value, case.device)

        measured = case.laid_out(LAYOUTS[_REPEATED]) if name == _REPEATED else case
        try:
            inputs = [each(laid, value) for value in case.inputs]
        except errors.MissingKernelError:
            return  # of an op that the backend does not claim
        words = f"the result for {name} inputs, laid out on the device"
        value_of(measured, measured.call(inputs), words)


def is_random(case: Case) -> bool:
    """Returns whether the call is a random one, with an input that is an array with axes."""
    return case.sample.seed is not None and has_layouts(case)


@check(Area.EDGES, applies=is_random, by_value=True)
def each_laid_out(case: Case) -> None:
    """Checks the result of a random call whose inputs have layouts of their own, drawn as well."""
    rng = np.random.default_rng([case.sample.seed or 0, 17])
    names = []

    def laid(value: object) -> Any:
        if not (isinstance(value, np.ndarray) and value.ndim) or rng.random() < 0.3:
            return to_tensor(value, case.device)
        repeated: Any = LAYOUTS[_REPEATED](value)
        if value.size and value.tobytes() == repeated.tobytes():
            name = _REPEATED
        else:
            name = _KEEPING[rng.integers(len(_KEEPING))]
        names.append(name)
        if name in _LAID and rng.random() < 0.7:
            with contextlib.suppress(errors.MissingKernelError):  # an op that is not claimed
                return _LAID[name](value, lambda x: to_tensor(x, case.device))
        return to_tensor(LAYOUTS[name](value), case.device, copy=False)

    inputs = [each(laid, value) for value in case.inputs]
    words = f" for inputs that are {', '.join(names)}" if names else ""
    value_of(case, case.call(inputs), f"the result{words}")


@check(Area.EDGES, per="size")
def freed(case: Case) -> None:
    """Checks that the arrays of a result are freed with it."""
    outputs = case.call()
    several = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    try:
        held = [weakref.ref(tensor._array) for tensor in several if type(tensor) is Tensor]
    except TypeError:
        return  # arrays that cannot be watched
    del outputs, several
    if any(array() is not None for array in held):
        gc.collect()
    kept = sum(array() is not None for array in held)
    require(not kept, case, f"{kept} of {len(held)} arrays of the result are not freed with it")
