"""Programs as CUDA graphs, on the stand-in: what is recorded, in which order, and what comes out.

The stand-in does again what was recorded, with the arrays that were recorded, as a GPU does.
"""

import threading
import warnings

import numpy as np
import pytest

import pullback as pb
import pullback_cupy
from pullback_cupy import cuda_graphs, faults

GPU = pb.device("cupy:gpu")
rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def graphs(monkeypatch):
    monkeypatch.setattr(cuda_graphs, "_enabled", True)
    with pb.device(GPU):
        yield


@pytest.fixture
def log(standin):
    standin.cuda.LOG.clear()
    return standin.cuda.LOG


def array(*shape):
    return pb.asarray(rng.standard_normal(shape).astype(np.float32), device=GPU)


def run(function, *arguments, calls=4):
    """A captured function, called with other values each time; its results are the function's."""
    made = pb.function(function)
    for k in range(calls):
        given = [x * (k + 1.0) for x in arguments]
        found, expected = made(*given), function(*given)
        found, expected = (x if isinstance(x, tuple) else (x,) for x in (found, expected))
        for x, y in zip(found, expected, strict=True):
            assert x.numpy().tobytes() == y.numpy().tobytes()
    return made


def layer(x, y):
    return pb.relu(x * y) + y, pb.softmax(x - y)


def test_what_is_called_in_which_order(log):
    made = run(layer, array(6, 5), array(6, 5), calls=2)
    assert "; compiled by the backend 'cupy'" in made.explain()
    log.clear()
    x, y = array(6, 5), array(6, 5)
    made(x, y)  # the program's first run compiles the kernels
    assert "launch" not in log
    log.clear()
    made(x, y)
    assert log == [
        "own memory", "begin capture", "end capture", "memory of all",
        "wait for event", "launch", "record event",
    ]  # fmt: skip
    log.clear()
    made(x, y)
    assert log == ["wait for event", "launch", "record event"]


def test_every_run_has_its_inputs_and_results_of_its_own(log):
    made = run(layer, array(6, 5), array(6, 5), calls=6)
    x, y, z = array(6, 5), array(6, 5), array(6, 5)
    first, second = made(x, y)[0], made(z, y)[0]
    assert log.count("launch") >= 4
    assert first.numpy().tobytes() == layer(x, y)[0].numpy().tobytes()
    assert second.numpy().tobytes() == layer(z, y)[0].numpy().tobytes()


def test_other_layouts_run_call_by_call(log):
    made = run(layer, array(6, 5), array(6, 5))
    log.clear()
    x, y = pb.permute_dims(array(5, 6), (1, 0)), array(6, 5)
    assert made(x, y)[0].numpy().tobytes() == layer(x, y)[0].numpy().tobytes()
    assert "launch" not in log


def test_fused_kernels_are_recorded(log, monkeypatch):
    graphs, record = [], cuda_graphs.recorded
    monkeypatch.setattr(
        cuda_graphs, "recorded", lambda graph: graphs.append(graph) or record(graph)
    )
    run(lambda x: pb.square(x) * x - 1, array(7), calls=5)
    assert [call.op.name for call in graphs[0].calls] == ["fused"]
    assert "launch" in log


def test_variables_are_written_and_numbers_of_the_host_vary(log):
    weights = pb.Variable(np.linspace(0, 1, 6, dtype=np.float32))
    twin = pb.Variable(np.linspace(0, 1, 6, dtype=np.float32))
    x = array(4, 6)

    def trained(w, optimizer, wrap):
        @wrap
        def step(x):
            with pb.GradientTape() as tape:
                loss = pb.sum(pb.square(x * w - 1))
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
            return loss

        return step

    rate = [pb.optimizers.schedules.exponential_decay(0.1, 3, 0.5) for _ in "12"]
    steps = [
        trained(weights, pb.optimizers.Adam(rate[0]), pb.function),
        trained(twin, pb.optimizers.Adam(rate[1]), lambda f: f),
    ]
    for _ in range(8):
        losses = [float(step(x)) for step in steps]
        np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    np.testing.assert_allclose(weights.numpy(), twin.numpy(), rtol=1e-6)
    assert log.count("launch") >= 4


@pytest.mark.parametrize(
    "function",
    [
        lambda x: pb.matmul(x, x) + 1,
        lambda x: pb.sort(x) * 2,
        lambda x: pb.concat([x, x]) * 2,
        lambda x: x + pb.random.normal((5, 5)),
        lambda x: pb.linalg.inv(x) * 2,
    ],
    ids=["products", "sorting", "joining", "random numbers", "decompositions"],
)
def test_other_programs_are_left_as_they_are(function, log):
    made = pb.function(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            made(array(5, 5))
    assert "; compiled by" not in made.explain()
    assert "begin capture" not in log


def test_off_by_default(log, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "_enabled", False)
    assert not GPU.backend.compiles_kernels()
    run(layer, array(6, 5), array(6, 5))
    assert not log
    pullback_cupy.use_cuda_graphs()
    assert cuda_graphs.enabled()
    pullback_cupy.use_cuda_graphs(False)
    assert not cuda_graphs.enabled()


def test_not_where_every_call_waits(log, monkeypatch):
    monkeypatch.setattr(faults, "BLOCKING", True)
    run(layer, array(6, 5), array(6, 5))
    assert "launch" not in log


def test_what_cannot_be_recorded_runs_call_by_call_with_a_warning(standin, monkeypatch):
    def refuse(self):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(standin.cuda.Stream, "end_capture", refuse)
    with pytest.warns(RuntimeWarning, match="raised RuntimeError: operation not permitted"):
        made = run(layer, array(6, 5), array(6, 5))
    monkeypatch.undo()
    standin._array.RECORDING.clear()
    assert "not compiled by the backend 'cupy', which raised" in made.explain()


def test_an_index_outside_is_told_from_a_graph_too():
    made = pb.function(lambda x, i: pb.take(x, i) * 2)
    x = array(5)
    for k in range(4):
        made(x, pb.asarray([k]))
    found = made(x, pb.asarray([7]))
    with pytest.raises(pb.errors.IndexingError, match="take: an index is outside"):
        found.numpy()


def test_runs_of_two_threads_do_not_share_arrays():
    made = run(layer, array(50, 50), array(50, 50))
    wrong = []

    def work():
        with pb.device(GPU):
            for _ in range(20):
                x, y = array(50, 50), array(50, 50)
                if made(x, y)[0].numpy().tobytes() != layer(x, y)[0].numpy().tobytes():
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
