#!/usr/bin/env python3
"""Changes one line of core at a time, and sees whether the tests notice.

    uv run pytest --cov --cov-context=test --cov-report= -n 0 tests    # which test runs which line
    uv run tools/mutate.py --contexts .coverage --count 150 --seed 7 --results mutants.jsonl

Each mutant is one random change of a file: a comparison, an arithmetic or a boolean operator, a
constant, a condition turned round, two arguments exchanged, a statement left out. The tests that
run its line are called, those of the fast lane first (`not slow`), then the slow ones; a mutant
that no test notices is a survivor. Each outcome is a line of the results at once, so that an
interrupted run goes on where it was. `--show` prints the survivors and how many each lane notices.

It writes into the checkout that it is called in, and puts each file back: use a copy
(`git worktree add`), and do not edit there meanwhile.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import coverage

PACKAGES = ("_dispatch", "_autodiff", "graph", "data", "checkpoint")
#: What stands for what. Each is wrong nearly everywhere.
COMPARED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in",
}  # fmt: skip
COMPUTED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Div: "*",
            ast.Mod: "+", ast.BitOr: "&", ast.BitAnd: "|", ast.Pow: "*"}  # fmt: skip
#: At most so many tests for a mutant and lane, spread over all that run its line.
TESTS = 150
SECONDS = 240


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
        return source[:begin] + self.text.encode() + source[end:]


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


def mutants(folder: Path) -> Iterator[Mutant]:
    """Every change of every file."""
    for package in PACKAGES:
        for path in sorted((folder / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            skipped = left_out(tree)
            for node in ast.walk(tree):
                if node not in skipped:
                    for kind, text in changes(node):
                        mutant = Mutant(path, node, text, kind)
                        try:
                            compile(mutant.applied(path.read_bytes()), str(path), "exec")
                        except SyntaxError:
                            continue
                        yield mutant


def chosen(every: list[Mutant], seed: int, count: int) -> list[Mutant]:
    """Some of them, as many of each package and, in it, spread over its files."""
    order = random.Random(seed)
    found = []
    for package in PACKAGES:
        of_it = [one for one in every if package in one.path.parts]
        found += order.sample(of_it, min(len(of_it), -(-count // len(PACKAGES))))
    order.shuffle(found)
    return found


def tests_of(data: coverage.CoverageData, mutant: Mutant) -> list[str]:
    """The tests that run a line of the change, those that run least of the file first."""
    lines = data.contexts_by_lineno(str(mutant.path.resolve()))
    first, last = mutant.lines
    ran = {name for number in range(first, last + 1) for name in lines.get(number, ())}
    weight: dict[str, int] = {}
    for names in lines.values():
        for name in names:
            weight[name] = weight.get(name, 0) + 1
    found = {name.rpartition("|")[0] for name in ran if name}
    return sorted(found, key=lambda test: (weight.get(f"{test}|run", 0), test))


def spread(tests: list[str]) -> list[str]:
    """At most `TESTS` of them, from all parts of the list."""
    step = max(1, len(tests) / TESTS)
    return [tests[int(i * step)] for i in range(min(len(tests), TESTS))]


def noticed(tests: list[str], marks: str) -> bool:
    """Returns whether one of the tests fails, or does not end."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p",
               "no:xdist", "--no-header", "--tb=no", "-m", marks, *tests]  # fmt: skip
    # Bytecode of the mutant must not outlive it.
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": folder}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return True
    # 5: none of the tests is of this lane.
    return done.returncode not in (0, 5)


def judged(data: coverage.CoverageData, mutant: Mutant) -> str:
    """The lane that notices: "fast", "slow" or "none"."""
    ran = tests_of(data, mutant)
    if not ran:
        return "unreached"  # in processes of their own, at import, or not at all
    source = mutant.path.read_bytes()
    try:
        mutant.path.write_bytes(mutant.applied(source))
        if noticed(spread(ran), "not slow"):
            return "fast"
        files = sorted({test.partition("::")[0] for test in ran})
        return "slow" if noticed(files, "slow") else "none"
    finally:
        mutant.path.write_bytes(source)


def show(path: Path) -> None:
    """Prints the survivors, and how many mutants each lane notices."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    count = {name: sum(row["by"] == name for row in rows) for name in
             ("fast", "slow", "none", "unreached")}  # fmt: skip
    for row in rows:
        if row["by"] != "fast":
            print(f"{row['by']}: {row['mutant']}")
    noticed_ = count["fast"] + count["slow"]
    print(f"{len(rows)} mutants: {count}; fast lane: {count['fast'] / max(1, noticed_):.3f}")


def main() -> None:
    """Runs the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--contexts", type=Path, default=Path(".coverage"))
    parser.add_argument("--results", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="print what the results say")
    options = parser.parse_args()
    if options.show:
        show(options.results)
        return
    data = coverage.CoverageData(basename=str(options.contexts))
    data.read()
    done = set()
    if options.results.exists():
        lines = options.results.read_text(encoding="utf-8").splitlines()
        done = {json.loads(line)["mutant"] for line in lines}
    folder = Path("core/src/pullback")
    for mutant in chosen(list(mutants(folder)), options.seed, options.count):
        name = str(mutant)
        if name in done:
            continue
        began = time.monotonic()
        row = {"by": judged(data, mutant), "mutant": name, "s": round(time.monotonic() - began, 1)}
        with options.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
