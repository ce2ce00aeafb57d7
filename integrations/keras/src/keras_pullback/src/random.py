"""Random tensors: functions of Keras's seeds.

A seed is a pair of numbers that Keras counts up in a variable. It is the key of pullback's
generator, so that the same seed gives the same numbers. In a captured function it has no value to
look at; there a generator of pullback's draws, which such a program advances at each run.
"""

from __future__ import annotations

import math
import threading

from keras.src.backend.common.symbolic_scope import in_symbolic_scope
from keras.src.backend.config import floatx
from keras.src.random.seed_generator import (
    SeedGenerator,
    draw_seed,
    global_seed_generator,
    make_default_seed,
)

import pullback as pb
from keras_pullback.src.ops.core import (
    cast,
    convert_to_numpy,
    convert_to_tensor,
    floating,
    name_of,
    to,
)

_LOCAL = threading.local()


def generator(seed):
    """A generator whose numbers are a function of the seed."""
    if seed is None:
        seed = global_seed_generator()
    if isinstance(seed, SeedGenerator):
        if not pb.executing_eagerly():
            seed.next()
            return getattr(seed, "_pullback_generator", pb.random.default_generator)
        if not hasattr(seed, "_pullback_generator"):
            number = make_default_seed() if seed._initial_seed is None else seed._initial_seed
            seed._pullback_generator = pb.Generator(number)
    first, second = (int(word) for word in convert_to_numpy(draw_seed(seed)))
    if not hasattr(_LOCAL, "generator"):
        _LOCAL.generator = pb.Generator(0)
    _LOCAL.generator.state = (first << 32 | second, 0)
    return _LOCAL.generator


def normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    return generator(seed).normal(tuple(shape), mean, stddev, dtype=dtype or floatx())


def uniform(shape, minval=0.0, maxval=1.0, dtype=None, seed=None):
    return generator(seed).uniform(tuple(shape), minval, maxval, dtype=dtype or floatx())


def categorical(logits, num_samples, dtype="int32", seed=None):
    logits = floating(logits)
    noise = generator(seed).uniform((logits.shape[0], num_samples, logits.shape[1]), 1e-20, 1.0)
    drawn = pb.argmax(pb.expand_dims(logits, 1) - pb.log(-pb.log(noise)), axis=-1)
    return cast(drawn, dtype)


def randint(shape, minval, maxval, dtype="int32", seed=None):
    low, high = cast(minval, "float32"), cast(maxval, "float32")
    drawn = generator(seed).uniform(tuple(shape), dtype="float64")
    low, high = low.astype("float64"), high.astype("float64")
    return cast(pb.floor(low + drawn * (high - low)), dtype)


def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    return generator(seed).truncated_normal(tuple(shape), mean, stddev, dtype=dtype or floatx())


def dropout(inputs, rate, noise_shape=None, seed=None):
    inputs = convert_to_tensor(inputs)
    if rate == 0:
        return inputs
    if noise_shape is not None:
        sizes = [n if m is None else m for m, n in zip(noise_shape, inputs.shape, strict=True)]
        noise_shape = tuple(sizes)
    return generator(seed).dropout(inputs, rate, noise_shape=noise_shape)


def shuffle(x, axis=0, seed=None):
    x = convert_to_tensor(x)
    keys = generator(seed).uniform((x.shape[axis],))
    return pb.take(x, pb.argsort(keys), axis=axis)


def gamma(shape, alpha, dtype=None, seed=None):
    if in_symbolic_scope():
        return pb.zeros(tuple(shape), dtype=dtype or floatx())
    return generator(seed).gamma(
        tuple(shape), cast(alpha, dtype or floatx()), dtype=dtype or floatx()
    )


def binomial(shape, counts, probabilities, dtype=None, seed=None):
    dtype = dtype or floatx()
    if in_symbolic_scope():
        return pb.zeros(tuple(shape), dtype=dtype)
    counts, probabilities = cast(counts, "float32"), cast(probabilities, "float32")
    return cast(generator(seed).binomial(tuple(shape), counts, probabilities), dtype)


def beta(shape, alpha, beta, dtype=None, seed=None):
    dtype = dtype or floatx()
    if in_symbolic_scope():
        return pb.zeros(tuple(shape), dtype=dtype)
    alpha, beta = cast(alpha, "float32"), cast(beta, "float32")
    return cast(generator(seed).beta(tuple(shape), alpha, beta), dtype)
