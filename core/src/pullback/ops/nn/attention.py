"""Attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._dispatch.arguments import as_float
from pullback._dispatch.vjp_code import unbroadcast
from pullback.dtypes import Operands, Resolution, bool_
from pullback.ops.creation import arange
from pullback.ops.exponential import exp, log
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.manipulation import expand_dims, reshape
from pullback.ops.nn.softmax import softmax
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import max, sum
from pullback.ops.selection import where
from pullback.ops.trigonometric import tanh
from pullback.shapes import Shape, as_int, broadcast_shapes
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["attention_weights", "scaled_dot_product_attention"]

#: How many keys before and after its position a query may attend to; None for all.
Window: TypeAlias = "tuple[int | None, int | None] | None"


def _attention_shape(
    query: Shape,
    key: Shape,
    value: Shape,
    mask: Shape | None,
    *,
    is_causal: bool = False,
    window: Window = None,
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
    if is_causal or window is not None:
        check_causal(query[-2], key[-2], "is_causal" if is_causal else "window")
    scores = (*query[:-1], key[-2])
    if mask is not None and broadcast_shapes(mask, scores) != scores:
        raise errors.ShapeError(f"mask {mask} does not broadcast to the scores {scores}")
    return (*query[:-1], value[-1])


def check_causal(length: int, others: int, name: str = "is_causal") -> None:
    """Raises for a causal mask whose diagonal could begin in two places.

    Raises:
        ShapeError: for other keys than queries; it names the mask to write.
    """
    if length != others:
        raise errors.ShapeError(
            f"{name} needs as many queries as keys, got {length} and {others}: it would not say "
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


def _canonical(
    shapes: tuple[Shape, ...], *, is_causal: bool, scale: float | None,
    softcap: float | None = None, window: Window = None,
) -> dict[str, object]:  # fmt: skip
    window = _ends(window)
    _attention_shape(*shapes[:4], is_causal=is_causal, window=window)
    if scale is None:
        scale = 1 / math.sqrt(shapes[0][-1]) if shapes[0][-1] else 1.0
    if softcap is not None:
        softcap = as_float(softcap, "softcap")
        if not 0 < softcap < math.inf:
            raise errors.InputValueError(
                f"softcap must be positive, or None for no cap, got {softcap}"
            )
    how = {"is_causal": bool(is_causal), "scale": scale}
    return {**how, "softcap": softcap, "window": window}


def _ends(window: object) -> Window:
    """(before, after), or None where both are None."""
    if window is None:
        return None
    if not isinstance(window, Sequence) or len(window) != 2:
        raise errors.InputTypeError(
            f"window must be a pair: how many keys a query may attend to before its position and "
            f"after it, each None for all; got {window!r}"
        )
    before, after = (None if e is None else as_int(e, "an integer in window") for e in window)
    if min(before or 0, after or 0) < 0:
        raise errors.InputValueError(
            f"window must have numbers from 0 on, or None for all keys, got {window!r}"
        )
    return None if before is None and after is None else (before, after)


# ACCUMULATED: two matrix products.
@op(
    shape=_attention_shape,
    dtype=_attention_dtypes,
    accuracy=ACCUMULATED,
    residuals=("normalizer",),
    normalize=_canonical,
)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    window: Window = None,
) -> Tensor:
    """softmax(query @ key.mT * scale + mask) @ value (Vaswani et al., 2017).

    Args:
        query: (..., heads, length, depth).
        key: (..., heads, others, depth). The number of heads divides that of the query: each is
            shared by a group of neighboring query heads (Ainslie et al., 2023).
        value: (..., heads, others, width), with as many heads as key.
        mask: broadcasts to (..., heads, length, others). Booleans are True where a query may
            attend to a key; numbers are added to the scores. `pb.where(mask, bias, -pb.inf)` is
            both.
        is_causal: True to let position i attend to positions j <= i only; there must be as many
            keys as queries.
        scale: a factor on the scores; 1 / sqrt(depth) if not given.
        softcap: a number c: scores become c * tanh(scores / c), before a mask is added (Gemma
            Team, 2024).
        window: (before, after): a query attends to so many keys before its position and after it
            at most, and to its own; None for all of them. There must be as many keys as queries
            (Beltagy et al., 2020).

    Returns:
        A tensor (..., heads, length, width). A query that may attend to no key gets 0, with
        gradient 0.

    Raises:
        ShapeError: if the shapes do not fit.
        InputValueError: for a softcap that is not positive.

    >>> query, key = pb.zeros((1, 1, 2)), pb.ones((1, 2, 2))
    >>> pb.scaled_dot_product_attention(query, key, [[[1.0], [3.0]]]).tolist()
    [[[2.0]]]
    """
    assert scale is not None
    q, k, v = widened(query), widened(key), widened(value)
    scores, _ = _scores(q, k, mask, is_causal, scale, softcap, window)
    largest = max(scores, axis=-1, keepdims=True)
    largest = where(largest == float("-inf"), 0, largest)
    powers = exp(scores - largest)
    total = sum(powers, axis=-1, keepdims=True)
    # It is at least 1, except for a query that may attend to no key.
    total = where(total == 0, 1, total)
    y = _matmul_shared(powers, v) / total
    return narrowed(y, query), largest + log(total)  # type: ignore[return-value]


def _scores(
    q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, scale: float,
    softcap: float | None, window: Window,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """q @ k.mT * scale + mask, and the slope of their cap; -inf where a query may not attend."""
    scores, slope = _matmul_shared(q * scale, k.mT), None
    if softcap is not None:
        part = tanh(scores / softcap)
        scores, slope = part * softcap, 1 - part * part
    if is_causal or window is not None:
        before, after = window or (None, None)
        after = 0 if is_causal else after
        length, others = scores.shape[-2:]
        i = reshape(arange(length, device=q.device), (length, 1))
        j = arange(others, device=q.device)
        if after is not None:
            scores = where(j <= i + after if after else j <= i, scores, float("-inf"))
        if before is not None:
            scores = where(j >= i - before, scores, float("-inf"))
    if mask is not None:
        hidden = mask.dtype == bool_
        scores = where(mask, scores, float("-inf")) if hidden else scores + mask
    return scores, slope


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
    window: Window = None,
    **_: object,
) -> list[Shape]:
    """The shapes of query, key and value."""
    _attention_shape(query, key, value, mask, is_causal=is_causal, window=window)
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
    return _canonical(shapes, **attributes)


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
    softcap: float | None = None,
    window: Window = None,
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
        softcap: as for the op.
        window: as for the op.

    >>> query, key, value = pb.zeros((1, 1)), pb.ones((2, 1)), [[1.0], [3.0]]
    >>> gradients = pb.ops.scaled_dot_product_attention_gradient(
    ...     query, key, value, None, [[2.0]], [[0.6931472]], [[1.0]]
    ... )
    >>> [gradient.tolist() for gradient in gradients]
    [[[0.0]], [[0.0], [0.0]], [[0.5], [0.5]]]
    """
    assert scale is not None
    q, k, v, g = widened(query), widened(key), widened(value), widened(g)
    scores, slope = _scores(q, k, mask, is_causal, scale, softcap, window)
    weights = exp(scores - normalizer)
    dscores = _score_gradient(weights, v, widened(out), g)
    if slope is not None:
        dscores = dscores * slope
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
    normalizer: Tensor, is_causal: bool, scale: float, softcap: float | None, window: Window,
) -> tuple[Tensor, ...]:  # fmt: skip
    return scaled_dot_product_attention_gradient(
        query, key, value, mask, out, normalizer, g, is_causal=is_causal, scale=scale,
        softcap=softcap, window=window,
    )  # fmt: skip


@scaled_dot_product_attention.vjp("mask")
def _(
    g: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, out: Tensor,
    normalizer: Tensor, is_causal: bool, scale: float, softcap: float | None, window: Window,
) -> Tensor:  # fmt: skip
    q, k = widened(query), widened(key)
    scores, _ = _scores(q, k, mask, is_causal, scale, softcap, window)
    weights = exp(scores - normalizer)
    dscores = _score_gradient(weights, widened(value), widened(out), widened(g))
    return narrowed(unbroadcast(dscores, mask.shape), mask)


def _weights_shape(query: Shape, key: Shape, mask: Shape | None, **how: Any) -> Shape:
    """The shape of the scores."""
    _attention_shape(query, key, key, mask, **how)
    return (*query[:-1], key[-2])


def _weights_dtypes(operands: Operands, **how: object) -> Resolution:
    """Real floating inputs; a mask of booleans, or of numbers in the dtype of the inputs."""
    query, key, mask = operands
    found = _attention_dtypes((query, key, key, mask), **how)
    return Resolution((*found.inputs[:2], found.inputs[3]), found.outputs)


def _canonical_weights(shapes: tuple[Shape, ...], **attributes: Any) -> dict[str, object]:
    query, key, mask = shapes
    return _canonical((query, key, key, mask), **attributes)


# ACCUMULATED: a matrix product.
@op(shape=_weights_shape, dtype=_weights_dtypes, accuracy=ACCUMULATED, normalize=_canonical_weights)
def attention_weights(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    window: Window = None,
) -> Tensor:
    """The weights by which `scaled_dot_product_attention` adds the values.

    Args:
        query: as for `scaled_dot_product_attention`.
        key: as for `scaled_dot_product_attention`.
        mask: as for `scaled_dot_product_attention`.
        is_causal: as for `scaled_dot_product_attention`.
        scale: as for `scaled_dot_product_attention`.
        softcap: as for `scaled_dot_product_attention`.
        window: as for `scaled_dot_product_attention`.

    Returns:
        A tensor (..., heads, length, others); the weights of a query add up to 1, or are all 0 if
        it may attend to no key.

    Raises:
        ShapeError: if the shapes do not fit.
        InputValueError: for a softcap that is not positive.

    >>> pb.attention_weights(pb.zeros((1, 2)), pb.ones((2, 2))).tolist()
    [[0.5, 0.5]]
    """
    assert scale is not None
    q, k = widened(query), widened(key)
    scores, _ = _scores(q, k, mask, is_causal, scale, softcap, window)
    seen = max(scores, axis=-1, keepdims=True) != float("-inf")
    # Where a query sees nothing, any scores will do: no gradient flows from there.
    weights = where(seen, softmax(where(seen, scores, 0)), 0)
    return narrowed(weights, query)
