"""The graph of a model for TensorBoard: ops inside layers, and the tensors between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pullback import dtypes, errors
from pullback._autodiff.tape import GradientTape
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import LOCAL, Node, Output
from pullback._tree import leaves, mapped
from pullback.layers import Layer
from pullback.summary.events import messages
from pullback.summary.writer import Step, recording
from pullback.tensor import Tensor

__all__ = ["graph"]


class _Interval(NamedTuple):
    """A call of a layer: the ops in it have serial numbers in this interval."""

    path: str
    begin: int
    end: int


def graph(model: Layer, *inputs: Any, step: Step = 0, name: str = "model") -> bool:
    """Records the graph of a model, by calling it once.

    It shows the ops that gradients flow through, inside their layers, with the variables they read.

    Args:
        model: a model or layer.
        inputs: the inputs of the call.
        step: the step of the summary.
        name: the name of the model in the graph.

    Returns:
        True if it was recorded.

    >>> import tempfile
    >>> model = pb.Sequential([pb.layers.Dense(4, activation="relu"), pb.layers.Dense(2)])
    >>> with pb.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     pb.summary.graph(model, pb.zeros((1, 3)))
    True

    Raises:
        InputTypeError: for an object that is not a layer.
    """
    if not isinstance(model, Layer):
        raise errors.InputTypeError(f"graph takes a model or layer, got {type(model).__name__}")
    active = recording(step)
    if active is None:
        return False
    writer, number = active
    messages()
    from tensorboardX.proto.graph_pb2 import GraphDef

    drawn = GraphDef(node=list(_drawn(model, inputs, name)))
    writer.add(number, graph_def=drawn.SerializeToString())
    return True


def _drawn(model: Layer, inputs: tuple[Any, ...], name: str) -> Iterator[Any]:
    tensors = [mapped(from_any, value) for value in inputs]
    intervals: list[_Interval] = []
    known: dict[int, str] = {}
    with GradientTape() as tape:
        flat = leaves(tensors)
        for index, tensor in enumerate(flat):
            label = f"input/{index}" if len(flat) > 1 else "input"
            yield _node(label, "Placeholder", [], tensor)
            if dtypes.is_floating(tensor.dtype):
                tape.watch(tensor)
                known[id(tensor._node)] = label
        with _noted(model, intervals):
            results = leaves(model(*tensors, training=False))
            outputs = [leaf for leaf in results if isinstance(leaf, Tensor)]
        for path, variable in model.named_variables.items():
            # A variable has the same leaf node each time it is read.
            value = variable.value
            if value._node is not None:
                known[id(value._node)] = f"{name}/{path}"
            yield _node(f"{name}/{path}", "Variable", [], value)
    ends = [tensor._node for tensor in outputs if tensor._node is not None]
    numbers: Counter[str] = Counter()
    for node in _ordered(ends, known):
        if isinstance(node, Output) or node.op is None:
            (known[id(node)],) = [known[id(p)] for p in node.parents[:1] if p is not None] or [""]
            continue
        scope = _scope(node.serial, intervals)
        label = "/".join(part for part in (name, scope, node.op.name) if part)
        numbers[label] += 1
        label += f"_{numbers[label]}" if numbers[label] > 1 else ""
        sources = [known[id(parent)] for parent in node.parents if parent is not None]
        yield _node(label, node.op.name, [source for source in sources if source])
        known[id(node)] = label
    for index, tensor in enumerate(outputs):
        result = f"output/{index}" if len(outputs) > 1 else "output"
        source = known.get(id(tensor._node), "")
        yield _node(result, "Identity", [source] if source else [], tensor)


def _ordered(ends: list[Node], known: dict[int, str]) -> Iterator[Node]:
    """Returns the nodes that lead to the ends, each after its parents."""
    nodes: dict[int, Node] = {}
    stack = list(ends)
    while stack:
        node = stack.pop()
        if id(node) not in nodes and id(node) not in known:
            nodes[id(node)] = node
            stack += [parent for parent in node.parents if parent is not None]
    # Serial numbers are in order of time.
    yield from sorted(nodes.values(), key=lambda node: node.serial)


def _scope(serial: int, intervals: list[_Interval]) -> str:
    """Returns the path of the innermost layer that was being called."""
    inside = [interval for interval in intervals if interval.begin < serial < interval.end]
    return max(inside, key=lambda interval: interval.begin).path if inside else ""


@contextmanager
def _noted(model: Layer, intervals: list[_Interval]) -> Iterator[None]:
    """Notes every call of a layer in the model inside the block."""
    layers = model.sublayers

    def noting(path: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            begin = LOCAL.state.next_serial()
            try:
                return call(*args, **kwargs)
            finally:
                intervals.append(_Interval(path, begin, LOCAL.state.next_serial()))

        return noted

    try:
        for path, layer in layers.items():
            vars(layer)["call"] = noting(path, layer.call)
        yield
    finally:
        for layer in layers.values():
            vars(layer).pop("call", None)


def _node(name: str, op: str, inputs: list[str], tensor: Tensor | None = None) -> Any:
    from tensorboardX.proto.attr_value_pb2 import AttrValue
    from tensorboardX.proto.node_def_pb2 import NodeDef
    from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto

    node = NodeDef(name=name, op=op, input=inputs)
    if tensor is not None:
        shape = TensorShapeProto(
            dim=[TensorShapeProto.Dim(size=int(size)) for size in tensor.shape]
        )
        shapes = AttrValue.ListValue(shape=[shape])
        node.attr["_output_shapes"].CopyFrom(AttrValue(list=shapes))
        node.attr["dtype"].CopyFrom(AttrValue(s=tensor.dtype.name.encode()))
    return node
