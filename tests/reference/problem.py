"""A problem for optimizers: a start, and the gradients of a hundred steps."""

import numpy as np

SHAPE = (3, 4)
_RNG = np.random.default_rng(5)
START = _RNG.normal(size=SHAPE)
# Over a wide range of sizes; one element has none.
GRADIENTS = _RNG.normal(size=(100, *SHAPE)) * 10.0 ** _RNG.integers(-3, 2, size=(100, *SHAPE))
GRADIENTS[:, 0, 0] = 0
