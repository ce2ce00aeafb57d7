"""Losses with one value per element or per sample; `pullback.losses` averages them."""

from __future__ import annotations

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import DType, Operands, Resolution, real_floating
from pullback.ops.arithmetic import abs, clip, maximum, minimum
from pullback.ops.creation import arange
from pullback.ops.exponential import exp, expm1, log, log1p, sqrt
from pullback.ops.indexing import take_along_axis
from pullback.ops.manipulation import reshape
from pullback.ops.nn.activations import sigmoid, softplus
from pullback.ops.patterns import one_hot
from pullback.ops.precision import counting, narrowed, widened
from pullback.ops.reductions import max, sum
from pullback.ops.selection import where
from pullback.ops.trigonometric import tanh
from pullback.shapes import Axis, Shape, broadcast, checked, reduced
from pullback.spec import ACCUMULATED, EXACT, FEW_ULP, ROUNDED
from pullback.tensor import Tensor

__all__ = [
    "absolute_error",
    "cosine_similarity",
    "hinge_loss",
    "huber_loss",
    "kl_divergence",
    "log_cosh_loss",
    "sigmoid_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits",
    "sparse_softmax_cross_entropy_with_logits",
    "squared_error",
]


def times(weight: Tensor, value: Tensor) -> Tensor:
    """weight * value; 0 where the weight is 0, even for a value of -inf, in the gradient too."""
    return weight * where(weight == 0, 0, value)


# Cross entropies of logits --------------------------------------------------------------------


def _pair_without_axis(logits: Shape, labels: Shape, *, axis: int, **_: object) -> Shape:
    """The common shape of logits and labels, without the axis of classes."""
    if logits != labels:
        raise errors.ShapeError(
            f"logits and labels must have the same shape, got {logits} and {labels}; for integer "
            f"labels use sparse_softmax_cross_entropy_with_logits"
        )
    return reduced(logits, (axis,), False)


def _losses_of_classes(wide: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """-log_softmax(x) along axis: the loss of each class; log(sum(exp(x))), with keepdims."""
    top = max(wide, axis=axis, keepdims=True)
    shifted = wide - top
    log_sum = log(sum(exp(shifted), axis=axis, keepdims=True))
    return log_sum - shifted, top + log_sum  # the first as log(sum(exp(x))) - x would lose digits


# ACCUMULATED: a sum over the classes, whose terms may cancel.
@op(shape=_pair_without_axis, dtype=real_floating, accuracy=ACCUMULATED, residuals=("normalizer",))
def softmax_cross_entropy_with_logits(
    logits: Tensor, labels: Tensor, *, axis: Axis = -1, label_smoothing: float = 0.0
) -> Tensor:
    """The cross entropy -sum(labels * log_softmax(logits)) along axis.

    A class with label 0 adds 0, even if its logit is -inf.

    Args:
        logits: unnormalized log probabilities (..., classes).
        labels: probabilities of the same shape; gradients flow into them too.
        axis: the axis of the classes.
        label_smoothing: s replaces labels by (1 - s) * labels + s / classes (Szegedy et al.,
            2016, section 7).

    Returns:
        One loss per distribution: the shape of logits without `axis`.

    Raises:
        ShapeError: if the shapes differ.

    >>> pb.softmax_cross_entropy_with_logits([[1e4, 0.0, -1e4]], [[0.0, 1.0, 0.0]]).tolist()
    [10000.0]
    """
    if logits.shape != labels.shape:
        _pair_without_axis(logits.shape, labels.shape, axis=axis)
    wide = widened(logits)
    losses, normalizer = _losses_of_classes(wide, axis)
    target = _smooth(widened(labels), axis, label_smoothing)
    loss = sum(times(target, losses), axis=axis)
    return narrowed(loss, logits), normalizer  # type: ignore[return-value]


def _smooth(labels: Tensor, axis: int, smoothing: float) -> Tensor:
    if not smoothing:
        return labels
    return labels * (1 - smoothing) + smoothing / labels.shape[axis]


@softmax_cross_entropy_with_logits.vjp("logits")
def _(
    g: Tensor, logits: Tensor, labels: Tensor, normalizer: Tensor, axis: int, label_smoothing: float
) -> Tensor:
    wide = widened(logits)
    target = _smooth(widened(labels), axis, label_smoothing)
    g = widened(g).reshape(normalizer.shape)
    probabilities = exp(wide - normalizer)
    dlogits = probabilities * sum(target, axis=axis, keepdims=True) - target
    return narrowed(g * dlogits, logits)


@softmax_cross_entropy_with_logits.vjp("labels")
def _(
    g: Tensor, logits: Tensor, labels_dtype: DType, normalizer: Tensor, label_smoothing: float
) -> Tensor:
    dlabels = (normalizer - widened(logits)) * (1 - label_smoothing)
    return (widened(g).reshape(normalizer.shape) * dlabels).astype(labels_dtype)


def _logits_and_classes(operands: Operands, **_: object) -> Resolution:
    """Real floating logits, whose dtype the result has; integer labels."""
    logits = dtypes.real_floating(operands[:1]).inputs[0]
    labels = dtypes.integer(operands[1:]).inputs[0]
    assert logits is not None
    return Resolution((logits, labels), (logits,))


def _classes_without_axis(logits: Shape, labels: Shape, *, axis: int, **_: object) -> Shape:
    """The shape of the labels: that of the logits without the axis of classes."""
    expected = (*logits[:axis], *logits[axis + 1 :])
    if labels != expected:
        one_each = reduced(logits, (axis,), True)
        raise errors.ShapeError(
            f"labels must have the shape of logits {logits} without axis {axis}: {expected}, got "
            f"{labels}" + (f"; write pb.squeeze(labels, axis={axis})" * (labels == one_each))
        )
    return labels


def _one_hot(labels: Tensor, like: Tensor, axis: int, smoothing: float) -> Tensor:
    classes = like.shape[axis]
    return _smooth(one_hot(labels, classes, axis=axis, dtype=like.dtype), axis, smoothing)


# ACCUMULATED: a sum over the classes.
@op(
    shape=_classes_without_axis,
    dtype=_logits_and_classes,
    accuracy=ACCUMULATED,
    residuals=("normalizer",),
)
def sparse_softmax_cross_entropy_with_logits(
    logits: Tensor,
    labels: Tensor,
    *,
    axis: Axis = -1,
    label_smoothing: float = 0.0,
    ignore_label: int | None = None,
) -> Tensor:
    """The cross entropy of logits with integer labels, one class per distribution.

    Args:
        logits: unnormalized log probabilities (..., classes).
        labels: integers in [0, classes), in the shape of logits without `axis`. Other labels give a
            loss of NaN, except `ignore_label`.
        axis: the axis of the classes.
        label_smoothing: s gives the target class weight 1 - s, and spreads s evenly over all.
        ignore_label: the label for which loss and gradient are 0.

    Raises:
        ShapeError: if the shapes do not fit.

    >>> pb.sparse_softmax_cross_entropy_with_logits([[1e4, 0.0, -1e4]], [1]).tolist()
    [10000.0]
    """
    if labels.shape != reduced(logits.shape, (axis,), False):
        _classes_without_axis(logits.shape, labels.shape, axis=axis)
    wide = widened(logits)
    losses, normalizer = _losses_of_classes(wide, axis)
    target = _one_hot(labels := counting(labels), wide, axis, label_smoothing)
    loss = sum(times(target, losses), axis=axis)
    loss = where((labels >= 0) & (labels < wide.shape[axis]), loss, float("nan"))
    # Unsigned labels are never negative.
    if ignore_label is not None and (ignore_label >= 0 or labels.dtype not in dtypes.UNSIGNED):
        loss = where(labels == ignore_label, 0, loss)
    return narrowed(loss, logits), normalizer  # type: ignore[return-value]


# A number is taken, and its sign changed.
@op(
    shape=_classes_without_axis,
    dtype=_logits_and_classes,
    accuracy=EXACT,
    normalize=checked(_classes_without_axis),
    public=False,
)
def negative_log_likelihood_of_classes(
    log_probabilities: Tensor, labels: Tensor, *, axis: Axis = -1
) -> Tensor:
    """-log_probabilities[label] of each distribution; NaN, without a gradient, for other labels.

    Args:
        log_probabilities: (..., classes).
        labels: integers in [0, classes), in the shape of log_probabilities without `axis`.
        axis: the axis of the classes.

    >>> pb.ops.negative_log_likelihood_of_classes([[-3.0, -0.5]], [1]).tolist()
    [0.5]
    """
    classes, labels = log_probabilities.shape[axis], counting(labels)
    is_class = (labels >= 0) & (labels < classes)
    kept = reduced(log_probabilities.shape, (axis,), True)
    taken = take_along_axis(
        log_probabilities, reshape(where(is_class, labels, 0), kept), axis=axis
    ) if classes else reshape(labels, kept).astype(log_probabilities.dtype)  # fmt: skip
    return where(is_class, -reshape(taken, labels.shape), float("nan"))


@negative_log_likelihood_of_classes.vjp("log_probabilities")
def _(
    g: Tensor, labels: Tensor, log_probabilities_shape: Shape, axis: int
) -> Tensor:  # fmt: skip
    shape = log_probabilities_shape
    kept = reduced(shape, (axis,), True)
    classes = arange(shape[axis], dtype=counting(labels).dtype, device=g.device)
    there = reshape(classes, tuple(-1 if i == axis else 1 for i in range(len(shape))))
    return where(reshape(counting(labels), kept) == there, -reshape(g, kept), 0)


negative_log_likelihood_of_classes.vjp(labels=None)


def _like_logits(
    logits: Shape, labels: Shape, normalizer: Shape, g: Shape, *, axis: int, **_: object
) -> Shape:
    """The shape of the logits."""
    one_each = _classes_without_axis(logits, labels, axis=axis)
    if g != one_each:
        raise errors.ShapeError(f"g must have the shape of the loss {one_each}, got {g}")
    if normalizer != reduced(logits, (axis,), True):
        raise errors.ShapeError(
            f"normalizer must have shape {reduced(logits, (axis,), True)}, got {normalizer}"
        )
    return logits


def _keep(operands: Operands, **_: object) -> Resolution:
    """Each input keeps its dtype; the result has that of the first."""
    kept = dtypes.each("any")(operands)
    return Resolution(kept.inputs, kept.outputs)


@op(
    shape=_like_logits,
    dtype=_keep,
    accuracy=ACCUMULATED,
    normalize=checked(_like_logits),
    public=False,
)
def sparse_softmax_cross_entropy_gradient(
    logits: Tensor,
    labels: Tensor,
    normalizer: Tensor,
    g: Tensor,
    *,
    axis: Axis = -1,
    label_smoothing: float = 0.0,
    ignore_label: int | None = None,
) -> Tensor:
    """The gradient of `sparse_softmax_cross_entropy_with_logits` with respect to its logits.

    Args:
        logits: the input of the op.
        labels: the input of the op.
        normalizer: log(sum(exp(logits))) along axis, with keepdims.
        g: the gradient with respect to the result of the op.

    Returns:
        A tensor like logits; NaN if the label is not a class, 0 if it is `ignore_label`.

    >>> logits, normalizer = [[0.0, 0.0]], [[0.6931472]]
    >>> pb.ops.sparse_softmax_cross_entropy_gradient(logits, [1], normalizer, [2.0]).tolist()
    [[1.0, -1.0]]
    """
    wide = widened(logits)
    target = _one_hot(labels := counting(labels), wide, axis, label_smoothing)
    # A label outside the classes makes the loss NaN, and so the gradient.
    g = where((labels >= 0) & (labels < wide.shape[axis]), widened(g), float("nan"))
    if ignore_label is not None and (ignore_label >= 0 or labels.dtype not in dtypes.UNSIGNED):
        g = where(labels == ignore_label, 0, g)
    return narrowed(g.reshape(normalizer.shape) * (exp(wide - normalizer) - target), logits)


@sparse_softmax_cross_entropy_with_logits.vjp("logits")
def _(
    g: Tensor,
    logits: Tensor,
    labels: Tensor,
    normalizer: Tensor,
    axis: int,
    label_smoothing: float,
    ignore_label: int | None,
) -> Tensor:
    return sparse_softmax_cross_entropy_gradient(
        logits,
        labels,
        normalizer,
        g,
        axis=axis,
        label_smoothing=label_smoothing,
        ignore_label=ignore_label,
    )


sparse_softmax_cross_entropy_with_logits.vjp(labels=None)


@op(shape=broadcast, dtype=real_floating, accuracy=FEW_ULP)
def sigmoid_cross_entropy_with_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """The binary cross entropy of logits, elementwise.

    It is -labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits)).

    Args:
        logits: log odds of any size.
        labels: probabilities, in a shape that broadcasts with logits.

    >>> pb.sigmoid_cross_entropy_with_logits([1e4, -1e4, -1e4], [1.0, 0.0, 1.0]).tolist()
    [0.0, 0.0, 10000.0]
    """
    # |x| times the probability of the other side: no terms cancel.
    x, z = widened(logits), widened(labels)
    wrong = where(x > 0, 1 - z, z)
    size = abs(x)
    # Where nothing is wrong, an infinite size adds 0.
    return narrowed(wrong * where(wrong == 0, wrong, size) + softplus(-size), logits)


sigmoid_cross_entropy_with_logits.vjp(
    logits=lambda g, logits, labels: g * (sigmoid(logits) - labels),
    labels=lambda g, logits: -(g * logits),
)


# Distances ------------------------------------------------------------------------------------


@op(shape=broadcast, dtype=real_floating, accuracy=FEW_ULP)
def squared_error(predictions: Tensor, targets: Tensor) -> Tensor:
    """(predictions - targets)**2, elementwise.

    >>> pb.squared_error([1.0, 2.0], [1.0, 4.0]).tolist()
    [0.0, 4.0]
    """
    difference: Tensor = predictions - targets
    return difference * difference


# Times 2 is exact, and g is often one number, repeated.
squared_error.vjp(
    predictions=lambda g, predictions, targets: (predictions - targets) * (g * 2),
    targets=lambda g, predictions, targets: (targets - predictions) * (g * 2),
)


@op(shape=broadcast, dtype=real_floating, accuracy=ROUNDED)
def absolute_error(predictions: Tensor, targets: Tensor) -> Tensor:
    """|predictions - targets|, elementwise.

    >>> pb.absolute_error([1.0, 2.0], [1.0, 4.0]).tolist()
    [0.0, 2.0]
    """
    return abs(predictions - targets)


@op(shape=broadcast, dtype=real_floating, accuracy=FEW_ULP)
def huber_loss(predictions: Tensor, targets: Tensor, *, delta: float = 1.0) -> Tensor:
    """Half the squared error up to a difference of delta, and linear beyond (Huber, 1964).

    >>> pb.huber_loss([1.0, 4.0], [0.0, 0.0]).tolist()
    [0.5, 3.5]
    """
    error = abs(predictions - targets)
    # For error > delta: delta * (error - delta / 2). The square of `clipped` does not overflow.
    clipped = minimum(error, delta)
    return clipped * clipped * 0.5 + (error - clipped) * delta


huber_loss.vjp(
    predictions=lambda g, predictions, targets, delta: (
        g * clip(predictions - targets, -delta, delta)
    ),
    targets=lambda g, predictions, targets, delta: g * clip(targets - predictions, -delta, delta),
)


# ACCUMULATED: what the difference of the inputs loses counts twice.
@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED)
def log_cosh_loss(predictions: Tensor, targets: Tensor) -> Tensor:
    """log(cosh(predictions - targets)), elementwise: x**2 / 2 near 0, |x| - log(2) far from it.

    >>> pb.log_cosh_loss([0.0, 1e4], [0.0, 0.0]).tolist()
    [0.0, 9999.306640625]
    """
    size = abs(predictions - targets)
    lost = expm1(-size)
    # Near 0 what is behind a logarithm of 1 + x, without a difference of terms that cancel.
    near, close = lost * lost / (2 * (lost + 1)), size < 1
    return where(close, 0, size) + log1p(where(close, near, lost * (lost + 2) * 0.5))


log_cosh_loss.vjp(
    predictions=lambda g, predictions, targets: g * tanh(predictions - targets),
    targets=lambda g, predictions, targets: g * tanh(targets - predictions),
)


@op(shape=broadcast, dtype=real_floating, accuracy=FEW_ULP)
def hinge_loss(predictions: Tensor, targets: Tensor) -> Tensor:
    """max(0, 1 - targets * predictions), elementwise, for targets -1 and 1.

    >>> pb.hinge_loss([0.5, 2.0, 0.5], [1.0, 1.0, -1.0]).tolist()
    [0.5, 0.0, 1.5]
    """
    return maximum(1 - predictions * targets, 0)


# Distributions and directions -----------------------------------------------------------------


def _one_axis_less(x1: Shape, x2: Shape, *, axis: int, **_: object) -> Shape:
    """The shape of both inputs without the axis."""
    if x1 != x2:
        raise errors.ShapeError(f"both inputs must have the same shape, got {x1} and {x2}")
    return reduced(x1, (axis,), False)


# ACCUMULATED: a sum of terms of both signs.
@op(shape=_one_axis_less, dtype=real_floating, accuracy=ACCUMULATED)
def kl_divergence(targets: Tensor, predictions: Tensor, *, axis: Axis = -1) -> Tensor:
    """sum(targets * log(targets / predictions)) along axis (Kullback and Leibler, 1951).

    A target of 0 adds 0.

    Args:
        targets: probabilities p.
        predictions: probabilities q, in the same shape: KL(p || q).
        axis: the axis of the outcomes.

    Raises:
        ShapeError: if the shapes differ.

    >>> pb.kl_divergence([1.0, 0.0], [0.5, 0.5]).tolist()
    0.6931471824645996
    """
    if targets.shape != predictions.shape:
        _one_axis_less(targets.shape, predictions.shape, axis=axis)
    p, q = widened(targets), widened(predictions)
    is_zero = p == 0
    logs = log(where(is_zero, 1, p)) - log(where(is_zero, 1, q))
    return narrowed(sum(p * logs, axis=axis), targets)


# ACCUMULATED: an inner product.
@op(shape=_one_axis_less, dtype=real_floating, accuracy=ACCUMULATED)
def cosine_similarity(x1: Tensor, x2: Tensor, *, axis: Axis = -1, epsilon: float = 1e-12) -> Tensor:
    """The cosine of the angle between x1 and x2 along axis; 0 if one of them is 0.

    Args:
        x1: vectors.
        x2: vectors, in the same shape.
        axis: the axis of the vectors.
        epsilon: a lower bound on squared norms.

    Raises:
        ShapeError: if the shapes differ.

    >>> print(f"{pb.cosine_similarity([1.0, 0.0], [3.0, 4.0]):.2f}")
    0.60
    """
    if x1.shape != x2.shape:
        _one_axis_less(x1.shape, x2.shape, axis=axis)
    a, b = widened(x1), widened(x2)
    norms = [sqrt(maximum(sum(v * v, axis=axis), epsilon)) for v in (a, b)]
    return narrowed(sum(a * b, axis=axis) / norms[0] / norms[1], x1)
