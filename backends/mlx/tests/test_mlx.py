"""The MLX backend: training as on NumPy, captured functions, threads, and some ops in the kit."""

import threading

import numpy as np
import pytest

import pullback as pb
from pullback_conformance.runner import conform

pytest.importorskip("mlx.core", reason="MLX is installed in an environment of its own")


@pytest.fixture(autouse=True)
def on_mlx():
    with pb.device("mlx"):
        yield


def trained(device, *, capture=False, steps=25):
    with pb.device(device):
        pb.random.seed(3)
        model = pb.Sequential(
            [
                *(pb.layers.Dense(16, activation="gelu"), pb.layers.LayerNormalization()),
                *(pb.layers.Dropout(0.1), pb.layers.Dense(3)),
            ]
        )
        optimizer = pb.optimizers.Adam(0.01)

        def step(x, y):
            with pb.GradientTape() as tape:
                logits = model(x, training=True)
                loss = pb.losses.sparse_softmax_cross_entropy(y, logits)
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss

        run = pb.function(step) if capture else step
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((32, 8), np.float32), rng.integers(0, 3, 32)
        losses = [float(run(pb.asarray(x), pb.asarray(y))) for _ in range(steps)]
        return losses, run


def test_a_network_learns_as_on_numpy():
    losses, _ = trained("mlx")
    np.testing.assert_allclose(losses, trained("cpu")[0], rtol=1e-4)


def test_a_captured_step_is_compiled_by_mlx():
    losses, step = trained("mlx", capture=True)
    np.testing.assert_allclose(losses, trained("cpu")[0], rtol=1e-4)
    assert "compiled by the backend 'mlx'" in step.explain()


def test_threads_compute_in_turn():
    results = {}

    def work(number):
        with pb.device("mlx"):
            x = pb.full((40,), float(number))
            for _ in range(150):
                x = pb.tanh(x) + 0.5
            results[number] = x.numpy()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, found in results.items():
        with pb.device("cpu"):
            x = pb.full((40,), float(number))
            for _ in range(150):
                x = pb.tanh(x) + 0.5
        np.testing.assert_allclose(found, x, rtol=1e-5)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_mlx_serves_inference(is_causal):
    rng = np.random.default_rng(1)
    q, k, v = (pb.asarray(rng.standard_normal((2, 3, 7, 8), np.float32)) for _ in range(3))
    served = pb.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    with pb.GradientTape() as tape:
        tape.watch(q)
        recorded = pb.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    np.testing.assert_allclose(served, recorded, atol=2e-6)


def test_positions_out_of_range_are_errors_in_programs_too():
    x, good, bad = pb.arange(5), pb.asarray([0, 4]), pb.asarray([0, 9])
    f = pb.function(lambda x, i: pb.take(x, i) * 2)
    for _ in range(3):
        assert f(x, good).tolist() == [0, 8]
    for call in (pb.take, f):
        with pytest.raises(pb.errors.IndexingError, match="take"):
            call(x, bad)


def test_values_go_to_the_host_and_back():
    for dtype in ("bool", "int64", "uint64", "float16", "bfloat16", "float32"):
        host = np.array([[0, 1], [1, 0]]).astype(pb.asarray(0).astype(dtype).numpy().dtype)
        for laid in (host, host.T, host[::-1], host[:1], host[0, 0]):
            x = pb.asarray(laid)
            assert x.device.backend.name == "mlx"
            np.testing.assert_array_equal(x.numpy(), laid)
            assert x.dtype == dtype


@pytest.mark.parametrize(
    "op", ["exp", "remainder", "take", "scatter_add", "argmax", "copysign", "integer_floor_divide"]
)
def test_the_kit_finds_nothing(op):
    report = conform("mlx", ops=[op], quick=True)
    assert report.passed, report.failures[:3]


@pytest.fixture
def changed():
    """Registers the backend with something changed."""
    from pullback_mlx import MLXBackend

    def make(name, **members):
        backend = type("Changed", (MLXBackend,), {"name": name, **members})()
        pb.register_backend(backend, replace=True)
        return backend

    return make


def test_an_error_that_comes_late_is_of_its_op_alone(changed):
    import mlx.core as mx

    from pullback_mlx.kernels import KERNELS

    def inverse(x):
        return mx.linalg.inv(x, stream=mx.cpu)

    changed("mlxlate", kernels={**KERNELS, "square": inverse})
    with pb.device("mlxlate") as device:
        before = pb.square(pb.eye(2)) + 1.0
        assert before.tolist() == [[2.0, 1.0], [1.0, 2.0]]
        bad = pb.square(pb.zeros((2, 2)))
        worse = bad * 2.0
        # MLX says so once, and then gives zeros: all that was computed with it is in doubt.
        for failed in (worse, bad, worse):
            with pytest.raises(pb.errors.BackendError, match=r"square.*: RuntimeError.*LU"):
                failed.numpy()
        with pytest.raises(pb.errors.BackendError, match=r"square.*: RuntimeError.*LU"):
            device.synchronize()
        device.synchronize()
        assert (before * 2.0).tolist() == [[4.0, 2.0], [2.0, 4.0]]
        with pb.profile(synchronize=True), pytest.raises(pb.errors.BackendError, match="square: "):
            pb.square(pb.zeros((2, 2)))


def test_two_streams_share_memory(changed):
    import mlx.core as mx

    changed(
        "mlxtwo",
        device_count=lambda self, kind: 2,
        native_device=lambda self, kind, index: mx.cpu if index else None,
    )
    with pb.device("mlxtwo:cpu:0"):
        x = pb.ones(2**20)
    before = x.device.memory.used
    y = pb.to_device(x, "mlxtwo:cpu:1")
    assert float(y[5]) == 1.0
    assert x.device.memory.used - before < 2**20
    z = pb.exp(y * 0.0) + y
    assert str(z.device) == "mlxtwo:cpu:1"
    f = pb.function(lambda x: pb.sum(x * 2.0))
    for _ in range(3):
        assert f(z).device is z.device
        assert float(f(z)) == 4.0 * 2**20


def test_calls_that_nobody_reads_are_computed():
    import mlx.core as mx

    x = pb.ones(2**18)
    x.device.synchronize()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    for _ in range(2000):
        x = x + 1.0
    assert mx.get_peak_memory() - before < 2**18 * 4 * 400
    assert float(x[0]) == 2001.0


def test_the_next_number_is_computed_in_a_graph():
    step = pb.function(pb.nextafter)
    with pb.device("mlx"):
        starts = np.array([0, -0.0, 1, -1, 1e-45, -1e-45, np.inf, 2, np.nan, 3], np.float32)
        goals = np.array([1, -1, 2, -2, 0, 0, 0, 2, 1, np.nan], np.float32)
        for _ in range(3):
            found = step(pb.asarray(starts), pb.asarray(goals)).numpy()
    expected = np.nextafter(starts, goals)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[:8]), np.signbit(expected[:8]))
    assert "compiled by the backend 'mlx'" in step.explain()
