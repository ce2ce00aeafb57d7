"""Signals, forks, other interpreters and too little memory, while kernels run."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import pullback as pb
from pullback_native import INSTRUCTIONS, _native, kernels
from pullback_numpy import threads
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.threads import number_of_threads

FALLBACKS = NUMPY_KERNELS | kernels.FALLBACKS
rng = np.random.default_rng(0)
X, ROW = rng.standard_normal((1024, 512), np.float32), np.ones(512, np.float32)
NUMBER = np.array(0.5, np.float32)
LABELS = np.arange(1024) % 512
IMAGES = X.reshape(8, 64, 64, 16)
HOW = {"strides": (1, 1), "padding": ((1, 1), (1, 1)), "groups": 1, "dilation": (1, 1),
       "data_format": "channels_last"}  # fmt: skip

# Handlers of signals. ---------------------------------------------------------------------------


class Stopped(Exception):
    """An exception that no kernel raises."""


#: Calls of every kind that ask for the number of threads.
SPLIT = {
    "unary": lambda: pb.tanh(X),
    "binary": lambda: pb.add(X, X),
    "number": lambda: pb.multiply(X, 3.0),
    "row": lambda: pb.add(X, ROW),
    "where": lambda: pb.where(X > 0, X, X),
    "softmax": lambda: pb.softmax(X),
    "cross entropy": lambda: pb.sparse_softmax_cross_entropy_with_logits(X, LABELS),
    "its gradient": lambda: pb.ops.sparse_softmax_cross_entropy_gradient(
        X, LABELS, np.ones((1024, 1), np.float32), np.ones(1024, np.float32)
    ),
    "layer_norm": lambda: pb.layer_norm(X, ROW, ROW),
    "layer_norm_gradient": lambda: pb.ops.layer_norm_gradient(X, ROW, X[:, :1], X[:, :1], X),
    "group_norm_gradient": lambda: pb.ops.group_norm_gradient(
        X.reshape(64, -1, X.shape[1]), ROW, X.reshape(64, -1, X.shape[1]), groups=2
    ),
    "rms_norm": lambda: pb.rms_norm(X, ROW),
    "batch_norm": lambda: pb.batch_norm(X, ROW, ROW),
    "batch_norm_inference": lambda: pb.batch_norm_inference(X, ROW, ROW, ROW, ROW),
    "batch_norm_gradient": lambda: pb.ops.batch_norm_gradient(X, ROW, ROW, ROW, X, ROW, ROW),
    "sum": lambda: pb.sum(X),
    "segment_sum": lambda: pb.segment_sum(X, LABELS, 512),
    "take": lambda: pb.take(X, LABELS),
    "concat": lambda: pb.concat([X, X]),
    "reshape": lambda: pb.reshape(pb.permute_dims(X.reshape(64, 16, 8, 64), (0, 2, 1, 3)), -1),
    "matmul": lambda: pb.matmul(X, X.T),
    "linear": lambda: pb.linear(X, X.T, None),
    "sgd": lambda: pb.ops.sgd_update(X, X, NUMBER),
    "momentum": lambda: pb.ops.momentum_update(X, X, X, NUMBER, momentum=0.9),
    "adam": lambda: pb.ops.adam_update(
        X, X, X, X * X, NUMBER, NUMBER, beta1=0.9, beta2=0.999, epsilon=1e-7
    ),
    "max_pool": lambda: pb.max_pool(IMAGES, window=2),
    "depthwise": lambda: pb.conv(IMAGES, X[:9, :16].reshape(3, 3, 1, 16), groups=16),
    "conv": lambda: pb.conv(IMAGES, X[:9, :256].reshape(3, 3, 16, 16)),
    "attention": lambda: pb.scaled_dot_product_attention(IMAGES, IMAGES, IMAGES),
    "lstm": lambda: pb.lstm(
        X.reshape(64, 16, 512), X[:64, :32], X[:64, 32:64], X[:512, :128], X[:32, :128], None
    ),
}

#: Without vector instructions products are NumPy's, which asks for threads in Python.
OWN = [name for name in SPLIT if INSTRUCTIONS != "base" or name not in ("matmul", "linear")]


def numbers(result):
    several = result if isinstance(result, (tuple, list)) else [result]
    return [np.asarray(one) for one in several]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no SIGUSR1 here")
@pytest.mark.parametrize("name", OWN)
def test_what_a_handler_raises_is_not_lost(name):
    """Handlers of signals run while C asks Python for the number of threads."""

    def handler(number, frame):
        raise Stopped(name)

    def count():
        if again:
            signal.raise_signal(signal.SIGUSR1)
        return 2

    again, before = False, signal.signal(signal.SIGUSR1, handler)
    try:
        _native.prepare(FALLBACKS, count)
        with number_of_threads(2):
            expected = numbers(SPLIT[name]())
            again = True
            for _ in range(3):
                with pytest.raises(Stopped, match=f"^{name}$"):
                    SPLIT[name]()
            again = False
            for a, b in zip(numbers(SPLIT[name]()), expected, strict=True):
                np.testing.assert_array_equal(a, b)
    finally:
        signal.signal(signal.SIGUSR1, before)
        _native.prepare(FALLBACKS, threads.threads)


def test_what_is_no_number_of_threads():
    x = np.ones((300, 300), np.float32)
    try:
        for answer, error in (("two", TypeError), (1.5, TypeError)):
            _native.prepare(FALLBACKS, lambda answer=answer: answer)
            with pytest.raises(error):
                _native.tanh(x)
        for answer in (0, -5, 10**30, -(10**30)):
            _native.prepare(FALLBACKS, lambda answer=answer: answer)
            np.testing.assert_allclose(_native.tanh(x), np.tanh(x), rtol=1e-6)
    finally:
        _native.prepare(FALLBACKS, threads.threads)


# Forks. -----------------------------------------------------------------------------------------


def ended(child, seconds=30):
    """The status of a child, which is killed if it hangs."""
    for _ in range(int(seconds * 100)):
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "it hung"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_forked_inside_a_kernel_works():
    """Threads of the pool are at work, and a lock is held: in the child there is neither."""
    ended_all, large = threading.Event(), rng.standard_normal((2048, 512), np.float32)
    expected = _native.tanh(X), _native.matmul(X, X.T)

    def same(values, product):
        # The product is that of BLAS where the pack has none, and BLAS has other threads in a
        # child: sums of 512 products in another order, of numbers whose squares add up to 512.
        bound = 512 * np.finfo(np.float32).eps * 512 if INSTRUCTIONS == "base" else 0
        close = np.abs(product - expected[1]).max() <= bound
        return np.array_equal(values, expected[0]) and close

    def work():
        while not ended_all.is_set():
            _native.tanh(large)

    with number_of_threads(3):
        workers = [threading.Thread(target=work) for _ in range(2)]
        for one in workers:
            one.start()
        try:
            for _ in range(8):
                child = os.fork()
                if not child:
                    status = 1
                    try:
                        found = _native.tanh(X), _native.matmul(X, X.T)
                        status = 0 if same(*found) else 2
                    finally:
                        os._exit(status)
                assert ended(child) == 0
        finally:
            ended_all.set()
            for one in workers:
                one.join()
        np.testing.assert_array_equal(_native.tanh(X), expected[0])


# Other interpreters. ----------------------------------------------------------------------------

INTERPRETER = """
import sys
try:
    import _interpreters as interpreters  # from 3.13 on
    one = interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    one = interpreters.create(isolated=False)

{before}
failed = interpreters.run_string(one, {code!r})
assert failed is None, failed
{after}
"""
IN_MAIN = "import pullback as pb; print(pb.tanh(pb.asarray([0.0])).tolist())"
IMPORTED = """
try:
    {}
except ImportError as error:
    print(error)
"""
IN_OTHER = """
import warnings
warnings.simplefilter("ignore")
try:
    import pullback_native
except ImportError as error:
    print(error)
"""


def interpreted(**parts):
    pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    found = subprocess.run(
        [sys.executable, "-c", INTERPRETER.format(**parts)],
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout.splitlines()


def test_a_subinterpreter_is_refused_and_has_numpys_kernels():
    """The pack has one set of kernels and of threads for a process."""
    alone = interpreted(before="", code=IMPORTED.format("import ml_dtypes"), after="")
    refused, *result = interpreted(before="", code=IN_OTHER + IMPORTED.format(IN_MAIN), after="")
    if (
        alone
    ):  # from Python 3.13 on ml_dtypes itself cannot be imported there, and pullback needs it
        assert [refused, *result] == alone * 2
        return
    assert "pullback_native works in the main interpreter only" in refused
    assert result == ["[0.0]"]


def test_a_subinterpreter_leaves_the_main_one_alone():
    """NumPy is loaded once in a process, by the interpreter that imported it first."""
    first, refused, last = interpreted(before=IN_MAIN, code=IN_OTHER, after=IN_MAIN)
    assert first == last == "[0.0]"
    assert refused


# Little memory. ---------------------------------------------------------------------------------

ADDRESS_SPACE = """
import random, resource, sys
import numpy as np
import numpy.testing  # loaded when first used: not where there is little memory
import pullback as pb
from pullback_numpy.threads import number_of_threads

seed, tries = int(sys.argv[1]), int(sys.argv[2])
chance = random.Random(seed)
x = pb.asarray(np.random.default_rng(seed).standard_normal((1024, 512), np.float32))
heads = pb.reshape(x, (8, 8, 128, 64))
image = pb.reshape(x, (8, 64, 64, 16))
kernel = pb.reshape(x[:9, :256], (3, 3, 16, 16))
row = x[0]
state = pb.zeros((64, 32))


def slope(function):
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


works = [
    lambda: pb.tanh(x), lambda: x + x, lambda: pb.matmul(x, x.mT), lambda: pb.linear(x, x.mT, None),
    lambda: pb.softmax(x), lambda: pb.layer_norm(x, row, row), lambda: pb.batch_norm(x, row, row),
    lambda: pb.sum(x, axis=0), lambda: pb.concat([x, x]), lambda: pb.take(x, np.arange(1024)),
    lambda: pb.conv(image, kernel), lambda: pb.scaled_dot_product_attention(heads, heads, heads),
    lambda: pb.lstm(pb.reshape(x, (64, 16, 512)), state, state, x[:512, :128], x[:32, :128], None),
    lambda: pb.stack([x, x], axis=1), lambda: pb.linalg.lu_factor(pb.reshape(x, (32, 128, 128))),
    lambda: pb.segment_prod(x, np.arange(1024) % 512, 512),
    lambda: pb.pad(x[:250, :250], 1, mode="edge"),
    lambda: pb.linalg.solve_triangular(pb.eye(128), pb.reshape(x, (32, 128, 128))),
    lambda: pb.conv(image, kernel[:, :, :1], groups=16), lambda: pb.repeat(x[:64, :64], 2, axis=1),
    lambda: slope(lambda x: pb.sum(pb.avg_pool(pb.reshape(x[:32], (4, 1, 32, 128)), (1, 4)))),
    lambda: slope(lambda x: pb.sum(pb.layer_norm(x, row, row) * pb.gelu(x))),
]
# The bits of a product that is BLAS's depend on how many threads share it.
expected = {}
for count in (1, 2, 3):
    with number_of_threads(count):
        expected[count] = [work() for work in works]


def flat(result):
    return [part.numpy() for part in (result if isinstance(result, (tuple, list)) else [result])]


def fill():
    kept = []
    try:
        while True:
            kept.append(pb.ones((256, 256)))  # a quarter of a MiB
    except pb.errors.OutOfMemoryError:
        return kept


with open("/proc/self/statm") as file:
    limit = int(file.read().split()[0]) * resource.getpagesize() + 2**25
failures = 0
for _ in range(tries):
    place, count = chance.randrange(len(works)), chance.choice([1, 2, 3])
    with number_of_threads(count):
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        kept = fill()
        del kept[: chance.randrange(1, 40)]
        try:
            works[place]()
        except pb.errors.OutOfMemoryError:
            failures += 1
        kept.clear()
        for a, b in zip(flat(works[place]()), flat(expected[count][place]), strict=True):
            np.testing.assert_array_equal(a, b)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
print(failures)
"""


def in_little_memory(seed, tries):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, "-c", ADDRESS_SPACE, str(seed), str(tries)],
        capture_output=True, text=True, check=False, env=environment, timeout=900,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert 0 < int(found.stdout) < tries


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_AS is Linux's")
def test_address_space_near_its_limit():
    in_little_memory(seed=0, tries=30)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_AS is Linux's")
@pytest.mark.parametrize("seed", range(1, 6))
def test_address_space_near_its_limit_many_times(seed):
    in_little_memory(seed, tries=300)
