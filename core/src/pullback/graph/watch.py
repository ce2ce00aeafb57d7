"""Follows the Python code that a trace runs, and says to `Reads` what it reads.

While a trace runs, the interpreter calls `Watch` before each instruction of each frame that is not
the framework's: of the user's functions, of installed packages and of Python's library alike. For
each frame there is a stack beside the interpreter's, with the values that are seen: those of names,
constants, attributes, items and results of functions in Python. What C code makes is `Unknown`
until it has a name. So what a function reads is what it has read in this run, and nothing else.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import inspect
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    TracebackType,
)
from typing import Any

import numpy as np

from pullback._dispatch.recording import LOCAL
from pullback._symbols import Break
from pullback.graph.host import (
    CLOCK,
    IMPORTS,
    INERT,
    LOST,
    UNKNOWN,
    Unknown,
    array_type,
    find,
    in_python,
    is_a,
    is_foreign_array,
    is_framework_code,
    is_input,
    is_iterator,
    is_plain,
    key_of,
    outer_of,
)
from pullback.graph.instructions import NULL, steps_of, super_of
from pullback.graph.reads import Reads

#: Names of attributes, each of the value of the one before.
Chains = tuple[tuple[str, ...], ...]
#: Files of the framework whose methods read attributes of a layer; but for what calls layers.
_LAYERS = str(Path(__file__).parents[1] / "layers")
_MACHINERY = ("layer.py", "calls.py", "loss_terms.py", "policy.py", "symbolic.py", "functional.py")
#: The framework's code that has been met, by identity, as hashing code takes long; and what it
#: reads of its first argument. That of generated functions may end, and is kept while a trace runs.
_FRAMEWORK: dict[int, tuple[CodeType, Chains]] = {}
#: Functions that `gc.freeze` has set aside, by their code, as far as they have been looked for: to
#: look sets aside all that is alive then.
_FROZEN: weakref.WeakKeyDictionary[CodeType, list[weakref.ref[FunctionType]]]
_FROZEN = weakref.WeakKeyDictionary()
#: Modules that open files to show lines of programs.
_QUIET = {"linecache", "tokenize", "traceback", "warnings", "inspect"}
#: What `functools.lru_cache` gives.
_CACHED = type(functools.cache(len))
_OPTIMIZED = inspect.CO_OPTIMIZED
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Watch:
    """Follows one trace.

    Args:
        places: what is told what is read.
    """

    def __init__(self, places: Reads) -> None:
        self.places = places
        self._states: dict[FrameType, Followed] = {}
        #: The code of functions that the trace makes.
        self.made: set[CodeType] = set()
        #: The code of functions that are not found: `gc.freeze` has set them aside. One search for
        #: each, as that takes all of the memory.
        self.unheld: set[CodeType] = set()
        #: The frame whose instruction runs, until that calls something.
        self.caller: Followed | None = None
        #: The framework's code, which is not followed.
        self._framework = dict(_FRAMEWORK)
        #: Whether instructions have run that were not seen.
        self.missed = False
        self._before: Any = None
        self._outer: object = None

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        state = LOCAL.state
        self._outer, state.follower = state.follower, None
        called = self._called
        if sys.version_info < (3, 12):
            # Later ones look at each function anew whenever that is set.
            state.follower = called
        sys.settrace(called)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A debugger that the function has started sees what follows instead; and an error of an
        # instruction that the function has caught is the last that was seen.
        self.missed |= error is None and sys.gettrace() != self._called
        sys.settrace(self._before)
        LOCAL.state.follower = self._outer
        self._states.clear()

    def _called(self, frame: FrameType, event: str, arg: object) -> Any:
        """Follows a frame that begins, or a generator that goes on."""
        code = frame.f_code
        known = self._framework.get(id(code))
        if known is not None:
            if known[1]:
                self.places.chains(frame.f_locals[code.co_varnames[0]], known[1])
            frame.f_trace_lines = False
            caller = self.caller
            if caller is None:
                return None
            self.caller = None
            return caller.result_of_framework
        state = self._states.get(frame)
        if state is None:
            if is_framework_code(code, frame.f_globals):
                self._framework[id(code)] = code, _chains_of(code) if _is_of_layer(code) else ()
                if not code.co_filename.startswith("<"):
                    _FRAMEWORK[id(code)] = self._framework[id(code)]
                return self._called(frame, event, arg)
            if code.co_filename == contextlib.__file__ and _is_of_framework(frame):
                return None
            if gc.callbacks and _is_of_collector(code):
                return None
            back = self.state_of(frame.f_back)
            if LOCAL.state.capture is None or (back is None and self._is_apart(frame)):
                return None
            state = self._states[frame] = Followed(self, frame, back)
        self.caller = None
        return state.step

    def _is_apart(self, frame: FrameType) -> bool:
        """Returns whether a frame is no part of the function.

        The framework's own, and what an import or the collector of garbage calls, is none.
        """
        if is_library(frame.f_globals) and frame.f_code not in self.places.functions:
            return True
        # The framework asks an array of the backend, such as for its shape.
        code = frame.f_code
        first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        capture: Any = LOCAL.state.capture
        if is_foreign_array(type(first)) and type(first) is array_type(capture.real_device):
            return True
        at = frame.f_back
        while at is not None and at not in self._states:
            if at.f_code.co_filename.startswith(IMPORTS) or _is_of_collector(at.f_code):
                return True
            at = at.f_back
        return False

    def ended(self, frame: FrameType) -> None:
        """Forgets a frame."""
        self._states.pop(frame, None)

    def state_of(self, frame: FrameType | None) -> Followed | None:
        """Returns what is known of a frame."""
        return None if frame is None else self._states.get(frame)


class Followed:
    """A frame, and the stack beside it: what is known of the values on it."""

    def __init__(self, watch: Watch, frame: FrameType, back: Followed | None) -> None:
        self.watch = watch
        self.places, self.made = watch.places, watch.made
        self.stack: list[Any] = []
        #: What functions that an instruction calls have returned.
        self.returned: list[Any] = []
        #: Whether the last of them is the result of the instruction.
        self.direct = False
        #: The function that the next instruction calls.
        self.callee: Any = None
        self.names: tuple[str, ...] = ()
        #: What to do when the place of the next instruction is known.
        self.branch: Callable[[int], None] | None = None
        code = frame.f_code
        if sys.version_info[:2] == (3, 12) and code.co_varnames and not code.co_flags & _OPTIMIZED:
            # This Python forgets the names of the comprehension when it is asked for any.
            raise Break(
                "has a comprehension in a class or in the text of exec",
                "write a loop there, or make the class outside of the function",
            )
        self._first, self.steps = steps_of(code)
        self._is_seen = False
        #: The functions from outside that the frame may run.
        self.functions = self._find(frame, back)
        self._begin(frame, back)

    def _begin(self, frame: FrameType, back: Followed | None) -> None:
        """Notes where the arguments come from."""
        code, places = frame.f_code, self.places
        first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if code.co_name == "__init__":
            places.make(first)
        if back is None and code not in self.made:
            count = code.co_argcount + code.co_kwonlyargcount
            for name in code.co_varnames[:count]:
                value = frame.f_locals.get(name)
                if not is_a(value, (list, dict, set)):
                    places.register(value, type(value).__name__ if value is first else name)
        for function in self.functions:
            places.function(function)

    def _find(self, frame: FrameType, back: Followed | None) -> list[FunctionType]:
        """The functions from outside that the frame may run."""
        code, places = frame.f_code, self.places
        known = places.functions.get(code)
        if back is not None and back.callee is not None and back.callee.__code__ is code:
            return [back.callee] if places.is_outside(back.callee) else []
        if code.co_argcount:
            first = frame.f_locals.get(code.co_varnames[0])
            # A named tuple is made by a lambda.
            name = code.co_name if code.co_name != "<lambda>" else "__new__"
            for kind in (type(first), first) if is_a(first, type) else (type(first),):
                found = find(kind, name)
                function = None if found is None else found.value
                if is_a(function, property):
                    function = function.fget
                elif is_a(function, (classmethod, staticmethod)):
                    function = function.__func__
                if is_a(function, FunctionType) and function.__code__ is code:
                    places.special_of(kind, name)
                    return [places.register(function, function.__name__)]
        if known is not None:
            return known
        if code in self.made or code in self.watch.unheld or code.co_name == "<module>":
            return []
        # Called by code that is not followed, which holds it.
        holders = _holders(code)
        if not holders:
            holders = self._frozen_holders(code)
        if not holders:
            self.watch.unheld.add(code)
        return [places.register(function, function.__name__) for function in holders]

    def _frozen_holders(self, code: CodeType) -> list[FunctionType]:
        """The functions that have some code, also those that `gc.freeze` has set aside."""
        known = [function for held in _FROZEN.get(code, ()) if (function := held()) is not None]
        # All that is set aside is gone through to count it.
        if known or not gc.get_freeze_count():
            return known
        follower = sys.gettrace()
        # What ends here, garbage that is not to be set aside as well, is no part of the function.
        sys.settrace(None)
        # What was set aside already is not collected: that takes as long as there is much of it.
        gc.collect()
        gc.unfreeze()
        holders = _holders(code)
        gc.freeze()
        sys.settrace(follower)
        _FROZEN[code] = [weakref.ref(function) for function in holders]
        return holders

    # Events ------------------------------------------------------------------------------------

    def step(self, frame: FrameType, event: str, arg: object) -> Any:
        """Is called by the interpreter."""
        if event == "opcode":
            at, watch = frame.f_lasti, self.watch
            if not self._is_seen:
                self._is_seen = True
                watch.missed |= at > self._first
            if watch.missed:
                return self.step  # what is known is not enough: the function runs once more
            if self.branch is not None:
                branch, self.branch = self.branch, None
                branch(at)
            if self.returned:
                self.take_result()
            run, argument, self.direct, depth = self.steps[at]
            if depth is not None:
                # An exception has come here.
                self.fit(depth)
            watch.caller = self
            if run is not None:
                run(self, frame, argument)
        elif event == "line":
            # Asked for earlier, from Python 3.13 on they come from the next call of the code on.
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
        elif event == "return":
            self.watch.caller = None
            self.watch.missed |= not self._is_seen
            back = self.watch.state_of(frame.f_back)
            if back is not None:
                code = frame.f_code
                is_init = code.co_name == "__init__" and code.co_argcount
                back.returned.append(frame.f_locals.get(code.co_varnames[0]) if is_init else arg)
            if not frame.f_code.co_flags & _GENERATORS:
                self.watch.ended(frame)
        return self.step

    def result_of_framework(self, frame: FrameType, event: str, arg: object) -> Any:
        """Is called for frames of the framework that this one calls."""
        if event == "return" and type(arg) in INERT:
            self.returned.append(arg)
        elif event == "return":
            parts = [arg]
            if is_a(arg, (list, tuple)):
                parts.extend(arg)  # a tuple may have an addition of its own
            elif is_a(arg, dict):
                parts += arg.values()
            for part in parts:
                if not is_a(part, (list, dict, set, tuple)) and not is_iterator(part):
                    self.places.register(part, frame.f_code.co_name)
            self.returned.append(arg)
        return self.result_of_framework

    # The stack ---------------------------------------------------------------------------------

    def take_result(self) -> None:
        """Has the result of the last instruction where it was unknown."""
        returned, self.returned = self.returned, []
        # From 3.13 on, what lies beside a function is on top of the attribute that is to be called.
        at = -2 if self.stack and self.stack[-1] is NULL else -1
        if len(self.stack) < -at or type(self.stack[at]) is not Unknown or self.stack[at] is NULL:
            return
        if self.direct and returned[-1] is not NotImplemented:
            self.stack[at] = returned[-1]
        else:
            found = [value for value in returned if self._is_outside(value)]
            # And what new objects among them hold, such as the list of a comprehension.
            found += [x for value in returned for x in self.places.given(value)]
            self.stack[at] = Unknown((*self.stack[at].candidates, *found))

    def _is_outside(self, value: object) -> bool:
        return not is_plain(value) and self.places.is_outside(value)

    def pop(self) -> Any:
        """Takes the value on top."""
        return self.stack.pop() if self.stack else LOST

    def pops(self, count: int) -> list[Any]:
        """Takes some values, the one on top last."""
        if not count:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return [LOST] * (count - len(values)) + values

    def push(self, value: object) -> None:
        """Puts a value on top."""
        self.stack.append(value)

    def peek(self, depth: int) -> Any:
        """The value at a depth, from 1."""
        return self.stack[-depth] if len(self.stack) >= depth else LOST

    def build(self, count: int) -> None:
        """Takes some values, and gives a new object that holds them."""
        self.push(self.joined(self.pops(count)))

    def hand_over(self, values: list[Any]) -> None:
        """Values go to code that is not followed, and something comes back."""
        found = [x for value in values for x in self.places.given(value)]
        self.push(Unknown(tuple(found)) if found else UNKNOWN)

    def ask_truth(self, value: object) -> None:
        """Notes that the truth of a value is asked for."""
        if not is_plain(value):
            self.places.length(value)

    def call(self, frame: FrameType, callee: Any, args: list[Any], named: list[Any]) -> None:
        """Puts what a call returns on top, as far as it is known."""
        places = self.places
        self.callee = None
        while type(callee) is MethodType:
            callee, args = callee.__func__, [callee.__self__, *args]
        if callee is super:
            self.push(super_of(frame, args))
            return
        if callee is globals:
            self.push(places.register(frame.f_globals, "globals()"))
            return
        if callee is sys._getframe and not is_library(frame.f_globals):
            raise Break(
                "reads frames of the interpreter", "read what they hold before, and pass that"
            )
        if type(callee) is BuiltinFunctionType and (done := outer_of(callee)):
            self._note(done, frame)
        if is_a(callee, _CACHED) and len(named) == len(self.names):
            self._ask_cache(callee, args, dict(zip(self.names, named, strict=True)))
        if type(callee) is FunctionType:
            self.callee = callee
            if is_framework_code(callee.__code__, callee.__globals__):
                self.push(places.called(callee, args, named))
            else:
                self.push(self.joined([*args, *named]))
            return
        kind = type(callee)
        if is_a(callee, type):
            self.direct = any(
                in_python(*each)
                for each in ((callee, "__init__"), (callee, "__new__"), (kind, "__call__"))
            )
            places.special_of(callee, "__init__")
            places.special_of(callee, "__new__")
        else:
            self.direct = kind is not Unknown and in_python(kind, "__call__")
        places.special(callee, ("__call__",))
        self.push(places.called(callee, args, named))

    def _note(self, done: str, frame: FrameType) -> None:
        """Notes what the function asks the outer world, unless Python's library does for itself."""
        at: FrameType | None = frame
        if is_library(frame.f_globals) and (
            done == CLOCK or frame.f_globals.get("__name__") in _QUIET
        ):
            return
        while at is not None and is_library(at.f_globals):
            at = at.f_back
        if at is not None:
            self.places.outer[f"{done} at {Path(at.f_code.co_filename).name}:{at.f_lineno}"] = None

    def _ask_cache(self, callee: Any, args: list[Any], named: dict[str, Any]) -> None:
        """Has the result that a call finds in the cache of a function compared from now on."""
        if any(is_a(value, Unknown) or is_input(value) for value in (*args, *named.values())):
            return
        call, hits = functools.partial(callee, *args, **named), callee.cache_info().hits

        def found(at: int) -> None:
            if self.steps[at][3] is None and callee.cache_info().hits > hits:
                path = f"the result of {callee.__name__}"
                result = self.stack[-1] = self.places.register(call(), path)
                key = callee, *map(key_of, args), *named, *map(key_of, named.values())
                self.places.add(key, call, (), result, path)

        self.branch = found

    def joined(self, values: list[Any]) -> Unknown:
        """A new object that holds these."""
        if all(map(is_plain, values)):
            return UNKNOWN
        found: list[Any] = []
        for value in values:
            if is_a(value, Unknown):
                found += value.candidates
            elif self._is_outside(value):
                found.append(value)
            elif not is_plain(value):
                found += self.places.given(value)
        return Unknown(tuple(found))

    def fit(self, depth: int) -> None:
        """Has the stack this depth, and what an exception puts there on top."""
        more = depth - 1
        if len(self.stack) > more:
            del self.stack[more:]
        self.stack += [UNKNOWN] * (depth - len(self.stack))


def is_library(space: dict[str, Any]) -> bool:
    """Returns whether a function with these globals is of Python's library or NumPy."""
    name = str(space.get("__name__"))
    top = name.partition(".")[0]
    stdlib = top in sys.stdlib_module_names and top != "__main__"
    return stdlib or top == np.__name__ or top.startswith("namedtuple_")


def _is_of_framework(frame: FrameType) -> bool:
    """Returns whether a frame of contextlib enters or leaves a `with` block of the framework's.

    Where that ended the trace, what the block has set would stay.
    """
    generator = getattr(frame.f_locals.get("self"), "gen", None)
    block = generator.gi_frame if is_a(generator, GeneratorType) else None
    return block is not None and is_framework_code(block.f_code, block.f_globals)


def _is_of_collector(code: CodeType) -> bool:
    """Returns whether the collector of garbage calls a function, whenever that runs."""
    return any(getattr(each, "__code__", None) is code for each in gc.callbacks)


def _is_of_layer(code: CodeType) -> bool:
    """Returns whether code is a method of a layer of the framework, which its `call` may call."""
    return (
        code.co_filename.startswith(_LAYERS)
        and not code.co_filename.endswith(_MACHINERY)
        and code.co_argcount > 0
        and code.co_varnames[0] == "self"
    )


def _chains_of(code: CodeType) -> Chains:
    """The attributes that a method reads of its object, and attributes of those, as in `self.a.b`.

    Also in functions inside of it, and on ways that are not taken.
    """
    found: dict[tuple[str, ...], None] = {}
    owner = code.co_varnames[0]
    codes = [code]
    while codes:
        inner = codes.pop()
        codes += [constant for constant in inner.co_consts if is_a(constant, CodeType)]
        chain: tuple[str, ...] | None = None
        for instruction in dis.get_instructions(inner):
            name = instruction.argval
            if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                if chain is not None:
                    chain = (*chain, name)
                    found[chain] = None
            elif instruction.opname != "EXTENDED_ARG":
                names = name if is_a(name, tuple) else (name,)
                loads = "LOAD_FAST" in instruction.opname or instruction.opname == "LOAD_DEREF"
                chain = () if loads and names[-1] == owner else None
    # Whether a layer is built a call sets itself; and to make variables ends a trace.
    return tuple(chain for chain in found if chain != ("built",))


def _holders(code: CodeType) -> list[FunctionType]:
    """The functions that have some code."""
    return [each for each in gc.get_referrers(code) if is_a(each, FunctionType)]
