"""The plan of a fused kernel: registers, steps and sums, in the form that c/fused_make.c takes.

Registers are numbered in the order in which they are added, and at the end in that of the C:
inputs, bound arrays, outputs, buffers for sums, other buffers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback_native.loops import Array

#: As in c/fused.h.
_DTYPES = {"float32": 0, "float64": 1, "int32": 2, "int64": 3}
KINDS = {"floats": 0, "booleans": 1, "number": 2, "row": 3, "row_numbers": 4}
CODES = {
    "unary": 0, "binary": 1, "with_number": 2, "with_row": 3, "select": 4, "compare": 5,
    "over_rows": 6, "factors": 7,
}  # fmt: skip
_MOST_ARRAYS, _MOST_BUFFERS, _MOST_STEPS, _MOST_NUMBERS, _MOST_SUMS = 32, 32, 64, 64, 8

#: Elements of a block: those of a few buffers fit into a first-level cache.
BLOCK = 2048
#: Elements of the longest rows that steps take as a whole.
LONGEST_ROW = 16384
#: An operand of such a step that is absent.
ABSENT = -1
#: As in c/reductions.c: elements of a piece of a sum, and rows at least. Of more columns a piece is
#: larger than those of elementwise kernels, so that the threads would share the work less evenly.
_PIECE, _ROWS, _COLUMNS = 32768, 64, 512
#: Rows of fewer terms are summed side by side, without pieces (c/reductions.inc.h).
_SHORT = 48
#: Bytes of the buffers that hold what is summed, at most.
_MOST_WIDE = 1 << 20


class Unsupported(Exception):
    """A region has something that the loops do not take."""


class _Step(NamedTuple):
    code: str
    loop: int
    row_loop: int
    inputs: tuple[int, ...]
    results: tuple[int, ...]
    #: The index of a number.
    epsilon: int = 0


class Plan:
    """The steps of a fused kernel over arrays of one shape and dtype."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self._shape = shape
        self._dtype = dtype
        self._total = math.prod(shape)
        if not self._total:
            raise Unsupported
        self._inputs: list[str] = []
        self._bound: list[Array] = []
        self._bound_kinds: list[str] = []
        #: What each register is: ("input", i), ("bound", i), ("step", i) or ("sum", i).
        self._registers: list[tuple[str, int]] = []
        #: What is none of "floats", by register.
        self._kinds: dict[int, str] = {}
        self._steps: list[_Step] = []
        self._numbers: list[tuple[int, bool, float]] = []
        self._sums: list[tuple[int, float, tuple[int, ...]]] = []
        self._split: tuple[int, int, int] | None = None
        self._over_rows = False
        self._cost = 0.0

    def input(self, kind: str) -> int:
        """Adds an input; its register."""
        self._inputs.append(kind)
        register = self._register("input", len(self._inputs) - 1)
        if kind == "booleans":
            self._kinds[register] = kind
        return register

    def bound(self, array: Array, kind: str = "floats") -> int:
        """Adds a constant array; its register."""
        self._bound.append(array)
        self._bound_kinds.append(kind)
        return self._register("bound", len(self._bound) - 1)

    def number_input(self) -> int:
        """Adds an input that is a number: -1 - its index."""
        register = self.input("number")
        return self._number(self._registers[register][1], False, 0.0)

    def number(self, value: float) -> int:
        """Adds a number: -1 - its index."""
        return self._number(-1, False, float(value))

    def again(self, number: int, *, negative: bool = False) -> int:
        """Adds a number again, or its negative."""
        place, before, value = self._numbers[-1 - number]
        return self._number(place, before is not negative, value)

    def constant(self, number: int) -> float | None:
        """The value of a number that is not an input."""
        place, negative, value = self._numbers[-1 - number]
        return None if place >= 0 else -value if negative else value

    def is_result(self, register: int) -> bool:
        """Returns whether a step makes what a register holds."""
        return self._registers[register][0] == "step"

    def step(
        self,
        code: str,
        loop: int,
        inputs: tuple[int, ...],
        cost: float,
        row_loop: int = -1,
        *,
        boolean: bool = False,
    ) -> int:
        """Adds a step; the register of its result."""
        arrays = inputs[:1] if code == "select" else ()
        if any(self._is(i, "booleans") != (i in arrays) for i in self._read(code, inputs)):
            raise Unsupported
        self._cost += cost
        register = self._register("step", len(self._steps))
        self._steps.append(_Step(code, loop, row_loop, inputs, (register,)))
        if boolean:
            self._kinds[register] = "booleans"
        return register

    def over_rows(
        self, loop: int, inputs: tuple[int, ...], cost: float, aside: int, epsilon: float = 0.0
    ) -> tuple[int, ...]:
        """Adds a step that takes whole rows; the registers of its results.

        Args:
            loop: the loop.
            inputs: an array, and rows that may be `ABSENT`.
            cost: nanoseconds an element.
            aside: how many results have one number for each row; these come last.
            epsilon: a number of the loop.
        """
        width = self._shape[-1]
        if width > LONGEST_ROW or any(self._is(i, "booleans") for i in inputs):
            raise Unsupported
        self._over_rows = True
        self._cost += cost
        registers = tuple(self._register("step", len(self._steps)) for _ in range(1 + aside))
        self._kinds.update(dict.fromkeys(registers[1:], "row_numbers"))
        number = -1 - self.number(epsilon)
        self._steps.append(_Step("over_rows", loop, -1, inputs, registers, number))
        return registers

    def factors(self, variance: int, scale: int, epsilon: float) -> int:
        """Adds scale / sqrt(variance + epsilon) of rows, which is computed first; its register."""
        register = self._register("step", len(self._steps))
        self._kinds[register] = "row"
        number = -1 - self.number(epsilon)
        self._steps.append(_Step("factors", 0, -1, (variance, scale), (register,), number))
        return register

    def sum(self, of: int, axes: Sequence[int], shape: tuple[int, ...], *, mean: bool) -> int:
        """Adds a sum over the axes, which are the first, the last or all; its register."""
        if not axes or self._is(of, "booleans") or self._dtype != "float32":
            raise Unsupported
        split = (
            math.prod(self._shape[: axes[0]]),
            math.prod(self._shape[axes[0] : axes[-1] + 1]),
            math.prod(self._shape[axes[-1] + 1 :]),
        )
        outer, rows, inner = split
        self._split = self._split or split
        wrong = split != self._split or rows < 2 or (outer > 1 and inner > 1)
        if wrong or inner > _COLUMNS or (outer > 1 and rows > _PIECE):
            raise Unsupported
        self._cost += 0.15
        self._sums.append((of, 1.0 / rows if mean else 1.0, shape))
        return self._register("sum", len(self._sums) - 1)

    def _is(self, register: int, kind: str) -> bool:
        return self._kinds.get(register) == kind

    def _register(self, kind: str, index: int) -> int:
        self._registers.append((kind, index))
        return len(self._registers) - 1

    def _number(self, place: int, negative: bool, value: float) -> int:
        self._numbers.append((place, negative, value))
        return -len(self._numbers)

    @staticmethod
    def _read(code: str, inputs: tuple[int, ...]) -> tuple[int, ...]:
        """The registers and numbers among the inputs of a step."""
        return inputs[:2] if code == "with_row" else inputs

    # The C form --------------------------------------------------------------------------------

    def finished(self, results: Sequence[int]) -> tuple[Any, ...]:
        """The arguments of `_native.fused` after the first.

        Args:
            results: the registers of the region's outputs.
        """
        if any(i < 0 or self._registers[i][0] in ("input", "bound") for i in results):
            raise Unsupported  # the output would be the input itself
        rows = [i for i, kind in self._kinds.items() if kind == "row"]
        outputs = [i for i in dict.fromkeys((*results, *rows)) if self._registers[i][0] == "step"]
        arrays = len(self._inputs) + len(self._bound)
        numbered = {
            i: index + (0 if kind == "input" else len(self._inputs))
            for i, (kind, index) in enumerate(self._registers)
            if kind in ("input", "bound")
        }
        numbered.update((i, arrays + k) for k, i in enumerate(outputs))
        wide = dict.fromkeys(of for of, _, _ in self._sums if of not in numbered)
        numbered.update((i, arrays + len(outputs) + k) for k, i in enumerate(wide))
        buffers = self._place(numbered, arrays + len(outputs) + len(wide)) + len(wide)
        steps = tuple(
            (
                CODES[step.code], step.loop, step.row_loop, self._renumbered(step, numbered),
                tuple(numbered[i] for i in step.results), step.epsilon,
            )
            for step in self._steps
        )  # fmt: skip
        sums = tuple((numbered[of], factor, shape) for of, factor, shape in self._sums)
        order = tuple(
            outputs.index(i) if i in outputs else len(outputs) + self._registers[i][1]
            for i in results
        )
        self._check_limits(arrays + len(outputs), buffers, len(wide))
        return (
            tuple(self._bound), self._shape,
            tuple(KINDS[kind] for kind in (*self._inputs, *self._bound_kinds)),
            tuple(KINDS[self._kinds.get(i, "floats")] for i in outputs),
            (len(wide), buffers, _DTYPES[self._dtype]), order, steps,
            tuple((place, int(negative), value) for place, negative, value in self._numbers), sums,
            self._sizes(), self._cost,
        )  # fmt: skip

    def _renumbered(self, step: _Step, numbered: dict[int, int]) -> tuple[int, ...]:
        read = self._read(step.code, step.inputs)
        rest = step.inputs[len(read) :]
        return tuple(i if i < 0 else numbered[i] for i in read) + rest

    def _place(self, numbered: dict[int, int], first: int) -> int:
        """Gives the other results buffers, which are used again after the last use of a result."""
        last: dict[int, int] = {}
        for at, step in enumerate(self._steps):
            last.update(dict.fromkeys(self._read(step.code, step.inputs), at))
        free: list[int] = []
        count = 0
        for at, step in enumerate(self._steps):
            for result in step.results:
                if result not in numbered:
                    if not free:
                        free.append(first + count)
                        count += 1
                    numbered[result] = free.pop()
            for i in {*self._read(step.code, step.inputs), *step.results}:
                if last.get(i, at) == at and numbered.get(i, -1) >= first:
                    free.append(numbered[i])
        return count

    def _sizes(self) -> tuple[int, ...]:
        block = min(BLOCK, -(-self._total // 16) * 16)
        outer, rows, inner = self._split or (1, 1, 1)
        piece_rows, pieces, unit = rows, 1, block
        if self._split is not None and outer > 1:
            unit = rows * max(1, BLOCK // rows)
            piece_rows = max(_ROWS, _PIECE)
        elif self._split is not None and (inner > 1 or rows >= _SHORT):
            piece_rows = max(_ROWS, _PIECE // inner)
            pieces = -(-rows // piece_rows)
            unit = min(rows, piece_rows) * inner
        elif self._split is not None:
            unit = rows
        width = self._shape[-1] if self._shape else 1
        if self._over_rows:
            if self._split is not None and self._split[1:] != (width, 1):
                raise Unsupported
            unit = block = width * max(1, min(BLOCK, self._total) // width)
        return outer, rows, inner, piece_rows, pieces, unit, block, width

    def _check_limits(self, arrays: int, buffers: int, wide: int) -> None:
        if (
            arrays > _MOST_ARRAYS
            or buffers > _MOST_BUFFERS
            or len(self._steps) > _MOST_STEPS
            or len(self._numbers) > _MOST_NUMBERS
            or len(self._sums) > _MOST_SUMS
            or not self._steps
            or wide * self._sizes()[5] * 4 > _MOST_WIDE
        ):
            raise Unsupported
