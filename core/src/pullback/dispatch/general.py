"""One op call, in full generality: the reference for the straight-line code of `generate`.

The four cases of an op, on a device:
  kernel                     call it, record one node
  no kernel, but a rule      run the body unrecorded, record one node
  no kernel, no rule         run the body and let the tape hear the ops inside
  kernel, no rule            run the kernel, unless the result is to be differentiated: then the body
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from pullback import errors, shapes
from pullback.devices import Device, as_device
from pullback.dispatch.convert import SCALAR_TYPES, counts, gather, is_cached, unflatten
from pullback.dispatch.recording import (
    HEARD,
    LISTENING,
    LOCAL,
    Node,
    Output,
    may_record,
    paused,
    reachable,
)
from pullback.dtypes import as_dtype, is_floating
from pullback.spec import Arity, Op, Rule
from pullback.tensor import CALL, Tensor, wrap


def align(op: Op, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs of an op without sequences, as tensors of the right dtypes on one device."""
    if len(values) == 2:
        # A tensor and a Python number, over and over: both look-ups are of what `gather` left.
        x1, x2 = values
        left = type(x1) is Tensor
        tensor, scalar = (x1, x2) if left else (x2, x1)
        if type(tensor) is Tensor:
            native = tensor._array.dtype
            kind = type(scalar)
            if (native, kind, left) in op.resolutions:
                found = tensor._device.constants.get((scalar, kind, native))
                if found is not None:
                    return (tensor, found) if left else (found, tensor)
    flat, device = gather(op, values)
    if len(values) == 2 and type(tensor) is Tensor and kind in SCALAR_TYPES:
        aligned = flat[1] if left else flat[0]
        if aligned.dtype == tensor.dtype and is_cached(scalar):
            op.resolutions[native, kind, left] = True
            device.constants[scalar, kind, native] = aligned
    return tuple(flat)


def call(op: Op, values: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Calls an op.

    Args:
        op: the op.
        values: one per input, as the caller gave them.
        attributes: every attribute, as the caller gave it.
    """
    flat, device = gather(op, values)
    lengths = counts(op, values)
    inputs = unflatten(flat, lengths)
    try:
        attributes = normalise(op, inputs, attributes)
    except Exception as error:
        fail(op, error, tuple(inputs), attributes)
    if "device" in attributes:
        device = attributes["device"]

    kernel = find(op, device, flat)
    tracked = LISTENING.count != 0 and any(t is not None and may_record(t._node) for t in flat)
    if kernel is None or (tracked and op.differentiable and not op.rules and not op.primitive):
        if op.primitive:
            raise errors.MissingKernelError(
                f"{op.name}: the backend {device.backend.name!r} has no kernel for this primitive "
                f"of the {op.tier} tier{_for_dtype(flat)}; use another device, or a kernel pack"
            )
        if not (op.rules and tracked):
            return _without(op, _body(op, inputs, attributes))
        with paused():
            result = _body(op, inputs, attributes)
        results = result if isinstance(result, (tuple, list)) else (result,)
        arrays = [tensor._array for tensor in results]
    else:
        arrays = _run(op, kernel, inputs, attributes, device)

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
    return tuple(tensors)


def _without(op: Op, result: Any) -> Any:
    """The result of a body without its residuals."""
    if not op.residuals:
        return result
    outputs = result[: len(op.outputs)]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _body(op: Op, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    code = op.body.__code__
    given = dict(attributes)
    for one, value in zip(op.inputs, inputs, strict=True):
        given[one.name] = value
    positional = [given.pop(name) for name in code.co_varnames[: code.co_posonlyargcount]]
    try:
        return op.body(*positional, **given)
    except errors.PullbackError as error:
        # The op that the caller named explains its shapes better than one inside its body.
        explained = explain(op, tuple(inputs), attributes)
        if explained is not None and getattr(error, "op", None) != op.name:
            raise explained from None
        raise


def _run(
    op: Op, kernel: Any, inputs: list[Any], attributes: dict[str, Any], device: Device
) -> list[Any]:
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
    arrays = list(result) if isinstance(result, (tuple, list)) else [result]
    expected = len(op.outputs) + len(op.residuals)
    if len(op.outputs) > 1 or op.residuals:
        if len(arrays) != expected:
            raise errors.BackendError(
                f"{op.name}: the kernel of {device.backend.name!r} returned {len(arrays)} arrays, "
                f"not the {expected} that the op defines"
            )
    native_dtypes = device.backend.public_dtypes
    kind = next((type(a) for a in native if a is not None and not isinstance(a, list)), None)
    for i, array in enumerate(arrays):
        if kind is not None and type(array) is not kind:
            arrays[i] = device.backend.native(array)
        elif getattr(array, "dtype", None) not in native_dtypes:
            arrays[i] = device.backend.native(array)
    return arrays


def find(op: Op, device: Device, flat: Sequence[Tensor | None]) -> Any:
    """The kernel for these inputs, or None; from now on the straight-line code finds it too."""
    first = next((tensor for tensor in flat if tensor is not None), None)
    kernel = device.backend.kernel(op.name, None if first is None else first.dtype)
    if kernel is not None and first is not None:
        tables = device.tables
        while len(tables) <= op.index:
            tables.append({})
        if getattr(op.dtype, "uniform", False) or len(flat) == 1:
            tables[op.index][first._array.dtype] = kernel
        else:
            key = tuple(None if t is None else t._array.dtype for t in flat)
            tables[op.index][key] = kernel
    return kernel


def normalise(op: Op, inputs: list[Any], attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes in the form that kernels and bodies are given."""
    result = dict(attributes)
    for attribute in op.attributes:
        value = result[attribute.name]
        form = attribute.form
        if form == "DeviceLike":
            result[attribute.name] = as_device(value)
        elif value is None:
            continue
        elif form in ("Axis", "Axes"):
            ndim = _leading(inputs).ndim
            normal = shapes.normal_axis if form == "Axis" else shapes.normal_axes
            result[attribute.name] = normal(value, ndim)
        elif form == "ShapeLike":
            result[attribute.name] = shapes.as_shape(value)
        elif form == "DTypeLike":
            result[attribute.name] = as_dtype(value)
    if op.normalize is not None:
        result = op.normalize(shapes_of(inputs), **result)
    return result


def _leading(inputs: list[Any]) -> Tensor:
    first = inputs[0]
    if isinstance(first, list):
        if not first:
            raise errors.InputValueError("needs at least one tensor, got an empty sequence")
        first = first[0]
    assert isinstance(first, Tensor)
    return first


def shapes_of(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """What a shape rule gets for the inputs."""
    return tuple(
        [t.shape for t in value]
        if isinstance(value, (list, tuple))
        else (None if value is None else value.shape)
        for value in inputs
    )


# ---------------------------------------------------------------------------------------------
# Errors.


def explain(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Exception | None:
    """The error that the op's own rules give for this call; None if they find none."""
    try:
        normal = normalise(op, list(inputs), attributes)
        op.shape(*shapes_of(inputs), **normal)
    except errors.PullbackError as error:
        return _named(op, error)
    except Exception:
        return None
    return None


def _named(op: Op, error: errors.PullbackError) -> errors.PullbackError:
    if getattr(error, "op", None) is not None:
        return error
    named = type(error)(f"{op.name}: {error}")
    named.op = op.name  # type: ignore[attr-defined]
    return named


def fail(op: Op, error: Exception, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> NoReturn:
    """Raises what explains `error` to whoever called the op."""
    explained = explain(op, inputs, attributes)
    if explained is not None:
        raise explained from None
    if isinstance(error, errors.PullbackError):
        raise _named(op, error) from None
    given = ", ".join(_describe(value) for value in inputs)
    keywords = "".join(f", {name}={value!r}" for name, value in attributes.items())
    message = f"{op.name}({given}{keywords}): {error}"
    if isinstance(error, (TypeError, ValueError, IndexError)):
        raise errors.InputValueError(message) from error
    if isinstance(error, MemoryError):
        raise error
    raise errors.BackendError(message) from error


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list):
        return "[" + ", ".join(_describe(item) for item in value) + "]"
    return repr(value)


def _for_dtype(flat: Sequence[Tensor | None]) -> str:
    first = next((tensor for tensor in flat if tensor is not None), None)
    return "" if first is None else f" (or none for {first.dtype})"


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
    if op.simple:
        nodes = [None if value is None else value._node for value in inputs]
        arrays = [None if value is None else value._array for value in inputs]
        given = [attributes[attribute.name] for attribute in op.attributes]
        outputs[0]._node = op.record(*nodes, *arrays, outputs[0]._array, device, *given)
        return
    parents: list[Node | None] = []
    saved: dict[str, Any] = {}
    for one, value in zip(op.inputs, inputs, strict=True):
        rule = op.rules.get(one.name)
        nodes = [
            None
            if rule is None or tensor is None or tensor._node is None
            else reachable(tensor._node, state.low)
            for tensor in (value if isinstance(value, list) else [value])
        ]
        parents += nodes
        if rule is not None and any(node is not None for node in nodes):
            for need in rule.needs:
                saved[need] = None
    if not saved and not any(parents):
        return
    values = _values(op, inputs, outputs, residuals, attributes)
    if op.residuals:
        # In higher orders a residual has a cotangent of its own, which only the body can pull back.
        saved.update(dict.fromkeys([one.name for one in op.inputs]))
    node = Node()
    node.serial = state.tick()
    node.op = op
    node.parents = tuple(parents)
    node.device = device
    node.saved = (
        counts(op, tuple(inputs)),
        {need: values[need] for need in saved if need != "wanted"},
        [(tensor.shape, tensor.dtype) for tensor in outputs],
        attributes,
    )
    if len(outputs) == 1 and not residuals:
        outputs[0]._node = node
        return
    for position, tensor in enumerate(outputs):
        if is_floating(tensor.dtype):
            tensor._node = Output(state.tick(), node, position)


def _values(
    op: Op,
    inputs: list[Any],
    outputs: list[Tensor],
    residuals: list[Any],
    attributes: dict[str, Any],
) -> dict[str, Any]:
    values: dict[str, Any] = dict(attributes)
    for one, value in zip(op.inputs, inputs, strict=True):
        if isinstance(value, list):
            values[one.name] = [tensor._array for tensor in value]
            values[f"{one.name}_shape"] = [tensor.shape for tensor in value]
            values[f"{one.name}_dtype"] = [tensor.dtype for tensor in value]
        elif value is not None:
            values[one.name] = value._array
            values[f"{one.name}_shape"] = value.shape
            values[f"{one.name}_dtype"] = value.dtype
        else:
            values[one.name] = values[f"{one.name}_shape"] = values[f"{one.name}_dtype"] = None
    values.update(zip(op.outputs, [tensor._array for tensor in outputs], strict=True))
    values.update(zip(op.residuals, residuals, strict=True))
    return values


def pull(node: Node, g: Any, needed: Any) -> list[Tensor | None]:
    """The cotangents of a node's inputs, flattened, from those of its results.

    Args:
        node: a node that `record` made.
        g: the cotangent of the result; for several results, or residuals, a dict by position.
        needed: the nodes whose cotangents are wanted.
    """
    op = node.op
    assert op is not None
    lengths, saved, outputs, attributes = node.saved
    device = node.device
    names = [one.name for one in op.inputs]
    parents = unflatten(list(node.parents), lengths)
    nodes: dict[str, Any] = dict(zip(names, parents, strict=True))
    if isinstance(g, dict):
        nodes.update(_output_nodes(op, node))
        if any(position >= len(outputs) for position in g):
            return _pull_body(op, saved, nodes, attributes, g, lengths, device)
        parts = tuple(
            g[position]
            if position in g
            else CALL["full"](shape, 0, dtype=dtype, device=device)
            for position, (shape, dtype) in enumerate(outputs)
        )
        g = parts if len(parts) > 1 else parts[0]
    else:
        nodes[op.outputs[0]] = node
    wanted = {
        name: any(n in needed for n in (value if isinstance(value, list) else [value]))
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
    return flat


def _restore(value: Any, node: Any, device: Device) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [wrap(array, device, n) for array, n in zip(value, node, strict=True)]
    return wrap(value, device, node)


def _output_nodes(op: Op, node: Node) -> dict[str, Any]:
    # Results and residuals as the rules see them: for a tape further out, each is a result of
    # `node` again. The marks on the results themselves may be gone; a new one is as good.
    tick = LOCAL.state.tick
    names = (*op.outputs, *op.residuals)
    return {name: Output(tick(), node, position) for position, name in enumerate(names)}


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
        result = _body(op, unflatten(again, lengths), attributes)
        return [result[position] for position in g]

    cotangents: Any = CALL["__vjp__"](run, [flat[i] for i in present], list(g.values()))
    pulled: list[Tensor | None] = [None] * len(flat)
    for i, cotangent in zip(present, cotangents, strict=True):
        pulled[i] = cotangent
    return pulled


def unbroadcast(g: Tensor, shape: Sequence[int]) -> Tensor:
    """Sums g over the axes along which an input of `shape` was broadcast."""
    extra = g.ndim - len(shape)
    if extra:
        g = CALL["sum"](g, axis=tuple(range(extra)))
    stretched = tuple(
        axis for axis, size in enumerate(shape) if size == 1 and g._array.shape[axis] != 1
    )
    return CALL["sum"](g, axis=stretched, keepdims=True) if stretched else g
