"""The code that dispatch generates: its text, and that tracebacks show it.

The texts of five ops are kept in `snapshots/`, so that a change of the templates can be read as a
change of what they write. When one is meant:

    uv run pytest tests/dispatch/test_source.py --update-snapshots
"""

import linecache
import traceback
from pathlib import Path

import pytest

import pullback as pb
from pullback._codegen.source import Source, text_of, tuple_of
from pullback.spec import OPS

SNAPSHOTS = Path(__file__).parent / "snapshots"


def everything(function):
    """The text of an op's call, of its recording and of its vjp."""
    parts = [function.source.call, function.source.record, function.source.vjp]
    return "\n\n\n".join(part for part in parts if part) + "\n"


@pytest.mark.parametrize("name", ["add", "softmax", "concat", "full", "lstm"])
def test_the_text_is_that_of_the_snapshot(name, request):
    text, path = everything(OPS[name].function), SNAPSHOTS / f"{name}.txt"
    if request.config.getoption("--update-snapshots"):
        path.write_text(text)
    assert text == path.read_text(), (
        f"the code of {name} is not that of {path.name}; if it is meant to change: "
        f"pytest {Path(__file__).name} --update-snapshots"
    )


def test_it_is_what_is_printed_and_what_runs(define):
    @define()
    def doubled(x: "TensorLike", /):  # noqa: F821
        """Twice x."""
        return x + x

    before = str(doubled.source)
    assert repr(doubled.source) == doubled.source.call == before
    doubled(1.0)
    assert text_of(doubled) == before
    doubled.vjp(x=lambda g: g + g)
    assert str(doubled.source) != before
    assert "_OP.record" in doubled.source.call
    doubled(1.0)
    assert text_of(doubled) == doubled.source.call


def test_recording_and_vjp_are_shown_as_they_run():
    def run(x):
        return pb.tanh(x)

    pb.grad(run)(1.0)
    assert text_of(OPS["tanh"].record) == pb.tanh.source.record
    assert text_of(OPS["tanh"].vjp) == pb.tanh.source.vjp
    assert pb.concat.source.record == pb.concat.source.vjp == ""


def shown(error):
    return "".join(traceback.format_exception(error))


def test_tracebacks_show_the_line_of_a_call(define):
    @define()
    def unfinished(x: "TensorLike", /):  # noqa: F821
        """An op whose body fails."""
        raise RuntimeError("unfinished")

    with pytest.raises(pb.errors.BackendError) as caught:
        unfinished(pb.asarray([1.0]))
    assert "return _general(_OP, (x,), {})" in shown(caught.value)


def test_tracebacks_show_the_line_of_a_vjp(define):
    @define()
    def halved(x: "TensorLike", /):  # noqa: F821
        """Half of x."""
        return x / 2

    @halved.vjp("x")
    def rule(g):
        raise ValueError("no rule yet")

    with pytest.raises(ValueError, match="no rule yet") as caught:
        pb.grad(halved)(1.0)
    assert "r0 = _rule0(g)" in shown(caught.value)


def test_the_text_goes_with_the_code():
    source = Source("one", "")
    source.line("return 1")
    function = source.compile()
    file = function.__code__.co_filename
    assert file in linecache.cache
    del function
    assert file not in linecache.cache
    assert text_of(everything) == ""


def test_templates_lose_their_common_margin():
    source = Source("sign", "x")
    with source.block("if x:"):
        source.write("""
            if x < 0:
                return -1

            return 1
        """)
    source.line("return 0")
    assert [source.compile()(x) for x in (-2, 0, 2)] == [-1, 0, 1]
    assert tuple_of(["a"]) == "(a,)"
