"""Boxes in images: each kept box is compared with those that are left, without all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.plugins.records import Kernel
from pullback_numpy.half import widened
from pullback_numpy.typing import Array


def _non_max_suppression(
    boxes: Array, scores: Array, groups: Array | None, *, iou_threshold: float,
    score_threshold: float | None, max_boxes: int | None,
) -> Array:  # fmt: skip
    # Of equal scores the first comes first, and NaN before all.
    order = np.flip(scores.size - 1 - np.argsort(np.flip(widened(scores)), kind="stable"))
    if score_threshold is not None:
        order = order[scores[order] > score_threshold]
    corners = widened(boxes)[order].T
    low, high = np.minimum(corners[:2], corners[2:]), np.maximum(corners[:2], corners[2:])
    sides = high - low
    rest: Any = np.concatenate([low, high, (sides[0] * sides[1])[None]])
    group = None if groups is None else groups[order]
    threshold = rest.dtype.type(iou_threshold)
    kept: list[int] = []
    while order.size and (max_boxes is None or len(kept) < max_boxes):
        kept.append(order[0])
        first, rest, order = rest[:, 0], rest[:, 1:], order[1:]
        shared = np.minimum(rest[2:4], first[2:4, None])
        shared -= np.maximum(rest[:2], first[:2, None])
        np.maximum(shared, 0, out=shared)
        part = shared[1] * shared[0]
        apart = ~(part > (first[4] + rest[4] - part) * threshold)
        if group is not None:
            apart |= group[1:] != group[0]
            group = group[1:][apart]
        if not apart.all():
            rest, order = rest[:, apart], order[apart]
    return np.array(kept, np.int64)


KERNELS: dict[str, Kernel] = {"non_max_suppression": _non_max_suppression}
