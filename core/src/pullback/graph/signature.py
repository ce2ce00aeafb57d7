"""The arguments of a captured function: what a program is made for, and the test that it fits.

A tensor or array stands for all of its shape and dtype on its device; a float that was promoted for
all floats; anything else for itself: a Python value for those equal to it and of its type, another
object, such as a variable, for its identity.
"""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from pullback import errors
from pullback._codegen.source import Source
from pullback._dispatch.convert import from_any
from pullback.devices import as_device
from pullback.graph.graph import NotTraceableError, frozen
from pullback.graph.host import contents, replace, same
from pullback.tensor import Tensor

#: Values that are constants of a program.
_PLAIN = (bool, int, float, complex, str, bytes, NoneType)
#: Types whose items are arguments; other kinds of dicts are objects.
_DICTS = (dict, OrderedDict, defaultdict)


class Part(NamedTuple):
    """An argument, or a part of one.

    `kind` is "tensor", "array", "number", "constant", "object", "list", "tuple" or "dict".
    """

    path: str
    kind: str
    #: Equal for the arguments that one program serves.
    key: Any
    value: Any
    parts: tuple[Part, ...] = ()

    def leaves(self) -> Iterator[Part]:
        """The parts that are not lists, tuples or dicts, in order."""
        if self.kind in ("list", "tuple", "dict"):
            for part in self.parts:
                yield from part.leaves()
        else:
            yield self

    def __str__(self) -> str:
        if self.kind in ("tensor", "array"):
            shape, dtype = self.key[1:3]
            return f"{getattr(dtype, 'name', dtype)}{list(shape)}"
        if self.kind == "number":
            return "any float"
        if self.kind == "object":
            return f"<{type(self.value).__name__}>"
        if self.kind == "constant":
            return repr(self.value)
        return f"{self.kind} of {len(self.parts)}"


def part_of(value: Any, path: str, promoted: frozenset[str]) -> Part:
    """The part of a signature for a value.

    Args:
        value: an argument, or a part of one.
        path: where it is: "batch[0]".
        promoted: the paths of floats that are inputs.
    """
    kind = type(value)
    if kind is Tensor:
        array = value._array
        return Part(path, "tensor", ("tensor", array.shape, array.dtype, value._device), value)
    if isinstance(value, np.ndarray):
        # Such as np.memmap, too.
        return Part(path, "array", ("array", value.shape, value.dtype, kind), value)
    if kind is float and path in promoted:
        return Part(path, "number", ("number",), value)
    if kind in _PLAIN:
        key = (kind, value) if kind is bytes else frozen(value)
        return Part(path, "constant", key, value)
    if kind in _DICTS:
        parts = [part_of(item, f"{path}[{key!r}]", promoted) for key, item in value.items()]
        names = tuple((type(name), name) for name in value)
        return _structure(path, "dict", (kind, names), value, parts)
    if isinstance(value, (list, tuple)):
        parts = [part_of(item, f"{path}[{i}]", promoted) for i, item in enumerate(value)]
        form = "list" if isinstance(value, list) else "tuple"
        return _structure(path, form, (kind,), value, parts)
    if isinstance(value, np.generic):
        return Part(path, "constant", (kind, value.tobytes()), value)
    try:
        return Part(path, "constant", frozen(value), value)
    except NotTraceableError:
        return Part(path, "object", ("object", id(value)), value)


def _structure(path: str, kind: str, key: Any, value: Any, parts: Sequence[Part]) -> Part:
    return Part(path, kind, (*key, *(part.key for part in parts)), value, tuple(parts))


class Signature:
    """The arguments of a call, as a program sees them.

    Args:
        args: the positional arguments.
        kwargs: the keyword arguments.
        names: the names of positional parameters; the last one is repeated if it is `*args`.
        promoted: the paths of floats that are inputs.
    """

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        names: Sequence[str],
        promoted: frozenset[str],
    ) -> None:
        self.positional = [
            part_of(value, names[i] if i < len(names) else f"argument {i}", promoted)
            for i, value in enumerate(args)
        ]
        self.named = {name: part_of(value, name, promoted) for name, value in kwargs.items()}
        self.key = (
            tuple(part.key for part in self.positional),
            tuple((name, part.key) for name, part in self.named.items()),
        )

    @property
    def parts(self) -> list[Part]:
        """The arguments."""
        return [*self.positional, *self.named.values()]

    def leaves(self) -> list[Part]:
        """All parts that are values."""
        return [leaf for part in self.parts for leaf in part.leaves()]

    def filled(self, fill: Callable[[Part], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with what `fill` gives in place of each value."""
        made: dict[int, Any] = {}
        args = tuple(_filled(part, fill, made) for part in self.positional)
        return args, {name: _filled(part, fill, made) for name, part in self.named.items()}

    def containers(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[tuple[Part, Any, tuple[Any, ...]]]:
        """The lists and dicts among the arguments of a trace, with what is in each now.

        Args:
            args: the positional arguments that `filled` has made.
            kwargs: the named ones.
        """
        values = (*args, *kwargs.values())
        return [
            each
            for part, value in zip(self.parts, values, strict=True)
            for each in _containers(part, value)
        ]

    def difference(self, other: Signature) -> str:
        """Describes what differs from `other`: "x: float32[2] instead of float32[3]"."""
        before = {leaf.path: leaf for leaf in other.leaves()}
        texts = []
        for leaf in self.leaves():
            old = before.get(leaf.path)
            if old is None:
                texts.append(f"{leaf.path}: {leaf}, which was not there")
            elif old.key != leaf.key:
                texts.append(f"{leaf.path}: {leaf} instead of {old}")
        return ", ".join(texts) or "the structure of the arguments"

    def without_values(self) -> Signature:
        """The signature without the arrays of tensors; what is compared by identity is kept."""
        stripped = copy.copy(self)
        stripped.positional = [_stripped(part) for part in self.positional]
        stripped.named = {name: _stripped(part) for name, part in self.named.items()}
        return stripped

    def __str__(self) -> str:
        return ", ".join(f"{leaf.path}: {leaf}" for leaf in self.leaves()) or "no arguments"


def _stripped(part: Part) -> Part:
    value = part.value if part.kind in ("constant", "object") else None
    return part._replace(value=value, parts=tuple(map(_stripped, part.parts)))


def _filled(part: Part, fill: Callable[[Part], Any], made: dict[int, Any]) -> Any:
    if part.kind not in ("list", "tuple", "dict"):
        return fill(part)
    items = [_filled(item, fill, made) for item in part.parts]
    # One that is in two places stays one.
    return made.setdefault(id(part.value), refilled(part.value, items))


def _containers(part: Part, value: Collection[Any]) -> Iterator[tuple[Part, Any, tuple[Any, ...]]]:
    if part.kind in ("list", "dict"):
        yield part, value, contents(value)
    if part.kind in ("list", "tuple", "dict"):
        items = value.values() if isinstance(value, dict) else value
        for inner, item in zip(part.parts, items, strict=True):
            yield from _containers(inner, item)


def changed(containers: list[tuple[Part, Any, tuple[Any, ...]]]) -> list[tuple[Part, Any]]:
    """Those of the containers that hold something else now, with a copy."""
    return [
        (part, dict(value) if isinstance(value, dict) else list(value))
        for part, value, before in containers
        if not same(contents(value), before)
    ]


@contextmanager
def in_place(signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[None]:
    """Has the lists and dicts of a call hold what the block makes of those that were filled."""
    containers = signature.containers(args, kwargs)
    yield
    for part, value in changed(containers):
        replace(part.value, value)


def refilled(container: Any, items: Sequence[Any]) -> Any:
    """A container of the same kind with other items: the values of a dict in its order."""
    kind = type(container)
    if kind in (list, tuple):
        return kind(items)
    if isinstance(container, dict):
        made = copy.copy(container)
        for key, item in zip(container, items, strict=True):
            made[key] = item
        return made
    if isinstance(container, tuple):
        if hasattr(kind, "_fields"):
            return kind(*items)
        made = tuple.__new__(kind, items)
        if not hasattr(made, "__dict__"):
            return made
        vars(made).update(vars(container))
        return made
    made = copy.copy(container)
    made[:] = items
    return made


def names_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the positional parameters of a function, those of `*args` with a number."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return (*names, *(f"{parameter.name}[{i}]" for i in range(64)))
        names.append(parameter.name)
    return tuple(names)


def as_tensor_argument(value: np.ndarray[Any, Any]) -> Tensor:
    """The tensor that a captured function gets for a NumPy array.

    Raises:
        ConversionError: for an array that is not one of numbers.
    """
    return from_any(value)


# ---------------------------------------------------------------------------------------------
# The test of a program.


class ArgumentCode:
    """Writes the lines of a program that compare its arguments, and those that read their arrays.

    Args:
        source: the program.
        signature: what it is made for.
    """

    def __init__(self, source: Source, signature: Signature) -> None:
        self._source = source
        self._count = 0
        #: For each tensor, array and promoted float, in order, the name that the code has for it.
        self.leaves: list[tuple[Part, str]] = []
        #: The name of each list and dict, by its path.
        self.containers: dict[str, str] = {}
        positional, named = signature.positional, signature.named
        test = f"len(args) != {len(positional)}"
        test += f" or tuple(kwargs) != {source.constant(tuple(named))}" if named else " or kwargs"
        self._unless_not(test)
        if positional:
            names = [self._name() for _ in positional]
            source.line(f"{', '.join(names)}, = args")
            for part, name in zip(positional, names, strict=True):
                self._compare(part, name)
        for key, part in named.items():
            name = self._name()
            source.line(f"{name} = kwargs[{key!r}]")
            self._compare(part, name)

    def _name(self) -> str:
        self._count += 1
        return f"a{self._count - 1}"

    def _unless_not(self, test: str) -> None:
        self._source.line(f"if {test}:", "    return MISS")

    def _compare(self, part: Part, name: str) -> None:
        constant = self._source.constant
        if part.kind in ("tensor", "array"):
            shape, dtype = constant(part.key[1]), constant(part.key[2])
            array = name
            if part.kind == "tensor":
                device = constant(part.key[3])
                self._unless_not(f"type({name}) is not Tensor or {name}._device is not {device}")
                array = f"{name}_array"
                self._source.line(f"{array} = {name}._array")
            else:
                self._unless_not(f"type({name}) is not {constant(type(part.value))}")
            # NumPy may have several equal dtype objects.
            self._unless_not(
                f"{array}.shape != {shape} or "
                f"{array}.dtype is not {dtype} and {array}.dtype != {dtype}"
            )
            self.leaves.append((part, array))
        elif part.kind == "number":
            self._unless_not(f"type({name}) is not float")
            self.leaves.append((part, name))
        elif part.kind == "object" or part.value is None or type(part.value) is bool:
            self._unless_not(f"{name} is not {constant(part.value)}")
        elif part.kind == "constant":
            value = constant(part.value)
            self._unless_not(f"{name} is not {value} and not equal({name}, {value})")
        else:
            self._compare_items(part, name)

    def _compare_items(self, part: Part, name: str) -> None:
        if part.kind != "tuple":
            self.containers[part.path] = name
        kind = self._source.constant(type(part.value))
        self._unless_not(f"type({name}) is not {kind} or len({name}) != {len(part.parts)}")
        if part.kind == "dict":
            keys = self._source.constant(tuple(part.value))
            self._unless_not(f"not equal(tuple({name}), {keys})")
        if not part.parts:
            return
        items = [self._name() for _ in part.parts]
        values = f"{name}.values()" if part.kind == "dict" else name
        self._source.line(f"{', '.join(items)}, = {values}")
        for item, item_name in zip(part.parts, items, strict=True):
            self._compare(item, item_name)


def equal(value: Any, before: Any) -> bool:
    """True for constants of one type that cannot be told apart; keys of dicts may be anything."""
    if isinstance(value, np.generic):
        return type(value) is type(before) and bool(value.tobytes() == before.tobytes())
    if same(value, before):
        return True
    if type(value) is not type(before):
        return False
    if type(value) is tuple:
        return len(value) == len(before) and all(map(equal, value, before))
    try:
        return bool(frozen(value) == frozen(before))
    except NotTraceableError:
        return type(value).__hash__ is not None and bool(value == before)


def device_of(signature: Signature) -> Any:
    """The device that a function runs on: that of its first tensor, or the active one."""
    for leaf in signature.leaves():
        if leaf.kind == "tensor":
            return leaf.value._device
    return as_device(None)


def check_arrays(signature: Signature) -> None:
    """Raises the error for arrays that are not of numbers, before anything else happens.

    Raises:
        ConversionError: for such an array.
    """
    for leaf in signature.leaves():
        if leaf.kind == "array" and leaf.value.dtype.kind not in "biufcV":
            raise errors.ConversionError(
                f"{leaf.path} is an array of {leaf.value.dtype}, not of numbers"
            )
