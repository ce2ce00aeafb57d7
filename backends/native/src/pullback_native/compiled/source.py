"""The C of a fused kernel: its steps in one loop, with the pack's own functions.

Steps that take rows as a whole, such as softmax, run by their own loops, which the block calls
between the loops of the steps before and after them.

The bits are those of the loops one by one. A compiler may make one operation of a product and a
sum, also of two steps, and would round once where the loops round twice. So a result that may end
with a product goes to steps that may add something to it through an exclusive or with 0, which the
compiler does not know to be 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pullback_native.fused_plan import CODES, KINDS
from pullback_native.loops import LOOPS

#: The names of the functions: the block, and that for numbers that are near (c/near32.h).
BLOCK, NEAR = "pullback_block", "pullback_near"
#: Rows that are narrower stay with the loops: one of so few elements does not become vectors.
NARROWEST_ROW = 32

_PACK = Path(__file__).parents[1]
#: Where the texts are: in an installed pack, and in the source tree.
_FOLDERS = (_PACK / "c", _PACK.parents[1] / "c")
_NAMES = {number: name for name, number in LOOPS.items()}
_KINDS_OF_STEPS = {number: kind for kind, number in CODES.items()}
BOOLEANS, ROW = KINDS["booleans"], KINDS["row"]
_OPERATORS = {
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
    "equal": "==", "not_equal": "!=",
}  # fmt: skip
#: Loops of which there is a function for numbers that are near.
_NEAR = {"exp": "exp32_near", "sigmoid": "sigmoid32_near"}
#: Loops whose results do not end with a product.
_NO_PRODUCT = frozenset({
    "add", "subtract", "divide", "maximum", "minimum", "add_number", "subtract_from",
    "divide_number", "divide_from", "maximum_number", "minimum_number", "relu", "relu_gradient",
    "negative", "abs", "sqrt", "tanh", "sigmoid", "expm1", "softplus", "log_sigmoid",
})  # fmt: skip
#: Loops that add nothing to what they read.
_NO_SUM = frozenset({
    "multiply", "multiply_number", "square", "divide", "divide_number", "divide_from", "sqrt",
})  # fmt: skip

_HEAD = """\
#include <stddef.h>
#define fabsf __builtin_fabsf
#define sqrtf __builtin_sqrtf
#define copysignf __builtin_copysignf
typedef void (*OverRows)(const void *launch, int step, char *const *at, ptrdiff_t count);
#define BOUND(name, value) static float __attribute__((used)) name = value;
"""
_FUNCTIONS = """\
#define UNARY(name, expression) INLINE float op_##name(float x) { return expression; }
#define BINARY(name, expression) INLINE float op_##name(float a, float b) { return expression; }
#define WITH_NUMBER BINARY
"""


class Uncompiled(Exception):
    """A kernel is left to the loops; the text says why."""


class Step(NamedTuple):
    """A step of a plan, as c/fused_make.c takes it."""

    code: int
    loop: int
    row_loop: int
    inputs: tuple[int, ...]
    results: tuple[int, ...]
    epsilon: int

    @property
    def kind(self) -> str:
        """Which struct of arguments its loop takes."""
        return _KINDS_OF_STEPS[self.code]

    @property
    def name(self) -> str:
        """The name of its loop."""
        return _NAMES[self.loop]

    @property
    def operands(self) -> tuple[int, ...]:
        """The registers that it reads, and numbers, which are negative."""
        count = {"unary": 1, "select": 3, "over_rows": len(self.inputs), "factors": 0}
        return self.inputs[: count.get(self.kind, 2)]


class Layout(NamedTuple):
    """The parts of a plan that a block is made of."""

    kinds: tuple[int, ...]
    outputs: tuple[int, ...]
    wide: int
    buffers: int
    steps: tuple[Step, ...]
    numbers: int
    #: Elements of a block, and of a row.
    block: int
    width: int
    is_float32: bool

    @classmethod
    def of(cls, plan: Sequence[Any]) -> Layout:
        """The layout of a plan, in the form that `_native.fused` takes."""
        _, _, kinds, outputs, (wide, buffers, dtype), _, steps, numbers, _, sizes, _ = plan
        steps = tuple(Step(*step) for step in steps)
        block, width = sizes[-2:]
        return cls(kinds, outputs, wide, buffers, steps, len(numbers), block, width, dtype == 0)

    @property
    def kept(self) -> range:
        """The registers that are written to memory: outputs, and what is summed."""
        first = len(self.kinds)
        return range(first, first + len(self.outputs) + self.wide)

    @property
    def is_over_rows(self) -> bool:
        """Returns whether steps take rows as a whole."""
        return any(step.kind == "over_rows" for step in self.steps)

    @property
    def parts(self) -> list[list[int]]:
        """The steps of each loop, and those over rows by themselves."""
        parts: list[list[int]] = [[]]
        for at, step in enumerate(self.steps):
            if step.kind == "over_rows":
                parts += [[at], []]
            elif step.kind != "factors":
                parts[-1].append(at)
        return [part for part in parts if part]

    @property
    def has_rows(self) -> bool:
        """Returns whether a loop of a block reads an input that is a row."""
        read = {i for s in self.steps if s.kind != "over_rows" for i in s.operands if i >= 0}
        return any(i < len(self.kinds) and self.kinds[i] == ROW for i in read)


def source(layout: Layout) -> str:
    """The C of a block.

    Raises:
        Uncompiled: It is left to the loops.
    """
    if layout.has_rows and layout.width < NARROWEST_ROW:
        raise Uncompiled(f"rows of fewer than {NARROWEST_ROW} elements are not compiled")
    if all(step.kind in ("over_rows", "factors") for step in layout.steps):
        raise Uncompiled("there is nothing to compile beside the loops over rows")
    lines = list(_function(layout, near=False))
    if any(step.name in _NEAR for step in layout.steps):
        lines += _function(layout, near=True)
    return _texts() + "\n" + "\n".join(lines) + "\n"


@cache
def _texts() -> str:
    """The functions that the steps call."""
    folder = _FOLDERS[0] if _FOLDERS[0].exists() else _FOLDERS[1]
    mathematics, near, elements = (
        (folder / name).read_text("utf-8") for name in ("math32.h", "near32.h", "elements.inc.h")
    )
    mathematics = mathematics.replace("#include <math.h>\n", "")
    near = near.replace('#include "math32.h"\n', "")
    return "".join((_HEAD, mathematics, near, _FUNCTIONS, elements))


def _function(layout: Layout, *, near: bool) -> Iterator[str]:
    yield f"int {NEAR if near else BLOCK}(char *const *at, const float *numbers, ptrdiff_t from,"
    yield "    ptrdiff_t count, ptrdiff_t width, int32_t nothing,"
    yield "    OverRows over_rows, const void *launch) {"
    for i in range(layout.numbers):
        yield f"    float n{i} = numbers[{i}];"
    yield "    int far = 0;"
    yield "    (void)from, (void)width, (void)nothing, (void)numbers;"
    stored, summed = _stored(layout), _summed(layout)
    for part in layout.parts:
        if layout.steps[part[0]].kind == "over_rows":
            yield f"    over_rows(launch, {part[0]}, at, count);"
        else:
            yield from _loop(layout, part, stored, summed, near)
    yield "    return far;"
    yield "}"


def _loop(
    layout: Layout, part: Sequence[int], stored: set[int], summed: set[int], near: bool
) -> Iterator[str]:
    """The lines of the loop of some steps."""
    body, arrays, has_rows = _body(layout, part, stored, summed, near)
    yield "    {"
    for i, (of, is_written) in sorted(arrays.items()):
        const = "" if is_written else "const "
        yield f"    {const}{of} *restrict a{i} = ({const}{of} *)at[{i}];"
    if has_rows:
        yield "    for (ptrdiff_t begin = 0, end; begin < count; begin = end) {"
        yield "    ptrdiff_t column = (from + begin) % width;"
        yield "    end = width - column < count - begin ? begin + width - column : count;"
        yield "    ptrdiff_t back = begin - column;"
    else:
        yield "    { ptrdiff_t begin = 0, end = count;"
    yield '    _Pragma("omp simd reduction(| : far)")'
    yield "    for (ptrdiff_t i = begin; i < end; i++) {"
    yield from body
    yield "    } } }"


def _body(
    layout: Layout, part: Sequence[int], stored: set[int], summed: set[int], near: bool
) -> tuple[list[str], dict[int, tuple[str, bool]], bool]:
    """The lines in the loop; the arrays that it reads or writes; and whether rows are among them.

    An array is a type, and whether it is written.
    """
    lines: list[str] = []
    arrays: dict[int, tuple[str, bool]] = {}
    #: What a register holds at this step.
    holds: dict[int, str] = {}
    booleans = _booleans(layout, part[0])
    rows = False

    def uses(i: int, of: str, *, is_written: bool) -> None:
        before = arrays.get(i, (of, False))
        if before[0] != of:  # elements would lie at other places of one buffer
            raise Uncompiled("booleans and numbers in one buffer are not compiled")
        arrays[i] = of, is_written or before[1]

    def operand(i: int) -> str:
        nonlocal rows
        if i < 0:
            return f"n{-1 - i}"
        if i not in holds:
            is_row = i < len(layout.kinds) and layout.kinds[i] == ROW
            rows |= is_row
            of = "unsigned char" if i in booleans else "float"
            uses(i, of, is_written=False)
            holds[i] = f"x{i}_{len(lines)}"
            lines.append(f"        {of} {holds[i]} = a{i}[{'i - back' if is_row else 'i'}];")
        return holds[i]

    for at in part:
        step = layout.steps[at]
        name, kind = step.name, step.kind
        x = [operand(i) for i in step.operands]
        if kind == "select":
            value = f"{x[0]} ? {x[1]} : {x[2]}"
        elif kind == "compare":
            value = f"{x[0]} {_OPERATORS[name]} {x[1]}"
        elif name == "silu_gradient":
            lines.append(f"        far |= {x[1]} < -80.0f;")
            value = f"{x[0]} * silu_slope({x[1]})"
        elif near and name in _NEAR:
            value = f"{_NEAR[name]}({x[0]}, &far)"
        else:
            value = f"op_{name}({', '.join(x)})"
        if at in summed and kind not in ("select", "compare") and name not in _NO_PRODUCT:
            value = f"as_float(as_bits({value}) ^ nothing)"
        of = "unsigned char" if kind == "compare" else "float"
        lines.append(f"        {of} v{at} = {value};")
        [out] = step.results
        holds[out] = f"v{at}"
        if at in stored:
            uses(out, of, is_written=True)
            lines.append(f"        a{out}[i] = v{at};")
    return lines, arrays, rows


def _stored(layout: Layout) -> set[int]:
    """The steps whose results go to memory: outputs, sums, and what other parts read."""
    parts = {at: number for number, part in enumerate(layout.parts) for at in part}
    made: dict[int, int] = {}
    stored: set[int] = set()
    for at, step in enumerate(layout.steps):
        for i in step.operands:
            if i in made and parts.get(made[i]) != parts.get(at):
                stored.add(made[i])
        if step.results[0] in layout.kept:
            stored.add(at)
        made.update(dict.fromkeys(step.results, at))
    return stored


def _booleans(layout: Layout, before: int) -> set[int]:
    """The registers with booleans, before a step."""
    booleans = {i for i, kind in enumerate(layout.kinds) if kind == BOOLEANS}
    for step in layout.steps[:before]:
        booleans -= set(step.results)
        if step.kind == "compare":
            booleans.update(step.results)
    return booleans


def _summed(layout: Layout) -> set[int]:
    """The steps whose results others may add something to."""
    made: dict[int, int] = {}
    summed: set[int] = set()
    for at, step in enumerate(layout.steps):
        if step.kind != "over_rows" and step.name not in _NO_SUM:
            summed.update(made[i] for i in step.inputs if i in made)
        made.update(dict.fromkeys(step.results, at))
    return summed
