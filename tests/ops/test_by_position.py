"""Attributes by position, in NumPy's order; by keyword they are the array API standard's."""

import numpy as np
import pytest

import pullback as pb

X = np.array([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])

CALLS = {
    "all": (lambda x: pb.all(x, 1), lambda x: np.all(x, 1)),
    "any": (lambda x: pb.any(x, 0), lambda x: np.any(x, 0)),
    "argmax": (lambda x: pb.argmax(x, 1), lambda x: np.argmax(x, 1)),
    "argmin": (lambda x: pb.argmin(x, 0), lambda x: np.argmin(x, 0)),
    "argsort": (lambda x: pb.argsort(x, 0), lambda x: np.argsort(x, 0)),
    "concat": (lambda x: pb.concat([x, x], 1), lambda x: np.concat([x, x], 1)),
    "count_nonzero": (lambda x: pb.count_nonzero(x, 1), lambda x: np.count_nonzero(x, 1)),
    "cross": (lambda x: pb.linalg.cross(x, x + x[0], -1), lambda x: np.cross(x, x + x[0])),
    "cumulative_max": (
        lambda x: pb.cumulative_max(x, 1), lambda x: np.maximum.accumulate(x, 1)
    ),
    "cumulative_prod": (lambda x: pb.cumulative_prod(x, 1), lambda x: np.cumprod(x, 1)),
    "cumulative_sum": (lambda x: pb.cumulative_sum(x, 0), lambda x: np.cumsum(x, 0)),
    "diagonal": (lambda x: pb.linalg.diagonal(x, 1), lambda x: np.diagonal(x, 1)),
    "diff": (lambda x: pb.diff(x, 1, 0), lambda x: np.diff(x, 1, 0)),
    "flip": (lambda x: pb.flip(x, 0), lambda x: np.flip(x, 0)),
    "max": (lambda x: pb.max(x, 1), lambda x: np.max(x, 1)),
    "mean": (lambda x: pb.mean(x, 1), lambda x: np.mean(x, 1)),
    "median": (lambda x: pb.median(x, 1), lambda x: np.median(x, 1)),
    "min": (lambda x: pb.min(x, 1), lambda x: np.min(x, 1)),
    "prod": (lambda x: pb.prod(x, 1), lambda x: np.prod(x, 1)),
    "quantile": (lambda x: pb.quantile(x, 0.3, 1), lambda x: np.quantile(x, 0.3, 1)),
    "repeat": (lambda x: pb.repeat(x, 2, 1), lambda x: np.repeat(x, 2, 1)),
    "roll": (lambda x: pb.roll(x, 1, 1), lambda x: np.roll(x, 1, 1)),
    "sort": (lambda x: pb.sort(x, 0), lambda x: np.sort(x, 0)),
    "split": (lambda x: pb.split(x, 3, 1)[1], lambda x: np.split(x, 3, 1)[1]),
    "stack": (lambda x: pb.stack([x, x], 2), lambda x: np.stack([x, x], 2)),
    "std": (lambda x: pb.std(x, 1), lambda x: np.std(x, 1)),
    "sum": (lambda x: pb.sum(x, 1), lambda x: np.sum(x, 1)),
    "take": (lambda x: pb.take(x, [0], 1), lambda x: np.take(x, [0], 1)),
    "take_along_axis": (
        lambda x: pb.take_along_axis(x, np.array([[0]]), 1),
        lambda x: np.take_along_axis(x, np.array([[0]]), 1),
    ),
    "tensordot": (lambda x: pb.tensordot(x, x, 2), lambda x: np.tensordot(x, x, 2)),
    "trace": (lambda x: pb.linalg.trace(x, 1), lambda x: np.trace(x, 1)),
    "tril": (lambda x: pb.tril(x, -1), lambda x: np.tril(x, -1)),
    "triu": (lambda x: pb.triu(x, 1), lambda x: np.triu(x, 1)),
    "unstack": (lambda x: pb.unstack(x, 1)[2], lambda x: np.unstack(x, axis=1)[2]),
    "var": (lambda x: pb.var(x, 1), lambda x: np.var(x, 1)),
    "vecdot": (lambda x: pb.vecdot(x, x, -2), lambda x: np.vecdot(x, x, axis=0)),
    "vector_norm": (
        lambda x: pb.linalg.vector_norm(x, 1), lambda x: np.linalg.norm(x, axis=1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_against_numpy(name):
    ours, numpys = CALLS[name]
    np.testing.assert_allclose(ours(pb.asarray(X)).numpy(), numpys(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "same"),
    [
        (lambda x: pb.softmax(x, 0), lambda x: pb.softmax(x, axis=0)),
        (lambda x: pb.log_softmax(x, 0), lambda x: pb.log_softmax(x, axis=0)),
        (lambda x: pb.logsumexp(x, 0), lambda x: pb.logsumexp(x, axis=0)),
        (lambda x: pb.top_k(x, 1, 0)[0], lambda x: pb.top_k(x, 1, axis=0)[0]),
        (lambda x: pb.glu(x[:, :2], 1), lambda x: pb.glu(x[:, :2], axis=1)),
        (lambda x: pb.resize(x[None, ..., None], (4, 6)),
         lambda x: pb.resize(x[None, ..., None], size=(4, 6))),
        (lambda x: pb.max_pool(x[None, ..., None], 2),
         lambda x: pb.max_pool(x[None, ..., None], window=2)),
        (lambda x: pb.avg_pool(x[None, ..., None], (1, 2)),
         lambda x: pb.avg_pool(x[None, ..., None], window=(1, 2))),
        (lambda x: pb.adaptive_avg_pool(x[None, ..., None], 1),
         lambda x: pb.adaptive_avg_pool(x[None, ..., None], output_size=1)),
        (lambda x: pb.clip_by_norm(x, 1.0), lambda x: pb.clip_by_norm(x, max_norm=1.0)),
    ],
)  # fmt: skip
def test_as_by_keyword(call, same):
    x = pb.asarray(X)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = pb.sum(call(x) ** 2)
    assert (tape.gradient(y, x).numpy() != 0).any()
    np.testing.assert_array_equal(call(x).numpy(), same(x).numpy())
