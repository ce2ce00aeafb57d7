"""Masks in calls of layers: kept, handed to `call`, or rejected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from pullback import errors
from pullback._masked import Masked
from pullback.ops.creation import arange
from pullback.ops.data_types import astype
from pullback.ops.logical import logical_and
from pullback.ops.manipulation import expand_dims
from pullback.tensor import Tensor

__all__ = ["all_of", "has_mask", "keep_mask", "mask_of_lengths", "pass_mask", "reject_mask"]


def has_mask(args: Sequence[Any]) -> bool:
    """Returns whether a `Masked` is among the arguments of a call, or in a list of them."""
    for arg in args:
        kind = type(arg)
        if kind is Masked or (kind in (list, tuple) and any(type(x) is Masked for x in arg)):
            return True
    return False


def keep_mask(layer: Any, x: object, *args: Any, **kwargs: Any) -> Masked:
    """The `call_masked` of a layer that computes each step by itself: the mask is handed on.

    Args:
        layer: the layer.
        x: its first input.
        args: further arguments of the call.
        kwargs: the same by keyword.

    >>> class Double(pb.layers.Layer):
    ...     call_masked = pb.layers.keep_mask
    ...     def call(self, x):
    ...         return x * 2
    >>> Double()(pb.layers.Masking()([[[1.0], [0.0]]])).values.tolist()
    [[[2.0], [0.0]]]

    Raises:
        LayerError: if another input has the mask, or the `axis` of the layer is one of the mask's.
    """
    if type(x) is not Masked or has_mask(args):
        reject_mask(layer)
    axis, first = getattr(layer, "axis", None), x.mask.ndim
    axes = () if axis is None else axis if isinstance(axis, Sequence) else (axis,)
    if any(a % x.values.ndim < first for a in axes):
        reject_mask(layer)
    return Masked(layer(x.values, *args, **kwargs), x.mask)


def pass_mask(layer: Any, *args: Any, **kwargs: Any) -> Any:
    """The `call_masked` of a layer whose `call` gets `Masked` values as they are.

    Args:
        layer: the layer.
        args: the arguments of the call.
        kwargs: the same by keyword.

    >>> class Last(pb.layers.Layer):
    ...     call_masked = pb.layers.pass_mask
    ...     def call(self, x):
    ...         return pb.sum(pb.astype(x.mask, "int32"), axis=1) - 1
    >>> Last()(pb.layers.Masking()([[[1.0], [0.0]]])).tolist()
    [0]
    """
    return NotImplemented


def reject_mask(layer: Any) -> NoReturn:
    """Raises: the layer does not say what a mask means to it.

    Raises:
        LayerError: always.
    """
    kind = type(layer)
    own = "" if kind.__module__.startswith("pullback.") else (
        f"; or write `call_masked = pb.layers.keep_mask` in the class, if {kind.__name__} computes "
        f"each step by itself, or `pb.layers.pass_mask`, if its call takes x.values and x.mask"
    )  # fmt: skip
    raise errors.LayerError(
        f"the mask of the inputs would be lost here; call the layer with x.values if padding does "
        f"no harm in it, and put the mask back with pb.layers.Masked(y, x.mask) if it still "
        f"fits{own}"
    )


def all_of(masks: Sequence[Tensor | None]) -> Tensor | None:
    """The mask of what exists in all of them; None for no mask."""
    found = None
    for mask in masks:
        if mask is not None and mask is not found:
            found = mask if found is None else logical_and(found, mask)
    return found


def mask_of_lengths(lengths: Tensor, time: int) -> Tensor:
    """The mask (batch, time) of sequences that end after so many steps each."""
    return arange(time, device=lengths.device) < expand_dims(astype(lengths, "int32"), axis=1)
