"""The instructions of CPython 3.12 and newer that 3.11 has not, and those that differ there.

`instructions` has the others. Importing this module adds them to its table, on a Python that has
them: whoever imports all modules changes nothing on another one.
"""

from __future__ import annotations

import dis
import itertools
import sys
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from pullback.graph import instructions
from pullback.graph.host import is_a
from pullback.graph.instructions import (
    AS_TEXT,
    BEHIND,
    DIRECT,
    PLAIN,
    SPECIAL,
    WITH_FLAGS,
)
from pullback.graph.lookup import Unknown
from pullback.graph.stack import NULL, UNKNOWN, Stack, supers_of

_Step = Callable[[Stack, FrameType, Any], None]
_IS_NEWER = sys.version_info >= (3, 12)

if _IS_NEWER:
    PLAIN.update({
        "GET_AWAITABLE": (1, 1), "BUILD_TEMPLATE": (2, 1),
        "RETURN_CONST": (0, 0), "END_SEND": (2, 1), "CLEANUP_THROW": (3, 2), "NOT_TAKEN": (0, 0),
        "POP_ITER": (1, 0), "STORE_FAST_STORE_FAST": (2, 0), "LOAD_LOCALS": (0, 1),
        "CALL_INTRINSIC_2": (2, 1), "EXIT_INIT_CHECK": (1, 0), "LOAD_COMMON_CONSTANT": (0, 1),
        "END_FOR": (1 if BEHIND else 2, 0), "POP_JUMP_IF_NONE": (1, 0),
        "POP_JUMP_IF_NOT_NONE": (1, 0),
    })  # fmt: skip
    SPECIAL["TO_BOOL"] = ("__bool__", "__len__")
    SPECIAL["CALL_KW"] = SPECIAL["CALL"]
    AS_TEXT |= {"LOAD_SPECIAL", "CALL_INTRINSIC_1"}
    WITH_FLAGS |= {"LOAD_ATTR", "LOAD_SUPER_ATTR"}
    DIRECT |= {"CALL_KW", "LOAD_SUPER_ATTR", "BINARY_SLICE", "TO_BOOL"}


def effect_of(*names: str) -> Callable[[_Step], _Step]:
    """Adds a function as what these instructions do; on an older Python, as nothing."""
    return instructions.effect_of(*(names if _IS_NEWER else ()))


def _push_callable(state: Stack, value: Any, is_called: bool) -> None:
    """Puts a value on top, with the room beside it that a call needs."""
    if is_called and not BEHIND:
        state.push(NULL)
    state.push(value)
    if is_called and BEHIND:
        state.push(NULL)


@effect_of("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_FAST_AND_CLEAR")
def _load_fast(state: Stack, frame: FrameType, name: str) -> None:
    if name in frame.f_code.co_freevars:
        # The cell, for a function that is made now.
        instructions.load_cell(state, frame, name)
    else:
        state.push(frame.f_locals.get(name, UNKNOWN))


@effect_of("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
def _load_two(state: Stack, frame: FrameType, names: tuple[str, str]) -> None:
    for name in names:
        _load_fast(state, frame, name)


@effect_of("STORE_FAST_LOAD_FAST")
def _store_and_load(state: Stack, frame: FrameType, names: tuple[str, str]) -> None:
    stored, loaded = names
    value = state.pop()
    state.push(value if stored == loaded else frame.f_locals.get(loaded, UNKNOWN))


@effect_of("LOAD_SMALL_INT")
def _load_small_int(state: Stack, frame: FrameType, value: int) -> None:
    state.push(value)


@effect_of("LOAD_GLOBAL")
def _load_global(state: Stack, frame: FrameType, argument: tuple[str, int]) -> None:
    name, flags = argument
    _push_callable(state, instructions.look_up(state, frame, name), bool(flags & 1))


@effect_of("LOAD_FROM_DICT_OR_GLOBALS")
def _load_from_dict(state: Stack, frame: FrameType, name: str) -> None:
    state.pop()
    instructions.load_name(state, frame, name)


@effect_of("LOAD_FROM_DICT_OR_DEREF")
def _load_from_class(state: Stack, frame: FrameType, name: str) -> None:
    state.pop()
    instructions.load_from_class(state, frame, name)


@effect_of("LOAD_ATTR")
def _load_attr(state: Stack, frame: FrameType, argument: tuple[str, int]) -> None:
    name, flags = argument
    _push_callable(state, state.places.attribute(state.pop(), name), bool(flags & 1))


@effect_of("LOAD_SUPER_ATTR")
def _load_super_attr(state: Stack, frame: FrameType, argument: tuple[str, int]) -> None:
    name, flags = argument
    _, kind, owner = state.pops(3)
    found = supers_of(frame, [kind, owner])
    value = state.places.attribute(found[0], name) if len(found) == 1 else UNKNOWN
    _push_callable(state, value, bool(flags & 1))


@effect_of("LOAD_SPECIAL")
def _load_special(state: Stack, frame: FrameType, name: str) -> None:
    owner = state.pop()
    name = name.strip("()")
    state.places.special(owner, (name,))
    _push_callable(state, state.places.attribute(owner, name), is_called=True)


@effect_of("BINARY_SLICE")
def _slice(state: Stack, frame: FrameType, _: object) -> None:
    owner, *_ = state.pops(3)
    state.places.special(owner, ("__getitem__",))
    instructions.hand_over(state, [owner])


@effect_of("STORE_SLICE")
def _store_slice(state: Stack, frame: FrameType, _: object) -> None:
    _, owner, *_ = state.pops(4)
    state.places.special(owner, ("__setitem__",))
    state.places.written(owner, None)


@effect_of("TO_BOOL")
def _to_bool(state: Stack, frame: FrameType, _: object) -> None:
    instructions.ask_truth(state, state.pop())
    state.push(UNKNOWN)


@effect_of("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
def _pop_jump(state: Stack, frame: FrameType, _: object) -> None:
    instructions.ask_truth(state, state.pop())


@effect_of("FORMAT_SIMPLE", "CONVERT_VALUE")
def _format_simple(state: Stack, frame: FrameType, _: object) -> None:
    value = state.pop()
    if type(value) in (str, int):
        state.push(str(value))  # such as the name of an attribute
        return
    state.places.special(value, SPECIAL["FORMAT_VALUE"])
    instructions.hand_over(state, [value])


@effect_of("FORMAT_WITH_SPEC")
def _format_with_spec(state: Stack, frame: FrameType, _: object) -> None:
    value, form = state.pops(2)
    state.places.special(value, SPECIAL["FORMAT_VALUE"])
    instructions.hand_over(state, [value, form])


@effect_of("CALL_INTRINSIC_1")
def _intrinsic(state: Stack, frame: FrameType, name: str) -> None:
    if "LIST_TO_TUPLE" in name:
        return
    value = state.pop()
    if "UNARY_POSITIVE" in name:
        state.places.special(value, ("__pos__",))
    instructions.hand_over(state, [value])


@effect_of("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(state: Stack, frame: FrameType, _: object) -> None:
    function = state.pop()
    state.pop()
    state.push(function)


@effect_of("MAKE_FUNCTION")
def _make_function(state: Stack, frame: FrameType, argument: tuple[Any, int]) -> None:
    if not BEHIND:
        instructions.make_function(state, frame, argument)
        return
    code = state.pop()
    if is_a(code, CodeType):
        state.made.add(code)
    state.push(UNKNOWN)


@effect_of("BINARY_OP")
def _binary(state: Stack, frame: FrameType, operator: str) -> None:
    if operator == "[]":
        instructions.get_item(state, frame, None)
    else:
        instructions.operate_on_two(state, frame, operator)


@effect_of("COMPARE_OP")
def _compare(state: Stack, frame: FrameType, operator: str) -> None:
    instructions.compare(state, frame, operator.removeprefix("bool(").removesuffix(")"))


@effect_of("CALL_KW")
def _call_kw(state: Stack, frame: FrameType, argument: tuple[int, tuple[str, ...]]) -> None:
    names = state.pop()
    instructions.call(state, frame, argument[0], names if is_a(names, tuple) else ())


@effect_of("FOR_ITER")
def _for_iter(state: Stack, frame: FrameType, argument: Any) -> None:
    instructions.for_iter(state, frame, argument)
    taken = _after(frame.f_code)[frame.f_lasti]

    def branch(at: int) -> None:
        if at != taken:
            # In 3.14 another instruction takes the iterator away.
            state.pops(1 if sys.version_info >= (3, 14) else 2)
            state.returned.clear()

    state.branch = branch


@lru_cache(1024)
def _after(code: CodeType) -> dict[int, int]:
    """The offset of the instruction that stands behind each."""
    offsets = [instruction.offset for instruction in dis.get_instructions(code)]
    return dict(itertools.pairwise(offsets))


@effect_of("SEND")
def _send(state: Stack, frame: FrameType, _: object) -> None:
    state.pop()
    state.push(Unknown(tuple(state.places.given(state.peek(1)))))
