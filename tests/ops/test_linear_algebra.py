"""Properties beyond the generated tests: gradients through vectors that are free in sign or phase,
and at the places where a formula would divide by zero.
"""

import numpy as np
import pytest

import pullback as pb
from pullback.ops.linalg.solvers import turn

STEP = 1e-6


def normal(*shape, seed=0, kind=float):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if kind is complex else x


def weighed(y, seed=5):
    """A real number that depends on every element of y."""
    kind = complex if y.dtype.kind == "c" else float
    return pb.sum(pb.real(y * normal(*y.shape, seed=seed, kind=kind)) if kind is complex
                  else y * normal(*y.shape, seed=seed))  # fmt: skip


def gradient(f, x):
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


def along(f, x, direction):
    ahead, behind = f(pb.asarray(x + STEP * direction)), f(pb.asarray(x - STEP * direction))
    return (float(ahead) - float(behind)) / (2 * STEP)


def agrees(f, x, tolerance=1e-5):
    direction = normal(*x.shape, seed=9, kind=complex if np.iscomplexobj(x) else float)
    g = gradient(f, pb.asarray(x))
    assert g.dtype == x.dtype
    expected = along(f, x, direction)
    found = np.sum(np.conj(g.numpy()) * direction).real
    assert abs(found - expected) <= tolerance * max(1, abs(expected))


def agrees_twice(f, x):
    agrees(f, x)
    weights = normal(*x.shape, seed=4, kind=complex if np.iscomplexobj(x) else float)

    def first(t):
        product = gradient(f, t) * weights
        return pb.sum(pb.real(product)) if np.iscomplexobj(x) else pb.sum(product)

    agrees(first, x, tolerance=1e-4)


def adjoint(x):
    return pb.conj(x.mT) if x.dtype.kind == "c" else x.mT


def columns_times(vectors, values):
    return vectors * pb.expand_dims(values, axis=-2)


def exponential_by_eigh(x):
    w, v = pb.linalg.eigh(x)
    return weighed(columns_times(v, pb.exp(w / 4)) @ adjoint(v))


def exponential_by_eig(x):
    w, v = pb.linalg.eig(x)
    return weighed(columns_times(v, pb.exp(w / 4)) @ pb.linalg.inv(v))


def sizes_of_eigenvectors(x):
    return weighed(pb.abs(pb.linalg.eigh(x).eigenvectors)) + weighed(
        pb.sum(pb.abs(pb.linalg.eig(x).eigenvectors), axis=-1)
    )


def through_svd(full_matrices):
    def loss(x):
        u, s, vh = pb.linalg.svd(x, full_matrices=full_matrices)
        k = s.shape[-1]
        total = weighed(columns_times(u[..., :k], pb.exp(s / 4)) @ vh[..., :k, :])
        total = total + weighed(pb.abs(u[..., :k])) + weighed(pb.abs(vh[..., :k, :]))
        if full_matrices:
            beyond_u, beyond_v = u[..., k:], adjoint(vh)[..., k:]
            total = total + weighed(beyond_u @ adjoint(beyond_u))
            total = total + weighed(beyond_v @ adjoint(beyond_v))
        return total

    return loss


def through_complete_qr(x):
    q, r = pb.linalg.qr(x, mode="complete")
    beyond = q[..., x.shape[-1] :]
    return weighed(r) + weighed(beyond @ adjoint(beyond)) + weighed(q[..., : x.shape[-1]])


KINDS = pytest.mark.parametrize("kind", [float, complex], ids=["real", "complex"])


@KINDS
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)], ids=str)
@pytest.mark.parametrize("f", [exponential_by_eigh, exponential_by_eig, sizes_of_eigenvectors])
def test_gradients_through_eigenvectors(f, shape, kind):
    x = normal(*shape, kind=kind)
    agrees_twice(f, x + np.conj(np.swapaxes(x, -1, -2)) + np.diag([0.0, 2.0, 5.0]))


@KINDS
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)], ids=str)
@pytest.mark.parametrize("full_matrices", [False, True])
def test_gradients_through_singular_vectors(shape, kind, full_matrices):
    agrees_twice(through_svd(full_matrices), normal(*shape, kind=kind))


@KINDS
@pytest.mark.parametrize("shape", [(4, 2), (2, 4, 3)], ids=str)
def test_gradients_through_the_columns_that_complete_q(shape, kind):
    agrees_twice(through_complete_qr, normal(*shape, kind=kind))


@KINDS
def test_the_determinant_of_unitary_matrices_is_of_size_1(kind):
    """Though LAPACK's columns have lengths several eps from 1."""
    u, _, vh = np.linalg.svd(normal(200, 3, 3, kind=kind))
    sizes = np.abs(turn(pb.asarray(np.concatenate([u, vh]))).numpy())
    # Each pivot over its size is 3 u from size 1, and their product adds sqrt(5) u for each
    # (Brent, Percival, Zimmermann, "Error bounds on complex floating-point multiplication").
    bound = 3 * (3 + 5**0.5) * np.finfo(float).eps / 2 if kind is complex else 0
    assert np.max(np.abs(sizes - 1)) <= bound


@pytest.mark.parametrize("rank", [1, 2])
def test_the_gradient_of_det_at_a_singular_matrix(rank):
    x = normal(3, rank) @ normal(rank, 3, seed=1)
    agrees(lambda t: pb.linalg.det(t), x)


def test_equal_values_leave_gradients_finite():
    for x in (np.eye(3), np.zeros((3, 3)), np.diag([1.0, 1.0, 2.0])):
        for f in (
            exponential_by_eigh,
            through_svd(False),
            lambda t: weighed(pb.linalg.eigvalsh(t)),
            lambda t: weighed(pb.linalg.svdvals(t)),
            lambda t: pb.linalg.matrix_norm(t, ord=2),
        ):
            assert np.isfinite(gradient(f, pb.asarray(x)).numpy()).all()


@KINDS
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_second_derivative_of_det_at_singular_matrices(size, kind):
    for rank in range(size + 1):
        x = normal(size, rank, kind=kind) @ normal(rank, size, seed=1, kind=kind)
        agrees_twice(lambda t: pb.real(weighed(pb.linalg.det(t[None]))), x)
    stack = np.stack([np.zeros((size, size)), normal(size, size)])
    agrees_twice(lambda t: weighed(pb.linalg.det(t)), stack)


@KINDS
def test_the_gradient_of_slogdet_at_singular_matrices(kind):
    # That of the product of the singular values other than 0.
    regular = normal(3, 3, kind=kind)
    singular = np.zeros((3, 3), regular.dtype)
    singular[:2, 0] = [1, 2]
    x = pb.asarray(np.stack([regular, singular, 0 * singular]))
    g = gradient(lambda t: pb.sum(pb.linalg.slogdet(t).logabsdet), x).numpy()
    for one, matrix in zip(g, x.numpy(), strict=True):
        np.testing.assert_allclose(one, np.linalg.pinv(matrix).conj().T, atol=1e-12)

    def twice(t):
        return pb.sum(pb.abs(gradient(lambda u: pb.sum(pb.linalg.slogdet(u).logabsdet), t)) ** 2)

    assert np.isfinite(gradient(twice, x).numpy()).all()


@pytest.mark.parametrize("kind", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("tolerance", ["float32", "float64"])
def test_a_tolerance_leaves_the_dtype_alone(kind, tolerance):
    x, rtol = pb.eye(3, dtype=kind), pb.asarray(0.1, dtype=tolerance)
    assert pb.linalg.pinv(x, rtol=rtol).dtype == kind
    assert pb.linalg.matrix_rank(x, rtol=rtol).dtype == pb.int64


def test_an_unknown_order_of_a_matrix_norm_names_those_that_are_known():
    with pytest.raises(pb.errors.InputValueError, match=r"one of 'fro', 'nuc', 1, 2.*got 3"):
        pb.linalg.matrix_norm(pb.eye(2), ord=3)


def test_symmetric_functions_of_equal_eigenvalues_have_their_gradient():
    # It does not matter which eigenvectors stand for equal eigenvalues.
    x = np.diag([2.0, 2.0, 5.0])
    for f, expected in (
        (lambda t: pb.sum(pb.log(pb.linalg.eigvalsh(t))), np.linalg.inv(x)),
        (lambda t: pb.sum(pb.linalg.eigvalsh(t) ** 3), 3 * x @ x),
        (lambda t: pb.sum(pb.linalg.svdvals(t) ** 3), 3 * x @ x),
        (lambda t: pb.linalg.matrix_norm(t, ord="nuc"), np.eye(3)),
    ):
        np.testing.assert_allclose(gradient(f, pb.asarray(x)).numpy(), expected, atol=1e-12)


@KINDS
def test_what_turns_vectors_of_equal_values_has_gradient_zero(kind):
    # PyTorch and JAX give NaN here; TensorFlow takes it to be 0 as well.
    x = pb.asarray(np.diag([2.0, 2.0, 5.0]).astype(kind))
    for f, place in (
        (lambda t: pb.linalg.eigh(t).eigenvectors, (0, 1)),
        (lambda t: pb.linalg.svd(t).U, (1, 2)),
    ):
        # V^H dV is how the vectors turn into each other.
        ahead = adjoint(f(x))
        g = gradient(lambda t, f=f, a=ahead, p=place: pb.real((a @ f(t))[p]), x)
        assert np.all(g.numpy() == 0)


def test_second_derivatives_at_equal_values_are_finite():
    for x in (np.eye(3), np.zeros((3, 3)), np.diag([1.0, 1.0, 2.0])):
        for f in (
            exponential_by_eigh,
            through_svd(False),
            lambda t: weighed(pb.linalg.eigvalsh(t)),
            lambda t: weighed(pb.linalg.svdvals(t)),
        ):

            def first(t, f=f):
                return pb.sum(gradient(f, t) ** 2)

            assert np.isfinite(gradient(first, pb.asarray(x)).numpy()).all()


def test_the_norm_of_zero_has_gradient_zero():
    for order in (1, 2, 3, 0.5, np.inf):
        x = pb.zeros((3,))
        g = gradient(lambda t, p=order: pb.linalg.vector_norm(t, ord=p), x)
        assert g.tolist() == [0, 0, 0]
    assert gradient(pb.std, pb.ones((3,))).tolist() == [0, 0, 0]


def test_ties_share_the_gradient():
    x = pb.asarray([1.0, 3.0, 3.0, 2.0])
    assert gradient(pb.max, x).tolist() == [0, 0.5, 0.5, 0]
    assert gradient(lambda t: pb.linalg.vector_norm(t, ord=np.inf), x).tolist() == [0, 0.5, 0.5, 0]


def test_logsumexp_of_infinities():
    rows = pb.asarray([[-np.inf, -np.inf], [np.inf, 1.0], [-np.inf, 0.0]])
    assert pb.logsumexp(rows, axis=1).tolist() == [-np.inf, np.inf, 0.0]
    g = gradient(lambda t: pb.sum(pb.logsumexp(t, axis=1)), rows)
    assert g.tolist() == [[0, 0], [1, 0], [0, 1]]


def test_results_have_names():
    x = pb.asarray([[2.0, 1.0], [1.0, 2.0]])
    assert pb.linalg.qr(x)._fields == ("Q", "R")
    assert pb.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert pb.linalg.svd(x)._fields == ("U", "S", "Vh")
    assert pb.linalg.slogdet(x)._fields == ("sign", "logabsdet")
    assert pb.unique_all(x)._fields == ("values", "indices", "inverse_indices", "counts")
    assert pb.top_k(x, 1)._fields == ("values", "indices")


def test_einsum_of_a_chain_is_taken_in_the_cheap_order():
    # From the left there would be a matrix of 10**10 elements on the way.
    column, row = pb.ones((100_000, 1)), pb.ones((1, 100_000))
    found = pb.einsum("ij,jk,kl->il", column, row, column)
    assert found.shape == (100_000, 1)
    assert pb.all(found == 100_000)
