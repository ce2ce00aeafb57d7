"""The meaning of `spec_version`: which backends go on working, and which are rejected.

`snapshots/spec-1.txt` has what kernels of version 1 rely on: how each op calls its kernel, what it
takes back, and the primitives of each tier. A change that breaks a kernel written for it needs
another major version. While nothing is released, such a change is written there instead:

    uv run pytest tests/plugins/test_spec_version.py --update-snapshots
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from pullback import errors, spec
from pullback.plugins.backend import Backend
from pullback.plugins.hookspecs import hookimpl
from pullback.plugins.registry import Registry
from pullback_conformance.cli.contract import kernel_signature

MAJOR = spec.SPEC_VERSION.partition(".")[0]
SNAPSHOT = Path(__file__).parent / "snapshots" / f"spec-{MAJOR}.txt"


def contract(op: spec.Op) -> str:
    """The contract that the kernel of an op relies on, in a line."""
    results = ", ".join([*op.outputs, *op.residuals])
    kind = f"primitive of {op.tier}" if op.primitive else "composite"
    return f"{kernel_signature(op)} -> {results}; {kind}"


def tier(line: str) -> str:
    """The tier of a primitive; empty for a composite."""
    return line.partition("; primitive of ")[2]


def kernel(signature: str, log: list[str]):
    """A kernel with exactly the signature that a line of the snapshot shows."""
    name = signature.partition("(")[0]
    names: dict[str, object] = {}
    exec(f"def {signature}: log.append({name!r})", {"log": log}, names)
    return names[name]


def old_backend(version: str, **kernels: object) -> Backend:
    attributes = {"name": "old", "spec_version": version, "kernels": kernels}
    return type("OldBackend", (Backend,), attributes)()


def installed(backend: Backend, **module: object) -> Registry:
    @hookimpl
    def pullback_register_backend(register):
        register(backend)

    entry = SimpleNamespace(
        group="pullback.backends.cpu", name="old", value="pullback_old",
        dist=SimpleNamespace(name="pullback-old", version="3.1"),
        load=lambda: SimpleNamespace(
            pullback_register_backend=pullback_register_backend, **module
        ),
    )  # fmt: skip
    return Registry(lambda: [entry])


def test_kernels_of_this_major_version_are_still_right(request):
    ours = [op for op in spec.OPS.values() if op.body.__module__.startswith("pullback.")]
    now = {op.name: contract(op) for op in ours}
    if request.config.getoption("--update-snapshots"):
        SNAPSHOT.write_text("".join(f"{now[name]}\n" for name in sorted(now)))
    old = {line.partition("(")[0]: line for line in SNAPSHOT.read_text().splitlines()}
    broken = [
        f"{line} is now {now.get(name, 'gone')}"
        for name, line in old.items()
        if now.get(name) != line
    ]
    # A tier that an old backend claims must not ask for more than it did.
    tiers = {tier(line) for line in old.values()} - {""}
    broken += [
        f"{line} is new in a tier that old backends claim"
        for name, line in now.items()
        if name not in old and tier(line) in tiers
    ]
    assert not broken, (
        f"{broken}: kernels of version {MAJOR} break; before the first release run this test with "
        f"--update-snapshots, later SPEC_VERSION needs another major number"
    )


def test_a_backend_for_an_older_minor_version_goes_on_working(monkeypatch):
    log: list[str] = []
    lines = SNAPSHOT.read_text().splitlines()
    kernels = {line.partition("(")[0]: kernel(line.partition(" -> ")[0], log) for line in lines}
    monkeypatch.setattr(spec, "SPEC_VERSION", f"{MAJOR}.7")
    plugins = installed(old_backend(f"{MAJOR}.0", **kernels))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        backend = plugins.backend("old")
    assert plugins.info()[0].state == "ready"
    assert plugins.info()[0].left_out == ()
    assert {name: backend.kernel(name, None) for name in kernels} == kernels


def test_hooks_that_it_does_not_have_have_defaults():
    backend = old_backend("1.0")
    assert backend.memory(None) is None
    backend.synchronize(None)
    backend.clear_caches()


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        ("1.2", "1.3", r"written for version 1.3 .* has version 1.2; upgrade it: "
                       r"pip install --upgrade pullback$"),
        ("1.2", "2.0", r"written for version 2.0 .* pip install --upgrade pullback$"),
        ("2.0", "1.9", r"written for version 1.9 .*; use a version of the plugin for 2\.\*: "
                       r"pip install --upgrade pullback-old$"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("by", ["backend", "module"])
def test_others_are_refused_with_what_to_install(monkeypatch, ours, theirs, message, by):
    monkeypatch.setattr(spec, "SPEC_VERSION", ours)
    own, module = (theirs, {}) if by == "backend" else (ours, {"spec_version": theirs})
    plugins = installed(old_backend(own), **module)
    with pytest.raises(errors.PluginError, match=message) as caught:
        plugins.backend("old")
    assert str(caught.value).startswith("the backend 'old' (pullback-old 3.1) was written for")
    assert re.search(message, plugins.info()[0].state)


def test_of_a_backend_that_a_program_registers_the_kernels_are_to_be_changed(monkeypatch):
    monkeypatch.setattr(spec, "SPEC_VERSION", "2.0")
    with pytest.raises(errors.PluginError, match=r"for 2\.\*: change its kernels$"):
        Registry(lambda: []).register_backend(old_backend("1.9"))


@pytest.mark.parametrize("version", [1, 1.0, "1", "v1.0", "1.0.0", "", None])
def test_what_is_no_version(version):
    with pytest.raises(errors.PluginError, match=r"'major\.minor'.*; write spec_version = '"):
        installed(old_backend(version)).backend("old")
