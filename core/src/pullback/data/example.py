"""`tf.train.Example`: a record of named lists of bytes, floats or integers.

The message, from `tensorflow/core/example/{example,feature}.proto`, is described to the protobuf
library here rather than by generated code, which would tie it to one version of the library.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from pullback import dtypes, errors
from pullback.data.elements import Element, as_arrays, from_foreign
from pullback.dtypes import DTypeLike
from pullback.shapes import as_ints

__all__ = ["Feature", "decode_example", "encode_example"]

_REQUIRED = object()

#: The values of a feature in an example.
Values: TypeAlias = "list[bytes] | np.ndarray[Any, Any]"


class Feature:
    """The expected shape and dtype of one feature of the examples in a TFRecord file.

    Args:
        shape: the shape of its values; None for a list of any length.
        dtype: "bytes", "str", or the dtype of the array. With the dtype of an array, bytes are
            its memory, as from `tobytes()`.
        default: the value for examples without the feature; if omitted, they are an error.

    >>> feature = pb.data.Feature((28, 28), "uint8")
    """

    def __init__(
        self, shape: Sequence[int] | None, dtype: DTypeLike | str, *, default: object = _REQUIRED
    ) -> None:
        self.shape = None if shape is None else as_ints(shape, "shape")
        self.text = dtype if isinstance(dtype, str) and dtype in ("bytes", "str") else None
        self.dtype = None if self.text else dtypes.as_dtype(dtype)
        self.default = default
        self.is_required = default is _REQUIRED

    def value(self, name: str, values: Values | None) -> Element:
        """Converts the values of an example (bytes, an array, or None) to an element.

        Raises:
            DataError: if they do not match.
        """
        if values is None:
            if self.is_required:
                raise errors.DataError(
                    f"the feature {name!r} is missing; give its Feature a default if it is optional"
                )
            return from_foreign(self.default)
        if self.text is not None:
            return self._strings(name, values)
        if isinstance(values, list):
            try:
                array = np.frombuffer(b"".join(values), self.dtype)
            except ValueError as error:
                raise errors.DataError(
                    f"the bytes of {name!r} do not fill an array of {self.dtype}: {error}"
                ) from None
        else:
            array = values.astype(self.dtype)
        return self._shaped(name, array)

    def _strings(self, name: str, values: Values) -> Element:
        if not isinstance(values, list):
            raise errors.DataError(f"{name!r} holds {values.dtype}, not {self.text}")
        items: list[bytes] | list[str] = values
        if self.text == "str":
            try:
                items = [value.decode() for value in values]
            except UnicodeDecodeError as error:
                raise errors.DataError(f"{name!r} is not UTF-8: {error}") from None
        array = np.empty(len(items), dtype=object)
        array[:] = items
        shaped = self._shaped(name, array)
        return shaped if shaped.shape else shaped.item()

    def _shaped(self, name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if self.shape is None:
            return array
        if array.size != math.prod(self.shape):
            raise errors.DataError(
                f"{name!r} has {array.size} values, expected the shape {self.shape} of "
                f"{self.text or self.dtype}"
            )
        return array.reshape(self.shape)


def checked_features(features: Mapping[str, Feature] | None) -> dict[str, Feature] | None:
    """The expected features of records, or None for all.

    Raises:
        InputTypeError: for what is not a dict.
    """
    if features is not None and not isinstance(features, Mapping):
        raise errors.InputTypeError(
            f"features must be a dict of features by name, got {type(features).__name__}"
        )
    return None if features is None else dict(features)


def decode_example(record: bytes, features: Mapping[str, Feature] | None = None) -> Element:
    """Decodes the features of a serialized `tf.train.Example`.

    Args:
        record: a record of a TFRecord file.
        features: the expected features; None for all, as lists of bytes, float32 arrays and
            int64 arrays.

    >>> record = pb.data.encode_example({"label": 3, "name": "cat"})
    >>> pb.data.decode_example(record)
    {'label': array([3]), 'name': [b'cat']}

    Raises:
        DataError: for bytes that are not such a record, or do not match the features.
    """
    example = _message()()
    try:
        example.ParseFromString(record)
    except Exception as error:
        # The library's DecodeError, whose class depends on its implementation.
        raise errors.DataError(f"not a tf.train.Example: {error}") from error
    values = {name: _values(feature) for name, feature in example.features.feature.items()}
    expected = checked_features(features)
    if expected is None:
        return {name: values[name] for name in sorted(values)}
    return {name: feature.value(name, values.get(name)) for name, feature in expected.items()}


def _values(feature: Any) -> Values | None:
    match feature.WhichOneof("kind"):
        case "bytes_list":
            return list(feature.bytes_list.value)
        case "float_list":
            return np.asarray(feature.float_list.value, np.float32)
        case "int64_list":
            return np.asarray(feature.int64_list.value, np.int64)
    return None


def encode_example(features: Mapping[str, object]) -> bytes:
    """Serializes a `tf.train.Example`.

    Args:
        features: strings, bytes, numbers, or arrays of them, by name. Integers and booleans
            become int64, floats float32; arrays are flattened. To keep another dtype, pass the
            memory: `array.tobytes()`.

    Raises:
        InputTypeError: for values of other types.
    """
    if not isinstance(features, Mapping):
        raise errors.InputTypeError(
            f"encode_example takes a dict of features by name, got {type(features).__name__}"
        )
    example = _message()()
    for name, item in features.items():
        feature = example.features.feature[name]
        value = as_arrays(from_foreign(item))
        if isinstance(value, (str, bytes)):
            value = np.array([value], dtype=object)
        kind = getattr(getattr(value, "dtype", None), "kind", None)
        if kind in ("U", "S", "O"):
            strings = [text.encode() if isinstance(text, str) else text for text in value.flat]
            feature.bytes_list.value.extend(strings)
        elif kind in ("i", "u", "b"):
            feature.int64_list.value.extend([int(number) for number in value.flat])
        elif kind in ("f", "V"):
            feature.float_list.value.extend(value.astype("float32").reshape(-1).tolist())
        else:
            raise errors.InputTypeError(
                f"a feature must be numbers, strings, bytes or arrays of them, got a "
                f"{type(item).__name__} for {name!r}; convert it first"
            )
    data: bytes = example.SerializeToString(deterministic=True)
    return data


@functools.cache
def _message() -> Any:
    """Returns the class of the message."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise errors.DataError(
            "TFRecord files need google-crc32c and protobuf: pip install 'pullback[tfrecord]'"
        ) from error

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="pullback/example.proto", package="tensorflow", syntax="proto3"
    )

    def add(message: Any, name: str, number: int, kind: int, label: int, of: str = "") -> Any:
        type_name = f".tensorflow.{of}" if of else None
        return message.field.add(
            name=name, number=number, type=kind, label=label, type_name=type_name
        )

    lists = {
        "BytesList": field.TYPE_BYTES,
        "FloatList": field.TYPE_FLOAT,
        "Int64List": field.TYPE_INT64,
    }
    for name, kind in lists.items():
        message = file.message_type.add(name=name)
        add(message, "value", 1, kind, field.LABEL_REPEATED)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    names = ("bytes_list", "float_list", "int64_list")
    for number, (name, of) in enumerate(zip(names, lists, strict=True), 1):
        member = add(feature, name, number, field.TYPE_MESSAGE, field.LABEL_OPTIONAL, of)
        member.oneof_index = 0
    features = file.message_type.add(name="Features")
    # A map is a list of entries with a key and a value.
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    add(entry, "key", 1, field.TYPE_STRING, field.LABEL_OPTIONAL)
    add(entry, "value", 2, field.TYPE_MESSAGE, field.LABEL_OPTIONAL, "Feature")
    repeated = field.LABEL_REPEATED
    add(features, "feature", 1, field.TYPE_MESSAGE, repeated, "Features.FeatureEntry")
    example = file.message_type.add(name="Example")
    add(example, "features", 1, field.TYPE_MESSAGE, field.LABEL_OPTIONAL, "Features")
    # A pool of its own: the program may have TensorFlow's messages of these names.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))
