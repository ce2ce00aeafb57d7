"""Multi-head attention."""

from __future__ import annotations

import math
from typing import Any

from pullback import errors
from pullback.layers.basic import Dense
from pullback.layers.initializers import InitializerLike
from pullback.layers.layer import Layer
from pullback.ops import reductions
from pullback.ops.creation import arange
from pullback.ops.data_types import astype
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.logical import logical_and, logical_not, logical_or
from pullback.ops.manipulation import expand_dims, permute_dims, reshape
from pullback.ops.nn.attention import scaled_dot_product_attention
from pullback.ops.nn.softmax import softmax
from pullback.ops.repeating import repeat
from pullback.ops.selection import where
from pullback.random import Generator, default_generator
from pullback.shapes import as_count
from pullback.tensor import Tensor

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(Layer):
    """Attention by several heads (Vaswani et al., 2017, section 3.2.2).

    A call takes the queries (batch, length, features), and for cross attention also `value`
    (batch, others, features) and, where keys are made of something else, `key`. Besides:

    - `mask`: truth values that say which of the others each query sees, or numbers that are added
      to the scores: (length, others), (batch, length, others), or with heads after the batch.
    - `key_mask`: truth values (batch, others), which of the others are there.
    - `is_causal`: position i sees positions j <= i only.
    - `return_weights`: gives (output, weights), the latter (batch, heads, length, others).

    A query that may look nowhere, by masks of truth values, gets what no value gives: the bias of
    the output.

    Args:
        heads: how many.
        head_size: the size of queries and keys in each head.
        value_size: the size of values in each head; `head_size` if None.
        output_size: the size of the result; the size of the queries' features if None.
        shared_heads: how many heads keys and values have, each for a group of the queries' heads
            (Ainslie et al., 2023); as many as `heads` if None, 1 for all (Shazeer, 2019).
        dropout: the share of weights that are set to 0 while training.
        use_bias: whether the four projections have a bias.
        kernel_initializer: of the projections' kernels.
        bias_initializer: of their biases.
        seed: for dropout, makes a generator of its own; the default one is used without.
        rest: as of `Layer`.

    >>> attention = pb.layers.MultiHeadAttention(heads=4, head_size=8)
    >>> attention(pb.zeros((2, 5, 16)), is_causal=True).shape
    (2, 5, 16)
    >>> list(attention.named_variables)[:3]
    ['query/kernel', 'query/bias', 'key/kernel']

    Raises:
        InputValueError: for shared heads that do not divide the heads, or a dropout outside [0, 1).
        LayerError: for inputs that are no sequences, or masks that do not fit them.
    """

    def __init__(
        self,
        heads: int,
        head_size: int,
        *,
        value_size: int | None = None,
        output_size: int | None = None,
        shared_heads: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        seed: int | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.heads = as_count(heads, "heads")
        self.shared_heads = self.heads if shared_heads is None else int(shared_heads)
        if self.shared_heads < 1 or self.heads % self.shared_heads:
            raise errors.InputValueError(
                f"{self.shared_heads} shared heads do not divide {self.heads} heads"
            )
        if not 0 <= dropout < 1:
            raise errors.InputValueError(f"a dropout rate is in [0, 1), got {dropout}")
        self.head_size = as_count(head_size, "head_size")
        self.value_size = self.head_size if value_size is None else int(value_size)
        self.output_size = output_size
        self.dropout = dropout
        self.generator = None if seed is None else Generator(seed)

        def dense(units: int) -> Dense:
            return Dense(
                units, use_bias=use_bias, kernel_initializer=kernel_initializer,
                bias_initializer=bias_initializer, dtype=self._policy,
            )  # fmt: skip

        self.query = dense(self.heads * self.head_size)
        self.key = dense(self.shared_heads * self.head_size)
        self.value = dense(self.shared_heads * self.value_size)
        # Without a size, it gets that of the first input.
        self.output = dense(1 if output_size is None else output_size)
        self._build_if_sized()

    def build(self, input_shape: Any) -> None:
        """Builds the query and the output; key and value are built for what they are called with.

        With `input_shape` given, attention is that of a sequence to itself.
        """
        _check_sequences(input_shape)
        if self.output_size is None:
            self.output.units = input_shape[-1]
        self.query.build_for(input_shape)
        if self._input_shape is not None:
            self.key.build_for(input_shape)
            self.value.build_for(input_shape)
        self.output.build_for((*input_shape[:-1], self.heads * self.value_size))

    def call(
        self,
        query: Any,
        value: Any = None,
        key: Any = None,
        *,
        mask: Any = None,
        key_mask: Any = None,
        is_causal: bool = False,
        return_weights: bool = False,
        training: bool = False,
    ) -> Any:
        """The output (batch, length, output_size); with `return_weights`, the weights as well."""
        value = query if value is None else value
        key = value if key is None else key
        for sequences in (query, value, key):
            _check_sequences(sequences.shape)
        q = _split(self.query(query), self.heads)
        k = _split(self.key(key), self.shared_heads)
        v = _split(self.value(value), self.shared_heads)
        mask = None if mask is None else self._input(0, mask)
        key_mask = None if key_mask is None else self._input(0, key_mask)
        mask, seen = _merged(mask, key_mask, is_causal, (*q.shape[:-1], k.shape[-2]))
        causal = is_causal and mask is None
        weights = None
        if return_weights or (training and self.dropout):
            weights = _weights(q, k, mask, causal)
            kept = weights
            if training and self.dropout:
                generator = default_generator if self.generator is None else self.generator
                kept = generator.dropout(weights, self.dropout)
            y = matmul(kept, _for_each(v, self.heads))
        else:
            y = scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        if seen is not None:
            y = where(seen, y, 0)
            weights = weights if weights is None else where(seen, weights, 0)
        y = self.output(_joined(y))
        return (y, weights) if return_weights else y


def _check_sequences(shape: Any) -> None:
    if len(shape) != 3:
        raise errors.LayerError(f"needs sequences (batch, length, features), got shape {shape}")


def _split(x: Tensor, heads: int) -> Any:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    batch, length, size = x.shape
    parts = reshape(x, (batch, length, heads, size // heads))
    return permute_dims(parts, (0, 2, 1, 3))


def _joined(x: Tensor) -> Any:
    """(batch, heads, length, size) as (batch, length, heads * size)."""
    batch, heads, length, size = x.shape
    return reshape(permute_dims(x, (0, 2, 1, 3)), (batch, length, heads * size))


def _for_each(x: Tensor, heads: int) -> Any:
    """Shared heads, once for each head that they are shared by."""
    shared = x.shape[1]
    return x if shared == heads else repeat(x, heads // shared, axis=1)


def _weights(q: Tensor, k: Tensor, mask: Any, is_causal: bool) -> Any:
    """What each query gives to each of the others, (batch, heads, length, others)."""
    length, others = q.shape[-2], k.shape[-2]
    scores = matmul(q * (1 / math.sqrt(q.shape[-1])), _for_each(k, q.shape[1]).mT)
    if is_causal:
        mask = _causal(length, others, q)
    if mask is not None and mask.dtype == "bool":
        scores = where(mask, scores, float("-inf"))
    elif mask is not None:
        scores = scores + mask
    return softmax(scores)


def _causal(length: int, others: int, like: Tensor) -> Any:
    row = arange(length, device=like.device)
    return arange(others, device=like.device) <= expand_dims(row, axis=1)


def _merged(mask: Any, key_mask: Any, is_causal: bool, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """One mask of all of them, and which queries see something at all; None for no mask."""
    if mask is None and key_mask is None:
        return None, None
    batch, _, length, others = shape
    if mask is not None:
        shapes = {2: (length, others), 3: (batch, length, others)}
        if mask.ndim in shapes and tuple(mask.shape) != shapes[mask.ndim]:
            raise errors.LayerError(
                f"a mask of {mask.ndim} axes is {shapes[mask.ndim]} here, got {mask.shape}"
            )
        mask = expand_dims(mask, axis=1) if mask.ndim == 3 else mask
    truth = [mask] if mask is not None and mask.dtype == "bool" else []
    if key_mask is not None:
        if tuple(key_mask.shape) != (batch, others):
            raise errors.LayerError(f"key_mask is {(batch, others)} here, got {key_mask.shape}")
        truth.append(reshape(astype(key_mask, "bool"), (batch, 1, 1, others)))
    if is_causal:
        truth.append(_causal(length, others, truth[0] if truth else mask))
    if not truth:
        return mask, None
    allowed = truth[0]
    for one in truth[1:]:
        allowed = logical_and(allowed, one)
    seen = reductions.any(allowed, axis=-1, keepdims=True)
    # Where nothing is seen everything is looked at, and then left out: no NaN comes up.
    allowed = logical_or(allowed, logical_not(seen))
    if mask is not None and mask.dtype != "bool":
        return where(allowed, mask, float("-inf")), seen
    return allowed, seen
