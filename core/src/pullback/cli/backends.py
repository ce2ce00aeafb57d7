"""`pullback backends`: what is installed, what can be used, and what to do about the rest."""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

from pullback import errors, spec
from pullback.checks import nearest
from pullback.cli import table
from pullback.plugins import BackendInfo, backends, registry
from pullback.registry import INSTALL


def add(subcommands: Any) -> None:
    """Adds the subcommand to those of the command line."""
    parser = subcommands.add_parser(
        "backends",
        help="list the backends, their devices, and why some cannot be used",
        description="Lists every backend that is installed: its version, its devices and its "
        "state, which is 'ready' or says why it cannot be used and what to do.",
    )
    parser.add_argument(
        "--kernels", metavar="OP", help="list who serves an op on each backend, in order"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the table; the exit status is 0 when at least one backend can be used."""
    with warnings.catch_warnings():
        # What a warning would say about a kernel pack is in the table.
        warnings.simplefilter("ignore", RuntimeWarning)
        found = backends()
    if arguments.kernels is not None:
        return _kernels(arguments.kernels, found, as_json=arguments.json)
    if arguments.json:
        packs = [[pack._asdict() for pack in info.packs] for info in found]
        rows = [{**info._asdict(), "packs": each} for info, each in zip(found, packs, strict=True)]
        print(json.dumps(rows, indent=2))
    elif not found:
        print(f"No backend is installed; {INSTALL}")
    else:
        table.show(
            ["backend", "version", "devices", "state"],
            [row for info in found for row in _rows(info)],
        )
    return 0 if any(info.state == "ready" for info in found) else 1


def _rows(info: BackendInfo) -> list[list[str]]:
    rows = [[info.name, info.version, ", ".join(info.devices) or "-", info.state]]
    for pack in info.packs:
        rows.append([f"  + {pack.name}", pack.version, "", pack.state])
    return rows


def _kernels(op_name: str, found: list[BackendInfo], *, as_json: bool) -> int:
    op = spec.OPS.get(op_name)
    if op is None:
        raise errors.InputValueError(f"there is no op {op_name!r}{nearest(op_name)}")
    rows: list[dict[str, Any]] = []
    for info in found:
        if info.state != "ready":
            continue
        for offer in registry.backend(info.name).offers(op_name):
            rows.append(
                {
                    "backend": info.name,
                    "source": offer.source,
                    "priority": offer.priority,
                    "dtypes": None if offer.dtypes is None else sorted(map(str, offer.dtypes)),
                }
            )
        if not op.primitive:
            rows.append(
                {"backend": info.name, "source": "decomposition", "priority": None, "dtypes": None}
            )
    if as_json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print(f"No backend serves {op_name}.")
    else:
        table.show(
            ["backend", "served by", "priority", "dtypes"],
            [
                [
                    row["backend"],
                    row["source"],
                    "-" if row["priority"] is None else str(row["priority"]),
                    "all" if row["dtypes"] is None else ", ".join(row["dtypes"]),
                ]
                for row in rows
            ],
        )
    return 0 if rows else 1
