"""The annotations of an op's parameters: which are inputs, and what the others are made of.

An annotation is read as text, as `from __future__ import annotations` leaves it, or as the object
that it is without that line. Names may be qualified (`pb.TensorLike`) or imported under another
name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, ForwardRef, TypeAlias, Union, get_args, get_origin

from pullback.devices import DeviceLike
from pullback.dtypes import DTypeLike
from pullback.shapes import Axes, Axis, JoinedAxes, ShapeLike
from pullback.spec import Arity
from pullback.tensor import Tensor, TensorLike

#: The annotation of the standard's `copy` arguments. Dispatch takes and drops them: buffers are
#: immutable, so whether one was copied cannot be seen, and no kernel needs to know.
Copy: TypeAlias = Annotated[bool | None, "Copy"]

#: The annotations of inputs.
ARITIES = {
    "Tensor": Arity.ONE,
    "TensorLike": Arity.ONE,
    "Tensor | None": Arity.OPTIONAL,
    "TensorLike | None": Arity.OPTIONAL,
    "Sequence[Tensor]": Arity.MANY,
    "Sequence[TensorLike]": Arity.MANY,
}

_ALIASES: dict[str, object] = {
    "Tensor": Tensor,
    "TensorLike": TensorLike,
    "Axis": Axis,
    "Axes": Axes,
    "JoinedAxes": JoinedAxes,
    "ShapeLike": ShapeLike,
    "DTypeLike": DTypeLike,
    "DeviceLike": DeviceLike,
    "Copy": Copy,
    "Sequence": Sequence,
}
_KNOWN = frozenset([*_ALIASES, "bool", "int", "float", "str"])
#: The annotations of nearly all parameters, which are canonical already.
_CANONICAL_TEXTS = frozenset([*_KNOWN, *(f"{name} | None" for name in _KNOWN), *ARITIES])
# Compiled at the first use, which `import pullback` is spared.
_NAME = r"[A-Za-z_][\w.]*"
_OPTIONAL = r"(?:Optional\[(.*)\]|None \| (.*))"


def canonical(annotation: object, names: Mapping[str, object]) -> str:
    """The text of an annotation with the names of this module: "TensorLike | None".

    Args:
        annotation: the text or the object.
        names: the globals of the function.
    """
    if not isinstance(annotation, str):
        return _text_of(annotation)
    if annotation in _CANONICAL_TEXTS:
        return annotation

    def name(match: re.Match[str]) -> str:
        last = match[0].rpartition(".")[2]
        if last in _KNOWN:
            return last
        value = names.get(match[0])
        return match[0] if value is None else _alias(value) or match[0]

    text = re.sub(_NAME, name, annotation.strip("'\""))
    optional = re.fullmatch(_OPTIONAL, text)
    return f"{optional[1] or optional[2]} | None" if optional else text


def _alias(value: object) -> str:
    return next((name for name, alias in _ALIASES.items() if alias is value), "")


def _text_of(annotation: object) -> str:
    """The text of an annotation that is an object."""
    alias = _alias(annotation)
    if alias:
        return alias
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Union or origin is UnionType:
        names = {_text_of(part): None for part in parts if part is not NoneType}
        accepted = [_text_of(part) for part in get_args(TensorLike)]
        if all(name in names for name in accepted):
            names = {"TensorLike": None, **{n: None for n in names if n not in accepted}}
        return " | ".join([*names, *["None"] * (NoneType in parts)])
    if origin is Sequence:
        return f"Sequence[{_text_of(parts[0])}]"
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if isinstance(annotation, type) else repr(annotation)
