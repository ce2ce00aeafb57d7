"""A Python function that is written line by line, compiled, and kept for whoever wants to read it.

Generated code is shown like any other: tracebacks quote its lines and debuggers step through them,
because `linecache` knows the text for as long as the code lives.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import weakref
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from math import isfinite
from types import CodeType, FunctionType, NoneType
from typing import Any

__all__ = ["Source", "signature_of", "text_of", "tuple_of"]

_INDENT = "    "
#: The number of characters up to which the code of a text is kept.
_LARGEST = 1 << 15
_NUMBERS = itertools.count(1)


class Source:
    """A function that is being written.

    Args:
        name: its name.
        parameters: what stands between the parentheses of `def`.
        names: its globals; constants are added to them.

    >>> source = Source("double", "x")
    >>> with source.block("if x is None:"):
    ...     source.line("return None")
    >>> source.line(f"return x * {source.constant(2)}")
    >>> source.compile()(4)
    8
    >>> print(source)
    def double(x):
        if x is None:
            return None
        return x * k0
    """

    def __init__(
        self, name: str, parameters: str = "", names: MutableMapping[str, Any] | None = None
    ) -> None:
        self.name = name
        self.names: dict[str, Any] = {} if names is None else names  # type: ignore[assignment]
        # A module of this package, as of the code that it stands for: filters of warnings ask.
        self.names.setdefault("__name__", __name__)
        self._lines = [f"def {name}({parameters}):"]
        self._margin = _INDENT
        self._constants = 0

    def __str__(self) -> str:
        return "\n".join(self._lines)

    @property
    def count(self) -> int:
        """The number of lines so far: that of the last one in a traceback."""
        return len(self._lines)

    def line(self, *texts: str) -> None:
        """Adds lines at the present depth."""
        margin, lines = self._margin, self._lines
        for text in texts:
            lines.append(margin + text)

    def lines(self, texts: Iterable[str]) -> None:
        """Adds lines at the present depth."""
        self.line(*texts)

    def write(self, text: str) -> None:
        """Adds the lines of a template, with the margin that they have in common taken off.

        >>> source = Source("first", "items")
        >>> source.write('''
        ...     for item in items:
        ...         return item
        ... ''')
        >>> source.compile()("ab")
        'a'
        """
        rows = [row for row in text.splitlines() if not row.isspace() and row]
        margin = min(len(row) - len(row.lstrip()) for row in rows)
        self.line(*(row[margin:] for row in rows))

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Adds a line such as "if x:"; what is written inside `with` is indented under it."""
        self.line(head)
        self._margin += _INDENT
        try:
            yield
        finally:
            self._margin = self._margin.removesuffix(_INDENT)

    def constant(self, value: Any) -> str:
        """The text by which the code finds a value: a name, but for None and booleans."""
        if value is None or value is True or value is False:
            return repr(value)
        names = self.names
        while (name := f"k{self._constants}") in names:
            self._constants += 1
        names[name] = value
        self._constants += 1
        return name

    def compile(self, label: str = "", *, keep: bool = False) -> FunctionType:
        """The function.

        Args:
            label: what tracebacks call the file; the function's name if not given.
            keep: whether to keep the code for a function of the same text, as a captured step has
                with another model or optimizer: compiling is a large part of making a program.
        """
        text, label = str(self), label or self.name
        made = _kept if keep and len(text) <= _LARGEST else _compiled
        scope: dict[str, Any] = {}
        exec(made(text, label, self.name), self.names, scope)
        function = scope[self.name]
        assert isinstance(function, FunctionType)
        return function


def _compiled(text: str, label: str, name: str) -> CodeType:
    """The code that defines a function."""
    file = f"<pullback {label} #{next(_NUMBERS)}>"
    definition = compile(text, file, "exec")
    code = next(c for c in definition.co_consts if isinstance(c, CodeType) and c.co_name == name)
    # Without a time of change, `linecache.checkcache` keeps the entry.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    weakref.finalize(code, linecache.cache.pop, file, None)
    return definition


_kept = functools.lru_cache(maxsize=128)(_compiled)


def text_of(code: CodeType | FunctionType) -> str:
    """The text of a generated function; "" for one that was not generated."""
    file = (code if isinstance(code, CodeType) else code.__code__).co_filename
    return "".join(linecache.getlines(file)) if file.startswith("<pullback ") else ""


def tuple_of(items: Iterable[str]) -> str:
    """The text of a tuple.

    >>> tuple_of(["a", "b"]), tuple_of(["a"]), tuple_of([])
    ('(a, b)', '(a,)', '()')
    """
    parts = list(items)
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def signature_of(function: FunctionType, more: Iterable[str] = ()) -> str:
    """The parameters of a function as text, with the defaults that have a literal.

    Args:
        function: the function.
        more: names of further parameters, behind the positional ones, with `...` as default.

    >>> from pullback._codegen.source import signature_of
    >>> def scale(x, /, factor=2, *, name=None): ...
    >>> signature_of(scale)
    'x, /, factor=2, *, name=None'
    >>> signature_of(scale, ["by"])
    'x, /, factor=2, by=..., *, name=None'
    """
    code, defaults = function.__code__, function.__defaults__ or ()
    keyword_defaults = function.__kwdefaults__ or {}
    names, positional = code.co_varnames, code.co_argcount
    first = positional - len(defaults)
    parts: list[str] = []
    for i in range(positional):
        parts.append(names[i] + (_default(defaults[i - first]) if i >= first else ""))
        if i + 1 == code.co_posonlyargcount:
            parts.append("/")
    parts += [f"{name}=..." for name in more]
    if code.co_kwonlyargcount:
        parts.append("*")
    for name in names[positional : positional + code.co_kwonlyargcount]:
        has_default = name in keyword_defaults
        parts.append(name + (_default(keyword_defaults[name]) if has_default else ""))
    return ", ".join(parts)


def _default(value: object) -> str:
    literal = type(value) in (bool, int, str, NoneType)
    return f"={value!r}" if literal or (type(value) is float and isfinite(value)) else "=..."
