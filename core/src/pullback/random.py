"""Random tensors: a generator with explicit state, and functions of a default generator.

    pb.random.seed(7)
    w = pb.random.normal((3, 4))

The numbers are functions of the state alone (`pullback.ops.random`). A seed gives the same
integers and uniform numbers on every backend, and the same normal numbers within rounding.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pullback import _hints, dtypes, errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import LOCAL, capturing, reject_making, reject_use
from pullback._distributions import Distributions, parameter
from pullback._numerics.philox import philox
from pullback.devices import Device, DeviceLike, as_device
from pullback.dtypes import DType, DTypeLike, as_dtype
from pullback.ops.arithmetic import add, clip, minimum, multiply, subtract
from pullback.ops.comparison import less
from pullback.ops.creation import arange, full
from pullback.ops.cumulative import cumulative_sum
from pullback.ops.exponential import exp, log1p
from pullback.ops.indexing import take
from pullback.ops.manipulation import moveaxis
from pullback.ops.precision import widest
from pullback.ops.random import dropout as _dropout
from pullback.ops.random import random_bits, random_normal, random_uniform, words_of
from pullback.ops.reductions import count_nonzero as count
from pullback.ops.reductions import max as amax
from pullback.ops.searching import searchsorted
from pullback.ops.sorting import argsort, sort
from pullback.ops.special import erfinv
from pullback.shapes import (
    ShapeLike,
    as_int,
    as_shape,
    broadcast_shapes,
    canonical_axis,
    check_number,
    shape_first,
    size_of,
)
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "Generator",
    "bernoulli",
    "beta",
    "binomial",
    "categorical",
    "default_generator",
    "dirichlet",
    "dropout",
    "exponential",
    "gamma",
    "gumbel",
    "integers",
    "laplace",
    "logistic",
    "normal",
    "permutation",
    "poisson",
    "seed",
    "truncated_normal",
    "uniform",
]

_KEYS = 1 << 128
_COUNTERS = 1 << 256
_WORD = (1 << 64) - 1
#: Permutations from this size on are sorted without their positions beside them.
_LONG = 512


class Generator(Distributions):
    """A generator of random tensors, with a fixed key and a counter that advances.

    Threads may share it. For numbers that do not depend on the order of threads, give each thread
    its own generator from `split`.

    Args:
        seed: an integer; by default one from the operating system.

    >>> generator = pb.Generator(7)
    >>> a = generator.normal((2, 3))
    >>> generator.state = (7, 0)
    >>> bool(pb.all(generator.normal((2, 3)) == a))
    True
    """

    def __init__(self, seed: int | None = None) -> None:
        self._lock = threading.Lock()
        reject_making("a generator", holds_values=False)
        number = int.from_bytes(os.urandom(16), "little") if seed is None else seed
        self._key, self._counter = as_int(number, "an integer seed") % _KEYS, 0

    # State ---------------------------------------------------------------------------------------

    def seed(self, seed: int) -> None:
        """Resets the state to (seed mod 2**128, 0)."""
        self.state = (as_int(seed, "an integer seed") % _KEYS, 0)

    @property
    def state(self) -> tuple[int, int]:
        """The key and the counter: the whole state, which may be assigned."""
        reject_use("reads the state of a generator", "read it before or after the call")
        return self.now

    @state.setter
    def state(self, state: tuple[int, int]) -> None:
        key, counter = (as_int(part, "an integer state") for part in state)
        if not (0 <= key < _KEYS and 0 <= counter < _COUNTERS):
            raise errors.InputValueError(
                f"state must be a key in [0, 2**128) and a counter in [0, 2**256), got {state!r}"
            )
        reject_use("sets the state of a generator", "seed it before the call")
        with self._lock:
            self._key, self._counter = key, counter

    @property
    def now(self) -> tuple[int, int]:
        """The state, for those who know that no captured function depends on it."""
        return self._key, self._counter

    def reserve(self, words: int) -> tuple[int, int]:
        """The key and counter for a call that uses `words` 64-bit words, in whole blocks of 4."""
        for run in LOCAL.state.runs:
            # Whole blocks for each item of a batch, one after the other.
            words = words if run.draws_alike else -(-words // 4) * 4 * run.size
        return self._drawn(words)

    def _drawn(self, words: int) -> tuple[int, int]:
        again = LOCAL.state.again
        if again is not None:
            return again.draw(self, words)
        capture = capturing()
        if capture is not None:
            return capture.reserve(self, words)
        return self._reserve(words)

    def _reserve(self, words: int) -> tuple[int, int]:
        with self._lock:
            counter = self._counter
            self._counter = (counter - (-words // 4)) % _COUNTERS
            return self._key, counter

    def split(self, count: int = 2) -> list[Generator]:
        """New generators, with keys drawn from this generator.

        Raises:
            InputTypeError: for a count that is not an integer.
            InputValueError: for one below 0, or of more generators than there is memory for.
        """
        if as_int(count, "an integer for count") < 0:
            raise errors.InputValueError(f"count must be 0 or more, got {count}")
        try:
            children = [self] * count
        except (OverflowError, MemoryError):
            raise errors.InputValueError(f"there is no memory for {count} generators") from None
        key, counter = self.reserve(4 * count)
        for i in range(count):
            low, high, _, _ = philox(key, (counter + i + 1) % _COUNTERS)
            children[i] = child = Generator(0)
            child.state = (low | high << 64, 0)
        return children

    def __repr__(self) -> str:
        return f"Generator(key={self._key}, counter={self._counter})"

    def checkpoint_state(self) -> dict[str, str]:
        """The state, for checkpoints (`pullback.state.Stateful`)."""
        key, counter = self.state
        return {"key": hex(key), "counter": hex(counter)}

    def restore_state(self, state: Mapping[str, str]) -> None:
        """Restores a state from `checkpoint_state`."""
        self.state = (int(state["key"], 16), int(state["counter"], 16))

    def __getstate__(self) -> tuple[int, int]:
        return self.state

    def __setstate__(self, state: tuple[int, int]) -> None:
        self._lock = threading.Lock()
        self.state = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Generator:
        other = Generator(0)
        other.state = self.state
        return other

    # Numbers -------------------------------------------------------------------------------------

    def _draw(
        self, function: Any, shape: ShapeLike, dtype: DTypeLike | None, device: DeviceLike | None
    ) -> Tensor:
        wide: DType = dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
        shape = as_shape(shape)
        # Normal numbers are computed from pairs of uniform numbers.
        size = size_of(shape)
        even = size + size % 2 if function is random_normal else size
        key, counter = self.reserve(words_of(even, wide))
        if LOCAL.state.runs:
            device = _of_items(as_device(device))
        drawn: Tensor = function(shape, key=key, counter=counter, dtype=wide, device=device)
        return drawn

    def bits(
        self,
        shape: ShapeLike = (),
        *,
        dtype: DTypeLike = dtypes.uint32,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Random bits: all values of uint32 or uint64 are equally likely."""
        return self._draw(random_bits, shape, dtype, device)

    @shape_first
    def uniform(
        self,
        shape: ShapeLike = (),
        low: float | Tensor = 0.0,
        high: float | Tensor = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Uniform numbers in [low, high).

        >>> pb.Generator(7).uniform((2,), -1, 1).shape
        (2,)
        """
        u = self._draw(random_uniform, shape, dtype, device)
        numbers = {type(low), type(high)} <= {int, float}
        if numbers and isinstance(low, (int, float)) and isinstance(high, (int, float)):
            if (low, high) == (0, 1):
                return u
            return u * float(high - low) + float(low)
        return add(multiply(u, subtract(high, low)), low)

    @shape_first
    def normal(
        self,
        shape: ShapeLike = (),
        mean: TensorLike = 0.0,
        stddev: TensorLike = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Normally distributed numbers.

        >>> pb.Generator(7).normal((2, 3)).shape
        (2, 3)
        """
        z = self._draw(random_normal, shape, dtype, device)
        if not (type(stddev) in (int, float) and stddev == 1):
            z = z * parameter(stddev, "stddev")
        if not (type(mean) in (int, float) and mean == 0):
            z = z + parameter(mean, "mean")
        return z

    @shape_first
    def truncated_normal(
        self,
        shape: ShapeLike = (),
        mean: float = 0.0,
        stddev: float = 1.0,
        *,
        low: float = -2.0,
        high: float = 2.0,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Normal numbers between low and high standard deviations from the mean.

        >>> bool(pb.all(abs(pb.Generator(7).truncated_normal((100,))) <= 2))
        True
        """
        check_number(low, "low")
        check_number(high, "high")
        if not low < high:
            raise errors.InputValueError(f"low must be less than high, got {low} and {high}")
        # A uniform number between the probabilities of the bounds, through the inverse of erf.
        root = math.sqrt(0.5)
        below, above = math.erf(low * root), math.erf(high * root)
        u = self._draw(random_uniform, shape, dtype, device)
        z = erfinv(u * (above - below) + below) * math.sqrt(2.0)
        z = clip(z, low, high)
        return add(multiply(z, stddev), mean)

    @shape_first
    def exponential(
        self,
        shape: ShapeLike = (),
        scale: TensorLike = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Exponentially distributed numbers of mean `scale`."""
        u = self._draw(random_uniform, shape, dtype, device)
        drawn: Tensor = -log1p(-u) * parameter(scale, "scale")
        return drawn

    @shape_first
    def bernoulli(
        self,
        shape: ShapeLike | None = None,
        p: TensorLike = 0.5,
        *,
        dtype: DTypeLike = dtypes.bool_,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """True with probability p, in the shape of p by default.

        >>> pb.Generator(7).bernoulli((3,), 1.0).tolist()
        [True, True, True]
        """
        if shape is None:
            shape = from_any(p).shape
        return less(self.uniform(shape, dtype=dtypes.float32, device=device), p).astype(dtype)

    @shape_first
    def integers(
        self,
        shape: ShapeLike = (),
        low: int = 0,
        high: int | None = None,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Uniform integers in [low, high), with a bias of at most (high - low) / 2**64.

        >>> pb.Generator(7).integers((3,), 5, 6).tolist()
        [5, 5, 5]

        Raises:
            InputValueError: if the interval is empty, or outside the range of the dtype.
        """
        wanted = dtypes.DEFAULT_INT if dtype is None else as_dtype(dtype)
        if high is None:
            low, high = 0, low
        check_number(low, "low")
        check_number(high, "high")
        if wanted not in dtypes.INTEGER:
            raise errors.DTypeError(f"random integers need an integer dtype, got {wanted}")
        bits = 8 * wanted.itemsize
        least = 0 if wanted in dtypes.UNSIGNED else -(1 << (bits - 1))
        if not least <= low < high <= least + (1 << bits):
            raise errors.InputValueError(
                f"random integers need low < high within {wanted}, got [{low}, {high}); write "
                f"integers(shape, high) or integers(shape, low, high)"
            )
        words = self._draw(random_bits, shape, dtypes.uint64, device)
        if high - low < 1 << 64:
            words = words % (high - low)
        if low:
            # Unsigned arithmetic wraps, and so does the conversion to a signed dtype.
            words = words + full((), low % (1 << 64), dtype=dtypes.uint64, device=words.device)
        return words.astype(wanted)

    def categorical(
        self,
        logits: TensorLike,
        shape: ShapeLike | None = None,
        *,
        axis: int = -1,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """Random classes with probabilities softmax(logits) along `axis`.

        Each takes one uniform number, whose place among the running sums of the probabilities is
        the class.

        Args:
            logits: unnormalized log probabilities.
            shape: the shape of the result; that of logits without axis must broadcast to it.
            axis: the axis of the classes.
            dtype: an integer dtype; the default one if not given.

        >>> pb.Generator(7).categorical([0.0, float("-inf")], (3,)).tolist()
        [0, 0, 0]
        """
        scores = moveaxis(from_any(logits), axis, -1)
        if scores.dtype not in (dtypes.float32, dtypes.float64):
            scores = scores.astype(dtypes.DEFAULT_FLOAT)
        batch = scores.shape[:-1] if shape is None else as_shape(shape)
        if broadcast_shapes(scores.shape[:-1], batch) != batch:
            raise errors.ShapeError(
                f"categorical: logits of shape {scores.shape[:-1]} without axis {axis} do not "
                f"broadcast to {batch}"
            )
        wide = widest(scores.device)
        sums = exp(scores - amax(scores, axis=-1, keepdims=True))
        sums = cumulative_sum(sums.astype(wide), axis=-1)
        total = sums[..., -1:]
        u = self._draw(random_uniform, (*batch, 1), wide, scores.device)
        # The first class whose sum is above; a product rounded up to the total is in the last one.
        if scores.ndim == 1 and not LOCAL.state.runs:
            found = minimum(
                searchsorted(sums, u * total, side="right"), searchsorted(sums, total)
            ).reshape(batch)
        else:
            found = minimum(count(sums <= u * total, axis=-1), count(sums < total, axis=-1))
        return found.astype(dtypes.DEFAULT_INT if dtype is None else dtype)

    def permutation(self, x: int | TensorLike, *, axis: int = 0) -> Tensor:
        """A random permutation of the integers below x, or of the slices of a tensor along axis.

        >>> sorted(pb.Generator(7).permutation(4).tolist())
        [0, 1, 2, 3]
        """
        if type(x) is int:
            return self._order(x, None, dtypes.DEFAULT_INT)
        tensor = from_any(x)
        if not tensor.ndim:
            raise errors.ShapeError(
                "permutation takes an integer, or a tensor with an axis, got a 0-d tensor; write "
                "permutation(int(x))"
            )
        axis = canonical_axis(axis, tensor.ndim)
        return take(tensor, self._order(tensor.shape[axis], tensor.device, dtypes.int64), axis=axis)

    def _order(self, size: int, device: Device | None, dtype: DType) -> Tensor:
        """The integers below size in a random order: that of random words."""
        words = self.bits((size,), dtype=dtypes.uint64, device=device)
        if size < _LONG:
            return argsort(words).astype(dtype, copy=False)
        # Numbers with their positions as their last bits are sorted in half the time.
        positions = (1 << (size - 1).bit_length()) - 1
        numbers = arange(size, dtype=dtypes.uint64, device=words.device)
        return (sort((words & (_WORD - positions)) | numbers) & positions).astype(dtype)

    def dropout(
        self, x: TensorLike, rate: float, *, noise_shape: tuple[int | None, ...] | None = None
    ) -> Tensor:
        """x with a fraction `rate` of its elements set to 0, and the others divided by 1 - rate.

        >>> pb.Generator(7).dropout(pb.ones(3), 0.0).tolist()
        [1.0, 1.0, 1.0]
        """
        tensor = from_any(x)
        if LOCAL.state.runs:
            lifted = _of_items(tensor.device).lift(tensor)
            tensor = tensor if lifted is None else lifted
        share = LOCAL.state.share
        if share is not None:
            return share.draw_alike(tensor, lambda x: self._dropped(x, rate, noise_shape))
        return self._dropped(tensor, rate, noise_shape)

    def _dropped(
        self, tensor: Tensor, rate: float, noise_shape: tuple[int | None, ...] | None
    ) -> Tensor:
        key, counter = self.reserve(words_of(tensor.size, dtypes.float32))
        none = type(rate) is float and not rate and noise_shape is None
        if none and dtypes.kind(tensor.dtype) == dtypes.FLOAT:
            return tensor.__copy__()
        return _dropout(tensor, rate=rate, key=key, counter=counter, noise_shape=noise_shape)


#: The generator of the functions of this module.
default_generator = Generator()

seed = default_generator.seed
bernoulli = default_generator.bernoulli
beta = default_generator.beta
binomial = default_generator.binomial
categorical = default_generator.categorical
dirichlet = default_generator.dirichlet
dropout = default_generator.dropout
exponential = default_generator.exponential
gamma = default_generator.gamma
gumbel = default_generator.gumbel
integers = default_generator.integers
laplace = default_generator.laplace
logistic = default_generator.logistic
normal = default_generator.normal
permutation = default_generator.permutation
poisson = default_generator.poisson
truncated_normal = default_generator.truncated_normal
uniform = default_generator.uniform


if not TYPE_CHECKING:
    __getattr__ = _hints.answer_module("pullback.random")


def _of_items(device: Device) -> Device:
    """The device to draw on, where each item of a batch has numbers of its own."""
    for run in LOCAL.state.runs:
        if not run.draws_alike and run.device.stands_on(device):
            device = run.device
    return device
