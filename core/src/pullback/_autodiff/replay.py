"""Compiled backward passes: traced once for a graph, run for every later graph like it.

A training loop records the same graph at each step. When the backward pass has run over graphs of
one form a few times, it is traced down to the kernels that it calls, simplified, and printed as a
function. The function first compares a recorded graph with the one it was made for (the target's
shape and dtype, ops and their order, links, attributes, and the shape, dtype and device of every
array), then calls the kernels on its arrays. For a graph that differs anywhere, the backward pass
runs op by op; docs/architecture.md says why there is nothing else that a rule can see. So it does
where a trace could not stand for it: custom gradients and ops of other packages, whose rules may be
more than functions of their arguments; rules that look at values; tapes that other tapes record.

This module has the cache. `tracing` makes a pass and its comparison, and `pullback.graph` has all
that happens to the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from pullback import errors
from pullback._autodiff.backward import Interval, Sink
from pullback._dispatch.recording import RECORDING, Node, Output
from pullback.devices import Device
from pullback.plugins.records import Native
from pullback.tensor import Tensor

#: How often graphs of one form run op by op before the backward pass is compiled.
PATIENCE = 2
#: How many compiled passes are kept for one form, how many forms, and how many passes in all.
_ALIKE, _FORMS, _IN_ALL = 4, 4096, 256


class _Form:
    """Graphs that look alike from afar: the passes compiled for them, and how often none fitted."""

    __slots__ = ("built", "misses", "passes")

    def __init__(self) -> None:
        self.passes: list[Callable[..., list[Tensor | None] | None]] = []
        self.misses = 0
        self.built = 0


_forms: dict[tuple[Any, ...], _Form] = {}


def forget() -> None:
    """Drops all compiled passes."""
    _forms.clear()


def gradients(
    target: Any,
    leaves: Sequence[Node | None],
    own: Collection[Node],
    interval: Interval,
    release: bool,
    sink: Sink | None = None,
    cotangent: Tensor | None = None,
) -> list[Tensor | None] | None:
    """The gradient of a target with respect to each source; None if there is no code for it.

    Behind them stand the results of the sink.

    Args:
        target: the tensor whose gradient is wanted.
        leaves: the nodes at which the gradients of the sources are collected.
        own: every leaf that the tape has made.
        interval: the serial numbers between which the tape recorded.
        release: whether nodes are released as the pass goes on.
        sink: what is done with the gradients as a part of the pass.
        cotangent: that of the target; ones if None.
    """
    if type(target) is not Tensor or RECORDING.count:
        return None
    seed = None
    if cotangent is not None:
        seed, value = cotangent._array, target._array
        if (
            cotangent._device is not target._device
            or seed.shape != value.shape
            or seed.dtype != value.dtype
        ):
            return None  # it is converted, or wrong
    node = target._node
    if type(node) is not Node and type(node) is not Output:
        return None
    begin, end = interval
    # The op before the last tells losses apart that end in the same mean.
    parents = node.parents
    behind = parents and parents[0]
    key: tuple[object, ...] = (
        node.op, behind and behind.op, node.serial - begin, len(leaves),
    )  # fmt: skip
    if sink is not None or seed is not None:
        key = (*key, sink and sink.key, seed is None)
    form = _forms.get(key)
    if form is None:
        if len(_forms) >= _FORMS:
            _forms.clear()
        _forms[key] = _Form()
        return None
    for backward_pass in form.passes:
        try:
            computed = backward_pass(target, seed, leaves, begin, end, release)
        except RuntimeWarning as error:
            forget()  # the next passes are made for the filters that there are now
            raise errors.BackendError(
                f"gradient: {error}: a filter that came after the first steps makes errors of "
                "warnings; set it before them, or record and call gradient again"
            ) from error
        if computed is not None:
            return computed
    form.misses += 1
    if form.misses < PATIENCE or form.built > 2 * _ALIKE or set(leaves) != own:
        return None
    if type(target._device) is not Device:
        return None  # a batch of `vmap`, or a trace
    form.built += 1
    gradients, compiled = _traced(target, seed, leaves, own, interval, release, sink)
    if compiled is not None:
        # Another thread may add a form at any time: it must not change what is counted here.
        if sum(len(other.passes) for other in list(_forms.values())) >= _IN_ALL:
            _forms.clear()
            _forms[key] = form
        form.passes.insert(0, compiled)
        del form.passes[_ALIKE:]
    return gradients


def _traced(
    target: Tensor,
    seed: Native | None,
    leaves: Sequence[Any],
    own: Collection[Node],
    interval: Interval,
    release: bool,
    sink: Sink | None,
) -> tuple[list[Tensor | None] | None, Callable[..., list[Tensor | None] | None] | None]:
    # Loaded at the first use: a process that trains little, or not at all, does without.
    from pullback._autodiff.tracing import trace

    return trace(target, seed, leaves, own, interval, release, sink)
