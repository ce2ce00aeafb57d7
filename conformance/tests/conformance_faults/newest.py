"""Mistakes in ops that came last: alignments, frames, sampling, positions of pooling, factors."""

from __future__ import annotations

import math

import numpy as np
from conformance_faults.faults import Fault, called_with, changed, elements, of_result, other, via

from pullback_numpy import NumPyBackend

quiet = np.errstate(all="ignore")


def of(op, make, **members):
    return Fault(op, make, "", members)


def result(op, change):
    return of(op, of_result(quiet(change)))


def inputs(op, change, where=lambda *_, **__: True):
    return of(op, via(quiet(change), where))


# Alignments and frames ----------------------------------------------------------------------------


def padded_with_zeros(right):
    def kernel(x, window=None, *, size, center, **how):
        if center and x.size:
            x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(size // 2, size // 2)])
        return right(x, window, size=size, center=False, **how)

    return kernel


def at_the_left(x, window=None):
    """The window moved by one from the middle of the frame."""
    return x, None if window is None else np.append(window, 0).astype(window.dtype)


FRAMES = {
    "ctc_loss has blank 0 where it is the last": of(
        "ctc_loss", called_with(lambda x, *_, blank, **__: blank == x.shape[-1] - 1, blank=0)
    ),
    "ctc_loss of no labels is infinite": result(
        "ctc_loss", lambda y, x, labels, frames, lengths, **_: elements(y, lengths == 0, np.inf)
    ),
    "ctc_loss has at least one frame": inputs(
        "ctc_loss", lambda x, labels, frames, lengths: (x, labels, np.maximum(frames, 1), lengths)
    ),
    "ctc_loss that no path reaches is 0": result(
        "ctc_loss", lambda y, *_, **__: elements(y, np.isinf(y), 0)
    ),
    "ctc_loss_gradient reaches behind the last frame": result(
        "ctc_loss_gradient",
        lambda y, x, labels, frames, *_, **__: elements(
            y, np.arange(x.shape[1])[:, None] >= frames[:, None, None], 1
        ) if x.size else y,
    ),
    "stft pads with zeros": of("stft", padded_with_zeros),
    "stft has a window of an even size at the left": inputs(
        "stft", at_the_left, lambda x, window=None, *, size, **_: (
            window is not None and window.size < size
        ),
    ),
    "stft leaves out the last frame where it ends the signal": result(
        "stft",
        lambda y, x, *_, size, step, center, **__: (
            np.ascontiguousarray(y[..., :-1, :])
            if not center and y.shape[-2] > 1 and (x.shape[-1] - size) % step == 0
            else y
        ),
    ),
    "istft takes the middle number of an odd size for real": result(
        "istft", lambda y, x, *_, size, **__: y * (1 + 1e-3 * (size % 2 == 1 and size > 1))
    ),
    "istft repeats its last element up to the length": result(
        "istft",
        lambda y, x, *_, length, **__: (
            elements(y, (np.arange(y.shape[-1]) == y.shape[-1] - 1) & (length is not None), 1)
            if y.size
            else y
        ),
    ),
}  # fmt: skip

# Sampling -----------------------------------------------------------------------------------------


def exchanged_if_square(x, grid):
    return x, grid[..., ::-1]


def of_one_item(x, places):
    return x, np.broadcast_to(places[:1], places.shape)


SAMPLING = {
    "grid_sample has its corners aligned where it takes the nearest": of(
        "grid_sample",
        called_with(lambda *_, method, **__: method == "nearest", align_corners=True),
    ),
    "grid_sample reflects about pixels": of(
        "grid_sample",
        called_with(lambda *_, padding, **__: padding == "reflection", align_corners=True),
    ),
    "grid_sample exchanges the axes of square images": inputs(
        "grid_sample", exchanged_if_square,
        lambda x, grid, *, data_format, **_: (
            x.ndim == 4 and len({x.shape[1:3], x.shape[2:]} & {(n, n) for n in x.shape}) > 0
        ),
    ),
    "grid_sample takes NaN for 0": inputs("grid_sample", lambda x, grid: (x, np.nan_to_num(grid))),
    "grid_sample is off far outside": inputs(
        "grid_sample", lambda x, grid: (x, np.clip(grid, -1.5, 1.5)),
        lambda *_, padding, **__: padding == "reflection",
    ),
    "map_coordinates has the places of the first item": inputs(
        "map_coordinates", of_one_item, lambda x, places, *, batch_dims, **_: batch_dims == 2
    ),
    "map_coordinates wraps around an element too early": of(
        "map_coordinates",
        called_with(lambda *_, mode, **__: mode == "wrap", mode="mirror"),
    ),
    "map_coordinates fills with 0": of(
        "map_coordinates",
        called_with(lambda *_, order, **__: order == 0, fill_value=0.0),
    ),
    "affine_grid of three axes has its corners aligned": of(
        "affine_grid", called_with(lambda x, *, size, **_: len(size) == 3, align_corners=True)
    ),
    "roi_align has two points where the cells say how many": of(
        "roi_align", called_with(lambda *_, sampling_ratio, **__: not sampling_ratio,
                                 sampling_ratio=2),
    ),
    "roi_align scales its boxes after the shift": inputs(
        "roi_align", lambda x, boxes, items: (x, boxes + 0.25, items),
        lambda *_, aligned, spatial_scale, **__: aligned and spatial_scale != 1,
    ),
    "non_max_suppression keeps what is as high as the threshold": inputs(
        "non_max_suppression",
        lambda boxes, scores, groups=None: (boxes, np.nextafter(scores, np.inf), groups),
    ),
}  # fmt: skip

# Positions ----------------------------------------------------------------------------------------


def added_once(x, indices, updates, *, mode):
    y = np.array(x)
    y[tuple(np.moveaxis(indices, -1, 0))] += updates
    return y


def first_of_several(x, indices, values, *, axis):
    y = np.array(x)
    values = np.broadcast_to(values, indices.shape)
    np.put_along_axis(y, np.flip(indices, axis), np.flip(values, axis), axis)
    return y


def later_of_ties(right):
    def kernel(x, *, window, **how):
        values, indices, places = right(x, window=window, **how)
        turned = right(np.flip(x, 1), window=window, **how) if x.ndim == 3 else None
        if turned is None or values.shape != turned[0].shape:
            return values, indices, places
        tied = np.flip(turned[0], 1) == values
        other = x.shape[1] - 1 - np.flip(turned[1], 1)
        return values, np.where(tied, other, indices), places

    return kernel


POSITIONS = {
    "scatter_nd adds one of several at a place": of(
        "scatter_nd",
        other(added_once, lambda x, indices, *_, mode: mode == "add" and x.dtype != bool),
    ),
    "scatter_nd takes positions below 0 for 0": inputs(
        "scatter_nd", lambda x, indices, updates: (x, np.maximum(indices, 0), updates),
        lambda x, indices, *_, **__: indices.size > 0 and indices.min(initial=0) >= -x.shape[0],
    ),
    "gather_nd takes positions below 0 from 0": inputs(
        "gather_nd", lambda x, indices: (x, np.maximum(indices, -1)),
    ),
    "put_along_axis keeps the first of several": of(
        "put_along_axis",
        other(first_of_several, lambda x, indices, values, *, axis: indices.ndim == x.ndim),
    ),
    "max_pool_with_indices has the last of ties": of("max_pool_with_indices", later_of_ties),
    "max_unpool adds what repeats": result("max_unpool", lambda y, x, indices, **_: (
        y * 2 if indices.size and len(np.unique(indices)) < min(indices.shape) else y
    )),
    "max_unpool counts from the end of the channels": inputs(
        "max_unpool", lambda x, indices: (x, np.abs(indices)),
        lambda x, indices, **_: bool(np.any(indices < 0)) and np.min(indices) > -8,
    ),
    "bitcast has the parts in the other order": result(
        "bitcast", lambda y, x, *, dtype, parts, whole: y[..., ::-1] if parts > 2 else y
    ),
    "row_order exchanges each pair once": result(
        "row_order", lambda y, pivots, *, rows: np.argsort(y, axis=-1)
    ),
    "unfold of channels first has the channels last in a patch": result(
        "unfold",
        lambda y, x, *, data_format, **_: (
            np.moveaxis(y, 1, -1).reshape(y.shape) if data_format == "channels_first" else y
        ),
    ),
}  # fmt: skip

# Numbers ------------------------------------------------------------------------------------------


def cancelling(right):
    def kernel(a, x, *, upper):
        if upper:
            return np.asarray(1 - right(a, x, upper=False), x.dtype)
        return right(a, x, upper=upper)

    return kernel


def diagonal_of_ties(right):
    def kernel(x):
        factors, pivots = right(x)
        if x.ndim == 2 and x.shape[0] < x.shape[1] and x.size:
            factors = np.triu(factors, -1)
        return factors, pivots

    return kernel


def one_scale(right):
    def kernel(x):
        return right(x) if x.ndim < 3 or not x.size else np.stack([right(x[0]), *right(x)[1:]])

    return kernel


NUMBERS = {
    "regularized_gamma is 1 less the other one": of("regularized_gamma", cancelling),
    "regularized_gamma has a step at x = a": result(
        "regularized_gamma",
        lambda y, a, x, **_: elements(y, (a == x) & (a > 30) & np.isfinite(a), 0.5),
    ),
    "regularized_gamma of infinite a is NaN": result(
        "regularized_gamma", lambda y, a, x, **_: elements(y, np.isinf(a) & (a > 0), np.nan)
    ),
    "gammaincc is 0 from 40 on": result(
        "gammaincc", lambda y, a, x: elements(y, (x > a + 40) & (x > 0) & (a > 0), 0)
    ),
    "gamma_density at 0 is 0": result(
        "gamma_density", lambda y, a, x: elements(y, (x == 0) & (a <= 1) & (a > 0), 0)
    ),
    "i1 of large negative numbers is positive": result(
        "i1", lambda y, x: elements(y, x < -15, np.abs(y))
    ),
    "i0e underflows": result("i0e", lambda y, x: elements(y, np.abs(x) > 700, 0)),
    "cdist of p = 0 counts no differences from NaN": result(
        "cdist", lambda y, a, b, *, p: (
            np.asarray(((a[..., :, None, :] < b[..., None, :, :])
                        | (a[..., :, None, :] > b[..., None, :, :])).sum(-1), y.dtype)
            if p == 0 else y
        ),
    ),
    "cdist of infinite p is that of 8": of(
        "cdist", called_with(lambda *_, p: math.isinf(p), p=8.0)
    ),
    "cdist of large numbers by squares": of("cdist", changed(
        lambda y: elements(y, y > 1e19, np.inf), lambda a, b, *, p: p == 2
    )),
    "expm of a large matrix has fewer digits": result("expm", lambda y, x: (
        y * (1 + 1e-4) if x.size and np.abs(x).sum(-1).max() > 5 else y
    )),
    "lu_factor of a wide matrix leaves out entries": of("lu_factor", diagonal_of_ties),
    "sparsemax divides by what is above 0": result("sparsemax", lambda y, x, *, axis: (
        elements(y, y == np.max(y, axis, keepdims=True), np.nextafter(y, 0) * 0.999)
        if axis not in (-1, x.ndim - 1) and x.size else y
    )),
    "threshold passes what is equal": result(
        "threshold", lambda y, x, *, threshold, value: elements(y, x == threshold, threshold)
    ),
    "soft_shrink of NaN is 0": result("soft_shrink", lambda y, x, **_: elements(y, x != x, 0)),
    "integer_conv wraps at 16 bits": result(
        "integer_conv", lambda y, x, kernel, **_: y.astype(np.int16).astype(y.dtype)
    ),
    "integer_matmul takes uint8 for int8": inputs(
        "integer_matmul", lambda a, b: (a.view(np.int8), b), lambda a, b: a.dtype == np.uint8
    ),
    "segment_prod of an empty segment is 0": result("segment_prod", lambda y, x, ids, **how: (
        elements(y, (y == 1) & (len(np.unique(ids % how["num_segments"])) < how["num_segments"]), 0)
        if ids.size else y
    )),
    "lcm is negative for one negative number": result(
        "lcm", lambda y, a, b: y * np.where((a < 0) != (b < 0), -1, 1).astype(y.dtype)
        if y.dtype.kind == "i" else y
    ),
}  # fmt: skip

# Services -----------------------------------------------------------------------------------------


def raising(self, device):
    raise RuntimeError("nothing to flush")


def forgetting(right):
    """Results of the last calls are other ones after a flush."""
    made: list[np.ndarray] = []

    def from_host(self, array, device, *, copy):
        x = right(self, array, device, copy=copy)
        made.append(x)
        del made[:-400]
        return x

    def flush(self, device):
        for x in made:
            if x.flags.writeable:
                x[...] = np.zeros((), x.dtype)

    return {"from_host": from_host, "flush": flush}


def slow_to_wait(self, device):
    self.__dict__["waits"] = self.__dict__.get("waits", 0) + 1
    if self.waits > 3:
        raise RuntimeError("too many waits")


SERVICES = {
    "flush raises": of("backend", None, flush=raising),
    "flush drops what was given": of("backend", None, **forgetting(NumPyBackend.from_host)),
    "synchronize works three times": of("backend", None, synchronize=slow_to_wait),
    "copy_to_device returns the first row": of(
        "backend", None,
        copy_to_device=lambda self, x, device: x[:1] if x.ndim == 2 else x.copy(),
    ),
}  # fmt: skip

FAULTS = {
    f"newest: {name}": fault
    for faults in (FRAMES, SAMPLING, POSITIONS, NUMBERS, SERVICES)
    for name, fault in faults.items()
}
