"""pyhf on pullback: a stand-in for its backend for JAX, to run its tests with.

    PULLBACK_DEFAULT_DTYPE=float64 PYTHONPATH=tests/adapters \\
        python -m pytest -p pyhf_on_pullback pyhf/tests -k jax

With the variable CAPTURE the objective and its gradient are captured functions.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from types import ModuleType

import numpy as np
import scipy.stats

import pullback as pb
from pullback import linalg

log = logging.getLogger("pyhf.tensor.jax_backend")
_OURS = "erf erfinv tile isfinite abs sqrt divide log exp stack where einsum broadcast_arrays"


class Distribution:
    """Samples by SciPy, the logarithm of the density by the backend."""

    def __init__(self, kind, density, *parameters):
        self.kind, self.density, self.parameters = kind, density, parameters

    def sample(self, sample_shape):
        drawn = self.kind(*map(np.asarray, self.parameters))
        return pb.asarray(drawn.rvs(tuple(sample_shape) + np.shape(self.parameters[0])))

    def log_prob(self, value):
        return self.density(value, *self.parameters)


class Backend:
    """The tensor library, as pyhf has it."""

    __slots__ = ["default_do_grad", "dtypemap", "name", "precision"]
    array_type = array_subtype = pb.Tensor

    def __init__(self, precision="64b"):
        self.name, self.precision, self.default_do_grad = "jax", precision, True
        wide = precision == "64b"
        self.dtypemap = {
            "float": pb.float64 if wide else pb.float32,
            "int": pb.int64 if wide else pb.int32,
            "bool": pb.bool,
        }

    def _setup(self):
        pass

    def _dtype(self, name):
        try:
            return self.dtypemap[name]
        except KeyError:
            log.exception("Invalid dtype: dtype must be one of %s.", list(self.dtypemap))
            raise

    def astensor(self, tensor_in, dtype="float"):
        return pb.asarray(tensor_in, dtype=self._dtype(dtype))

    def ones(self, shape, dtype="float"):
        return pb.ones(shape, dtype=self._dtype(dtype))

    def zeros(self, shape, dtype="float"):
        return pb.zeros(shape, dtype=self._dtype(dtype))

    def _float(self, value):
        return value if isinstance(value, pb.Tensor) else self.astensor(value)

    def tolist(self, tensor_in):
        return tensor_in if isinstance(tensor_in, list) else pb.asarray(tensor_in).tolist()

    def to_numpy(self, tensor_in):
        return np.asarray(tensor_in)

    def clip(self, tensor_in, min_value, max_value):
        return pb.clip(tensor_in, min_value, max_value)

    def conditional(self, predicate, true_callable, false_callable):
        return true_callable() if predicate else false_callable()

    def gather(self, tensor, indices):
        return tensor[indices]

    boolean_mask = gather

    def sum(self, tensor_in, axis=None):
        return pb.sum(tensor_in, axis=axis)

    def product(self, tensor_in, axis=None):
        return pb.prod(tensor_in, axis=axis)

    def percentile(self, tensor_in, q, axis=None, method="linear"):
        return pb.asarray(np.percentile(tensor_in, q, axis=axis, method=method))

    def shape(self, tensor):
        return tensor.shape

    def reshape(self, tensor, newshape):
        return pb.reshape(tensor, newshape)

    def ravel(self, tensor):
        return pb.reshape(tensor, (-1,))

    def transpose(self, tensor_in):
        return pb.permute_dims(tensor_in, tuple(range(tensor_in.ndim))[::-1])

    def poisson_logpdf(self, n, lam):
        n, lam = self._float(n), self._float(lam)
        seen = pb.where(n == 0, 0.0, n * pb.log(pb.where(n == 0, 1.0, lam)))
        return seen - lam - pb.lgamma(n + 1)

    def poisson(self, n, lam):
        return pb.exp(self.poisson_logpdf(n, lam))

    def normal_logpdf(self, x, mu, sigma):
        z = (self._float(x) - self._float(mu)) / self._float(sigma)
        return -pb.log(self._float(sigma) * np.sqrt(2 * np.pi)) - z * z / 2

    def normal(self, x, mu, sigma):
        return pb.exp(self.normal_logpdf(x, mu, sigma))

    def normal_cdf(self, x, mu=0, sigma=1):
        return pb.erfc((mu - self._float(x)) / (self._float(sigma) * np.sqrt(2))) / 2

    def poisson_dist(self, rate):
        return Distribution(scipy.stats.poisson, self.poisson_logpdf, rate)

    def normal_dist(self, mu, sigma):
        return Distribution(scipy.stats.norm, self.normal_logpdf, mu, sigma)


for name in _OURS.split():
    setattr(Backend, name, staticmethod(getattr(pb, name)))
Backend.outer = staticmethod(linalg.outer)
Backend.power, Backend.concatenate = staticmethod(pb.pow), staticmethod(pb.concat)
Backend.simple_broadcast = staticmethod(pb.broadcast_arrays)


@functools.lru_cache(maxsize=64)
def _functions(fixed, variable, do_stitch, objective, pdf, backend):
    from pyhf.tensor.common import _TensorViewer

    def value(pars, data, fixed_values):
        if do_stitch:
            viewer = _TensorViewer([list(fixed), list(variable)])
            pars = viewer.stitch([fixed_values, pars])
        return objective(pars, data, pdf)[0]

    def value_and_gradient(pars, data, fixed_values):
        with pb.GradientTape() as tape:
            tape.watch(pars)
            loss = value(pars, data, fixed_values)
        return loss, tape.gradient(loss, pars)

    both = value, value_and_gradient
    return [pb.function(f) for f in both] if os.environ.get("CAPTURE") else both


def wrap_objective(objective, data, pdf, _stitch_pars, do_grad=False, jit_pieces=None):
    """The objective as SciPy and Minuit call it: numbers and NumPy's arrays."""
    from pyhf import get_backend

    backend, _ = get_backend()
    indices = tuple(jit_pieces["fixed_idx"]), tuple(jit_pieces["variable_idx"])
    functions = _functions(*indices, jit_pieces["do_stitch"], objective, pdf, backend)
    fixed_values = backend.astensor(jit_pieces["fixed_values"])

    def func(pars):
        results = functions[bool(do_grad)](backend.astensor(pars), data, fixed_values)
        return (results[0].item(), results[1].numpy()) if do_grad else results

    return func


for name, attribute, value in (
    ("pyhf.tensor.jax_backend", "jax_backend", Backend),
    ("pyhf.optimize.opt_jax", "wrap_objective", wrap_objective),
):
    sys.modules[name] = module = ModuleType(name)
    setattr(module, attribute, value)
