"""The C of a fused kernel: its steps in one loop, with the pack's own functions.

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

from pullback_native.loops import LOOPS

#: The names of the functions: the block, and that for numbers that are near (c/near32.h).
BLOCK, NEAR = "pullback_block", "pullback_near"
#: Rows that are narrower stay with the loops: one of so few elements does not become vectors.
NARROWEST_ROW = 32

_PACK = Path(__file__).parents[1]
#: Where the texts are: in an installed pack, and in the source tree.
_FOLDERS = (_PACK / "c", _PACK.parents[1] / "c")
_NAMES = {number: name for name, number in LOOPS.items()}
_CODES = ("unary", "binary", "with_number", "with_row", "select", "compare")
#: The first code of what takes rows as a whole, as in c/fused.h.
_OVER_ROWS = len(_CODES)
#: Kinds of inputs, as in c/fused.h.
BOOLEANS, ROW = 1, 3
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
#define BOUND(name, value) static float __attribute__((used)) name = value;
"""
_FUNCTIONS = """\
#define UNARY(name, expression) INLINE float op_##name(float x) { return expression; }
#define BINARY(name, expression) INLINE float op_##name(float a, float b) { return expression; }
#define WITH_NUMBER BINARY
"""


class Layout(NamedTuple):
    """The parts of a plan that a block is made of."""

    kinds: tuple[int, ...]
    booleans: tuple[int, ...]
    wide: int
    buffers: int
    #: Codes, loops, loops for rows, inputs, results and numbers.
    steps: tuple[tuple[int, int, int, tuple[int, ...], tuple[int, ...], int], ...]
    numbers: int
    width: int
    is_float32: bool

    @classmethod
    def of(cls, plan: Sequence[Any]) -> Layout:
        """The layout of a plan, in the form that `_native.fused` takes."""
        _, _, kinds, booleans, (wide, buffers, dtype), _, steps, numbers, _, sizes, _ = plan
        return cls(kinds, booleans, wide, buffers, steps, len(numbers), sizes[-1], dtype == 0)

    @property
    def kept(self) -> range:
        """The registers that are written to memory: outputs, and what is summed."""
        first = len(self.kinds)
        return range(first, first + len(self.booleans) + self.wide)

    @property
    def is_over_rows(self) -> bool:
        """Returns whether steps take rows as a whole."""
        return any(step[0] >= _OVER_ROWS for step in self.steps)

    @property
    def has_rows(self) -> bool:
        """Returns whether an input is a row."""
        return ROW in self.kinds


def source(layout: Layout) -> str | None:
    """The C of a block; None for what is left to the loops."""
    if layout.has_rows and layout.width < NARROWEST_ROW:
        return None
    lines = list(_function(layout, near=False))
    if any(_NAMES[loop] in _NEAR for _, loop, *_ in layout.steps):
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
    yield "    ptrdiff_t count, ptrdiff_t width, int32_t nothing) {"
    body, read = _body(layout, near)
    for i, kind in enumerate(layout.kinds):
        if i in read:
            of = "unsigned char" if kind == BOOLEANS else "float"
            yield f"    const {of} *restrict a{i} = (const {of} *)at[{i}];"
    for i, register in enumerate(layout.kept):
        of = "unsigned char" if i < len(layout.booleans) and layout.booleans[i] else "float"
        yield f"    {of} *restrict a{register} = ({of} *)at[{register}];"
    for i in range(layout.numbers):
        yield f"    float n{i} = numbers[{i}];"
    yield "    int far = 0;"
    yield "    (void)from, (void)width, (void)nothing, (void)numbers;"
    if layout.has_rows:
        yield "    for (ptrdiff_t begin = 0, end; begin < count; begin = end) {"
        yield "    ptrdiff_t column = (from + begin) % width;"
        yield "    end = width - column < count - begin ? begin + width - column : count;"
        yield "    ptrdiff_t back = begin - column;"
    else:
        yield "    { ptrdiff_t begin = 0, end = count;"
    yield '    _Pragma("omp simd reduction(| : far)")'
    yield "    for (ptrdiff_t i = begin; i < end; i++) {"
    yield from body
    yield "    } }"
    yield "    return far;"
    yield "}"


def _body(layout: Layout, near: bool) -> tuple[list[str], set[int]]:
    """The lines of the loop, and the inputs that it reads."""
    lines: list[str] = []
    read: set[int] = set()
    summed = _summed(layout)
    #: What a register holds at this step.
    holds: dict[int, str] = {}

    def operand(i: int) -> str:
        if i < 0:
            return f"n{-1 - i}"
        if i not in holds:
            read.add(i)
            index = "i - back" if layout.kinds[i] == ROW else "i"
            of = "unsigned char" if layout.kinds[i] == BOOLEANS else "float"
            holds[i] = f"x{i}"
            lines.append(f"        {of} x{i} = a{i}[{index}];")
        return holds[i]

    for at, (code, loop, _, inputs, (out,), _) in enumerate(layout.steps):
        name = _NAMES[loop]
        kind = _CODES[code]
        count = {"unary": 1, "select": 3}.get(kind, 2)
        x = [operand(i) for i in inputs[:count]]
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
        holds[out] = f"v{at}"
        if out in layout.kept:
            lines.append(f"        a{out}[i] = v{at};")
    return lines, read


def _summed(layout: Layout) -> set[int]:
    """The steps whose results others may add something to."""
    made: dict[int, int] = {}
    summed: set[int] = set()
    for at, (_, loop, _, inputs, (out,), _) in enumerate(layout.steps):
        if _NAMES[loop] not in _NO_SUM:
            summed.update(made[i] for i in inputs if i in made)
        made[out] = at
    return summed
