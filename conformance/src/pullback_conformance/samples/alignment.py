"""Samples of losses over alignments, for which every path is looked at, and of beam search."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import integers, normal
from pullback_conformance.sample import call, rough, suite, wrong

Array: TypeAlias = Any


def _collapsed(path: tuple[int, ...], blank: int) -> list[int]:
    """Repetitions as one, then blanks left out."""
    kept = [one for i, one in enumerate(path) if i == 0 or one != path[i - 1]]
    return [one for one in kept if one != blank]


def _wanted(labels: Array, blank: int) -> list[int]:
    if blank in labels:
        raise ValueError("the blank is no label")
    found: list[int] = labels.tolist()
    return found


def _ctc(
    logits: Array, labels: Array, logit_lengths: Array, label_lengths: Array, *, blank: int = 0
) -> Array:
    scores = logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))
    losses = []
    blank %= logits.shape[-1]
    for item in range(logits.shape[0]):
        wanted = _wanted(labels[item, : label_lengths[item]], blank)
        frames = int(logit_lengths[item])
        total = logits.dtype.type(0)
        for path in product(range(logits.shape[-1]), repeat=frames):
            if _collapsed(path, blank) == wanted:
                total += np.exp(sum((scores[item, t, k] for t, k in enumerate(path)), 0 * total))
        losses.append(-np.log(total))
    return np.array(losses, logits.dtype)


def _ctc_slopes(
    logits: Array, labels: Array, logit_lengths: Array, label_lengths: Array, g: Array, *,
    blank: int = 0,
) -> Array:  # fmt: skip
    """Softmax less the share of the paths through each class, of those that fit."""
    shares = np.exp(logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True)))
    slopes = np.zeros_like(logits)
    blank %= logits.shape[-1]
    for item in range(logits.shape[0]):
        wanted = _wanted(labels[item, : label_lengths[item]], blank)
        frames = int(logit_lengths[item])
        total, through = logits.dtype.type(0), np.zeros_like(logits[item])
        for path in product(range(logits.shape[-1]), repeat=frames):
            if _collapsed(path, blank) == wanted:
                chance = np.prod([shares[item, t, k] for t, k in enumerate(path)])
                total += chance
                for t, k in enumerate(path):
                    through[t, k] += chance
        if total:
            slopes[item, :frames] = ((shares[item] - through / total) * g[item])[:frames]
    return slopes


def _size(logits: Array, *rest: Array, **_: object) -> Array:
    """The scores of all frames add up."""
    # Behind the end there may be infinities.
    finite = logits[np.isfinite(logits)]
    worst = 2 * np.abs(finite).max(initial=0) + np.log(logits.shape[-1]) + 2
    return np.full(logits.shape[0], logits.shape[1] * worst)


def _lengths(*values: int) -> Array:
    return np.array(values, np.int32)


def _slopes_size(logits: Array, *rest: Array, **_: object) -> Array:
    sizes = _size(logits) * np.abs(rest[-1])
    return np.broadcast_to(sizes[:, None, None], logits.shape)


_LABELS = integers(1, 3, 2, 2)
suite(
    "ctc_loss",
    _ctc,
    scale=_size,
    without={
        "large": "the reference takes one step at a time",
        "sizes": "there may be fewer frames and labels than lengths say",
    },
)(
    call(normal(2, 4, 3), integers(1, 3, 2, 2), _lengths(4, 3), _lengths(2, 1)),
    call(
        normal(2, 4, 3),
        np.array([[0, 0], [1, 0]], np.int32),
        _lengths(4, 4),
        _lengths(2, 2),
        blank=-1,
        note="repeated labels",
    ),
    call(
        normal(2, 3, 3),
        np.array([[1, 2], [1, 2]]),
        _lengths(3, 2),
        _lengths(0, 2),
        note="no labels, and as many as frames",
    ),
    rough(
        normal(2, 3, 3),
        np.array([[1, 1], [1, 2]]),
        _lengths(2, 1),
        _lengths(2, 2),
        note="too few frames",
    ),
    call(normal(1, 3, 3), integers(1, 3, 1, 0), _lengths(3), _lengths(0), note="length 0"),
    rough(
        normal(2, 3, 3),
        np.array([[1, 2], [1, 2]]),
        _lengths(0, 0),
        _lengths(0, 2),
        note="no frames",
    ),
    call(normal(0, 3, 3), integers(1, 3, 0, 2), _lengths(), _lengths(), note="empty"),
    wrong(errors.ShapeError, normal(2, 4), integers(1, 3, 2, 2), _lengths(4, 4), _lengths(1, 1)),
    wrong(errors.ShapeError, normal(2, 4, 3), integers(1, 3, 2, 2), _lengths(4), _lengths(1, 1)),
    wrong(
        errors.InputValueError, normal(2, 4, 3), _LABELS, _lengths(4, 4), _lengths(1, 1), blank=3
    ),
)
suite(
    "ctc_loss_gradient",
    _ctc_slopes,
    scale=_slopes_size,
    without={
        "large": "the reference takes one step at a time",
        "sizes": "there may be fewer frames and labels than lengths say",
    },
)(
    call(
        normal(2, 4, 3), integers(1, 3, 2, 2), _lengths(4, 3), _lengths(2, 1), normal(2, seed=5)
    ),
    call(
        normal(2, 4, 3), np.array([[0, 0], [1, 0]], np.int32), _lengths(4, 4), _lengths(2, 2),
        normal(2, seed=5), blank=-1, note="repeated labels",
    ),
    call(
        normal(2, 3, 3), np.array([[1, 2], [1, 2]]), _lengths(3, 2), _lengths(0, 2),
        normal(2, seed=5), note="no labels, and as many as frames",
    ),
    replace(
        rough(
            np.concatenate([normal(2, 3, 3), np.full((2, 1, 3), np.inf)], axis=1), _LABELS,
            _lengths(3, 2), _lengths(1, 1), normal(2, seed=5), note="infinities behind the end",
        ),
        checks=("value",),
    ),
    rough(
        normal(2, 3, 3), np.array([[1, 1], [1, 2]]), _lengths(2, 1), _lengths(2, 2),
        normal(2, seed=5), note="too few frames",
    ),
    call(
        normal(1, 3, 3), integers(1, 3, 1, 0), _lengths(3), _lengths(0), normal(1), note="length 0"
    ),
    call(normal(0, 3, 3), integers(1, 3, 0, 2), _lengths(), _lengths(), normal(0), note="empty"),
    call(
        normal(1, 0, 3), integers(1, 3, 1, 1), _lengths(0), _lengths(1), normal(1),
        note="no frames",
    ),
    wrong(
        errors.ShapeError, normal(2, 4, 3), _LABELS, _lengths(4, 4), _lengths(1, 1), normal(3)
    ),
)  # fmt: skip


# Beam search --------------------------------------------------------------------------------------


def _beam_search(
    logits: Array, logit_lengths: Array, *, beam_width: int = 100, top_paths: int = 1,
    blank: int = 0,
) -> Any:  # fmt: skip
    """Labelings as tuples in a dict, with the probabilities to end in their last label and not."""
    batch, frames, classes = logits.shape
    blank %= classes
    labels = np.full((batch, top_paths, frames), -1, np.int64)
    lengths = np.zeros((batch, top_paths), np.int64)
    scores = np.full((batch, top_paths), -np.inf, logits.dtype)
    for item in range(batch):
        beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, 1.0)}
        for row in logits[item, : logit_lengths[item]]:
            chances = np.exp(row - row.max())
            chances = chances / chances.sum()
            grown: dict[tuple[int, ...], tuple[float, float]] = {}
            for path, ends in beams.items():
                for label, chance in enumerate(chances):
                    for in_label, before in ((True, ends[0]), (False, ends[1])):
                        repeats = in_label and label == path[-1:][0] if path else False
                        found = path if label == blank or repeats else (*path, label)
                        old, more = grown.get(found, (0.0, 0.0)), before * chance
                        grown[found] = (
                            (old[0], old[1] + more) if label == blank else (old[0] + more, old[1])
                        )
            best = sorted(grown.items(), key=lambda pair: -sum(pair[1]))
            beams = {path: ends for path, ends in best[:beam_width] if sum(ends) > 0}
        for place, (path, ends) in enumerate(list(beams.items())[:top_paths]):
            labels[item, place, : len(path)] = path
            lengths[item, place] = len(path)
            scores[item, place] = np.log(sum(ends))
    return labels, lengths, scores


def _beam_size(logits: Array, logit_lengths: Array, *, top_paths: int = 1, **_: object) -> Any:
    found = np.broadcast_to(_size(logits)[:, None], (logits.shape[0], top_paths))
    return np.ones((*found.shape, logits.shape[1])), np.ones(found.shape), found


def _ordered(inputs: Any, result: Any) -> Any:
    """The result, where no two classes of a frame are equal: equal scores have no order."""
    logits = np.sort(np.asarray(inputs[0], np.float64), axis=-1)
    tied = np.any((logits[..., 1:] == logits[..., :-1]) & np.isfinite(logits[..., 1:]))
    return [np.zeros_like(one) if tied else one for one in result]


_CHOICES = dict.fromkeys(
    ("exceptional", "large", "shared", "equal", "random"),
    "equal scores have no order, and NaN has none",
)
_MASKED = normal(2, 4, 3, seed=3)
_MASKED[:, 1:, 2] = -np.inf
suite("ctc_beam_search", _beam_search, scale=_beam_size, compare=_ordered, without=_CHOICES)(
    call(normal(2, 5, 4), _lengths(5, 3), beam_width=3, top_paths=2),
    call(normal(2, 5, 4, seed=2) * 3, _lengths(4, 5), beam_width=5, top_paths=5, blank=-1),
    rough(normal(1, 4, 3), _lengths(4), top_paths=60, note="room for all, and for more"),
    call(normal(3, 6, 2, seed=4), _lengths(6, 5, 0), beam_width=2, note="no frames of an item"),
    call(normal(2, 7, 3, seed=5), _lengths(7, 6), beam_width=1, note="one beam"),
    rough(_MASKED, _lengths(4, 4), beam_width=8, top_paths=6, note="classes that cannot be"),
    rough(normal(1, 3, 1), _lengths(3), beam_width=2, top_paths=2, note="nothing but the blank"),
    call(normal(0, 3, 3), _lengths(), note="empty"),
    rough(normal(2, 0, 3), _lengths(0, 0), beam_width=2, top_paths=2, note="no frames"),
    wrong(errors.ShapeError, normal(2, 4), _lengths(4, 4)),
    wrong(errors.ShapeError, normal(2, 4, 3), _lengths(4)),
    wrong(errors.InputValueError, normal(1, 4, 3), _lengths(4), blank=3),
    wrong(errors.InputValueError, normal(1, 4, 3), _lengths(4), beam_width=2, top_paths=3),
    wrong(errors.InputValueError, normal(1, 4, 3), _lengths(4), top_paths=0),
)
