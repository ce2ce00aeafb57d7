"""What must work where pullback-sparse has been installed from its wheel."""

import numpy as np
import scipy.sparse

import pullback as pb
import pullback_sparse

assert "site-packages" in pullback_sparse.__file__, pullback_sparse.__file__

graph = scipy.sparse.random_array((30, 20), density=0.2, rng=np.random.default_rng(0))
x = np.random.default_rng(1).normal(size=(20, 3))
matrix = pullback_sparse.CSR.from_scipy(graph)
np.testing.assert_allclose((matrix @ x).numpy(), graph @ x)
gradient = pb.grad(lambda t: pb.sum(matrix @ t))(x)
np.testing.assert_allclose(gradient.numpy(), graph.T @ np.ones((30, 3)))

print("pullback-sparse: a product and its gradient")
