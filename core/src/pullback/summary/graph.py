"""The graph of a model, as TensorBoard draws it: ops inside of layers, and what flows between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pullback import dtypes, errors
from pullback._autodiff.tape import GradientTape
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import LOCAL, Node, Output
from pullback._tree import leaves, like
from pullback.layers import Layer
from pullback.summary.events import messages
from pullback.summary.writer import Step, recording
from pullback.tensor import Tensor

__all__ = ["graph"]


class _Span(NamedTuple):
    """A call of a layer: what was computed in it has serial numbers in between."""

    path: str
    begin: int
    end: int


def graph(model: Layer, *inputs: Any, step: Step = 0, name: str = "model") -> bool:
    """Records how a model computes, by calling it once.

    Shown are the ops that gradients flow through, in the layers they are computed in, with the
    variables they read.

    Args:
        model: a model or layer.
        inputs: what it is called with.
        step: when.
        name: what the model is called in the picture.

    Returns:
        Whether it was recorded.

    >>> import tempfile
    >>> model = pb.Sequential([pb.layers.Dense(4, activation="relu"), pb.layers.Dense(2)])
    >>> with pb.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     pb.summary.graph(model, pb.zeros((1, 3)))
    True

    Raises:
        InputTypeError: for what is no layer.
    """
    if not isinstance(model, Layer):
        raise errors.InputTypeError(f"a graph is drawn of a layer, got {type(model).__name__}")
    found = recording(step)
    if found is None:
        return False
    writer, number = found
    messages()
    from tensorboardX.proto.graph_pb2 import GraphDef

    drawn = GraphDef(node=list(_drawn(model, inputs, name)))
    writer.add(number, graph_def=drawn.SerializeToString())
    return True


def _drawn(model: Layer, inputs: tuple[Any, ...], name: str) -> Iterator[Any]:
    tensors = [like(value, iter([from_any(leaf) for leaf in leaves(value)])) for value in inputs]
    spans: list[_Span] = []
    known: dict[int, str] = {}
    with GradientTape() as tape:
        flat = leaves(tensors)
        for index, tensor in enumerate(flat):
            given = f"input/{index}" if len(flat) > 1 else "input"
            yield _node(given, "Placeholder", [], tensor)
            if dtypes.is_floating(tensor.dtype):
                tape.watch(tensor)
                known[id(tensor._node)] = given
        with _noted(model, spans):
            outputs = [leaf for leaf in leaves(model(*tensors)) if isinstance(leaf, Tensor)]
        for path, variable in model.named_variables.items():
            # A variable that is read again has the mark that it got when it was read first.
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
        scope = _scope(node.serial, spans)
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
    """The nodes that lead to the ends, each after those it was made of."""
    found: dict[int, Node] = {}
    stack = list(ends)
    while stack:
        node = stack.pop()
        if id(node) not in found and id(node) not in known:
            found[id(node)] = node
            stack += [parent for parent in node.parents if parent is not None]
    # Serial numbers are in the order of time.
    yield from sorted(found.values(), key=lambda node: node.serial)


def _scope(serial: int, spans: list[_Span]) -> str:
    """The path of the innermost layer that was being called."""
    inside = [span for span in spans if span.begin < serial < span.end]
    return max(inside, key=lambda span: span.begin).path if inside else ""


@contextmanager
def _noted(model: Layer, spans: list[_Span]) -> Iterator[None]:
    """Inside the block every call of a layer in the model is noted."""
    layers = model.sublayers

    def noting(path: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            begin = LOCAL.state.next_serial()
            try:
                return call(*args, **kwargs)
            finally:
                spans.append(_Span(path, begin, LOCAL.state.next_serial()))

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
