"""One framework in a process of its own: does what `ops.py` asks on standard input.

    python ops_worker.py torch

Run with the Python of an environment that has the framework: nothing else than it and NumPy is
needed here. A case is loaded, which answers with some values of its results, and then timed, round
after round.
"""

from __future__ import annotations

import ast
import functools
import importlib
import json
import os
import sys
import textwrap
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from ops_cases import changes, names, parts
from ops_cases.inputs import FORMS, VARIED, base_shape, specs, values

SHOWN = 40  # values of a result that are compared
BLOCK_SECONDS = 0.0015
#: Calls before a mode is timed, or as many as fit. The first ones resolve kernels, and compile a
#: graph's backward pass, which a block of a few calls would be measured by.
WARM, WARM_SECONDS = int(os.environ.get("OPS_WARM", "16")), 0.03
CLOCK = {"wall": time.perf_counter, "cpu": time.process_time}[os.environ.get("OPS_CLOCK", "wall")]

_LOOP = """
def block(n_, {inputs}):
    for _ in range(n_):
{body}
def once({inputs}):
{before}
    return {result}
"""
_FORWARD = """
def forward({inputs}):
{body}
    return {result}
"""
_TAPE = """
def gradient({inputs}):
    with pb.GradientTape() as tape_:
        tape_.watch([{sources}])
{body}
        out_ = {result}
    return tape_.gradient(out_, [{sources}], output_gradients=seed_)
"""
_AUTOGRAD = """
def gradient({inputs}):
{body}
    return torch.autograd.grad({result}, [{sources}], seed_, allow_unused=True)
"""


class NumPy:
    """The expression on NumPy's arrays."""

    name, gradient = "np", ""

    def __init__(self) -> None:
        self.module: Any = np

    def asarray(self, host: Any, dtype: str) -> Any:
        """An input from its values."""
        if dtype == "bfloat16":
            raise TypeError("NumPy has no bfloat16")
        return host

    def permuted(self, base: Any, axes: tuple[int, ...]) -> Any:
        return np.transpose(base, axes)

    def form(self, base: Any, shape: tuple[int, ...], layout: str) -> Any:
        """An input of a layout, from its contiguous array."""
        if layout == "transposed":
            return self.permuted(base, tuple(range(len(shape)))[::-1])
        if layout == "other order":
            return self.permuted(base, (0, *range(2, len(shape)), 1))
        if layout == "second":
            return base[..., ::2]
        if layout == "offset":
            return base[1:]
        return self.module.broadcast_to(base, shape)

    def image(self, host: Any) -> Any:
        """The order of axes that a framework's images have."""
        return host

    def watched(self, x: Any) -> Any:
        """The input to which a gradient is taken."""
        return x

    def host(self, x: Any) -> Any:
        """A result as a NumPy array, bfloat16 as float32."""
        return np.asarray(x)


class Pullback(NumPy):
    """The expression on tensors, eager and captured."""

    name, gradient = "pb", _TAPE

    def __init__(self) -> None:
        self.module = importlib.import_module("pullback")

    def asarray(self, host: Any, dtype: str) -> Any:
        made = self.module.asarray(host)
        return made.astype("bfloat16") if dtype == "bfloat16" else made

    def permuted(self, base: Any, axes: tuple[int, ...]) -> Any:
        return self.module.permute_dims(base, axes)

    def host(self, x: Any) -> Any:
        if "bfloat16" in str(getattr(x, "dtype", "")):
            x = x.astype("float32")
        return np.asarray(x)


class Torch(NumPy):
    """The expression on PyTorch's tensors; images have their channels first."""

    name, gradient = "torch", _AUTOGRAD

    def __init__(self) -> None:
        self.module = importlib.import_module("torch")
        self.module.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

    def asarray(self, host: Any, dtype: str) -> Any:
        made = self.module.from_numpy(np.array(host))
        return made.to(self.module.bfloat16) if dtype == "bfloat16" else made

    def permuted(self, base: Any, axes: tuple[int, ...]) -> Any:
        return base.permute(axes)

    def form(self, base: Any, shape: tuple[int, ...], layout: str) -> Any:
        if layout == "other order":
            return base.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        return super().form(base, shape, layout)

    def image(self, host: Any) -> Any:
        # Kernels are the only ones whose first axes are that small.
        kernel = host.shape[:2] in ((3, 3), (1, 1))
        return np.ascontiguousarray(host.transpose((3, 2, 0, 1) if kernel else (0, 3, 1, 2)))

    def watched(self, x: Any) -> Any:
        return x.detach().requires_grad_()

    def host(self, x: Any) -> Any:
        if not isinstance(x, self.module.Tensor):
            return np.asarray(x)
        x = x.detach().resolve_conj().resolve_neg()
        return (x.float() if x.dtype == self.module.bfloat16 else x).numpy()


class Worker:
    """One case at a time, in each mode that it has: forward, gradient, and both captured."""

    def __init__(self, framework: str) -> None:
        self.framework = {"numpy": NumPy, "pullback": Pullback, "torch": Torch}[framework]()
        self.blocks: dict[str, Callable[[int], None]] = {}
        self.counts: dict[str, int] = {}
        self.case: dict[str, Any] = {"expression": "x"}
        self.made = functools.lru_cache(24)(self._made)

    # A case --------------------------------------------------------------------------------------

    def load(self, case: dict[str, Any]) -> dict[str, Any]:
        """Some values of the results of each mode, or why there are none."""
        if changes(self.case["expression"]):
            self.made.cache_clear()
        self.blocks, self.counts, self.case = {}, {}, case
        self.images = case["family"] == "image"
        body, self.setup = parts(case["expression"])
        self.statements, self.last, self.result = split(body)
        known = specs(case["family"], case["n"], case["layout"])
        place = [case[key] for key in ("family", "n", "dtype", "layout")]
        inputs = {name: self.made(name, *place) for name in names(case["expression"]) & set(known)}
        result, space = self._forward(inputs)
        answers = {"forward": self._summary(result)}
        steps = {}
        if case["captured"] and self.framework.name == "pb":
            steps["captured"] = lambda: self._captured(inputs, space)
        if case["gradient"] and self.framework.gradient:
            steps["gradient"] = lambda: self._gradient(inputs, result)
        for mode, step in steps.items():
            try:
                answers[mode] = self._summary(step())
            except Exception as error:  # the other modes may work
                answers[mode] = {"error": f"{type(error).__name__}: {error}"[:300]}
        return answers

    def _made(self, name: str, family: str, n: int, dtype: str, layout: str) -> Any:
        """An input, in the layout of the case where it is one that varies."""
        spec = specs(family, n, layout)[name]
        varied = layout in FORMS and name in VARIED and len(spec.shape) > 1
        if len(spec.shape) == 1 and layout in ("second", "offset"):
            varied = name in VARIED and family != "image"
        shape = base_shape(spec.shape, layout) if varied else spec.shape
        host = values(name, spec, dtype, shape)
        if family == "image" and host.ndim == 4 and not varied:
            host = self.framework.image(host)
        own = spec.kind.split()[0] in ("bool", "few", "complex", "index")
        made = self.framework.asarray(host, "" if own else dtype)
        return self.framework.form(made, spec.shape, layout) if varied else made

    def _defined(self, template: str, space: dict[str, Any], **fields: str) -> dict[str, Any]:
        """The space of names, with what a template defines in it."""
        source = template.format(result=self.result, **fields)
        exec(source, space)
        return space

    def _space(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The names that an expression can read: the framework, inputs, what is made before."""
        space = {self.framework.name: self.framework.module, **inputs}
        exec(self.setup, space)
        return space

    def _forward(self, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        space = self._space(inputs)
        # As defaults, so that they are read as fast as a function's own names are.
        known = ", ".join(f"{name}={name}" for name in space if not name.startswith("__"))
        body = textwrap.indent("\n".join([*self.statements, self.last]), " " * 8)
        before = textwrap.indent("\n".join(self.statements), " " * 4)
        made = self._defined(_LOOP, dict(space), inputs=known, body=body, before=before)
        self.blocks["forward"] = made["block"]
        return made["once"](), space

    def _captured(self, inputs: dict[str, Any], space: dict[str, Any]) -> Any:
        body = textwrap.indent("\n".join(self.statements or ["pass"]), " " * 4)
        made = self._defined(_FORWARD, dict(space), inputs=", ".join(inputs), body=body)
        return self._program("captured", made["forward"], list(inputs.values()))

    def _gradient(self, inputs: dict[str, Any], result: Any) -> Any:
        """The gradients by a cotangent that is no constant; of several results the first float."""
        picked = ""
        if isinstance(result, (tuple, list)):
            index = next(i for i, one in enumerate(result) if "float" in str(one.dtype))
            result, picked = result[index], f"[{index}]"
        sources = self.case["sources"]
        watched = {name: self.framework.watched(inputs[name]) for name in sources}
        inputs = inputs | watched
        space = self._space(inputs)
        space["seed_"] = self._cotangent(result)
        indent = 8 if self.framework.name == "pb" else 4
        body = textwrap.indent("\n".join(self.statements or ["pass"]), " " * indent)
        fields = {"inputs": ", ".join(inputs), "sources": ", ".join(sources), "body": body}
        template = self.framework.gradient.replace("{result}", "({result})" + picked)
        function = self._defined(template, space, **fields)["gradient"]
        arguments = list(inputs.values())
        found = function(*arguments)
        self._calls("gradient", function, arguments)
        if self.case["captured"] and self.framework.name == "pb":
            try:
                self._program("captured gradient", function, arguments)
            except Exception as error:
                print(error, file=sys.stderr)
        return list(found)

    def _cotangent(self, result: Any) -> Any:
        """Values of a result's shape and dtype; None for a single number."""
        if not result.ndim:
            return None
        shape = self.framework.host(result).shape
        dtype = str(result.dtype).removeprefix("torch.")
        image = self.images and len(shape) == 4 and self.framework.name == "torch"
        if image:
            shape = (shape[0], *shape[2:], shape[1])
        host = np.resize(np.linspace(0.5, 1.5, 1009), shape)
        host = host.astype("float32" if dtype == "bfloat16" else dtype)
        if image:
            host = np.ascontiguousarray(host.transpose(0, 3, 1, 2))
        return self.framework.asarray(host, dtype)

    def _program(self, mode: str, function: Any, arguments: list[Any]) -> Any:
        program = self.framework.module.function(function)
        program(*arguments)
        found = program(*arguments)
        self._calls(mode, program, arguments)
        return found

    def _calls(self, mode: str, function: Any, arguments: list[Any]) -> None:
        def block(n: int) -> None:
            for _ in range(n):
                function(*arguments)

        self.blocks[mode] = block

    # Answers -------------------------------------------------------------------------------------

    def time(self) -> dict[str, float]:
        """Seconds of each mode, the mean over a block."""
        return {mode: self._time(mode) for mode in self.blocks}

    def _time(self, mode: str) -> float:
        block = self.blocks[mode]
        if mode not in self.counts:
            begin, calls, n = CLOCK(), 0, 1
            while calls < WARM and CLOCK() - begin < WARM_SECONDS:
                block(1)
                calls += 1
            while (took := timed(block, n)) < BLOCK_SECONDS / 2:
                n *= 2
            self.counts[mode] = max(1, round(n * BLOCK_SECONDS / took))
        return timed(block, self.counts[mode]) / self.counts[mode]

    def _summary(self, result: Any) -> dict[str, Any]:
        """Sizes of all results, and some values, the mean and the root of the mean square.

        Of images the least and the greatest: their values come in another order.
        """
        shapes, flat = [], []
        for one in result if isinstance(result, (tuple, list)) else [result]:
            if one is None or isinstance(one, (str, bytes)):
                continue
            array = self.framework.host(one)
            shapes.append(sorted(array.shape) if self.images else list(array.shape))
            if array.dtype.kind == "c":
                array = np.stack([array.real, array.imag], -1)
            some = array.reshape(-1).astype(np.float64)
            if not some.size:
                continue
            if self.images:
                flat += [float(some.min()), float(some.max())]
            else:
                flat += some[:: max(1, some.size // SHOWN)][:SHOWN].tolist()
            flat += [float(some.mean()), float(np.sqrt((some * some).mean()))]
        return {"shapes": shapes, "values": flat}


def split(body: str) -> tuple[list[str], str, str]:
    """The statements, a last expression, and what has the result."""
    *before, last = ast.parse(body).body
    statements, source = [ast.unparse(one) for one in before], ast.unparse(last)
    if isinstance(last, ast.Expr):
        return statements, source, source
    result = ast.unparse(last.target) if isinstance(last, ast.AugAssign) else "0"
    return [*statements, source], "", result


def timed(block: Callable[[int], None], n: int) -> float:
    begin = CLOCK()
    block(n)
    return CLOCK() - begin


def main() -> None:
    # Frameworks write to standard output; what goes back to ops.py has a channel of its own.
    back = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    np.seterr(all="ignore")
    warnings.simplefilter("ignore")
    worker = Worker(sys.argv[1])
    print(json.dumps([]), file=back, flush=True)
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        try:
            answer = getattr(worker, method)(*arguments)
        except Exception as error:  # one case that fails is a gap in the table
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=back, flush=True)


if __name__ == "__main__":
    main()
