"""The arguments of a captured function: what a program is made for, and the test that it fits.

A tensor or array stands for all of its shape and dtype on its device; a float that was promoted for
all floats; anything else for itself: a Python value for those equal to it and of its type, another
object, such as a variable, for its identity.
"""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pullback import errors
from pullback._codegen.source import Source, tuple_of
from pullback.devices import as_device
from pullback.graph.graph import NotTraceableError, dtype_name, frozen
from pullback.graph.host import contents, replace, same
from pullback.graph.parameters import FunctionParameters
from pullback.tensor import Tensor

#: The numbers that may be inputs of a program, and those that are: each a path and a type.
NUMBERS = (float, int)
Numbers: TypeAlias = "frozenset[tuple[str, type]]"
#: Integers that are inputs are in the range of int32, the dtype that they have as tensors.
INT_RANGE = 1 << 31
#: Types whose items are arguments; other kinds of dicts are objects.
DICTS = (dict, OrderedDict, defaultdict)


class Part(NamedTuple):
    """An argument, or a part of one.

    `kind` is "tensor", "array", "number", "constant", "object", "same", "list", "tuple" or "dict".
    "same" is the tensor or array of an earlier part.
    """

    path: str
    kind: str
    #: The part of a signature that says which code takes the arguments apart.
    form: Any
    #: What that code finds: with an equal form, equal for the arguments that one program serves.
    key: tuple[Any, ...]
    value: Any
    parts: tuple[Part, ...] = ()

    def leaves(self) -> Iterator[Part]:
        """The parts that are not lists, tuples or dicts, in order."""
        if self.kind in ("list", "tuple", "dict"):
            for part in self.parts:
                yield from part.leaves()
        else:
            yield self

    @property
    def type(self) -> type:
        """The type of a constant, a number or an object."""
        found: type = self.form[-1]
        return found

    def __str__(self) -> str:
        if self.kind in ("tensor", "array"):
            shape, dtype = self.key[:2]
            return f"{dtype_name(dtype)}{list(shape)}"
        if self.kind == "number":
            return f"any {self.type.__name__}"
        if self.kind == "object":
            return f"<{self.type.__name__}>"
        if self.kind == "constant":
            return repr(self.value)
        if self.kind == "same":
            return f"the same as {self.form[1]}"
        return f"{self.kind} of {len(self.parts)}"


def part_of(value: Any, path: str, numbers: Numbers, seen: dict[int, str] | None) -> Part:
    """The part of a signature for a value.

    Args:
        value: an argument, or a part of one.
        path: where it is: "batch[0]".
        numbers: the numbers that are inputs.
        seen: the paths of the tensors and arrays before, by their identities; None where one that
            is given twice counts as two.
    """
    kind = type(value)
    if kind is Tensor or isinstance(value, np.ndarray):
        before = path if seen is None else seen.setdefault(id(value), path)
        if before != path:
            return Part(path, "same", ("same", before), (), value)
        if kind is Tensor:
            array = value._array
            return Part(path, "tensor", kind, (array.shape, array.dtype, value._device), value)
        # Such as np.memmap, too.
        return Part(path, "array", kind, (value.shape, value.dtype), value)
    if (path, kind) in numbers and (kind is float or -INT_RANGE <= value < INT_RANGE):
        return Part(path, "number", ("number", kind), (), value)
    if kind in DICTS:
        parts = [part_of(v, f"{path}[{key!r}]", numbers, seen) for key, v in value.items()]
        names = tuple((type(name), name) for name in value)
        return _structure(path, "dict", (kind, names), value, parts)
    if isinstance(value, (list, tuple)):
        parts = [part_of(item, f"{path}[{i}]", numbers, seen) for i, item in enumerate(value)]
        form = "list" if isinstance(value, list) else "tuple"
        return _structure(path, form, (kind,), value, parts)
    try:
        return Part(path, "constant", (kind,), constant_key(value), value)
    except NotTraceableError:
        return Part(path, "object", ("object", kind), (id(value),), value)


def constant_key(value: Any) -> tuple[Any, ...]:
    """Returns what tells a value from others of its type, as -0.0 from 0.0.

    Raises:
        NotTraceableError: for an object, which is told by its identity.
    """
    kind = type(value)
    if kind in (bool, int, str, bytes):
        return (value,)
    if kind is float:
        return (value.hex(),)
    if isinstance(value, np.generic):
        return value.dtype, value.tobytes()
    return () if value is None else (frozen(value),)


def _structure(path: str, kind: str, form: Any, value: object, parts: Sequence[Part]) -> Part:
    forms = tuple(part.form for part in parts)
    key = tuple(item for part in parts for item in part.key)
    return Part(path, kind, (*form, forms), key, value, tuple(parts))


class Signature:
    """The arguments of a call, as a program sees them.

    Args:
        args: the positional arguments.
        kwargs: the keyword arguments.
        parameters: those of the function.
        numbers: the numbers that are inputs.
        distinct: whether a tensor that is given twice counts as two.
    """

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parameters: FunctionParameters,
        numbers: Numbers,
        *,
        distinct: bool = False,
    ) -> None:
        seen: dict[int, str] | None = None if distinct else {}
        names = parameters.names
        #: Those that code for such arguments has, too; None for code that takes all.
        self.parameters = parameters if parameters.take(len(args), kwargs) else None
        self.positional = [
            part_of(value, names[i] if i < len(names) else f"argument {i}", numbers, seen)
            for i, value in enumerate(args)
        ]
        self.named = {name: part_of(value, name, numbers, seen) for name, value in kwargs.items()}
        #: Which code takes the arguments apart, and what it finds; see `Part`.
        self.form = (
            tuple(p.form for p in self.positional),
            tuple((name, part.form) for name, part in self.named.items()),
        )
        self.key = tuple(item for part in self.parts for item in part.key)

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
            elif (old.form, old.key) != (leaf.form, leaf.key):
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


def variations(signatures: Sequence[Signature]) -> list[str]:
    """Says what differs between the signatures of several calls, and what to do about it."""
    found: dict[str, list[Part]] = {}
    for signature in signatures:
        for leaf in signature.leaves():
            found.setdefault(leaf.path, []).append(leaf)
    texts = [_variation(path, parts) for path, parts in found.items()]
    if any(len(parts) < len(signatures) for parts in found.values()):
        texts.append("the structure of the arguments: pass the same one, with lists of few lengths")
    return [text for text in texts if text]


def _variation(path: str, parts: Sequence[Part]) -> str:
    """Says what differs between the values of one argument; "" if nothing does."""
    if len({(part.form, part.key) for part in parts}) == 1:
        return ""
    now, kinds = parts[-1], {part.kind for part in parts}
    if kinds <= {"tensor", "array"}:
        shapes, dtypes, *_ = map(set, zip(*(part.key for part in parts), strict=False))
        if len(shapes) > 1:
            return f"the shape of {path} ({now} now): pad it to a few lengths"
        if len(dtypes) > 1:
            return f"the dtype of {path} ({now} now): convert it before the call"
        return f"whether {path} is a tensor or an array, or its device: pass it in one way"
    if kinds == {"object"}:
        return f"the object {path}: pass the same one, or the tensors that it has"
    if kinds == {"constant"} and all(part.type in NUMBERS for part in parts):
        return (
            f"{path} ({now} now), which the function looks at: pass pb.asarray({path}) if it only "
            f"computes with it, or few values"
        )
    if kinds <= {"constant", "number"}:
        return f"{path} ({now} now): pass few values, or a tensor for numbers"
    return f"what is passed for {path} ({now} now): pass the same kind of value"


def _stripped(part: Part) -> Part:
    value = part.value if part.kind in ("constant", "object") else None
    return part._replace(value=value, parts=tuple(map(_stripped, part.parts)))


def _filled(part: Part, fill: Callable[[Part], Any], made: dict[int, Any]) -> Any:
    if part.kind == "same":
        return made[id(part.value)]
    if part.kind not in ("list", "tuple", "dict"):
        value = fill(part)
        if part.kind in ("tensor", "array"):
            made[id(part.value)] = value
        return value
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


# ---------------------------------------------------------------------------------------------
# Generated code.


def parameters_of(signature: Signature) -> str:
    """The parameters of code for calls with such arguments; it takes all others, too.

    Those in the place of the positional arguments have names that no caller can give, until they
    have those of the function.
    """
    if same := signature.parameters:
        names = [f"a{i}=ABSENT" for i in range(len(same.names))]
        unnamed, others = names[: same.unnamed], names[same.unnamed : same.positional]
        only = [*unnamed, "/"] if unnamed else []
        return ", ".join([*only, *others, "*more", *names[same.positional :]])
    names = [f"a{i}=ABSENT" for i in range(len(signature.positional))]
    return ", ".join([*names, "/", "*more", "**kwargs"] if names else ["*more", "**kwargs"])


def _dict_of(items: Iterable[tuple[str, str]]) -> str:
    return f"{{{', '.join(f'{key!r}: {text}' for key, text in items)}}}"


class Unpacking:
    """Writes the lines that take arguments apart, and leave those of another form to `missed`.

    Args:
        source: the function; its parameters are `parameters_of` the signature.
        signature: the arguments.
    """

    def __init__(self, source: Source, signature: Signature) -> None:
        self._source = source
        self._count = 0
        #: The name of each list and dict, by its path.
        self.containers: dict[str, str] = {}
        #: The names of tensors and arrays, by their paths, and those that may be one object.
        self._names: dict[str, str] = {}
        self._alike: dict[Any, list[str]] = {}
        positional, named = signature.positional, signature.named
        names = [f"a{i}" for i in range(len(positional))]
        keys = [f"a{len(names) + i}" for i in range(len(named))]
        #: The texts of the arguments in a call, of the positional ones and of the named ones.
        self.call, self.args, self.kwargs = ", ".join(names), tuple_of(names), "kwargs"
        if same := signature.parameters:
            places = {name: f"a{i}" for i, name in enumerate(same.names)}
            all_names, keys = [*places.values()], [places[key] for key in named]
            self.kwargs = _dict_of(zip(named, keys, strict=True))
            by_name = _dict_of([*places.items()][same.positional :])
            taken = tuple_of([*all_names[: same.positional], "*more"])
            self.miss = f"return missed({taken}, {by_name})"
            absent = [x for x in all_names[len(names) :] if x not in keys]
            self.unless_not(" or ".join(["more", *(f"{x} is not ABSENT" for x in absent)]))
            self._count = len(all_names)
        else:
            self.miss = f"return missed({tuple_of([*names, '*more'])}, kwargs)"
            test = f"tuple(kwargs) != {source.constant(tuple(named))}" if named else "kwargs"
            self.unless_not(f"more or {'len(kwargs) != 1' if len(named) == 1 else test}")
            self._count = len(names) + len(keys)
            for key, name in zip(named, keys, strict=True):
                source.line(f"{name} = kwargs.get({key!r}, ABSENT)")
        if named:
            self.call += f"{', ' if names else ''}**{self.kwargs}"
        for part, name in zip(signature.parts, [*names, *keys], strict=True):
            self._take(part, name)
        for names in self._alike.values():
            if len(names) == 2:
                self.unless_not(" is ".join(names))
            elif len(names) > 2:
                identities = ", ".join(f"id({name})" for name in names)
                self.unless_not(f"len({{{identities}}}) != {len(names)}")

    def _take_leaf(self, part: Part, name: str) -> None:
        """Writes the lines for a value."""
        raise NotImplementedError

    def _may_be_one(self, part: Part) -> object:
        """A key that is equal for tensors and arrays which may be one object."""
        return part.kind

    def unless_not(self, test: str) -> None:
        """Writes that the code is not for a call if a test holds."""
        self._source.line(f"if {test}:", f"    {self.miss}")

    def _name(self) -> str:
        self._count += 1
        return f"a{self._count - 1}"

    def _take_items(self, parts: Sequence[Part], values: str) -> None:
        names = [self._name() for _ in parts]
        self._source.line(f"{', '.join(names)}, = {values}")
        for part, name in zip(parts, names, strict=True):
            self._take(part, name)

    def _take(self, part: Part, name: str) -> None:
        if part.kind in ("list", "tuple", "dict"):
            self._take_container(part, name)
        elif part.kind == "same":
            self.unless_not(f"{name} is not {self._names[part.form[1]]}")
        else:
            if part.kind in ("tensor", "array"):
                self._names[part.path] = name
                self._alike.setdefault(self._may_be_one(part), []).append(name)
            self._take_leaf(part, name)

    def _take_container(self, part: Part, name: str) -> None:
        if part.kind != "tuple":
            self.containers[part.path] = name
        kind = self._source.constant(type(part.value))
        test = f"type({name}) is not {kind} or len({name}) != {len(part.parts)}"
        if part.kind == "dict":
            test += f" or not equal(tuple({name}), {self._source.constant(tuple(part.value))})"
        self.unless_not(test)
        if part.parts:
            self._take_items(part.parts, f"{name}.values()" if part.kind == "dict" else name)


class ArgumentCode(Unpacking):
    """Writes the lines of a program that compare its arguments, and read their arrays."""

    def __init__(self, source: Source, signature: Signature) -> None:
        #: For each tensor, array and number, in order, the name that the code has for it.
        self.leaves: list[tuple[Part, str]] = []
        super().__init__(source, signature)

    def _may_be_one(self, part: Part) -> object:
        return part.form, part.key

    def _take_leaf(self, part: Part, name: str) -> None:
        constant, value = self._source.constant, part.value
        if part.kind in ("tensor", "array"):
            shape, dtype = map(constant, part.key[:2])
            array = now = name
            if part.kind == "tensor":
                test = (
                    f"type({name}) is not Tensor or {name}._device is not {constant(part.key[2])}"
                )
                array, now = f"{name}_array", f"({name}_array := {name}._array)"
            else:
                test = f"type({name}) is not {constant(type(value))}"
            # NumPy may have several equal dtype objects.
            self.unless_not(
                f"{test} or {now}.shape != {shape} or "
                f"{array}.dtype is not {dtype} and {array}.dtype != {dtype}"
            )
            self.leaves.append((part, array))
        elif part.kind == "number":
            self.unless_not(_number_test(part, name))
            self.leaves.append((part, name))
        elif part.kind == "object" or value is None or type(value) is bool:
            self.unless_not(f"{name} is not {constant(value)}")
        elif isinstance(value, np.generic):
            test = f"type({name}) is not {constant(type(value))}"
            if value.dtype.kind in "mMV":  # whose types have several dtypes
                test += f" or {name}.dtype != {constant(value.dtype)}"
            test += f" or {name}.tobytes() != {constant(value.tobytes())}"
            self.unless_not(f"{name} is not {constant(value)} and ({test})")
        else:
            before = constant(value)
            self.unless_not(f"{name} is not {before} and not equal({name}, {before})")


class KeyCode(Unpacking):
    """Writes the lines that find the key of a signature of one form."""

    def __init__(self, source: Source, signature: Signature) -> None:
        self._parts: list[str] = []
        #: The names of the arrays in the key.
        self.arrays: list[str] = []
        super().__init__(source, signature)
        #: The text of the key.
        self.key = tuple_of(self._parts)

    def _take_leaf(self, part: Part, name: str) -> None:
        kind = type(part.value)
        if part.kind == "tensor":
            self.unless_not(f"type({name}) is not Tensor")
            self._source.line(f"{name}_array = {name}._array")
            self.arrays.append(f"{name}_array")
            self._parts += [f"{name}_array.shape", f"{name}_array.dtype", f"{name}._device"]
            return
        if part.kind == "number":
            self.unless_not(_number_test(part, name))
            return
        self.unless_not(f"type({name}) is not {self._source.constant(kind)}")
        if part.kind == "array":
            self.arrays.append(name)
            self._parts += [f"{name}.shape", f"{name}.dtype"]
        elif part.kind == "object":
            self._parts.append(f"id({name})")
        elif kind in (bool, int, str, bytes):
            self._parts.append(name)
        elif kind is float:
            self._parts.append(f"{name}.hex()")
        elif part.value is not None:
            self._parts.append(f"*key_of({name})")


def _number_test(part: Part, name: str) -> str:
    """The test that a value is not a number which is an input."""
    if part.type is float:
        return f"type({name}) is not float"
    return f"type({name}) is not int or not {-INT_RANGE} <= {name} < {INT_RANGE}"


def key_of(value: object) -> tuple[Any, ...]:
    """The key of a value; that of no other one, if it has none."""
    try:
        return constant_key(value)
    except NotTraceableError:
        return (object(),)


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
