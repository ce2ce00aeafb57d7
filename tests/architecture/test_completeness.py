"""Every op is whole: documented, sampled, differentiable or not by decision, served and public."""

import dis
import doctest
import importlib
import inspect
import pkgutil
import re
import sys

import numpy as np
import pytest

import pullback as pb
from pullback import array_api
from pullback.devices import as_device
from pullback.graph import instructions
from pullback.plugins import validation
from pullback.spec import OPS
from pullback_conformance.case import bind
from pullback_conformance.samples import load

SUITES = load()
#: Where the public functions are.
NAMESPACES = [
    pb,
    pb.ops,
    *(
        importlib.import_module(f"pullback.{name}")
        for name in ("linalg", "fft", "random")
        if any(module.name == name for module in pkgutil.iter_modules(pb.__path__))
    ),
]
OURS = {name: op for name, op in OPS.items() if op.body.__module__.startswith("pullback.ops.")}
NUMBER = re.compile(r"-?\d+\.\d*(?:e[+-]?\d+)?|-?\d+e[+-]?\d+")


class Tolerant(doctest.OutputChecker):
    """Takes floats that agree to six digits: the last ones are the backend's."""

    def check_output(self, want, got, flags):
        if super().check_output(want, got, flags):
            return True
        wanted, given = NUMBER.findall(want), NUMBER.findall(got)
        return (
            bool(wanted)
            and super().check_output(NUMBER.sub("#", want), NUMBER.sub("#", got), flags)
            and np.allclose(np.array(wanted, float), np.array(given, float), 1e-6, 1e-9)
        )


def over(found):
    return pytest.mark.each("op", found, ids=lambda op: op.name)


def run_examples(test):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(checker=Tolerant(), optionflags=flags)
    lines = []
    runner.run(test, out=lines.append)
    assert not runner.failures, "".join(lines)


def is_public(op):
    """Returns whether users call the op; other ops are for bodies and rules."""
    name = op.body.__name__
    named = name in importlib.import_module(op.body.__module__).__all__
    return named or any(hasattr(space, op.name) for space in NAMESPACES)


def documentation(op):
    """Of the function that readers call: an op with a private body stands behind one."""
    if not op.body.__name__.startswith("_"):
        return inspect.cleandoc(op.doc)
    homes = [getattr(space, op.name) for space in NAMESPACES if hasattr(space, op.name)]
    return inspect.cleandoc((homes[0].__doc__ if homes else op.doc) or "")


def test_there_are_ops():
    assert OURS


@over(OURS.values())
def test_is_documented(op):
    assert op.doc.strip(), f"{op.name} has no docstring"
    first, *rest = documentation(op).splitlines()
    assert first.endswith("."), f"{op.name}: the first line of the docstring is a sentence"
    if is_public(op):
        assert ">>> " in "\n".join(rest), f"{op.name}: the docstring shows no example"


@over(OURS.values())
def test_example_runs(op):
    parser = doctest.DocTestParser()
    globs = {"pb": pb, "np": np}
    run_examples(parser.get_doctest(documentation(op), globs, op.name, op.family, 0))


@over(OURS.values())
def test_has_samples(op):
    here = op.name in SUITES
    assert here, f"{op.name} has no samples: write them in conformance/samples/{op.family}.py"
    assert len(SUITES[op.name].samples) >= 2


@pytest.mark.each("name", SUITES)
def test_suite_is_of_an_op(name):
    assert name in OPS
    op = OPS[name]
    for sample in SUITES[name].samples:
        bind(op, list(sample.inputs), sample.attributes)


@over(OURS.values())
def test_gradients_are_decided(op):
    names = {one.name for one in op.inputs}
    if not op.differentiable:
        assert not op.rules
    elif op.rules or op.primitive:
        missing = names - set(op.rules)
        assert not missing, f"{op.name} has no rule for {sorted(missing)}; None says it has none"
        decided = any(rule is not None for rule in op.rules.values())
        assert decided, f"{op.name} has a gradient in no input: say differentiable=False"


@over([op for op in OURS.values() if op.primitive])
def test_primitive_says_why_no_body_can_replace_it(op):
    assert op.why.endswith("."), f'{op.name}: @op(..., primitive="a sentence that says why")'
    assert op.why != op.doc


def test_composites_give_no_reason():
    assert OPS["softmax"].why == ""


@over([op for op in OURS.values() if op.primitive])
def test_primitive_is_served(op):
    kernels = array_api.kernels(np)
    assert op.name in kernels, f"{op.name}: no kernel in array_api/{op.family}.py"
    assert as_device("cpu").backend.kernels_for(op.name)


@pytest.mark.each("name", array_api.kernels(np))
def test_generic_kernel_has_the_signature_of_its_op(name):
    validation.check_kernel(name, array_api.kernels(np)[name], "array_api")


@over(OURS.values())
def test_is_public_where_its_module_says_so(op):
    module = importlib.import_module(op.body.__module__)
    name = op.body.__name__
    if name not in module.__all__:
        # An op behind a public function, or inside other ops.
        assert name.startswith("_") or not hasattr(pb, name)
        return
    homes = [space for space in NAMESPACES if getattr(space, name, None) is op.function]
    assert homes, f"{name} is exported by none of {[space.__name__ for space in NAMESPACES]}"


def _modules():
    for info in pkgutil.walk_packages(pb.__path__, "pullback."):
        if not info.name.endswith("__main__"):
            yield info.name


#: Instructions that forget the stack, or that no trace sees.
FORGETTING = {
    *("BEFORE_ASYNC_WITH", "CHECK_EG_MATCH", "END_ASYNC_FOR", "GET_AITER", "GET_ANEXT"),
    *("IMPORT_STAR", "PREP_RERAISE_STAR", "INTERPRETER_EXIT", "ENTER_EXECUTOR", "RESERVED"),
    *("BUILD_INTERPOLATION", "EXTENDED_ARG"),
}


def test_each_instruction_of_this_python_is_in_the_table():
    known = {*instructions._STEPS, *instructions._PLAIN, *FORGETTING}
    names = {name for name, code in dis.opmap.items() if code < 255}
    assert sorted(n for n in names - known if not n.startswith("INSTRUMENTED_")) == []


@pytest.mark.each("name", sorted(instructions._PLAIN.keys() & dis.opmap.keys()))
def test_plain_instructions_take_and_give_what_python_says(name):
    code = dis.opmap[name]
    taken, given = instructions._PLAIN[name]
    argument = None if code < dis.HAVE_ARGUMENT else 0
    # Until 3.12 Python does not count what the first `next` sends.
    assert given - taken - (name == "RETURN_GENERATOR" and sys.version_info < (3, 13)) == (
        dis.stack_effect(code, argument, jump=False)
    )


@pytest.mark.each("name", list(_modules()))
def test_examples_of_module_run(name):
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    for test in finder.find(module, extraglobs={"pb": pb, "np": np}):
        if test.examples and test.name.rpartition(".")[2] not in OPS:
            run_examples(test)
