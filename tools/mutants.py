"""Random changes of functions, for `mutate.py` and `mutate_kernels.py`.

A mutant is one change: a comparison, an arithmetic or a boolean operator, a number, a condition
turned round, two arguments exchanged, a statement or a result left out. Further forms leave out a
part of an expression: an operand, a sign, a keyword, a bound of a slice, or a call around its
argument.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from zlib import crc32

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

#: Functions whose first two arguments may be exchanged.
SYMMETRIC = {
    *("max", "min", "maximum", "minimum", "add", "multiply", "equal", "not_equal", "logaddexp"),
    *("logical_and", "logical_or", "swapaxes", "hypot", "broadcast_shapes", "promote_types"),
}
#: Arguments that say whether an error is noticed, or a copy made where none is needed.
UNSEEN = {"strict", "copy"}

#: Mutants that were read and change no result, each in a line, by function. What could be said of
#: several lines of a function has the one that is meant after it.
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")


class Mutant:
    """One change: `text` in place of the source between two offsets of a file."""

    #: Tells it from others that have the same function, change and code.
    number = 0

    def __init__(self, path: Path, node: ast.AST, text: str, kind: str, function: str = "") -> None:
        self.path, self.text, self.kind, self.function = path, text, kind, function
        self.lines = (node.lineno, node.end_lineno)
        self.columns = (node.col_offset, node.end_col_offset)

    def __str__(self) -> str:
        return f"{self.path}:{self.lines[0]}:{self.columns[0]}: {self.change}"

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Its function, change, code and number, which stay in any file and on any line."""
        return (self.function, self.change, self.code, self.number)

    @property
    def is_equivalent(self) -> bool:
        """True if it was read and changes no result."""
        return is_equivalent(*self.key)

    @property
    def code(self) -> str:
        """The line of the source on which the change begins."""
        return read(self.path).decode().splitlines()[self.lines[0] - 1].strip()

    @property
    def change(self) -> str:
        """The change, without its place."""
        return f"{self.kind}: {' '.join(self.before().split())} -> {self.text}"

    def offsets(self, source: bytes) -> tuple[int, int]:
        """The begin and the end of the change, in bytes."""
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        begin, end = (starts[n - 1] + c for n, c in zip(self.lines, self.columns, strict=True))
        return begin, end

    def before(self) -> str:
        """The text that is replaced."""
        source = read(self.path)
        begin, end = self.offsets(source)
        return source[begin:end].decode()

    def applied(self, source: bytes, *, beside: bool = False) -> bytes:
        """The file with the change; `beside` keeps the text before it where it does not run."""
        begin, end = self.offsets(source)
        before, text = source[begin:end], self.text.encode()
        if beside and self.kind == "statement":
            text = b"if False: " + before
        elif beside and self.kind == "result":
            text = b"return None if True else (" + before.removeprefix(b"return") + b")"
        elif beside:
            text = b"(" + text + b" if True else " + before + b")"
        # As many lines as before: functions are told apart by the lines that they are on.
        missing = before.count(b"\n") - text.count(b"\n")
        return source[:begin] + text + b"\\\n" * missing + source[end:]


@cache
def read(path: Path) -> bytes:
    """The source of a file, which no mutant changes."""
    return path.read_bytes()


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
            isinstance(first, ast.Starred)
            or isinstance(second, ast.Starred)
            or ast.unparse(first) == ast.unparse(second)
            or ast.unparse(function).rpartition(".")[2] in SYMMETRIC
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


def further_changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The changes that leave out a part of an expression."""
    match node:
        case ast.BinOp(left=left, right=right):
            yield "operand", f"({ast.unparse(left)})"
            yield "operand", f"({ast.unparse(right)})"
        case ast.BoolOp(values=[first, *_, last]):
            yield "operand", f"({ast.unparse(first)})"
            yield "operand", f"({ast.unparse(last)})"
        case ast.UnaryOp(op=ast.USub() | ast.Invert(), operand=operand):
            yield "sign", f"({ast.unparse(operand)})"
        case ast.Slice(lower=lower, upper=upper, step=step):
            for left in ({"lower": None}, {"upper": None}, {"step": None}):
                some = {"lower": lower, "upper": upper, "step": step, **left}
                text = ast.unparse(ast.Slice(**some))
                if text != ast.unparse(node):
                    yield "slice", text
        case ast.Call(func=function, args=[first, *rest], keywords=keywords) if not (
            isinstance(first, ast.Starred)
        ):
            yield "call", f"({ast.unparse(first)})"
            for one in keywords:
                others = [other for other in keywords if other is not one]
                if one.arg is not None and one.arg not in UNSEEN:
                    yield "keyword", ast.unparse(ast.Call(function, [first, *rest], others))


def left_out(tree: ast.Module) -> set[ast.AST]:
    """The nodes that no test can notice: annotations, messages, what is for type checkers."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=annotation):
                found |= set(ast.walk(annotation)) if annotation else set()
            case ast.FunctionDef(returns=returns) if returns is not None:
                found |= set(ast.walk(returns))
            case ast.keyword(arg=name, value=value) if name in UNSEEN:
                found |= set(ast.walk(value))
            case ast.Call(func=ast.Attribute(attr="reshape"), args=args):
                # A size of -1, which follows from the others: NumPy takes any other below 0.
                sizes = [one for arg in args for one in getattr(arg, "elts", [arg])]
                found |= {x for one in sizes if isinstance(one, ast.UnaryOp) for x in ast.walk(one)}
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.JoinedStr() | ast.Raise():
                found |= set(ast.walk(node))
            case ast.Assign(value=ast.BinOp(op=ast.BitOr())):
                found |= set(ast.walk(node))  # a type of several
    return found


def sources(paths: Iterable[Path]) -> Iterator[Path]:
    """The files of files and folders, in order."""
    for given in paths:
        yield from sorted(given.rglob("*.py")) if given.is_dir() else [given]


def mutants_of(paths: Iterable[Path], *, further: bool = False) -> Iterator[Mutant]:
    """Every change of every file, those in folders too; `further` for those of further forms."""
    forms = further_changes if further else changes
    numbers: Counter[tuple[str, str, str]] = Counter()
    for path in sources(paths):
        tree = ast.parse(read(path))
        skipped = left_out(tree)
        functions = dict(functions_of(tree))
        for node in ast.walk(tree):
            if node not in skipped:
                for kind, text in forms(node):
                    mutant = Mutant(path, node, text, kind, functions[node])
                    same = mutant.key[:3]
                    mutant.number = numbers[same]
                    numbers[same] += 1
                    yield mutant


def functions_of(node: ast.AST, name: str = "") -> Iterator[tuple[ast.AST, str]]:
    """All nodes, with the name of the function or class that each is in, as `Class.method`."""
    yield node, name
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        yield from functions_of(child, f"{name}.{child.name}".lstrip(".") if named else name)


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
    """The code of the outermost function that a mutant changes, before and after; None for none."""
    source = mutant.path.read_bytes()
    path = str(mutant.path.resolve())
    before = outermost(source.decode(), path)
    for beside in (False, True):
        try:
            after = outermost(mutant.applied(source, beside=beside).decode(), path)
        except SyntaxError:
            return None
        for old, new in zip(before, after, strict=False):
            # Lines and constants are compared as well: a change is in one function alone.
            if old.co_qualname == new.co_qualname and old != new:
                if fits(old, new):
                    return old, new
                break  # a variable of a function around it is used no more
    return None


def inner(code: CodeType) -> list[CodeType]:
    """The code of the functions in a function."""
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def fits(old: CodeType, new: CodeType) -> bool:
    """Returns whether code uses the same variables of functions around it, and so those in it."""
    if old.co_freevars != new.co_freevars:
        return False
    pairs = list(zip(inner(old), inner(new), strict=False))
    return len(inner(old)) != len(inner(new)) or all(fits(*pair) for pair in pairs)


def key_of(code: CodeType) -> str:
    """Tells one function from another, also two of one line."""
    columns = crc32(code.co_linetable)
    return f"{code.co_filename}|{code.co_firstlineno}|{code.co_qualname}|{columns}"


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
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 1


@cache
def equivalent() -> set[str]:
    """The mutants that were read and change no result."""
    return set(EQUIVALENT.read_text(encoding="utf-8").splitlines())


def is_equivalent(function: str, change: str, code: str, number: int) -> bool:
    """Returns whether a mutant was read and changes no result."""
    name = f"{function}: {change}"
    return not equivalent().isdisjoint({name, f"{name} in: {code}"})


class Results:
    """The outcomes of mutants, one a line of a file, so that an interrupted run goes on.

    They are found by function, change, code and number, which stay when code is moved.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[tuple[str, str, str, int], dict[str, object]] = {}
        if path.exists():
            # The last line of a mutant is the one that counts.
            for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
                self.rows[row["function"], row["change"], row["code"], row["number"]] = row

    def add(self, mutant: Mutant, by: str, began: float, checks: int) -> None:
        """Adds an outcome: by which run it was noticed, of how many tests or checks."""
        function, change, code, number = mutant.key
        row = {"by": by, "function": function, "change": change, "code": code, "number": number,
               "path": str(mutant.path), "checks": checks,
               "s": round(time.monotonic() - began, 1)}  # fmt: skip
        self.rows[mutant.key] = row
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def left(self) -> list[tuple[str, str, str, int]]:
        """The mutants that nothing noticed."""
        return [key for key, row in self.rows.items() if str(row["by"]).startswith("none")]

    def show(self) -> None:
        """Prints the survivors that are not known to be equivalent, and counts all mutants."""
        left = [key for key in sorted(self.left()) if not is_equivalent(*key)]
        for function, change, code, number in left:
            row = self.rows[function, change, code, number]
            print(f"{row['path']}: {function}: {change} in: {code}"
                  f" ({row['by']}; {row['checks']} checks)")  # fmt: skip
        counts = Counter(row["by"] for row in self.rows.values())
        equivalent = len(self.left()) - len(left)
        print(f"{len(self.rows)} mutants, {equivalent} of them equivalent: {dict(counts)}")


def options(doc: str, count: int, results: str) -> argparse.ArgumentParser:
    """The options that both programs have."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--map", type=Path, help="which tests or checks run what")
    parser.add_argument("--results", type=Path, help=f"default: {results}")
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="print what the results say")
    return parser
