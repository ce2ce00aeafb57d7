"""Random graphs of 2 to 12 ops, and variants of each that look alike."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from replay_graphs import LAID_OUT, Table, devices

import pullback as pb
from pullback._tree import leaves
from pullback.dtypes import is_floating
from pullback.tensor import Tensor
from pullback_conformance.case import to_tensor

NUMBERS = (1, True, 1.0, 0.0, -0.0, 2, 2.0, float("nan"), float("inf"), 0, False)
SHAPES = ((3, 3), (2, 3), (4, 4), (3,), (), (0, 3), (1, 4), (2, 2, 3), (1, 1), (3, 1))
DTYPES = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128")
REAL = ("float32", "float64", "float16", "bfloat16")
KEYS: tuple[Any, ...] = (
    0, True, False, ..., slice(None, None, -1), slice(0, 1), slice(False, True), None,
)  # fmt: skip


def _cut(x: Tensor, n: int) -> Tensor:
    return x[KEYS[n % len(KEYS)]] if x.ndim else x[...]


def _number(n: int) -> float:
    return NUMBERS[n % len(NUMBERS)]


def _axis(x: Tensor, n: int) -> Any:
    return (None, 0, -1, False, tuple(range(x.ndim)))[n % 5] if x.ndim else None


#: Ops of one tensor and a choice among their attributes.
UNARY: dict[str, Callable[[Tensor, int], Tensor]] = {
    "negative": lambda x, n: pb.negative(x),
    "positive": lambda x, n: pb.positive(x),
    "flip": lambda x, n: pb.flip(x, axis=_axis(x, n)),
    "tril": lambda x, n: pb.tril(x, k=(0, 1, True, -1, False)[n % 5]),
    "triu": lambda x, n: pb.triu(x, k=(0, 1, True, -1, False)[n % 5]),
    "permute_dims": lambda x, n: pb.permute_dims(x, tuple(range(x.ndim))[::-1]),
    "moveaxis": lambda x, n: pb.moveaxis(x, (0, False)[n % 2], -1),
    "roll": lambda x, n: pb.roll(x, (1, True, 2, -1)[n % 4], axis=_axis(x, n)),
    "cumulative_sum": lambda x, n: pb.cumulative_sum(x, axis=(0, -1, False)[n % 3]),
    "astype": lambda x, n: pb.astype(x, (DTYPES if "c" in str(x.dtype) else REAL)[n % 4]),
    "complex": lambda x, n: pb.astype(x, DTYPES[4 + n % 2]),
    "flat": lambda x, n: pb.reshape(x, (-1,)),
    "same": lambda x, n: pb.reshape(x, x.shape),
    "expand_dims": lambda x, n: pb.expand_dims(x, axis=(0, -1, False)[n % 3]),
    "sum": lambda x, n: pb.sum(x, axis=_axis(x, n), keepdims=bool(n % 2)),
    "mean": lambda x, n: pb.mean(x, axis=_axis(x, n), keepdims=bool(n % 2)),
    "max": lambda x, n: pb.max(x, axis=_axis(x, n)),
    "var": lambda x, n: pb.var(x, correction=(0, 0.0, 1, True, -0.0)[n % 5]),
    "square": lambda x, n: pb.square(x),
    "sin": lambda x, n: pb.sin(x),
    "exp": lambda x, n: pb.exp(x),
    "tanh": lambda x, n: pb.tanh(x),
    "abs": lambda x, n: pb.abs(x),
    "real": lambda x, n: pb.real(x),
    "conj": lambda x, n: pb.conj(x),
    "times": lambda x, n: x * _number(n),
    "plus": lambda x, n: _number(n) + x,
    "minus": lambda x, n: _number(n) - x,
    "power": lambda x, n: x ** _number(n),
    "clip": lambda x, n: pb.clip(x, (0.0, -0.0, 0, False)[n % 4], 1.0),
    "pad": lambda x, n: pb.pad(x, 1, constant_values=_number(n)),
    "index": _cut,
    "broadcast_to": lambda x, n: pb.broadcast_to(x, (1 + n % 2, *x.shape)),
    "concat": lambda x, n: pb.concat([x, x], axis=(0, -1, None)[n % 3]),
    "stack": lambda x, n: pb.stack([x, x, x][: 1 + n % 3], axis=(0, -1, False)[n % 3]),
    "repeat": lambda x, n: pb.repeat(x, (1, True, 2)[n % 3], axis=_axis(x, n % 3)),
    "tile": lambda x, n: pb.tile(x, ((1,), (True,), (2, 1))[n % 3]),
    "leaky_relu": lambda x, n: pb.leaky_relu(x, negative_slope=(0.0, -0.0, 1.0, 0.1)[n % 4]),
    "gelu": lambda x, n: pb.gelu(x, approximate=(True, "tanh", False, "none")[n % 4]),
    "softmax": lambda x, n: pb.softmax(x, axis=(0, -1, False)[n % 3]),
    "diagonal": lambda x, n: pb.linalg.diagonal(x, offset=(0, 1, True, False)[n % 4]),
    "where": lambda x, n: pb.where(pb.isfinite(x), x, _number(n)),
    "split": lambda x, n: pb.unstack(x)[0] if x.ndim and x.shape[0] else x + 0.0,
}
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": pb.add,
    "subtract": pb.subtract,
    "multiply": pb.multiply,
    "divide": pb.divide,
    "maximum": pb.maximum,
    "matmul": lambda x, y: pb.matmul(x, pb.matrix_transpose(y)),
    "concat": lambda x, y: pb.concat([x, y], axis=None),
    "stack": lambda x, y: pb.stack([x, y]),
    "times the sum": lambda x, y: x * pb.sum(y),
    "where": lambda x, y: pb.where(pb.isfinite(x), x, y),
}


#: Ops whose nodes keep no array: graphs of these are never compared by arrays.
BARE = (
    "negative", "flip", "tril", "triu", "permute_dims", "roll", "cumulative_sum", "astype", "flat",
    "same", "sum", "mean", "real", "conj", "plus", "minus", "index", "broadcast_to", "concat",
    "stack", "repeat", "tile", "complex",
)  # fmt: skip
#: Ops whose nodes keep no shape either.
STILL = ("flip", "tril", "triu", "permute_dims", "moveaxis", "cumulative_sum", "astype", "complex")
BARE_BINARY = ("add", "subtract", "concat", "stack")


class Program:
    """A graph of 2 to 12 ops: the names of the steps, and the values that they take by number."""

    def __init__(self, rng: np.random.Generator, tables: Sequence[Table]) -> None:
        self.inputs = int(rng.integers(1, 4))
        self.steps: list[tuple[str, str, list[int]]] = []
        self.bare, wide = rng.random() < 0.5, rng.random() < 0.5
        unary: Sequence[str] = BARE if self.bare else list(UNARY)
        single = 0.6
        if rng.random() < 0.2:
            self.bare, unary, single = True, STILL, 1
        binary: Sequence[str] = BARE_BINARY if self.bare else list(BINARY)
        of_table = 0 if self.bare else 0.12
        count = int(rng.integers(2, 13))
        for i in range(count):
            values = self.inputs + i
            # Mostly of the latest results; or often of the inputs.
            operands = [max(0, values - 1 - int(rng.exponential(1.5))) for _ in range(2)]
            if wide and rng.random() < 0.5:
                operands[0] = int(rng.integers(self.inputs))
            kind = rng.random()
            if kind < of_table:
                name = list(tables[0])[rng.integers(len(tables[0]))]
                self.steps.append(("table", name, operands[:1]))
            elif kind < single:
                self.steps.append(("unary", unary[int(rng.integers(len(unary)))], operands[:1]))
            else:
                self.steps.append(("binary", binary[int(rng.integers(len(binary)))], operands))

    def order(self, rng: np.random.Generator, mixed: bool) -> list[int]:
        """The numbers of the steps in an order in which they can run, with the last step last."""
        waiting, done, order = list(range(len(self.steps))), set(range(self.inputs)), []
        while waiting:
            ready = [i for i in waiting if done.issuperset(self.steps[i][2])]
            last = len(self.steps) - 1
            ready = [i for i in ready if i != last] or ready
            i = ready[rng.integers(len(ready))] if mixed else ready[0]
            waiting.remove(i)
            done.add(self.inputs + i)
            order.append(i)
        return order


def _choice(rng: np.random.Generator, **weights: float) -> str:
    """A random name, by weight."""
    names, parts = list(weights), np.array(list(weights.values()), float)
    return names[rng.choice(len(names), p=parts / parts.sum())]


class Variant:
    """One way to run a program."""

    def __init__(self, program: Program, rng: np.random.Generator, tables: Sequence[Table]) -> None:
        self.program = program
        number = int(rng.random() < 0.3)
        self.device = devices()[number]
        self.shape = SHAPES[rng.integers(len(SHAPES))]
        self.dtypes = [DTYPES[rng.integers(len(DTYPES))]] * program.inputs
        if rng.random() < 0.2:
            self.dtypes[-1] = DTYPES[rng.integers(len(DTYPES))]
        self.layout = list(LAID_OUT)[rng.integers(len(LAID_OUT))]
        self.choices = rng.integers(0, 20, len(program.steps)).tolist()
        self.order = program.order(rng, rng.random() < 0.4)
        self.samples = [
            of_op[rng.integers(len(of_op))]
            if kind == "table" and (of_op := tables[number][name])
            else None
            for kind, name, _ in program.steps
        ]
        self.twice = rng.random() < 0.15
        self.special = rng.random() < 0.3
        self.target = ("itself", "itself", "itself", "sum", "real sum", "mean")[rng.integers(6)]
        self.sources = _choice(rng, all=12, back=1, one=1, few=1, made=1, unwatched=1, zero=1)
        self.last = _choice(rng, watched=8, made=1, other=1)
        self.persistent = rng.random() < 0.1
        self.seeded = rng.random() < 0.05
        self.seed = int(rng.integers(1 << 30))

    def changed(self, rng: np.random.Generator, tables: Sequence[Table]) -> Variant:
        """A variant that differs from this one in one or two attributes."""
        other, new = copy.copy(self), Variant(self.program, rng, tables)
        for _ in range(1 + int(rng.random() < 0.3)):
            name = _choice(
                rng, shape=3, dtypes=3, choices=3, order=2, layout=1, device=1, samples=1,
                twice=1, special=1, target=1, sources=2, last=2,
            )  # fmt: skip
            setattr(other, name, getattr(new, name))
            if name == "choices":
                i = int(rng.integers(len(self.choices)))
                other.choices = self.choices[:i] + new.choices[i : i + 1] + self.choices[i + 1 :]
            elif name == "last":
                other.last = _choice(rng, watched=1, made=1, other=1)
            elif name == "order":
                other.order = self.program.order(rng, True)
            elif name in ("device", "samples"):
                # Samples belong to their device.
                other.device, other.samples = new.device, new.samples
        return other

    def __repr__(self) -> str:
        about = {name: value for name, value in vars(self).items() if name != "program"}
        return repr(about | {"samples": [*map(str, self.samples)], "steps": self.program.steps})

    def arrays(self) -> list[Any]:
        """The inputs on the host."""
        rng = np.random.default_rng(self.seed)
        arrays = []
        for dtype in self.dtypes:
            values: Any = rng.standard_normal(self.shape)
            if self.special and values.size:
                positions = rng.integers(values.size, size=3)
                values.reshape(-1)[positions] = (
                    0.0,
                    -0.0,
                    [np.nan, np.inf, -np.inf][self.seed % 3],
                )
            if "complex" in dtype:
                values = values + 1j * rng.standard_normal(self.shape)
            arrays.append(
                LAID_OUT[self.layout](np.asarray(values, pb.asarray(0, dtype=dtype).dtype))
            )
        return arrays[:1] * len(arrays) if self.twice else arrays

    def __call__(self) -> Sequence[Tensor | None]:
        tensors = [to_tensor(array, self.device, copy=False) for array in self.arrays()]
        with pb.GradientTape(persistent=self.persistent) as tape:
            tape.watch(tensors[:-1])
            if self.last == "made":
                tensors[-1] = tensors[0] * tensors[0]
            else:
                tape.watch(tensors[-1] if self.last == "watched" else pb.positive(tensors[-1]))
            values = dict(enumerate(tensors))
            for i in self.order:
                values[len(tensors) + i] = self._step(i, values)
            last = values[len(tensors) + len(self.order) - 1]
            targets: dict[str, Callable[[], Tensor]] = {
                "itself": lambda: last, "sum": lambda: pb.sum(last), "mean": lambda: pb.mean(last),
                "real sum": lambda: pb.sum(pb.real(last)),
            }  # fmt: skip
            target = targets[self.target]()
        seed = None
        if self.seeded:
            seed = pb.full(target.shape, 3, dtype=target.dtype, device=self.device)
        made = values[len(tensors)]
        sources = {
            "all": tensors, "back": tensors[::-1], "one": tensors[0], "few": tensors[1:],
            "made": [*tensors, made], "zero": tensors,
            "unwatched": [*tensors[1:], to_tensor(np.ones(3), self.device)],
        }[self.sources]  # fmt: skip
        zero = self.sources == "zero"
        gradients = tape.gradient(target, sources, seed, "zero" if zero else "none")
        return gradients if isinstance(gradients, list) else [gradients]

    def _step(self, i: int, values: dict[int, Tensor]) -> Tensor:
        kind, name, operands = self.program.steps[i]
        x, *others = [values[number] for number in operands]
        if kind == "unary":
            try:
                return UNARY[name](x, self.choices[i])
            except pb.errors.PullbackError:
                return pb.negative(x)
        if kind == "binary":
            try:
                return BINARY[name](x, *others)
            except pb.errors.PullbackError:
                return pb.sum(x) - pb.sum(others[0])
        return self._of_table(i, x)

    def _of_table(self, i: int, x: Tensor) -> Tensor:
        """A sample of the op with 0 * the sum of x added to its first floating input."""
        case = self.samples[i]
        assert case is not None
        inputs = case.tensors()
        link = pb.sum(pb.real(pb.where(pb.isfinite(x), x, 0.0))) * 0.0
        for j, value in enumerate(inputs):
            if isinstance(value, Tensor) and is_floating(value.dtype):
                inputs[j] = value + pb.astype(link, value.dtype)
                break
        results = [t for t in leaves(case.call(inputs)) if is_floating(t.dtype)]
        return results[self.choices[i] % len(results)] if results else link


def random_family(tables: Sequence[Table], count: int, rng: np.random.Generator) -> list[Variant]:
    """A random graph and variants of it: changed in one or two attributes, or in all."""
    program = Program(rng, tables)
    first = Variant(program, rng, tables)
    return [first] + [
        first.changed(rng, tables) if rng.random() < 0.8 else Variant(program, rng, tables)
        for _ in range(count - 1)
    ]
