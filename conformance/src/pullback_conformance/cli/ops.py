"""`pullback ops`: the op specification on a terminal, for authors of backends."""

from __future__ import annotations

import argparse
import fnmatch
import inspect
import json
import textwrap
from typing import TYPE_CHECKING, Any

from pullback import errors
from pullback.cli import table
from pullback.plugins.public import ops_plugins
from pullback.plugins.validation import nearest
from pullback.spec import OPS, SPEC_VERSION, Op, Tier
from pullback_conformance.cli import contract

if TYPE_CHECKING:
    from pullback.cli.table import Subcommands

#: The columns that the label of a fact takes.
_LABEL = 12
_WIDTH = 100


def add(subcommands: Subcommands) -> None:
    """Adds the subcommand to those of the command line."""
    parser = subcommands.add_parser(
        "ops",
        help="list the ops of the specification, or show the contract of one",
        description="Lists the ops of the specification: tier, kind, class of accuracy, and the "
        "call of a kernel. With the name of an op, its whole contract: what a kernel gets and "
        "returns, dtypes, shapes, residuals and gradients; with --body its definition.",
    )
    parser.add_argument(
        "names",
        metavar="OP",
        nargs="*",
        help="an op, whose contract is shown, or a pattern such as 'conv*', which lists ops",
    )
    parser.add_argument(
        "--tier", metavar="TIER,...", default="", help=f"only these tiers of {', '.join(Tier)}"
    )
    parser.add_argument(
        "--primitives", action="store_true", help="only ops that every backend must have"
    )
    parser.add_argument(
        "--body",
        action="store_true",
        help="print the source of their bodies, with the functions of the same file that it calls",
    )
    parser.add_argument(
        "--json", action="store_true", help='print JSON: {"spec_version": ..., "ops": [...]}'
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the table, the contracts or the bodies; the exit status is 0."""
    ops_plugins()  # loads the plugins with ops of other packages
    ops = select(arguments.names, arguments.tier, primitives=arguments.primitives)
    whole = bool(arguments.names) and all(name in OPS for name in arguments.names)
    if arguments.json:
        records = [
            record(op) | ({"body": contract.body(op)} if arguments.body else {}) for op in ops
        ]
        print(json.dumps({"spec_version": SPEC_VERSION, "ops": records}, indent=2))
    elif arguments.body:
        print("\n\n\n".join(contract.body(op) for op in ops))
    elif whole:
        print("\n\n".join(show(op) for op in ops))
    else:
        table.show(
            ["op", "tier", "kind", "accuracy", "kernel"],
            [
                [
                    op.name,
                    op.tier,
                    "primitive" if op.primitive else "composite",
                    op.accuracy.name,
                    contract.kernel_signature(op),
                ]
                for op in ops
            ],
        )
        print(f"\n{len(ops)} ops; `pullback ops NAME` shows the contract of one, --body its source")
    return 0


def select(names: list[str], tiers: str, *, primitives: bool) -> list[Op]:
    """The ops that match any of the names, in the tiers.

    Raises:
        InputValueError: for a name or tier that is unknown, or if no op is left.
    """
    for name in names:
        if not fnmatch.filter(OPS, name):
            raise errors.InputValueError(f"unknown op {name!r}{nearest(name)}")
    wanted = [tier.strip() for tier in tiers.split(",") if tier.strip()]
    for tier in wanted:
        if tier not in set(Tier):
            raise errors.InputValueError(
                f"--tier must be any of {', '.join(Tier)}, with commas, got {tier!r}"
            )
    ops = [
        op
        for op in OPS.values()
        if (not names or any(fnmatch.fnmatch(op.name, name) for name in names))
        and (not wanted or op.tier in wanted)
        and (op.primitive or not primitives)
    ]
    if not ops:
        raise errors.InputValueError(
            "no op is left; leave out --tier or --primitives, which exclude all ops named"
        )
    return ops


def facts(op: Op) -> dict[str, str]:
    """The facts of the definition of an op, by label."""
    rows = {
        "kind": contract.kind(op),
        "why": op.why,
        "family": op.family,
        "dtypes": contract.dtype_rule(op),
        "shape": contract.shape_rule(op),
        "accuracy": contract.accuracy(op),
        "gradient": contract.gradient(op),
        "returns": ", ".join(op.outputs),
        "residuals": ", ".join(op.residuals),
        "definition": contract.definition(op),
    }
    return {label: contract.plain(text) for label, text in rows.items() if text}


def show(op: Op) -> str:
    """The contract of one op, as text.

    >>> print(show(OPS["softmax"]).splitlines()[0])
    softmax(x, *, axis)
    """
    lines = [contract.kernel_signature(op), ""]
    rows = facts(op)
    described = {**contract.input_lines(op), **contract.attribute_lines(op)}
    for label, text in rows.items():
        lines += _entry(label, text)
    lines += ["", "a kernel gets"]
    for name, text in described.items():
        lines += _entry(f"  {name}", text)
    doc = inspect.cleandoc(op.doc)
    lines += [
        "",
        f"call: {contract.call(op.name, op.body)}",
        *textwrap.indent(doc, "  ").splitlines(),
    ]
    return "\n".join(line.rstrip() for line in lines)


def _entry(label: str, text: str) -> list[str]:
    start = f"{label:<{_LABEL}}" if len(label) < _LABEL else f"{label}  "
    return textwrap.wrap(
        text, _WIDTH, initial_indent=start, subsequent_indent=" " * _LABEL, break_long_words=False
    ) or [start]


def record(op: Op) -> dict[str, Any]:
    """The contract of one op, for JSON."""
    return {
        "name": op.name,
        "tier": str(op.tier),
        "family": op.family,
        "primitive": op.primitive,
        "why": op.why,
        "public": op.public,
        "kernel": contract.kernel_signature(op),
        "inputs": contract.input_lines(op),
        "attributes": contract.attribute_lines(op),
        "outputs": list(op.outputs),
        "residuals": list(op.residuals),
        "accuracy": op.accuracy.name,
        "bound": op.accuracy.value,
        "dtypes": contract.plain(contract.dtype_rule(op)),
        "shape": contract.plain(contract.shape_rule(op)),
        "gradient": contract.plain(contract.gradient(op)),
        "differentiable": op.differentiable,
        "definition": contract.definition(op),
        "description": contract.first_line(op.body),
    }
