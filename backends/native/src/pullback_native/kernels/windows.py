"""Windows over images, for the loops of convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pullback_native.loops import Sizes

#: The padding before and after each spatial dimension.
Padding: TypeAlias = tuple[tuple[int, int], ...]


def pair(sizes: Sequence[int], missing: int = 1) -> tuple[int, int]:
    """Height and width; a line is an image one pixel high."""
    height, width = sizes if len(sizes) == 2 else (missing, *sizes)
    return height, width


def windows(
    shape: Sequence[int], out: Sequence[int], window: Sequence[int], strides: Sequence[int],
    padding: Padding,
) -> Sizes:  # fmt: skip
    """`Windows` of c/args.h, for images of `shape` and an output with the spatial sizes `out`."""
    height, width = pair(shape[1:-1])
    out_height, out_width = pair(out)
    window_height, window_width = pair(window)
    stride_height, stride_width = pair(strides)
    pad_top, pad_left = pair([before for before, _ in padding], 0)
    return {
        "height": height,
        "width": width,
        "channels": shape[-1],
        "out_height": out_height,
        "out_width": out_width,
        "window_height": window_height,
        "window_width": window_width,
        "stride_height": stride_height,
        "stride_width": stride_width,
        "pad_top": pad_top,
        "pad_left": pad_left,
    }
