"""Fused kernels: the calls of a region as loops over blocks that stay in the cache (c/fused.c).

A region that has something else than the loops take has no kernel, and the rest of it is tried in
parts. What a kernel computes has the bits of its calls one by one: it is made for the arrays for
which the kernels run the same loops, and hands all others to these.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from pullback.plugins.records import Kernel
from pullback_native import _native
from pullback_native.fused_plan import ABSENT, Plan, Unsupported
from pullback_native.loops import LOOPS, Array

#: Loops of one array, and nanoseconds an element.
UNARY = {
    "exp": 0.5, "expm1": 0.6, "tanh": 0.7, "sigmoid": 0.7, "silu": 0.7, "softplus": 0.8,
    "log_sigmoid": 0.8, "relu": 0.1, "negative": 0.1, "abs": 0.1, "square": 0.1, "sqrt": 0.2,
    "selu": 0.6, "sign": 0.1, "relu6": 0.1, "hard_tanh": 0.1, "hard_sigmoid": 0.2,
    "hard_silu": 0.2, "softsign": 0.2,
}  # fmt: skip
#: Loops of two arrays of one shape: the cotangent, and what the slope is a function of.
GRADIENTS = {
    "relu_gradient": 0.1, "tanh_gradient": 0.1, "sigmoid_gradient": 0.1, "silu_gradient": 0.8,
}  # fmt: skip
#: Loops with a number, which is an attribute.
WITH_ATTRIBUTE = {"leaky_relu": ("negative_slope", 0.1), "elu": ("alpha", 0.6)}
#: Loops of rows as a whole: nanoseconds a row and an element, and results of one number a row.
OVER_ROWS = {
    "softmax": (10, 1.0, 0), "log_softmax": (10, 1.0, 0),
    "layer_norm": (20, 0.5, 2), "rms_norm": (15, 0.4, 1),
}  # fmt: skip
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
SUMS = ("sum", "mean")


class _Arithmetic(NamedTuple):
    """The loops of an op of two numbers: with a number on the right and on the left, and rows."""

    right: str
    left: str
    row: str = ""
    #: Whether any loop rounds alike, also NumPy's.
    exact: bool = True


ARITHMETIC = {
    "add": _Arithmetic("add_number", "add_number", "add_row"),
    "subtract": _Arithmetic("add_number", "subtract_from"),
    "multiply": _Arithmetic("multiply_number", "multiply_number", "multiply_row"),
    "divide": _Arithmetic("divide_number", "divide_from"),
    # The sign of a zero depends on the loop.
    "maximum": _Arithmetic("maximum_number", "maximum_number", exact=False),
    "minimum": _Arithmetic("minimum_number", "minimum_number", exact=False),
}

#: The dtypes beside float32, of which there are the loops that any other loop rounds alike: sums,
#: elementary functions, and maxima of floats are not among them.
EXACT = ("float64", "int32", "int64")
#: Integers beyond are no doubles, as which the loops get numbers.
_LARGEST_NUMBER = 1 << 53

#: The ops that regions may have.
FUSIBLE = frozenset({
    *UNARY, *GRADIENTS, *WITH_ATTRIBUTE, *ARITHMETIC, *COMPARISONS, *SUMS,
    *OVER_ROWS, "clip", "elu_gradient", "fixed_power", "huber_loss", "leaky_relu_gradient",
    "squared_error", "gelu", "gelu_gradient", "slope_quotient", "where", "broadcast_to",
    "batch_norm_inference",
})  # fmt: skip


def fuse(region: Any) -> Kernel | None:
    """A kernel of all calls of a region; None if there is a call that the loops do not take.

    Args:
        region: a `pullback.graph.passes.regions.Region`.
    """
    try:
        return _Builder(region).kernel()
    except Unsupported:
        return None


class _Builder:
    """Translates the calls of a region, one after the other, into steps of a plan."""

    def __init__(self, region: Any) -> None:
        self._region = region
        self._shape = next(
            call.inputs[0].shape if call.op.name in SUMS else call.results[0].shape
            for call in region.calls
            if call.op.name != "broadcast_to"
        )
        values = [value for call in region.calls for value in (*call.results, *call.values)]
        self._dtype = next(
            (value.dtype for value in values if value.dtype != np.bool_), np.dtype(bool)
        )
        _require(self._dtype == np.float32 or self._dtype in EXACT)
        self._plan = Plan(self._shape, str(self._dtype))
        #: Registers of the plan; numbers are -1 - their index.
        self._operands: dict[Any, int] = {}
        #: Numbers that stand for an array of the region's shape, and inputs that are rows.
        self._repeated: set[int] = set()
        self._rows: set[int] = set()

    def kernel(self) -> Kernel:
        for entry in self._region.inputs:
            self._operands[entry.value] = self._input(entry.value)
        for call in self._region.calls:
            self._add(call)
        outputs = [self._operands[value] for value in self._region.outputs]
        plan = self._plan.finished(outputs)
        kernel: Kernel = _native.fused(self._region.op_by_op, *plan)
        _native.when_hot(kernel, partial(_compile, plan))
        return kernel

    # Operands ----------------------------------------------------------------------------------

    def _input(self, value: Any) -> int:
        if value.shape == self._shape:
            if value.dtype == np.bool_:
                return self._plan.input("booleans")
            _require(value.dtype == self._dtype)
            return self._plan.input("floats")
        _require(value.dtype == self._dtype)
        if value.shape == ():
            _require(self._dtype != np.int64)
            return self._plan.number_input()
        if self._is_row(value):
            register = self._plan.input("row")
            self._rows.add(register)
            return register
        raise Unsupported

    def _constant(self, value: Any, array: Array) -> int:
        _require(array.dtype == self._dtype and array.size > 0)
        if array.ndim == 0 or array.size == 1 or not any(array.strides):
            _require(value.shape in ((), self._shape))
            value_of = array.flat[0]
            _require(self._dtype.kind == "f" or abs(int(value_of)) <= _LARGEST_NUMBER)
            number = self._plan.number(float(value_of))
            if value.shape == self._shape and value.shape != ():
                self._repeated.add(number)
            return number
        _require(array.flags.carray)
        if self._is_row(value):
            register = self._plan.bound(array, "row")
            self._rows.add(register)
            return register
        _require(value.shape == self._shape)
        return self._plan.bound(array)

    def _is_row(self, value: Any) -> bool:
        return len(self._shape) > 1 and value.shape == self._shape[-1:]

    def _operand(self, value: Any) -> int:
        if value not in self._operands:
            array: Any = self._region.constants[value.name]
            self._operands[value] = self._constant(value, array)
        return self._operands[value]

    def _array(self, value: Any) -> int:
        """The register of an operand that is an array of the region's shape."""
        operand = self._operand(value)
        _require(operand >= 0 and operand not in self._rows)
        return operand

    def _row(self, value: Any) -> int:
        """The register of an operand that is a row, or is absent."""
        if value is None:
            return ABSENT
        _require(value.shape == self._shape[-1:])
        operand = self._operand(value)
        _require(operand >= 0 and not self._plan.is_result(operand))
        return operand

    def _loop(self, name: str) -> int:
        """The loop of that name for the dtype of the region."""
        loop = LOOPS.get(name if self._dtype == np.float32 else f"{name}_{self._dtype}")
        if loop is None:
            raise Unsupported
        return loop

    # Calls -------------------------------------------------------------------------------------

    def _add(self, call: Any) -> None:
        name, result = call.op.name, call.results[0]
        if name in OVER_ROWS:
            self._over_rows(call)
        elif name == "batch_norm_inference":
            self._operands[result] = self._batch_norm(call)
        elif name in SUMS:
            self._operands[result] = self._sum(call)
        elif name == "broadcast_to":
            [value] = call.values
            operand = self._operand(value)
            _require(operand < 0 and result.shape == self._shape)
            again = self._plan.again(operand)
            self._repeated.add(again)
            self._operands[result] = again
        elif name in ARITHMETIC:
            self._operands[result] = self._arithmetic(call, name)
        else:
            self._operands[result] = self._elementwise(call)

    def _elementwise(self, call: Any) -> int:
        name, attributes = call.op.name, call.attributes
        if name in COMPARISONS:
            _require(all(value.dtype == self._dtype for value in call.values))
            x1, x2 = map(self._operand, call.inputs)
            _require(max(x1, x2) >= 0 and self._rows.isdisjoint((x1, x2)))
            return self._plan.step("compare", self._loop(name), (x1, x2), 0.15, boolean=True)
        if name == "where":
            condition, x1, x2 = map(self._operand, call.inputs)
            _require(condition >= 0 and self._rows.isdisjoint((condition, x1, x2)))
            return self._plan.step("select", self._loop(name), (condition, x1, x2), 0.2)
        if name == "slope_quotient":
            return self._slope_quotient(call)
        if name == "clip":
            return self._clip(*call.inputs)
        if name in ("leaky_relu_gradient", "elu_gradient"):
            return self._kinked_gradient(call)
        inputs = tuple(map(self._array, call.inputs))
        if name == "squared_error":
            return self._square(self._binary("subtract", *inputs))
        if name == "huber_loss":
            return self._huber(inputs, attributes["delta"])
        if name == "fixed_power":
            return self._power(inputs[0], attributes["exponent"])
        if name in WITH_ATTRIBUTE:
            attribute, cost = WITH_ATTRIBUTE[name]
            number = self._plan.number(attributes[attribute])
            return self._plan.step("with_number", self._loop(name), (*inputs, number), cost)
        if name.startswith("gelu"):
            form = "gelu_tanh" if attributes["approximate"] else "gelu_exact"
            loop, cost = self._loop(form + name.removeprefix("gelu")), 0.9
        else:
            loop, cost = self._loop(name), (UNARY | GRADIENTS)[name]
        return self._plan.step("unary" if len(inputs) == 1 else "binary", loop, inputs, cost)

    def _arithmetic(self, call: Any, name: str) -> int:
        x1, x2 = map(self._operand, call.inputs)
        loops = ARITHMETIC[name]
        _require(max(x1, x2) >= 0 and not {x1, x2} <= self._rows)
        if x1 in self._rows or x2 in self._rows:
            _require(loops.exact and min(x1, x2) >= 0)
            row_loop = LOOPS[loops.row] if loops.row and self._dtype == np.float32 else -1
            inputs = (x1, x2, 0 if x1 in self._rows else 1)
            return self._plan.step("with_row", self._loop(name), inputs, 0.15, row_loop)
        if min(x1, x2) >= 0:
            return self._plan.step("binary", self._loop(name), (x1, x2), 0.15)
        number, x = min(x1, x2), max(x1, x2)
        if name == "multiply" and number in self._repeated and self._plan.constant(number) == 1:
            return x  # as the kernel does
        if x2 < 0 and name == "subtract":
            number = self._plan.again(number, negative=True)
        loop = self._loop(loops.right if x2 < 0 else loops.left)
        return self._plan.step("with_number", loop, (x, number), 0.1)

    def _slope_quotient(self, call: Any) -> int:
        """Adds a quotient, and the choice of a cotangent of 0 where it is NaN."""
        g = self._array(call.inputs[0])
        quotient = self._arithmetic(call, "divide")
        none = self._plan.number(0.0)
        empty = self._plan.step("compare", self._loop("equal"), (g, none), 0.15, boolean=True)
        kept = self._plan.step("select", self._loop("where"), (empty, g, quotient), 0.2)
        pair = (quotient, quotient)
        lost = self._plan.step("compare", self._loop("not_equal"), pair, 0.15, boolean=True)
        return self._plan.step("select", self._loop("where"), (lost, kept, quotient), 0.2)

    def _power(self, x: int, exponent: float) -> int:
        """Adds the steps of the body of `fixed_power`."""
        if abs(exponent) == 0.5:
            root = self._plan.step("unary", self._loop("sqrt"), (x,), 0.2)
            root = self._with_number("add_number", root, 0.0)
            least, largest = self._plan.number(-np.inf), self._plan.number(np.inf)
            infinite = self._plan.step(
                "compare", self._loop("equal"), (x, least), 0.15, boolean=True
            )
            inputs = (infinite, largest, root)
            root = self._plan.step("select", self._loop("where"), inputs, 0.2)
            return root if exponent > 0 else self._with_number("divide_from", root, 1.0)
        if exponent < 0:
            return self._square(self._with_number("divide_from", x, 1.0))
        power = self._square(x)
        if exponent > 3:
            power = self._square(power)
        if exponent == 4:
            return power
        return self._plan.step("binary", self._loop("multiply"), (power, x), 0.15)

    def _clip(self, x: Any, least: Any, most: Any) -> int:
        y = self._array(x)
        for name, bound in (("maximum", least), ("minimum", most)):
            if bound is None:
                continue
            limit = self._operand(bound)
            _require(limit not in self._rows)
            kind, loop = ("with_number", f"{name}_number") if limit < 0 else ("binary", name)
            y = self._plan.step(kind, self._loop(loop), (y, limit), 0.1)
        _require(least is not None or most is not None)
        return y

    def _kinked_gradient(self, call: Any) -> int:
        """Adds the choice between g and its product with the slope below 0."""
        g, x = map(self._array, call.inputs)
        _require(self._dtype == np.float32)
        slope = call.attributes["negative_slope" if "leaky" in call.op.name else "alpha"]
        below = self._with_number("multiply_number", g, slope)
        if call.op.name == "elu_gradient":
            bounded = self._with_number("minimum_number", x, 0.0)
            growth = self._plan.step("unary", self._loop("exp"), (bounded,), 0.5)
            below = self._binary("multiply", below, growth)
        pair = (x, self._plan.number(0.0))
        above = self._plan.step("compare", self._loop("greater"), pair, 0.15, boolean=True)
        return self._plan.step("select", self._loop("where"), (above, g, below), 0.2)

    def _huber(self, inputs: tuple[int, ...], delta: float) -> int:
        _require(self._dtype == np.float32 and delta > 0)
        difference = self._binary("subtract", *inputs)
        error = self._plan.step("unary", self._loop("abs"), (difference,), 0.1)
        clipped = self._with_number("minimum_number", error, delta)
        half = self._with_number("multiply_number", self._square(clipped), 0.5)
        rest = self._with_number("multiply_number", self._binary("subtract", error, clipped), delta)
        return self._binary("add", half, rest)

    def _binary(self, name: str, x1: int, x2: int) -> int:
        return self._plan.step("binary", self._loop(name), (x1, x2), 0.15)

    def _square(self, x: int) -> int:
        return self._plan.step("unary", self._loop("square"), (x,), 0.1)

    def _with_number(self, loop: str, x: int, number: float) -> int:
        inputs = (x, self._plan.number(number))
        return self._plan.step("with_number", self._loop(loop), inputs, 0.1)

    def _over_rows(self, call: Any) -> None:
        """Adds a call of softmax or a normalization over the last axis."""
        name, attributes = call.op.name, call.attributes
        last, width = len(self._shape) - 1, self._shape[-1]
        _require(attributes["axis"] in (last, (last,)) and self._dtype == np.float32)
        a_row, an_element, aside = OVER_ROWS[name]
        x, *rows = call.inputs
        registers = self._plan.over_rows(
            self._loop(name),
            (self._array(x), *map(self._row, rows)),
            a_row / width + an_element,
            aside,
            attributes.get("epsilon", 0.0),
        )
        self._operands.update(zip(call.results, registers, strict=True))

    def _batch_norm(self, call: Any) -> int:
        """Adds batch normalization of the last axis by given statistics."""
        attributes = call.attributes
        _require(attributes["axis"] == len(self._shape) - 1 and self._dtype == np.float32)
        _require(None not in call.inputs and len(self._shape) > 1)
        x, mean, variance, scale, offset = call.inputs
        factors = self._plan.factors(self._row(variance), self._row(scale), attributes["epsilon"])
        inputs = (self._array(x), self._row(mean), factors, self._row(offset))
        [y] = self._plan.over_rows(self._loop("channel_affine"), inputs, 0.25, 0)
        return y

    def _sum(self, call: Any) -> int:
        [value] = call.values
        axis, shape = call.attributes["axis"], value.shape
        _require(call.attributes.get("dtype") is None and value.dtype == self._dtype)
        axes = range(len(shape)) if axis is None else axis
        result = call.results[0].shape
        return self._plan.sum(self._array(value), axes, result, mean=call.op.name == "mean")


def _compile(plan: tuple[Any, ...], kernel: Kernel) -> None:
    """Asks for a kernel to be compiled: loads what that takes, which most programs do without."""
    import_module("pullback_native.compiled.worker").add(plan, kernel)


def _require(condition: object) -> None:
    if not condition:
        raise Unsupported
