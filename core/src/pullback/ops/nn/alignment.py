"""The CTC loss: a sum over all alignments of frames with labels."""

from __future__ import annotations

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution
from pullback.ops.comparison import not_equal
from pullback.ops.creation import arange, full
from pullback.ops.exponential import exp, log
from pullback.ops.indexing import take_along_axis
from pullback.ops.joining import concat, stack
from pullback.ops.manipulation import reshape
from pullback.ops.nn.softmax import log_softmax
from pullback.ops.precision import narrowed, widened
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
    logits: Tensor,
    labels: Tensor,
    logit_lengths: Tensor,
    label_lengths: Tensor,
    *,
    blank: int = 0,
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
    length = labels.shape[1]
    scores = log_softmax(widened(logits), axis=-1)
    # A path runs through blank, label, blank, label, ..., blank: 2 * length + 1 states.
    blanks = full((batch, length, 1), blank, dtype=labels.dtype, device=logits.device)
    pairs = reshape(
        concat([blanks, reshape(labels, (batch, length, 1))], axis=2), (batch, 2 * length)
    )
    end = full((batch, 1), blank, dtype=labels.dtype, device=logits.device)
    path = concat([reshape(pairs, (batch, 2 * length)), end], axis=1)
    places = 2 * length + 1
    # A path may go from a label to the next one without the blank, unless both are equal. Blanks
    # need no test: two states before a blank is a blank, which is equal. A label of the blank class
    # is a label too, as in PyTorch and Keras.
    two_back = concat([end, end, path], axis=1)[:, :places]
    skips = not_equal(path, two_back)
    at = arange(places, device=logits.device)
    never = full((batch, 2), _NEVER, dtype=scores.dtype, device=logits.device)
    # Before the first frame, paths start at a state in front of the first two.
    state = where(at == 0, 0.0, _NEVER) + never[:, :1] * 0
    lasts = reshape(logit_lengths, (batch, 1))
    for frame in range(frames):
        emitted = take_along_axis(
            strided_slice(scores, key=(slice(0, batch, 1), frame, ...)), path, axis=1
        )
        one = concat([never[:, :1], state], axis=1)[:, :places]
        if frame:
            two = where(skips, concat([never, state], axis=1)[:, :places], _NEVER)
            arrived = _log_sum([state, one, two])
        else:
            arrived = _log_sum([state, one])
        state = where(lasts > frame, arrived + emitted, state)
    ends = reshape(label_lengths, (batch, 1)) * 2
    final = where((at == ends) | (at == ends - 1), state, _NEVER)
    loss = -_log_sum_last(final)
    return narrowed(where(loss < -_NEVER / 2, loss, float("inf")), logits)


def _log_sum(terms: list[Tensor]) -> Tensor:
    return _log_sum_last(stack(terms, axis=-1))


def _log_sum_last(x: Tensor) -> Tensor:
    top = max(x, axis=-1, keepdims=True)
    total = sum(exp(x - top), axis=-1)
    return log(total) + reshape(top, total.shape)
