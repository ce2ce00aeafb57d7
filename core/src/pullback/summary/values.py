"""Summaries: scalars, histograms, images, texts, hyperparameters."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping
from functools import partial
from typing import Any

from pullback import errors
from pullback._dispatch.arguments import as_str
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import capturing, effect, paused
from pullback.metrics import Metric
from pullback.ops import reductions, rounding
from pullback.ops.arithmetic import clip
from pullback.ops.comparison import isfinite
from pullback.ops.creation import full
from pullback.ops.data_types import astype
from pullback.ops.indexing import segment_sum
from pullback.ops.precision import widest
from pullback.ops.reductions import count_nonzero
from pullback.ops.rounding import floor
from pullback.ops.selection import where
from pullback.shapes import as_int
from pullback.summary.events import messages
from pullback.summary.writer import Step, recording
from pullback.tensor import Tensor, TensorLike

__all__ = ["histogram", "hparams", "image", "scalar", "text"]


def scalar(name: str, value: Any, step: Step = None) -> bool:
    """Records a number.

    Args:
        name: its name; the part before a slash groups it.
        value: a number, a tensor of one element, or a metric, whose result is recorded.
        step: the step; that of `pb.summary.set_step` if None.

    Returns:
        True if it was recorded: there is an active writer, and conditions hold.

    >>> import tempfile
    >>> with pb.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     pb.summary.scalar("loss", pb.asarray(0.25), step=1)
    True

    Raises:
        InputValueError: for a value of several elements, or without a step.
    """
    if isinstance(value, Metric):
        value = value.result()
    if capturing() is not None:
        return effect(scalar, name, value, step)
    active = recording(step)
    if active is None:
        return False
    writer, number = active
    if getattr(value, "size", 1) != 1:
        raise errors.InputValueError(
            f"the scalar {name!r} must have one element, got the shape {tuple(value.shape)}; "
            f"record its mean, or a histogram"
        )
    pb2 = messages()
    entry = pb2.Summary.Value(tag=as_str(name, "name"), simple_value=float(value))
    summary = pb2.Summary(value=[entry])
    writer.add(number, summary=summary)
    return True


def histogram(name: str, values: TensorLike, step: Step = None, *, buckets: int = 30) -> bool:
    """Records the distribution of values.

    Args:
        name: their name.
        values: numbers in any shape; NaN and infinities are skipped.
        step: the step; that of `pb.summary.set_step` if None.
        buckets: the number of equal parts of their range.

    Returns:
        True if it was recorded.

    >>> import tempfile
    >>> with pb.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     pb.summary.histogram("weights", pb.random.normal((100,)), step=1)
    True

    Raises:
        InputValueError: for fewer than one bucket, or without a step.
    """
    if as_int(buckets, "buckets: an integer") < 1:
        raise errors.InputValueError(f"buckets must be at least 1, got {buckets}")
    if capturing() is not None:
        return effect(partial(histogram, buckets=buckets), name, values, step)
    active = recording(step)
    if active is None:
        return False
    writer, number = active
    with paused():
        content = _histogram(from_any(values), buckets)
    pb2 = messages()
    histo = pb2.HistogramProto(**content)
    entry = pb2.Summary.Value(tag=as_str(name, "name"), histo=histo)
    writer.add(number, summary=pb2.Summary(value=[entry]))
    return True


def _histogram(tensor: Tensor, buckets: int) -> dict[str, Any]:
    wide = widest(tensor.device)
    values = astype(tensor, wide).reshape((-1,))
    finite = isfinite(values)
    count = int(count_nonzero(finite))
    if not count:
        return {"num": 0.0, "bucket_limit": [0.0], "bucket": [0.0]}
    low = float(reductions.min(where(finite, values, math.inf)))
    high = float(reductions.max(where(finite, values, -math.inf)))
    values = where(finite, values, low)
    width = (high - low) / buckets
    if 0 < width < math.inf:
        edges = [low + width * edge for edge in range(buckets + 1)]
        place = astype(floor((values - low) / width), "int64")
        place = clip(place, 0, buckets - 1)
    else:
        # Values that are all equal, or whose range overflows, are in one bucket.
        edges = [low - 0.5, low + 0.5] if low == high else [low, high]
        buckets, place = 1, full(values.shape, 0, dtype="int64", device=values.device)
    ones = astype(finite, wide)
    counts = segment_sum(ones, place, buckets).tolist()
    clean = values * ones
    return {
        "min": low,
        "max": high,
        "num": float(count),
        "sum": float(reductions.sum(clean)),
        "sum_squares": float(reductions.sum(clean * clean)),
        # The first is empty: its limit is where the second begins.
        "bucket_limit": edges,
        "bucket": [0.0, *counts],
    }


def image(name: str, images: TensorLike, step: Step = None, *, max_outputs: int = 3) -> bool:
    """Records images.

    Args:
        name: their name.
        images: (images, height, width, channels) with 1 (grey), 2 (grey, opacity), 3 (colours) or 4
            channels (colours, opacity); floating-point numbers, which are clipped to 0 to 1, or
            unsigned integers of 8 bits.
        step: the step; that of `pb.summary.set_step` if None.
        max_outputs: the largest number of them to record.

    Returns:
        True if they were recorded.

    >>> import tempfile
    >>> with pb.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     pb.summary.image("digit", pb.zeros((1, 8, 8, 1)), step=1)
    True

    Raises:
        ShapeError: for another shape.
        InputValueError: without a step.
    """
    if capturing() is not None:
        return effect(partial(image, max_outputs=max_outputs), name, images, step)
    active = recording(step)
    if active is None:
        return False
    writer, number = active
    with paused():
        tensor = from_any(images)
        if tensor.ndim != 4 or tensor.shape[-1] not in (1, 2, 3, 4):
            raise errors.ShapeError(
                f"images must have the shape (images, height, width, 1 to 4 channels), got "
                f"{tensor.shape}"
            )
        tensor = tensor[:max_outputs]
        if tensor.dtype.kind != "u":
            wide = astype(tensor, "float32")
            tensor = rounding.round(clip(wide, 0.0, 1.0) * 255)
        # On the host: not every backend holds integers of 8 bits.
        pictures = tensor.numpy().astype("uint8")
    pb2 = messages()
    _, height, width, channels = pictures.shape
    values = [
        pb2.Summary.Value(
            tag=f"{name}/image/{index}" if len(pictures) > 1 else f"{name}/image",
            image=pb2.Summary.Image(
                height=height,
                width=width,
                colorspace=channels,
                encoded_image_string=_png(picture.tobytes(), height, width, channels),
            ),
        )
        for index, picture in enumerate(pictures)
    ]
    writer.add(number, summary=pb2.Summary(value=values))
    return True


def _png(data: bytes, height: int, width: int, channels: int) -> bytes:
    """Encodes rows of pixels of 8 bits as a PNG file (ISO/IEC 15948)."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        checked = kind + body
        return struct.pack(">I", len(body)) + checked + struct.pack(">I", zlib.crc32(checked))

    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    row = width * channels
    # Each row begins with the number of its filter: none.
    rows = b"".join(b"\0" + data[i * row : (i + 1) * row] for i in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, body) for kind, body in parts)


def text(name: str, value: str, step: Step = None) -> bool:
    """Records a text, which is shown as Markdown.

    Args:
        name: its name.
        value: the text.
        step: the step; that of `pb.summary.set_step` if None.

    Returns:
        True if it was recorded.

    >>> import tempfile
    >>> with pb.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     pb.summary.text("sample", "once upon a time", step=1)
    True

    Raises:
        InputValueError: without a step.
    """
    if capturing() is not None:
        return effect(text, name, value, step)
    active = recording(step)
    if active is None:
        return False
    writer, number = active
    from tensorboardX.summary import text as message

    writer.add(number, summary=message(as_str(name, "name"), str(value)))
    return True


def hparams(values: Mapping[str, Any], metrics: Mapping[str, float] | None = None) -> bool:
    """Records the hyperparameters of a run, to compare runs in TensorBoard.

    Args:
        values: numbers, booleans and strings by name; other values are recorded as text.
        metrics: the results of the run by name; each is recorded as a scalar, too.

    Returns:
        True if they were recorded.

    Raises:
        InputTypeError: for values or metrics that are not a dict.

    >>> import tempfile
    >>> with pb.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     pb.summary.hparams({"rate": 0.01, "layers": 2}, {"accuracy": 0.97})
    True
    """
    for name, given in (("values", values), ("metrics", {} if metrics is None else metrics)):
        if not isinstance(given, Mapping):
            raise errors.InputTypeError(
                f"hparams: {name} must be a dict by name, got {type(given).__name__}; write "
                f'{{"rate": 0.1}}'
            )
    active = recording(0)
    if active is None:
        return False
    writer, number = active
    messages()
    from tensorboardX.summary import hparams as message

    plain = {
        name: value
        if isinstance(value, (bool, int, float, str))
        else float(value)
        if getattr(value, "shape", None) == ()
        else json.dumps(value, default=str)
        for name, value in values.items()
    }
    results = dict(metrics or {})
    for summary in message(plain, results):
        writer.add(number, summary=summary)
    for name, value in results.items():
        scalar(name, value, number)
    return True
