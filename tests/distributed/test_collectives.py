"""Collectives against NumPy on ranks that are threads: values, gradients, captured, in batches."""

from __future__ import annotations

import os
import signal

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
from pullback.graph.passes.simplify import simplify
from pullback.graph.trace import Trace
from pullback.spec import OPS, Tier

dist = pb.distributed
RANKS = (1, 2, 3, 4)
REAL = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
        "float16", "bfloat16", "float32", "float64")  # fmt: skip
EVERY = ("bool", *REAL, "complex64", "complex128")


def draw(rng, shape, dtype):
    """Numbers whose sums over a few ranks fit their dtype, and are exact."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    found = rng.integers(0 if dtype[0] == "u" else -8, 9, shape)
    if dtype.startswith("complex"):
        return (found + 1j * rng.integers(-8, 9, shape)).astype(dtype)
    return found.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def parts_of(seed, ranks, shape, dtype):
    rng = np.random.default_rng(seed)
    return [draw(rng, shape, dtype) for _ in range(ranks)]


def wide(parts):
    kind = parts[0].dtype
    whole = np.complex128 if kind.kind == "c" else np.float64
    return np.stack([part.astype(whole) for part in parts])


EXPECTED = {
    "sum": lambda parts, rank: wide(parts).sum(0),
    "mean": lambda parts, rank: wide(parts).mean(0),
    "max": lambda parts, rank: wide(parts).max(0),
    "min": lambda parts, rank: wide(parts).min(0),
    "all_gather": lambda parts, rank: np.concatenate(wide(parts)),
    "reduce_scatter": lambda parts, rank: np.split(wide(parts).sum(0), len(parts))[rank],
    "broadcast": lambda parts, rank: wide(parts)[-1],
    "all_to_all": lambda parts, rank: np.concatenate(
        [np.split(part, len(parts))[rank] for part in wide(parts)]
    ),
}


def collective(name):
    if name in ("sum", "mean", "max", "min"):
        return lambda x: dist.all_reduce(x, name)
    if name == "broadcast":
        return lambda x: dist.broadcast(x, root=dist.size() - 1)
    return getattr(dist, name)


def dtypes_of(name):
    if name in ("all_gather", "broadcast", "all_to_all"):
        return EVERY
    if name == "mean":
        return [dtype for dtype in EVERY if "float" in dtype or "complex" in dtype]
    return REAL if name in ("max", "min") else [*REAL, "complex64", "complex128"]


def on_ranks(function, parts):
    return dist.run_threads(lambda: function(parts[dist.rank()]), len(parts))


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("ranks", RANKS)
def test_values(name, ranks):
    function = collective(name)
    for seed, dtype in enumerate(dtypes_of(name)):
        for shape in ((), (0,), (ranks,), (2 * ranks, 3), (12 * ranks, 0), (ranks, 2, 5)):
            if not shape and name in ("all_gather", "reduce_scatter", "all_to_all"):
                continue
            parts = parts_of(seed, ranks, shape, dtype)
            found = on_ranks(lambda x: function(pb.asarray(x)), parts)
            for rank, tensor in enumerate(found):
                wanted = EXPECTED[name](parts, rank)
                assert tensor.dtype == pb.asarray(parts[0]).dtype
                assert tensor.shape == wanted.shape
                got = tensor.numpy().astype(wanted.dtype)
                loose = 0.01 if dtype == "bfloat16" else 1e-3 if dtype == "float16" else 1e-6
                np.testing.assert_allclose(got, wanted, rtol=loose if name == "mean" else 0)


@pytest.mark.parametrize("name", EXPECTED)
def test_layouts(name):
    function = collective(name)
    parts = parts_of(3, 2, (6, 4), "float32")
    forms = [
        lambda x: pb.asarray(np.asfortranarray(x)),
        lambda x: pb.asarray(x[::-1].copy())[::-1],
        lambda x: pb.matrix_transpose(pb.asarray(x.T.copy())),
        lambda x: pb.asarray(np.repeat(x, 2, axis=1))[:, ::2],
    ]
    for form in forms:
        found = on_ranks(lambda x, form=form: function(form(x)).numpy(), parts)
        for rank, array in enumerate(found):
            np.testing.assert_array_equal(array, EXPECTED[name](parts, rank))


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("size", [10**5, 10**7])
def test_large(name, size):
    parts = parts_of(4, 2, (size,), "float32")
    found = on_ranks(lambda x: collective(name)(pb.asarray(x)).numpy(), parts)
    for rank, array in enumerate(found):
        np.testing.assert_array_equal(array, EXPECTED[name](parts, rank))


def test_sums_of_16_bits_are_made_in_float32():
    parts = [np.float16(40000), np.float16(40000), np.float16(-40000)]
    assert [x.item() for x in on_ranks(lambda x: dist.all_reduce(pb.asarray(x)), parts)] == [
        40000
    ] * 3


def total(function, weights):
    """The loss of all ranks: the sum of theirs."""
    return lambda x: (function(x) * weights(function(x).shape)).sum()


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("captured", [False, True])
def test_gradients(name, captured):
    """Against finite differences of the sum of all ranks' losses."""
    function, ranks = collective(name), 3
    rng = np.random.default_rng(7)
    parts = [rng.normal(size=(2 * ranks, 2)) for _ in range(ranks)]
    weights = [rng.normal(size=(2 * ranks * ranks, 2)) for _ in range(ranks)]

    def loss(parts):
        found = [EXPECTED[name](parts, rank) for rank in range(ranks)]
        return sum((y**2 * w[: len(y)]).sum() for y, w in zip(found, weights, strict=True))

    def run(part):
        own = pb.asarray(weights[dist.rank()])

        def gradient(x):
            with pb.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
                value = (y**2 * own[: y.shape[0]]).sum()
            return tape.gradient(value, x)

        step = pb.function(gradient) if captured else gradient
        return [step(pb.asarray(part)).numpy() for _ in range(4)]

    found = on_ranks(run, parts)
    for rank in range(ranks):
        for k, i in ((0, 0), (1, 1), (5, 0)):
            moved = [part.copy() for part in parts]
            moved[rank][k, i] += 1e-6
            slope = (loss(moved) - loss(parts)) / 1e-6
            for array in found[rank]:
                assert abs(array[k, i] - slope) < 1e-4 * max(1, abs(slope))
                np.testing.assert_array_equal(array, found[rank][0])


def test_second_derivatives():
    def run():
        x = pb.asarray(float(dist.rank() + 1))
        with pb.GradientTape() as outer:
            outer.watch(x)
            with pb.GradientTape() as inner:
                inner.watch(x)
                y = dist.all_reduce(x) ** 3
            first = inner.gradient(y, x)
        return first.item(), outer.gradient(first, x).item()

    # Two ranks, each with the loss s**3 of the sum s = 3: 2 * 3 s**2, and twice 2 * 6 s.
    assert dist.run_threads(run, 2) == [(54.0, 72.0)] * 2


def test_a_captured_function_keeps_every_call_in_order():
    def run():
        calls = []
        world = dist.world.current()
        agree = world.agree
        world.agree = lambda what: (calls.append(what), agree(what))

        @pb.function
        def step(x):
            dist.all_reduce(x * 0)  # its result is not read
            a, b = dist.all_reduce(x), dist.all_reduce(x)  # twice the same
            dist.barrier()
            dist.broadcast(pb.asarray([1.0, 2.0]))  # of a constant
            return a + b

        found, counts = [], []
        for _ in range(4):
            calls.clear()
            found.append(step(pb.asarray([1.0, 2.0])).tolist())
            counts.append([what.split()[1] for what in calls])
        return found, counts

    order = ["all_reduce"] * 3 + ["barrier", "broadcast"]
    for found, counts in dist.run_threads(run, 2):
        assert found == [[4.0, 8.0]] * 4
        assert counts == [order] * 4


def test_passes_leave_collectives_alone():
    x = pb.asarray([1.0, 2.0])
    trace = Trace(x.device)
    tensor = trace.argument(x._array, "x")
    dist.all_reduce(tensor)
    last = dist.all_reduce(tensor) + dist.all_gather(pb.asarray([1.0], device=trace.device))[0]
    graph = simplify(trace.graph([last._array.value]))
    names = [call.op.name for call in graph.calls if call.op.tier is Tier.COLLECTIVE]
    assert names == ["all_reduce", "all_reduce", "all_gather"]


@pytest.mark.parametrize("name", EXPECTED)
def test_vmap(name):
    function = collective(name)
    parts = parts_of(9, 2, (5, 4, 3), "float32")

    def run(part):
        return pb.vmap(function)(pb.asarray(part)).numpy()

    for rank, array in enumerate(on_ranks(run, parts)):
        for item in range(5):
            wanted = EXPECTED[name]([part[item] for part in parts], rank)
            np.testing.assert_array_equal(array[item], wanted)


def test_eval_shape():
    def run():
        spec = pb.TensorSpec((4, 3))
        return [
            pb.eval_shape(f, spec).shape
            for f in (dist.all_reduce, dist.all_gather, dist.reduce_scatter, dist.all_to_all)
        ]

    assert dist.run_threads(run, 2) == [[(4, 3), (8, 3), (2, 3), (4, 3)]] * 2


def test_one_rank_returns_what_it_gets():
    x = pb.asarray([[1.0, 2.0]])
    for name in EXPECTED:
        assert collective(name)(x).tolist() == x.tolist()
    dist.barrier()


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ((lambda x: dist.all_reduce(x), lambda x: dist.broadcast(x)), "calls broadcast"),
        ((lambda x: dist.all_reduce(x), lambda x: dist.all_reduce(x[:1])), r"float32\[1\]"),
        ((lambda x: dist.all_reduce(x), lambda x: dist.all_reduce(x.astype("int32"))), "int32"),
        ((lambda x: dist.all_reduce(x), lambda x: dist.all_reduce(x, "mean")), "op='mean'"),
        ((lambda x: dist.broadcast(x), lambda x: dist.broadcast(x, root=1)), "root=1"),
    ],
)
def test_other_calls_name_both_ranks(calls, words):
    with pytest.raises(pb.errors.CommunicationError, match=words) as caught:
        dist.run_threads(lambda: calls[dist.rank()](pb.asarray([1.0, 2.0])), 2)
    assert "rank 0 calls" in str(caught.value)
    assert "rank 1 calls" in str(caught.value)


def test_a_rank_that_ends_early_is_no_hang():
    def run():
        if dist.rank() == 1:
            raise KeyError("missing")
        return dist.all_reduce(1.0)

    with pytest.raises(KeyError, match="missing") as caught:
        dist.run_threads(run, 3)
    assert caught.value.__notes__ == ["in rank 1 of 3"]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: dist.all_reduce(1.0, "product"), pb.errors.InputValueError, "'mean'"),
        (lambda: dist.all_reduce(1, "mean"), pb.errors.DTypeError, "astype"),
        (lambda: dist.all_reduce(pb.asarray(True)), pb.errors.DTypeError, "bool"),
        (lambda: dist.all_reduce(1j, "max"), pb.errors.DTypeError, "real"),
        (lambda: dist.all_gather(1.0), pb.errors.ShapeError, "x\\[None\\]"),
        (lambda: dist.reduce_scatter(pb.zeros(3)), pb.errors.ShapeError, "2 ranks"),
        (lambda: dist.all_to_all(pb.zeros(3)), pb.errors.ShapeError, "2 ranks"),
        (lambda: dist.broadcast(1.0, root=2), pb.errors.InputValueError, "from 0 to 1"),
    ],
)
def test_wrong_calls(call, error, words):
    with pytest.raises(error, match=words):
        dist.run_threads(call, 2)


def test_tier():
    named = {op.name for op in OPS.values() if op.tier is Tier.COLLECTIVE}
    assert named == {
        *("all_reduce", "all_reduce_extremum", "reduce_to", "all_gather", "reduce_scatter"),
        *("broadcast", "all_to_all", "wait_for_ranks", "begin_all_reduce", "finish_all_reduce"),
    }


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_ranks_of_a_forked_process_trace():
    """Its lock of traces is another one than that of the process in which this was imported."""
    child = os.fork()
    if not child:
        signal.alarm(20)
        found = dist.run_threads(lambda: pb.function(dist.all_reduce)(pb.asarray(1.0)).item(), 2)
        os._exit(found != [2.0, 2.0])
    assert os.waitpid(child, 0)[1] == 0
