"""One op call, in full generality: the reference for the straight-line code of `generate`.

The four cases of an op, on a device:
  kernel                     call it, record one node
  no kernel, but a rule      run the body unrecorded, record one node
  no kernel, no rule         run the body and let the tape hear the ops inside
  kernel, no rule            run the kernel; the body, where the result is to be differentiated
"""

from __future__ import annotations

import functools
import weakref
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from pullback import errors
from pullback._dispatch.arguments import (
    asked_dtypes,
    explain,
    fail,
    for_dtype,
    inside,
    lacks,
    normalise,
    of_a_handler,
)
from pullback._dispatch.convert import (
    SCALAR_TYPES,
    as_tensor,
    counts,
    gather,
    is_cached,
    sequences,
    unflatten,
)
from pullback._dispatch.recording import (
    HEARD,
    HOOKS,
    LISTENING,
    LOCAL,
    Node,
    Output,
    may_record,
    paused,
    reachable,
)
from pullback._dispatch.results import native_arrays
from pullback._operators import OPERATORS
from pullback.devices import Device
from pullback.dtypes import is_floating
from pullback.spec import Arity, Op, Rule
from pullback.tensor import Tensor, wrap

_CACHED_SCALARS = 256


def align(op: Op, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs of an op without sequences, as tensors of the right dtypes on one device."""
    read = []
    for one, value in zip(op.inputs, values, strict=True):
        found = None if value is None else as_tensor(value)
        if found is None and (value is not None or one.arity is not Arity.OPTIONAL):
            break
        read.append(found)
    else:
        # Tensors and variables: the caller compares dtypes and devices itself.
        return tuple(read)
    flat, _ = gather(op, values)
    if len(values) == 2:
        left = type(values[0]) is Tensor
        tensor, scalar = values if left else values[::-1]
        if type(tensor) is Tensor and type(scalar) in SCALAR_TYPES and scalar != 0:
            aligned = flat[1] if left else flat[0]
            if is_cached(scalar) and aligned.dtype == tensor.dtype:
                # The straight-line code looks here before it calls.
                if len(op.scalars) >= _CACHED_SCALARS:
                    op.scalars.clear()
                key = (scalar, type(scalar), tensor._device, tensor._array.dtype)
                op.scalars[key if left else (*key, True)] = aligned
    return tuple(flat)


def call(op: Op, values: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Calls an op.

    Args:
        op: the op.
        values: one per input, as the caller gave them.
        attributes: every attribute, as the caller gave it.
    """
    if not op.simple:
        values = sequences(op, values)
    flat, device = gather(op, values)
    lengths = counts(op, values)
    inputs = unflatten(flat, lengths)
    try:
        attributes = normalise(op, inputs, attributes)
    except Exception as error:
        fail(op, error, tuple(inputs), attributes)
    if "device" in attributes:
        device = attributes["device"]
        lacking = lacks(op, device, attributes)
        if lacking is not None:
            raise lacking

    kernel = find(op, device, flat, attributes)
    tracked = LISTENING.count != 0 and any(t is not None and may_record(t._node) for t in flat)
    if kernel is None or (tracked and op.differentiable and not op.rules and not op.primitive):
        if op.primitive:
            raise _missing_kernel(op, device, for_dtype(flat))
        if not (tracked and (op.rules or not op.differentiable)):
            found = _own(without_residuals(op, run_body(op, inputs, attributes)), flat)
            return found if len(op.outputs) == 1 else named(op, found)
        with paused():
            result = run_body(op, inputs, attributes)
        results = result if isinstance(result, (tuple, list)) else (result,)
        arrays = [tensor._array for tensor in results]
    else:
        arrays = run_kernel(op, kernel, inputs, attributes, device)

    hidden = len(op.residuals)
    outputs = arrays[: len(arrays) - hidden] if hidden else arrays
    residuals = arrays[len(arrays) - hidden :] if hidden else []
    tensors = [wrap(array, device) for array in outputs]
    if LISTENING.count:
        for tensor in tensors:
            tensor._node = HEARD
        if tracked and op.rules:
            record(op, inputs, tensors, residuals, attributes, device)
    if len(op.outputs) == 1:
        return tensors[0]
    return named(op, tensors)


def named(op: Op, results: Sequence[Tensor]) -> Any:
    """Several results as a tuple with a name for each: `pb.linalg.qr(x).Q`."""
    return result_type(op)._make(results)


@functools.cache
def result_type(op: Op) -> Any:
    """The type of several results of an op."""
    words = op.name.strip("_").split("_")
    return namedtuple("".join(map(str.capitalize, words)) + "Result", op.outputs)


def _own(result: Any, flat: Sequence[Tensor | None]) -> Any:
    """The result of a body, as handles that are none of the inputs': `x[0] = 1` changes x alone."""
    if isinstance(result, Tensor):
        taken = any(result is tensor for tensor in flat)
        return wrap(result._array, result._device, result._node) if taken else result
    return tuple(_own(one, flat) for one in result)


def without_residuals(op: Op, result: Any) -> Any:
    """The result of a body without its residuals."""
    if not op.residuals:
        return result
    outputs = result[: len(op.outputs)]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _missing_kernel(op: Op, device: Device, dtype: str = "") -> errors.MissingKernelError:
    error = errors.MissingKernelError(
        f"{op.name}: the backend {device.backend.name!r} has no kernel for this primitive of the "
        f"{op.tier} tier{dtype}; use another device, or a kernel pack"
    )
    error.tier = op.tier
    return error


def run_body(op: Op, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """The op's decomposition, for inputs and attributes in their normal form."""
    if op.primitive:
        raise errors.MissingKernelError(
            f"{op.name}: a primitive has no body to fall back on: {op.why}"
        )
    code = op.body.__code__
    given = dict(attributes)
    for one, value in zip(op.inputs, inputs, strict=True):
        given[one.name] = value
    positional = [given.pop(name) for name in code.co_varnames[: code.co_posonlyargcount]]
    try:
        return op.body(*positional, **given)
    except Exception as error:
        if getattr(error, "op", None) == op.name or of_a_handler(error):
            raise
        # The op that the caller named explains its shapes better than one inside its body.
        explained = explain(op, tuple(inputs), attributes)
        if explained is not None:
            raise explained from error.__cause__
        if isinstance(error, errors.PullbackError):
            raise inside(op, error) from error.__cause__
        fail(op, error, tuple(inputs), attributes)


def run_kernel(
    op: Op, kernel: Any, inputs: list[Any], attributes: dict[str, Any], device: Device
) -> list[Any]:
    """What a kernel gives for aligned inputs: native arrays, the residuals last."""
    native = [
        [t._array for t in value]
        if isinstance(value, list)
        else (None if value is None else value._array)
        for value in inputs
    ]
    keywords = attributes
    if "device" in attributes:
        keywords = {**attributes, "device": device.native}
    try:
        result = kernel(*native, **keywords)
    except Exception as error:
        fail(op, error, tuple(inputs), attributes)
    return native_arrays(op, device, kernel, native, result)


def find(op: Op, device: Device, flat: Sequence[Tensor | None], attributes: dict[str, Any]) -> Any:
    """The kernel for this call, or None; from now on the straight-line code finds it too."""
    while len(device.tables) <= op.index:
        device.tables.append({})
    table = device.tables[op.index]  # before the look-up: what changes meanwhile brings a new one
    first = next((tensor for tensor in flat if tensor is not None), None)
    kernel = device.backend.kernel(op.name, None if first is None else first.dtype)
    if kernel is None:
        return None
    key: Any
    if first is None:
        key = tuple(attributes[name] for name in asked_dtypes(op))
    elif op.dtype.uniform or len(flat) == 1:
        key = first._array.dtype
    else:
        key = tuple(None if t is None else t._array.dtype for t in flat)
    table[key] = kernel
    return kernel


# ---------------------------------------------------------------------------------------------
# Recording and pulling back.


def record(
    op: Op,
    inputs: list[Any],
    outputs: list[Tensor],
    residuals: list[Any],
    attributes: dict[str, Any],
    device: Device,
) -> None:
    """Hangs a node on the outputs, with what the rules of the tracked inputs ask for."""
    state = LOCAL.state
    if not state.recording:
        return
    if op.fixed:
        nodes = [None if value is None else value._node for value in inputs]
        arrays = [None if value is None else value._array for value in inputs]
        results = [tensor._array for tensor in outputs] + residuals
        given = [attributes[attribute.name] for attribute in op.attributes]
        made = op.record(*nodes, *arrays, *results, device, *given)
        for tensor, node in zip(outputs, made if len(outputs) > 1 else [made], strict=True):
            tensor._node = node
        return
    low = state.low
    parents: list[Node | None] = []
    needs: dict[str, None] = {}
    for one, value in zip(op.inputs, inputs, strict=True):
        rule = op.rules.get(one.name)
        nodes = [
            None
            if rule is None or tensor is None or tensor._node is None
            else reachable(tensor._node, low)
            for tensor in (value if type(value) is list else (value,))
        ]
        parents += nodes
        if rule is not None and any(nodes):
            needs.update(dict.fromkeys(rule.needs))
    if not needs and not any(parents):
        return
    if op.residuals:
        # In higher orders a residual has a cotangent of its own, which only the body can pull back.
        needs.update(dict.fromkeys([one.name for one in op.inputs]))
    needs.pop("wanted", None)
    node = Node()
    node.serial = state.tick()
    node.op = op
    node.parents = tuple(parents)
    node.device = device
    # What the results carry, by position: the node must not keep them alive.
    marks: dict[int, weakref.ref[Node]] = {}
    kinds = [(tensor.shape, tensor.dtype) for tensor in outputs]
    sources = _sources(op)
    all_given = inputs, [tensor._array for tensor in outputs] + residuals, attributes
    saved = {need: _saved(*sources[need], all_given) for need in needs}
    node.saved = (counts(op, tuple(inputs)), saved, kinds, attributes, marks)
    if len(outputs) == 1 and not residuals:
        outputs[0]._node = node
        return
    for position, tensor in enumerate(outputs):
        if is_floating(kinds[position][1]):
            tensor._node = mark = Output(state.tick(), node, position)
            marks[position] = weakref.ref(mark)


@functools.cache
def _sources(op: Op) -> dict[str, tuple[int, Any, str]]:
    """Where what a rule may name is found: among what (see `_saved`), which, and what of it."""
    found: dict[str, tuple[int, Any, str]] = {}
    for i, one in enumerate(op.inputs):
        found[one.name] = (0, i, "_array")
        found[f"{one.name}_shape"] = (0, i, "shape")
        found[f"{one.name}_dtype"] = (0, i, "dtype")
    for i, name in enumerate((*op.outputs, *op.residuals)):
        found[name] = (1, i, "")
    for attribute in op.attributes:
        found[attribute.name] = (2, attribute.name, "")
    return found


def _saved(place: int, which: Any, part: str, given: tuple[Any, ...]) -> Any:
    """What a node keeps: of the inputs, results (residuals last) or attributes."""
    value = given[place][which]
    if not part or value is None:
        return value
    if type(value) is list:
        return [getattr(tensor, part) for tensor in value]
    return getattr(value, part)


def pull(node: Node, g: Any, needed: Any) -> list[tuple[Node, Tensor]]:
    """The cotangents of a node's inputs, each with its node, from those of its results.

    Args:
        node: a node that `record` made.
        g: the cotangent of the result; for several results, or residuals, a dict by position.
        needed: the nodes whose cotangents are wanted; None for all.
    """
    op = node.op
    assert op is not None
    lengths, saved, outputs, attributes, marks = node.saved
    device = node.device
    names = [one.name for one in op.inputs]
    parents = unflatten(list(node.parents), lengths)
    nodes: dict[str, Any] = dict(zip(names, parents, strict=True))
    if isinstance(g, dict):
        nodes.update(_output_nodes(op, node, marks))
        if any(position >= len(outputs) for position in g):
            return pairs(node, _pull_body(op, saved, nodes, attributes, g, lengths, device))
        parts = tuple(
            g[position] if position in g else OPERATORS.full(shape, 0, dtype=dtype, device=device)
            for position, (shape, dtype) in enumerate(outputs)
        )
        g = parts if len(parts) > 1 else parts[0]
    else:
        nodes[op.outputs[0]] = node
    wanted = {
        name: any(
            n is not None and (needed is None or n in needed)
            for n in (value if isinstance(value, list) else [value])
        )
        for name, value in zip(names, parents, strict=True)
    }

    def need(rule: Rule, name: str) -> Any:
        if name == "wanted":
            return tuple(wanted[target] for target in rule.targets)
        return _restore(saved[name], nodes[name], device) if name in nodes else saved[name]

    results: dict[str, Any] = {}
    for name in names:
        rule = op.rules.get(name)
        if rule is None or not wanted[name] or name in results:
            continue
        split = rule.function.__code__.co_argcount - 1
        values = [need(rule, each) for each in rule.needs]
        named = dict(zip(rule.needs[split:], values[split:], strict=True))
        result = rule.function(g, *values[:split], **named)
        results.update(
            zip(rule.targets, result, strict=True) if rule.joint else {rule.targets[0]: result}
        )
    flat: list[Tensor | None] = []
    for name, length in zip(names, lengths, strict=True):
        value = results.get(name)
        if length is None:
            flat.append(value)
        else:
            flat += [None] * length if value is None else list(value)
    return pairs(node, flat)


def pairs(node: Node, flat: Sequence[Tensor | None]) -> list[tuple[Node, Tensor]]:
    """The cotangents that there are, each with the node of the input that it belongs to."""
    return [
        (parent, part)
        for parent, part in zip(node.parents, flat, strict=True)
        if parent is not None and part is not None
    ]


def _restore(value: Any, node: Any, device: Device) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [wrap(array, device, n) for array, n in zip(value, node, strict=True)]
    return wrap(value, device, node)


def _output_nodes(op: Op, node: Node, marks: dict[int, weakref.ref[Node]]) -> dict[str, Any]:
    # Results and residuals as the rules see them: for a tape further out, each is a result of
    # `node` again, and the very tensor that the caller has as long as there is one.
    tick = LOCAL.state.tick
    found: dict[str, Any] = {}
    for position, name in enumerate((*op.outputs, *op.residuals)):
        mark = marks[position]() if position in marks else None
        found[name] = Output(tick(), node, position) if mark is None else mark
    return found


def _pull_body(
    op: Op,
    saved: dict[str, Any],
    nodes: dict[str, Any],
    attributes: dict[str, Any],
    g: dict[int, Tensor],
    lengths: tuple[int | None, ...],
    device: Device,
) -> list[Tensor | None]:
    """The cotangents through the body: the rule knows nothing of a residual's cotangent."""
    flat: list[Any] = []
    for one in op.inputs:
        value = _restore(saved[one.name], nodes[one.name], device)
        flat += value if isinstance(value, list) else [value]
    present = [i for i, value in enumerate(flat) if value is not None and is_floating(value.dtype)]

    def run(*given: Tensor) -> list[Tensor]:
        again = list(flat)
        for i, value in zip(present, given, strict=True):
            again[i] = value
        result = run_body(op, unflatten(again, lengths), attributes)
        return [result[position] for position in g]

    cotangents = HOOKS.vjp(run, [flat[i] for i in present], list(g.values()))
    pulled: list[Tensor | None] = [None] * len(flat)
    for i, cotangent in zip(present, cotangents, strict=True):
        pulled[i] = cotangent
    return pulled
