"""`pullback backends`: the installed backends, and why some cannot be used."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pullback.cli import kernels, table
from pullback.plugins.public import BackendInfo, OpsInfo, backends, ops_plugins, use_kernel_packs
from pullback.plugins.registry import INSTALL

if TYPE_CHECKING:
    from pullback.cli.table import Subcommands
    from pullback.plugins.kernel_packs import PackInfo

#: The number of left-out kernels that are listed of a backend; JSON has all of them.
SHOWN = 5


def add(subcommands: Subcommands) -> None:
    """Adds the subcommand to those of the command line."""
    parser = subcommands.add_parser(
        "backends",
        help="list the backends, their devices, and why some cannot be used",
        description="Lists every backend that is installed: its version, its devices and its "
        "state, which is 'ready' or says why it cannot be used and what to do. Below each are "
        "its kernel packs, and its kernels that cannot be used; last the plugins with ops.",
    )
    parser.add_argument(
        "--kernels",
        metavar="OP",
        help="list the kernels of an op on each backend, in the order of their priority",
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
    """Applies `--packs`."""
    if names is not None:
        use_kernel_packs([name.strip() for name in names.split(",") if name.strip()])


def run(arguments: argparse.Namespace) -> int:
    """Prints the table; the exit status is 0 when at least one backend can be used."""
    with warnings.catch_warnings():
        # Warnings about plugins are in the table.
        warnings.simplefilter("ignore", RuntimeWarning)
        choose_packs(arguments.packs)
        infos, ops = backends(), ops_plugins()
    if arguments.kernels is not None:
        return kernels.show(arguments.kernels, infos, as_json=arguments.json)
    if arguments.json:
        everything = {"backends": [_record(info) for info in infos], "ops": _all(ops)}
        print(json.dumps(everything, indent=2))
    elif not infos and not ops:
        print(f"No backend is installed; {INSTALL}")
    else:
        rows = [row for info in infos for row in _rows(info)]
        rows += [[f"ops: {plugin.name}", plugin.version, "-", _ops(plugin)] for plugin in ops]
        table.show(["backend", "version", "devices", "state"], rows)
    return 0 if any(info.state == "ready" for info in infos) else 1


def _record(info: BackendInfo) -> dict[str, Any]:
    return {**info._asdict(), "packs": _all(info.packs)}


def _all(plugins: Iterable[PackInfo | OpsInfo]) -> list[dict[str, Any]]:
    return [plugin._asdict() for plugin in plugins]


def _rows(info: BackendInfo) -> Iterator[list[str]]:
    yield [info.name, info.version, ", ".join(info.devices) or "-", info.state]
    for pack in info.packs:
        yield [f"  + {pack.name}", pack.version, "", pack.state]
        yield from _left_out(pack.left_out, "    ")
    yield from _left_out(info.left_out, "  ")


def _left_out(reasons: Sequence[str], indent: str) -> Iterator[list[str]]:
    for why in reasons[:SHOWN]:
        yield [f"{indent}- kernel", "", "", f"left out: {why}"]
    if len(reasons) > SHOWN:
        yield [f"{indent}- kernels", "", "", f"left out: {len(reasons) - SHOWN} more (--json)"]


def _ops(info: OpsInfo) -> str:
    return f"ready: {', '.join(info.ops) or 'none'}" if info.state == "ready" else info.state
