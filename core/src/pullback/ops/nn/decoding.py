"""The likeliest labels of a CTC model: prefix beam search."""

from __future__ import annotations

from typing import Any

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution, int64
from pullback.ops.arithmetic import floor_divide
from pullback.ops.creation import arange, full
from pullback.ops.exponential import logaddexp
from pullback.ops.indexing import put_along_axis, take_along_axis
from pullback.ops.joining import unstack
from pullback.ops.logical import logical_not
from pullback.ops.manipulation import broadcast_to, expand_dims, reshape
from pullback.ops.nn.softmax import log_softmax
from pullback.ops.precision import narrowed, places_on, widened
from pullback.ops.reductions import any, max, sum
from pullback.ops.selection import where
from pullback.ops.sorting import top_k
from pullback.shapes import Shape, as_int
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["ctc_beam_search"]

#: The logarithm of probability 0.
_NEVER = -float("inf")


def _paths(logits: Shape, logit_lengths: Shape, *, top_paths: int, **_: object) -> list[Shape]:
    """Labels (batch, top_paths, frames); lengths and log probabilities (batch, top_paths)."""
    if len(logits) != 3 or logit_lengths != logits[:1]:
        raise errors.ShapeError(
            f"logits must be (batch, frames, classes) and logit_lengths (batch,), got {logits} "
            f"and {logit_lengths}"
        )
    batch, frames, _classes = logits
    return [(batch, top_paths, frames), (batch, top_paths), (batch, top_paths)]


def _path_dtypes(operands: Operands, **_: object) -> Resolution:
    """Real floating logits, whose dtype the log probabilities have; int64 labels and lengths."""
    (logits,) = dtypes.real_floating(operands[:1]).inputs
    (lengths,) = dtypes.integer(operands[1:]).inputs
    assert logits is not None
    return Resolution((logits, lengths), (int64, int64, logits))


def _checked(
    shapes: tuple[Shape, ...], *, beam_width: Any, top_paths: Any, blank: int
) -> dict[str, object]:
    width = as_int(beam_width, "an integer beam_width")
    paths = as_int(top_paths, "an integer top_paths")
    if not 1 <= paths <= width:
        raise errors.InputValueError(
            f"top_paths must be at least 1 and at most beam_width, got {paths} of {width}"
        )
    _paths(*shapes, top_paths=paths)
    classes = shapes[0][2]
    if not -classes <= blank < classes:
        raise errors.InputValueError(f"blank must be one of {classes} classes, got {blank}")
    return {"beam_width": width, "top_paths": paths, "blank": blank % classes}


# ACCUMULATED: a sum over all alignments in the beam.
@op(
    shape=_paths,
    dtype=_path_dtypes,
    accuracy=ACCUMULATED,
    normalize=_checked,
    outputs=("labels", "lengths", "log_probabilities"),
)
def ctc_beam_search(
    logits: Tensor,
    logit_lengths: Tensor,
    *,
    beam_width: int = 100,
    top_paths: int = 1,
    blank: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The likeliest labels under `ctc_loss`, by prefix beam search (Hannun et al., 2014).

    After each frame the `beam_width` likeliest labelings are kept, each with all its alignments
    that went through kept ones. The log probability is that of these alignments: at most
    `-ctc_loss`, and equal to it where the beam has room for all labelings. Of equal ones the
    order is not defined. The log probabilities have gradients; those of the choice do not exist.

    Args:
        logits: unnormalized log probabilities (batch, frames, classes).
        logit_lengths: the number of frames (batch).
        beam_width: the number of labelings that are kept.
        top_paths: the number of labelings that are returned, at most `beam_width`.
        blank: the class of the blank.

    Returns:
        Three tensors, with the likeliest labeling first: the labels (batch, top_paths, frames),
        int64 and padded with -1; their number (batch, top_paths), int64; and their log
        probabilities (batch, top_paths). Where fewer labelings are possible the others have no
        labels, and log probability -infinity; NaN for logits with NaN.

    Raises:
        ShapeError: if the shapes do not fit.
        InputValueError: if blank is not a class, or `top_paths` is not from 1 to `beam_width`.

    >>> logits = pb.log([[[0.1, 0.9, 0.0], [0.2, 0.5, 0.3]]])
    >>> labels, lengths, scores = pb.ctc_beam_search(logits, [2], beam_width=4, top_paths=2)
    >>> labels.tolist(), lengths.tolist()
    ([[[1, -1], [1, 2]]], [[1, 2]])
    >>> print([f"{p:.2f}" for p in pb.exp(scores[0]).tolist()])
    ['0.68', '0.27']
    """
    batch, frames, classes = logits.shape
    log_y = log_softmax(widened(logits), axis=-1)
    beams = _Beams(log_y, beam_width, blank)
    # Behind the last frame there are blanks alone, which leave all as it is.
    frame = expand_dims(arange(frames, device=logits.device), -1)
    counted = frame < reshape(logit_lengths.astype(frame.dtype), (batch, 1, 1))
    resting = where(arange(classes, device=logits.device) == blank, 0.0, _NEVER)
    for scores in unstack(where(counted, log_y, resting.astype(log_y.dtype)), axis=1):
        beams.step(scores)
    total = beams.total()
    possible = total > _NEVER
    labels = where(expand_dims(possible, -1), beams.labels, -1)
    lengths = where(possible, beams.lengths, 0)
    kept = slice(top_paths)
    return labels[:, kept], lengths[:, kept], narrowed(total, logits)[:, kept]


class _Beams:
    """The labelings that are kept, of each item of the batch, in the order of their scores.

    One with log probability -infinity is a place that is free.
    """

    def __init__(self, log_y: Tensor, width: int, blank: int) -> None:
        batch, frames, classes = log_y.shape
        device = log_y.device
        self.width, self.blank = width, blank
        self.places = arange(frames, device=device)
        self.classes = arange(classes, device=device)
        self.beam = arange(width, device=device)
        whole = places_on(device)
        self.labels = full((batch, width, frames), -1, dtype=whole, device=device)
        self.lengths = full((batch, width), 0, dtype=whole, device=device)
        #: The last label, the blank where there is none.
        self.last = full((batch, width), blank, dtype=whole, device=device)
        #: Whether beam i begins with all labels of beam j.
        self.begins = full((batch, width, width), True, device=device)
        #: The log probabilities of the alignments that end in the blank, and in the last label.
        never = full((batch, width), _NEVER, dtype=log_y.dtype, device=device)
        self.in_blank = where(self.beam == 0, full((), 0, dtype=log_y.dtype, device=device), never)
        self.in_label = never

    def total(self) -> Tensor:
        return logaddexp(self.in_blank, self.in_label)

    def step(self, scores: Tensor) -> None:
        """Takes the log probabilities (batch, classes) of the next frame."""
        batch, classes = scores.shape
        total, last, lengths = self.total(), self.last, self.lengths
        # A beam stays by a blank, or by its last label once more; by another label it grows, and
        # by its last label behind a blank.
        by_label = take_along_axis(scores, last, axis=1)
        in_blank = total + scores[:, self.blank : self.blank + 1]
        in_label = self.in_label + by_label
        again = expand_dims(last, -1) == self.classes
        grown = where(again, expand_dims(self.in_blank, -1), expand_dims(total, -1))
        grown = grown + expand_dims(scores, 1)
        # What has grown may be a beam already: the one whose labels but the last are its parent's.
        possible = total > _NEVER
        is_parent = self.begins & (expand_dims(lengths, -1) == expand_dims(lengths + 1, 1))
        is_parent = is_parent & expand_dims(possible, -1) & expand_dims(possible, 1)
        again = expand_dims(last, -1) == expand_dims(last, 1)
        joins = where(again, expand_dims(self.in_blank, 1), expand_dims(total, 1))
        joining = max(where(is_parent, joins, _NEVER), axis=2) + by_label
        in_label = logaddexp(in_label, joining)
        # Each is counted once: it leaves its place among those that have grown. The place of the
        # blank is that of a beam that stays.
        parent = sum(where(is_parent, self.beam, 0), axis=2)
        own = self.beam * classes + self.blank
        there = where(any(is_parent, axis=2), parent * classes + last, own)
        candidates = reshape(grown, (batch, self.width * classes))
        candidates = put_along_axis(candidates, there, _NEVER, axis=1)
        own = broadcast_to(own, (batch, self.width))
        candidates = put_along_axis(candidates, own, logaddexp(in_blank, in_label), axis=1)
        best, chosen = top_k(candidates, self.width, axis=1)
        origin = floor_divide(chosen, classes)
        label = chosen - origin * classes
        self._choose(origin, label)
        grows = label != self.blank
        self.in_blank = where(grows, _NEVER, take_along_axis(in_blank, origin, axis=1))
        self.in_label = where(grows, best, take_along_axis(in_label, origin, axis=1))

    def _choose(self, origin: Tensor, label: Tensor) -> None:
        """The beams are those of `origin`, each with a label more unless it is the blank."""
        batch = origin.shape[0]
        grows = label != self.blank
        lengths = take_along_axis(self.lengths, origin, axis=1)
        labels = take_along_axis(self.labels, expand_dims(origin, -1), axis=1)
        at_end = (self.places == expand_dims(lengths, -1)) & expand_dims(grows, -1)
        self.labels = where(at_end, expand_dims(label, -1), labels)
        self.last = where(grows, label, take_along_axis(self.last, origin, axis=1))
        self.lengths = lengths + grows.astype(lengths.dtype)
        pairs = expand_dims(origin, -1) * self.width + expand_dims(origin, 1)
        flat = (batch, self.width * self.width)
        began = take_along_axis(reshape(self.begins, flat), reshape(pairs, flat), axis=1)
        next_label = take_along_axis(self.labels, expand_dims(lengths, 1), axis=2)
        fits = logical_not(expand_dims(grows, 1)) | (next_label == expand_dims(label, 1))
        self.begins = reshape(began, self.begins.shape) & fits
