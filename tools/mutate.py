#!/usr/bin/env python3
"""Changes one line of core at a time, and sees whether the tests notice.

    uv run tools/mutate.py --count 150 --seed 7
    uv run tools/mutate.py --show

A mutant is one random change of a function: a comparison, an arithmetic or a boolean operator, a
number, a condition turned round, two arguments exchanged, a statement or a result left out. The
tests are collected once. A first pass notes which of them call which function (`--map` keeps it).
Then each mutant has a process forked from this one, which puts the new code into the function and
runs tests that call it, the quickest first, until one fails; a mutant that none notices is a
survivor. Each outcome is a line of `--results` at once, so that an interrupted run goes on where it
was. `--marks` chooses the lane. Nothing is written into the sources.

Code at the top of a module, and what tests run in other processes, are not looked at.
"""

from __future__ import annotations

import argparse
import ast
import gc
import inspect
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import pytest
from _pytest.runner import runtestprotocol

PACKAGES = ("_dispatch", "_autodiff", "graph", "data", "checkpoint")
#: What stands for what. Each is wrong nearly everywhere.
COMPARED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in",
}  # fmt: skip
COMPUTED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Div: "*",
            ast.Mod: "+", ast.BitOr: "&", ast.BitAnd: "|", ast.Pow: "*"}  # fmt: skip
#: Functions of array libraries that take one another's place.
EXCHANGED = dict([pair for a, b in (
    ("maximum", "minimum"), ("max", "min"), ("floor", "ceil"), ("any", "all"), ("sin", "cos"),
    ("add", "subtract"), ("less", "greater"), ("exp", "expm1"), ("log", "log1p"),
    ("zeros", "ones"), ("float32", "float64"), ("left_shift", "right_shift"), ("sum", "mean"),
    ("argmax", "argmin"), ("logical_and", "logical_or"), ("shape", "strides"),
) for pair in ((a, b), (b, a))])  # fmt: skip
#: Where the tests are that judge.
FOLDERS = ("dispatch", "autodiff", "graph", "data", "checkpoint")
#: At most so many tests for a mutant.
TESTS = 400
#: A mutant whose tests take longer has made something endless.
SECONDS = 120


class Mutant:
    """One change: `text` in place of the source between two offsets of a file."""

    def __init__(self, path: Path, node: ast.AST, text: str, kind: str) -> None:
        self.path, self.text, self.kind = path, text, kind
        self.lines = (node.lineno, node.end_lineno)
        self.columns = (node.col_offset, node.end_col_offset)

    def __str__(self) -> str:
        before = " ".join(self.before().split())
        return f"{self.path}:{self.lines[0]}: {self.kind}: {before} -> {self.text}"

    def offsets(self, source: bytes) -> tuple[int, int]:
        """The begin and the end of the change, in bytes."""
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        begin, end = (starts[n - 1] + c for n, c in zip(self.lines, self.columns, strict=True))
        return begin, end

    def before(self) -> str:
        """The text that is replaced."""
        source = self.path.read_bytes()
        begin, end = self.offsets(source)
        return source[begin:end].decode()

    def applied(self, source: bytes) -> bytes:
        """The file with the change."""
        begin, end = self.offsets(source)
        # As many lines as before: functions are told apart by the lines that they are on.
        lines = b"\\\n" * source.count(b"\n", begin, end)
        return source[:begin] + self.text.encode() + lines + source[end:]


def changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The changes of one node: what kind, and the new text."""
    match node:
        case ast.Compare(ops=[operator], left=left, comparators=[right]) if (
            type(operator) in COMPARED
        ):
            new = COMPARED[type(operator)]
            yield "comparison", f"({ast.unparse(left)} {new} {ast.unparse(right)})"
        case ast.BinOp(op=operator, left=left, right=right) if type(operator) in COMPUTED:
            new = COMPUTED[type(operator)]
            yield "arithmetic", f"({ast.unparse(left)} {new} {ast.unparse(right)})"
        case ast.BoolOp(op=operator, values=values):
            new = " and " if isinstance(operator, ast.Or) else " or "
            yield "boolean", f"({new.join(f'({ast.unparse(value)})' for value in values)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "boolean", f"bool({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            yield "constant", str(not value)
        case ast.Constant(value=int(value)):
            yield "off by one", str(value + 1)
        case ast.Constant(value=float(value)):
            yield "number", repr(value * 1.5 if value else 1.0)
        case ast.Attribute(value=owner, attr=name, ctx=ast.Load()) if name in EXCHANGED:
            yield "function", f"{ast.unparse(owner)}.{EXCHANGED[name]}"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            parts = (ast.unparse(orelse), ast.unparse(test), ast.unparse(body))
            yield "condition", "({} if {} else {})".format(*parts)
        case ast.Call(func=function, args=[first, second, *rest], keywords=keywords) if not (
            isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
        ):
            call = ast.Call(function, [second, first, *rest], keywords)
            yield "arguments", ast.unparse(call)
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield "statement", "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement", "pass"
        case ast.Return(value=value) if value is not None and not (
            isinstance(value, ast.Constant) and value.value is None
        ):
            yield "result", "return None"


def left_out(tree: ast.Module) -> set[ast.AST]:
    """The nodes that no test can notice: annotations, messages, what is for type checkers."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=annotation):
                found |= set(ast.walk(annotation)) if annotation else set()
            case ast.FunctionDef(returns=returns) if returns is not None:
                found |= set(ast.walk(returns))
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.JoinedStr() | ast.Raise():
                found |= set(ast.walk(node))
            case ast.Assign(value=ast.BinOp(op=ast.BitOr())):
                found |= set(ast.walk(node))  # a type of several
    return found


def mutants_of(paths: Iterable[Path]) -> Iterator[Mutant]:
    """Every change of every file, those in folders too."""
    for given in paths:
        for path in sorted(given.rglob("*.py")) if given.is_dir() else [given]:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            skipped = left_out(tree)
            for node in ast.walk(tree):
                if node not in skipped:
                    for kind, text in changes(node):
                        yield Mutant(path, node, text, kind)


def chosen(every: list[Mutant], seed: int, count: int) -> list[Mutant]:
    """Some of them, as many of each package and, in it, spread over its files."""
    order = random.Random(seed)
    found = []
    for package in PACKAGES:
        of_it = [one for one in every if package in one.path.parts]
        found += order.sample(of_it, min(len(of_it), -(-count // len(PACKAGES))))
    order.shuffle(found)
    return found


def functions() -> dict[tuple[str, int, str], list[FunctionType]]:
    """The functions of core that are alive, by the file, the line and the name of their code."""
    gc.unfreeze()
    found: dict[tuple[str, int, str], list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType:
            found.setdefault(key_of(one.__code__), []).append(one)
    return found


def key_of(code: CodeType) -> tuple[str, int, str]:
    """The file, the first line and the name of a function's code."""
    return code.co_filename, code.co_firstlineno, code.co_name


def outermost(source: str, path: str) -> list[CodeType]:
    """The code of the functions and methods of a file, in order; not of functions in functions."""
    found: list[CodeType] = []
    waiting = [compile(source, path, "exec")]
    while waiting:
        for constant in waiting.pop(0).co_consts:
            if isinstance(constant, CodeType):
                inside = constant.co_flags & inspect.CO_OPTIMIZED
                (found if inside else waiting).append(constant)
    return found


def exchanged(mutant: Mutant) -> tuple[CodeType, CodeType] | None:
    """The code of the function that a mutant changes, before and after."""
    source = mutant.path.read_bytes()
    path = str(mutant.path.resolve())
    before = outermost(source.decode(), path)
    try:
        after = outermost(mutant.applied(source).decode(), path)
    except SyntaxError:
        return None
    for old, new in zip(before, after, strict=False):
        # Lines and constants are compared as well: a change is in one function alone.
        if old.co_qualname == new.co_qualname and old != new:
            return old, new
    return None


class Campaign:
    """A plugin of pytest: instead of running what was collected once, runs it on each mutant."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Finds what each test runs, then makes and judges mutants, one process for each."""
        if not self.options.map.exists():
            in_a_child(lambda: self.survey(session), 3600)
        ran = json.loads(self.options.map.read_text(encoding="utf-8"))
        items = {item.nodeid: item for item in session.items}
        done = set()
        if self.options.results.exists():
            lines = self.options.results.read_text(encoding="utf-8").splitlines()
            done = {json.loads(line)["mutant"] for line in lines}
        alive = functions()
        folder = Path("core/src/pullback")
        count = len(done)
        for mutant in chosen(
            list(mutants_of(folder / name for name in PACKAGES)),
            self.options.seed,
            6 * self.options.count,
        ):
            if count >= self.options.count:
                break
            name = str(mutant)
            pair = exchanged(mutant)
            if name in done or pair is None or key_of(pair[0]) not in alive:
                continue
            tests = ran.get("|".join(map(str, key_of(pair[0]))), ())
            tests = [items[test] for test in tests if test in items]
            if not tests:
                continue  # run by tests in processes of their own, by others, or by none
            began = time.monotonic()
            killed = in_a_child(partial(self.judge, tests, alive, *pair), SECONDS) != 0
            row = {"by": "fast" if killed else "none", "mutant": name,
                   "tests": len(tests), "s": round(time.monotonic() - began, 1)}  # fmt: skip
            with self.options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            count += 1
        return True

    def survey(self, session: pytest.Session) -> int:
        """Writes which tests call which functions, the quick tests first."""
        ran: dict[str, list[tuple[float, str]]] = {}
        folder = str(Path("core/src/pullback").resolve())
        seen: set[CodeType] = set()

        def look(frame: FrameType, event: str, argument: object) -> None:
            seen.add(frame.f_code)

        for item in session.items:
            seen.clear()
            # Not `settrace`, which captured functions use.
            threading.setprofile(look)
            sys.setprofile(look)
            began = time.process_time()
            failed = fails(item)
            took = time.process_time() - began
            sys.setprofile(None)
            threading.setprofile(None)
            if failed:
                continue  # it fails because it is watched
            for code in [*seen]:
                if code.co_filename.startswith(folder):
                    place = "|".join(map(str, key_of(code)))
                    ran.setdefault(place, []).append((took, item.nodeid))
        ordered = {place: [test for _, test in sorted(tests)] for place, tests in ran.items()}
        self.options.map.write_text(json.dumps(ordered), encoding="utf-8")
        return 0

    def judge(
        self,
        tests: list[pytest.Item],
        alive: dict[tuple[str, int, str], list[FunctionType]],
        old: CodeType,
        new: CodeType,
    ) -> int:
        """Runs the tests of a mutant until one fails; 1 if one did."""
        for function in alive[key_of(old)]:
            function.__code__ = new
        # Half of them the quickest, half from all of them.
        some = tests[: TESTS // 2]
        rest = tests[TESTS // 2 :]
        some += random.Random(0).sample(rest, min(len(rest), TESTS // 2))
        return int(any(fails(item) for item in some))


def fails(item: pytest.Item) -> bool:
    """Runs one test."""
    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def in_a_child(work: Callable[[], int], seconds: float) -> int:
    """The status of a process of its own that does the work; 1 if it takes too long."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            status = work()
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 1


def show(path: Path) -> None:
    """Prints the survivors, and how many mutants were noticed."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    left = [row for row in rows if row["by"] == "none"]
    for row in left:
        print(f"{row['mutant']} ({row['tests']} tests)")
    print(f"{len(rows)} mutants, {len(left)} of them not noticed")


def main() -> None:
    """Runs the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--map", type=Path, default=Path("mutants.map.json"))
    parser.add_argument("--results", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--marks", default="not slow and not campaign", help="the lane to judge")
    parser.add_argument("--show", action="store_true", help="print what the results say")
    parser.add_argument("tests", nargs="*", default=[f"tests/{name}" for name in FOLDERS])
    options = parser.parse_args()
    if options.show:
        show(options.results)
        return
    given = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", options.marks]
    pytest.main([*given, *options.tests], plugins=[Campaign(options)])


if __name__ == "__main__":
    main()
