"""Tensors made, cut, joined and put in another shape, under TensorFlow's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pullback as pb
from pullback import dtypes, errors
from pullback.dtypes import DTypeLike
from pullback.random import Generator, default_generator
from pullback.tensor import Tensor, TensorLike
from pullback_tensorflow.basics import convert_to_tensor

__all__ = [
    "boolean_mask", "broadcast_to", "concat", "expand_dims", "eye", "fill", "gather", "gather_nd",
    "identity", "linspace", "multinomial", "one_hot", "ones", "ones_like", "pad", "random_normal",
    "random_shuffle", "random_uniform", "range", "rank", "reshape", "reverse", "shape", "size",
    "slice", "split", "squeeze", "stack", "tile", "transpose", "truncated_normal",
    "unstack", "where", "zeros", "zeros_like",
]  # fmt: skip

# What the names below hide.
_ints, _slice = range, slice


def _sizes(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, int):
        return (shape,)
    return tuple(int(size) for size in shape)


def _number(value: Any) -> Any:
    return value if isinstance(value, (int, float)) else pb.asarray(value).item()


# Made ------------------------------------------------------------------------------------------


def zeros(shape: Any, dtype: DTypeLike = dtypes.float32, name: str | None = None) -> Tensor:
    """Zeros."""
    return pb.zeros(_sizes(shape), dtype=dtype)


def ones(shape: Any, dtype: DTypeLike = dtypes.float32, name: str | None = None) -> Tensor:
    """Ones."""
    return pb.ones(_sizes(shape), dtype=dtype)


def zeros_like(tensor: TensorLike, dtype: Any = None, **_: Any) -> Tensor:
    """Zeros in the shape of a tensor."""
    return pb.zeros_like(tensor, dtype=dtype)


def ones_like(tensor: TensorLike, dtype: Any = None, **_: Any) -> Tensor:
    """Ones in the shape of a tensor."""
    return pb.ones_like(tensor, dtype=dtype)


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """One value everywhere."""
    return pb.broadcast_to(pb.asarray(value), _sizes(dims))


def range(
    start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = None
) -> Tensor:
    """Numbers from start up to, but not including, limit; from 0 to start without a limit."""
    first, last = (0, start) if limit is None else (start, limit)
    return pb.arange(_number(first), _number(last), _number(delta), dtype=dtype)


def linspace(start: float, stop: float, num: int, name: str | None = None) -> Tensor:
    """`num` evenly spaced numbers from start to stop."""
    return pb.linspace(float(start), float(stop), int(num))


def eye(
    num_rows: int, num_columns: int | None = None, batch_shape: Any = None, dtype: Any = None
) -> Tensor:
    """Ones on the diagonal."""
    made = pb.eye(num_rows, num_columns, dtype=dtype or dtypes.float32)
    if batch_shape is None:
        return made
    return pb.broadcast_to(made, (*_sizes(batch_shape), *made.shape))


def one_hot(
    indices: TensorLike,
    depth: int,
    on_value: Any = 1,
    off_value: Any = 0,
    axis: int = -1,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Any:
    """Rows with `on_value` at an index, and `off_value` elsewhere."""
    made = pb.one_hot(indices, int(depth), axis=axis, dtype=dtypes.as_dtype(dtype))
    if (on_value, off_value) == (1, 0):
        return made
    return made * (on_value - off_value) + off_value


def identity(input: Any, name: str | None = None) -> Any:
    """The value itself."""
    tensor = convert_to_tensor(input)
    return pb.positive(tensor) if isinstance(tensor, Tensor) else tensor


# At random: from a generator of its own where there is a seed. ----------------------------------


def _generator(seed: int | None) -> Generator:
    return default_generator if seed is None else Generator(seed)


def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Normal numbers."""
    drawn = _generator(seed).normal(_sizes(shape), dtype=dtype)
    return drawn * stddev + mean


def truncated_normal(
    shape: Any,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normal numbers no more than two standard deviations from the mean."""
    return _generator(seed).truncated_normal(_sizes(shape), mean, stddev, dtype=dtype)


def random_uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Numbers in [minval, maxval); integers where the dtype is one."""
    kind = dtypes.as_dtype(dtype)
    if dtypes.is_floating(kind):
        drawn = _generator(seed).uniform(_sizes(shape), dtype=kind)
        return drawn * ((1 if maxval is None else maxval) - minval) + minval
    if maxval is None:
        raise errors.InputValueError(
            "random_uniform() of integers needs maxval, the bound that they are below"
        )
    return _generator(seed).integers(_sizes(shape), int(minval), int(maxval), dtype=kind)


def random_shuffle(value: TensorLike, seed: int | None = None, name: str | None = None) -> Tensor:
    """The slices along the first axis in another order."""
    return _generator(seed).permutation(pb.asarray(value))


def multinomial(
    logits: TensorLike,
    num_samples: int,
    seed: int | None = None,
    name: str | None = None,
    output_dtype: DTypeLike = dtypes.int64,
) -> Tensor:
    """Classes drawn for each row of logits, (rows, num_samples)."""
    rows = pb.expand_dims(pb.asarray(logits), axis=1)
    shape = (rows.shape[0], int(num_samples))
    return _generator(seed).categorical(rows, shape, dtype=output_dtype)


# Cut, joined, reshaped --------------------------------------------------------------------------


def shape(input: TensorLike, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """The sizes of the axes, as a tensor."""
    return pb.asarray(list(pb.asarray(input).shape), dtype=out_type)


def size(input: TensorLike, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """The number of elements, as a tensor."""
    return pb.asarray(pb.asarray(input).size, dtype=out_type)


def rank(input: TensorLike, name: str | None = None) -> Tensor:
    """The number of axes, as a tensor."""
    return pb.asarray(pb.asarray(input).ndim)


def reshape(tensor: TensorLike, shape: Any, name: str | None = None) -> Tensor:
    """Another shape; one size may be -1."""
    return pb.reshape(tensor, _sizes(shape))


def transpose(a: TensorLike, perm: Any = None, name: str | None = None, **_: Any) -> Tensor:
    """Permutes the axes; reverses them without `perm`."""
    tensor = pb.asarray(a)
    order = tuple(reversed(_ints(tensor.ndim))) if perm is None else _sizes(perm)
    return pb.permute_dims(tensor, order)


def expand_dims(
    input: TensorLike, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """One more axis, of size 1."""
    chosen: Any = dim if axis is None else axis
    return pb.expand_dims(input, axis=chosen)


def squeeze(
    input: TensorLike, axis: Any = None, name: str | None = None, squeeze_dims: Any = None
) -> Tensor:
    """Removes axes of size 1: `axis`, or all."""
    tensor = pb.asarray(input)
    chosen = squeeze_dims if axis is None else axis
    if chosen is None:
        chosen = [place for place, size in enumerate(tensor.shape) if size == 1]
    return pb.squeeze(tensor, axis=_sizes(chosen))


def concat(values: Sequence[TensorLike], axis: int, name: str | None = None) -> Tensor:
    """Tensors one after another along an axis."""
    return pb.concat(list(values), axis=int(axis))


def stack(values: Any, axis: int = 0, name: str | None = None) -> Tensor:
    """Tensors along a new axis."""
    return pb.stack(list(values), axis=axis)


def unstack(
    value: TensorLike, num: int | None = None, axis: int = 0, name: str | None = None
) -> list[Tensor]:
    """The slices along an axis."""
    return list(pb.unstack(value, axis=axis))


def split(
    value: TensorLike, num_or_size_splits: Any, axis: int = 0, name: str | None = None, **_: Any
) -> list[Tensor]:
    """Splits along an axis into a number of parts, or into parts of these sizes."""
    sizes = num_or_size_splits
    if not isinstance(sizes, int):
        ends, total = [], 0
        for one in _sizes(sizes)[:-1]:
            total += one
            ends.append(total)
        sizes = tuple(ends)
    return list(pb.split(value, sizes, axis=axis))


def tile(input: TensorLike, multiples: Any, name: str | None = None) -> Tensor:
    """A tensor repeated along each axis."""
    return pb.tile(input, _sizes(multiples))


def pad(
    tensor: TensorLike,
    paddings: Any,
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: Any = 0,
) -> Tensor:
    """A tensor with a margin."""
    sides = pb.asarray(paddings).tolist()
    pairs = tuple((int(before), int(after)) for before, after in sides)
    kind: Any = mode.lower()
    return pb.pad(tensor, pairs, mode=kind, constant_values=constant_values)


def reverse(tensor: TensorLike, axis: Any, name: str | None = None) -> Tensor:
    """A tensor backwards along axes."""
    return pb.flip(tensor, axis=_sizes(axis))


def broadcast_to(input: TensorLike, shape: Any, name: str | None = None) -> Tensor:
    """Broadcasts a tensor to a shape."""
    return pb.broadcast_to(input, _sizes(shape))


def gather(
    params: TensorLike,
    indices: TensorLike,
    validate_indices: Any = None,
    name: str | None = None,
    axis: int = 0,
) -> Tensor:
    """Slices along an axis, by number."""
    return pb.take(params, indices, axis=int(axis))


def gather_nd(params: TensorLike, indices: TensorLike, name: str | None = None) -> Tensor:
    """Slices by rows of numbers, one for each of the first axes."""
    rows = pb.asarray(indices)
    return pb.asarray(params)[tuple(pb.unstack(rows, axis=-1))]


def slice(input_: TensorLike, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """A part that begins at `begin` and has `size`; -1 means up to the end."""
    tensor = pb.asarray(input_)
    bounds = zip(_sizes(begin), _sizes(size), strict=True)
    return tensor[tuple([_slice(b, None if s < 0 else b + s) for b, s in bounds])]


def boolean_mask(tensor: TensorLike, mask: TensorLike, **_: Any) -> Tensor:
    """The elements where a mask is true."""
    return pb.asarray(tensor)[pb.asarray(mask)]


def where(condition: TensorLike, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """The elements of x where a condition is true, else of y; without these, where it is true."""
    if x is None and y is None:
        return pb.astype(pb.argwhere(condition), dtypes.int64)
    return pb.where(condition, x, y)
