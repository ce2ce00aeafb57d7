"""Layers that bring numbers into the form that a model takes; some of them learn it from data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, Unpack

from pullback import dtypes, errors
from pullback._dispatch.arguments import as_bool, as_list
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import paused
from pullback.layers.layer import Layer
from pullback.layers.options import LayerOptions
from pullback.ops.arithmetic import maximum, remainder
from pullback.ops.comparison import isnan
from pullback.ops.creation import full
from pullback.ops.data_types import astype
from pullback.ops.exponential import sqrt
from pullback.ops.joining import concat
from pullback.ops.logical import bitwise_and, bitwise_right_shift, bitwise_xor
from pullback.ops.manipulation import reshape
from pullback.ops.patterns import one_hot
from pullback.ops.precision import widest
from pullback.ops.reductions import any as any_of
from pullback.ops.reductions import max as max_of
from pullback.ops.reductions import mean, sum
from pullback.ops.searching import searchsorted
from pullback.ops.sorting import sort
from pullback.shapes import as_int, as_ints, canonical_axes, check_choice, check_number
from pullback.tensor import Tensor, TensorLike
from pullback.variable import Variable

__all__ = ["CategoryEncoding", "Discretization", "Hashing", "Normalization"]

#: The form in which categories are returned.
OutputMode: TypeAlias = Literal["int", "one_hot", "multi_hot", "count"]
_MODES = ("int", "one_hot", "multi_hot", "count")
#: What a layer learns from: an array, or a dataset, of whose tuples it takes the first part.
Data: TypeAlias = "TensorLike | Iterable[Any]"


class Learned(Layer):
    """The base of layers whose variables `adapt` finds, or a checkpoint has."""

    #: The names of the variables.
    learned: ClassVar[tuple[str, ...]]

    def __init__(self, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self._known = False

    def learn(self, **values: Tensor) -> None:
        """Has variables hold these values, in the dtype of the layer."""
        for name, value in values.items():
            value = astype(value, self.dtype)
            variable = getattr(self, name)
            if variable is not None and variable.shape == value.shape:
                variable.assign(value)
            else:
                setattr(self, name, Variable(value, name=name, trainable=False))
        self._known = True
        self.built = True

    def make_unknown(self, shape: tuple[int, ...]) -> None:
        """Makes the variables of a layer that has not learned, such as for a checkpoint."""
        for name in self.learned:
            if getattr(self, name) is None:
                value = full(shape, math.nan, dtype=self.dtype)
                setattr(self, name, Variable(value, name=name, trainable=False))

    def check_known(self) -> None:
        """Raises LayerError unless the variables have values."""
        if not self._known:
            with paused():
                if any(bool(any_of(isnan(getattr(self, name)))) for name in self.learned):
                    raise errors.LayerError(
                        f"it has not seen data yet; call layer.adapt(data) first, or give "
                        f"{' and '.join(self.learned)}"
                    )
            self._known = True


class Normalization(Learned):
    """(x - mean) / deviation, of the values that `adapt` has seen.

    Args:
        axis: the axis or axes that have a mean of their own for each place; None has one for all.
        mean: the mean, in place of `adapt`: a number, or one for each place.
        variance: the variance, in the same way.
        invert: whether to compute x * deviation + mean.
        options: see `Layer`.

    >>> layer = pb.layers.Normalization()
    >>> layer.adapt([[0.0, 1.0], [2.0, 5.0]])
    >>> layer([[0.0, 5.0]]).tolist()
    [[-1.0, 1.0]]

    Raises:
        InputValueError: for one of `mean` and `variance` alone.
        LayerError: for a call before `adapt`.
    """

    learned = ("mean", "variance")

    def __init__(
        self,
        axis: int | Sequence[int] | None = -1,
        *,
        mean: TensorLike | None = None,
        variance: TensorLike | None = None,
        invert: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        if (mean is None) != (variance is None):
            raise errors.InputValueError("give both mean and variance, or none: adapt finds them")
        several = axis if hasattr(type(axis), "__iter__") else (axis,)
        self.axis = () if axis is None else as_ints(several, "axis")
        self.invert = as_bool(invert, "invert")
        self.mean: Variable | None = None
        self.variance: Variable | None = None
        if mean is not None and variance is not None:
            self.learn(mean=from_any(mean), variance=from_any(variance))

    def build(self, input_shape: Any) -> None:
        """Makes the mean and the variance, for a checkpoint to fill."""
        self.make_unknown(self._kept(tuple(input_shape)))

    def adapt(self, data: Data, *, steps: int | None = None) -> None:
        """Finds the mean and the variance of data, in place of those known before.

        Args:
            data: an array, or a dataset of batches, or of tuples that begin with them.
            steps: the number of batches to take; all if None.

        Raises:
            InputValueError: for no data.
        """
        count, middle, squares = 0, None, None
        with paused():
            for batch in batches(data, steps):
                # In the widest dtype of the device, and merged (Chan, Golub and LeVeque, 1979).
                x = astype(batch, widest(batch.device))
                kept = self._places(x.ndim)
                axes = tuple([axis for axis in range(x.ndim) if axis not in kept])
                part = mean(x, axis=axes, keepdims=True)
                spread = sum((x - part) ** 2, axis=axes, keepdims=True)
                new = math.prod([x.shape[axis] for axis in axes])
                total = count + new
                if not new:
                    continue
                if middle is None or squares is None:
                    count, middle, squares = new, part, spread
                    continue
                change = part - middle
                squares = squares + spread + change * change * (count * new / total)
                middle = middle + change * (new / total)
                count = total
            if middle is None or squares is None:
                raise errors.InputValueError("Normalization.adapt: there are no data")
            shape = self._kept(middle.shape)
            self.learn(mean=reshape(middle, shape), variance=reshape(squares / count, shape))

    def call(self, x: Tensor) -> Tensor:
        """Returns normalized values."""
        self.check_known()
        assert self.mean is not None
        assert self.variance is not None
        x = astype(x, self.compute_dtype)
        deviation = maximum(sqrt(self.variance), 1e-7)
        return x * deviation + self.mean if self.invert else (x - self.mean) / deviation

    def _kept(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the mean: that of the kept axes, and of those after them with size 1."""
        kept = self._places(len(shape))
        first = min(kept, default=len(shape))
        return tuple([shape[i] if i in kept else 1 for i in range(first, len(shape))])

    def _places(self, ndim: int) -> tuple[int, ...]:
        """The kept axes, counted from the first."""
        return canonical_axes(self.axis, ndim) or ()


class Discretization(Learned):
    """The number of the interval that each value is in, from 0 on.

    Args:
        boundaries: the ends between intervals, ascending; an end is in the interval above it.
        num_bins: in place of boundaries, the number of intervals: `adapt` finds the boundaries
            that divide data into equal parts.
        output_mode: "int"; or a vector for each item by `CategoryEncoding`.
        options: see `Layer`.

    >>> pb.layers.Discretization([0.0, 1.0])([-1.0, 0.0, 0.5, 7.0]).tolist()
    [0, 1, 1, 2]

    Raises:
        InputValueError: for boundaries that do not ascend, or both or none of them and `num_bins`.
        LayerError: for a call before `adapt`.
    """

    learned = ("boundaries",)

    def __init__(
        self,
        boundaries: Sequence[float] | None = None,
        *,
        num_bins: int | None = None,
        output_mode: OutputMode = "int",
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        if (boundaries is None) == (num_bins is None):
            raise errors.InputValueError("give either boundaries or num_bins")
        self.output_mode = checked_mode(output_mode)
        self.boundaries: Variable | None = None
        if boundaries is not None:
            given = isinstance(boundaries, (list, tuple))
            ends = as_list(
                boundaries if given else from_any(boundaries).tolist(), "boundaries", "numbers"
            )
            for end in ends:
                check_number(end, "an end of boundaries")
            if ends != sorted({*ends}):
                raise errors.InputValueError(f"boundaries must ascend, got {boundaries}")
            self.learn(boundaries=from_any(ends, self.dtype))
            num_bins = len(ends) + 1
        self.num_bins = as_int(num_bins, "num_bins: a number of intervals")
        if self.num_bins < 1:
            raise errors.InputValueError(f"num_bins must be 1 or more, got {num_bins}")

    def build(self, input_shape: Any) -> None:
        """Makes the boundaries, for a checkpoint to fill."""
        self.make_unknown((self.num_bins - 1,))

    def adapt(self, data: Data, *, steps: int | None = None) -> None:
        """Finds the boundaries that divide data into equal parts.

        Args:
            data: an array, or a dataset of batches, or of tuples that begin with them. All values
                are held at once.
            steps: the number of batches to take; all if None.

        Raises:
            InputValueError: for no data.
        """
        with paused():
            parts = [reshape(astype(x, self.dtype), (-1,)) for x in batches(data, steps)]
            ordered = sort(concat(parts)) if parts else None
            if ordered is None or not ordered.size:
                raise errors.InputValueError("Discretization.adapt: there are no data")
            places = [i * ordered.size // self.num_bins for i in range(1, self.num_bins)]
            self.learn(boundaries=ordered[from_any(places, dtypes.int64, ordered.device)])

    def call(self, x: Tensor) -> Tensor:
        """Returns the numbers of intervals; NaN is in the last."""
        self.check_known()
        assert self.boundaries is not None
        found = searchsorted(self.boundaries, astype(x, self.dtype), side="right")
        return encoded(astype(found, dtypes.DEFAULT_INT), self.num_bins, self.output_mode)


class CategoryEncoding(Layer):
    """A vector for each integer, or for all those of an item; integers out of range are in none.

    Args:
        num_tokens: the number of categories, 0 to num_tokens - 1.
        output_mode: "one_hot" has a vector for each integer, (..., num_tokens). The others have one
            for those along the last axis: "multi_hot" with 1 for each that is there, "count" with
            how often it is.
        options: see `Layer`.

    >>> pb.layers.CategoryEncoding(4)(pb.asarray([[0, 2, 2]])).tolist()
    [[1.0, 0.0, 1.0, 0.0]]

    Raises:
        InputValueError: for another mode.
        DTypeError: for inputs that are not integers.
    """

    def __init__(
        self,
        num_tokens: int,
        *,
        output_mode: Literal["one_hot", "multi_hot", "count"] = "multi_hot",
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.num_tokens = as_int(num_tokens, "num_tokens: a number of categories")
        if checked_mode(output_mode) == "int":
            raise errors.InputValueError('output_mode "int" would return the inputs')
        self.output_mode = output_mode

    def call(self, x: Tensor) -> Tensor:
        """Returns vectors."""
        return encoded(x, self.num_tokens, self.output_mode)


class Hashing(Layer):
    """A number below `num_bins` for each integer, by a hash that is the same everywhere.

    `StringLookup` with a vocabulary does so for strings. The hash is SplitMix64 (Steele, Lea and
    Flood, 2014).

    Args:
        num_bins: the number of results, from 0 on.
        salt: another number gives another hash.
        output_mode: "int"; or a vector for each item by `CategoryEncoding`.
        options: see `Layer`.

    >>> pb.layers.Hashing(5)(pb.asarray([0, 1, 5, 0])).tolist()
    [2, 2, 3, 2]

    Raises:
        InputValueError: for fewer than one bin.
        DTypeError: for inputs that are not integers.
    """

    def __init__(
        self,
        num_bins: int,
        *,
        salt: int = 0,
        output_mode: OutputMode = "int",
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.num_bins = as_int(num_bins, "num_bins: a number of results")
        self.salt = as_int(salt, "salt: a number")
        self.output_mode = checked_mode(output_mode)
        if self.num_bins < 1:
            raise errors.InputValueError(f"num_bins must be 1 or more, got {num_bins}")

    def call(self, x: Tensor) -> Tensor:
        """Returns hashes."""
        if x.dtype not in dtypes.INTEGER:
            raise errors.DTypeError(f"inputs must be integers, got {x.dtype}")
        # In int64, which wraps around as unsigned numbers do.
        z = astype(x, dtypes.int64) + _signed((self.salt + 1) * 0x9E3779B97F4A7C15)
        z = _mixed(z, 30) * _signed(0xBF58476D1CE4E5B9)
        z = _mixed(z, 27) * _signed(0x94D049BB133111EB)
        found = remainder(bitwise_and(_mixed(z, 31), (1 << 63) - 1), self.num_bins)
        return encoded(astype(found, dtypes.DEFAULT_INT), self.num_bins, self.output_mode)


# ---------------------------------------------------------------------------------------------


def batches(data: Data, steps: int | None = None) -> Iterator[Tensor]:
    """The tensors of an array, or of a dataset, of whose tuples the first part counts."""
    if hasattr(type(data), "__array__") or isinstance(data, (list, int, float)):
        yield from_any(data)
        return
    if not isinstance(data, Iterable):
        raise errors.InputTypeError(f"adapt takes an array or a dataset, got {type(data).__name__}")
    last = None if steps is None else as_int(steps, "steps: a number of batches")
    for number, element in enumerate(data):
        if number == last:
            return
        yield from_any(element[0] if isinstance(element, tuple) else element)


def checked_mode(mode: Any, modes: Sequence[str] = _MODES) -> Any:
    """Returns an output mode.

    Raises:
        InputValueError: for an unknown one.
    """
    check_choice(mode, "output_mode", modes)
    return mode


def encoded(x: Tensor, size: int, mode: str) -> Tensor:
    """Returns integers as an output mode has them.

    Raises:
        DTypeError: for numbers that are not integers.
    """
    if x.dtype not in dtypes.INTEGER:
        raise errors.DTypeError(f"categories must be integers, got {x.dtype}")
    if mode == "int":
        return x
    vectors = one_hot(x, size)
    if mode == "one_hot":
        return vectors
    if x.ndim == 0:
        raise errors.ShapeError(f"output_mode {mode!r} needs an axis of the integers of one item")
    return max_of(vectors, axis=-2) if mode == "multi_hot" else sum(vectors, axis=-2)


def _signed(number: int) -> int:
    """The number in 64 bits with a sign that has the same bits as one without."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _mixed(z: Tensor, places: int) -> Tensor:
    """z ^ (z >> places), of numbers without a sign."""
    shifted = bitwise_and(bitwise_right_shift(z, places), (1 << (64 - places)) - 1)
    return bitwise_xor(z, shifted)
