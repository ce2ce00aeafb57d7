"""Inputs of samples: arrays drawn from a seed, which are the same at every run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pullback_conformance.sample import Array, Sample, call


def normal(*shape: int, seed: int = 0) -> Array:
    """Standard normal values, at any distance from 0."""
    return np.random.default_rng([seed, *shape, 1]).standard_normal(shape)


def uniform(low: float, high: float, *shape: int, seed: int = 0) -> Array:
    """Values in [low, high)."""
    return np.random.default_rng([seed, *shape, 2]).uniform(low, high, shape)


def away(*shape: int, seed: int = 0, by: float = 0.1) -> Array:
    """Normal values of absolute value at least `by`, away from a kink at 0."""
    x = normal(*shape, seed=seed)
    return np.where(np.abs(x) < by, np.copysign(by + np.abs(x), x), x)


def distinct(*shape: int, seed: int = 0) -> Array:
    """Values that differ by at least 0.1, in random order: no ties for max or sort."""
    size = int(np.prod(shape))
    return (
        np.random.default_rng([seed, *shape, 3])
        .permutation(np.linspace(-0.05 * size, 0.05 * size + 0.05, size))
        .reshape(shape)
    )


def cnormal(*shape: int, seed: int = 0) -> Array:
    """Complex normal values."""
    return normal(*shape, seed=seed) + 1j * normal(*shape, seed=seed + 1)


def integers(low: int, high: int, *shape: int, seed: int = 0) -> Array:
    """int32 values in [low, high)."""
    return np.random.default_rng([seed, *shape, 4]).integers(low, high, shape, dtype=np.int32)


def booleans(*shape: int, seed: int = 0) -> Array:
    """Boolean values."""
    return np.random.default_rng([seed, *shape, 5]).integers(0, 2, shape).astype(np.bool_)


def pairs(
    first: Callable[..., Array], second: Callable[..., Array], *, seed: int = 1
) -> tuple[Sample, ...]:
    """Samples of two inputs by these draws: of one shape, broadcast, 0-d and empty."""
    return (
        call(first(3, 4), second(3, 4, seed=seed)),
        call(first(3, 1), second(4, seed=seed), note="broadcast"),
        call(first(), second(seed=seed), note="0-d"),
        call(normal(0, 3), normal(1, 3), note="empty"),
    )
