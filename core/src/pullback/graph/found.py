"""The programs of a captured function, found by the key of a call's arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple, Self

import numpy as np

from pullback._codegen.source import Source
from pullback._dispatch.recording import RECORDING
from pullback._symbols import SharedCount
from pullback.graph.parameters import ABSENT, FunctionParameters
from pullback.graph.program import MISS, Program, no_other
from pullback.graph.signature import (
    DICTS,
    KeyCode,
    Signature,
    equal,
    key_of,
    parameters_of,
)
from pullback.shapes import Shape
from pullback.tensor import Tensor

#: Where the programs of a signature fail to fit so many times, one after the other, only every
#: such call asks them.
PATIENCE = 8
#: Where a function has more signatures than programs, one is made for a signature that has been
#: called so often: making it takes as long as some fifty small calls.
OFTEN = 64


class Caller(partial[Any]):
    """A captured function, as its programs know it: what it tries first at a call.

    What a call runs is the function of the partial: the code of the program that is tried first, or
    `call`. Python calls a partial faster than any other object that can have attributes.

    Args:
        parameters: those of the function.
        enters: whether a call may begin with the code of a program.
    """

    def __new__(cls, *_: object, **__: object) -> Self:
        """Makes the partial, of a function that is set later."""
        return super().__new__(cls, _nothing)

    def __init__(self, parameters: FunctionParameters, *, enters: bool) -> None:
        self._parameters = parameters
        self._enters = enters
        #: The program that a look-up found last.
        self.last: Program | None = None
        #: What is tried first: the program that ran last, or the form of a late call.
        self.first: Callable[..., Any]
        self.try_first(_nothing)

    def try_first(self, first: Callable[..., Any]) -> None:
        """Sets what is tried first at a call, which returns MISS for one that it is not for."""
        self.first = first
        _set_call(self, self.call)

    def prefer(
        self,
        run: FunctionType,
        direct: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
    ) -> None:
        """Has generated code tried first at a call, and be the call where that may be.

        Args:
            run: the code of a program or of a form. While anything records, and for calls that it
                is not made for, `call` does them.
            direct: makes what runs in place of that code.
        """
        self.first = run
        if self._enters:
            # With `run`, which keeps the text for tracebacks.
            names = {
                **run.__globals__, "recorded": RECORDING, "missed": self._missed_first, "run": run,
                "entered": True,
            }  # fmt: skip
            entry = FunctionType(run.__code__.replace(), names, run.__name__, run.__defaults__)
            entry.__kwdefaults__ = run.__kwdefaults__
            _set_call(self, entry if direct is None else direct(entry))

    def _missed_first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = self._parameters.given(args, kwargs)
        return self.call(*args, **kwargs)

    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Does a call, in whatever way."""
        raise NotImplementedError

    def miss(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Does a call for which there is no program."""
        raise NotImplementedError

    def run_eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Does a call op by op."""
        raise NotImplementedError


def _set_call(caller: Caller, function: Callable[..., Any]) -> None:
    state: Any = caller  # the stubs leave out how a partial is restored
    state.__setstate__((function, (), {}, caller.__dict__))


def _nothing(*args: Any, **kwargs: Any) -> Any:
    """Is tried first at a call where nothing has been found yet."""
    return MISS


class KnownSignature:
    """A signature that has been called: its programs, the latest first."""

    def __init__(self, owner: Caller, signature: Signature) -> None:
        self._owner = owner
        self.signature = signature
        self.programs: list[Program] = []
        #: True if the last trace made something that only later calls find.
        self.made = False
        #: True for calls that a tape outside must record op by op.
        self.apart = False
        #: True if there will be no further program.
        self.full = False
        #: True if the function has more signatures than programs.
        self.late = False
        #: Calls in a row for which there was no program.
        self.missed = 0

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the function with arguments of the signature."""
        if not self.full or self.missed < PATIENCE or self.missed % PATIENCE == 0:
            for program in self.programs:
                result = program.run(*args, **kwargs)
                if result is not MISS:
                    self.missed = 0
                    # Only if it comes again: where signatures take turns, a look-up is faster.
                    if self._owner.last is program:
                        self._owner.prefer(program.run, program.direct)
                    self._owner.last = program
                    return result
        self.missed += 1
        if self.full or self.apart or (self.late and self.missed % OFTEN):
            return self._owner.run_eagerly(args, kwargs)
        return self._owner.miss(args, kwargs)


class SignatureForm:
    """The signatures of one form, by their keys.

    `run` is generated: it takes the arguments apart, and finds the entry. It returns MISS for
    arguments of another form.

    Args:
        owner: the function.
        f: what it calls op by op.
        signature: one of the form.
    """

    def __init__(self, owner: Caller, f: Callable[..., Any], signature: Signature) -> None:
        self.entries: dict[Any, KnownSignature] = {}
        #: The shapes of tensors and arrays.
        self._shapes: set[Shape] = set()
        self.leaves = signature.without_values().leaves()
        source = Source(
            "find",
            parameters_of(signature),
            {
                "ABSENT": ABSENT, "missed": no_other, "recorded": SharedCount(),
                "Tensor": Tensor, "equal": equal, "key_of": key_of,
                "get": self.entries.get, "miss": owner.miss, "eagerly": owner.run_eagerly, "f": f,
                "full": False, "entered": False, "shapes": self._shapes,
            },
        )  # fmt: skip
        code = KeyCode(source, signature)
        source.line("if recorded.count:", f"    {code.miss}")
        converts = any(leaf.kind == "array" for leaf in signature.leaves())
        late = f"eagerly({code.args}, {code.kwargs})" if converts else f"f({code.call})"
        if code.arrays:  # a faster test than that of the key
            is_late = " or ".join(f"{array}.shape not in shapes" for array in code.arrays)
            with source.block(f"if full and ({is_late}):"):
                source.line("if not entered:", "    prefer()", f"return {late}")
        with source.block(f"if (entry := get({code.key})) is not None:"):
            source.line(f"return entry.run({code.args}, {code.kwargs})")
        source.line(f"return {late} if full else miss({code.args}, {code.kwargs})")
        self.run: FunctionType = source.compile("the programs of a captured function", keep=True)
        if same := signature.parameters:
            same.named(self.run)
        # Has the next call begin with the look-up: late calls come in a row.
        self.run.__globals__["prefer"] = partial(owner.prefer, self.run)

    def add(self, owner: Caller, signature: Signature) -> KnownSignature:
        """Adds a signature."""
        entry = self.entries[signature.key] = KnownSignature(owner, signature.without_values())
        for leaf in signature.leaves():
            if leaf.kind in ("tensor", "array"):
                self._shapes.add((leaf.value._array if leaf.kind == "tensor" else leaf.value).shape)
        return entry

    def fill(self) -> None:
        """Has calls with other signatures run op by op from now on."""
        self.run.__globals__["full"] = True
        for entry in self.entries.values():
            entry.late = True


class Options(NamedTuple):
    """Options of `pb.function`, whose docstring says what they mean."""

    strict: bool
    limit: int
    check: bool
    compare: bool


class Kept(tuple[Any, Any]):
    """The captured method that an instance keeps: no part of the instance's state."""

    opaque_state = True

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ((None, None),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Kept:
        return Kept((None, None))


def holds_arrays(value: object) -> bool:
    """Returns whether a value is an argument that has NumPy arrays in it."""
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, (list, tuple)):
        return any(map(holds_arrays, value))
    return type(value) in DICTS and any(map(holds_arrays, value.values()))  # type: ignore[attr-defined]
