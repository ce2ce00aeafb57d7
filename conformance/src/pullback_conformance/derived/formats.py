"""Images with channels at axis 1: every sample of an op that has them last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pullback.spec import Op
from pullback_conformance.derived.variation import Base, changed_at
from pullback_conformance.sample import Sample, Suite

#: The inputs that are images.
_IMAGES = ("x", "g", "indices")


def samples(op: Op, suite: Suite, *, quick: bool) -> Iterator[Sample]:
    """The calls in the other data format, of all samples with axes."""
    if "data_format" not in [attribute.name for attribute in op.attributes]:
        return
    for sample in suite.samples:
        if sample.attributes.get("data_format", "channels_last") != "channels_last":
            continue
        images = [i for i, x in enumerate(op.inputs) if x.name in _IMAGES]
        inputs = changed_at(images, _channels_first, sample.inputs)
        attributes: dict[str, Any] = {**sample.attributes, "data_format": "channels_first"}
        if "input_shape" in attributes:
            batch, *spatial, channels = attributes["input_shape"]
            attributes["input_shape"] = (batch, channels, *spatial)
        shapes = " ".join("x".join(map(str, np.shape(value))) for value in inputs)
        base, checks = Base(op, suite, sample), ("value", "body")
        yield from base.varied(inputs, f"of {shapes}", attributes=attributes, checks=checks)


def _channels_first(value: Any) -> Any:
    is_image = isinstance(value, np.ndarray) and value.ndim > 2
    return np.ascontiguousarray(np.moveaxis(value, -1, 1)) if is_image else value
