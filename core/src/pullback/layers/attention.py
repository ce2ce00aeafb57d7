"""Multi-head attention."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Unpack

from pullback import errors
from pullback._dispatch.arguments import as_bool, as_float
from pullback._masked import Masked
from pullback.layers.basic import Dense
from pullback.layers.initializers import InitializerLike
from pullback.layers.layer import Layer
from pullback.layers.masks import all_of, keep_mask
from pullback.layers.options import LayerOptions
from pullback.layers.regularization import active_generator, checked_rate, own_generator
from pullback.ops.creation import arange
from pullback.ops.data_types import astype
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.logical import logical_and
from pullback.ops.manipulation import expand_dims, permute_dims, reshape
from pullback.ops.nn.attention import check_causal, scaled_dot_product_attention
from pullback.ops.nn.rotary import rotary
from pullback.ops.nn.softmax import softmax
from pullback.ops.reductions import any as reduce_any
from pullback.ops.repeating import repeat
from pullback.ops.selection import where
from pullback.shapes import Shape, as_count
from pullback.tensor import Tensor, TensorLike

__all__ = ["MultiHeadAttention", "RotaryEmbedding"]


class RotaryEmbedding(Layer):
    """Rotary positions (Su et al., 2021): `pb.rotary` as a layer without variables.

    A call takes x (..., length, size) and, as `pb.rotary`, `positions` or `offset`.

    Args:
        base: the base of the angles.
        interleaved: True for pairs of neighbours, False for pairs of both halves.
        rotated: the number of features that are rotated; all if None.
        options: see `Layer`.

    >>> rotary = pb.layers.RotaryEmbedding()
    >>> attention = pb.layers.MultiHeadAttention(4, 8, rotary=rotary)
    >>> attention(pb.ones((2, 5, 16)), is_causal=True).shape
    (2, 5, 16)

    Raises:
        LayerError: for an odd number of features, or positions that do not fit.
    """

    call_masked = keep_mask

    def __init__(
        self,
        base: float = 10000.0,
        *,
        interleaved: bool = False,
        rotated: int | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.base = as_float(base, "base")
        self.interleaved = as_bool(interleaved, "interleaved")
        self.rotated = None if rotated is None else as_count(rotated, "rotated")

    def call(
        self, x: Tensor, positions: TensorLike | None = None, offset: TensorLike = 0
    ) -> Tensor:
        """Returns x, rotated by its positions."""
        return rotary(
            x, positions, offset=offset, base=self.base, interleaved=self.interleaved,
            rotated=self.rotated,
        )  # fmt: skip


class MultiHeadAttention(Layer):
    """Multi-head attention (Vaswani et al., 2017, section 3.2.2).

    A call takes the queries (batch, length, features). For cross attention it also takes `value`
    (batch, keys, features), and `key` where keys are not made of `value`. Further arguments:

    - `mask`: booleans, True where a query attends to a key, or numbers that are added to the
      scores: (length, keys), (batch, length, keys), or (batch, heads, length, keys).
    - `key_mask`: booleans (batch, keys), False for keys that are ignored, such as padding; `Masked`
      inputs have one.
    - `is_causal`: position i attends to positions j <= i only; of as many keys as queries.
    - `positions`: for `rotary`, the positions of the queries, (length,) or (batch, length), and of
      the keys where these are made of the queries.
    - `return_weights`: returns (output, weights), with weights (batch, heads, length, keys).

    The output of a query for which boolean masks leave no key is the bias of the output.

    Args:
        num_heads: the number of heads of the queries.
        head_dim: the size of queries and keys in each head.
        value_dim: the size of values in each head; `head_dim` if None.
        output_dim: the size of the result; the size of the queries' features if None.
        num_kv_heads: the number of heads of keys and values, each shared by a group of the
            queries' heads (Ainslie et al., 2023); `num_heads` if None, 1 shares one among all
            (Shazeer, 2019).
        dropout: the fraction of weights that are set to 0 in training.
        rotary: a `RotaryEmbedding` that turns queries and keys by their positions.
        use_bias: whether the four projections have a bias.
        kernel_initializer: the initializer of the projections' kernels.
        bias_initializer: the initializer of their biases.
        seed: the seed of a generator of its own for dropout; None draws from the default one.
        options: see `Layer`.

    >>> attention = pb.layers.MultiHeadAttention(num_heads=4, head_dim=8)
    >>> attention(pb.zeros((2, 5, 16)), is_causal=True).shape
    (2, 5, 16)
    >>> list(attention.named_variables)[:3]
    ['query/kernel', 'query/bias', 'key/kernel']

    Raises:
        InputValueError: if num_kv_heads does not divide num_heads, or dropout is not in [0, 1).
        LayerError: for inputs that are not sequences, or masks of another shape.
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        *,
        value_dim: int | None = None,
        output_dim: int | None = None,
        num_kv_heads: int | None = None,
        dropout: float = 0.0,
        rotary: RotaryEmbedding | None = None,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        seed: int | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.num_heads = as_count(num_heads, "num_heads")
        self.num_kv_heads = (
            self.num_heads if num_kv_heads is None else as_count(num_kv_heads, "num_kv_heads")
        )
        if self.num_kv_heads < 1 or self.num_heads % self.num_kv_heads:
            raise errors.InputValueError(
                f"num_kv_heads must divide num_heads, got {self.num_kv_heads} and {self.num_heads}"
            )
        self.dropout = checked_rate(dropout)
        self.head_dim = as_count(head_dim, "head_dim")
        self.value_dim = self.head_dim if value_dim is None else as_count(value_dim, "value_dim")
        self.output_dim = output_dim
        self.generator = own_generator(None, seed)
        if rotary is not None and not isinstance(rotary, RotaryEmbedding):
            raise errors.InputTypeError(
                f"rotary must be a pb.layers.RotaryEmbedding() or None, got {rotary!r}"
            )
        self.rotary = rotary

        def dense(units: int) -> Dense:
            return Dense(
                units, use_bias=use_bias, kernel_initializer=kernel_initializer,
                bias_initializer=bias_initializer, dtype=self._policy,
            )  # fmt: skip

        self.query = dense(self.num_heads * self.head_dim)
        self.key = dense(self.num_kv_heads * self.head_dim)
        self.value = dense(self.num_kv_heads * self.value_dim)
        # Without `output_dim`, `build` sets the size.
        self.output = dense(1 if output_dim is None else output_dim)
        self._build_if_sized()

    def build(self, input_shape: Shape) -> None:
        """Builds `query` and `output`; `key` and `value` are built when they are called.

        A layer with an `input_shape` is built for self-attention.
        """
        _check_sequences(input_shape)
        if self.output_dim is None:
            self.output.units = input_shape[-1]
        self.query.build_for(input_shape)
        if self._input_shape is not None:
            self.key.build_for(input_shape)
            self.value.build_for(input_shape)
        self.output.build_for((*input_shape[:-1], self.num_heads * self.value_dim))

    if TYPE_CHECKING:

        def __call__(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Any:
            """Returns a tensor or, with `return_weights`, a pair."""

    def call_masked(
        self,
        query: object,
        value: object = None,
        key: object = None,
        *,
        key_mask: object = None,
        **kwargs: Any,
    ) -> Any:
        """Returns the same for `Masked` inputs: the masks of keys and values are the `key_mask`.

        The output has the mask of the queries.
        """
        keys = [x for x in (query if value is None else value, key) if type(x) is Masked]
        given = None if key_mask is None else self._input(0, key_mask)
        parts = [x.values if type(x) is Masked else x for x in (query, value, key)]
        y = self(*parts, key_mask=all_of([given, *[x.mask for x in keys]]), **kwargs)
        if type(query) is not Masked:
            return y
        return (Masked(y[0], query.mask), y[1]) if isinstance(y, tuple) else Masked(y, query.mask)

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        *,
        mask: TensorLike | None = None,
        key_mask: TensorLike | None = None,
        is_causal: bool = False,
        positions: TensorLike | None = None,
        return_weights: bool = False,
        training: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """Returns the output (batch, length, output_dim); with `return_weights`, a pair."""
        value = query if value is None else value
        key = value if key is None else key
        for sequences in (query, value, key):
            _check_sequences(sequences.shape)
        q = _split_heads(self.query(query), self.num_heads)
        k = _split_heads(self.key(key), self.num_kv_heads)
        v = _split_heads(self.value(value), self.num_kv_heads)
        if self.rotary is not None:
            q = self.rotary(q, positions)
            k = self.rotary(k, positions if key is query else None)
        elif positions is not None:
            raise errors.LayerError("positions are for rotary=pb.layers.RotaryEmbedding()")
        if is_causal:
            check_causal(q.shape[-2], k.shape[-2])
        merged = _merge_masks(
            None if mask is None else self._input(0, mask),
            None if key_mask is None else self._input(0, key_mask),
            (*q.shape[:-1], k.shape[-2]),
        )
        weights = None
        if return_weights or (training and self.dropout):
            weights = kept = _weights(q, k, merged, is_causal)
            if training and self.dropout:
                kept = active_generator(self.generator).dropout(weights, self.dropout)
            y = matmul(kept, _repeat_heads(v, self.num_heads))
        else:
            y = scaled_dot_product_attention(q, k, v, merged, is_causal=is_causal)
        y = self.output(_join_heads(y))
        return (y, weights) if return_weights else y


def _check_sequences(shape: Shape) -> None:
    if len(shape) != 3:
        raise errors.LayerError(
            f"inputs must be sequences (batch, length, features), got shape {shape}"
        )


def _split_heads(x: Tensor, heads: int) -> Tensor:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    batch, length, size = x.shape
    parts = reshape(x, (batch, length, heads, size // heads))
    return permute_dims(parts, (0, 2, 1, 3))


def _join_heads(x: Tensor) -> Tensor:
    """(batch, heads, length, size) as (batch, length, heads * size)."""
    batch, heads, length, size = x.shape
    return reshape(permute_dims(x, (0, 2, 1, 3)), (batch, length, heads * size))


def _repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Repeats shared heads, once for each of the queries' heads."""
    shared = x.shape[1]
    return x if shared == heads else repeat(x, heads // shared, axis=1)


def _weights(q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """The attention weights (batch, heads, length, keys); 0 for a query that attends to no key."""
    scores = matmul(q * (1 / math.sqrt(q.shape[-1])), _repeat_heads(k, q.shape[1]).mT)
    if is_causal:
        scores = where(_causal_mask(q.shape[-2], k.shape[-2], q), scores, float("-inf"))
    if mask is None:
        return softmax(scores)
    scores = where(mask, scores, float("-inf")) if mask.dtype == "bool" else scores + mask
    attends = reduce_any(scores != float("-inf"), axis=-1, keepdims=True)
    # Such a query attends to all keys first: the softmax of nothing is NaN, in its gradient too.
    return where(attends, softmax(where(attends, scores, 0)), 0)


def _causal_mask(length: int, keys: int, like: Tensor) -> Tensor:
    row = arange(length, device=like.device)
    return arange(keys, device=like.device) <= expand_dims(row, axis=1)


def _merge_masks(mask: Tensor | None, key_mask: Tensor | None, shape: Shape) -> Tensor | None:
    """Merges both masks into one for scores of a shape; None for no mask."""
    batch, _, length, keys = shape
    if mask is not None:
        shapes = {2: (length, keys), 3: (batch, length, keys)}
        if mask.ndim in shapes and tuple(mask.shape) != shapes[mask.ndim]:
            raise errors.LayerError(
                f"a mask with {mask.ndim} axes must have shape {shapes[mask.ndim]}, "
                f"got {mask.shape}"
            )
        mask = expand_dims(mask, axis=1) if mask.ndim == 3 else mask
    if key_mask is None:
        return mask
    if tuple(key_mask.shape) != (batch, keys):
        raise errors.LayerError(f"key_mask must have shape {(batch, keys)}, got {key_mask.shape}")
    allowed = reshape(astype(key_mask, "bool"), (batch, 1, 1, keys))
    if mask is None:
        return allowed
    if mask.dtype == "bool":
        return logical_and(mask, allowed)
    return where(allowed, mask, float("-inf"))
