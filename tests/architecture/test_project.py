"""Version, metadata, workflows, sessions and changelog of the project agree."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(
    path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"
)
PROJECTS = sorted(
    path
    for pattern in ("core", "conformance", "backends/*", "compat/*", "integrations/*")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
)


def settings(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


def read(path):
    """The contents of a YAML file; YAML 1.1 takes the key `on` for a boolean."""
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in found.items()}


def jobs():
    """Every job of every workflow, with what to call it."""
    return [
        pytest.param(job, id=f"{path.stem}:{name}")
        for path in WORKFLOWS
        for name, job in read(path)["jobs"].items()
    ]


def steps(job):
    return job.get("steps", [])


def name_of(path):
    return path.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def sessions():
    """The sessions of noxfile.py."""
    done = subprocess.run(
        [sys.executable, "-m", "nox", "--list"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    # Those that run by default have a star.
    return set(re.findall(r"^[*-] (\w+) -> ", done.stdout, re.MULTILINE))


@pytest.fixture(scope="module")
def version():
    spec = importlib.util.spec_from_file_location("tools_version", ROOT / "tools/version.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestVersion:
    @pytest.fixture
    def copy(self, version, tmp_path):
        """The files with the version, in a folder that may be changed."""
        for path in {
            *version.asking(ROOT),
            *version.projects(ROOT),
            version.source(ROOT),
            ROOT / "core/pyproject.toml",
            ROOT / "CHANGELOG.md",
        }:
            there = tmp_path / path.relative_to(ROOT)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, there)
        return tmp_path

    def test_all_distributions_have_one(self, version):
        assert not list(version.disagreements(ROOT))

    def test_it_is_the_one_that_is_imported(self, version):
        import pullback

        assert version.read(ROOT) == pullback.__version__

    def test_another_number_is_found(self, version, copy):
        path = copy / "backends/numpy/pyproject.toml"
        path.write_text(path.read_text().replace('version = "', 'version = "9.', 1))
        (found,) = version.disagreements(copy)
        assert found.startswith("backends/numpy/pyproject.toml: the version is 9.")

    def test_a_range_that_leaves_it_out_is_found(self, version, copy):
        path = version.source(copy)
        path.write_text('__version__ = "7.1.0"\n')
        found = "\n".join(version.disagreements(copy))
        assert "backends/numpy/pyproject.toml: pullback>=" in found
        assert "leaves out 7.1.0" in found

    def test_set_everywhere(self, version, copy):
        version.write(copy, "7.1.3", date(2030, 5, 6))
        assert version.read(copy) == "7.1.3"
        assert not list(version.disagreements(copy))
        numpy = settings(copy / "backends/numpy/pyproject.toml")["project"]
        assert numpy["version"] == "7.1.3"
        assert "pullback>=7.1,<7.2" in numpy["dependencies"]
        changes = (copy / "CHANGELOG.md").read_text()
        assert "## [Unreleased]\n\n## [7.1.3] - 2030-05-06\n" in changes
        # Again changes nothing.
        version.write(copy, "7.1.3", date(2030, 5, 7))
        assert (copy / "CHANGELOG.md").read_text() == changes

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["v99.0.0"], "the tag v99.0.0 is not v"),
            (["--set", "next"], "a version is three numbers"),
        ],
    )
    def test_refuses(self, arguments, says):
        done = subprocess.run(
            [sys.executable, "tools/version.py", *arguments],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode
        assert says in done.stderr


class TestExtras:
    """`pip install "pullback[cpu]"` and its like."""

    EXTRAS = settings(ROOT / "core/pyproject.toml")["project"]["optional-dependencies"]

    @pytest.mark.parametrize(
        ("extra", "packages"),
        [
            ("cpu", {"pullback-numpy", "pullback-native"}),
            ("cuda12", {"pullback-numpy", "pullback-cupy[cuda12]"}),
            ("cuda13", {"pullback-numpy", "pullback-cupy[cuda13]"}),
            ("jax", {"pullback-numpy", "pullback-jax"}),
            ("mlx", {"pullback-numpy", "pullback-mlx"}),
            ("torch", {"pullback-numpy", "pullback-torch"}),
        ],
    )
    def test_they_name_the_backends_of_a_machine(self, version, extra, packages):
        asked = {re.split("[>;]", requirement)[0] for requirement in self.EXTRAS[extra]}
        assert asked == packages
        own = {settings(path)["project"]["name"]: settings(path)["project"] for path in PROJECTS}
        for package in packages:
            name, _, wanted = package.partition("[")
            assert not wanted or wanted.rstrip("]") in own[name]["optional-dependencies"]
        for requirement in self.EXTRAS[extra]:
            assert version.bounds(version.read(ROOT)) in requirement

    def test_the_workspace_resolves_none_of_their_packages(self):
        """Of a member uv would resolve all extras, torch and CUDA's libraries too."""
        uv = settings(ROOT / "pyproject.toml")["tool"]["uv"]
        assert "core" not in uv["workspace"]["members"]
        assert uv["sources"]["pullback"] == {"path": "core", "editable": True}


@pytest.mark.parametrize("path", PROJECTS, ids=name_of)
class TestMetadata:
    def test_says_what_an_index_shows(self, path):
        project = settings(path)["project"]
        assert (path.parent / project["readme"]).is_file()
        assert project["license"] == "Apache-2.0"
        assert project["description"]
        assert project["authors"]
        classifiers = project["classifiers"]
        assert classifiers == sorted(set(classifiers))
        for topic in ("Development Status ::", "Operating System ::", "Topic ::"):
            assert any(one.startswith(topic) for one in classifiers), topic
        # Keras has no types that a backend's functions could have.
        assert ("Typing :: Typed" in classifiers) != (project["name"] == "keras-pullback")

    def test_pythons_are_those_of_ci(self, path):
        project = settings(path)["project"]
        named = pythons(project["classifiers"])
        assert project["requires-python"] == f">={named[0]}"
        tried = {
            entry["python"]
            for entry in read(GITHUB / "workflows/ci.yml")["jobs"]["run"]["strategy"]["matrix"][
                "include"
            ]
        }
        assert tried == set(named)

    def test_wheels_are_built_for_them(self, path):
        wheels = settings(path).get("tool", {}).get("cibuildwheel")
        if wheels:
            named = pythons(settings(path)["project"]["classifiers"])
            assert wheels["build"] == [f"cp{one.replace('.', '')}-*" for one in named]

    def test_addresses_are_real(self, path):
        for address in settings(path)["project"].get("urls", {}).values():
            assert not re.search(r"example\.|localhost|OWNER|TODO|<", address), address


def pythons(classifiers):
    found = [
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in classifiers
    ]
    return [one[1] for one in found if one]


class TestWorkflows:
    def test_there_are_three(self):
        assert [path.stem for path in WORKFLOWS] == ["ci", "docs", "publish"]

    @pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
    def test_may_read_and_nothing_else(self, path):
        assert read(path)["permissions"] == {"contents": "read"}

    @pytest.mark.parametrize("job", jobs())
    def test_what_a_job_may_write(self, job):
        written = {name for name, right in job.get("permissions", {}).items() if right == "write"}
        assert written <= {"id-token", "pages"}

    @pytest.mark.parametrize("job", jobs())
    def test_ends(self, job):
        # A job that runs another workflow has that one's limits.
        assert "timeout-minutes" in job or "uses" in job

    @pytest.mark.parametrize("job", jobs())
    def test_actions_have_a_major_version(self, job):
        for step in steps(job):
            if "uses" in step:
                assert re.fullmatch(r"[\w/-]+@(release/)?v\d+", step["uses"]), step["uses"]

    @pytest.mark.parametrize("job", jobs())
    def test_files_that_they_call_exist(self, job, sessions):
        for step in steps(job):
            words = shlex.split(step.get("run", ""))
            for word in words:
                if "/" in word and "*" not in word:
                    assert (ROOT / word).is_file(), word
            if words[:1] == [".ci/run"]:
                assert {word for word in words[1:] if word.isalpha()} <= sessions
        for entry in job.get("strategy", {}).get("matrix", {}).get("include", []):
            assert set(entry.get("sessions", "").split()) <= sessions


class TestForms:
    @pytest.mark.parametrize("path", FORMS, ids=name_of)
    def test_ask_for_something(self, path):
        form = read(path)
        assert form["name"]
        assert form["description"]
        fields = [field for field in form["body"] if field["type"] != "markdown"]
        names = [field["id"] for field in fields]
        assert len(set(names)) == len(names)
        assert all(field["attributes"]["label"] for field in fields)
        assert any(field.get("validations", {}).get("required") for field in fields)

    def test_there_is_one_for_bugs_backends_and_features(self):
        assert {path.stem for path in FORMS} == {"backend", "bug", "feature"}


class TestCommands:
    def test_sessions_that_ci_runs_exist(self, sessions):
        script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
        script = re.sub(r"\$\{CI_SLOW:\+(\w+)\}", r"\1", script)
        named = {name for line in re.findall(r"nox -s ([a-z ]+)", script) for name in line.split()}
        assert {"lint", "packages", "slow"} <= named
        assert named <= sessions

    def test_ci_ends_with_the_command_of_the_readme(self):
        last = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1]
        assert last == "uv run pytest"
        assert f"```sh\n{last}\n```" in (ROOT / "README.md").read_text(encoding="utf-8")

    def test_every_slow_test_is_in_a_part(self):
        spec = importlib.util.spec_from_file_location("sessions", ROOT / "noxfile.py")
        noxfile = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(noxfile)
        named = [folder for part in noxfile.slow_parts().values() for folder in part]
        assert len(set(named)) == len(named)
        for path in settings(ROOT / "pyproject.toml")["tool"]["pytest"]["ini_options"]["testpaths"]:
            for test in (ROOT / path).rglob("test_*.py"):
                inside = [name_of(folder) for folder in test.parents if folder.is_relative_to(ROOT)]
                assert set(inside) & set(named), f"{name_of(test)} is in no part of `nox -s slow`"

    def test_hooks_are_the_tools_of_the_environment(self):
        tools = settings(ROOT / "pyproject.toml")["dependency-groups"]["dev"]
        bounded = {re.split(r"[<>=]", line)[0] for line in tools}
        for repository in read(ROOT / ".pre-commit-config.yaml")["repos"]:
            for hook in repository["hooks"]:
                words = hook["entry"].split()
                if words[:2] == ["uv", "run"]:
                    assert words[2] in bounded, f"{words[2]} is not in the group dev"
                else:
                    assert all("<" in line for line in hook["additional_dependencies"])


class TestPages:
    def test_changelog_has_a_place_for_what_comes_next(self):
        text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        versions = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", text, re.MULTILINE)
        assert versions[0] == ("Unreleased", "")
        assert all(day for _, day in versions[1:]), "a version has its date"

    def test_what_a_forge_looks_for(self):
        for name in ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE",
                     "README.md", "SECURITY.md"):  # fmt: skip
            assert (ROOT / name).is_file(), name

    def test_citation(self):
        found = read(ROOT / "CITATION.cff")
        assert {"authors", "cff-version", "message", "title"} <= set(found)
        assert found["license"] == "Apache-2.0"

    def test_every_page_is_in_the_navigation(self):
        named = set(leaves(read(ROOT / "mkdocs.yml")["nav"]))
        pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
        assert pages <= named, pages - named
        # Made when the site is built.
        assert {page for page in named - pages if not page.startswith("reference/")} == set()


def leaves(tree):
    if isinstance(tree, str):
        yield tree
    else:
        for one in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(one)
