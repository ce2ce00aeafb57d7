"""Errors on names that do not exist: they say what to write, from one table or by the spelling.

The table (`pullback._foreign_names`) is loaded when an error is made, except for the names that
classes answer to.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, NoReturn, TypeVar, cast

from pullback import errors

__all__ = [
    "advice",
    "answer_attributes",
    "answer_calls",
    "answer_constructor",
    "answer_module",
    "answer_module_call",
    "answering",
    "check_keywords",
    "close_names",
    "device_advice",
    "is_of_call",
    "keyword_note",
    "reject_keywords",
]

F = TypeVar("F", bound=Callable[..., Any])

#: The least similarity of a name that is suggested for another one.
_SIMILAR = 0.82
#: The same where only a few names are meant.
_SIMILAR_OF_FEW = 0.74
_KEYWORD = r"unexpected keyword argument '(\w+)'"


# ---------------------------------------------------------------------------------------------
# Looking names up.


def _table(part: str, name: str) -> Any:
    return getattr(import_module(f"pullback._foreign_names.{part}"), name)


def _find(table: Mapping[str, str], name: str) -> str | None:
    """Returns what a table says to a name, in any case; several names share a key."""
    lower = name.lower()
    other = None
    for names, text in table.items():
        if name in names.split():
            return text
        if other is None and lower in names.lower().split():
            other = text
    return other


def advice(module: str, name: str, known: Iterable[str]) -> str:
    """Returns what to write for a name that stands for an object of a module; "" for no idea."""
    text = _find(_table("namespaces", "NAMESPACES")[module], name)
    if text is not None:
        return text
    close = close_names(name, known, 3, _SIMILAR_OF_FEW)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else ""


def device_advice(name: str) -> str:
    """Returns what to write for the name of a device that is none."""
    text = _find(_table("keywords", "DEVICES"), name)
    return text or "write 'cpu', 'gpu:1' or 'backend:cpu:0'"


def close_names(
    name: str, known: Iterable[str], count: int = 2, similar: float = _SIMILAR
) -> list[str]:
    """Returns the names that are spelled nearly like another one, closest first.

    >>> from pullback._hints import close_names
    >>> close_names("sigmiod", ["sigmoid", "sinh"]), close_names("load", ["logaddexp"])
    (['sigmoid'], [])
    """
    by_lower = {one.lower().replace("_", ""): one for one in known}
    plain = name.lower().replace("_", "")
    matches = import_module("difflib").get_close_matches(plain, by_lower, count, similar)
    return [by_lower[match] for match in matches]


# ---------------------------------------------------------------------------------------------
# Modules.


def answer_module(name: str, elsewhere: Iterable[str] = ()) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a module, for names that are not there.

    `dir` of the module lists what is public then.

    Args:
        name: the name of the module.
        elsewhere: the names of modules in which a name that is not in this one may be.
    """

    def missing(attribute: str) -> Any:
        raise MissingName(name, attribute, tuple(elsewhere))

    names = vars(sys.modules[name])
    names.setdefault("__dir__", lambda: [*names["__all__"], *filter(_is_special, names)])
    return missing


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


class MissingName(AttributeError):
    """An AttributeError of a module that finds its words when it is shown: `hasattr` is cheap."""

    def __str__(self) -> str:
        module, name, elsewhere = self.args
        return f"module {module!r} has no attribute {name!r}{_advice(module, name, elsewhere)}"

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


# Tracebacks show it as what it is to others.
MissingName.__qualname__ = "AttributeError"
MissingName.__module__ = "builtins"


def _advice(module: str, name: str, elsewhere: Iterable[str]) -> str:
    if name.startswith("__"):
        return ""
    tables = _table("namespaces", "NAMESPACES")
    foreign = _find(tables[module], name)
    if foreign is not None:
        return f"; {foreign}"
    short = {one: one.replace("pullback", "pb", 1) for one in (module, *elsewhere)}
    loaded = {one: import_module(one) for one in elsewhere}
    there = [f"{short[one]}.{name}" for one, found in loaded.items() if name in dir(found)]
    if not there:
        foreign = next(filter(None, (_find(tables.get(one, {}), name) for one in elsewhere)), None)
        if foreign is not None:
            return f"; {foreign}"
        there = [
            f"{short[one]}.{close}"
            for one in (module, *elsewhere)
            for close in close_names(name, _public(sys.modules[one]))
        ][:2]
    return f"; did you mean {' or '.join(there)}?" if there else ""


def _public(module: ModuleType) -> list[str]:
    return [name for name in getattr(module, "__all__", dir(module)) if name[0] != "_"]


class _Module(ModuleType):
    """A module whose name is that of a function elsewhere."""

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Says what to write instead of a call."""
        text = _find(_table("keywords", "CALLS"), self.__name__.rpartition(".")[2])
        raise errors.InputTypeError(f"a module is not callable; {text}")


def answer_module_call(module: ModuleType) -> None:
    """Has a call of a module raise an error that says what to write."""
    module.__class__ = _Module


# ---------------------------------------------------------------------------------------------
# Attributes of objects.


class ForeignName:
    """An attribute that does not exist: to read it raises, with what to write instead.

    It costs other attributes nothing, which `__getattr__` in a class does; an attribute that an
    object or a subclass sets under this name takes its place.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        # `help` of a class lists these names too.
        return f"Not here: {self.text.removeprefix('not here: ')}."

    def __get__(self, instance: object, owner: type) -> Any:
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self.name!r}; {self.text}", name=self.name
        )

    def __repr__(self) -> str:
        return f"not here: {self.text.removeprefix('not here: ')}"


class ForeignSetting(ForeignName):
    """A foreign name that cannot be set either, which would silently change nothing."""

    def __set__(self, instance: object, value: object) -> None:
        self.__get__(instance, type(instance))


def answer_attributes(
    cls: type, *tables: Mapping[str, str], settings: Collection[str] = ()
) -> None:
    """Has the objects of a class say what to write for the names in tables.

    Args:
        cls: the class.
        tables: names, and what to write.
        settings: those of the names that raise when they are set, too.
    """
    own = {name for base in cls.__mro__ for name in vars(base)}
    for table in tables:
        for names, text in table.items():
            for name in names.split():
                if name not in own:
                    own.add(name)
                    kind = ForeignSetting if name in settings else ForeignName
                    setattr(cls, name, kind(name, text))
    cls.__dir__ = _own_names  # type: ignore[assignment]


def _own_names(self: object) -> list[str]:
    """The names of an object without those that it only answers to."""
    bases = type(self).__mro__

    def is_foreign(name: str) -> bool:
        first = next((vars(base)[name] for base in bases if name in vars(base)), None)
        return isinstance(first, ForeignName) and name not in getattr(self, "__dict__", ())

    return [name for name in object.__dir__(self) if not is_foreign(name)]


# ---------------------------------------------------------------------------------------------
# Calls.


def answer_calls(*parts: Any) -> None:
    """Has wrong keyword arguments of functions and classes say what to write.

    Args:
        parts: modules, whose public functions and classes are meant; or classes, whose constructor
            and public methods are.
    """
    for part in parts:
        if inspect.isclass(part):
            _answer_methods(part, [n for n in vars(part) if n[0] != "_" or n == "__init__"])
            continue
        for name in part.__all__:
            value = getattr(part, name)
            if inspect.isclass(value):
                for base in value.__mro__:
                    if base.__module__.startswith("pullback."):
                        _answer_methods(base, ["__init__"])
            elif isinstance(value, FunctionType) and value.__module__ == part.__name__:
                setattr(part, name, answering(value))


def answer_constructor(cls: type) -> None:
    """Has wrong keyword arguments of a class say what to write."""
    _answer_methods(cls, ["__init__"])


def _answer_methods(cls: type, names: Iterable[str]) -> None:
    for name in names:
        value = vars(cls).get(name)
        if isinstance(value, FunctionType):
            setattr(cls, name, answering(value))
        elif isinstance(value, (staticmethod, classmethod)):
            setattr(cls, name, type(value)(answering(value.__func__)))


def answering(function: F, *, keeps_symbols: bool = False) -> F:
    """Returns the function with errors on arguments that do not fit which say what to write.

    Args:
        function: the function.
        keeps_symbols: whether a call with symbolic tensors is kept as one call.
    """
    if hasattr(function, "__wrapped__"):
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if keeps_symbols and getattr(error, "apply", None) is not None:
                return error.apply(call, args, kwargs)  # type: ignore[attr-defined]
            if not is_of_call(error):
                raise
            explained = _explained(function, args, kwargs, error)
        raise explained

    return cast("F", call)


def is_of_call(error: TypeError) -> bool:
    """Returns whether an error that was just caught is the call's, not from inside the function.

    It has no frame below that of the call then: the arguments do not fit the parameters.
    """
    at = error.__traceback__
    return at is not None and at.tb_next is None and not isinstance(error, errors.PullbackError)


def _explained(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], error: TypeError
) -> errors.InputTypeError:
    """Returns the error for arguments that do not fit the parameters of a function."""
    name, accepted = function.__name__, _parameters(function)
    if name == "__init__":
        cls = type(args[0])
        name, accepted = cls.__name__, _constructor_parameters(cls)
    wrong = re.search(_KEYWORD, str(error))
    unknown = [keyword for keyword in kwargs if keyword not in accepted]
    if wrong is not None and wrong[1] not in unknown:
        unknown.insert(0, wrong[1])
    if not unknown:
        text = _find(_table("keywords", "CALLS"), name)
        reason = str(error).partition("() ")[2] or str(error)
        by_name = _by_name(function) if reason.startswith("takes") else ""
        return errors.InputTypeError(f"{name}() {reason}" + (f"; {text}" if text else "") + by_name)
    package = function.__module__.split(".")[1]
    parts = [f"{keyword!r}; {keyword_advice(package, keyword, accepted)}" for keyword in unknown]
    return errors.InputTypeError(
        f"{name}() got an unexpected keyword argument {', and '.join(parts)}"
    )


def check_keywords(function: Any, keywords: Iterable[str]) -> None:
    """Checks that a function has parameters of the names of keyword arguments.

    Raises:
        InputTypeError: if it has not; says what to write.
    """
    code = function.__code__
    names = _named(function)
    for keyword in keywords:
        if keyword not in names and keyword not in code.co_varnames[: code.co_posonlyargcount]:
            raise errors.InputTypeError(
                f"{function.__name__}() got an unexpected keyword argument {keyword!r}; "
                + keyword_advice("", keyword, names)
            )


#: The parameter of a function for an argument by position that has to be given by name.
FURTHER = "_further"


def reject_keywords(function: FunctionType, /, **keywords: object) -> NoReturn:
    """Raises for arguments that a function has not, and only takes to answer them.

    Args:
        function: the function.
        keywords: the arguments; those that are `...` were not given.

    Raises:
        InputTypeError: in every case.
    """
    name = next(name for name, value in keywords.items() if value is not ...)
    names = _named(function)
    # A function of ops takes them by position, too, which costs less.
    position = f"one argument too many by position{_by_name(function)}"
    if name == FURTHER:
        raise errors.InputTypeError(f"{function.__name__}() got {position}")
    raise errors.InputTypeError(
        f"{function.__name__}() got an unexpected keyword argument {name!r}"
        + ("; " if name in names else f", or {position}; ")
        + keyword_advice("", name, [other for other in names if other not in keywords])
    )


def _by_name(function: FunctionType) -> str:
    names = [f"{name}=" for name in function.__kwdefaults__ or ()]
    return f" (give {' or '.join(names)} by name)" if names else ""


def _named(function: FunctionType) -> list[str]:
    """The parameters of a function that can be given by name."""
    code = function.__code__
    names = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    return [name for name in names if name != "self"]


def keyword_note(error: TypeError) -> str | None:
    """Returns what to write for an unknown keyword of an op; None for any other error."""
    wrong = re.search(_KEYWORD, str(error))
    return None if wrong is None else _find(_table("keywords", "KEYWORDS")[""], wrong[1])


def keyword_advice(package: str, keyword: str, accepted: list[str]) -> str:
    """Returns what to write for an unknown keyword of what is called in a package."""
    tables = _table("keywords", "KEYWORDS")
    for part in (package, ""):
        text = _find(tables.get(part, {}), keyword)
        if text is None:
            continue
        # The same word may be another one's here, and this callable may have neither.
        named = re.findall(r"`(\w+)=`", text) if text.startswith("write `") else ()
        if {*named} <= {*accepted}:
            return str(text)
    close = close_names(keyword, accepted)
    if close:
        return f"did you mean {' or '.join(f'{one}=' for one in close)}?"
    return f"it takes {', '.join(accepted)}" if accepted else "it takes no keyword arguments"


def _parameters(function: Any) -> list[str]:
    return [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.name != "self"
    ]


def _constructor_parameters(cls: type) -> list[str]:
    """The keyword arguments of a class: those of bases too, while constructors hand on the rest."""
    names: list[str] = []
    for base in cls.__mro__:
        function = vars(base).get("__init__")
        if function is None:
            continue
        names += [name for name in _parameters(function) if name not in names]
        kinds = {p.kind for p in inspect.signature(function).parameters.values()}
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            break
    return names
