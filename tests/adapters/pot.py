"""Python Optimal Transport on pullback: a backend of theirs, to run their tests with.

    PULLBACK_DEFAULT_DTYPE=float64 PYTHONPATH=tests/adapters python -m pytest -p pot POT/test

Their solvers of one dimension, and conversions to integers, choose by the name of the backend:
the tests of those take `pullback` beside "jax" in a copy.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from ot.backend import Backend, NumpyBackend, _register_backend_implementation
from scipy.sparse import coo_array

import pullback as pb
from pullback import linalg

_OURS = """sum max min maximum minimum sign abs exp log logsumexp sqrt any isnan isinf isfinite
    einsum sort argsort flip clip real imag conj repeat take_along_axis argmax argmin mean std
    meshgrid stack floor prod matmul atan2"""
_LINALG = "outer solve trace inv pinv eigh qr det slogdet"
_NUMPY = "median nan_to_num allclose"
#: Functions that have our arguments, by the name that POT gives them.
SAME = {
    **{name: getattr(pb, name) for name in _OURS.split()},
    **{name: getattr(linalg, name) for name in _LINALG.split()},
    **{name: getattr(np, name) for name in _NUMPY.split()},
    **{"power": pb.pow, "arccos": pb.acos, "concatenate": pb.concat, "zero_pad": pb.pad},
    "unsqueeze": pb.expand_dims,
}


def like(x: Any) -> dict[str, Any]:
    """The dtype and device of `x`, as keywords; the defaults for None."""
    return {} if x is None else {"dtype": x.dtype, "device": x.device}


class PullbackBackend(Backend):
    """Dense tensors; sparse matrices become dense ones, as in POT's backend for JAX."""

    __name__ = "pullback"
    __type__ = pb.Tensor

    def __init__(self) -> None:
        self.__type_list__ = [pb.asarray(1, dtype=name) for name in ("float32", "float64")]
        self.seed(42)

    def _to_numpy(self, a):
        return np.array(a)

    def _from_numpy(self, a, type_as=None):
        return pb.asarray(np.array(a) if isinstance(a, float) else a, **like(type_as))

    def _detach(self, a):
        return pb.stop_gradient(a)

    def set_gradients(self, val, inputs, grads):
        pairs = zip(inputs, grads, strict=True) if isinstance(inputs, tuple) else [(inputs, grads)]
        total = sum(pb.sum(pb.reshape(x, (-1,)) * pb.reshape(g, (-1,))) for x, g in pairs)
        return pb.stop_gradient(val) + (total - pb.stop_gradient(total))

    # Arrays

    def zeros(self, shape, type_as=None):
        return pb.zeros(shape, **like(type_as))

    def ones(self, shape, type_as=None):
        return pb.ones(shape, **like(type_as))

    def full(self, shape, fill_value, type_as=None):
        return pb.full(shape, fill_value, **like(type_as))

    def eye(self, N, M=None, type_as=None):
        return pb.eye(N, M, **like(type_as))

    def linspace(self, start, stop, num, type_as=None):
        return pb.linspace(start, stop, num, **like(type_as))

    def arange(self, stop, start=0, step=1, type_as=None):
        return pb.arange(start, stop, step)

    def copy(self, a):
        return pb.asarray(a, copy=True)

    def dtype_device(self, a):
        return a.dtype, a.device

    def assert_same_dtype_device(self, a, b):
        assert (a.dtype, a.device) == (b.dtype, b.device)

    def bitsize(self, type_as):
        return type_as.dtype.itemsize * 8

    def device_type(self, type_as):
        return "CPU"

    def is_floating_point(self, a):
        return pb.isdtype(a.dtype, "real floating")

    def array_equal(self, a, b):
        return bool(a.shape == b.shape and pb.all(a == b))

    # Functions whose arguments differ

    def cumsum(self, a, axis=None):
        return pb.cumulative_sum(pb.reshape(a, (-1,)) if axis is None else a, axis=axis or 0)

    def norm(self, a, axis=None, keepdims=False):
        return linalg.vector_norm(a, axis=axis, keepdims=keepdims)

    def dot(self, a, b):
        return pb.matmul(a, b) if a.ndim and b.ndim else a * b

    def where(self, condition, x=None, y=None):
        return pb.nonzero(condition) if x is None else pb.where(condition, x, y)

    def reshape(self, a, shape):
        return pb.reshape(a, (shape,) if isinstance(shape, int) else shape)

    def tile(self, a, reps):
        return pb.tile(a, (reps,) if isinstance(reps, int) else reps)

    def transpose(self, a, axes=None):
        return pb.permute_dims(a, tuple(range(a.ndim))[::-1] if axes is None else axes)

    def squeeze(self, a, axis=None):
        ones = tuple(i for i, size in enumerate(a.shape) if size == 1)
        return pb.squeeze(a, axis=ones if axis is None else axis)

    def diag(self, a, k=0):
        return linalg.diagonal(a, offset=k) if a.ndim == 2 else np.diag(a, k)

    def unique(self, a, return_inverse=False):
        return tuple(pb.unique_inverse(a)) if return_inverse else pb.unique_values(a)

    def searchsorted(self, a, v, side="left"):
        if a.ndim == 1:
            return pb.searchsorted(a, v, side=side)
        rows = zip(a, v, strict=True)
        return pb.stack([pb.searchsorted(x, y, side=side) for x, y in rows])

    def sort2(self, a, axis=-1):
        return pb.sort(a, axis=axis), pb.argsort(a, axis=axis)

    def sqrtm(self, a):
        values, vectors = linalg.eigh(a)
        return (vectors * pb.sqrt(values)[..., None, :]) @ pb.matrix_transpose(vectors)

    def kl_div(self, p, q, mass=False, eps=1e-16, axis=None):
        value = pb.sum(p * pb.log(p / q + eps), axis=axis)
        return value + pb.sum(q - p, axis=axis) if mass else value

    # Random numbers

    def seed(self, seed=None):
        if seed is not None:
            self.rng_ = pb.random.Generator(seed)

    def rand(self, *size, type_as=None):
        return self.rng_.uniform(size, **like(type_as))

    def randn(self, *size, type_as=None):
        return self.rng_.normal(size, **like(type_as))

    def randperm(self, size, type_as=None):
        if not isinstance(size, int):
            raise ValueError("size must be an integer")
        order = self.rng_.permutation(size)
        return order if type_as is None else pb.astype(order, type_as.dtype)

    # Sparse matrices

    def coo_matrix(self, data, rows, cols, shape=None, type_as=None):
        parts = [np.asarray(part) for part in (data, rows, cols)]
        return self.from_numpy(NumpyBackend().coo_matrix(*parts, shape).toarray(), type_as=type_as)

    def issparse(self, a):
        return False

    def tocsr(self, a):
        return a

    todense = tocsr

    def eliminate_zeros(self, a, threshold=0.0):
        return pb.where(pb.abs(a) <= threshold, 0.0, a) if threshold > 0 else a

    def sparse_coo_data(self, a):
        matrix = coo_array(np.asarray(a))
        return matrix.row, matrix.col, matrix.data, matrix.shape

    def _bench(self, callable, *args, n_runs=1, warmup_runs=1):
        results = {}
        for type_as in self.__type_list__:
            inputs = [self.from_numpy(arg, type_as=type_as) for arg in args]
            callable(*inputs)
            start = time.perf_counter()
            for _ in range(n_runs):
                callable(*inputs)
            key = ("pullback", "CPU", self.bitsize(type_as))
            results[key] = (time.perf_counter() - start) / n_runs
        return results


for name, function in SAME.items():
    setattr(PullbackBackend, name, staticmethod(function))
_register_backend_implementation(PullbackBackend)
