"""The words of docs/glossary.md, held against messages, docstrings and pages.

uv run tests/architecture/test_vocabulary.py      counts what is left, folder by folder
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]

# Files and folders that are held to the words below. Add each as it is rewritten.
COVERED = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "backends",
    "benchmarks",
    "compat",
    "conftest.py",
    "conformance",
    "core",
    "docs",
    "examples",
    "integrations",
    "noxfile.py",
    "tests",
    "tools",
)
# Parts of these folders that are not: each with its reason.
LEFT_OUT: dict[str, str] = {
    "conformance/src/pullback_conformance/samples": "not rewritten yet",
}

# Words to avoid, as whole words in any case, and what to write instead.
WORDS = {
    r"walk(s|ed|ing)?( back)?": "backward pass; traverse, traversal",
    r"(watch )?marks? (of|on|for) (a|the|its|this|another|other) tapes?": "leaf",
    r"watch marks?": "leaf",
    r"spans?": "interval",
    r"heard|hears?|listen(s|ed|ing|ers?)?": "recorded, records, active",
    r"figures?": "metrics, values, measurements",
    r"truth values?": "booleans",
    r"in force": "active",
    r"by hand": "manually",
    r"let(s|ting)? go": "release",
    r"pass(ed|ing) over": "skip, skipped",
    r"floors?": "level (of modules), minimum",
    r"house": "package, repository",
    r"(?<!there )(is|are) no (?!longer\b|more\b|less\b)\w+": "is not a ...; unknown ...",
    (
        r"(has|have|had) not "
        r"(?!(been|begun|come|gone|made|met|read|run|seen|taken|to|written|yet|\w+ed)\b)\w+"
    ): "lacks, does not have",
    r"shares? of": "fraction of",
    r"what is left of": "decay rate, rest",
    r"normal (forms?|axis|axes|attributes?)": "canonical form, axis, attributes",
    r"straight-line( code)?": "specialized code",
    r"of which": "a sentence of its own, or `whose`",
    r"what \w+ (is|are|was|were) given": "its arguments",
    r"strangers?'?s?": "other authors, other packages",
    r"withdraw(s|n|ing)?": "unregister",
    r"refuse[sd]?|refusing": "reject, raise",
    (
        r"\w*(categor|character|custom|discret|equal|factor|final|general|initial|local|material"
        r"|maxim|memor|minim|normal|optim|organ|parallel|penal|quant|random|real|recogn|regular"
        r"|serial|special|stabil|standard|summar|synchron|token|util|vector)"
        r"is(e|es|ed|ing|ation|ations|er|ers)"
    ): "-ize",
}

# Phrases with such a word that are meant, each with its reason. They match as they stand here.
EXCEPTIONS = {
    "is no more": "compares",
    "floor division": "the operation",
    "The floor of": "the function of mathematics",
    "floor(": "the function of mathematics",
    "its floor is taken": "the function of mathematics",
    "Floors of quotients": "the function of mathematics",
    "House": "a street number: part of a proper name",
}

# Calls whose strings are messages, beside those in `raise`.
MESSAGES = {"require", "warn", "fail", "UsageError", "skip"}
# Arguments of any call that people read.
SHOWN = {"description", "epilog", "help"}

# A docstring begins with a verb, or with a noun phrase that names the thing.
OPENING = re.compile(r"(What|Whether|How|Where)\b(?! to\b)")


class Text(NamedTuple):
    """A piece of text that people read."""

    path: Path
    line: int
    kind: str
    text: str


def python_texts(path: Path) -> Iterator[Text]:
    """The messages and the docstrings of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    yield from docstrings(path, tree, public=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from messages(path, node.exc)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in MESSAGES:
                yield from messages(path, node)
            for keyword in node.keywords:
                if keyword.arg in SHOWN:
                    yield from messages(path, keyword.value)


def messages(path: Path, node: ast.AST) -> Iterator[Text]:
    """The strings in an expression; what an f-string fills in is `{}`."""
    if isinstance(node, ast.JoinedStr):
        parts = [
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
        ]
        yield Text(path, node.lineno, "message", "".join(parts))
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield Text(path, node.lineno, "message", node.value)
    for child in ast.iter_child_nodes(node):
        yield from messages(path, child)


def docstrings(path: Path, node: ast.AST, *, public: bool) -> Iterator[Text]:
    """The docstrings of a module, class or function and of all in it."""
    holders = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    if isinstance(node, holders):
        name = getattr(node, "name", "")
        public = public and (not name.startswith("_") or name.endswith("__"))
        found = ast.get_docstring(node)
        if found is not None:
            kind = "public docstring" if public else "docstring"
            yield Text(path, node.body[0].lineno, kind, found)
    for child in ast.iter_child_nodes(node):
        # In expressions nothing has a docstring, and they are most of a file.
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from docstrings(path, child, public=public)


def page_texts(path: Path) -> Iterator[Text]:
    """The lines of a page, without blocks of code; a sentence may go on in the next line."""
    text = re.sub(
        r"^ *```.*?^ *```",
        lambda block: "\n" * block[0].count("\n"),
        path.read_text(encoding="utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", text):
        if paragraph.strip():
            yield Text(path, line, "page", paragraph)
        line += paragraph.count("\n")


def words_in(text: str) -> Iterator[tuple[int, str, str]]:
    """The words to avoid in a text: the line in it, the word, and what to write."""
    # Code is code: names, examples, addresses.
    text = re.sub(r"^ *(>>>|\.\.\.) .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"``?[^`]*``?|\]\([^)]*\)|https?://\S+", blank, text)
    text = re.sub(r"[ \t]*\n[ \t]*", "\n", text)
    for phrase in EXCEPTIONS:
        text = text.replace(phrase, "x" * len(phrase))
    for word, instead in WORDS.items():
        # A line may end inside a phrase.
        spaced = word.replace(" ", r"[ \n]")
        pattern = re.compile(rf"(?<![\w'])(?:{spaced})(?![\w-])", re.IGNORECASE)
        for found in pattern.finditer(text):
            yield text.count("\n", 0, found.start()), " ".join(found[0].split()), instead


def blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "`", found[0])


def complaints(text: Text) -> Iterator[str]:
    """What is wrong with a text."""
    place = text.path.relative_to(ROOT)
    if text.kind.endswith("docstring") and (found := OPENING.match(text.text)):
        yield (
            f"{place}:{text.line}: begins with {found[0]!r}; begin with a verb, such as "
            f"'Returns', or with the name of the thing"
        )
    if text.kind != "docstring":
        for line, word, instead in words_in(text.text):
            yield f"{place}:{text.line + line}: {text.kind}: {word!r}; write: {instead}"


def texts(path: Path) -> Iterator[Text]:
    """All that people read in a file."""
    return python_texts(path) if path.suffix == ".py" else page_texts(path)


def files(*names: str) -> list[Path]:
    """The files in these folders, and those that are named."""
    found: set[Path] = set()
    for name in names:
        path = ROOT / name
        inside = [one for kind in ("*.py", "*.md") for one in path.rglob(kind)]
        found.update(inside if path.is_dir() else [path])
    return sorted(path for path in found if not in_part(path, LEFT_OUT) and not skipped(path))


def in_part(path: Path, names: dict[str, str]) -> bool:
    return any(path.is_relative_to(ROOT / name) for name in names)


def skipped(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    # Here the words are listed.
    return path == Path(__file__) or any(
        part in ("build", "dist", "site") or part.startswith(".") or part.endswith(".egg-info")
        for part in parts
    )


@pytest.mark.parametrize("name", COVERED)
def test_says_it_plainly(name):
    assert (ROOT / name).exists(), f"{name} is gone; take it out of COVERED"
    found = [line for path in files(name) for text in texts(path) for line in complaints(text)]
    assert not found, "\n".join(found)


def test_parts_left_out_exist():
    for name in LEFT_OUT:
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("'x' is no activation", ["is no activation"]),
        ("there is no op 'x'", []),
        ("it is no longer than that", []),
        ("the walk\nback", ["walk back"]),
        ("it has not three axes, and has not been built", ["has not three"]),
        ("Normalises the input", ["Normalises"]),
        ("otherwise precise", []),
        ("tapes that listen", ["listen"]),
        ("a pass over the data", []),
        ("items are passed over", ["passed over"]),
        ("`os.walk`, https://a.org/walk and [that](walk.md)", []),
        (">>> walk()\nwalks", ["walks"]),
        ("the rate by which, of which", ["of which"]),
    ],
)
def test_the_words(text, words):
    assert [word for _, word, _ in words_in(text)] == words


def test_the_reader(tmp_path):
    path = tmp_path / "some.py"
    path.write_text(
        '"""What it is."""\n'
        "def f(x):\n"
        '    """A walk."""\n'
        "    if x:\n"
        '        raise ValueError(f"{x} is no name")\n'
        "def _g():\n"
        '    """A walk that nobody sees."""\n'
    )
    found = [(one.line, one.kind, one.text) for one in texts(path)]
    assert found == [
        (1, "public docstring", "What it is."),
        (3, "public docstring", "A walk."),
        (7, "docstring", "A walk that nobody sees."),
        (5, "message", "{} is no name"),
    ]


def main() -> None:
    """Prints how many words are left in each folder that is not covered."""
    counts: Counter[str] = Counter()
    folders = (
        "core",
        "backends",
        "benchmarks",
        "compat",
        "conformance",
        "docs",
        "examples",
        "integrations",
    )
    names = (*folders, "tests", "tools")
    for path in [*files(*names), *ROOT.glob("*.md"), *ROOT.glob("*.py")]:
        own = path.relative_to(ROOT)
        folder = own.as_posix() if own.parts[0] == "docs" else own.parent.as_posix()
        counts[folder] += sum(1 for text in texts(path) for _ in complaints(text))
    for folder, count in counts.most_common():
        if count:
            print(f"{count:5}  {folder}")
    print(f"{counts.total():5}  in all")


if __name__ == "__main__":
    main()
