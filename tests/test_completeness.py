"""Every op is whole: documented, sampled, differentiable or not by decision, served and public."""

import doctest
import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import pullback as pb
from pullback import array_api, checks
from pullback.conformance.samples import load
from pullback.devices import as_device
from pullback.spec import OPS

SUITES = load()
#: Where the public functions are. The second name is the one that a reader types.
NAMESPACES = [
    pb,
    *(
        importlib.import_module(f"pullback.{name}")
        for name in ("linalg", "fft", "random")
        if any(module.name == name for module in pkgutil.iter_modules(pb.__path__))
    ),
]
OURS = {name: op for name, op in OPS.items() if op.body.__module__.startswith("pullback.ops.")}
OUTPUT = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def over(found):
    return pytest.mark.parametrize("op", found, ids=lambda op: op.name)


def run_examples(test):
    runner = doctest.DocTestRunner(optionflags=OUTPUT)
    lines = []
    runner.run(test, out=lines.append)
    assert not runner.failures, "".join(lines)


def test_there_are_ops():
    assert OURS


@over(OURS.values())
def test_is_documented(op):
    first, *rest = inspect.cleandoc(op.doc).splitlines()
    assert first.endswith("."), f"{op.name}: the first line of the docstring is a sentence"
    assert ">>> " in "\n".join(rest), f"{op.name}: the docstring shows no example"


@over(OURS.values())
def test_example_runs(op):
    parser = doctest.DocTestParser()
    globs = {"pb": pb, "np": np}
    run_examples(parser.get_doctest(inspect.cleandoc(op.doc), globs, op.name, op.family, 0))


@over(OURS.values())
def test_has_samples(op):
    assert op.name in SUITES, f"{op.name} has no samples: write conformance/samples/{op.family}.py"
    assert len(SUITES[op.name].samples) >= 2


@pytest.mark.parametrize("name", SUITES)
def test_suite_is_of_an_op(name):
    assert name in OPS
    op = OPS[name]
    for sample in SUITES[name].samples:
        inspect.signature(op.function).bind(*sample.inputs, **sample.attributes)


@over(OURS.values())
def test_gradients_are_decided(op):
    names = {one.name for one in op.inputs}
    if not op.differentiable:
        assert not op.rules
    elif op.rules or op.primitive:
        missing = names - set(op.rules)
        assert not missing, f"{op.name} has no rule for {sorted(missing)}; None says it has none"
        assert any(rule is not None for rule in op.rules.values()), (
            f"{op.name} has a gradient in no input: say differentiable=False"
        )


@over([op for op in OURS.values() if op.primitive])
def test_primitive_is_served(op):
    kernels = array_api.kernels(np)
    assert op.name in kernels, f"{op.name}: no kernel in array_api/{op.family}.py"
    assert as_device("cpu").backend.offers(op.name)


@pytest.mark.parametrize("name", array_api.kernels(np))
def test_generic_kernel_has_the_signature_of_its_op(name):
    checks.check_kernel(name, array_api.kernels(np)[name], "array_api")


@over([op for op in OURS.values() if not op.name.startswith("_")])
def test_is_public(op):
    name = op.body.__name__
    homes = [space for space in NAMESPACES if getattr(space, name, None) is op.function]
    assert homes, f"{name} is exported by none of {[space.__name__ for space in NAMESPACES]}"
    for home in homes:
        listed = getattr(home, "__all__", None)
        assert listed is None or name in listed


def _modules():
    for info in pkgutil.walk_packages(pb.__path__, "pullback."):
        if not info.name.endswith("__main__"):
            yield info.name


@pytest.mark.parametrize("name", _modules())
def test_examples_of_module_run(name):
    module = importlib.import_module(name)
    for test in doctest.DocTestFinder(exclude_empty=True).find(
        module, extraglobs={"pb": pb, "np": np}
    ):
        if test.examples:
            run_examples(test)
