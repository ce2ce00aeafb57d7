"""Samples of boxes in images."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import integers, normal, uniform
from pullback_conformance.sample import call, rough, suite, wrong
from pullback_conformance.samples.convolution import from_last, to_last, tuple_of

Array: TypeAlias = Any


def _overlap(a: Array, b: Array) -> float:
    """The intersection of two boxes over their union; 0 for boxes without extent."""
    sides = [
        (min(a[i], a[i + 2]), max(a[i], a[i + 2]), min(b[i], b[i + 2]), max(b[i], b[i + 2]))
        for i in range(2)
    ]
    shared, first, second = 1.0, 1.0, 1.0
    for low, high, other_low, other_high in sides:
        shared *= max(min(high, other_high) - max(low, other_low), 0.0)
        first, second = first * (high - low), second * (other_high - other_low)
    union = first + second - shared
    return shared / union if union else 0.0


def _suppress(
    boxes: Array, scores: Array, groups: Array = None, *, iou_threshold: float = 0.5,
    score_threshold: float | None = None, max_boxes: int | None = None,
) -> Array:  # fmt: skip
    kept: list[int] = []
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
        if score_threshold is not None and not scores[i] > score_threshold:
            continue
        rivals = [j for j in kept if groups is None or groups[i] == groups[j]]
        if all(_overlap(boxes[i], boxes[j]) <= iou_threshold for j in rivals):
            kept.append(i)
    return np.array(kept[:max_boxes], np.int64)


def _boxes(count: int, seed: int) -> Array:
    """Boxes with corners on a grid, so that every dtype has the same ones."""
    corners = integers(0, 10, count, 2, seed=seed)
    return (
        np.concatenate([corners, corners + integers(1, 7, count, 2, seed=seed + 1)], axis=1) * 0.5
    )


def _scores(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).permutation(count) / 64


_MANY, _BEST = _boxes(30, 1), _scores(30)
_NONE = dict.fromkeys(
    ("exceptional", "large", "shared", "equal"), "a choice depends on all boxes before it"
)
suite("non_max_suppression", _suppress, without=_NONE)(
    *(call(_MANY, _BEST, None, iou_threshold=t) for t in (0.0, 0.13, 0.34, 0.71, 1.0)),
    call(_MANY, _BEST, integers(0, 3, 30), iou_threshold=0.13, note="groups"),
    call(-_MANY, _BEST, integers(0, 3, 30), iou_threshold=0.13, note="groups below 0"),
    call(_MANY, _BEST, None, score_threshold=0.2, max_boxes=3, iou_threshold=0.34),
    call(_MANY, _BEST, None, score_threshold=1.0, note="no score is enough"),
    call(
        _MANY, np.round(_BEST * 8) / 8, None, score_threshold=0.5, iou_threshold=0.34,
        note="scores of the threshold",
    ),
    call(_MANY[:, [2, 1, 0, 3]], _BEST, None, iou_threshold=0.34, note="other corners"),
    call(np.repeat(_MANY[:3], 2, axis=0), np.zeros(6), None, note="equal boxes and scores"),
    call(np.zeros((3, 4)), _scores(3), None, note="boxes without extent"),
    call(_MANY[:1], _BEST[:1], None, note="one box"),
    call(np.zeros((0, 4)), np.zeros(0), None, note="no boxes"),
    call(
        np.stack([np.array([i, 0.0, i + 4, 1.0]) for i in range(12)]), _scores(12)[::-1].copy(),
        np.zeros(12, np.int64), iou_threshold=0.45, note="a chain",
    ),
    wrong(errors.ShapeError, normal(3, 3), normal(3), None),
    wrong(errors.ShapeError, normal(3, 4), normal(2), None),
    wrong(errors.ShapeError, normal(3, 4), normal(3), integers(0, 2, 2)),
    wrong(errors.InputValueError, normal(3, 4), normal(3), None, iou_threshold=1.5),
    wrong(errors.InputValueError, normal(3, 4), normal(3), None, max_boxes=-1),
)  # fmt: skip


def _point(image: Array, y: float, x: float) -> Array:
    """The value of an image at a place, 0 more than a pixel outside."""
    height, width = image.shape[:2]
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0 * image[0, 0]
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = int(y), int(x)
    total = 0 * image[0, 0]
    for i, down in ((top, 1 - (y - top)), (top + 1, y - top)):
        for j, right in ((left, 1 - (x - left)), (left + 1, x - left)):
            if down * right:
                total = total + image[i, j] * (down * right)
    return total


def _align(
    x: Array, boxes: Array, batch_indices: Array, *, output_size: Any, spatial_scale: float = 1.0,
    sampling_ratio: int = 0, aligned: bool = True, reduction: str = "mean",
    data_format: str = "channels_last",
) -> Array:  # fmt: skip
    images, out = to_last(x, data_format), tuple_of(output_size, 2)
    y: Array = np.zeros((len(boxes), *out, images.shape[-1]), x.dtype)
    for n, (box, item) in enumerate(zip(boxes, batch_indices, strict=True)):
        corners = box * spatial_scale - (0.5 if aligned else 0)
        extent = corners[2:] - corners[:2]
        extent = (extent if aligned else np.maximum(extent, 1))[::-1]
        cell = [side / cells for side, cells in zip(extent, out, strict=True)]
        points = [sampling_ratio or max(int(np.ceil(side)), 0) for side in cell]
        for spot in np.ndindex(*out):
            found = []
            for step in np.ndindex(*points):
                place = [
                    corners[1 - axis]
                    + cell[axis] * (spot[axis] + (step[axis] + 0.5) / points[axis])
                    for axis in range(2)
                ]
                found.append(_point(images[item], *place))
            if found:
                y[(n, *spot)] = getattr(np, reduction)(found, axis=0)
    return from_last(y, data_format)


def _align_size(x: Array, boxes: Array, batch_indices: Array, **how: Any) -> Array:
    """A place is rounded by the size of its coordinates, and slopes are differences of pixels."""
    near = _align(np.abs(x), boxes, batch_indices, **how)
    return near + np.max(np.abs(x), initial=0) * (1 + np.max(np.abs(boxes), initial=0))


#: Corners between pixels, so that finite differences cross no kink; some boxes reach outside.
_REGIONS = np.concatenate(
    [uniform(-2, 4, 5, 2, seed=1), uniform(4.5, 9, 5, 2, seed=2)], axis=1
).round(2)
_OF = np.array([0, 1, 1, -2, 0])
_IN_ORDER = dict.fromkeys(("exceptional", "large", "shared", "equal"), "boxes are places in x")
suite("roi_align", _align, scale=_align_size, without=_IN_ORDER)(
    *(
        call(
            normal(2, 6, 7, 2), _REGIONS, _OF, output_size=size, sampling_ratio=ratio,
            aligned=aligned, dtypes=("float32", "float64"),
        )
        for size, ratio in ((2, 2), ((3, 1), 1), ((1, 2), 0))
        for aligned in (True, False)
    ),
    call(
        normal(2, 3, 6, 7), _REGIONS * 2, _OF, output_size=2, spatial_scale=0.5, sampling_ratio=1,
        data_format="channels_first", dtypes=("float32", "float64"),
    ),
    *(
        call(
            normal(2, 6, 7, 2), _REGIONS, _OF, output_size=(1, 2), sampling_ratio=ratio,
            reduction="max", dtypes=("float32", "float64"),
        )
        for ratio in (0, 1, 2)
    ),
    call(normal(2, 6, 7, 2), _REGIONS[:0], _OF[:0], output_size=2, note="no boxes"),
    call(normal(2, 6, 7, 2), _REGIONS[:0], _OF[:0], output_size=2, reduction="max"),
    call(normal(1, 1, 1, 2), _REGIONS[:2], _OF[:1].repeat(2), output_size=2, sampling_ratio=1),
    rough(normal(1, 5, 5, 1), np.array([[3.0, 3.0, 1.0, 1.0]]), _OF[:1], output_size=2,
          note="a box without extent"),
    rough(normal(1, 5, 5, 1), np.array([[3.0, 3.0, 1.0, 1.0]]), _OF[:1], output_size=2,
          reduction="max", note="a box without extent"),
    rough(normal(1, 5, 5, 1), np.array([[20.0, 20.0, 24.0, 24.0]]), _OF[:1], output_size=2,
          note="outside"),
    wrong(errors.ShapeError, normal(6, 7, 2), _REGIONS, _OF, output_size=2),
    wrong(errors.ShapeError, normal(2, 6, 7, 2), _REGIONS[:, :3], _OF, output_size=2),
    wrong(errors.ShapeError, normal(2, 6, 7, 2), _REGIONS, _OF[:2], output_size=2),
    wrong(errors.ShapeError, normal(2, 6, 7, 2), _REGIONS, _OF, output_size=(2, 2, 2)),
    wrong(errors.IndexingError, normal(2, 6, 7, 2), _REGIONS, _OF + 2, output_size=2),
    wrong(errors.InputValueError, normal(2, 6, 7, 2), _REGIONS, _OF, output_size=2,
          sampling_ratio=-1),
    wrong(errors.InputValueError, normal(2, 6, 7, 2), _REGIONS, _OF, output_size=2,
          reduction="median"),
)  # fmt: skip
