"""Tests with the mark `drawn`: those that CI leaves out, others for each commit."""

from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
NAMES = [f"tests/test_some.py::test_all[{name}]" for name in "abcdefghijklmnop"]


@pytest.fixture
def shared(pytestconfig):
    """The module `conftest.py` of the repository."""
    (found,) = (
        one
        for one in pytestconfig.pluginmanager.get_plugins()
        if getattr(one, "__file__", None) == str(ROOT / "conftest.py")
    )
    return found


def test_each_is_drawn_for_some_commit(shared):
    commits = [f"{7919 * number:040x}" for number in range(60)]
    parts = [shared.drawn(NAMES, 3, commit) for commit in commits]
    assert parts == [shared.drawn(NAMES, 3, commit) for commit in commits]
    assert {name for part in parts for name in part} == set(NAMES)
    assert 0.25 < sum(map(len, parts)) / len(parts) / len(NAMES) < 0.42


@pytest.fixture
def kept(shared, pytestconfig, monkeypatch):
    """Which of the tests are run, and which are said to be left out."""

    def find(marks):
        items = [SimpleNamespace(nodeid=name, get_closest_marker=lambda _: marks) for name in NAMES]
        left = []
        hook = SimpleNamespace(pytest_deselected=lambda items: left.extend(items))
        config = SimpleNamespace(
            hook=hook, rootpath=pytestconfig.rootpath, getoption=lambda name: None
        )
        shared.pytest_collection_modifyitems(config, items)
        return [one.nodeid for one in items], [one.nodeid for one in left]

    return find


def test_in_ci_one_of_so_many_runs(kept, monkeypatch):
    monkeypatch.setenv("CI", "true")
    some, left = kept(SimpleNamespace(args=(2,)))
    assert sorted(some + left) == NAMES
    assert some
    assert left
    assert kept(None) == (NAMES, [])


def test_by_hand_all_run(kept, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    assert kept(SimpleNamespace(args=(2,))) == (NAMES, [])


def test_what_is_drawn_is_no_test_of_the_fast_lane(request):
    drawn = [item for item in request.session.items if item.get_closest_marker("drawn")]
    assert all(item.get_closest_marker("slow") for item in drawn)
