"""Products of sparse matrices against SciPy's, in every form, with gradients of each order."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback_sparse import CSR, csr, products

RNG = np.random.default_rng(5)
#: Sizes with empty rows and columns, no entries, no rows, no columns.
SHAPES = [(5, 7), (7, 5), (1, 4), (4, 1), (0, 3), (3, 0)]


def drawn(shape, density=0.3, dtype=np.float64, seed=0):
    rng = np.random.default_rng([seed, *shape])
    matrix = scipy.sparse.random_array(shape, density=density, rng=rng).tocsr()
    return matrix.astype(dtype)


@pytest.fixture(params=["SciPy", "ops"])
def kernels(request):
    """With SciPy's loops, and without them, as on another backend."""
    backend = pb.device("cpu").backend
    products.use_own_kernels(pb.device("cpu"))
    if request.param == "ops":
        backend.unregister_kernels("pullback-sparse")
        yield request.param
        products._seen.clear()
        products.use_own_kernels(pb.device("cpu"))
    else:
        yield request.param


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_products(shape, dtype, index):
    matrix = drawn(shape, dtype=dtype)
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    ours = CSR.from_scipy(matrix)
    dense = matrix.toarray()
    tolerance = 1e-5 if np.finfo(dtype).bits == 32 else 1e-12
    for columns in (0, 1, 3):
        x = RNG.normal(size=(shape[1], columns)).astype(dtype)
        y = RNG.normal(size=(shape[0], columns)).astype(dtype)
        for found, wanted in (
            (ours @ x, dense @ x),
            (ours @ pb.asarray(x), dense @ x),
            (ours.T @ y, dense.T @ y),
            (y.T @ ours, y.T @ dense),
            (pb.asarray(x.T) @ ours.T, x.T @ dense.T),
        ):
            assert found.dtype == dtype
            np.testing.assert_allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance)
    v, w = RNG.normal(size=shape[1]).astype(dtype), RNG.normal(size=shape[0]).astype(dtype)
    np.testing.assert_allclose((ours @ v).numpy(), dense @ v, atol=tolerance)
    np.testing.assert_allclose((w @ ours).numpy(), w @ dense, atol=tolerance)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("way", ["@", "T@", "@ from the right"])
def test_gradients_of_two_orders(way):
    matrix = CSR.from_scipy(drawn((5, 4)))
    x = RNG.normal(size=(5 if way == "T@" else 4, 3))
    x = RNG.normal(size=(3, 5)) if way == "@ from the right" else x

    def product(values, x):
        made = matrix.with_values(values)
        y = made @ x if way == "@" else made.T @ x if way == "T@" else x @ made
        return pb.sum(pb.sin(y) * y)

    values = matrix.values
    pb.check_gradients(product, values, pb.asarray(x))
    place = matrix.rows.numpy() * 4 + matrix.columns.numpy()

    def of_dense(values, x):
        made = pb.reshape(pb.segment_sum(values, place, 20), (5, 4))
        y = made @ x if way == "@" else made.T @ x if way == "T@" else x @ made
        return pb.sum(pb.sin(y) * y)

    for argument in (0, 1):

        def second(f, argument=argument):
            inner = pb.grad(f, argument)
            return pb.grad(lambda v, x: pb.sum(pb.cos(inner(v, x))), (0, 1))

        for found, wanted in zip(
            second(product)(values, pb.asarray(x)),
            second(of_dense)(values, pb.asarray(x)),
            strict=True,
        ):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("kernels")
def test_entries_of_one_place_are_added_and_need_no_order():
    matrix = CSR([1.0, 2.0, 4.0, 8.0], [2, 0, 2, 1], [0, 3, 3, 4], (3, 3))
    np.testing.assert_array_equal(matrix.to_dense().numpy(), [[2, 0, 5], [0, 0, 0], [0, 8, 0]])
    gradient = pb.grad(lambda v: pb.sum(matrix.with_values(v) @ pb.asarray([1.0, 2.0, 3.0])))
    assert gradient(matrix.values).tolist() == [3, 1, 3, 2]


@pytest.mark.parametrize("form", ["coo", "csc", "csr", "lil", "dok", "dia", "bsr"])
def test_formats_of_scipy(form):
    matrix = drawn((6, 4)).asformat(form)
    for ours in (CSR.from_scipy(matrix), CSR.from_scipy(scipy.sparse.csr_matrix(matrix))):
        np.testing.assert_array_equal(ours.to_dense().numpy(), matrix.toarray())
        np.testing.assert_array_equal(ours.to_scipy().toarray(), matrix.toarray())
        np.testing.assert_array_equal(ours.T.to_scipy().toarray(), matrix.T.toarray())
        np.testing.assert_array_equal(ours.T.to_dense().numpy(), matrix.T.toarray())
        assert ours.T.T.shape == ours.shape == (6, 4)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_entries_in_any_order(data):
    size, width = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    places = st.tuples(st.integers(0, size - 1), st.integers(0, width - 1))
    entries = data.draw(st.lists(places, max_size=12))
    rows, columns = (np.array([e[i] for e in entries], np.int64) for i in (0, 1))
    values = np.arange(1.0, len(entries) + 1)
    theirs = scipy.sparse.coo_array((values, (rows, columns)), shape=(size, width)).toarray()
    ours = CSR.from_coo(values, rows, columns, (size, width))
    np.testing.assert_array_equal(ours.to_dense().numpy(), theirs)
    x = np.arange(1.0, width + 1)
    found = pb.grad(lambda v: pb.sum(CSR.from_coo(v, rows, columns, (size, width)) @ x))(values)
    np.testing.assert_array_equal(found.numpy(), x[columns])


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("transposed", [False, True])
def test_captured_and_batched(transposed):
    theirs = drawn((6, 6))
    values = pb.Variable(theirs.data)
    matrix = CSR(values, theirs.indices, theirs.indptr, theirs.shape)
    matrix = matrix.T if transposed else matrix
    batch = RNG.normal(size=(3, 6, 2))

    def step(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = matrix @ x
            loss = pb.sum(y * y)
        return y, *tape.gradient(loss, [x, values])

    captured = pb.function(step)
    for x in map(pb.asarray, batch):
        for found, wanted in zip(captured(x), step(x), strict=True):
            assert found.numpy().tobytes() == wanted.numpy().tobytes()
        values.assign_add(pb.ones_like(values.value))
    assert "1 program" in captured.explain()
    dense = matrix.to_dense().numpy()
    np.testing.assert_allclose(pb.vmap(lambda x: matrix @ x)(batch).numpy(), dense @ batch)
    found = pb.vmap(pb.grad(lambda x: pb.sum((x @ matrix) ** 2)))(batch.swapaxes(1, 2))
    np.testing.assert_allclose(found.numpy(), 2 * batch.swapaxes(1, 2) @ dense @ dense.T)


def test_values_that_are_learned(tmp_path):
    theirs = drawn((8, 5), density=0.5)
    wanted, x = theirs @ np.eye(5), np.eye(5)
    values = pb.Variable(np.zeros_like(theirs.data))
    matrix = CSR(values, theirs.indices, theirs.indptr, theirs.shape)
    optimizer = pb.optimizers.SGD(0.5)
    for _ in range(60):
        optimizer.minimize(lambda: pb.sum((matrix @ x - wanted) ** 2) / 2)
    np.testing.assert_allclose(values.numpy(), theirs.data, atol=1e-6)
    saved = pb.Checkpoint(matrix=matrix).save(tmp_path / "c")
    values.assign(values * 0)
    pb.Checkpoint(matrix=matrix).restore(saved)
    np.testing.assert_allclose(matrix.to_dense().numpy(), theirs.toarray(), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves(dtype):
    theirs = drawn((6, 5), dtype=np.float32)
    matrix = CSR(pb.asarray(theirs.data).astype(dtype), theirs.indices, theirs.indptr, (6, 5))
    x = pb.asarray(RNG.normal(size=(5, 2))).astype(dtype)
    y = matrix @ x
    assert y.dtype == x.dtype
    wanted = matrix.values.astype("float64")
    wanted = CSR(wanted, theirs.indices, theirs.indptr, (6, 5)) @ x.astype("float64")
    np.testing.assert_allclose(y.astype("float64").numpy(), wanted.numpy(), rtol=1e-2, atol=1e-2)


M = CSR([1.0, 2.0], [0, 2], [0, 1, 2], (2, 3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: M @ np.ones((2, 2)), "ShapeError", r"3 rows, got \(2, 2\)"),
        (lambda: M.T @ np.ones(3), "ShapeError", "2 rows"),
        (lambda: M @ np.ones((4, 3, 2)), "ShapeError", "vmap"),
        (lambda: np.ones((2, 3)) @ M, "ShapeError", "2 columns"),
        (lambda: M @ 3.0, "ShapeError", "vector or matrix"),
        (lambda: M.with_values([1.0]), "ShapeError", "values must have"),
        (lambda: CSR([1.0], [0, 1], [0, 2], (1, 2)), "ShapeError", "as many values"),
        (lambda: CSR([1.0], [0], [0, 1], (2, 2)), "ShapeError", "3 pointers"),
        (lambda: CSR([1.0], [2], [0, 1], (1, 2)), "IndexingError", "columns must be in"),
        (lambda: CSR([1.0], [-1], [0, 1], (1, 2)), "IndexingError", "columns must be in"),
        (lambda: CSR([1.0], [0], [1, 1], (1, 2)), "IndexingError", "ascend from 0"),
        (lambda: CSR([1.0], [0], [0, 2, 1], (2, 2)), "IndexingError", "ascend from 0"),
        (lambda: CSR([1], [0], [0, 1], (1, 2)), "DTypeError", "floating"),
        (lambda: CSR([1.0], [0.0], [0, 1], (1, 2)), "DTypeError", "int32 or int64"),
        (lambda: CSR([1.0], [[0]], [0, 1], (1, 2)), "ShapeError", "a vector"),
        (lambda: CSR([1.0], [0], [0, 1], 3), "InputTypeError", "two sizes"),
        (lambda: CSR.from_scipy(np.eye(2)), "InputTypeError", "csr_array"),
        (lambda: CSR.from_coo([1.0], [5], [0], (2, 2)), "IndexingError", "rows must be in"),
        (lambda: CSR.from_coo([1.0], [0, 1], [0], (2, 2)), "ShapeError", "for each value"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(getattr(pb.errors, error), match=message):
        call()


def test_examples():
    found = doctest.testmod(csr, extraglobs={"pb": pb})
    assert found.attempted > 5
    assert not found.failed
