"""The instructions: what each reads, and what it does to the stack of its frame.

The effects are those of CPython 3.11; `newer_instructions` has what later ones do otherwise. An
instruction that is not in the table forgets the stack: a read of a value that was on it is an
error.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from pullback.graph.host import CONTAINERS, is_a, is_plain
from pullback.graph.lookup import Unknown, in_python
from pullback.graph.stack import NULL, UNKNOWN, Stack, is_framework_code, supers_of

#: Where a call has the object of a method: before the function, or from 3.13 on behind it.
BEHIND = sys.version_info >= (3, 13)
#: Special methods by the instructions that call them.
SPECIAL = {
    "GET_ITER": ("__iter__", "__getitem__"),
    "GET_YIELD_FROM_ITER": ("__iter__", "__getitem__"),
    "FOR_ITER": ("__next__",),
    "BEFORE_WITH": ("__enter__", "__exit__"),
    "UNARY_NEGATIVE": ("__neg__",),
    "UNARY_POSITIVE": ("__pos__",),
    "UNARY_INVERT": ("__invert__",),
    "FORMAT_VALUE": ("__format__", "__str__", "__repr__"),
    "STORE_SUBSCR": ("__setitem__",),
    "DELETE_SUBSCR": ("__delitem__",),
    "CALL": ("__call__", "__init__", "__new__"),
}
#: Instructions whose result is what a function in Python returns that they call.
DIRECT = {
    *("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "BINARY_SUBSCR", "BINARY_OP", "COMPARE_OP"),
    *("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT", "BEFORE_WITH", "GET_ITER"),
    *("SEND", "CALL", "CALL_FUNCTION_EX"),
}
#: Instructions whose argument is a word.
AS_TEXT = {"BINARY_OP", "COMPARE_OP"}
#: Instructions whose argument has flags beside a name or a constant.
WITH_FLAGS = {"LOAD_GLOBAL", "CALL_FUNCTION_EX", "FORMAT_VALUE", "MAKE_FUNCTION"}
_COMPARED = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}
_OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod",
    "**": "pow", "@": "matmul", "&": "and", "|": "or", "^": "xor", "<<": "lshift",
    ">>": "rshift",
}  # fmt: skip
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}

#: How many values an instruction takes and gives that reads nothing: the given ones are unknown.
PLAIN: dict[str, tuple[int, int]] = {
    "NOP": (0, 0), "RESUME": (0, 0), "PRECALL": (0, 0), "CACHE": (0, 0), "MAKE_CELL": (0, 0),
    "COPY_FREE_VARS": (0, 0), "JUMP_FORWARD": (0, 0), "JUMP_BACKWARD": (0, 0),
    "JUMP_BACKWARD_NO_INTERRUPT": (0, 0), "DELETE_FAST": (0, 0), "DELETE_NAME": (0, 0),
    "DELETE_DEREF": (0, 0), "SETUP_ANNOTATIONS": (0, 0), "POP_TOP": (1, 0),
    "IS_OP": (2, 1), "STORE_FAST": (1, 0), "STORE_NAME": (1, 0), "RETURN_VALUE": (1, 0),
    "POP_EXCEPT": (1, 0), "RERAISE": (1, 0), "YIELD_VALUE": (1, 1), "RETURN_GENERATOR": (0, 1),
    "LOAD_BUILD_CLASS": (0, 1), "LOAD_ASSERTION_ERROR": (0, 1), "ASYNC_GEN_WRAP": (1, 1),
    "POP_JUMP_FORWARD_IF_NONE": (1, 0), "POP_JUMP_FORWARD_IF_NOT_NONE": (1, 0),
    "POP_JUMP_BACKWARD_IF_NONE": (1, 0), "POP_JUMP_BACKWARD_IF_NOT_NONE": (1, 0),
    "PUSH_EXC_INFO": (1, 2), "CHECK_EXC_MATCH": (1, 1), "MATCH_MAPPING": (0, 1),
    "MATCH_SEQUENCE": (0, 1), "RAISE_VARARGS": (0, 0), "PRINT_EXPR": (1, 0),
    "WITH_EXCEPT_START": (0, 1), "LIST_TO_TUPLE": (0, 0),
}  # fmt: skip


# ---------------------------------------------------------------------------------------------
# Instructions.

_Step = Callable[[Stack, FrameType, Any], None]
_STEPS: dict[str, _Step] = {}


def effect_of(*names: str) -> Callable[[_Step], _Step]:
    """Adds a function as what these instructions do."""

    def add(function: _Step) -> _Step:
        for name in names:
            _STEPS[name] = function
        return function

    return add


@lru_cache(1024)
def steps_of(code: CodeType) -> tuple[int, dict[int, tuple[_Step, Any, bool, int | None]]]:
    """The offset of the first instruction that a program has written, and what to do at each.

    That is a function and its argument; whether the instruction is in `DIRECT`; where exceptions
    go, the depth of the stack there.
    """
    steps: dict[int, tuple[_Step, Any, bool, int | None]] = {}
    whole: Any = dis.Bytecode(code)
    depths = {entry.target: entry.depth + entry.lasti + 1 for entry in whole.exception_entries}
    prefixes: list[int] = []
    offsets: list[int] = []
    for instruction in whole:
        if offsets or instruction.opname == "RESUME":
            offsets.append(instruction.offset)
        if instruction.opname == "EXTENDED_ARG":
            prefixes.append(instruction.offset)
            continue
        step = _step_of(instruction, code)
        for offset in (*prefixes, instruction.offset):
            # The interpreter of 3.11 calls for the first of the two only, later ones for both.
            is_called = offset == instruction.offset or sys.version_info < (3, 12)
            run, argument = step if is_called else (_plain, (0, 0))
            steps[offset] = run, argument, instruction.opname in DIRECT, depths.get(offset)
        prefixes = []
    return next(iter(offsets[1:]), 0), steps


def _step_of(instruction: dis.Instruction, code: CodeType) -> tuple[_Step, Any]:
    name = instruction.opname
    if name in PLAIN:
        return _plain, PLAIN[name]
    run = _STEPS.get(name, _forget)
    argument: Any = instruction.argval
    if name in AS_TEXT:
        argument = instruction.argrepr
    elif name in WITH_FLAGS:
        argument = instruction.argval, instruction.arg
    elif name == "KW_NAMES":
        argument = code.co_consts[instruction.arg or 0]
    elif name in SPECIAL:
        argument = instruction.argval, SPECIAL[name]
    return run, argument


def _plain(state: Stack, frame: FrameType, effect: tuple[int, int]) -> None:
    taken, given = effect
    if taken:
        del state.stack[-taken:]
    if given:
        state.stack += [UNKNOWN] * given


def _forget(state: Stack, frame: FrameType, _: object) -> None:
    state.stack.clear()


@effect_of("PUSH_NULL")
def _push_null(state: Stack, frame: FrameType, _: object) -> None:
    state.push(NULL)


@effect_of("LOAD_CONST")
def _load_const(state: Stack, frame: FrameType, value: Any) -> None:
    state.push(value)


@effect_of("LOAD_CLASSDEREF")
def load_from_class(state: Stack, frame: FrameType, name: str) -> None:
    """Puts what a name means in the body of a class on the stack."""
    # The body of a class has no names of its functions.
    at: FrameType | None = frame
    while at is not None and name not in at.f_locals:
        at = at.f_back
    state.push(UNKNOWN if at is None else at.f_locals[name])


@effect_of("LOAD_FAST")
def _load_fast(state: Stack, frame: FrameType, name: str) -> None:
    state.push(frame.f_locals.get(name, UNKNOWN))


@effect_of("LOAD_DEREF", "LOAD_CLOSURE")
def load_cell(state: Stack, frame: FrameType, name: str) -> None:
    """Puts the value of a variable that functions share on the stack."""
    for function in state.functions:
        state.places.cell(function, name)
    state.push(frame.f_locals.get(name, UNKNOWN))


@effect_of("STORE_DEREF")
def _store_deref(state: Stack, frame: FrameType, name: str) -> None:
    state.pop()
    for function in state.functions:
        state.places.cell_written(function, name)


def look_up(state: Stack, frame: FrameType, name: str) -> Any:
    """The value of a global name, or of a builtin one."""
    return state.places.name(frame.f_globals, frame.f_builtins, name)


@effect_of("LOAD_GLOBAL")
def _load_global(state: Stack, frame: FrameType, argument: tuple[str, int]) -> None:
    name, flags = argument
    if flags & 1:
        state.push(NULL)
    state.push(look_up(state, frame, name))


@effect_of("LOAD_NAME")
def load_name(state: Stack, frame: FrameType, name: str) -> None:
    """Puts what a name means outside of functions on the stack."""
    is_local = name in frame.f_locals and frame.f_locals is not frame.f_globals
    state.push(frame.f_locals[name] if is_local else look_up(state, frame, name))


@effect_of("DELETE_GLOBAL")
def _delete_global(state: Stack, frame: FrameType, name: str) -> None:
    state.places.written(frame.f_globals, name)


@effect_of("STORE_GLOBAL")
def _store_global(state: Stack, frame: FrameType, name: str) -> None:
    state.pop()
    state.places.written(frame.f_globals, name)


@effect_of("IMPORT_NAME")
def _import_name(state: Stack, frame: FrameType, name: str) -> None:
    level, names = state.pops(2)
    package = frame.f_globals.get("__package__") or ""
    if level:
        package = package.rsplit(".", level - 1)[0]
        name = f"{package}.{name}" if name else package
    for each in {name, name.partition(".")[0]}:
        state.places.item(state.places.register(sys.modules, "sys.modules"), each)
    found = sys.modules.get(name if names or level else name.partition(".")[0], UNKNOWN)
    state.push(found)


@effect_of("IMPORT_FROM")
def _import_from(state: Stack, frame: FrameType, name: str) -> None:
    state.push(state.places.attribute(state.peek(1), name))


@effect_of("LOAD_ATTR")
def _load_attr(state: Stack, frame: FrameType, name: str) -> None:
    state.push(state.places.attribute(state.pop(), name))


@effect_of("LOAD_METHOD")
def _load_method(state: Stack, frame: FrameType, name: str) -> None:
    found = state.places.attribute(state.pop(), name)
    state.push(NULL)
    state.push(found)


@effect_of("STORE_ATTR")
def _store_attr(state: Stack, frame: FrameType, name: str) -> None:
    _, owner = state.pops(2)
    state.places.special(owner, ("__setattr__",))
    state.places.written(owner, name)


@effect_of("DELETE_ATTR")
def _delete_attr(state: Stack, frame: FrameType, name: str) -> None:
    state.places.written(state.pop(), name)


@effect_of("STORE_SUBSCR")
def _store_subscr(state: Stack, frame: FrameType, argument: Any) -> None:
    _, owner, key = state.pops(3)
    state.places.special(owner, argument[1])
    state.places.written(owner, key)


@effect_of("DELETE_SUBSCR")
def _delete_subscr(state: Stack, frame: FrameType, argument: Any) -> None:
    owner, key = state.pops(2)
    state.places.special(owner, argument[1])
    state.places.written(owner, key)


@effect_of("BINARY_SUBSCR")
def get_item(state: Stack, frame: FrameType, _: object) -> None:
    """Takes a key and its owner, and gives the item."""
    owner, key = state.pops(2)
    state.direct = not is_a(owner, (list, tuple, dict, Unknown)) or type(owner) not in (
        list,
        tuple,
        dict,
    )
    state.push(state.places.item(owner, key))


@effect_of("CONTAINS_OP")
def _contains(state: Stack, frame: FrameType, _: object) -> None:
    key, container = state.pops(2)
    state.places.contains(container, key)
    state.push(UNKNOWN)


@effect_of("COMPARE_OP")
def compare(state: Stack, frame: FrameType, operator: str) -> None:
    """Takes two values, and gives what comparing them makes."""
    left, right = state.pops(2)
    name = _COMPARED[operator]
    for value, method in ((left, name), (right, _SWAPPED[name])):
        state.places.special(value, (f"__{method}__",))
    hand_over(state, [left, right])


@effect_of("BINARY_OP")
def operate_on_two(state: Stack, frame: FrameType, operator: str) -> None:
    """Takes two values, and gives what an operator makes of them."""
    left, right = state.pops(2)
    if type(left) is str and type(right) is str and operator == "+":
        state.push(left + right)  # such as the name of an attribute
        return
    name = _OPERATORS[operator.rstrip("=")]
    if not is_plain(left):
        state.places.special(left, (f"__{name}__", f"__i{name}__")[: 1 + operator.endswith("=")])
    if not is_plain(right):
        state.places.special(right, (f"__r{name}__",))
    state.direct = not is_a(left, CONTAINERS) and not is_a(right, CONTAINERS)
    hand_over(state, [left, right])


@effect_of(
    "UNARY_NEGATIVE",
    "UNARY_POSITIVE",
    "UNARY_INVERT",
    "BEFORE_WITH",
    "GET_ITER",
    "GET_YIELD_FROM_ITER",
)
def _operate(state: Stack, frame: FrameType, argument: tuple[Any, tuple[str, ...]]) -> None:
    value = state.pop()
    state.places.special(value, argument[1])
    if "__exit__" in argument[1]:
        state.push(UNKNOWN)
    hand_over(state, [value])


@effect_of("FORMAT_VALUE")
def _format(state: Stack, frame: FrameType, argument: Any) -> None:
    taken = state.pops(2 if (argument[1] or 0) & 4 else 1)
    if len(taken) == 1 and type(taken[0]) in (str, int) and not argument[1]:
        state.push(str(taken[0]))
        return
    state.places.special(taken[0], SPECIAL["FORMAT_VALUE"])
    hand_over(state, taken)


def hand_over(state: Stack, values: list[Any]) -> None:
    """Values go to code that is not followed, and something comes back."""
    found = [x for value in values if not is_plain(value) for x in state.places.given(value)]
    state.push(Unknown(tuple(found)) if found else UNKNOWN)


@effect_of("UNARY_NOT")
def _not(state: Stack, frame: FrameType, _: object) -> None:
    ask_truth(state, state.pop())
    state.push(UNKNOWN)


@effect_of("POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_FORWARD_IF_FALSE")
@effect_of("POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_FALSE")
def _pop_jump(state: Stack, frame: FrameType, _: object) -> None:
    ask_truth(state, state.pop())


def ask_truth(state: Stack, value: Any) -> None:
    """Notes that the truth of a value is asked for."""
    if not is_plain(value):
        state.places.length(value)


@effect_of("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def _jump_or_pop(state: Stack, frame: FrameType, target: int) -> None:
    ask_truth(state, state.peek(1))

    def branch(at: int) -> None:
        if at != target:
            state.pop()

    state.branch = branch


@effect_of("GET_LEN")
def _get_len(state: Stack, frame: FrameType, _: object) -> None:
    state.places.length(state.peek(1))
    state.push(UNKNOWN)


@effect_of("FOR_ITER")
def for_iter(state: Stack, frame: FrameType, argument: Any) -> None:
    """Gives the next element of an iterator, or ends the loop."""
    iterator = state.peek(1)
    state.places.special(iterator, argument[1])
    state.push(Unknown(tuple(state.places.given(iterator))))

    def branch(at: int) -> None:
        if at == argument[0]:
            state.pops(2)
            state.returned.clear()

    state.branch = branch


@effect_of("SEND")
def _send(state: Stack, frame: FrameType, target: int) -> None:
    state.pop()
    state.push(Unknown(tuple(state.places.given(state.peek(1)))))

    def branch(at: int) -> None:
        if at == target:
            state.pops(2)
            state.push(UNKNOWN)

    state.branch = branch


@effect_of("UNPACK_SEQUENCE")
def _unpack(state: Stack, frame: FrameType, count: int) -> None:
    value = state.pop()
    state.places.special(value, SPECIAL["GET_ITER"])
    candidates = state.places.given(value)
    if type(value) in (list, tuple) and len(value) == count:
        state.stack += [*value][::-1]
    else:
        state.stack += [Unknown(tuple(candidates))] * count


@effect_of("UNPACK_EX")
def _unpack_ex(state: Stack, frame: FrameType, counts: int) -> None:
    candidates = state.places.given(state.pop())
    state.stack += [Unknown(tuple(candidates))] * ((counts & 0xFF) + 1 + (counts >> 8))


@effect_of("SWAP")
def _swap(state: Stack, frame: FrameType, depth: int) -> None:
    missing = depth - len(state.stack)
    if missing > 0:
        state.stack[:0] = [UNKNOWN] * missing
    state.stack[-1], state.stack[-depth] = state.stack[-depth], state.stack[-1]


@effect_of("COPY")
def _copy(state: Stack, frame: FrameType, depth: int) -> None:
    state.push(state.peek(depth))


@effect_of("BUILD_STRING")
def _build_string(state: Stack, frame: FrameType, count: int) -> None:
    parts = state.pops(count)
    state.push("".join(parts) if all(type(part) is str for part in parts) else UNKNOWN)


@effect_of("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_SLICE")
def _build(state: Stack, frame: FrameType, count: int) -> None:
    state.push(state.joined(state.pops(count)))


@effect_of("BUILD_MAP")
def _build_map(state: Stack, frame: FrameType, count: int) -> None:
    state.push(state.joined(state.pops(2 * count)))


@effect_of("BUILD_CONST_KEY_MAP")
def _build_const_key_map(state: Stack, frame: FrameType, count: int) -> None:
    state.push(state.joined(state.pops(count + 1)))


@effect_of("LIST_APPEND", "SET_ADD", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE")
def _add(state: Stack, frame: FrameType, depth: int) -> None:
    _add_to(state, state.pops(1), depth)


@effect_of("MAP_ADD")
def _map_add(state: Stack, frame: FrameType, depth: int) -> None:
    _add_to(state, state.pops(2), depth)


def _add_to(state: Stack, values: list[Any], depth: int) -> None:
    container = state.peek(depth)
    found = state.joined([*values, container]) if values else UNKNOWN
    for value in values:
        state.places.given(value)
    if len(state.stack) >= depth and found.candidates:
        state.stack[-depth] = found


@effect_of("MATCH_KEYS")
def _match_keys(state: Stack, frame: FrameType, _: object) -> None:
    subject, keys = state.peek(2), state.peek(1)
    if is_a(keys, tuple):
        found = [state.places.item(subject, key) for key in keys]
        state.push(tuple(found) if not any(is_a(x, Unknown) for x in found) else UNKNOWN)
    else:
        state.push(Unknown(tuple(state.places.given(subject))))
    state.direct = False


@effect_of("MATCH_CLASS")
def _match_class(state: Stack, frame: FrameType, count: int) -> None:
    subject, kind, names = state.pops(3)
    places = state.places
    places.kind_of(subject)
    if is_a(kind, type):
        places.special(kind, ("__instancecheck__",))
        if is_a(subject, kind):
            given: Any = places.attribute(kind, "__match_args__") if count else ()
            positional = given[:count] if is_a(given, tuple) else ()
            for name in (*positional, *names):
                places.attribute(subject, name)
    state.push(UNKNOWN)
    state.direct = False


@effect_of("MAKE_FUNCTION")
def make_function(state: Stack, frame: FrameType, argument: tuple[Any, int]) -> None:
    """Gives a function that is made now."""
    flags = argument[1] or 0
    code = state.pop()
    state.pops(sum(bool(flags & bit) for bit in (1, 2, 4, 8)))
    if is_a(code, CodeType):
        state.made.add(code)
    state.push(UNKNOWN)


@effect_of("KW_NAMES")
def _kw_names(state: Stack, frame: FrameType, names: tuple[str, ...]) -> None:
    state.names = names


@effect_of("CALL")
def _call(state: Stack, frame: FrameType, argument: tuple[int, tuple[str, ...]]) -> None:
    names, state.names = state.names, ()
    call(state, frame, argument[0], names)


def call(state: Stack, frame: FrameType, count: int, names: tuple[str, ...]) -> None:
    """Calls what lies below some arguments; the last ones have names."""
    first, second, *args = state.pops(count + 2)
    if BEHIND:
        callee, owner = first, second
    else:
        callee, owner = (second, NULL) if first is NULL else (first, second)
    if owner is not NULL:
        args = [owner, *args]
    at = len(args) - len(names)
    call_with(state, frame, callee, args[:at], args[at:])


@effect_of("CALL_FUNCTION_EX")
def _call_ex(state: Stack, frame: FrameType, argument: Any) -> None:
    has_named = sys.version_info >= (3, 14) or (argument[1] or 0) & 1
    named = [state.pop()] if has_named else []
    given = state.pop()
    second, first = state.pop(), state.pop()
    for value in (given, *named):
        if not is_plain(value):
            state.places.given(value)
    args = [*given] if type(given) is tuple else [given]
    named = [value for value in named if value is not NULL]
    call_with(state, frame, first if BEHIND else second, args, named)


def call_with(
    state: Stack, frame: FrameType, callee: Any, args: list[Any], named: list[Any]
) -> None:
    """Gives what a call returns, as far as it is known."""
    places = state.places
    state.callee = None
    while type(callee) is MethodType:
        callee, args = callee.__func__, [callee.__self__, *args]
    if callee is super:
        found = supers_of(frame, args)
        state.push(found[0] if len(found) == 1 else Unknown(tuple(found)))
        return
    if callee is globals:
        state.push(places.register(frame.f_globals, "globals()"))
        return
    if type(callee) is FunctionType:
        state.callee = callee
        if is_framework_code(callee.__code__, callee.__globals__):
            state.push(places.called(callee, args, named))
        else:
            state.push(state.joined([*args, *named]))
        return
    kind = type(callee)
    if is_a(callee, type):
        state.direct = any(
            in_python(*each)
            for each in ((callee, "__init__"), (callee, "__new__"), (kind, "__call__"))
        )
        places.special_of(callee, "__init__")
        places.special_of(callee, "__new__")
        places.special(callee, ("__call__",))
    else:
        places.special(callee, ("__call__",))
        state.direct = kind is not Unknown and in_python(kind, "__call__")
    state.push(places.called(callee, args, named))
