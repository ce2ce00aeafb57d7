"""The conformance of the CuPy backend: every op, sample and dtype (--quick: one dtype each)."""

from __future__ import annotations

import common


def main() -> None:
    given = common.arguments(__doc__)
    common.use_cupy()
    from pullback_conformance.runner import conform

    report = conform(given.device, quick=given.quick)
    failed: dict[str, list[str]] = {}
    for failure in report.failures:
        failed.setdefault(failure.op, []).append(
            f"{failure.check} [{failure.sample}, {failure.dtype}]: {failure.message}"
        )
    table = [f"{len(report.failures)} failures in {len(failed)} ops", ""]
    table += [f"- `{op}`, {len(found)}: {found[0][:300]}" for op, found in sorted(failed.items())]
    values = {"failures": failed, "table": table}
    common.finish(given, values, report.passed)


if __name__ == "__main__":
    main()
