"""Calls of Keras's layers and graphs in fewer steps than its own, with the same bits."""

from __future__ import annotations

import functools

from keras.src import tree
from keras.src.backend import KerasTensor

import pullback as pb
from keras_pullback.src.ops.core import convert_to_tensor
from keras_pullback.src.ops.products import contracted, summed

#: The names that `call` of a dense layer is made of, where it is as here.
DENSE = {"ops", "matmul", "kernel", "bias", "add", "activation"}
EINSUM_DENSE = DENSE - {"matmul"} | {"einsum", "equation"}
#: The attribute of a graph with its nodes in the order of their calls.
NODES = "_pullback_nodes"


def _operands(layer, inputs):
    """The kernel and the bias; None where a product and a sum have other dtypes than the inputs."""
    if type(inputs) is pb.Tensor and inputs.dtype is pb.float32:
        kernel, bias = layer.kernel, layer.bias
        if bias is not None:
            kernel, bias = convert_to_tensor(kernel), convert_to_tensor(bias)
            if kernel.dtype is bias.dtype is pb.float32:
                return kernel, bias
    return None


def dense(general):
    """`Dense.call` as one op where there is a bias; float16 would be rounded once, not twice."""
    if set(general.__code__.co_names) != DENSE:
        return general

    @functools.wraps(general)
    def call(self, inputs, *args, **kwargs):
        operands = _operands(self, inputs)
        if operands is None or len(operands[0].shape) != 2:
            return general(self, inputs, *args, **kwargs)
        x = pb.linear(inputs, *operands)
        return x if self.activation is None else self.activation(x)

    return call


def einsum_dense(general):
    """`EinsumDense.call` as one op, where the equation is a product of matrices."""
    if set(general.__code__.co_names) != EINSUM_DENSE:
        return general

    @functools.wraps(general)
    def call(self, inputs, *args, **kwargs):
        operands = _operands(self, inputs) if summed(self.equation) else None
        x = None if operands is None else contracted(self.equation, inputs, *operands)
        if x is None:
            return general(self, inputs, *args, **kwargs)
        return x if self.activation is None else self.activation(x)

    return call


# Graphs ------------------------------------------------------------------------------------------


def _planned(graph):
    """The nodes of a graph: each with the ids of its inputs, its arguments and ids of outputs."""
    nodes = []
    for depth in sorted(graph._nodes_by_depth, reverse=True):
        for node in graph._nodes_by_depth[depth]:
            if not node.operation or node.is_input:
                continue
            arguments = node.arguments
            leaves = tree.flatten(arguments.args)
            flat = len(leaves) == len(arguments.args) and not arguments.kwargs
            flat = flat and all(a is b for a, b in zip(leaves, arguments.args, strict=True))
            given = [(id(x), None) if isinstance(x, KerasTensor) else (None, x) for x in leaves]
            needed = [id(x) for x in node.input_tensors]
            nodes.append((node, needed, given if flat else None, [id(x) for x in node.outputs]))
    return nodes


def walk(general):
    """`Function._run_through_graph`, with the arguments of calls looked up once for a graph."""

    @functools.wraps(general)
    def _run_through_graph(self, inputs, operation_fn=None, call_fn=None):
        if operation_fn is None or call_fn is not None:
            options = {} if operation_fn is None else {"operation_fn": operation_fn}
            return general(self, inputs, call_fn=call_fn, **options)
        known = self.__dict__.get(NODES)
        # The plan in a copy of a graph is that of the other.
        if known is None or known[0] != id(self) or known[1] is not self._nodes_by_depth:
            known = self.__dict__[NODES] = id(self), self._nodes_by_depth, _planned(self)
        flat = tree.flatten(inputs)
        values = {id(x): y for x, y in zip(self._inputs, flat, strict=False)}
        for node, needed, given, outputs in known[2]:
            if any(i not in values for i in needed):
                continue
            operation = operation_fn(self._get_operation_for_node(node))
            if given is None:
                args, kwargs = node.arguments.fill_in(values)
                results = operation(*args, **kwargs)
            else:
                results = operation(*[x if i is None else values[i] for i, x in given])
            if type(results) is pb.Tensor:
                values[outputs[0]] = results
            else:
                values.update(zip(outputs, tree.flatten(results), strict=False))
        found = [values.get(id(x), values) for x in self._outputs]
        if any(x is values for x in found):
            return general(self, inputs, operation_fn=operation_fn)
        return tree.pack_sequence_as(self._outputs_struct, found)

    return _run_through_graph


#: The methods that have a short way, by the module and the name of their class.
METHODS = {
    ("keras.src.layers.core.dense", "Dense"): {"call": dense},
    ("keras.src.layers.core.einsum_dense", "EinsumDense"): {"call": einsum_dense},
    ("keras.src.models.functional", "Functional"): {"_run_through_graph": walk},
}
