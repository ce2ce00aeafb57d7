"""`pullback ops`: the specification on a terminal."""

from __future__ import annotations

import ast
import json

import pytest

from pullback import cli
from pullback.spec import OPS
from pullback_conformance.cli import contract
from pullback_conformance.cli.ops import record, show


def listed(capsys, *arguments: str) -> list[str]:
    assert cli.main(["ops", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [line.split()[0] for line in lines[1 : lines.index("")]]


def test_lists_every_op_with_the_call_of_its_kernel(capsys):
    assert listed(capsys) == list(OPS)
    cli.main(["ops", "softm*"])
    rows = [line.split(maxsplit=4) for line in capsys.readouterr().out.splitlines()]
    assert ["softmax", "core", "composite", "ACCUMULATED", "softmax(x, *, axis)"] in rows


def test_primitives_of_a_tier(capsys):
    expected = [op.name for op in OPS.values() if op.primitive and op.tier == "fft"]
    assert listed(capsys, "--tier", "fft", "--primitives") == expected == ["fft"]


def test_the_contract_of_an_op_has_what_a_kernel_needs(capsys):
    assert cli.main(["ops", "layer_norm"]) == 0
    out = capsys.readouterr().out
    for words in (
        "layer_norm(x, scale, offset, *, axis, epsilon)",
        "residuals   center, spread",
        "ACCUMULATED",
        "real floating inputs",
        "scale     an array or None",
        "a sorted tuple of ints",
        "normalization.py:",
        "Ba et al., 2016",
    ):
        assert words in out


def test_several_contracts(capsys):
    assert cli.main(["ops", "add", "exp"]) == 0
    out = capsys.readouterr().out
    assert "add(x1, x2)" in out
    assert "No other op adds two numbers." in out
    assert "exp(x)" in out


def test_the_body_of_an_op_with_the_functions_of_its_file(capsys):
    assert cli.main(["ops", "xlogy", "--body"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"# {contract.definition(OPS['xlogy'])}\n@op(")
    body, *helpers = ast.parse(out).body
    assert body.name == "xlogy"
    assert helpers == []


@pytest.mark.parametrize(
    ("name", "functions"),
    [
        ("count_nonzero", ["count_nonzero"]),  # it calls ops alone
        ("layer_norm", ["layer_norm", "parameter_along", "affine"]),  # one calls the other
    ],
)
def test_helpers_come_after_the_body(name, functions):
    assert [part.name for part in ast.parse(contract.body(OPS[name])).body] == functions


@pytest.mark.each("op", OPS.values(), ids=lambda op: op.name)
def test_every_body_is_source(op):
    parts = ast.parse(contract.body(op)).body
    if op.primitive:
        assert parts == []
        assert op.why in contract.body(op)
    else:
        assert parts[0].name == op.body.__name__
        assert len({part.name for part in parts}) == len(parts)


def test_json_has_the_body_where_it_is_asked_for(capsys):
    for options, there in (([], False), (["--body"], True)):
        assert cli.main(["ops", "square", "--json", *options]) == 0
        (only,) = json.loads(capsys.readouterr().out)["ops"]
        assert ("body" in only) is there
    assert only["body"] == contract.body(OPS["square"])


def test_json_has_the_same(capsys):
    assert cli.main(["ops", "lstm", "--json"]) == 0
    only = json.loads(capsys.readouterr().out)["ops"]
    assert [op["residuals"] for op in only] == [["gates", "cells"]]
    assert only[0]["inputs"]["mask"] == "an array or None"
    assert cli.main(["ops", "--json"]) == 0
    everything = json.loads(capsys.readouterr().out)
    assert list(everything) == ["spec_version", "ops"]
    assert len(everything["ops"]) == len(OPS)


@pytest.mark.each("op", OPS.values(), ids=lambda op: op.name)
def test_every_contract_is_in_words(op):
    text = show(op)
    assert "`" not in text.partition("\ncall:")[0]
    assert record(op)["dtypes"]
    assert record(op)["shape"]
    for name in ("Axes", "ShapeLike", "Sizes", "Padding", "Key"):
        assert name not in record(op)["attributes"].values()


def test_annotations_without_quotes():
    assert contract.call("gelu", OPS["gelu"].body) == (
        "gelu(x: TensorLike, /, *, approximate: bool | Literal['none', 'tanh'] = False) -> Tensor"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["softmx"], "did you mean 'softmax'"),
        (["--tier", "special"], "--tier must be any of core, complex, linalg, fft"),
        (["softmax", "--primitives"], "leave out --tier or --primitives"),
    ],
)
def test_wrong_names_say_what_to_write(arguments, words, capsys):
    assert cli.main(["ops", *arguments]) == 1
    assert words in capsys.readouterr().err
