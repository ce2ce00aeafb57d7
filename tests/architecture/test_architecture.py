"""The rules of docs/architecture.md, held against the code."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core" / "src" / "pullback"
KIT = ROOT / "conformance" / "src" / "pullback_conformance"
BACKENDS = ROOT / "backends"

# A file imports from levels below its own, and inside one level without cycles. Where the files of
# a package are on several levels, they are named one by one.
LEVELS = (
    (
        "errors",
        "_storage_dtypes",
        "dtypes",
        "_array_files",
        "_locks",
        "_rank_process",
        "_replacing",
        "_settings",
        "_namespace.dtypes",
        "casting",
        "shapes",
        "_symbols",
        "_tree",
        "tree",
        "_version",
        "_closing",
        "_numerics",
        "_once",
        "_codegen",
        "_loading",
        "_foreign_names",
        "_hints",
    ),
    (
        "spec",
        "plugins.kind",
        "plugins.memory",
        "plugins.observation",
        "plugins.records",
        "plugins.backend",
        "plugins.compiling",
        "plugins.late_errors",
        "plugins.lazy",
        "plugins.hookspecs",
        "plugins.validation",
        "plugins.entry_points",
        "plugins.kernel_packs",
    ),
    (
        "_array_methods",
        "_masked",
        "_notebook",
        "_operator_methods",
        "_operators",
        "_printing",
        "_views",
        "tensor",
        "strings",
        "plugins.registry",
        "plugins.public",
        "devices",
        "plugins.own_kernels",
        "profiling",
    ),
    ("_dispatch",),
    ("ops", "linalg", "fft", "_namespace.info", "_numpy", "numpy"),
    ("graph", "_autodiff", "_batching"),
    ("variable", "state", "random", "_distributions", "_namespace.defaults", "_einops"),
    ("layers", "losses", "metrics", "optimizers", "data", "training", "distributed"),
    ("checkpoint", "summary", "callbacks"),
    ("cli", "compat"),
    ("__init__", "__main__"),
)
LEVEL = {name: number for number, names in enumerate(LEVELS) for name in names}
# These hold nothing but a docstring.
LEVEL |= {"plugins": 0, "_namespace": 0}

# For plugins only: it stands beside the others, on the specification.
ARRAY_API = "array_api"
LEVEL[ARRAY_API] = LEVEL["spec"] + 1

# What a backend may use of core: the specification and what it is given to build on.
PUBLIC = {"errors", "dtypes", "casting", "shapes", "spec", "plugins", ARRAY_API}
# What one that is a communicator, too, may use.
COMMUNICATORS = {"devices", "distributed"}

# Modules that are not named as their distributions are.
DISTRIBUTIONS = {"google": "protobuf", "google_crc32c": "google-crc32c"}

# Third-party packages that `import pullback` may load: the dtypes need them.
EARLY = {"numpy", "ml_dtypes"}

# NumPy is the host interchange format of core: types, and the way in and out.
INTERCHANGE = {"__name__", "array", "asarray", "dtype", "generic", "ndarray"}
# Files that use more of it, each with its reason. "*" is anything.
NUMPY = {
    # Python integers that do not fit their dtype are refused before a kernel sees them; NaN that is
    # NumPy's object is known by it.
    "_dispatch/convert.py": {"errstate", "iinfo", "nan"},
    "_dispatch/host_data.py": {"errstate", "iinfo"},
    # Where a namespace has no random bits of the specified kind, NumPy draws them on the host.
    "array_api/random.py": {"random"},
    # How NumPy prints arrays is how tensors print.
    "_printing.py": {"array2string"},
    # The type of functions without a state, beside those of Python.
    "graph/host.py": {"ufunc"},
    # A branch that no run takes is traced for its shapes, without warnings of what it computes.
    "graph/control/subtrace.py": {"errstate"},
    # Batches are put together on the host, before they become tensors.
    "data/": {"*"},
}

# What names a backend. "numpy" is one as well, but core also means the library by it.
BACKEND_NAMES = re.compile(r"cupy|torch|jax|dpnp|pullback[-_]numpy|\Anumpy(:|\Z)", re.IGNORECASE)
# The places that do: what to install on a machine without a backend, and a module of this name.
NAMES_BACKENDS = {"registry.py": "INSTALL", "__init__.py": "_LAZY_MODULES"}

# Modules that are loaded inside a function, each with its reason.
LATE = {
    # In notebooks: `html` takes a millisecond.
    "pullback._notebook",
    # When einops is imported.
    "pullback._einops.backend",
    # At the first look at a device.
    "pullback.plugins.public",
    # At the first compiled backward pass: inference does without it and `pullback.graph`.
    "pullback._autodiff.tracing",
    # With --communicator: it loads `pullback.distributed`.
    "pullback_conformance.cli.communicators",
    # With `compile(distributed=True)` alone.
    "pullback.distributed.data_parallel",
    # With sharded checkpoints alone.
    "pullback.distributed.world",
    # At the first function or ufunc of NumPy's on a tensor: most programs call none.
    "pullback._numpy.functions",
    "pullback._numpy.ufuncs",
}

MAX_LINES = 600
FEW_LINES = 60

# Names that two classes have because both are public, and users know them so.
SHARED_NAMES = {
    "Accuracy",  # a class of accuracy of ops, and the metric
    "Checkpoint",  # what is saved, and the callback that saves it
}


class Import(NamedTuple):
    """One imported module."""

    module: str
    line: int
    late: bool
    for_types: bool


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if not {"build", ".venv"} & {*path.parts})


def core_files() -> list[Path]:
    return sources(CORE)


def kit_files() -> list[Path]:
    return sources(KIT)


def backend_files() -> list[Path]:
    return [path for folder in sorted(BACKENDS.glob("*/src")) for path in sources(folder)]


def module_of(path: Path) -> str:
    package = KIT if KIT in path.parents else CORE
    parts = (package.name, *path.relative_to(package).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def modules() -> dict[str, Path]:
    return {module_of(path): path for path in [*core_files(), *kit_files()]}


def level_of(module: str) -> int | None:
    """The level of a module, or None where it has none; the kit is above all of core."""
    if module.split(".")[0] == KIT.name:
        return len(LEVELS)
    parts = module.split(".")[1:] or ["__init__"]
    for length in range(len(parts), 0, -1):
        found = LEVEL.get(".".join(parts[:length]))
        if found is not None:
            return found
    return None


def top(module: str) -> str:
    """The part of core that a module belongs to."""
    return module.split(".")[1] if "." in module else "__init__"


def imports(path: Path) -> Iterator[Import]:
    """Every import of a file; `from package import module` gives the module."""

    def visit(node: ast.AST, late: bool, for_types: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, late, for_types)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                assert BACKENDS in path.parents, f"{place(path, node.lineno)}: import in full"
                yield Import(path.relative_to(BACKENDS).parts[2], node.lineno, late, for_types)
                return
            assert node.module is not None
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                module = full if full in modules() else node.module
                yield Import(module, node.lineno, late, for_types)
        late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.body:
                yield from visit(child, late, True)
            for child in node.orelse:
                yield from visit(child, late, for_types)
            return
        for child in ast.iter_child_nodes(node):
            yield from visit(child, late, for_types)

    return visit(tree(path), False, False)


def is_ours(module: str) -> bool:
    return module.split(".")[0] in ("pullback", KIT.name)


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def docstrings(path: Path) -> set[int]:
    """The ids of the nodes that are documentation: strings that stand as statements."""
    return {
        id(node.value)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def tracked() -> list[Path]:
    """The files of the repository, as git knows them."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git repository")
    return [path for name in listed if (path := ROOT / name).is_file()]


class TestLevels:
    def test_every_file_has_one(self):
        homeless = [module for module in modules() if level_of(module) is None]
        assert not homeless, f"give {sorted(homeless)} a level in LEVELS"

    @pytest.mark.each("path", modules().values(), ids=module_of)
    def test_imports_go_down(self, path):
        own = module_of(path)
        wrong = [
            f"{place(path, one.line)}: {own} (level {level_of(own)}) imports {one.module} "
            f"(level {level_of(one.module)})"
            for one in imports(path)
            if is_ours(one.module) and (level_of(one.module) or 0) > (level_of(own) or 0)
        ]
        assert not wrong, "\n".join(wrong)

    @pytest.mark.each("path", modules().values(), ids=module_of)
    def test_own_modules_are_imported_at_the_top(self, path):
        late = [
            place(path, one.line)
            for one in imports(path)
            if is_ours(one.module) and one.late and one.module not in LATE
        ]
        assert not late, f"imports inside functions hide what depends on what: {late}"

    def test_there_are_no_cycles(self):
        graph = {
            module: {
                one.module
                for one in imports(path)
                if one.module in modules() and not one.for_types and one.module != module
            }
            for module, path in modules().items()
        }
        done: set[str] = set()

        def visit(module: str, trail: tuple[str, ...]) -> None:
            assert module not in trail, " -> ".join((*trail[trail.index(module) :], module))
            if module not in done:
                for other in sorted(graph[module]):
                    visit(other, (*trail, module))
                done.add(module)

        for module in graph:
            visit(module, ())

    @pytest.mark.each("path", core_files(), ids=module_of)
    def test_array_api_is_for_plugins(self, path):
        if ARRAY_API not in path.relative_to(CORE).parts:
            used = [one.line for one in imports(path) if top(one.module) == ARRAY_API]
            assert not used, f"{path.name} imports {ARRAY_API}, lines {used}"


class TestKit:
    """The conformance kit measures what backends see, and looks at what they do not."""

    #: The modules of core that are no one else's: what the kit checks is there.
    READS = frozenset(
        (
            "pullback._autodiff.tape",
            "pullback._dispatch.arguments",
            "pullback._dispatch.bodies",
            "pullback._dispatch.convert",
            "pullback._dispatch.host_data",
            "pullback._dispatch.plan",
            "pullback._hints",
            "pullback._storage_dtypes",
            "pullback._tree",
            "pullback._version",
            "pullback.cli.backends",
            "pullback.cli.launch",
            "pullback.cli.table",
            "pullback.graph.control.functions",
            "pullback.graph.emit",
            "pullback.graph.function",
            "pullback.graph.graph",
            "pullback.graph.passes.regions",
            "pullback.graph.passes.simplify",
            "pullback.graph.trace",
        )
    )

    def test_reads_what_is_listed(self):
        found = {
            one.module
            for path in kit_files()
            for one in imports(path)
            if one.module.split(".")[0] == "pullback"
            and (".graph" in one.module or ".cli" in one.module or "._" in one.module)
        }
        assert found == self.READS


class TestThirdParty:
    def dependencies(self) -> set[str]:
        project = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text())["project"]
        extras = project["optional-dependencies"].values()
        lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
        return {re.split(r"[\[<>=!~ ;]", line)[0] for line in lines}

    @pytest.mark.each("path", core_files(), ids=module_of)
    def test_is_declared_and_imported_late_where_heavy(self, path):
        for one in imports(path):
            name = one.module.split(".")[0]
            if name in sys.stdlib_module_names or is_ours(one.module):
                continue
            distribution = DISTRIBUTIONS.get(name, name)
            assert distribution in self.dependencies(), (
                f"{place(path, one.line)}: {name} is not declared"
            )
            assert name in EARLY or one.late or one.for_types, (
                f"{place(path, one.line)}: import {name} inside the function that needs it"
            )

    @pytest.mark.each("path", core_files(), ids=module_of)
    def test_pluggy_is_the_plugin_systems_own(self, path):
        if path.name != "hookspecs.py":
            assert "pluggy" not in {one.module.split(".")[0] for one in imports(path)}


class TestBackendsAreNotNamed:
    @pytest.mark.each("path", modules().values(), ids=module_of)
    def test_in_core_and_in_the_kit(self, path):
        skipped = docstrings(path)
        found = []
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Assign) and path.name in NAMES_BACKENDS:
                targets = [one.id for one in node.targets if isinstance(one, ast.Name)]
                if targets == [NAMES_BACKENDS[path.name]]:
                    skipped |= {id(one) for one in ast.walk(node)}
            match node:
                case ast.Constant(value=str(text)) if id(node) not in skipped:
                    pass
                case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text):
                    text = "" if text == "numpy" else text
                case ast.FunctionDef(name=text) | ast.ClassDef(name=text):
                    text = "" if text == "numpy" else text
                case _:
                    continue
            if BACKEND_NAMES.search(text):
                found.append(f"{place(path, node.lineno)}: {text!r}")
        assert not found, "core knows no backend by name:\n" + "\n".join(found)

    @pytest.mark.each("path", modules().values(), ids=module_of)
    def test_nor_told_apart(self, path):
        found = [
            f"{place(path, node.lineno)}: {ast.unparse(node)}"
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Compare) and self.tells_apart(node)
        ]
        assert not found, "ask what a backend can do, not which one it is:\n" + "\n".join(found)

    @staticmethod
    def tells_apart(node: ast.Compare) -> bool:
        sides = [node.left, *node.comparators]
        text = [ast.unparse(side) for side in sides]
        if any(side in ("xp", "self.xp", "self._xp") for side in text):
            return any(side != "None" for side in text if side not in ("xp", "self.xp", "self._xp"))
        if any(re.search(r"\b(backend(\(\))?|backend\.name|xp\.__name__)$", side) for side in text):
            return any(
                isinstance(one, ast.Constant) and isinstance(one.value, str)
                for side in sides
                for one in ast.walk(side)
            )
        return False

    @pytest.mark.parametrize(
        ("code", "wrong"),
        [
            ("backend == 'mine'", True),
            ("x.device.backend.name == 'mine'", True),
            ("backend.name in ('a', 'b')", True),
            ("xp is np", True),
            ("xp == other", True),
            ("xp.__name__ == 'mine'", True),
            ("xp is None", False),
            ("slot.backend is backend", False),
            ("name == backend.name", False),
            ("backend is None", False),
        ],
    )
    def test_the_test(self, code, wrong):
        node = ast.parse(code, mode="eval").body
        assert isinstance(node, ast.Compare)
        assert self.tells_apart(node) is wrong


class TestNumPy:
    @pytest.mark.each("path", core_files(), ids=module_of)
    def test_does_not_compute_in_core(self, path):
        name = path.relative_to(CORE).as_posix()
        allowed = INTERCHANGE.union(
            *(more for file, more in NUMPY.items() if name.startswith(file))
        )
        if "*" in allowed:
            return
        aliases = set()
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.split(".")[0] == "numpy":
                        aliases.add(alias.asname or alias.name)
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numpy":
                pytest.fail(f"{place(path, node.lineno)}: write `import numpy as np`")
        assert aliases <= {"np"}
        wrong = [
            f"{place(path, node.lineno)}: np.{node.attr}"
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "np"
            and node.attr not in allowed
        ]
        assert not wrong, "arrays are the backends' work; use ops, or say why in NUMPY:\n" + (
            "\n".join(wrong)
        )


class TestBackendPackages:
    @pytest.mark.each("path", backend_files(), ids=lambda path: path.stem)
    def test_use_what_core_offers_them(self, path):
        for one in imports(path):
            if is_ours(one.module) and one.module != "pullback":
                offered = PUBLIC | (COMMUNICATORS if path.stem == "communicator" else set())
                assert top(one.module) in offered, (
                    f"{place(path, one.line)}: {one.module} is not for backends; "
                    f"those are {sorted(offered)}"
                )
                private = [part for part in one.module.split(".") if part.startswith("_")]
                assert not private, place(path, one.line)

    @pytest.mark.each("path", backend_files(), ids=lambda path: path.stem)
    def test_do_not_use_each_other(self, path):
        project, _, own = path.relative_to(BACKENDS).parts[:3]
        # A kernel pack stands on the backend that it is for, and says so.
        declared = (BACKENDS / project / "pyproject.toml").read_text(encoding="utf-8")
        for one in imports(path):
            name = one.module.split(".")[0]
            other = name.startswith("pullback_") and name != own
            assert not other or f'"{name.replace("_", "-")}>=' in declared, place(path, one.line)

    def test_projects_are_no_packages(self):
        inits = [*BACKENDS.glob("__init__.py"), *BACKENDS.glob("*/__init__.py")]
        assert not inits, "a folder named like a library must not shadow it"


class TestFiles:
    @pytest.mark.each(
        "path", [*modules().values(), *backend_files()], ids=lambda path: "/".join(path.parts[-2:])
    )
    def test_can_be_read_in_one_sitting(self, path):
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= MAX_LINES, f"{path.relative_to(ROOT)} has {lines} lines; split it"

    def test_small_files_have_two_importers(self):
        importers = {}
        for path in modules().values():
            for node in ast.walk(tree(path)):
                # Modules that are imported as such stand in a row, one for each subject.
                if isinstance(node, ast.ImportFrom) and node.module:
                    importers.setdefault(node.module, set()).add(path)
        for path in core_files():
            lines = path.read_text(encoding="utf-8").count("\n")
            found = importers.get(".".join(path.relative_to(CORE.parent).with_suffix("").parts), ())
            if lines < FEW_LINES and len(found) == 1:
                (importer,) = found
                assert importer.stem == "__init__", (
                    f"{path.relative_to(ROOT)} has {lines} lines, and only "
                    f"{importer.relative_to(ROOT)} imports it; make it a part of that file"
                )

    def test_no_two_classes_share_a_name(self):
        places = {}
        for path in core_files():
            for node in ast.walk(tree(path)):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name.lstrip("_"), []).append(place(path, node.lineno))
        shared = {name: found for name, found in places.items() if len(found) > 1}
        for name in SHARED_NAMES:
            shared.pop(name)
        assert not shared, f"one meaning a word; rename all but one of {shared}"

    def test_classes_of_graphs_are_in_the_table_of_words(self):
        page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
        absent = [
            f"{place(path, node.lineno)}: {node.name}"
            for path in core_files()
            if "graph" in path.relative_to(CORE).parts[:1]
            for node in tree(path).body
            if isinstance(node, ast.ClassDef)
            and not node.name.startswith("_")
            and not node.name.endswith("Error")
            and f"`{node.name}`" not in page
        ]
        assert not absent, f"say in docs/architecture.md what these are: {absent}"

    def test_name_no_machine_and_no_registry(self):
        pattern = re.compile(
            r"(?<![\w.~-])/(root|work|opt|home|Users)/\w"
            r"|index-url\s*=|find-links\s*=|\[tool\.uv\.index\]|https?://[^\s\"'<>)]+/simple\b"
        )
        found = []
        for path in tracked():
            if path == Path(__file__):
                continue
            try:
                lines = path.read_text(encoding="utf-8").splitlines()
            except UnicodeDecodeError:
                continue
            found += [
                f"{place(path, number)}: {line.strip()}"
                for number, line in enumerate(lines, 1)
                if pattern.search(line)
            ]
        assert not found, "\n".join(found)

    def test_locks_stay_out(self):
        assert "uv.lock" not in {path.name for path in tracked()}

    def test_every_distribution_has_its_license_and_types(self):
        license_ = (ROOT / "LICENSE").read_text()
        for project in [
            ROOT / "core",
            *(path.parent for path in BACKENDS.glob("*/pyproject.toml")),
            *(path.parent for path in ROOT.glob("compat/*/pyproject.toml")),
            *(path.parent for path in ROOT.glob("integrations/*/pyproject.toml")),
        ]:
            assert (project / "LICENSE").read_text() == license_
            # Keras has no types that a backend's functions could have.
            typed = bool(list(project.glob("src/*/py.typed")))
            assert typed != (project.name == "keras"), f"{project.name} lacks py.typed"


class TestImport:
    """The modules that `import pullback` loads; `benchmarks/overhead.py` measures its time."""

    def test_brings_numpy_and_little_else(self):
        program = (
            "import numpy, sys; before = set(sys.modules); import pullback; "
            "print(*sorted(set(sys.modules) - before))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        names = done.stdout.split()
        own = {name for name in names if name.split(".")[0] == "pullback"}
        others = {name.split(".")[0] for name in set(names) - own}
        assert others - sys.stdlib_module_names == {"ml_dtypes"}
        assert len(set(names) - own) <= 20, sorted(set(names) - own)
        # The upper levels wait until they are asked for.
        later = {f"pullback.{name}" for level in LEVELS[7:-1] for name in level}
        assert not later & own
