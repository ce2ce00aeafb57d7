"""The CTC loss: a sum over all alignments of frames with labels."""

from __future__ import annotations

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution
from pullback.ops.comparison import not_equal
from pullback.ops.creation import arange, full
from pullback.ops.exponential import exp, log
from pullback.ops.indexing import take_along_axis
from pullback.ops.joining import concat, stack, unstack
from pullback.ops.manipulation import broadcast_to, reshape
from pullback.ops.nn.softmax import log_softmax
from pullback.ops.precision import counting, narrowed, widened
from pullback.ops.reductions import max, sum
from pullback.ops.selection import where
from pullback.ops.slicing import strided_slice
from pullback.shapes import Shape
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["ctc_loss"]

#: The logarithm of probability 0: finite, so that the difference of two of them is 0, not NaN.
_NEVER = -1e30


def _ctc_shape(
    logits: Shape, labels: Shape, logit_lengths: Shape, label_lengths: Shape, **_: object
) -> Shape:
    """One loss per example."""
    if len(logits) != 3 or len(labels) != 2 or labels[0] != logits[0]:
        raise errors.ShapeError(
            f"logits must be (batch, frames, classes) and labels (batch, length), "
            f"got {logits} and {labels}"
        )
    for name, shape in (("logit_lengths", logit_lengths), ("label_lengths", label_lengths)):
        if shape != logits[:1]:
            raise errors.ShapeError(f"{name} must have shape {logits[:1]}, got {shape}")
    return logits[:1]


def _ctc_dtypes(operands: Operands, **_: object) -> Resolution:
    """Real floating logits, whose dtype the result has; integer labels and lengths."""
    logits = dtypes.real_floating(operands[:1]).inputs[0]
    integers = [dtypes.integer((operand,)).inputs[0] for operand in operands[1:]]
    assert logits is not None
    return Resolution((logits, *integers), (logits,))


def _ctc_checked(shapes: tuple[Shape, ...], *, blank: int) -> dict[str, object]:
    _ctc_shape(*shapes)
    classes = shapes[0][2]
    if not -classes <= blank < classes:
        raise errors.InputValueError(f"blank must be one of {classes} classes, got {blank}")
    return {"blank": blank % classes}


# ACCUMULATED: a sum over all alignments.
@op(shape=_ctc_shape, dtype=_ctc_dtypes, accuracy=ACCUMULATED, normalize=_ctc_checked)
def ctc_loss(
    logits: Tensor, labels: Tensor, logit_lengths: Tensor, label_lengths: Tensor, *, blank: int = 0
) -> Tensor:
    """Connectionist temporal classification (Graves et al., 2006): -log p(labels | logits).

    Args:
        logits: unnormalized log probabilities (batch, frames, classes).
        labels: the target classes (batch, length), padded at the end with any class. The blank
            class may be a label too.
        logit_lengths: the number of frames (batch).
        label_lengths: the number of labels (batch).
        blank: the class of the blank.

    Returns:
        One loss per item of the batch; infinity, with gradient 0, if there are too few frames for
        the labels.

    Raises:
        ShapeError: if the shapes do not fit.
        InputValueError: if blank is not a class.

    >>> loss = pb.ctc_loss(pb.zeros((1, 2, 2)), [[1]], [2], [1])
    >>> print(f"{loss.item():.4f}")
    0.2877
    """
    batch, frames, _ = logits.shape
    labels, length = counting(labels), labels.shape[1]
    log_y = log_softmax(widened(logits), axis=-1)
    # A path runs through blank, label, blank, label, ..., blank: 2 * length + 1 states.
    blanks = full((batch, length, 1), blank, dtype=labels.dtype, device=logits.device)
    pairs = concat([blanks, reshape(labels, (batch, length, 1))], axis=2)
    end = full((batch, 1), blank, dtype=labels.dtype, device=logits.device)
    path = concat([reshape(pairs, (batch, 2 * length)), end], axis=1)
    states = 2 * length + 1
    # A path may go from a label to the next one without the blank, unless both are equal. Blanks
    # need no test: two states before a blank is a blank, which is equal. A label of the blank class
    # is a label too, as in PyTorch and Keras.
    rows = slice(0, batch, 1)
    two_before = strided_slice(
        concat([end, end, path], axis=1), key=(rows, slice(0, states, 1), ...)
    )
    may_skip = not_equal(path, two_before)
    state = arange(states, device=logits.device)
    # log alpha(t, s): the probability of all paths that are in state s at frame t. Before the first
    # frame, all are in state 0, from which the first frame reaches states 0 and 1.
    start = where(state == 0, full(path.shape, 0, dtype=log_y.dtype, device=logits.device), _NEVER)
    never = full((batch, 2), _NEVER, dtype=log_y.dtype, device=logits.device)
    places = broadcast_to(reshape(path, (batch, 1, states)), (batch, frames, states))
    emissions = unstack(take_along_axis(log_y, places, axis=2), axis=1)
    counts = reshape(logit_lengths, (batch, 1, 1))
    lasts = unstack(counts > reshape(arange(frames, device=logits.device), (1, frames, 1)), axis=1)
    log_alpha = start
    for frame, (emitted, lasting) in enumerate(zip(emissions, lasts, strict=True)):
        if frame:
            before = concat([never, log_alpha], axis=1)
            one, two = (
                strided_slice(before, key=(rows, slice(i, i + states, 1), ...)) for i in (1, 0)
            )
            reached = _log_sum([log_alpha, one, where(may_skip, two, _NEVER)]) + emitted
        else:
            reached = where(state < 2, emitted, _NEVER)
        log_alpha = where(lasting, reached, log_alpha)
    # A path ends in the last label, or in the blank after it.
    last = reshape(label_lengths, (batch, 1)) * 2
    final = where((state == last) | (state == last - 1), log_alpha, _NEVER)
    loss = -_log_sum_last(final)
    return narrowed(where(loss < -_NEVER / 2, loss, float("inf")), logits)


def _log_sum(terms: list[Tensor]) -> Tensor:
    """log(sum(exp(term))), element by element."""
    return _log_sum_last(stack(terms, axis=-1))


def _log_sum_last(x: Tensor) -> Tensor:
    largest = max(x, axis=-1, keepdims=True)
    total = sum(exp(x - largest), axis=-1)
    return log(total) + reshape(largest, total.shape)
