"""The workloads in PyTorch, eager or with `torch.compile`. Images are channels first there."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from . import shared
from .shared import Array, Block, Builder, Weights, repeat


def builders(compiled: bool) -> dict[str, Builder]:
    faster = torch.compile if compiled else lambda function: function
    return {
        "op_add": lambda: op(faster, torch.add, recorded=False),
        "op_add_recorded": lambda: op(faster, torch.add, recorded=True),
        "op_matmul": lambda: op(faster, torch.matmul, recorded=False),
        "op_chain": lambda: op_chain(faster),
        "op_chain_grad": lambda: op_chain_grad(faster),
        "linreg": lambda: linreg(faster),
        "mlp": lambda: train(faster, mlp(shared.MLP), shared.features(32), adam),
        "mlp_wide": lambda: train(faster, mlp(shared.MLP_WIDE), shared.features(256), adam),
        "char_rnn": lambda: train(faster, CharRNN(), symbols(64, shared.STEPS, 32), adam),
        "cnn_lstm": lambda: train(faster, CNNLSTM(), images(64, 28, 1), adam),
        "transformer": lambda: train(faster, Transformer(), tokens(8), adamw),
        "cnn": lambda: train(faster, CNN(), images(32, 32, 3), momentum),
        "infer_cnn_lstm_b1": lambda: infer(faster, CNNLSTM(), images(1, 28, 1)),
        "infer_cnn_lstm_b64": lambda: infer(faster, CNNLSTM(), images(64, 28, 1)),
        "infer_cnn_b1": lambda: infer(faster, CNN(), images(1, 32, 3)),
        "infer_cnn_b32": lambda: infer(faster, CNN(), images(32, 32, 3)),
        "infer_minilm_b1": lambda: infer(faster, MiniLM(), tokens(1)),
        "infer_resnet50_b1": lambda: infer(faster, ResNet50(), images(1, 224, 3)),
        "infer_resnet50_b8": lambda: infer(faster, ResNet50(), images(8, 224, 3)),
        "resnet50": lambda: train(faster, ResNet50(), images(4, 224, 3), momentum),
        "infer_transformer_b1": lambda: infer(faster, Transformer(), tokens(1)),
        "infer_transformer_b8": lambda: infer(faster, Transformer(), tokens(8)),
        "fusion_fwd": lambda: fusion_fwd(faster),
        "fusion_grad": lambda: fusion_grad(faster),
    }


# ---------------------------------------------------------------------------------------------
# Ops.


def op(faster: Any, function: Any, recorded: bool) -> Block:
    x, y = map(torch.from_numpy, shared.pair())
    x.requires_grad_(recorded)
    run = faster(function)

    def block(n: int) -> Any:
        for _ in range(n):
            result = run(x, y)
        return result

    return block


def chain(x: Any) -> Any:
    return ((x * 2 + 1) * x).sum()


def op_chain(faster: Any) -> Block:
    x, run = torch.from_numpy(shared.pair()[0]), faster(chain)
    return repeat(lambda: run(x))


def op_chain_grad(faster: Any) -> Block:
    x, run = torch.from_numpy(shared.pair()[0]).requires_grad_(), faster(chain)

    def step() -> Any:
        x.grad = None
        run(x).backward()
        return x.grad

    return repeat(step)


def linreg(faster: Any) -> Block:
    x, y = map(torch.from_numpy, shared.line())
    w, b = torch.tensor(5.0, requires_grad=True), torch.tensor(10.0, requires_grad=True)

    @faster
    def loss_of(w: Any, b: Any) -> Any:
        error = w * x + b - y
        return torch.mean(error * error)

    def step() -> float:
        w.grad = b.grad = None
        loss = loss_of(w, b)
        loss.backward()
        with torch.no_grad():
            w.sub_(0.1 * w.grad)
            b.sub_(0.1 * b.grad)
        return float(loss.detach())

    return repeat(step)


def fused(x: Any, w: Any, b: Any) -> Any:
    return torch.tanh(x * w + b) * torch.sigmoid(x) + torch.exp(-x * x)


def fusion_fwd(faster: Any) -> Block:
    x, w, b = torch.from_numpy(shared.vector()), torch.tensor(1.5), torch.tensor(0.5)
    run = faster(fused)
    return repeat(lambda: run(x, w, b))


def fusion_grad(faster: Any) -> Block:
    x = torch.from_numpy(shared.vector()).requires_grad_()
    w, b = torch.tensor(1.5), torch.tensor(0.5)
    run = faster(lambda x: fused(x, w, b).sum())

    def step() -> Any:
        x.grad = None
        run(x).backward()
        return x.grad

    return repeat(step)


# ---------------------------------------------------------------------------------------------
# Training and inference.


def adam(parameters: Any) -> Any:
    return torch.optim.Adam(parameters, shared.ADAM["rate"], eps=shared.ADAM["epsilon"])


def adamw(parameters: Any) -> Any:
    how = shared.ADAMW
    return torch.optim.AdamW(parameters, how["rate"], eps=how["epsilon"], weight_decay=how["decay"])


def momentum(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, shared.MOMENTUM["rate"], shared.MOMENTUM["momentum"])


def train(faster: Any, model: Any, data: tuple[Array, Array], optimizer_of: Any) -> Block:
    x, labels = (torch.from_numpy(one) for one in data)
    x = x if x.is_floating_point() else x.long()
    labels = labels.long()
    model.train()
    optimizer = optimizer_of([p for p in model.parameters() if p.requires_grad])

    @faster
    def loss_of(x: Any, labels: Any) -> Any:
        logits = model(x)
        return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(x, labels)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return repeat(step)


def infer(faster: Any, model: Any, data: tuple[Array, Array]) -> Block:
    x = torch.from_numpy(data[0])
    x = x if x.is_floating_point() else x.long()
    run = faster(model.eval())

    def step() -> Any:
        with torch.inference_mode():
            return run(x)

    return repeat(step)


def images(batch: int, size: int, channels: int) -> tuple[Array, Array]:
    x, labels = shared.images(batch, size, channels)
    return x.transpose(0, 3, 1, 2).copy(), labels


def symbols(batch: int, steps: int, vocabulary: int) -> tuple[Array, Array]:
    return shared.symbols(batch, steps, vocabulary)


def tokens(batch: int) -> tuple[Array, Array]:
    return shared.symbols(batch, shared.TOKENS, shared.VOCABULARY)


# ---------------------------------------------------------------------------------------------
# Layers with given weights.


def put(parameter: Any, value: Array) -> None:
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(value))


def dense(weights: Weights, name: str, bias: bool = True) -> Any:
    kernel = weights[f"{name}.kernel" if bias else name]
    layer = nn.Linear(*kernel.shape, bias=bias)
    put(layer.weight, kernel.T)
    if bias:
        put(layer.bias, weights[f"{name}.bias"])
    return layer


def embedding(weights: Weights, name: str) -> Any:
    layer = nn.Embedding(*weights[name].shape)
    put(layer.weight, weights[name])
    return layer


def conv(weights: Weights, name: str, stride: int = 1) -> Any:
    kernel, bias = weights[f"{name}.kernel"], weights.get(f"{name}.bias")
    window, _, inputs, outputs = kernel.shape
    layer = nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=bias is not None)
    put(layer.weight, kernel.transpose(3, 2, 0, 1))
    if bias is not None:
        put(layer.bias, bias)
    return layer


def lstm(weights: Weights, name: str) -> Any:
    layer = nn.LSTM(weights[f"{name}.kernel"].shape[0], shared.UNITS, batch_first=True)
    put(layer.weight_ih_l0, weights[f"{name}.kernel"].T)
    put(layer.weight_hh_l0, weights[f"{name}.recurrent"].T)
    put(layer.bias_ih_l0, weights[f"{name}.bias"])
    # The others have one bias: this one stays 0.
    put(layer.bias_hh_l0, weights[f"{name}.bias"] * 0)
    layer.bias_hh_l0.requires_grad_(False)
    return layer


def layer_norm(weights: Weights, name: str) -> Any:
    layer = nn.LayerNorm(weights[f"{name}.scale"].size, shared.LAYER_NORM_EPSILON)
    put(layer.weight, weights[f"{name}.scale"])
    put(layer.bias, weights[f"{name}.offset"])
    return layer


def batch_norm(weights: Weights, name: str) -> Any:
    scale = weights[f"{name}.scale"]
    layer = nn.BatchNorm2d(scale.size, shared.BATCH_NORM_EPSILON, 1 - shared.BATCH_NORM_MOMENTUM)
    put(layer.weight, scale)
    put(layer.bias, weights[f"{name}.offset"])
    put(layer.running_mean, weights[f"{name}.mean"])
    put(layer.running_var, weights[f"{name}.variance"])
    return layer


# ---------------------------------------------------------------------------------------------
# Models.


def mlp(sizes: tuple[int, ...]) -> Any:
    weights = shared.mlp_weights(sizes)
    parts: list[Any] = []
    for i in range(len(sizes) - 1):
        parts += [dense(weights, f"dense{i}"), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class CharRNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        weights = shared.char_rnn_weights()
        self.embedding = embedding(weights, "embedding")
        self.lstm = lstm(weights, "lstm")
        self.dense = dense(weights, "dense")

    def forward(self, ids: Any) -> Any:
        return self.dense(self.lstm(self.embedding(ids))[0])


class CNNLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        weights = shared.cnn_lstm_weights()
        self.conv0, self.conv1 = conv(weights, "conv0"), conv(weights, "conv1")
        self.lstm = lstm(weights, "lstm")
        self.dense = dense(weights, "dense")

    def forward(self, x: Any) -> Any:
        x = functional.max_pool2d(functional.relu(self.conv0(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        return self.dense(self.lstm(x.reshape(-1, 64, 49))[0][:, -1])


def normalized(weights: Weights, name: str, stride: int = 1) -> Any:
    return nn.Sequential(conv(weights, name, stride), batch_norm(weights, name))


class Residual(nn.Module):
    def __init__(self, weights: Weights, name: str, stride: int) -> None:
        super().__init__()
        self.first = normalized(weights, f"{name}.first", stride)
        self.second = normalized(weights, f"{name}.second")
        self.shortcut = normalized(weights, f"{name}.shortcut", stride) if stride > 1 else None

    def forward(self, x: Any) -> Any:
        y = self.second(functional.relu(self.first(x)))
        return functional.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class CNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        weights = shared.cnn_weights()
        self.stem = normalized(weights, "stem")
        blocks = [(name, stride) for name, _, _, stride in shared.residual_blocks()]
        self.blocks = nn.Sequential(*(Residual(weights, *block) for block in blocks))
        self.dense = dense(weights, "dense")

    def forward(self, x: Any) -> Any:
        x = self.blocks(functional.relu(self.stem(x)))
        return self.dense(x.mean((2, 3)))


class Bottleneck(nn.Module):
    def __init__(self, weights: Weights, name: str, inputs: int, size: int, stride: int) -> None:
        super().__init__()
        self.narrow = normalized(weights, f"{name}.narrow")
        self.middle = normalized(weights, f"{name}.middle", stride)
        self.wide = normalized(weights, f"{name}.wide")
        self.shortcut = (
            normalized(weights, f"{name}.shortcut", stride) if inputs != 4 * size else None
        )

    def forward(self, x: Any) -> Any:
        y = functional.relu(self.middle(functional.relu(self.narrow(x))))
        return functional.relu(self.wide(y) + (x if self.shortcut is None else self.shortcut(x)))


class ResNet50(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        weights = shared.resnet50_weights()
        self.stem = normalized(weights, "stem", 2)
        self.blocks = nn.Sequential(*(Bottleneck(weights, *one) for one in shared.bottlenecks()))
        self.dense = dense(weights, "dense")

    def forward(self, x: Any) -> Any:
        x = functional.max_pool2d(functional.relu(self.stem(x)), 3, 2, 1)
        return self.dense(self.blocks(x).mean((2, 3)))


class AttentionBlock(nn.Module):
    """The layers of a decoder and an encoder, which call them in other orders."""

    def __init__(self, weights: Weights, name: str) -> None:
        super().__init__()
        self.norm0, self.norm1 = (layer_norm(weights, f"{name}.norm{i}") for i in range(2))
        self.attend, self.project = (dense(weights, f"{name}.{i}") for i in ("attend", "project"))
        self.widen, self.narrow = (dense(weights, f"{name}.{i}") for i in ("widen", "narrow"))


class Decoder(AttentionBlock):
    def forward(self, x: Any) -> Any:
        y = attention(self.attend(self.norm0(x)), shared.HEADS, is_causal=True)
        x = x + self.project(y)
        return x + self.narrow(functional.gelu(self.widen(self.norm1(x)), approximate="tanh"))


def attention(x: Any, heads: int, is_causal: bool) -> Any:
    """Attention of queries, keys and values that lie side by side."""
    batch, length, width = x.shape
    split = x.view((batch, length, 3, heads, width // (3 * heads)))
    query, key, value = split.permute(2, 0, 3, 1, 4).unbind()
    y = functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
    return y.transpose(1, 2).reshape((batch, length, width // 3))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        weights = shared.transformer_weights()
        self.embedding = embedding(weights, "embedding")
        self.positions = nn.Parameter(torch.from_numpy(weights["positions"]))
        blocks = (Decoder(weights, f"layer{i}") for i in range(shared.LAYERS))
        self.blocks = nn.Sequential(*blocks)
        self.norm = layer_norm(weights, "norm")
        self.head = dense(weights, "head", bias=False)

    def forward(self, ids: Any) -> Any:
        return self.head(self.norm(self.blocks(self.embedding(ids) + self.positions)))


class Encoder(AttentionBlock):
    def forward(self, x: Any) -> Any:
        y = attention(self.attend(x), shared.ENCODER_HEADS, is_causal=False)
        x = self.norm0(x + self.project(y))
        return self.norm1(x + self.narrow(functional.gelu(self.widen(x))))


class MiniLM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        weights = shared.minilm_weights()
        self.embedding = embedding(weights, "embedding")
        self.positions = nn.Parameter(torch.from_numpy(weights["positions"]))
        self.norm = layer_norm(weights, "norm")
        blocks = (Encoder(weights, f"layer{i}") for i in range(shared.ENCODERS))
        self.blocks = nn.Sequential(*blocks)

    def forward(self, ids: Any) -> Any:
        return self.blocks(self.norm(self.embedding(ids) + self.positions)).mean(1)
