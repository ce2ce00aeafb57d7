"""The instructions of CPython 3.11 to 3.14: what each reads, and does to the stack of its frame.

An instruction that is not in the table forgets the stack: a read of a value that was on it is an
error.
"""

from __future__ import annotations

import contextlib
import dis
import itertools
import sys
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

from pullback.graph.host import CONTAINERS, INERT, UNKNOWN, Unknown, is_a, is_plain
from pullback.tensor import Tensor

if TYPE_CHECKING:
    from pullback.graph.watch import Followed

_IS_NEWER = sys.version_info >= (3, 12)
#: Where a call has the object of a method: before the function, or from 3.13 on behind it.
_BEHIND = sys.version_info >= (3, 13)
#: What lies below a function that is called.
NULL = Unknown()
#: Special methods by the instructions that call them.
_SPECIAL = {
    "GET_ITER": ("__iter__", "__getitem__"),
    "GET_YIELD_FROM_ITER": ("__iter__", "__getitem__"),
    "BEFORE_WITH": ("__enter__", "__exit__"),
    "UNARY_NEGATIVE": ("__neg__",),
    "UNARY_POSITIVE": ("__pos__",),
    "UNARY_INVERT": ("__invert__",),
}
_FORMATS = ("__format__", "__str__", "__repr__")
#: Instructions whose result is what a function in Python returns that they call.
_DIRECT = {
    *("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "BINARY_SUBSCR", "BINARY_OP", "COMPARE_OP"),
    *("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT", "BEFORE_WITH", "GET_ITER"),
    *("SEND", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "LOAD_SUPER_ATTR", "BINARY_SLICE"),
    "TO_BOOL",
}
#: Instructions whose argument is a word.
_AS_TEXT = {"BINARY_OP", "COMPARE_OP", "LOAD_SPECIAL", "CALL_INTRINSIC_1"}
#: Instructions whose argument has flags.
_WITH_FLAGS = {"CALL_FUNCTION_EX", "FORMAT_VALUE", "MAKE_FUNCTION"}
#: Instructions whose argument has a name, and whether a call follows.
_WITH_CALL = {"LOAD_GLOBAL", "LOAD_ATTR", "LOAD_SUPER_ATTR"}
_COMPARED = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}
_OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod",
    "**": "pow", "@": "matmul", "&": "and", "|": "or", "^": "xor", "<<": "lshift",
    ">>": "rshift",
}  # fmt: skip
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}

#: How many values an instruction takes and gives that reads nothing: the given ones are unknown.
_PLAIN = {
    name: effect
    for effect, names in {
        (0, 0): "NOP RESUME PRECALL CACHE MAKE_CELL COPY_FREE_VARS JUMP_FORWARD JUMP_BACKWARD "
        "JUMP_BACKWARD_NO_INTERRUPT DELETE_FAST DELETE_NAME DELETE_DEREF SETUP_ANNOTATIONS "
        "RAISE_VARARGS LIST_TO_TUPLE RETURN_CONST NOT_TAKEN",
        (0, 1): "RETURN_GENERATOR LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR MATCH_MAPPING "
        "MATCH_SEQUENCE WITH_EXCEPT_START LOAD_LOCALS LOAD_COMMON_CONSTANT",
        (1, 0): "POP_TOP STORE_FAST STORE_NAME RETURN_VALUE POP_EXCEPT RERAISE PRINT_EXPR POP_ITER "
        "EXIT_INIT_CHECK POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE "
        "POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE",
        (1, 1): "YIELD_VALUE ASYNC_GEN_WRAP CHECK_EXC_MATCH GET_AWAITABLE",
        (1, 2): "PUSH_EXC_INFO",
        (2, 0): "STORE_FAST_STORE_FAST",
        (2, 1): "IS_OP BUILD_TEMPLATE END_SEND CALL_INTRINSIC_2",
        (3, 2): "CLEANUP_THROW",
    }.items()
    for name in names.split()
} | {"END_FOR": (1 if _BEHIND else 2, 0)}


# ---------------------------------------------------------------------------------------------
# Instructions.

_Step: TypeAlias = "Callable[[Followed, FrameType, Any], None]"
_STEPS: dict[str, _Step] = {
    name: step
    for names, step in {
        "PUSH_NULL": lambda state, frame, _: state.push(NULL),
        "LOAD_CONST LOAD_SMALL_INT": lambda state, frame, value: state.stack.append(value),
        "LOAD_METHOD": lambda state, frame, name: _load_attr(state, frame, (name, True)),
        "IMPORT_FROM": lambda state, frame, name: state.push(
            state.places.attribute(state.peek(1), name)
        ),
        "DELETE_GLOBAL": lambda state, frame, name: state.places.written(frame.f_globals, name),
        "DELETE_ATTR": lambda state, frame, name: state.places.written(state.pop(), name),
        "POP_JUMP_FORWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE "
        "POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE": (
            lambda state, frame, _: state.ask_truth(state.pop())
        ),
        "FORMAT_VALUE": lambda state, frame, flags: _format(
            state, state.pops(2 if flags & 4 else 1), as_text=not flags
        ),
        "FORMAT_SIMPLE": lambda state, frame, _: _format(state, state.pops(1), as_text=True),
        "CONVERT_VALUE": lambda state, frame, _: _format(state, state.pops(1), as_text=False),
        "FORMAT_WITH_SPEC": lambda state, frame, _: _format(state, state.pops(2), as_text=False),
        "COPY": lambda state, frame, depth: state.push(state.peek(depth)),
        "BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_SLICE": lambda state, frame, count: state.build(
            count
        ),
        "BUILD_MAP": lambda state, frame, count: state.build(2 * count),
        "BUILD_CONST_KEY_MAP": lambda state, frame, count: state.build(count + 1),
        "LIST_APPEND SET_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE": (
            lambda state, frame, depth: _add_to(state, state.pops(1), depth)
        ),
        "MAP_ADD": lambda state, frame, depth: _add_to(state, state.pops(2), depth),
        "KW_NAMES": lambda state, frame, names: setattr(state, "names", names),
    }.items()
    for name in names.split()
}


def _effect_of(*names: str) -> Callable[[_Step], _Step]:
    """Adds a function as what these instructions do."""

    def add(function: _Step) -> _Step:
        for name in names:
            _STEPS[name] = function
        return function

    return add


@lru_cache(1024)
def steps_of(code: CodeType) -> tuple[int, dict[int, tuple[_Step | None, Any, bool, int | None]]]:
    """The offset of the first instruction that a program has written, and what to do at each.

    That is a function and its argument; whether the instruction is in `_DIRECT`; where exceptions
    go, the depth of the stack there.
    """
    steps: dict[int, tuple[_Step | None, Any, bool, int | None]] = {}
    whole: Any = dis.Bytecode(code)
    depths = {entry.target: entry.depth + entry.lasti + 1 for entry in whole.exception_entries}
    prefixes: list[int] = []
    offsets: list[int] = []
    for instruction, behind in itertools.pairwise([*whole, None]):
        if offsets or instruction.opname == "RESUME":
            offsets.append(instruction.offset)
        if instruction.opname == "EXTENDED_ARG":
            prefixes.append(instruction.offset)
            continue
        step = _step_of(instruction, code, -1 if behind is None else behind.offset)
        for offset in (*prefixes, instruction.offset):
            # The interpreter of 3.11 calls for the first of the two only, later ones for both.
            is_called = offset == instruction.offset or not _IS_NEWER
            run, argument = step if is_called else (None, None)
            steps[offset] = run, argument, instruction.opname in _DIRECT, depths.get(offset)
        prefixes = []
    return next(iter(offsets[1:]), 0), steps


def _step_of(instruction: dis.Instruction, code: CodeType, behind: int) -> tuple[_Step | None, Any]:
    name, number = instruction.opname, instruction.arg or 0
    if name in _PLAIN:
        return (_plain if any(_PLAIN[name]) else None), _PLAIN[name]
    argument = instruction.argval
    if name in _AS_TEXT:
        argument = instruction.argrepr
    elif name in _WITH_FLAGS:
        argument = number
    elif name in _WITH_CALL:
        argument = argument, bool(number & 1) and (_IS_NEWER or name == "LOAD_GLOBAL")
    elif name == "KW_NAMES":
        argument = code.co_consts[number]
    elif name == "FOR_ITER":
        argument = behind
    elif name in _SPECIAL:
        argument = _SPECIAL[name]
    return _STEPS.get(name, _forget), argument


def _plain(state: Followed, frame: FrameType, effect: tuple[int, int]) -> None:
    taken, given = effect
    if taken:
        del state.stack[-taken:]
    if given:
        state.stack += [UNKNOWN] * given


def _forget(state: Followed, frame: FrameType, _: object) -> None:
    state.stack.clear()


def _push_callable(state: Followed, value: object, is_called: bool) -> None:
    """Puts a value on top, with the room beside it that a call needs."""
    if is_called:
        state.stack += (value, NULL) if _BEHIND else (NULL, value)
    else:
        state.stack.append(value)


@_effect_of("LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
def _load_from_class(state: Followed, frame: FrameType, name: str) -> None:
    if _IS_NEWER:
        state.pop()
    # The body of a class has no names of its functions.
    at: FrameType | None = frame
    while at is not None and name not in at.f_locals:
        at = at.f_back
    state.push(UNKNOWN if at is None else at.f_locals[name])


@_effect_of("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_FAST_AND_CLEAR")
@_effect_of("LOAD_DEREF", "LOAD_CLOSURE")
def _load(state: Followed, frame: FrameType, name: str) -> None:
    if name in frame.f_code.co_freevars:
        # From 3.12 on also to have the cell, for a function that is made now.
        for function in state.functions:
            state.places.cell(function, name)
    state.stack.append(frame.f_locals.get(name, UNKNOWN))


@_effect_of("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
def _load_two(state: Followed, frame: FrameType, names: tuple[str, str]) -> None:
    for name in names:
        _load(state, frame, name)


@_effect_of("STORE_FAST_LOAD_FAST")
def _store_and_load(state: Followed, frame: FrameType, names: tuple[str, str]) -> None:
    stored, loaded = names
    state.pop()
    state.push(UNKNOWN if stored == loaded else frame.f_locals.get(loaded, UNKNOWN))

    def branch(_: int) -> None:
        state.stack[-1] = frame.f_locals.get(loaded, UNKNOWN)

    if stored == loaded:  # which it has when the instruction has run
        state.branch = branch


@_effect_of("STORE_DEREF")
def _store_deref(state: Followed, frame: FrameType, name: str) -> None:
    state.pop()
    for function in state.functions:
        state.places.cell_written(function, name)


def _look_up(state: Followed, frame: FrameType, name: str) -> Any:
    """The value of a global name, or of a builtin one."""
    return state.places.name(frame.f_globals, frame.f_builtins, name)


@_effect_of("LOAD_GLOBAL")
def _load_global(state: Followed, frame: FrameType, argument: tuple[str, bool]) -> None:
    name, is_called = argument
    _push_callable(state, _look_up(state, frame, name), is_called)


@_effect_of("LOAD_NAME")
def _load_name(state: Followed, frame: FrameType, name: str) -> None:
    is_local = name in frame.f_locals and frame.f_locals is not frame.f_globals
    state.push(frame.f_locals[name] if is_local else _look_up(state, frame, name))


@_effect_of("LOAD_FROM_DICT_OR_GLOBALS")
def _load_from_dict(state: Followed, frame: FrameType, name: str) -> None:
    state.pop()
    _load_name(state, frame, name)


@_effect_of("STORE_GLOBAL")
def _store_global(state: Followed, frame: FrameType, name: str) -> None:
    state.pop()
    state.places.written(frame.f_globals, name)


@_effect_of("IMPORT_NAME")
def _import_name(state: Followed, frame: FrameType, name: str) -> None:
    level, names = state.pops(2)
    package = frame.f_globals.get("__package__") or ""
    if level:
        package = package.rsplit(".", level - 1)[0]
        name = f"{package}.{name}" if name else package
    for each in {name, name.partition(".")[0]}:
        state.places.item(state.places.register(sys.modules, "sys.modules"), each)
    found = sys.modules.get(name if names or level else name.partition(".")[0], UNKNOWN)
    state.push(found)


@_effect_of("LOAD_ATTR")
def _load_attr(state: Followed, frame: FrameType, argument: tuple[str, bool]) -> None:
    name, is_called = argument
    _push_callable(state, state.places.attribute(state.pop(), name), is_called)


@_effect_of("LOAD_SUPER_ATTR")
def _load_super_attr(state: Followed, frame: FrameType, argument: tuple[str, bool]) -> None:
    name, is_called = argument
    _, kind, owner = state.pops(3)
    value = state.places.attribute(super_of(frame, [kind, owner]), name)
    _push_callable(state, value, is_called)


@_effect_of("LOAD_SPECIAL")
def _load_special(state: Followed, frame: FrameType, name: str) -> None:
    owner = state.pop()
    name = name.strip("()")
    state.places.special(owner, (name,))
    _push_callable(state, state.places.attribute(owner, name), is_called=True)


@_effect_of("STORE_ATTR")
def _store_attr(state: Followed, frame: FrameType, name: str) -> None:
    _, owner = state.pops(2)
    state.places.special(owner, ("__setattr__",))
    state.places.written(owner, name)


@_effect_of("STORE_SUBSCR")
def _store_subscr(state: Followed, frame: FrameType, _: object) -> None:
    _, owner, key = state.pops(3)
    state.places.special(owner, ("__setitem__",))
    state.places.written(owner, key, is_item=True)


@_effect_of("DELETE_SUBSCR")
def _delete_subscr(state: Followed, frame: FrameType, _: object) -> None:
    owner, key = state.pops(2)
    state.places.special(owner, ("__delitem__",))
    state.places.written(owner, key, is_item=True)


@_effect_of("STORE_SLICE")
def _store_slice(state: Followed, frame: FrameType, _: object) -> None:
    _, owner, *_ = state.pops(4)
    state.places.special(owner, ("__setitem__",))
    state.places.written(owner, None, is_item=True)


@_effect_of("BINARY_SLICE")
def _slice(state: Followed, frame: FrameType, _: object) -> None:
    owner, *_ = state.pops(3)
    state.places.special(owner, ("__getitem__",))
    state.hand_over([owner])


@_effect_of("BINARY_SUBSCR")
def _get_item(state: Followed, frame: FrameType, _: object) -> None:
    owner, key = state.pops(2)
    state.direct = type(owner) not in (list, tuple, dict)
    state.push(state.places.item(owner, key))


@_effect_of("CONTAINS_OP")
def _contains(state: Followed, frame: FrameType, _: object) -> None:
    key, container = state.pops(2)
    state.places.contains(container, key)
    state.push(UNKNOWN)


@_effect_of("COMPARE_OP")
def _compare(state: Followed, frame: FrameType, operator: str) -> None:
    left, right = state.pops(2)
    name = _COMPARED[operator.removeprefix("bool(").removesuffix(")")]
    for value, method in ((left, name), (right, _SWAPPED[name])):
        state.places.special(value, (f"__{method}__",))
    found = state.places.compared([left, right])
    state.push(Unknown(found) if found else UNKNOWN)


@_effect_of("BINARY_OP")
def _operate_on_two(state: Followed, frame: FrameType, operator: str) -> None:
    if operator == "[]":
        _get_item(state, frame, None)
        return
    left, right = state.pops(2)
    if type(left) in INERT and type(right) in INERT and Tensor in (type(left), type(right)):
        state.push(UNKNOWN)
        return
    if type(left) is str and type(right) is str and operator == "+":
        state.push(left + right)  # such as the name of an attribute
        return
    name = _OPERATORS[operator.rstrip("=")]
    if not is_plain(left):
        state.places.special(left, (f"__{name}__", f"__i{name}__")[: 1 + operator.endswith("=")])
    if not is_plain(right):
        state.places.special(right, (f"__r{name}__",))
    state.direct = not is_a(left, CONTAINERS) and not is_a(right, CONTAINERS)
    state.hand_over([left, right])


@_effect_of(*_SPECIAL)
def _operate(state: Followed, frame: FrameType, names: tuple[str, ...]) -> None:
    value = state.pop()
    state.places.special(value, names)
    if "__exit__" in names:
        state.push(UNKNOWN)
    state.hand_over([value])


@_effect_of("CALL_INTRINSIC_1")
def _intrinsic(state: Followed, frame: FrameType, name: str) -> None:
    if "LIST_TO_TUPLE" not in name:
        _operate(state, frame, ("__pos__",) if "UNARY_POSITIVE" in name else ())


def _format(state: Followed, values: list[Any], *, as_text: bool) -> None:
    if as_text and type(values[0]) in (str, int):
        state.push(str(values[0]))  # such as the name of an attribute
        return
    state.places.special(values[0], _FORMATS)
    state.hand_over(values)


@_effect_of("UNARY_NOT", "TO_BOOL")
def _to_bool(state: Followed, frame: FrameType, _: object) -> None:
    state.ask_truth(state.pop())
    state.push(UNKNOWN)


@_effect_of("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def _jump_or_pop(state: Followed, frame: FrameType, target: int) -> None:
    state.ask_truth(state.peek(1))

    def branch(at: int) -> None:
        if at != target:
            state.pop()

    state.branch = branch


@_effect_of("GET_LEN")
def _get_len(state: Followed, frame: FrameType, _: object) -> None:
    state.places.length(state.peek(1))
    state.push(UNKNOWN)


@_effect_of("FOR_ITER")
def _for_iter(state: Followed, frame: FrameType, behind: int) -> None:
    iterator = state.peek(1)
    state.places.special(iterator, ("__next__",))
    state.push(Unknown(tuple(state.places.given(iterator))))

    def branch(at: int) -> None:
        if at != behind:  # the loop ends
            # In 3.14 another instruction takes the iterator away.
            state.pops(1 if sys.version_info >= (3, 14) else 2)
            state.returned.clear()

    state.branch = branch


@_effect_of("SEND")
def _send(state: Followed, frame: FrameType, target: int) -> None:
    state.pop()
    state.push(Unknown(tuple(state.places.given(state.peek(1)))))

    def branch(at: int) -> None:
        if at == target:
            state.pops(2)
            state.push(UNKNOWN)

    if not _IS_NEWER:  # which have an instruction for that
        state.branch = branch


@_effect_of("UNPACK_SEQUENCE")
def _unpack(state: Followed, frame: FrameType, count: int) -> None:
    value = state.pop()
    state.places.special(value, _SPECIAL["GET_ITER"])
    candidates = state.places.given(value)
    if type(value) in (list, tuple) and len(value) == count:
        state.stack += [*value][::-1]
    else:
        state.stack += [Unknown(tuple(candidates))] * count


@_effect_of("UNPACK_EX")
def _unpack_ex(state: Followed, frame: FrameType, counts: int) -> None:
    candidates = state.places.given(state.pop())
    state.stack += [Unknown(tuple(candidates))] * ((counts & 0xFF) + 1 + (counts >> 8))


@_effect_of("SWAP")
def _swap(state: Followed, frame: FrameType, depth: int) -> None:
    missing = depth - len(state.stack)
    if missing > 0:
        state.stack[:0] = [UNKNOWN] * missing
    state.stack[-1], state.stack[-depth] = state.stack[-depth], state.stack[-1]


@_effect_of("BUILD_STRING")
def _build_string(state: Followed, frame: FrameType, count: int) -> None:
    parts = state.pops(count)
    state.push("".join(parts) if all(type(part) is str for part in parts) else UNKNOWN)


def _add_to(state: Followed, values: list[Any], depth: int) -> None:
    container = state.peek(depth)
    found = state.joined([*values, container]) if values else UNKNOWN
    for value in values:
        state.places.given(value)
    if len(state.stack) >= depth and found.candidates:
        state.stack[-depth] = found


@_effect_of("MATCH_KEYS")
def _match_keys(state: Followed, frame: FrameType, _: object) -> None:
    subject, keys = state.peek(2), state.peek(1)
    if is_a(keys, tuple):
        found = [state.places.item(subject, key) for key in keys]
        state.push(tuple(found) if not any(is_a(x, Unknown) for x in found) else UNKNOWN)
    else:
        state.push(Unknown(tuple(state.places.given(subject))))
    state.direct = False


@_effect_of("MATCH_CLASS")
def _match_class(state: Followed, frame: FrameType, count: int) -> None:
    subject, kind, names = state.pops(3)
    places = state.places
    places.of_class(subject, kind)
    if is_a(kind, type):
        places.special(kind, ("__instancecheck__",))
        if is_a(subject, kind):
            given = places.attribute(kind, "__match_args__") if count else ()
            positional = given[:count] if is_a(given, tuple) else ()
            for name in (*positional, *names):
                places.attribute(subject, name)
    state.push(UNKNOWN)
    state.direct = False


@_effect_of("MAKE_FUNCTION")
def _make_function(state: Followed, frame: FrameType, flags: int) -> None:
    code = state.pop()
    state.pops(sum(bool(flags & bit) for bit in (1, 2, 4, 8)))
    if is_a(code, CodeType):
        state.made.add(code)
    state.push(UNKNOWN)


@_effect_of("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(state: Followed, frame: FrameType, _: object) -> None:
    _, function = state.pops(2)
    state.push(function)


@_effect_of("CALL_KW")
def _call_kw(state: Followed, frame: FrameType, count: int) -> None:
    names = state.pop()
    state.names = names if is_a(names, tuple) else ()
    _call(state, frame, count)


@_effect_of("CALL")
def _call(state: Followed, frame: FrameType, count: int) -> None:
    names = state.names  # the last arguments have them
    first, second, *args = state.pops(count + 2)
    if _BEHIND:
        callee, owner = first, second
    else:
        callee, owner = (second, NULL) if first is NULL else (first, second)
    if owner is not NULL:
        args = [owner, *args]
    at = len(args) - len(names)
    state.call(frame, callee, args[:at], args[at:])
    state.names = ()


@_effect_of("CALL_FUNCTION_EX")
def _call_ex(state: Followed, frame: FrameType, flags: int) -> None:
    has_named = sys.version_info >= (3, 14) or flags & 1
    named = [state.pop()] if has_named else []
    given = state.pop()
    second, first = state.pop(), state.pop()
    for value in (given, *named):
        if not is_plain(value):
            state.places.given(value)
    args = [*given] if type(given) is tuple else [given]
    named = [value for value in named if value is not NULL]
    state.call(frame, first if _BEHIND else second, args, named)


def super_of(frame: FrameType, args: list[Any]) -> Any:
    """Returns what `super` gives, as far as that is known."""
    if not args:
        code = frame.f_code
        args = [frame.f_locals.get("__class__"), frame.f_locals.get(code.co_varnames[0])]
    found = []
    seen = [arg.candidates if is_a(arg, Unknown) else (arg,) for arg in args]
    for given in itertools.product(*seen):
        with contextlib.suppress(TypeError):
            found.append(super(*given))
    return found[0] if len(found) == 1 else Unknown(tuple(found))
