"""Work split over threads: the same results, errors that arrive, BLAS left as it was."""

import _thread
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest

from pullback_numpy import products, threads
from pullback_numpy.kernels import KERNELS


def _rng():
    return np.random.default_rng(0)


def _normal(*shape):
    return _rng().standard_normal(shape, np.float32)


def _square(n):
    return _normal(n, n) + 3 * n**0.5 * np.eye(n, dtype=np.float32)


def _conv(kernel, **rest):
    options = {"strides": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
    return lambda *arrays: KERNELS[kernel](*arrays, **options, **rest, data_format="channels_last")


def _lstm():
    x, state = _normal(32, 12, 20), np.zeros((32, 64), np.float32)
    return KERNELS["lstm"](
        x, state, state, _normal(20, 256) / 9, _normal(64, 256) / 9, _normal(256), None,
        reverse=False,
    )  # fmt: skip


def _lstm_gradient():
    x, state = _normal(32, 12, 20), np.zeros((32, 64), np.float32)
    out, h, c, gates, cells = _lstm()
    return KERNELS["lstm_gradient"](
        x, state, state, _normal(20, 256) / 9, _normal(64, 256) / 9, None, out, gates, cells,
        out, h, c, reverse=False,
    )  # fmt: skip


def _attention():
    q, k, v = (_normal(4, 4, 64, 32) for _ in range(3))
    return KERNELS["scaled_dot_product_attention"](q, k, v, None, is_causal=True, scale=0.2)


def _batch_norm():
    x, channel = _normal(32, 24, 24, 32), _normal(32)
    y, mean, variance = KERNELS["batch_norm"](x, channel, channel, axis=3, epsilon=1e-3)
    return y, *KERNELS["batch_norm_gradient"](
        x, channel, mean, variance, y, mean, variance, axis=3, epsilon=1e-3
    )


def _adam():
    p = _normal(1200, 700)
    options = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01}
    return KERNELS["adam_update"](p, p + 1, p, p * p, np.float32(0.1), np.float32(3), **options)


_IMAGES, _FILTERS, _OUT = (32, 16, 16, 32), (3, 3, 32, 24), (32, 16, 16, 24)
CASES = {
    "matmul": lambda: products.matmul(_normal(512, 300), _normal(300, 400)),
    "matmul of few rows": lambda: products.matmul(_normal(40, 900), _normal(900, 900)),
    "linear": lambda: KERNELS["linear"](_normal(4, 128, 300), _normal(300, 400), _normal(400)),
    "linear of few rows": lambda: KERNELS["linear"](
        _normal(40, 900), _normal(900, 900), _normal(900)
    ),
    "stacked matmul": lambda: products.matmul(_normal(20, 128, 90), _normal(20, 90, 128)),
    "conv": lambda: _conv("conv")(_normal(*_IMAGES), _normal(*_FILTERS)),
    "conv_kernel_gradient": lambda: _conv("conv_kernel_gradient", kernel_shape=_FILTERS)(
        _normal(*_IMAGES), _normal(*_OUT)
    ),
    "conv_input_gradient": lambda: _conv("conv_input_gradient", input_shape=_IMAGES)(
        _normal(*_OUT), _normal(*_FILTERS)
    ),
    "max_pool": lambda: KERNELS["max_pool"](
        _normal(*_IMAGES), window=(2, 2), strides=(2, 2), padding=((0, 0), (0, 0)),
        data_format="channels_last",
    ),
    "lstm": _lstm,
    "lstm_gradient": _lstm_gradient,
    "attention": _attention,
    "batch_norm": _batch_norm,
    "layer_norm": lambda: KERNELS["layer_norm"](
        _normal(4096, 256), _normal(256), None, axis=(1,), epsilon=1e-5
    ),
    "gelu": lambda: KERNELS["gelu"](_normal(900, 700), approximate=True),
    "silu_gradient": lambda: KERNELS["silu_gradient"](_normal(900, 700), _normal(900, 700)),
    "softmax": lambda: KERNELS["softmax"](_normal(900, 700), axis=1),
    "softmax_gradient": lambda: KERNELS["softmax_gradient"](
        _normal(900, 700), _normal(900, 700), axis=1
    ),
    "tanh": lambda: KERNELS["tanh"](_normal(900, 700)),
    "relu": lambda: KERNELS["relu"](_normal(900, 700)),
    "lu_factor": lambda: KERNELS["lu_factor"](_square(400)),
    "qr": lambda: KERNELS["qr"](_square(400), mode="reduced"),
    "cholesky": lambda: KERNELS["cholesky"](_square(400), upper=False),
    "inv": lambda: KERNELS["inv"](_square(400)),
    "solve": lambda: KERNELS["solve"](_square(400), _normal(400, 90)),
    "adam_update": _adam,
}  # fmt: skip


def _results(case, count):
    with threads.number_of_threads(count):
        result = CASES[case]()
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("case", CASES)
def test_results_do_not_depend_on_the_number_of_threads(case):
    for count in (2, 3):
        for result, other in zip(_results(case, 1), _results(case, count), strict=True):
            scale = max(1.0, float(np.abs(result).max()))
            np.testing.assert_allclose(result, other, rtol=0, atol=1e-6 * scale)


@pytest.mark.parametrize("case", CASES)
def test_calls_repeat_to_the_last_bit(case):
    for result, other in zip(_results(case, 2), _results(case, 2), strict=True):
        np.testing.assert_array_equal(result, other)


def test_every_piece_is_done_once():
    done = []
    with threads.number_of_threads(3):
        threads.run(done.append, range(100))
    assert sorted(done) == list(range(100))


def test_an_error_in_a_piece_arrives_and_the_threads_live_on():
    def work(piece):
        if piece == 7:
            raise ValueError("piece 7")

    with threads.number_of_threads(2):
        for _ in range(3):
            with pytest.raises(ValueError, match="piece 7"):
                threads.run(work, range(20))
        done = []
        threads.run(done.append, range(20))
    assert sorted(done) == list(range(20))


def test_work_inside_a_piece_is_not_split_again():
    counts = []
    with threads.number_of_threads(2):
        threads.run(lambda _: counts.append(threads.threads()), range(4))
        assert threads.threads() == 2
    assert counts == [1] * 4


def test_callers_in_several_threads_share_the_helpers():
    results = []

    def call():
        done = []
        threads.run(done.append, range(50))
        results.append(sorted(done))

    with threads.number_of_threads(2):
        callers = [threading.Thread(target=call) for _ in range(6)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert results == [list(range(50))] * 6


def test_blas_has_its_threads_back_after_a_kernel():
    if threads._BLAS is None:
        assert threads.single_blas.users == 0
        return
    setter, getter = threads._BLAS
    before = getter()
    setter(2)
    try:
        seen = []
        with threads.number_of_threads(2):
            threads.run_with_blas(lambda _: seen.append(getter()), range(4))
            with pytest.raises(ZeroDivisionError):
                threads.run_with_blas(lambda _: 1 // 0, range(4))
        assert seen == [1] * 4
        assert getter() == 2
    finally:
        setter(before)


def _child(queue):
    done = []
    threads.run(done.append, range(10))
    queue.put(sorted(done))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own():
    # Where there is no fork, a child begins with the import, which is the same to it.
    kinds = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if "fork" in kinds else None)
    with threads.number_of_threads(2):
        threads.run(lambda _: None, range(4))
        queue = context.Queue()
        child = context.Process(target=_child, args=(queue,))
        child.start()
        assert queue.get(timeout=120) == list(range(10))
        child.join()


# How many threads: what the environment says. ---------------------------------------------------


def _configured(monkeypatch, own=None, openmp=None):
    for name, text in (("PULLBACK_NUM_THREADS", own), ("OMP_NUM_THREADS", openmp)):
        monkeypatch.delenv(name, raising=False)
        if text is not None:
            monkeypatch.setenv(name, text)
    return threads._configured_threads()


@pytest.mark.parametrize(("text", "count"), [("3", 3), (" 2 ", 2), ("1024", 1024), ("٣", 3)])
def test_a_number_of_threads(monkeypatch, text, count):
    assert _configured(monkeypatch, text, "7") == count


@pytest.mark.parametrize(
    "text", ["²", "0", "-1", "2.0", "many", "1025", "6000", "1" + 20 * "0", 5000 * "9"]
)
def test_what_is_no_number_of_threads_is_said_and_not_used(monkeypatch, text):
    cores = _configured(monkeypatch)
    with pytest.warns(UserWarning, match="PULLBACK_NUM_THREADS must be an integer from 1 to 1024"):
        assert _configured(monkeypatch, text, "7") == cores


@pytest.mark.parametrize(
    ("text", "count"), [("5", 5), ("4,2", 4), ("²", None), ("0", None), ("6000", None), ("", None)]
)
def test_openmps_number_of_threads(monkeypatch, text, count):
    cores = _configured(monkeypatch)
    assert _configured(monkeypatch, "", text) == (count or cores)


def test_the_backend_is_there_whatever_the_number_is():
    environment = {**os.environ, "PULLBACK_NUM_THREADS": "²"}
    code = "import pullback as pb; print(pb.asarray([1.0]).tolist())"
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert process.stdout == "[1.0]\n", process.stderr
    assert "PULLBACK_NUM_THREADS" in process.stderr


def test_no_more_threads_are_started_than_there_are_pieces():
    before = _thread._count()
    with threads.number_of_threads(500):
        seen = []
        threads.run(lambda piece: seen.append(_thread._count()), range(4))
        assert max(seen) <= before + 3


def test_where_no_thread_can_be_started_the_caller_does_the_work(monkeypatch):
    def refuse(function, args):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_POOL", threads._Pool(3))
    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    done = []
    for _ in range(2):
        threads.run(done.append, range(5))
    assert sorted(done) == sorted([*range(5)] * 2)


def test_a_thread_that_ends_before_it_begins_does_not_hold_up_the_caller():
    # As one does that has no memory for its first frame.
    code = """
        import threading
        threading.Thread._bootstrap_inner = lambda self: None
        from pullback_numpy import threads
        threads._Pool._serve = lambda self: None
        done = []
        with threads.number_of_threads(3):
            threads.run(done.append, range(5))
        print(sorted(done))
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert process.stdout == "[0, 1, 2, 3, 4]\n", process.stderr


def test_helpers_keep_no_arrays_of_the_last_job():
    array = _normal(8)
    alive = weakref.ref(array)
    both = threading.Barrier(2)
    with threads.number_of_threads(2):
        # Each of the two threads has a piece.
        threads.run(lambda piece, array=array: both.wait(10), range(2))
        del array
        assert alive() is None


@pytest.mark.parametrize("rows", [1, 3])
def test_cross_entropies_of_rows_too_long_for_one_piece(rows):
    logits, labels = _normal(rows, 300_000), np.arange(rows) * 1000
    wide = logits.astype(np.float64)
    top = wide.max(axis=1)
    sums = top + np.log(np.exp(wide - top[:, None]).sum(axis=1))
    how = {"axis": 1, "label_smoothing": 0.0}
    entropies = KERNELS["sparse_softmax_cross_entropy_with_logits"]
    sparse, normalizer = entropies(logits, labels, ignore_label=None, **how)
    np.testing.assert_allclose(sparse, sums - wide[np.arange(rows), labels], rtol=1e-6)
    np.testing.assert_allclose(normalizer[:, 0], sums, rtol=1e-6)
    one_hot = np.zeros_like(logits)
    one_hot[np.arange(rows), labels] = 1
    dense, _ = KERNELS["softmax_cross_entropy_with_logits"](logits, one_hot, **how)
    np.testing.assert_allclose(dense, sparse, rtol=1e-6)
