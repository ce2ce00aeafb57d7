"""Boxes in images: some boxes at a time are compared with those that are left."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.plugins.records import Kernel
from pullback_numpy.half import widened
from pullback_numpy.typing import Array

#: Boxes of a block: pairs of boxes that are both left out are compared within it alone.
_BLOCK = 128


def _overlap(some: Array, others: Array, threshold: Any) -> Array:
    """Returns where intersections are more than a part of unions.

    Boxes are (5, n): two low sides, two high ones, and the area.
    """
    one = some[:, :, None]
    width = np.minimum(others[2], one[2])
    width -= np.maximum(others[0], one[0])
    np.maximum(width, 0, out=width)
    shared = np.minimum(others[3], one[3])
    shared -= np.maximum(others[1], one[1])
    np.maximum(shared, 0, out=shared)
    shared *= width
    union = np.subtract(one[4] + others[4], shared, out=width)
    union *= threshold
    over: Array = np.greater(shared, union)
    return over


def _non_max_suppression(
    boxes: Array, scores: Array, groups: Array | None, *, iou_threshold: float,
    score_threshold: float | None, max_boxes: int | None,
) -> Array:  # fmt: skip
    # Of equal scores the first comes first.
    order = np.flip(scores.size - 1 - np.argsort(np.flip(widened(scores)), kind="stable"))
    if score_threshold is not None:
        order = order[scores[order] > score_threshold]
    corners = widened(boxes)[order].T
    low, high = np.minimum(corners[:2], corners[2:]), np.maximum(corners[:2], corners[2:])
    sides = high - low
    rest = np.concatenate([low, high, (sides[0] * sides[1])[None]])
    group = None if groups is None else groups[order]
    threshold = rest.dtype.type(iou_threshold)
    kept: list[Array] = []
    count = 0
    while order.size and (max_boxes is None or count < max_boxes):
        over = _overlap(rest[:, :_BLOCK], rest, threshold)
        if group is not None:
            over &= group[:_BLOCK, None] == group
        size = len(over)
        inside = np.triu(over[:, :size], 1)
        keep = np.ones(size, np.bool_)
        for i in np.flatnonzero(inside.any(axis=1)):
            if keep[i]:
                keep[inside[i]] = False
        kept.append(order[:size][keep])
        count += len(kept[-1])
        left = ~over[keep, size:].any(axis=0)
        order, rest = order[size:][left], rest[:, size:][:, left]
        group = None if group is None else group[size:][left]
    found = np.concatenate([np.zeros(0, np.int64), *kept])
    return found if max_boxes is None else found[:max_boxes]


KERNELS: dict[str, Kernel] = {"non_max_suppression": _non_max_suppression}
