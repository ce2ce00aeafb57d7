"""Layers against PyTorch's with the same weights: results and gradients, from stored values.

`tests/reference/make.py` made them, and says how.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pullback as pb

L = pb.layers
STORED = np.load(Path(__file__).parents[2] / "tests" / "reference" / "layers.npz")
#: Of the largest value of an array: what rounding leaves in float32.
RELATIVE = 1e-5

SEQUENCES = {"return_sequences": True, "return_state": True}
CASES = {
    "adaptive_average_pool2d": lambda: L.AdaptiveAveragePool2D((3, 2)),
    "adaptive_max_pool2d": lambda: L.AdaptiveMaxPool2D((3, 2)),
    "attention": lambda: L.MultiHeadAttention(2, 4),
    "average_pool2d": lambda: L.AveragePool2D(2),
    "batch_norm": lambda: L.BatchNormalization(momentum=0.75, epsilon=1e-3),
    "batch_norm_inference": lambda: L.BatchNormalization(epsilon=1e-3),
    "bidirectional_gru": lambda: L.Bidirectional(L.GRU(4, return_sequences=True)),
    "bidirectional_lstm": lambda: L.Bidirectional(L.LSTM(4, return_sequences=True)),
    "cross_attention": lambda: L.MultiHeadAttention(4, 3, value_dim=5),
    "dense": lambda: L.Dense(3),
    "depthwise_conv1d": lambda: L.DepthwiseConv1D(3, depth_multiplier=2),
    "depthwise_conv2d": lambda: L.DepthwiseConv2D(3, depth_multiplier=2),
    "embedding": lambda: L.Embedding(6, 3),
    "group_norm": lambda: L.GroupNormalization(2),
    "grouped_attention": lambda: L.MultiHeadAttention(4, 3, num_kv_heads=2),
    "gru": lambda: L.GRU(5, **SEQUENCES),
    "instance_norm": lambda: L.InstanceNormalization(),
    "layer_norm": lambda: L.LayerNormalization((-2, -1)),
    "lstm": lambda: L.LSTM(5, **SEQUENCES),
    "max_pool2d": lambda: L.MaxPool2D(3, 2),
    "rms_norm": lambda: L.RMSNormalization(),
    "simple_rnn": lambda: L.SimpleRNN(5, **SEQUENCES),
    "up_sampling2d": lambda: L.UpSampling2D(2),
    "up_sampling2d_bilinear": lambda: L.UpSampling2D(2, "bilinear"),
}
for count in (1, 2, 3):
    Conv, Transpose = (getattr(L, f"Conv{count}D{kind}") for kind in ("", "Transpose"))
    CASES |= {
        f"conv{count}d": lambda Conv=Conv: Conv(6, 3, 2, padding=1),
        f"conv{count}d_groups": lambda Conv=Conv: Conv(6, 2, groups=2, dilation=2),
        f"conv{count}d_transpose": lambda of=Transpose: of(6, 3, 2, padding=1, output_padding=1),
        f"conv{count}d_transpose_groups": lambda of=Transpose: of(6, 3, groups=2),
    }


def stored(case, name):
    return STORED[f"{case}/{name}"]


def call(case, layer, x):
    """The results of a layer, called as the case says."""
    how = {"training": case == "batch_norm"}
    if f"{case}/h" in STORED:
        states = [stored(case, name) for name in ("h", "c") if f"{case}/{name}" in STORED]
        how["initial_state"] = states
    if case == "attention":
        how |= {"is_causal": True, "key_mask": stored(case, "key_mask")}
    if case == "grouped_attention":
        how["is_causal"] = True
    inputs = (x, stored(case, "others")) if case == "cross_attention" else (x,)
    results = layer(*inputs, **how)
    return results if isinstance(results, tuple) else (results,)


def close(got, expected, what):
    got = got.numpy()
    assert got.shape == expected.shape, what
    difference = abs(got - expected).max() / max(abs(expected).max(), 1e-30)
    assert difference < RELATIVE, f"{what}: {difference:.1e}"


def test_every_stored_case_is_tried():
    assert {name.partition("/")[0] for name in STORED.files} == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_results_and_gradients(case):
    x = pb.asarray(stored(case, "x"))
    layer = CASES[case]()
    call(case, layer, x)
    variables = layer.named_variables
    weights = {n.split("/", 2)[2] for n in STORED.files if n.startswith(f"{case}/w/")}
    assert weights == {name for name, variable in variables.items() if variable.trainable}
    for name in weights:
        variables[name].assign(stored(case, f"w/{name}"))
    if case.startswith("batch_norm"):
        begins = {"moving_mean": np.zeros(5), "moving_variance": np.ones(5)}
        for name, begin in begins.items():
            value = begin if case == "batch_norm" else stored(case, name)
            variables[name].assign(value.astype(np.float32))
    with pb.GradientTape() as tape:
        if case != "embedding":
            tape.watch(x)
        results = call(case, layer, x)
        total = sum(
            (result * stored(case, f"g{i or ''}")).sum() for i, result in enumerate(results)
        )
    for i, result in enumerate(results):
        close(result, stored(case, f"y{i or ''}"), f"result {i}")
    names = sorted(weights)
    sources = [variables[name] for name in names]
    found = tape.gradient(total, sources if case == "embedding" else [x, *sources])
    if case != "embedding":
        close(found.pop(0), stored(case, "dx"), "gradient of x")
    for name, gradient in zip(names, found, strict=True):
        if name == "key/bias":
            # It shifts all scores of a query alike: its gradient is 0 but for rounding.
            assert abs(gradient.numpy()).max() < 1e-6
            continue
        close(gradient, stored(case, f"dw/{name}"), f"gradient of {name}")
    if case == "batch_norm":
        for name in ("moving_mean", "moving_variance"):
            close(variables[name], stored(case, name), name)


@pytest.mark.parametrize("shape", [(2, 5, 4), (3, 4, 2, 6), (1, 7, 3), (2, 3, 5, 2, 4)])
@pytest.mark.parametrize("axis", [-1, 1])
def test_instances_are_normalized_each_by_itself(shape, axis):
    layer = L.InstanceNormalization(axis, epsilon=0.0)
    x = np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32) * 3 + 1
    over = tuple(i for i in range(1, len(shape)) if i != axis % len(shape))
    centered = x - x.mean(over, keepdims=True, dtype=np.float64)
    expected = centered / np.sqrt((centered**2).mean(over, keepdims=True))
    for each in (layer, L.InstanceNormalization.from_config(layer.get_config())):
        np.testing.assert_allclose(each(x).numpy(), expected, rtol=2e-5, atol=2e-5)
        assert each.gamma.shape == (shape[axis],)
