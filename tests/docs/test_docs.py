"""The code of the documentation runs, and its reference is complete.

The Python blocks of a page are one program, run from top to bottom in a process of its own; a block
of text after one is what it prints. Blocks of shell are not run: what they call must exist.
"""

import contextlib
import importlib.util
import inspect
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback.cli import parser
from pullback.spec import OPS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")),
    *sorted(DOCS.rglob("*.md")),
    ROOT / "conformance" / "README.md",
    ROOT / "core" / "README.md",
    *sorted((ROOT / "backends").glob("*/README.md")),
    *sorted((ROOT / "compat").glob("*/README.md")),
    *sorted((ROOT / "integrations").glob("*/README.md")),
]
#: What a reader has, or is told to install, beside what this repository declares.
TOOLS = {"cd", "export", "git", "mpiexec", "pip", "python", "source", "torchrun", "uv"}


def blocks(path):
    """The fenced blocks of a page: language, line of the first line inside, text."""
    found, open_at = [], None
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        fence = re.fullmatch(r" *```(\w*).*", line)
        if fence and open_at is None:
            open_at, language = number, fence[1]
        elif fence:
            text = inspect.cleandoc("\n".join(["", *lines[open_at : number - 1]]))
            found.append((language, open_at + 1, text))
            open_at = None
    assert open_at is None, f"{path}:{open_at}: the block has no end"
    return found


def serve():
    """Runs each page that a line of the input names, in a process forked from this one.

    So what all of them import is imported once. A line of the output has what a page said, and
    how it ended.
    """
    for line in sys.stdin:
        path, folder = json.loads(line)
        with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
            child = os.fork()
            if not child:
                os.dup2(said.fileno(), sys.stdout.fileno())
                os.dup2(said.fileno(), sys.stderr.fileno())
                os.chdir(folder)
                signal.alarm(300)
                return run(Path(path))
            _, status = os.waitpid(child, 0)
            said.seek(0)
            print(json.dumps([status, said.read()[-4000:]]), flush=True)


@pytest.fixture(scope="session")
def pages():
    """`pages(path, folder)` runs a page in a folder: how it ended, and what it said."""
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:

        def call(path, folder):
            server.stdin.write(json.dumps([str(path), str(folder)]) + "\n")
            server.stdin.flush()
            return json.loads(server.stdout.readline())

        yield call


def run(path):
    """Runs the Python blocks of a page, and compares what they print."""
    namespace = {"__name__": "__main__"}
    parts = blocks(path)
    following = [*parts[1:], ("", 0, "")]
    for (language, line, text), (after, _, expected) in zip(parts, following, strict=True):
        if language != "python":
            continue
        output = io.StringIO()
        # As many empty lines in front as there are in the page: tracebacks show its lines.
        code = compile("\n" * (line - 1) + text, str(path), "exec", dont_inherit=True)
        with contextlib.redirect_stdout(output):
            exec(code, namespace)
        # Which is another time at each run.
        printed = re.sub(r"captured in [\d.]+ ms", "captured in 0.6 ms", output.getvalue()).rstrip()
        wanted = expected.rstrip() if after == "text" else ""
        if printed != wanted:
            raise SystemExit(f"{path}:{line}: prints\n{printed}\nnot\n{wanted}")


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def with_blocks(*languages):
    return [path for path in PAGES if any(one in languages for one, _, _ in blocks(path))]


@pytest.mark.parametrize("path", with_blocks("python"), ids=name_of)
def test_python_blocks_run(path, tmp_path, pages):
    status, said = pages(path, tmp_path)
    assert not status, said


# ---------------------------------------------------------------------------------------------
# Shell.


def projects():
    """The settings of the distributions, core first."""
    patterns = ("core", "conformance", "backends/*", "compat/*", "integrations/*")
    return [path for one in patterns for path in sorted(ROOT.glob(f"{one}/pyproject.toml"))]


def declared():
    """The distributions of this repository, with the names that their metadata asks for."""
    names = set()
    for path in (ROOT / "pyproject.toml", *projects()):
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
        project = settings["project"]
        lists = [
            [project["name"]],
            project.get("dependencies", []),
            *project.get("optional-dependencies", {}).values(),
            *settings.get("dependency-groups", {}).values(),
        ]
        names |= {re.split(r"[\[<>=!~ ;]", line)[0].lower() for part in lists for line in part}
    return names


def commands(path):
    """The command lines of a page, with their line numbers."""
    for language, line, text in blocks(path):
        if language in ("sh", "bash", "console"):
            joined = text.replace("\\\n", " ")
            for one in joined.splitlines():
                for part in re.split(r" && | \| ", one):
                    words = shlex.split(part, comments=True)
                    while words and re.match(r"[A-Z_]+=", words[0]):
                        words.pop(0)
                    if words:
                        yield line, words


def check(words):
    """Checks that a command exists, and so do its files and options.

    Raises:
        AssertionError: with the missing name.
    """
    program, *rest = words
    if program == "uv" and rest[:1] == ["run"]:
        rest = rest[1:]
        while rest and rest[0].startswith("-"):
            option = rest.pop(0)
            if option == "--group":
                groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
                assert rest[0] in groups, f"there is no group {rest[0]}"
                rest.pop(0)
        program, *rest = rest
    # A path of a page's own environment, such as torch-env/bin/pip, is no file of ours.
    if program.endswith(".py") or program.startswith((".", "tests/")):
        assert (ROOT / program).is_file(), f"there is no {program}"
        check_options(ROOT / program, rest)
    elif program == "python" and rest and rest[0].endswith(".py"):
        assert (ROOT / rest[0]).is_file(), f"there is no {rest[0]}"
    elif program == "pullback":
        try:
            parser().parse_args(rest)
        except SystemExit as error:
            if error.code:
                raise AssertionError(f"pullback {' '.join(rest)} is not a command") from None
    elif program in ("pytest", "ruff", "mypy", "mkdocs", "nox"):
        assert program in declared() or f"{program}-material" in declared()
        for word in rest:
            if re.match(r"(core|docs|tests|benchmarks|examples|backends|compat)/", word):
                assert (ROOT / word.split("::")[0]).exists(), f"there is no {word}"
    else:
        # Also from the environment of a page's own, such as torch-env/bin/pip.
        assert Path(program).name in TOOLS, f"{program} is none of {sorted(TOOLS)}"


def check_options(path, words):
    """Checks that a script has these options, or a module beside it that it imports."""
    source = path.read_text(encoding="utf-8")
    beside = {
        path.with_name(f"{name}.py") for name in re.findall(r"(?m)^from (\w+) import", source)
    }
    source += "".join(one.read_text(encoding="utf-8") for one in beside if one.is_file())
    for word in words:
        if word.startswith("--"):
            assert f'"{word.split("=")[0]}"' in source, f"{path.name} has no option {word}"


@pytest.mark.parametrize("path", with_blocks("sh", "bash", "console"), ids=name_of)
def test_commands_exist(path):
    for line, words in commands(path):
        try:
            check(words)
        except AssertionError as error:
            pytest.fail(f"{name_of(path)}:{line}: {shlex.join(words)}: {error}")


@pytest.mark.parametrize(
    "words",
    ["pullback frobnicate", "uv run examples/nothing.py", "uv run --group none pytest", "rm x"],
)
def test_the_check(words):
    with pytest.raises(AssertionError):
        check(words.split())


# ---------------------------------------------------------------------------------------------
# Links.


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path, reference):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" in target:
            continue
        there = (path.parent / target).resolve()
        generated = there.is_relative_to(DOCS) and there.relative_to(DOCS).as_posix() in reference
        assert there.exists() or generated, f"{name_of(path)}: there is no {target}"


def test_levels_are_those_of_the_architecture_test():
    levels = load("test_architecture", ROOT / "tests" / "architecture").LEVELS
    rows = re.findall(
        r"^\| (\d+) \| (.*?) \|", (DOCS / "architecture.md").read_text("utf-8"), re.MULTILINE
    )
    written = {int(level): re.findall(r"`([\w./]+)`", names) for level, names in rows}
    # A package ends in a slash on the page.
    found = {level: {name.rstrip("/") for name in names} for level, names in written.items()}
    assert found == {level: set(names) for level, names in enumerate(levels)}
    for name in (name for names in written.values() for name in names):
        path = ROOT / "core/src/pullback" / name.replace(".", "/")
        assert path.is_dir() if name.endswith("/") else path.with_suffix(".py").is_file(), name


def test_public_modules_are_those_that_exist():
    text = (DOCS / "api-stability.md").read_text("utf-8")
    programs, backends = text.split("\n## ")[1:3]
    for line in re.findall(r"^\| `pullback.*", programs, re.MULTILINE):
        names, contents = line.strip("| ").split(" | ")
        for name in re.findall(r"`([\w.]+)`", names):
            module = importlib.import_module(name)
            assert "__all__" not in contents or module.__all__, name
    rows = re.findall(r"^\| (`pullback.*?) \|", backends, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`pullback\.(\w+)`", row)}
    # The kit is for tests of backends, which may use more than their modules do.
    assert named - {"conformance"} == load("test_architecture", ROOT / "tests/architecture").PUBLIC


def test_the_glossary_is_short():
    rows = re.findall(r"^\| (.+?) \| .+ \|$", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    terms = [term for row in rows if row not in ("term", "---") for term in row.split(", ")]
    assert len(set(terms)) == len(terms) <= 60


def test_files_that_the_architecture_names_exist():
    text = (DOCS / "architecture.md").read_text("utf-8")
    names = set(re.findall(r"`([\w./]+\.py)`", text))
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    missing = [name for name in names if not any(path.endswith(name) for path in listed)]
    assert not missing, f"no such files: {sorted(missing)}"


# ---------------------------------------------------------------------------------------------
# What is generated.


def load(name, folder=DOCS):
    spec = importlib.util.spec_from_file_location(f"docs_{name}", folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    # As mkdocs does for hooks: modules of the folder are found.
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference():
    return load("generate").pages()


def test_every_op_is_in_the_reference(reference):
    for op in OPS.values():
        if op.body.__module__.startswith("pullback.") and not op.name.startswith("_"):
            page = reference[f"reference/ops/{op.family}.md"]
            assert f"## {op.name} {{ #{op.name} }}" in page
            assert f"| Kernel | `{op.name}(" in page
            if op.primitive:
                listed = reference["reference/primitives.md"]
                assert f"[{op.name}](ops/{op.family}.md#" in listed
                assert f"| {load('generate').cell(op.why)} |" in listed
            if inspect.isfunction(getattr(pb, op.name, None)):
                assert f"pb.{op.name}(" in page


def test_names_of_the_reference_can_be_written(reference):
    shown = set(re.findall(r"\[`?(pb\.[\w.]+)`?\]\(", "\n".join(reference.values())))
    assert {"pb.optimizers.Adam", "pb.linalg.vector_norm", "pb.layers.Dense"} <= shown
    for path in shown:
        value = pb
        for name in path.split(".")[1:]:
            assert not name.startswith("_"), path
            value = getattr(value, name)


def test_ops_of_rules_stand_apart(reference):
    for page, text in reference.items():
        public, _, inner = text.partition("## Ops for rules and optimizers")
        assert "_gradient](" not in public, page
        if page.startswith("reference/ops/"):
            assert "_gradient {" not in public, page
            assert "\n## " not in inner, page


def test_tables_of_the_reference_have_headings(reference):
    for page, text in reference.items():
        assert not re.search(r"^\|( *\|)+\n", text, re.MULTILINE), page


@pytest.mark.each("op", OPS.values(), ids=lambda op: op.name)
def test_rules_say_what_they_do(op):
    words = load("op_words")
    for row in (words.shape_rule(op), words.dtype_rule(op)):
        # A name, and what it stands for; or only the latter.
        assert re.sub(r"^`\w+`", "", row).strip(" :"), f"{op.name}: {row} has no docstring"


def test_every_public_name_is_in_the_index(reference):
    index = reference["reference/all.md"]
    missing = []
    for space in (*load("generate").modules(), pb.linalg, pb.fft):
        for name in getattr(space, "__all__", ()):
            value = getattr(space, name)
            if isinstance(value, np.dtype | float):
                found = f"`pb.{name}`" in index
            else:
                # Bound methods and aliases of types are documented with what they stand for.
                shown = inspect.isclass(value) or inspect.isfunction(value)
                found = (
                    not shown
                    or name.startswith("_")
                    or f".{name}`](" in index
                    or f".{name}](" in index
                )
            if not found:
                missing.append(f"{space.__name__}.{name}")
    assert not missing, f"the reference does not list {missing}"


def test_every_argument_of_an_op_is_described():
    generate = load("generate")
    missing = [
        f"{path}({name})"
        for found in generate.families().values()
        for path, function in generate.parts(generate.contents(found))[0].values()
        for name in inspect.signature(function).parameters
        if not re.search(
            rf"^- `\*{{0,2}}([\w*]+, )*{name}(, \w+)*`: .",
            generate.section(path, function),
            re.MULTILINE,
        )
    ]
    assert not missing, f"write an entry in the docstring, or in docs/arguments.py: {missing}"


def test_links_of_the_reference(reference):
    for page, text in reference.items():
        for target, anchor in re.findall(r"\]\(([\w/.]+\.md)(?:#([\w.]+))?\)", text):
            there = (Path("/") / page).parent.joinpath(target)
            name = there.resolve().relative_to("/").as_posix()
            assert name in reference or (DOCS / name).exists(), f"{page}: there is no {target}"
            if anchor:
                other = reference[name]
                assert f"#{anchor} }}" in other or f"::: {anchor}\n" in other, f"{page}: #{anchor}"


def test_tables_of_dtypes_are_up_to_date():
    tables = load("dtype_tables")
    text = tables.PAGE.read_text(encoding="utf-8")
    assert tables.with_tables(text) == text, "run docs/dtype_tables.py"


if __name__ == "__main__":
    serve()
