"""`pullback conform NAME`: measures a backend against the op specification."""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pullback import errors
from pullback.cli import table
from pullback.cli.backends import add_packs, choose_packs
from pullback.devices import as_device
from pullback.plugins.public import registry
from pullback.spec import SPEC_VERSION, Tier
from pullback_conformance import saved
from pullback_conformance.cli import deviations, failures
from pullback_conformance.mode import Mode, seconds
from pullback_conformance.registry import BACKEND, Area
from pullback_conformance.report import Count, Report, Row, percent, total
from pullback_conformance.runner import InTurn, Measure, conform
from pullback_conformance.workers import TIMEOUT, Workers

if TYPE_CHECKING:
    from pullback.cli.table import Subcommands

#: The number of ops whose times are printed; JSON has all.
SLOWEST = 3
#: Titles of columns that are shorter than the name of the area.
TITLES = {Area.GRADIENTS: "grads", Area.SECOND: "2nd"}


def add(subcommands: Subcommands) -> None:
    """Adds the subcommand to those of the command line."""
    parser = subcommands.add_parser(
        "conform",
        help="measure a backend against the op specification",
        description="Measures a backend against the op specification: values, dtypes, gradients "
        "and edge cases of every op in the tiers and dtypes that it claims. The exit status is 0 "
        "only if nothing fails.",
    )
    parser.add_argument(
        "name", metavar="NAME", nargs="?", default="", help="a backend, or one of its devices"
    )
    parser.add_argument(
        "--communicator",
        metavar="NAME",
        help='a communicator in place of a backend, on ranks that mpiexec starts; "threads" for '
        "ranks that are threads",
    )
    parser.add_argument(
        "-n", dest="ranks", metavar="N", type=int, default=2, help="the number of ranks; 2"
    )
    parser.add_argument(
        "--ops",
        metavar="GLOB,...",
        default="",
        help="only these ops, such as softmax or 'conv*'; backend for its other services",
    )
    parser.add_argument(
        "--quick", action="store_true", help="each sample in one dtype, and few gradients"
    )
    add_packs(parser)
    parser.add_argument(
        "--json", metavar="FILE", help="write the whole report as JSON; - prints nothing else"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the report in the file of --json: ops in it are not run again",
    )
    parser.add_argument(
        "--failed",
        action="store_true",
        help="run the ops that failed in the file of --json again, and keep the others",
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=int,
        help="measure in N processes of their own; 1 by default for an installed backend",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        help=f"the time that one check may take, {TIMEOUT:.0f} by default; 0 for any time, and "
        f"without --jobs in this process, for a debugger",
    )
    parser.add_argument(
        "--only", metavar="CHECK,...", default="", help="only these checks, such as value"
    )
    parser.add_argument(
        "--without", metavar="CHECK,...", default="", help="without these, such as compiled"
    )
    parser.add_argument(
        "--budget", metavar="TIME", help="a random sample of the checks, for 60s or 5m"
    )
    parser.add_argument(
        "--random", metavar="N", type=int, help="N random calls of each op, not the samples"
    )
    parser.add_argument(
        "--seed", metavar="S", type=int, help="of --budget and --random; drawn and shown without"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measures and prints; the exit status is 0 if the backend passes all checks.

    Raises:
        InputValueError: if the file of --json cannot be used.
    """
    choose_packs(arguments.packs)
    if arguments.communicator:
        from pullback_conformance.cli import communicators

        return communicators.run(arguments.communicator, arguments.ranks, arguments.name or "cpu")
    if not arguments.name:
        raise errors.InputValueError(
            "conform needs the name of a backend, or --communicator NAME -n 2"
        )
    silent, path = arguments.json == "-", None
    if arguments.json is not None and not silent:
        path = Path(arguments.json)
    goes_on = arguments.resume or arguments.failed
    if goes_on and path is None:
        raise errors.InputValueError("--resume and --failed need the report: add --json FILE")
    before = saved.read(path) if goes_on and path is not None else {}
    mode = _mode(arguments, before)
    failed = saved.failed_ops(before) if arguments.failed else []
    left = saved.left_ops(before)
    if arguments.failed and not failed:
        fix = f"{len(left)} were not run: --resume goes on with them" if left else "leave it out"
        raise errors.InputValueError(f"--failed: no op has failed in {path}; {fix}")

    def start(report: Report) -> None:
        saved.restore(report, before, before.get("ops", ()))
        again = (name for name in (*failed, *left) if report.claims(name))
        report.left.update(again)
        if not silent:
            known = len(report.rows.keys() - report.left)
            kept = f", {known} ops from {path}" if known else ""
            title = report.mode.title
            print(f"{report.name} on {report.device}: {title} conformance{kept}", flush=True)

    def done(report: Report, row: Row) -> None:
        if path is not None:
            saved.write(report, path)
        if not silent and not sys.stderr.isatty():
            ops = len(report.rows.keys() | report.left)
            score = f"{row.count} checks, {percent(row.count)}, {row.seconds:.1f} s"
            host = ", on the host" if row.on_host else ""
            print(f"[{ops - len(report.left)}/{ops}] {row.name}: {score}{host}", flush=True)

    report = conform(
        arguments.name,
        ops=failed or arguments.ops.split(","),
        mode=mode,
        by=_measure(arguments),
        progress=_progress,
        done=done,
        start=start,
    )
    if path is not None and not (report.stopped and before):
        saved.write(report, path)
    if silent:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        print()
        show(report)
    return 0 if report.passed else 1


def _measure(arguments: argparse.Namespace) -> Measure:
    """Workers, which alone can end a check; this process for a backend that is not installed."""
    jobs, timeout = arguments.jobs, arguments.timeout
    if jobs is None and not timeout:
        name = as_device(arguments.name).backend.name
        if timeout is not None or name in registry.names(manual=True):
            return InTurn()
    return Workers(1 if jobs is None else jobs, TIMEOUT if timeout is None else timeout)


def _mode(arguments: argparse.Namespace, before: dict[str, Any]) -> Mode:
    """The mode that the arguments choose; a report that goes on keeps its seed.

    Raises:
        InputValueError: for a number that cannot be used.
    """
    if arguments.random is not None and arguments.random < 1:
        raise errors.InputValueError(f"--random must be at least 1, got {arguments.random}")
    if arguments.seed is not None and arguments.seed < 0:
        raise errors.InputValueError(f"--seed must be at least 0, got {arguments.seed}")
    budget = seconds(arguments.budget) if arguments.budget else 0.0
    if budget and (arguments.resume or arguments.failed):
        raise errors.InputValueError("--budget takes a sample: leave out --resume and --failed")
    drawn = bool(arguments.random or budget)
    seed = 0
    if drawn:
        seed = before.get("seed", random.randrange(2**31))
        seed = seed if arguments.seed is None else arguments.seed
    elif arguments.seed is not None:
        raise errors.InputValueError("--seed is for --random and --budget: add one of them")
    return Mode(
        *(arguments.quick, arguments.random or 0, budget, seed, arguments.packs),
        *(arguments.only, arguments.without),
    )


def show(report: Report) -> None:
    """Prints the tables, the score, and the failures."""
    print(
        f"{report.name} {report.version} on {report.device}: {report.mode.title} conformance "
        f"to version {SPEC_VERSION} of the op specification"
    )
    print(f"dtypes: {', '.join(report.dtypes)}")
    if report.packs:
        print(f"kernel packs: {', '.join(report.packs)}")
    print()
    if report.stopped:
        print("Stopped before the first op, because the basics do not work yet:\n")
        print(f"  {report.stopped}\n")
        print("Every check needs from_host, to_host and add. Fix this first, and run it again.")
        return
    _show_families(report)
    print()
    _show_tiers(report)
    for why in report.left_out:
        print(f"\nA kernel is left out: {why}")
    for line in failures.lines(report):
        print(line)
    for line in deviations.lines(report):
        print(line)
    _show_notes(report)
    slow = sorted(report.rows.values(), key=lambda row: -row.seconds)[:SLOWEST]
    times = ", ".join(f"{row.name} {row.seconds:.1f} s" for row in slow)
    print(f"\nslowest: {times}")
    if report.incomplete:
        print("\nStopped before the last op; --resume with --json FILE goes on from there.")
    seconds_ = f"{report.seconds:.0f} s"
    count = report.count
    whole = percent(Count(count.passed, count.total))
    if report.mode.budget:
        seconds_ += f", a random sample (--seed {report.mode.seed})"
    apart = f", and {count.declared} fail as declared" if count.declared else ""
    print(f"\nscore: {whole} of {count.total} checks in {seconds_}{apart}")


def _show_families(report: Report) -> None:
    rows = [
        [
            name,
            f"{sum(row.kernel for row in family)}/{len(family)}",
            str(sum(row.missing for row in family) or "-"),
            *(str(total(row.counts[area] for row in family)) for area in Area),
            percent(total(row.count for row in family)),
        ]
        for name, family in report.families().items()
    ]
    areas = [TITLES.get(area, area) for area in Area]
    # "lack" for the primitives that have no kernel: the table has to fit 80 columns.
    table.show(["family", "kernels", "lack", *areas, "score"], rows)


def _show_tiers(report: Report) -> None:
    rows = []
    for tier in Tier:
        ops = report.of(tier)
        if tier not in report.tiers:
            rows.append([tier, "-", "-", "not claimed"])
            continue
        primitives = [row for row in ops if row.primitive]
        served = sum(row.kernel for row in primitives)
        count = total(row.count for row in ops)
        rows.append([tier, f"{served}/{len(primitives)}", str(count), percent(count)])
    if services := report.of(None):
        count = total(row.count for row in services)
        rows.append([BACKEND, "-", str(count), percent(count)])
    rows.append(["total", "", str(report.count), percent(report.count)])
    table.show(["tier", "primitives", "checks", "score"], rows)


def _show_notes(report: Report) -> None:
    beyond: dict[str, list[str]] = {}
    for name, row in report.rows.items():
        for tier in sorted(row.beyond):
            beyond.setdefault(tier, []).append(name)
    for tier, names in beyond.items():
        print(f"\nNot counted where they need the tier {tier}, not claimed: {failures.some(names)}")
    if report.fallbacks():
        names = [f"{name} ({device})" for name, device in report.fallbacks().items()]
        print(f"\nNot kernels of its own, but a fallback to another device: {', '.join(names)}")
    if names := report.on_host():
        print(f"\nComputed on the host, some calls at least: {', '.join(names)}")
    if report.unknown:
        print(f"\nWithout samples, so nothing is known of them: {failures.some(report.unknown)}")
    if report.unmeasured():
        print("\nNot measured:")
        for line in report.unmeasured():
            print(f"  {line}")


def _progress(rows: Iterator[str], count: int) -> Iterable[str]:
    """Shows the progress of the run, on a terminal."""
    from tqdm import tqdm

    bar = tqdm(rows, total=count, unit="op", disable=not sys.stderr.isatty(), leave=False)
    for row in bar:
        bar.set_postfix_str(row)
        yield row
