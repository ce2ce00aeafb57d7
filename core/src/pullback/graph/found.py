"""The programs of a captured function, found by the key of a call's arguments."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from pullback._codegen.source import Source
from pullback.graph.program import MISS, Program, no_other
from pullback.graph.signature import (
    ABSENT,
    KeyCode,
    Signature,
    equal,
    given,
    key_of,
    parameters_of,
)
from pullback.tensor import Tensor

#: Where the programs of a signature fail to fit so many times, one after the other, only every
#: such call asks them.
PATIENCE = 8
#: Where a function has more signatures than programs, one is made for a signature that has been
#: called so often: making it takes as long as some fifty small calls.
OFTEN = 64


class Caller:
    """A captured function, as its programs know it: what it tries first at a call.

    Args:
        enters: whether a call may begin with the code of a program.
    """

    #: `__call__` is what a call runs: the code of the program that is tried first, without a method
    #: in between; or `call`.
    __slots__ = ("__call__", "__dict__", "__weakref__")

    def __init__(self, *, enters: bool) -> None:
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

    def prefer(self, program: Program) -> None:
        """Has a program tried first at a call."""
        self.first = program.run
        if self._enters:
            _set_call(self, program.entry(self._missed_first))

    def _missed_first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.call(*given(args), **kwargs)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Does a call, in whatever way."""
        raise NotImplementedError

    def miss(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Does a call for which there is no program."""
        raise NotImplementedError

    def run_eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Does a call op by op."""
        raise NotImplementedError


_set_call = Caller.__dict__["__call__"].__set__


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
                        self._owner.prefer(program)
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
        self._shapes: set[Any] = set()
        self.leaves = signature.without_values().leaves()
        source = Source(
            "find",
            parameters_of(signature),
            {
                "ABSENT": ABSENT, "missed": no_other,
                "Tensor": Tensor, "equal": equal, "key_of": key_of,
                "get": self.entries.get, "miss": owner.miss, "eagerly": owner.run_eagerly, "f": f,
                "full": False, "shapes": self._shapes,
            },
        )  # fmt: skip
        code = KeyCode(source, signature)
        converts = any(leaf.kind == "array" for leaf in signature.leaves())
        late = f"eagerly({code.args}, kwargs)" if converts else f"f({code.call})"
        if code.shapes:  # a faster test than that of the key
            source.line(f"if full and {code.shapes[0]} not in shapes:", f"    return {late}")
        with source.block(f"if (entry := get({code.key})) is not None:"):
            source.line(f"return entry.run({code.args}, kwargs)")
        source.line(f"return {late} if full else miss({code.args}, kwargs)")
        self.run: FunctionType = source.compile("the programs of a captured function", keep=True)

    def add(self, owner: Caller, signature: Signature) -> KnownSignature:
        """Adds a signature."""
        entry = self.entries[signature.key] = KnownSignature(owner, signature.without_values())
        self._shapes.update(
            leaf.key[0] for leaf in signature.leaves() if leaf.kind in ("tensor", "array")
        )
        return entry

    def fill(self) -> None:
        """Has calls with other signatures run op by op from now on."""
        self.run.__globals__["full"] = True
        for entry in self.entries.values():
            entry.late = True
