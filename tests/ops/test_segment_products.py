"""Products of segments where factors are 0, whose gradients no quotient gives."""

import numpy as np

import pullback as pb


def test_gradients_are_those_of_products():
    generator = np.random.default_rng(1)
    for segment in [0, 1, 2] * 7:
        count = generator.integers(1, 9)
        ids = generator.integers(0, 3, count)
        x = generator.integers(-2, 3, count) / 2  # zeros, one or several in a segment

        def by_segment(x, ids=ids, segment=segment):
            return pb.segment_prod(x, ids, 3)[segment]

        def alone(x, mask=ids == segment):
            return pb.prod(x[mask])

        np.testing.assert_allclose(pb.grad(by_segment)(x), pb.grad(alone)(x), rtol=1e-6)
        second = pb.hessian(by_segment)(x), pb.hessian(alone)(x)
        np.testing.assert_allclose(*second, rtol=1e-6)
