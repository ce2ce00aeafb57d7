"""Configurations: the constructor arguments of an object as plain data, to make it again.

A configuration is data that JSON can hold: the class and the arguments of its constructor. Reading
one imports nothing and runs no code from it: classes are looked up among those that exist,
functions among the ops, the recipes, and the names that the caller passes.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, ParamSpec, Self, TypeAlias, TypeVar, cast

import numpy as np

from pullback import dtypes, errors
from pullback._hints import answering
from pullback._operators import OPERATORS
from pullback.random import Generator
from pullback.state.objects import join

__all__ = ["Configurable", "recipe"]

P = ParamSpec("P")
R = TypeVar("R", bound=Callable[..., Any])
C = TypeVar("C", bound="Configurable")
#: Data that JSON can hold.
Data: TypeAlias = Any
Config: TypeAlias = dict[str, Data]

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
#: Types that stand for dtypes.
_DTYPES = {bool, int, float, complex, *[dtype.type for dtype in dtypes.ALL]}
#: Classes and recipes by name.
_CLASSES: weakref.WeakValueDictionary[str, type[Configurable]] = weakref.WeakValueDictionary()
_RECIPES: dict[str, Callable[..., Any]] = {}


class ConstructorCall:
    """The arguments that an object was made with."""

    opaque_state = True
    # Layers among the arguments are found in the attributes that hold them.
    __slots__ = ("args", "kwargs")

    def __init__(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        self.args = args
        self.kwargs = dict(kwargs)


class Configurable:
    """An object that records the arguments of its constructor, and can be made again from them."""

    _made: ConstructorCall

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """Records the arguments; constructors of subclasses need not."""
        made = super().__new__(cls)
        object.__setattr__(made, "_made", ConstructorCall(args, kwargs))
        made._begin()
        return made

    def _begin(self) -> None:
        """Runs before every constructor; bases that prepare an object override it."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        _CLASSES[name_of(cls)] = cls

    def constructor_arguments(self) -> dict[str, Any]:
        """Returns the arguments of the constructor by name, defaults included."""
        made = self._made
        bound = inspect.signature(type(self).__init__).bind(self, *made.args, **made.kwargs)
        bound.apply_defaults()
        arguments = dict(list(bound.arguments.items())[1:])
        for parameter in inspect.signature(type(self).__init__).parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                arguments |= arguments.pop(parameter.name, {})
        return arguments

    def made_again(self: C, **changes: object) -> C:
        """Makes another object of this class with the same arguments, except for `changes`."""
        return self.from_constructor_arguments(self.constructor_arguments() | changes)

    def get_config(self) -> Config:
        """Returns the class and the arguments of the constructor, as plain data.

        An object that occurs twice is written once; {"shared": path} refers to it.

        >>> pb.layers.Flatten(name="flat").get_config()
        {'class': 'pullback.layers.Flatten', 'name': 'flat'}

        Raises:
            InputValueError: for an argument that cannot be written as data, such as a lambda.
        """
        config: Config = _Encoder().encode(self, "")
        return config

    @classmethod
    def from_config(
        cls: type[C], config: Mapping[str, Any], *, custom: Mapping[str, object] | None = None
    ) -> C:
        """Makes an object of this class, or of a subclass, from a configuration.

        Args:
            config: a configuration from `get_config`. It is data: nothing is imported, and only
                constructors of subclasses of this library's bases are called.
            custom: functions and classes by their names in the configuration.

        >>> layer = pb.layers.Dense(3, activation="relu")
        >>> pb.layers.Layer.from_config(layer.get_config()).units
        3

        Raises:
            InputTypeError: for what is not a dict.
            InputValueError: for an unknown class or function, or another configuration.
        """
        if not isinstance(config, Mapping):
            raise errors.InputTypeError(
                f"config must be a dict from get_config(), got {type(config).__name__}"
            )
        if not isinstance(custom, (Mapping, NoneType)):
            raise errors.InputTypeError(
                f"custom must be a dict of functions and classes by name, got "
                f"{type(custom).__name__}"
            )
        made = _Decoder(custom or {}).decode(dict(config), "")
        if not isinstance(made, cls):
            raise errors.InputValueError(
                f"expected the configuration of a {cls.__name__}, got that of a "
                f"{type(made).__name__}; call {type(made).__name__}.from_config"
            )
        return made

    @classmethod
    def from_constructor_arguments(cls: type[C], arguments: dict[str, Any]) -> C:
        """Makes an object from its `constructor_arguments`."""
        return make(cls, arguments)


def make(cls: type[C], arguments: Mapping[str, Any]) -> C:
    """Calls a class with arguments by name, including those that are positional."""
    rest = dict(arguments)
    args: list[object] = []
    for parameter in list(inspect.signature(cls.__init__).parameters.values())[1:]:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            args += rest.pop(parameter.name, ())
        elif parameter.kind in _BY_POSITION and parameter.name in rest:
            args.append(rest.pop(parameter.name))
        elif parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            # The arguments after it must be passed by name.
            break
    return cls(*args, **rest)


class Made:
    """A function that a factory made; it is pickled as the call of the factory."""

    #: It holds no state, as functions do not.
    opaque_state = True

    __slots__ = ("__weakref__", "__wrapped__", "_factory", "recipe")

    def __init__(self, function: Any, factory: object, recipe: tuple[str, dict[str, Any]]) -> None:
        self.__wrapped__ = function
        self._factory = factory
        #: The name of the factory, and its arguments.
        self.recipe = recipe

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __copy__(self) -> Made:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Made:
        # As functions are, which do not change.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _called, (self._factory, self.recipe[1])


def _called(factory: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    return factory(**arguments)


def recipe(factory: Callable[P, R]) -> Callable[P, R]:
    """Allows the functions that `factory` makes in configurations."""
    name = f"{factory.__module__}.{factory.__qualname__}"
    factory = answering(factory)

    @functools.wraps(factory)
    def recorded(*args: P.args, **kwargs: P.kwargs) -> R:
        made = factory(*args, **kwargs)  # first: its own error names it
        arguments = dict(inspect.signature(factory).bind(*args, **kwargs).arguments)
        return cast("R", Made(made, recorded, (name, arguments)))

    _RECIPES[name] = recorded
    return recorded


def name_of(cls: type) -> str:
    """Returns the name of a class; for this library's own its public name."""
    module = cls.__module__
    if module.startswith("pullback."):
        module = ".".join(module.split(".")[:2])
    return f"{module}.{cls.__qualname__}"


class _Encoder:
    """Writes objects as plain data."""

    def __init__(self) -> None:
        self.seen: dict[int, str] = {}
        self.kept: list[object] = []

    def encode(self, value: object, path: str) -> Data:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, Configurable):
            return self._object(value, path)
        if isinstance(value, (list, tuple)) and not hasattr(value, "config_name"):
            return [self.encode(item, join(path, i)) for i, item in enumerate(value)]
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, (str, int)):
                    raise errors.InputValueError(
                        f"{path or 'the object'}: a dict with {key!r} as a key cannot be in a "
                        f"configuration; use strings or integers"
                    )
            return {"dict": self._items(value, path)}
        return self._leaf(value, path)

    def _items(self, value: Mapping[str, object], path: str) -> Config:
        return {name: self.encode(item, join(path, name)) for name, item in value.items()}

    def _object(self, value: Configurable, path: str) -> Config:
        if id(value) in self.seen:
            return {"shared": self.seen[id(value)]}
        self.seen[id(value)] = path
        self.kept.append(value)
        return {"class": name_of(type(value)), **self._items(value.constructor_arguments(), path)}

    def _leaf(self, value: Any, path: str) -> Data:
        if hasattr(value, "config_name"):
            return value.config_name
        if isinstance(value, (np.dtype, dtypes.NamedDType)) or (
            isinstance(value, type) and value in _DTYPES
        ):
            return dtypes.as_dtype(value).name
        if isinstance(value, Generator):
            return {"generator": value.checkpoint_state()}
        made = getattr(value, "recipe", None)
        if made is not None:
            return {"recipe": made[0], **self._items(made[1], path)}
        if hasattr(value, "item") and getattr(value, "shape", None) == ():
            return value.item()
        name = getattr(value, "__name__", "")
        if vars(OPERATORS).get(name) is value:
            return {"function": name}
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
        if not callable(value) or "<" in name or name[0] == "." or name[-1] == ".":
            raise errors.InputValueError(
                f"{path or 'the object'}: {value!r} cannot be in a configuration; use numbers, "
                f"strings, layers, ops, or a named function, defined in a module"
            )
        return {"function": name}


class _Decoder:
    """Makes objects from plain data."""

    def __init__(self, custom: Mapping[str, object]) -> None:
        self.custom = custom
        self.made: dict[str, object] = {}

    def decode(self, value: Data, path: str) -> Any:
        if isinstance(value, list):
            return [self.decode(item, join(path, i)) for i, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        kinds = ("class", "shared", "dict", "generator", "recipe", "function")
        kind = next((kind for kind in kinds if kind in value), None)
        if kind is None:
            raise errors.InputValueError(
                f"{path or 'the object'}: {value!r} is not a configuration; use get_config()"
            )
        rest = {name: item for name, item in value.items() if name != kind}
        made = getattr(self, f"_{kind}")(value[kind], rest, path)
        self.made[path] = made
        return made

    def _items(self, items: Mapping[str, Any], path: str) -> dict[str, Any]:
        return {name: self.decode(item, join(path, name)) for name, item in items.items()}

    def _class(self, name: str, rest: Config, path: str) -> object:
        cls = self._named(name, _CLASSES, path, "class")
        return cls.from_constructor_arguments(self._items(rest, path))

    def _shared(self, name: str, rest: Config, path: str) -> object:
        if name not in self.made:
            raise errors.InputValueError(
                f"{path}: no object at {name!r} to share; it must come before this one"
            )
        return self.made[name]

    def _dict(self, items: Config, rest: Config, path: str) -> dict[str, object]:
        return self._items(items, path)

    def _generator(self, state: Mapping[str, str], rest: Config, path: str) -> Generator:
        generator = Generator(0)
        generator.restore_state(state)
        return generator

    def _recipe(self, name: str, rest: Config, path: str) -> object:
        return self._named(name, _RECIPES, path, "recipe")(**self._items(rest, path))

    def _function(self, name: str, rest: Config, path: str) -> object:
        return self._named(name, vars(OPERATORS), path, "op")

    def _named(self, name: str, known: Mapping[str, Any], path: str, kind: str) -> Any:
        short = name.rpartition(".")[2]
        for names, key in ((self.custom, name), (self.custom, short), (known, name)):
            if key in names:
                return names[key]
        fix = "; define or import it first, or" if kind == "class" else ";"
        raise errors.InputValueError(
            f"{path or 'the object'}: unknown {kind} {name!r}{fix} pass it: "
            f"from_config(config, custom={{{short!r}: {short}}})"
        )
