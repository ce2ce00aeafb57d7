"""Inference in ONNX Runtime: graphs of the standard's own ops, with all of its optimizations.

Images are channels first there.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, helper, numpy_helper

from . import shared
from .shared import Array, Block, Builder, Weights, repeat

OPSET, IR = 20, 9


def builders(compiled: bool) -> dict[str, Builder]:
    assert compiled
    return {
        "infer_cnn_b1": lambda: infer(cnn(), images(1, 32, 3)),
        "infer_cnn_b32": lambda: infer(cnn(), images(32, 32, 3)),
        "infer_minilm_b1": lambda: infer(minilm(), tokens(1)),
        "infer_resnet50_b1": lambda: infer(resnet50(), images(1, 224, 3)),
        "infer_resnet50_b8": lambda: infer(resnet50(), images(8, 224, 3)),
    }


def images(batch: int, size: int, channels: int) -> Array:
    return shared.images(batch, size, channels)[0].transpose(0, 3, 1, 2).copy()


def tokens(batch: int) -> Array:
    return shared.symbols(batch, shared.TOKENS, shared.VOCABULARY)[0]


def infer(graph: Graph, x: Array) -> Block:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    model = graph.model(x).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    return repeat(lambda: session.run(None, {"x": x})[0])


class Graph:
    """Nodes and constants; a method adds nodes and gives the name of their result."""

    def __init__(self, weights: Weights) -> None:
        self.w = weights
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.result = ""

    def add(self, op: str, *inputs: str | Array, outputs: int = 1, **attributes: Any) -> Any:
        """A node; an array among its inputs becomes a constant."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        results = [f"{op}{len(self.nodes)}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, names, results, **attributes))
        return results[0] if outputs == 1 else results

    def constant(self, value: Array, name: str = "") -> str:
        name = name or f"constant{len(self.constants)}"
        self.constants[name] = value
        return name

    def weight(self, name: str) -> str:
        return self.constant(self.w[name], name)

    def model(self, x: Array) -> ModelProto:
        """The model for inputs like x."""
        graph = helper.make_graph(
            self.nodes,
            "workload",
            [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
            [helper.make_empty_tensor_value_info(self.result)],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(
            np.dtype(np.float32)
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR
        )

    def dense(self, name: str, x: str) -> str:
        product = self.add("MatMul", x, self.weight(f"{name}.kernel"))
        return str(self.add("Add", product, self.weight(f"{name}.bias")))

    def layer_norm(self, name: str, x: str) -> str:
        parts = (self.weight(f"{name}.{part}") for part in ("scale", "offset"))
        return str(
            self.add("LayerNormalization", x, *parts, axis=-1, epsilon=shared.LAYER_NORM_EPSILON)
        )

    def normalized(self, name: str, x: str, stride: int = 1) -> str:
        kernel = self.w[f"{name}.kernel"].transpose(3, 2, 0, 1).copy()
        around = [kernel.shape[-1] // 2] * 4
        x = self.add("Conv", x, kernel, strides=[stride] * 2, pads=around)
        parts = ("scale", "offset", "mean", "variance")
        return str(
            self.add(
                "BatchNormalization", x, *(self.weight(f"{name}.{part}") for part in parts),
                epsilon=shared.BATCH_NORM_EPSILON,
            )
        )  # fmt: skip

    def head(self, x: str) -> str:
        """The mean over an image, and a dense layer."""
        x = self.add("Flatten", self.add("GlobalAveragePool", x))
        return self.dense("dense", x)


# ---------------------------------------------------------------------------------------------
# Models.


def cnn() -> Graph:
    graph = Graph(shared.cnn_weights())
    x = graph.add("Relu", graph.normalized("stem", "x"))
    for name, _, _, stride in shared.residual_blocks():
        y = graph.add("Relu", graph.normalized(f"{name}.first", x, stride))
        y = graph.normalized(f"{name}.second", y)
        if stride > 1:
            x = graph.normalized(f"{name}.shortcut", x, stride)
        x = graph.add("Relu", graph.add("Add", y, x))
    graph.result = graph.head(x)
    return graph


def resnet50() -> Graph:
    graph = Graph(shared.resnet50_weights())
    x = graph.add("Relu", graph.normalized("stem", "x", 2))
    x = graph.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for name, inputs, size, stride in shared.bottlenecks():
        y = graph.add("Relu", graph.normalized(f"{name}.narrow", x))
        y = graph.add("Relu", graph.normalized(f"{name}.middle", y, stride))
        y = graph.normalized(f"{name}.wide", y)
        if inputs != 4 * size:
            x = graph.normalized(f"{name}.shortcut", x, stride)
        x = graph.add("Relu", graph.add("Add", y, x))
    graph.result = graph.head(x)
    return graph


def attention(graph: Graph, x: str, heads: int, width: int) -> str:
    """Attention of queries, keys and values that lie side by side."""
    size = width // heads
    split = graph.add("Reshape", x, np.array([0, 0, 3, heads, size]))
    split = graph.add("Transpose", split, perm=[2, 0, 3, 1, 4])
    query, key, value = (graph.add("Gather", split, np.array(part), axis=0) for part in range(3))
    key = graph.add("Transpose", key, perm=[0, 1, 3, 2])
    scores = graph.add("Mul", graph.add("MatMul", query, key), np.float32([size**-0.5]))
    y = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)
    y = graph.add("Transpose", y, perm=[0, 2, 1, 3])
    return str(graph.add("Reshape", y, np.array([0, 0, width])))


def minilm() -> Graph:
    graph = Graph(shared.minilm_weights())
    x = graph.add("Gather", graph.weight("embedding"), "x")
    x = graph.layer_norm("norm", graph.add("Add", x, graph.weight("positions")))
    for i in range(shared.ENCODERS):
        name = f"layer{i}"
        y = graph.dense(f"{name}.attend", x)
        y = attention(graph, y, shared.ENCODER_HEADS, shared.ENCODER_WIDTH)
        x = graph.layer_norm(
            f"{name}.norm0", graph.add("Add", x, graph.dense(f"{name}.project", y))
        )
        y = graph.dense(f"{name}.narrow", graph.add("Gelu", graph.dense(f"{name}.widen", x)))
        x = graph.layer_norm(f"{name}.norm1", graph.add("Add", x, y))
    graph.result = str(graph.add("ReduceMean", x, np.array([1]), keepdims=0))
    return graph
