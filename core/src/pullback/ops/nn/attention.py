"""Attention."""

from __future__ import annotations

import math
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._dispatch.vjp_code import unbroadcast
from pullback.dtypes import Operands, Resolution, bool_
from pullback.ops.creation import arange
from pullback.ops.exponential import exp, log
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.manipulation import expand_dims, reshape
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import max, sum
from pullback.ops.selection import where
from pullback.shapes import Shape, broadcast_shapes
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["scaled_dot_product_attention"]


def _attention_shape(
    query: Shape,
    key: Shape,
    value: Shape,
    mask: Shape | None,
    *,
    is_causal: bool = False,
    **_: object,
) -> Shape:
    """The shape of the query with the width of the values."""
    if min(len(query), len(key), len(value)) < 2 or not len(query) == len(key) == len(value):
        raise errors.ShapeError(
            f"query, key and value must be (..., heads, length, depth), got {query}, {key}, {value}"
        )
    if query[-1] != key[-1]:
        raise errors.ShapeError(f"query {query} and key {key} must have the same depth")
    if key[:-1] != value[:-1]:
        raise errors.ShapeError(
            f"key {key} and value {value} must have the same length and number of heads"
        )
    if query[:-3] != key[:-3]:
        raise errors.ShapeError(f"query {query} and key {key} must have the same batch axes")
    heads, shared = query[-3:-2], key[-3:-2]
    if heads != shared and (not shared[0] or heads[0] % shared[0]):
        raise errors.ShapeError(
            f"the {heads[0]} heads of query must be a multiple of the {shared[0]} of key and value"
        )
    if is_causal:
        check_causal(query[-2], key[-2])
    scores = (*query[:-1], key[-2])
    if mask is not None and broadcast_shapes(mask, scores) != scores:
        raise errors.ShapeError(f"mask {mask} does not broadcast to the scores {scores}")
    return (*query[:-1], value[-1])


def check_causal(length: int, others: int) -> None:
    """Raises for a causal mask whose diagonal could begin in two places.

    Raises:
        ShapeError: for other keys than queries; it names the mask to write.
    """
    if length != others:
        raise errors.ShapeError(
            f"is_causal needs as many queries as keys, got {length} and {others}: it would not say "
            f"which positions the queries have. Give a mask: pb.tril(pb.ones(({length}, {others}), "
            f'dtype="bool")) if they are the first ones, and with '
            f"k={others - length} if they are the last ones, behind a cache of keys"
        )


def _attention_dtypes(operands: Operands, **_: object) -> Resolution:
    """Real floating inputs; a mask of booleans, or of numbers in the dtype of the inputs."""
    inputs, outputs = dtypes.real_floating(operands[:3])
    dtype = outputs[0]
    mask = operands[3]
    mask_dtype = None if mask is None else (bool_ if mask in (bool, bool_) else dtype)
    return Resolution((*inputs, mask_dtype), (dtype,))


def _default_scale(
    shapes: tuple[Shape, ...], *, is_causal: bool, scale: float | None
) -> dict[str, object]:
    _attention_shape(*shapes[:4], is_causal=is_causal)
    if scale is None:
        scale = 1 / math.sqrt(shapes[0][-1]) if shapes[0][-1] else 1.0
    return {"is_causal": bool(is_causal), "scale": scale}


# ACCUMULATED: two matrix products.
@op(
    shape=_attention_shape,
    dtype=_attention_dtypes,
    accuracy=ACCUMULATED,
    residuals=("normalizer",),
    normalize=_default_scale,
)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(query @ key.mT * scale + mask) @ value (Vaswani et al., 2017).

    Args:
        query: (..., heads, length, depth).
        key: (..., heads, others, depth). The number of heads divides that of the query: each is
            shared by a group of neighboring query heads (Ainslie et al., 2023).
        value: (..., heads, others, width), with as many heads as key.
        mask: broadcasts to (..., heads, length, others). Booleans are True where a query may
            attend to a key; numbers are added to the scores.
        is_causal: True to let position i attend to positions j <= i only; there must be as many
            keys as queries.
        scale: a factor on the scores; 1 / sqrt(depth) if not given.

    Returns:
        A tensor (..., heads, length, width). A query that may attend to no key gets 0, with
        gradient 0.

    Raises:
        ShapeError: if the shapes do not fit.

    >>> query, key = pb.zeros((1, 1, 2)), pb.ones((1, 2, 2))
    >>> pb.scaled_dot_product_attention(query, key, [[[1.0], [3.0]]]).tolist()
    [[[2.0]]]
    """
    assert scale is not None
    q, k, v = widened(query), widened(key), widened(value)
    scores = _scores(q, k, mask, is_causal, scale)
    largest = max(scores, axis=-1, keepdims=True)
    largest = where(largest == float("-inf"), 0, largest)
    powers = exp(scores - largest)
    total = sum(powers, axis=-1, keepdims=True)
    # It is at least 1, except for a query that may attend to no key.
    total = where(total == 0, 1, total)
    y = _matmul_shared(powers, v) / total
    return narrowed(y, query), largest + log(total)  # type: ignore[return-value]


def _scores(q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, scale: float) -> Tensor:
    """q @ k.mT * scale + mask; -inf where a query may not attend to a key."""
    scores = _matmul_shared(q * scale, k.mT)
    if is_causal:
        length, others = scores.shape[-2:]
        i = reshape(arange(length, device=q.device), (length, 1))
        j = arange(others, device=q.device)
        scores = where(j <= i, scores, float("-inf"))
    if mask is None:
        return scores
    return where(mask, scores, float("-inf")) if mask.dtype == bool_ else scores + mask


def _matmul_shared(x: Tensor, shared: Tensor) -> Tensor:
    """x (..., heads, n, m) @ shared (..., fewer heads, m, p), each shared by a group of heads."""
    if x.shape[:-2] == shared.shape[:-2]:
        return matmul(x, shared)
    grouped = reshape(x, _grouped_shape(x, shared))
    return reshape(matmul(grouped, expand_dims(shared, -3)), (*x.shape[:-1], shared.shape[-1]))


def _grouped_shape(x: Tensor, shared: Tensor) -> Shape:
    """The shape of x with grouped heads: (..., fewer heads, heads per group, n, m)."""
    *batch, heads, length, depth = x.shape
    fewer = shared.shape[-3]
    return (*batch, fewer, heads // fewer if fewer else 1, length, depth)


def _sum_groups(x: Tensor, shared: Tensor) -> Tensor:
    """The sum over each group of heads: the transpose of sharing."""
    if x.shape[:-2] == shared.shape[:-2]:
        return x
    return sum(reshape(x, _grouped_shape(x, shared)), axis=-3)


def _gradient_shapes(
    query: Shape,
    key: Shape,
    value: Shape,
    mask: Shape | None,
    out: Shape,
    normalizer: Shape,
    g: Shape,
    *,
    is_causal: bool = False,
    **_: object,
) -> list[Shape]:
    """The shapes of query, key and value."""
    _attention_shape(query, key, value, mask, is_causal=is_causal)
    return [query, key, value]


def _gradient_dtypes(operands: Operands, **_: object) -> Resolution:
    """Each input keeps its dtype; the results have those of query, key and value."""
    inputs = dtypes.each("any")(operands).inputs
    return Resolution(inputs, tuple(dtype for dtype in inputs[:3] if dtype is not None))


def _fitting_parts(shapes: tuple[Shape, ...], **attributes: Any) -> dict[str, object]:
    """The scale; neither kernels nor the body may broadcast what the op has returned."""
    query, _, value, _, *parts = shapes
    result = (*query[:-1], *value[-1:])
    expected = {"out": result, "normalizer": (*query[:-1], 1), "g": result}
    for shape, (name, fitting) in zip(parts, expected.items(), strict=True):
        if shape != fitting:
            raise errors.ShapeError(f"{name} {shape} must have the shape {fitting}")
    return _default_scale(shapes, **attributes)


@op(
    shape=_gradient_shapes,
    dtype=_gradient_dtypes,
    accuracy=ACCUMULATED,
    outputs=("query_gradient", "key_gradient", "value_gradient"),
    normalize=_fitting_parts,
    public=False,
)
def scaled_dot_product_attention_gradient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    out: Tensor,
    normalizer: Tensor,
    g: Tensor,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `scaled_dot_product_attention` with respect to query, key and value.

    The weights are recomputed from the normalizer, so no array of size (length, others) is kept
    (Dao et al., 2022).

    Args:
        query: the input of the op.
        key: the input of the op.
        value: the input of the op.
        mask: the input of the op.
        out: the result of the op.
        normalizer: the logarithm of the sum of exp(scores), (..., heads, length, 1); 0 where
            the sum is 0.
        g: the gradient with respect to the result.
        is_causal: as for the op.
        scale: as for the op.

    >>> query, key, value = pb.zeros((1, 1)), pb.ones((2, 1)), [[1.0], [3.0]]
    >>> gradients = pb.ops.scaled_dot_product_attention_gradient(
    ...     query, key, value, None, [[2.0]], [[0.6931472]], [[1.0]]
    ... )
    >>> [gradient.tolist() for gradient in gradients]
    [[[0.0]], [[0.0], [0.0]], [[0.5], [0.5]]]
    """
    assert scale is not None
    q, k, v, g = widened(query), widened(key), widened(value), widened(g)
    weights = exp(_scores(q, k, mask, is_causal, scale) - normalizer)
    dscores = _score_gradient(weights, v, widened(out), g)
    dq = _matmul_shared(dscores, k) * scale
    dk = _sum_groups(matmul(dscores.mT, q), k) * scale
    dv = _sum_groups(matmul(weights.mT, g), v)
    return narrowed(dq, query), narrowed(dk, key), narrowed(dv, value)


def _score_gradient(weights: Tensor, v: Tensor, out: Tensor, g: Tensor) -> Tensor:
    """The gradient of softmax, from dweights = g @ v.mT: sum(dweights * weights) = sum(g * out)."""
    mean = sum(g * out, axis=-1, keepdims=True)
    return weights * (_matmul_shared(g, v.mT) - mean)


@scaled_dot_product_attention.vjp("query", "key", "value")
def _(
    g: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, out: Tensor,
    normalizer: Tensor, is_causal: bool, scale: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    return scaled_dot_product_attention_gradient(
        query, key, value, mask, out, normalizer, g, is_causal=is_causal, scale=scale
    )


@scaled_dot_product_attention.vjp("mask")
def _(
    g: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, out: Tensor,
    normalizer: Tensor, is_causal: bool, scale: float,
) -> Tensor:  # fmt: skip
    scores = _scores(widened(query), widened(key), mask, is_causal, scale)
    weights = exp(scores - normalizer)
    dscores = _score_gradient(weights, widened(value), widened(out), widened(g))
    return narrowed(unbroadcast(dscores, mask.shape), mask)
