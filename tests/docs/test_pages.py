"""Checks of the code on the pages: its width, its names, and that tutorials show their examples."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import pullback as pb

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: What a block of code shows without a scroll bar in a window of 1280 pixels.
WIDTH = 88
#: The examples that a page shows parts of.
TUTORIALS = {"gan": "gan_ring", "text": "words"}


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


blocks = load(Path(__file__).with_name("test_docs.py")).blocks
PAGES = sorted(DOCS.rglob("*.md"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_code_fits_the_page(path):
    wide = [
        f"{path.name}:{first + number}: {len(line)} columns"
        for language, first, text in blocks(path)
        # What a program prints is as wide as it is; the style sheet wraps it.
        if language != "text"
        for number, line in enumerate(text.splitlines())
        if len(line) > WIDTH
    ]
    assert not wide, "\n".join(wide)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_tables_have_headings(path):
    assert not re.search(r"^\|( *\|)+$", path.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", TUTORIALS)
def test_tutorials_show_their_examples(page):
    source = (ROOT / "examples" / f"{TUTORIALS[page]}.py").read_text("utf-8")
    parts = re.findall(r"^# \[(\w+)\]\n(.*?)(?=^# \[)", source, re.MULTILINE | re.DOTALL)
    shown = [text for _, _, text in blocks(DOCS / "tutorials" / f"{page}.md")]
    assert parts
    for name, part in parts:
        if name != "end":
            assert part.strip() in shown, f"[{name}] differs"


def test_pictures_are_small():
    pictures = [path for path in (DOCS / "images").rglob("*") if path.is_file()]
    assert pictures
    for path in pictures:
        assert path.stat().st_size < 100_000, path.name


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    for path in PAGES:
        assert f" {path.relative_to(DOCS).as_posix()}\n" in menu


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_names_in_the_text_exist(path):
    text = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)
    for code in re.findall(r"`([^`]+)`", text):
        for name in re.findall(r"(?<![\w.])pb\.([\w.]*\w)", code):
            value = pb
            for part in name.split("."):
                assert hasattr(value, part), f"{path.name}: there is no pb.{name}"
                value = getattr(value, part)


def defaults():
    """The rows of the tables of defaults: a class, an argument, the value on the page."""
    for page in ("from-keras", "from-pytorch"):
        text = (DOCS / f"{page}.md").read_text("utf-8")
        table = text.partition("## Defaults that differ")[2].partition("## ")[0]
        for names, argument, theirs, ours in re.findall(
            r"^\| (`.*`) \| `(\w+)` \| (\S+) \| (\S+) \|$", table, re.MULTILINE
        ):
            assert float(theirs) != float(ours)
            for name in re.findall(r"`(\w+)`", names):
                yield pytest.param(name, argument, float(ours), id=f"{page}-{name}-{argument}")


@pytest.mark.parametrize(("name", "argument", "value"), list(defaults()))
def test_defaults_on_the_page_are_those_of_the_class(name, argument, value):
    kind = getattr(pb.layers, name, None) or getattr(pb.optimizers, name)
    assert inspect.signature(kind).parameters[argument].default == value


def test_headings_of_messages_are_what_is_said():
    page = DOCS / "capture-problems.md"
    lines = page.read_text("utf-8").splitlines()
    headings = [n for n, line in enumerate(lines, 1) if line.startswith(("## ", "### "))]
    said = [(first, text) for language, first, text in blocks(page) if language == "text"]
    source = "".join(
        path.read_text("utf-8") for path in (ROOT / "core/src/pullback/graph").glob("*.py")
    )
    messages = 0
    for begin, end in zip(headings, [*headings[1:], len(lines)], strict=True):
        if not (heading := lines[begin - 1]).startswith("### ... "):
            continue
        message = heading.removeprefix("### ... ")
        # The blocks run, and what is shown below them is compared.
        shown = [text for first, text in said if begin < first < end]
        assert any(message in text for text in shown or [source]), f"nothing says {message!r}"
        messages += 1
    assert messages > 10
