"""The arguments of a saved program: what it was saved for, and the tensors among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from pullback import errors
from pullback._array_files import mapping
from pullback.graph.saved.data_form import JSON, decode
from pullback.graph.signature import equal


class ParameterLeaf(NamedTuple):
    """An argument that differs from call to call: a tensor, or a float.

    `names` are the inputs of the graph that it is: one for a tensor, one for each dtype in which a
    float is used.
    """

    kind: str
    names: tuple[str, ...]


class Parameter(NamedTuple):
    """A parameter, and what was passed for it: leaves in a structure of constants."""

    name: str
    keyword: bool
    form: Any

    @property
    def is_constant(self) -> bool:
        """True if a call may leave it out."""
        return next(leaves(self.form), None) is None


def leaves(form: object) -> Iterator[ParameterLeaf]:
    """The leaves of a form, in order."""
    if type(form) is ParameterLeaf:
        yield form
    elif isinstance(form, (list, tuple)):
        for item in form:
            yield from leaves(item)
    elif isinstance(form, dict):
        for item in form.values():
            yield from leaves(item)


def parameters_of(data: JSON) -> list[Parameter]:
    """Returns the parameters of a saved program from JSON.

    Raises:
        ValueError: for JSON of another form; names the fault.
    """
    if not isinstance(data, list):
        raise ValueError("its arguments are not a list")
    found: list[Parameter] = []
    for entry in data:
        entry = mapping(entry, "an argument")
        if entry.keys() != {"name", "keyword", "of"} or type(entry["keyword"]) is not bool:
            raise ValueError("an argument lacks its name, its form or its value")
        if type(entry["name"]) is not str or entry["name"] in [each.name for each in found]:
            raise ValueError(f"the name of an argument is {entry['name']!r}")
        form = decode(entry["of"], {"tensor": _tensor, "number": _number})
        found.append(Parameter(entry["name"], entry["keyword"], form))
    return found


def _tensor(value: JSON) -> ParameterLeaf:
    if type(value) is not str:
        raise ValueError(f"an argument is the input {value!r}")
    return ParameterLeaf("tensor", (value,))


def _number(value: JSON) -> ParameterLeaf:
    if not isinstance(value, list) or not all(type(name) is str for name in value):
        raise ValueError(f"an argument is the inputs {value!r}")
    return ParameterLeaf("number", tuple(value))


class Binding:
    """Finds the tensors and floats among the arguments of a call.

    Args:
        name: the name of the program, for messages.
        parameters: the parameters.
        describe: the shape and dtype of an input by its name, as a text.
    """

    def __init__(
        self, name: str, parameters: list[Parameter], describe: Callable[[str], str]
    ) -> None:
        self._name = name
        self._parameters = parameters
        self._describe = describe

    def __str__(self) -> str:
        return ", ".join(f"{p.name}: {self._text(p.form)}" for p in self._parameters)

    def _text(self, form: object) -> str:
        if type(form) is ParameterLeaf:
            return "float" if form.kind == "number" else self._describe(form.names[0])
        if isinstance(form, (list, tuple)):
            text = ", ".join(map(self._text, form))
            return f"[{text}]" if isinstance(form, list) else f"({text})"
        if isinstance(form, dict):
            return "{" + ", ".join(f"{k!r}: {self._text(v)}" for k, v in form.items()) + "}"
        return repr(form)

    def __call__(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> list[tuple[str, ParameterLeaf, Any]]:
        """The path, the leaf and the value of each tensor and float.

        Raises:
            InputTypeError: for other arguments than those of the program.
            InputValueError: for another value in place of a constant.
        """
        given = dict(kwargs)
        positional = [p.name for p in self._parameters if not p.keyword]
        for name, value in zip(positional, args, strict=False):
            if name in given:
                self._reject(f"got {name} twice")
            given[name] = value
        if len(args) > len(positional):
            self._reject(f"got {len(args)} positional arguments")
        found: list[tuple[str, ParameterLeaf, Any]] = []
        for parameter in self._parameters:
            if parameter.name in given:
                self._match(parameter.form, given.pop(parameter.name), parameter.name, found)
            elif not parameter.is_constant:
                self._reject(f"{parameter.name} is missing")
        if given:
            self._reject(f"got {', '.join(given)} as well")
        return found

    def _reject(self, problem: str) -> NoReturn:
        raise errors.InputTypeError(f"the saved program {self._name} takes ({self}); {problem}")

    def _match(
        self, form: Any, value: Any, path: str, found: list[tuple[str, ParameterLeaf, Any]]
    ) -> None:
        if type(form) is ParameterLeaf:
            found.append((path, form, value))
        elif isinstance(form, (list, tuple)):
            kind = list if isinstance(form, list) else tuple
            if not isinstance(value, kind) or len(value) != len(form):
                self._reject(f"{path} must be a {kind.__name__} of {len(form)}")
            for i, (item, part) in enumerate(zip(form, value, strict=True)):
                self._match(item, part, f"{path}[{i}]", found)
        elif isinstance(form, dict):
            if not isinstance(value, dict) or value.keys() != form.keys():
                self._reject(f"{path} must be a dict with the keys {[*form]}")
            for key, item in form.items():
                self._match(item, value[key], f"{path}[{key!r}]", found)
        elif not equal(value, form):
            raise errors.InputValueError(
                f"{path} of the saved program {self._name} must be {form!r}, got {value!r}; the "
                f"value is a part of the program, so save one for each value"
            )
