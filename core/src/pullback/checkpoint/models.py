"""Models in a file: weights, with the configuration of the model in the metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from pullback import errors
from pullback._replacing import as_path
from pullback.checkpoint.weights import load_weights, opened_file, save_weights
from pullback.layers.layer import Layer
from pullback.layers.model import Model

__all__ = ["load_model", "save_model"]

#: The name of the configuration in the metadata.
_CONFIG = "pullback.config"
#: That of the shapes that its layers were built for, by path.
_SHAPES = "pullback.shapes"


def save_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Writes a model to a safetensors file: what it is made of, and the values of its variables.

    `load_model` makes it again; for models made of calls (`pb.Model(inputs, outputs)`) and
    `pb.Sequential` without the code of the program. `load_weights` reads the file too.

    Args:
        model: a model whose variables have been made.
        path: the file, which appears once it is complete.

    >>> import tempfile
    >>> x = pb.Input((3,))
    >>> model = pb.Model(x, pb.tanh(pb.layers.Dense(2)(x)))
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> pb.checkpoint.save_model(model, path)
    >>> again = pb.checkpoint.load_model(path)
    >>> bool(pb.all(again(pb.ones((1, 3))) == model(pb.ones((1, 3)))))
    True

    Raises:
        InputTypeError: for other objects than models, such as a layer.
        InputValueError: for an argument of a layer or call that cannot be written, such as a
            lambda.
        CheckpointError: for a model without variables, and errors of the file system.
    """
    if not isinstance(model, Model):
        raise errors.InputTypeError(
            f"save_model takes a model, got {type(model).__name__}; put a layer into "
            f"pb.Sequential([layer])"
        )
    shapes = {place: layer._built_for.shape for place, layer in _layers(model) if layer._built_for}
    metadata = {_CONFIG: json.dumps(model.get_config()), _SHAPES: json.dumps(shapes)}
    save_weights(model, path, metadata=metadata)


def load_model(
    path: str | os.PathLike[str], *, custom: Mapping[str, object] | None = None
) -> Model:
    """Makes the model of a file that `save_model` wrote.

    Reading it imports nothing and runs no code from it.

    Args:
        path: the file.
        custom: classes and functions of the program by their names in the configuration.

    Raises:
        CheckpointError: for a file without a model, and for one whose weights do not fit.
        InputValueError: for an unknown class or function.
    """
    with ExitStack() as stack:
        metadata = opened_file(as_path(path, "path"), stack).metadata() or {}
    try:
        config, shapes = json.loads(metadata[_CONFIG]), json.loads(metadata[_SHAPES])
    except (KeyError, ValueError):
        raise errors.CheckpointError(
            f"{os.fspath(path)!r} holds weights without a model; make the model, and write "
            f"pb.checkpoint.load_weights(model, path)"
        ) from None
    model = Model.from_config(config, custom=custom)
    # Layers that one makes in its build come behind it.
    while left := [(p, one) for p, one in _layers(model) if not one.built and p in shapes]:
        place, layer = left[0]
        layer.build_for(_as_shapes(shapes[place]))
    load_weights(model, path)
    return model


def _layers(model: Model) -> list[tuple[str, Layer]]:
    """The layers that a first call builds, by path."""
    places = {"": model, **model.sublayers}
    return [(p, one) for p, one in places.items() if type(one).build is not Layer.build]


def _as_shapes(value: Any) -> Any:
    """Shapes in their structure, as `json` has read them: lists of numbers are shapes."""
    if isinstance(value, dict):
        return {key: _as_shapes(part) for key, part in value.items()}
    if isinstance(value, list):
        is_shape = all(isinstance(part, int) for part in value)
        return tuple(value) if is_shape else [*map(_as_shapes, value)]
    return value
