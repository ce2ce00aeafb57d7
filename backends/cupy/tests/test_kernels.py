"""Kernels at sizes that samples do not have: several warps, blocks, tiles and batches.

What runs on the stand-in is the CUDA source itself, compiled for the host.
"""

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
from pullback_cupy.kernels import convolution

RNG = np.random.default_rng(0)
CPU = pb.device("cpu")


def both(function, *arrays, device, **attributes):
    """The results of an op on the device and on the CPU."""
    results = []
    for one in (device, CPU):
        tensors = [pb.asarray(x, device=one) if isinstance(x, np.ndarray) else x for x in arrays]
        found = function(*tensors, **attributes)
        found = found if isinstance(found, tuple) else (found,)
        results.append([x.numpy() for x in found])
    return zip(*results, strict=True)


def close(found, rtol=2e-6, atol=2e-6):
    for actual, wanted in found:
        wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(actual.astype(wide), wanted.astype(wide), rtol=rtol, atol=atol)


# Philox -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@pytest.mark.parametrize(
    ("key", "counter"),
    [(0, 0), (5, 7), ((1 << 128) - 1, (1 << 256) - 1), (1 << 64, (1 << 64) - 1),
     (3, (1 << 64) - 2), (3, (1 << 128) - 3), (3, (1 << 192) - 1)],
)  # fmt: skip
def test_random_bits_are_the_cpus(dtype, key, counter, device):
    for size in (0, 1, 3, 4, 5, 8, 9, 1000):
        actual, wanted = [
            pb.random_bits((size,), key=key, counter=counter, dtype=dtype, device=one).numpy()
            for one in (device, CPU)
        ]
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_uniform_numbers_are_the_cpus(dtype, device):
    actual, wanted = [
        pb.random_uniform((3, 333), key=9, counter=1, dtype=dtype, device=one).numpy()
        for one in (device, CPU)
    ]
    np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize(("dtype", "within"), [("float64", 1e-14), ("float32", 1e-5)])
def test_normal_numbers_are_the_cpus_within_rounding(dtype, within, device):
    for size in (1, 2, 999):
        actual, wanted = [
            pb.random_normal((size,), key=9, counter=1, dtype=dtype, device=one).numpy()
            for one in (device, CPU)
        ]
        np.testing.assert_allclose(actual, wanted, rtol=within, atol=within)


def test_dropout_keeps_what_the_cpu_keeps(device):
    x = RNG.normal(size=(40, 70)).astype(np.float32)
    for shape in (None, (None, 1)):
        how = {"rate": 0.3, "key": 4, "counter": 2, "noise_shape": shape}
        close(both(pb.dropout, x, device=device, **how))


# Rows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 31, 33, 100, 1500])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16], ids=str)
def test_rows_of_any_length(columns, dtype, device):
    x = (RNG.normal(size=(3, columns)) * 10).astype(dtype)
    within = {2: 2e-2, 4: 2e-6, 8: 1e-12}[x.itemsize]
    for op in (pb.softmax, pb.log_softmax):
        close(both(op, x, device=device), within, within)
    scale, offset = (RNG.normal(size=columns).astype(dtype) for _ in "so")
    close(both(pb.layer_norm, x, scale, offset, device=device), 2 * within, 4 * within)
    close(both(pb.rms_norm, x, scale, device=device), 2 * within, 2 * within)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rows_along_any_axis(axis, device):
    x = RNG.normal(size=(5, 70, 6)).astype(np.float32)
    close(both(pb.softmax, x, device=device, axis=axis))
    labels = RNG.integers(0, x.shape[axis], x.sum(axis).shape)
    labels.flat[:2] = -1, 1000
    how = {"axis": axis, "label_smoothing": 0.1, "ignore_label": -1}
    close(both(pb.sparse_softmax_cross_entropy_with_logits, x, labels, device=device, **how))


def test_rows_of_infinities(device):
    x = np.array([[-np.inf, 1, 2], [-np.inf] * 3, [np.inf, 1, 2], [np.nan, 1, 2]], np.float32)
    close(both(pb.softmax, x, device=device))
    close(both(pb.log_softmax, x, device=device))


# Scattering: more positions than a tile has; places with many, few or no updates -----------------


@pytest.mark.parametrize("size", [1, 7, 300, 70_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64])
def test_sums_at_positions(size, dtype, device):
    indices = np.minimum(RNG.integers(-size, size, 700), RNG.integers(-size, size, 700))
    updates = RNG.normal(size=(700, 3)).astype(dtype)
    close(both(pb.segment_sum, updates, indices, size, device=device), 1e-5, 1e-5)


def test_sums_along_an_inner_axis(device):
    x = RNG.normal(size=(2, 5, 40)).astype(np.float32)
    indices = RNG.integers(0, 5, (4, 100))
    updates = RNG.normal(size=(2, 4, 100, 40)).astype(np.float32)
    close(both(pb.scatter_add, x, indices, updates, device=device, axis=1), 1e-5, 1e-5)
    close(both(pb.scatter_update, x, indices, updates, device=device, axis=1), 0, 0)
    close(both(pb.scatter_max, x, indices, updates, device=device, axis=1), 0, 0)


def test_a_crowd_at_one_place_is_added_up_exactly(device):
    updates = np.tile(np.array([1e8, 1, -1e8], np.float32), 2000)
    found = pb.segment_sum(
        pb.asarray(updates, device=device), pb.zeros(6000, dtype="int32", device=device), 1
    )
    assert found.tolist() == [2000]


def test_the_same_sums_at_every_run(device):
    updates = pb.asarray(RNG.normal(size=(3000, 2)).astype(np.float32), device=device)
    indices = pb.asarray(RNG.integers(0, 9, 3000), device=device)
    once, again = (pb.segment_sum(updates, indices, 9).numpy() for _ in "12")
    np.testing.assert_array_equal(once, again)


# Windows ------------------------------------------------------------------------------------------


def test_convolution_in_several_batches(device, monkeypatch):
    monkeypatch.setattr(convolution, "MOST_BYTES", 5000)
    x = RNG.normal(size=(5, 9, 8, 4)).astype(np.float32)
    kernel = RNG.normal(size=(3, 3, 2, 6)).astype(np.float32)
    how = {"strides": 2, "padding": "same", "groups": 2}
    found = pb.conv(pb.asarray(x, device=device), pb.asarray(kernel, device=device), **how)
    g = RNG.normal(size=found.shape).astype(np.float32)
    close(both(pb.conv, x, kernel, device=device, **how), 1e-5, 1e-5)
    close(both(pb.ops.conv_input_gradient, g, kernel, device=device, input_shape=x.shape, **how),
          1e-5, 1e-5)  # fmt: skip
    close(both(pb.ops.conv_kernel_gradient, x, g, device=device, kernel_shape=kernel.shape, **how),
          1e-5, 1e-5)  # fmt: skip


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("spatial", [(40,), (13, 11), (6, 5, 7)])
def test_pooling_of_any_dimensions(spatial, data_format, device):
    shape = (2, *spatial, 3) if data_format == "channels_last" else (2, 3, *spatial)
    x = RNG.normal(size=shape).astype(np.float32)
    for op in (pb.max_pool, pb.avg_pool):
        how = {"window": 3, "strides": 2, "padding": "same", "data_format": data_format}
        close(both(op, x, device=device, **how))


# Attention and updates ----------------------------------------------------------------------------


def test_attention_with_a_mask_shared_heads_and_causality(device):
    query, key, value = (
        RNG.normal(size=(2, heads, 40, 16)).astype(np.float32) for heads in (4, 2, 2)
    )
    mask = RNG.random((40, 40)) < 0.8
    mask[:, 0] = True
    for seen in (None, mask, mask.astype(np.float32)):
        for is_causal in (False, True):
            close(both(pb.scaled_dot_product_attention, query, key, value, seen, device=device,
                       is_causal=is_causal), 1e-5, 1e-5)  # fmt: skip


def test_adam_takes_many_steps(device):
    p, g = (RNG.normal(size=(50, 30)).astype(np.float32) for _ in "pg")

    def steps(p, g):
        m = v = p * 0
        for step in range(1, 20):
            p, m, v = pb.ops.adam_update(
                p, g * step, m, v, 0.01, step,
                beta1=0.9, beta2=0.999, epsilon=1e-7, weight_decay=0.1,
            )  # fmt: skip
        return p, m, v

    close(both(steps, p, g, device=device), 1e-5, 1e-6)
