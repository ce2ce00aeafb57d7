"""Graphs that a backend compiles, as programs hold them: inputs that are results, writes, loops.

They are checked once for a backend. Their ops are exact, so that results
have the bits of the calls one by one; the accuracy of each op in a graph is measured with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from pullback import dtypes, errors
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.graph.control.functions import cond, scan, switch, while_loop
from pullback.graph.function import function
from pullback.ops.arithmetic import negative
from pullback.ops.comparison import less
from pullback.ops.indexing import take
from pullback.ops.reductions import max as largest
from pullback.ops.selection import where
from pullback.random import Generator
from pullback.tensor import Tensor, wrap
from pullback.variable import Variable
from pullback_conformance.case import to_tensor
from pullback_conformance.compare import ConformanceError, all_identical
from pullback_conformance.derived.values import floats
from pullback_conformance.layouts import LAYOUTS
from pullback_conformance.registry import Area, check
from pullback_conformance.repetition import at_once
from pullback_conformance.sample import Array
from pullback_conformance.whole import checked, compiles

#: A function of two arrays of one shape; returns tensors.
Program: TypeAlias = Callable[[Tensor, Tensor], Sequence[Tensor]]
#: More calls than a kernel or a stack may hold.
CALLS = 40
#: The number of calls of each of two threads.
TURNS = 40


def compiles_programs(device: Device) -> bool:
    """Returns whether the backend compiles graphs, with what these are made of."""
    backend = device.backend
    needed = ("negative", "less", "where", "max")
    return (
        compiles(device)
        and {dtypes.float32, dtypes.bool_, dtypes.int32} <= set(backend.dtypes)
        and all(backend.kernels_for(name) for name in needed)
    )


@check(Area.VALUES, per="backend", applies=compiles_programs)
def programs(device: Device) -> None:
    """Checks graphs with inputs among their results, values twice, constants, and many calls."""
    constant = to_tensor(_arrays(3)[0], device)
    every: dict[str, Program] = {
        "inputs as results": lambda x, y: (x, negative(y), y),
        "an input without use": lambda x, y: (negative(y),),
        "one value as two results": lambda x, y: (z := negative(x), less(y, x), z),
        "a constant": lambda x, y: (less(x, constant), where(less(y, constant), x, constant)),
        "a constant as a result": lambda x, y: (less(x, y), constant),
        "results without axes": lambda x, y: (largest(x), largest(y), less(largest(x), y)),
        "many calls": lambda x, y: (_long(x, y), less(x, y)),
    }
    flow = device.backend.control_flow
    controls: dict[str, Program] = {
        "cond": lambda x, y: cond(
            less(largest(y), largest(x)), lambda a, b: (a, b), lambda a, b: (b, negative(a)), x, y
        ),
        "switch": lambda x, y: switch(
            where(less(x[0, 0], y[0, 0]), 2, 1),
            [lambda a, b: (a, b), lambda a, b: (b, a), lambda a, b: (negative(a), b)],
            x,
            y,
        ),
        "scan": lambda x, y: scan(
            lambda carry, row: (where(less(carry, row[0]), row[1], carry), negative(carry)),
            y[0],
            (x, y),
            reverse=True,
        ),
        "while_loop": lambda x, y: while_loop(
            lambda carry: carry[0] < 5,
            lambda carry: (carry[0] + 1, negative(carry[2]), carry[1]),
            (where(less(x[0, 0], y[0, 0]), 1, 2), x, y),
        ),
    }
    every.update((name, program) for name, program in controls.items() if name in flow)
    for name, program in every.items():
        _compare(device, name, program)
    _writes(device)
    _reads(device)
    _look_alikes(device)
    _numbers(device)
    _constants(device)
    if device.backend.kernels_for("random_bits") and dtypes.uint32 in device.backend.dtypes:
        _draws(device)
    if device.backend.kernels_for("take") and dtypes.int64 in device.backend.dtypes:
        _wrong_calls(device)


def _long(x: Tensor, y: Tensor) -> Tensor:
    for i in range(CALLS):
        x = where(less(x, y), negative(y if i % 3 else x), x)
    return x


def _arrays(seed: int = 0) -> tuple[Array, Array]:
    """Two arrays of normal numbers and infinities."""
    drawn = np.concatenate([floats(dtypes.float32, seed=seed + i) for i in range(3)])
    numbers = drawn[np.abs(drawn) > 1e-30].astype(np.float32)[:210]
    x = numbers.reshape(14, 15)
    return x, np.roll(x, 3 + seed)


def _compare(device: Device, name: str, program: Program) -> None:
    """Compares a captured program with its calls one by one, in each way of calling it."""
    captured = function(program)
    x, y = _arrays()
    tensors = [to_tensor(value, device) for value in (x, y)]
    first = checked(f"{device}: a graph ({name})", captured, *tensors)
    kept = [np.array(result.numpy()) for result in first]
    _same(device, name, first, program(*tensors))
    others = [to_tensor(value, device) for value in _arrays(1)]
    _same(device, f"{name}, with other values", captured(*others), program(*others))
    all_identical(device, first, kept, f"{name}: an earlier result after another call")
    all_identical(device, tensors, (x, y), f"{name}: an input after the call")
    for layout, lay in LAYOUTS.items():
        for laid in ((lay(x), y), (x, lay(y)), (lay(x), lay(y))):
            pair = [to_tensor(value, device, copy=False) for value in laid]
            _same(device, f"{name}, with {layout} inputs", captured(*pair), program(*pair))
    # One tensor is one input; two tensors may share an array all the same.
    once, again = tensors[0], wrap(tensors[0]._array, device)
    for other, words in ((once, "one tensor twice"), (again, "one array in two tensors")):
        _same(device, f"{name}, with {words}", captured(once, other), program(once, other))
    _at_once(device, name, captured, tensors, others)


def _same(device: Device, name: str, found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    all_identical(device, _flat(found), _flat(expected), f"a graph ({name}): result {{i}}")


def _flat(values: Any) -> list[Tensor]:
    if isinstance(values, Tensor):
        return [values]
    return [leaf for value in values for leaf in _flat(value)]


def _at_once(device: Device, name: str, captured: Any, *inputs: Sequence[Tensor]) -> None:
    """Two threads call a program at the same time, each with its own values."""

    def call(pair: Sequence[Tensor]) -> list[Array]:
        return [y.numpy() for y in _flat(captured(*pair))]

    calls = [partial(call, pair) for pair in inputs]
    error = at_once(device, device, calls, TURNS, "while another thread calls it")
    if error is not None:
        raise ConformanceError(f"{device}: a graph ({name}) in two threads: {error}")


def _writes(device: Device) -> None:
    """Variables that a program exchanges, and one that it reads, writes and reads again."""
    hosts = (*_arrays(), _arrays(1)[0])

    def made() -> tuple[list[Variable], Callable[[Tensor], Sequence[Tensor]]]:
        a, b, c = (Variable(to_tensor(host, device)) for host in hosts)

        def program(x: Tensor) -> Sequence[Tensor]:
            before = negative(negative(a))
            a.assign(b)
            b.assign(before)
            c.assign(where(less(c, x), x, c))
            d = negative(c)
            c.assign(d)
            return less(b, x), d

        return [a, b, c], program

    variables, program = made()
    goals, by_calls = made()
    captured = function(program)
    for i in range(5):
        x = to_tensor(_arrays(i)[0], device)
        name = f"writes to variables, run {i + 1}"
        _same(device, name, captured(x), by_calls(x))
        found = [variable.value for variable in variables]
        all_identical(
            device, found, [goal.value for goal in goals], f"a graph ({name}): a variable"
        )


def _reads(device: Device) -> None:
    """A variable that a program only reads, which is assigned to between its runs."""
    hosts = [_arrays(i)[0] for i in range(3)]
    variable = Variable(to_tensor(hosts[0], device))
    x = to_tensor(_arrays()[1], device)
    captured = function(lambda x: (less(x, variable), negative(variable)))
    for i in range(9):
        # Three runs with each value, so that a program may take it for a constant.
        if i % 3 == 0:
            variable.assign(to_tensor(hosts[i // 3], device))
        value = variable.value
        name = f"a variable that is assigned to between runs, run {i + 1}"
        _same(device, name, captured(x), (less(x, value), negative(value)))


def _numbers(device: Device) -> None:
    """Numbers of the host, such as the rate of a schedule: they differ between calls."""
    captured = function(lambda x, number: (less(x, number), where(less(x, number), x, negative(x))))
    x = to_tensor(_arrays()[0], device)
    for i in range(12):
        # Two calls with each: after three values a number is an input of the program.
        number = (i // 2 - 2) * 0.75
        below = less(x, number)
        name = f"numbers of the host that differ, run {i + 1}"
        _same(device, name, captured(x, number), (below, where(below, x, negative(x))))


def _constants(device: Device) -> None:
    """Numbers that a program has in its source: those of which a decimal or a float loses bits."""
    whole = [2**62 + 1, 2**53 + 1, -(2**63), 2**24 + 1]
    floats_ = [0.1, 1 / 3, 5e-324, 1 - 2.0**-53, np.nextafter(2.0, 3.0), -0.0]
    chosen: dict[DType, list[Any]] = {dtypes.int64: whole, dtypes.float64: floats_}
    chosen[dtypes.float32] = [float(np.float32(n)) for n in (0.1, 1 / 3, 1e-45, 16777215.0)]
    for dtype, numbers in chosen.items():
        if dtype not in device.backend.dtypes:
            continue
        for number in numbers:
            constant = to_tensor(np.full((3, 5), number, dtype), device)
            x = to_tensor(np.resize(np.array([0, 1], dtype), (3, 5)), device)

            def program(x: Tensor, c: Tensor = constant, n: Any = number) -> Sequence[Tensor]:
                return where(less(x, 1), c, x), where(less(x, 1), x, n)

            captured = function(program)
            for _ in range(3):
                _same(device, f"the constant {number!r} of {dtype}", captured(x), program(x))


def _draws(device: Device) -> None:
    """Random numbers: those of the calls one by one from the same state, other ones each time."""
    drawn, alone = Generator(7), Generator(7)

    def program(generator: Generator, x: Tensor) -> Sequence[Tensor]:
        return generator.uniform((14, 15), device=device), negative(x)

    @function
    def draws(x: Tensor) -> Sequence[Tensor]:
        return program(drawn, x)

    x = to_tensor(_arrays()[0], device)
    for i in range(6):
        # The first is three calls.
        for _ in range(1 if i else 3):
            expected = program(alone, x)
        found = draws(x) if i else checked(f"{device}: a graph (draws)", draws, x)
        _same(device, f"draws, run {i + 1}", found, expected)


def _wrong_calls(device: Device) -> None:
    """A position out of range, which an earlier call of the program did not have."""
    captured = function(lambda x, places: (take(x, places, axis=0), negative(x)))
    x = to_tensor(_arrays()[0], device)
    right, wrong = (to_tensor(np.asarray(p), device) for p in ([0, 13, 3], [0, 99, 3]))
    for _ in range(3):
        _same(device, "positions", captured(x, right), (take(x, right, axis=0), negative(x)))
    try:
        captured(x, wrong)
        device.synchronize()
    except errors.IndexingError:
        pass
    else:
        raise ConformanceError(
            f"{device}: a graph (wrong calls): take with the position 99 of 14 raised nothing; "
            f"raise IndexError, or use `require` of pullback.plugins.compiling"
        )
    _same(device, "positions", captured(x, right), (take(x, right, axis=0), negative(x)))


def _look_alikes(device: Device) -> None:
    """Programs that differ in one constant, number or attribute, and are called in turn."""

    def by_constant(constant: Tensor) -> Program:
        return lambda x, y: (where(less(x, constant), x, y),)

    def by_number(number: float) -> Program:
        return lambda x, y: (less(x, number), negative(y))

    def by_axis(axis: int) -> Program:
        return lambda x, y: (largest(x, axis=axis), negative(y))

    constants = [to_tensor(_arrays(seed)[0], device) for seed in (3, 4)]
    pairs: dict[str, list[Program]] = {
        "a constant": list(map(by_constant, constants)),
        "a number": [by_number(2.0), by_number(-2.0)],
        "an attribute": list(map(by_axis, (0, -2, 1))),
    }
    x, y = (to_tensor(value, device) for value in _arrays())
    for name, programs in pairs.items():
        captured = [function(program) for program in programs]
        for _ in range(3):
            for program, call in zip(programs, captured, strict=True):
                _same(device, f"programs that differ in {name}", call(x, y), program(x, y))
