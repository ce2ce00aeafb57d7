"""Makes `layers.npz`: what PyTorch's layers compute, for `tests/layers/test_layers_reference.py`.

    python tests/reference/make.py

with a Python that has PyTorch. For each case the file holds the input `x`, the weights `w/PATH` in
the layout and under the path that pullback's layer has them, the result `y`, a cotangent `g`, the
gradients `dx` and `dw/PATH`, and what else the case names. Made with PyTorch 2.13 on a CPU.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
FOUND: dict[str, np.ndarray] = {}


def last(x):
    """Channels first to channels last."""
    return x.movedim(1, -1)


def first(x):
    return x.movedim(-1, 1)


def save(case, **arrays):
    for name, array in arrays.items():
        FOUND[f"{case}/{name.replace('__', '/')}"] = array.detach().numpy().astype(np.float32)


def run(case, x, call, weights, **more):
    """`weights` are (path, tensor, its layout here); `call` gives the result for x."""
    x = x.requires_grad_() if x.is_floating_point() else x
    results = call(x)
    results = results if isinstance(results, tuple) else (results,)
    cotangents = [torch.randn_like(result) for result in results]
    leaves = [tensor for _, tensor, _ in weights]
    inputs = [x] if x.requires_grad else []
    grads = torch.autograd.grad(results, [*inputs, *leaves], cotangents)
    if inputs:
        save(case, x=x, dx=grads[0])
    else:
        FOUND[f"{case}/x"] = x.numpy().astype(np.int32)
    for i, (result, g) in enumerate(zip(results, cotangents, strict=True)):
        save(case, **{f"y{i or ''}": result, f"g{i or ''}": g})
    for (path, tensor, layout), grad in zip(weights, grads[len(inputs) :], strict=True):
        FOUND[f"{case}/w/{path}"] = layout(tensor.detach()).numpy().astype(np.float32)
        FOUND[f"{case}/dw/{path}"] = layout(grad).numpy().astype(np.float32)
    for name, value in more.items():
        FOUND[f"{case}/{name}"] = value.detach().numpy()


def same(tensor):
    return tensor


def transposed(tensor):
    return tensor.T


def window_last(tensor):
    """(out, in, *window) as (*window, in, out), of a convolution and of a transposed one alike."""
    return tensor.movedim((1, 0), (-2, -1))


# Convolutions ---------------------------------------------------------------------------------

SHAPES = {1: (2, 9, 4), 2: (2, 7, 6, 4), 3: (1, 5, 4, 4, 4)}
for count, kinds in {
    1: (nn.Conv1d, nn.ConvTranspose1d),
    2: (nn.Conv2d, nn.ConvTranspose2d),
    3: (nn.Conv3d, nn.ConvTranspose3d),
}.items():
    settings = {
        f"conv{count}d": kinds[0](4, 6, 3, stride=2, padding=1),
        f"conv{count}d_groups": kinds[0](4, 6, 2, groups=2, dilation=2),
        f"conv{count}d_transpose": kinds[1](4, 6, 3, stride=2, padding=1, output_padding=1),
        f"conv{count}d_transpose_groups": kinds[1](4, 6, 3, groups=2),
    }
    if count < 3:
        settings[f"depthwise_conv{count}d"] = kinds[0](4, 8, 3, groups=4)
    for case, layer in settings.items():
        weights = [("kernel", layer.weight, window_last), ("bias", layer.bias, same)]
        run(case, torch.randn(SHAPES[count]), lambda x, layer=layer: last(layer(first(x))), weights)

# Normalization --------------------------------------------------------------------------------


def affine(layer):
    with torch.no_grad():
        layer.weight.normal_(1, 0.5)
        if getattr(layer, "bias", None) is not None:
            layer.bias.normal_()
            return [("gamma", layer.weight, same), ("beta", layer.bias, same)]
    return [("gamma", layer.weight, same)]


batch = nn.BatchNorm2d(5, eps=1e-3, momentum=0.25)
weights = affine(batch)
run("batch_norm", torch.randn(3, 4, 2, 5) * 2 + 3, lambda x: last(batch(first(x))), weights)
FOUND["batch_norm/moving_mean"] = batch.running_mean.numpy().copy()
FOUND["batch_norm/moving_variance"] = batch.running_var.numpy().copy()
batch.eval()
run(
    "batch_norm_inference", torch.randn(3, 4, 2, 5), lambda x: last(batch(first(x))), weights,
    moving_mean=batch.running_mean, moving_variance=batch.running_var,
)  # fmt: skip
normal = nn.LayerNorm((4, 5), eps=1e-5)
run("layer_norm", torch.randn(3, 2, 4, 5) * 3 + 1, normal, affine(normal))
normal = nn.RMSNorm(6, eps=1e-6)
run("rms_norm", torch.randn(3, 4, 6), normal, affine(normal))
normal = nn.GroupNorm(2, 6, eps=1e-5)
run("group_norm", torch.randn(3, 4, 3, 6), lambda x: last(normal(first(x))), affine(normal))
instance = nn.InstanceNorm2d(3, eps=1e-5, affine=True)
run("instance_norm", torch.randn(2, 4, 3, 3), lambda x: last(instance(first(x))), affine(instance))

# Recurrent layers -----------------------------------------------------------------------------


def gates_in_order(order):
    """(gates * units, n), with the gates in another order, as (n, gates * units)."""

    def layout(tensor):
        parts = tensor.chunk(len(order))
        joined = torch.cat([parts[i] for i in order])
        return joined.T if joined.ndim == 2 else joined

    return layout


def recurrent(layer, order, prefix="", suffix=""):
    layout = gates_in_order(order)
    names = {
        "kernel": "weight_ih_l0", "recurrent_kernel": "weight_hh_l0", "bias": "bias_ih_l0",
        "recurrent_bias": "bias_hh_l0",
    }  # fmt: skip
    if not isinstance(layer, nn.GRU):
        # There is one bias here, and PyTorch adds two.
        nn.init.zeros_(getattr(layer, f"bias_hh_l0{suffix}"))
        del names["recurrent_bias"]
    return [(prefix + path, getattr(layer, name + suffix), layout) for path, name in names.items()]


def sequences(*shape):
    return torch.randn(*shape)


h, c = torch.randn(1, 2, 5), torch.randn(1, 2, 5)
lstm = nn.LSTM(3, 5, batch_first=True)
run(
    "lstm", sequences(2, 7, 3),
    lambda x: (lambda out, state: (out, state[0][0], state[1][0]))(*lstm(x, (h, c))),
    recurrent(lstm, (0, 1, 2, 3)), h=h[0], c=c[0],
)  # fmt: skip
gru = nn.GRU(3, 5, batch_first=True)
run(
    "gru", sequences(2, 7, 3), lambda x: (lambda out, state: (out, state[0]))(*gru(x, h)),
    recurrent(gru, (1, 0, 2)), h=h[0],
)  # fmt: skip
rnn = nn.RNN(3, 5, batch_first=True)
run(
    "simple_rnn", sequences(2, 7, 3), lambda x: (lambda out, state: (out, state[0]))(*rnn(x, h)),
    recurrent(rnn, (0,)), h=h[0],
)  # fmt: skip
both = nn.LSTM(3, 4, batch_first=True, bidirectional=True)
run(
    "bidirectional_lstm", sequences(2, 6, 3), lambda x: both(x)[0],
    [
        *recurrent(both, (0, 1, 2, 3), "forward/"),
        *recurrent(both, (0, 1, 2, 3), "backward/", "_reverse"),
    ],
)  # fmt: skip
both = nn.GRU(3, 4, batch_first=True, bidirectional=True)
run(
    "bidirectional_gru", sequences(2, 6, 3), lambda x: both(x)[0],
    [
        *recurrent(both, (1, 0, 2), "forward/"),
        *recurrent(both, (1, 0, 2), "backward/", "_reverse"),
    ],
)  # fmt: skip

# Attention ------------------------------------------------------------------------------------


class Attention(nn.Module):
    """PyTorch's own function for what happens between projections that are ours to lay out."""

    def __init__(self, size, heads, shared, depth, width, others):
        super().__init__()
        self.heads, self.shared = heads, shared
        self.query = nn.Linear(size, heads * depth)
        self.key = nn.Linear(others, shared * depth)
        self.value = nn.Linear(others, shared * width)
        self.output = nn.Linear(heads * width, size)

    def forward(self, x, y, **how):
        split = [
            part.unflatten(-1, (count, -1)).transpose(1, 2)
            for part, count in (
                (self.query(x), self.heads), (self.key(y), self.shared),
                (self.value(y), self.shared),
            )
        ]  # fmt: skip
        found = nn.functional.scaled_dot_product_attention(*split, enable_gqa=True, **how)
        return self.output(found.transpose(1, 2).flatten(-2))


def projections(module):
    return [
        (f"{name}/{ours}", getattr(getattr(module, name), theirs), layout)
        for name in ("query", "key", "value", "output")
        for ours, theirs, layout in (("kernel", "weight", transposed), ("bias", "bias", same))
    ]


own = nn.MultiheadAttention(8, 2, batch_first=True)
nn.init.normal_(own.in_proj_bias)


def part(number, transpose):
    def layout(tensor):
        found = tensor.chunk(3)[number]
        return found.T if transpose else found

    return layout


mask = torch.ones(5, 5, dtype=torch.bool).tril()
padding = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
run(
    "attention", torch.randn(2, 5, 8),
    lambda x: own(x, x, x, attn_mask=~mask, key_padding_mask=~padding, need_weights=False)[0],
    [
        ("in/kernel", own.in_proj_weight, same), ("in/bias", own.in_proj_bias, same),
        ("output/kernel", own.out_proj.weight, transposed),
        ("output/bias", own.out_proj.bias, same),
    ],
    key_mask=padding,
)  # fmt: skip
# What PyTorch has in one matrix are three layers here.
for which in ("w", "dw"):
    for kind in ("kernel", "bias"):
        whole = torch.from_numpy(FOUND.pop(f"attention/{which}/in/{kind}"))
        for number, name in enumerate(("query", "key", "value")):
            FOUND[f"attention/{which}/{name}/{kind}"] = part(number, kind == "kernel")(
                whole
            ).numpy()
others = torch.randn(2, 7, 6)
cross = Attention(8, 4, 4, 3, 5, 6)
run(
    "cross_attention", torch.randn(2, 5, 8), lambda x: cross(x, others), projections(cross),
    others=others,
)  # fmt: skip
grouped = Attention(8, 4, 2, 3, 3, 8)
run(
    "grouped_attention", torch.randn(2, 5, 8), lambda x: grouped(x, x, is_causal=True),
    projections(grouped),
)  # fmt: skip

# Others ---------------------------------------------------------------------------------------

dense = nn.Linear(4, 3)
run(
    "dense", torch.randn(2, 5, 4), dense,
    [("kernel", dense.weight, transposed), ("bias", dense.bias, same)],
)  # fmt: skip
table = nn.Embedding(6, 3)
run("embedding", torch.tensor([[0, 5, 2], [2, 2, 1]]), table, [("embeddings", table.weight, same)])
for case, module in {
    "max_pool2d": nn.MaxPool2d(3, 2),
    "average_pool2d": nn.AvgPool2d(2),
    "adaptive_average_pool2d": nn.AdaptiveAvgPool2d((3, 2)),
    "adaptive_max_pool2d": nn.AdaptiveMaxPool2d((3, 2)),
    "up_sampling2d": nn.Upsample(scale_factor=2),
    "up_sampling2d_bilinear": nn.Upsample(scale_factor=2, mode="bilinear"),
}.items():
    run(case, torch.randn(2, 5, 6, 3), lambda x, module=module: last(module(first(x))), [])

path = Path(__file__).with_name("layers.npz")
np.savez_compressed(path, **FOUND)
print(f"{len(FOUND)} arrays, {path.stat().st_size / 1e3:.0f} KB, PyTorch {torch.__version__}")
