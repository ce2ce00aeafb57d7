"""`tf.initializers`, `tf.keras.initializers`, and the `tf.*_initializer` names."""

from __future__ import annotations

import re
from typing import Any

from pullback.layers import initializers
from pullback.layers.initializers import Initializer
from pullback.random import Generator

__all__ = [
    "Constant", "Ones", "Orthogonal", "RandomNormal", "RandomUniform", "TruncatedNormal", "Zeros",
    "constant", "get", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
    "lecun_normal", "lecun_uniform", "ones", "orthogonal", "random_normal", "random_uniform",
    "truncated_normal", "zeros",
]  # fmt: skip


def _generator(seed: int | None) -> Generator | None:
    return None if seed is None else Generator(seed)


def zeros(**_: Any) -> Initializer:
    """Zeros."""
    return initializers.zeros()


def ones(**_: Any) -> Initializer:
    """Ones."""
    return initializers.ones()


def constant(value: float = 0.0, **_: Any) -> Initializer:
    """One value everywhere."""
    return initializers.constant(value)


def random_normal(
    mean: float = 0.0, stddev: float = 0.05, seed: int | None = None, **_: Any
) -> Initializer:
    """Normal numbers."""
    return initializers.normal(mean, stddev, generator=_generator(seed))


def truncated_normal(
    mean: float = 0.0, stddev: float = 0.05, seed: int | None = None, **_: Any
) -> Initializer:
    """Normal numbers no more than two standard deviations from the mean."""
    return initializers.truncated_normal(mean, stddev, generator=_generator(seed))


def random_uniform(
    minval: float = -0.05, maxval: float = 0.05, seed: int | None = None, **_: Any
) -> Initializer:
    """Numbers in a range."""
    return initializers.uniform(minval, maxval, generator=_generator(seed))


def orthogonal(gain: float = 1.0, seed: int | None = None, **_: Any) -> Initializer:
    """An orthogonal matrix, times gain."""
    return initializers.orthogonal(gain, generator=_generator(seed))


def glorot_uniform(seed: int | None = None, **_: Any) -> Initializer:
    """Uniform numbers scaled to fan in and fan out (Glorot and Bengio, 2010)."""
    return initializers.glorot_uniform(generator=_generator(seed))


def glorot_normal(seed: int | None = None, **_: Any) -> Initializer:
    """Normal numbers scaled to fan in and fan out (Glorot and Bengio, 2010)."""
    return initializers.glorot_normal(generator=_generator(seed))


def he_normal(seed: int | None = None, **_: Any) -> Initializer:
    """Normal numbers scaled to fan in (He et al., 2015)."""
    return initializers.he_normal(generator=_generator(seed))


def he_uniform(seed: int | None = None, **_: Any) -> Initializer:
    """Uniform numbers scaled to fan in (He et al., 2015)."""
    return initializers.he_uniform(generator=_generator(seed))


def lecun_normal(seed: int | None = None, **_: Any) -> Initializer:
    """Normal numbers scaled to fan in (LeCun et al., 1998)."""
    return initializers.lecun_normal(generator=_generator(seed))


def lecun_uniform(seed: int | None = None, **_: Any) -> Initializer:
    """Uniform numbers scaled to fan in (LeCun et al., 1998)."""
    return initializers.lecun_uniform(generator=_generator(seed))


# As `tf.keras.initializers` has them, too.
Constant, Ones, Orthogonal, Zeros = constant, ones, orthogonal, zeros
RandomNormal, RandomUniform, TruncatedNormal = random_normal, random_uniform, truncated_normal

# Other names of the same in Keras and `tf.*_initializer`.
_OTHERS = {"uniform": random_uniform, "normal": random_normal}


def get(value: Any) -> Any:
    """Returns the initializer of a name ("RandomNormal"), a class, a number or a function.

    >>> from pullback.compat.tensorflow import initializers
    >>> initializers.get("Zeros")((2,), "float32").tolist()
    [0.0, 0.0]

    Raises:
        InputValueError: for a name that no initializer has.
    """
    if isinstance(value, str):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", value).lower().removesuffix("_initializer")
        if name in _OTHERS:
            return _OTHERS[name]()
        if name in __all__ and name != "get":
            return globals()[name]()
        return initializers.get(value)
    if callable(value) and getattr(value, "__module__", None) == __name__:
        return value()  # written without being called: tf.zeros_initializer
    return value
