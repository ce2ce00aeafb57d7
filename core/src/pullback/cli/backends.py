"""`pullback backends`: what is installed, what can be used, and what to do about the rest."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from typing import Any

from pullback.cli import kernels, table
from pullback.plugins.public import BackendInfo, OpsInfo, backends, ops_plugins, use_kernel_packs
from pullback.plugins.registry import INSTALL

#: So many kernels that are left out are listed of a backend; JSON has all of them.
SHOWN = 5


def add(subcommands: Any) -> None:
    """Adds the subcommand to those of the command line."""
    parser = subcommands.add_parser(
        "backends",
        help="list the backends, their devices, and why some cannot be used",
        description="Lists every backend that is installed: its version, its devices and its "
        "state, which is 'ready' or says why it cannot be used and what to do. Below each stand "
        "its kernel packs, and its kernels that cannot be used; last the plugins that bring ops.",
    )
    parser.add_argument(
        "--kernels", metavar="OP", help="list who serves an op on each backend, in order, and why"
    )
    add_packs(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def add_packs(parser: argparse.ArgumentParser) -> None:
    """Adds the choice of kernel packs to the arguments of a subcommand."""
    parser.add_argument(
        "--packs",
        metavar="NAME,...",
        help="use these kernel packs only; '' for none (in place of PULLBACK_KERNEL_PACKS)",
    )


def choose_packs(names: str | None) -> None:
    """Does what `--packs` says."""
    if names is not None:
        use_kernel_packs([name.strip() for name in names.split(",") if name.strip()])


def run(arguments: argparse.Namespace) -> int:
    """Prints the table; the exit status is 0 when at least one backend can be used."""
    with warnings.catch_warnings():
        # What a warning would say about a plugin is in the table.
        warnings.simplefilter("ignore", RuntimeWarning)
        choose_packs(arguments.packs)
        found, ops = backends(), ops_plugins()
    if arguments.kernels is not None:
        return kernels.show(arguments.kernels, found, as_json=arguments.json)
    if arguments.json:
        everything = {"backends": [_record(info) for info in found], "ops": _all(ops)}
        print(json.dumps(everything, indent=2))
    elif not found and not ops:
        print(f"No backend is installed; {INSTALL}")
    else:
        rows = [row for info in found for row in _rows(info)]
        rows += [[f"ops: {one.name}", one.version, "-", _ops(one)] for one in ops]
        table.show(["backend", "version", "devices", "state"], rows)
    return 0 if any(info.state == "ready" for info in found) else 1


def _record(info: BackendInfo) -> dict[str, Any]:
    return {**info._asdict(), "packs": _all(info.packs)}


def _all(found: Any) -> list[dict[str, Any]]:
    return [one._asdict() for one in found]


def _rows(info: BackendInfo) -> Iterator[list[str]]:
    yield [info.name, info.version, ", ".join(info.devices) or "-", info.state]
    for pack in info.packs:
        yield [f"  + {pack.name}", pack.version, "", pack.state]
    for why in info.left_out[:SHOWN]:
        yield ["  - kernel", "", "", f"left out: {why}"]
    if len(info.left_out) > SHOWN:
        yield ["  - kernels", "", "", f"left out: {len(info.left_out) - SHOWN} more (--json)"]


def _ops(info: OpsInfo) -> str:
    return f"ready: {', '.join(info.ops) or 'none'}" if info.state == "ready" else info.state
