"""`pullback backends --kernels OP`: the kernels of an op on each backend, in order of priority."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from pullback import errors, spec
from pullback.cli import table
from pullback.plugins.public import BackendInfo, registry
from pullback.plugins.records import declines, leaves_out_residuals
from pullback.plugins.validation import nearest


class Server(NamedTuple):
    """One row: a kernel of `source`, or the body of the op; `dtypes` is None for all of them."""

    backend: str
    source: str
    priority: int | None
    dtypes: Sequence[str] | None
    why: str
    used: bool
    #: The file and line of its code, where Python knows them.
    where: str = ""


def show(op_name: str, infos: list[BackendInfo], *, as_json: bool) -> int:
    """Prints the table; the exit status is 0 if any backend can run the op.

    Raises:
        InputValueError: for an unknown op.
    """
    op = spec.OPS.get(op_name)
    if op is None:
        raise errors.InputValueError(f"unknown op {op_name!r}{nearest(op_name)}")
    servers = [server for info in infos for server in _servers(op, info)]
    if as_json:
        print(json.dumps([server._asdict() for server in servers], indent=2))
    else:
        table.show(
            ["backend", "served by", "priority", "dtypes", "why"],
            [
                [
                    server.backend,
                    server.source or "nothing",
                    "-" if server.priority is None else str(server.priority),
                    "all" if server.dtypes is None else ", ".join(server.dtypes) or "-",
                    server.why + (f"; {server.where}" if server.where else ""),
                ]
                for server in servers
            ],
        )
    return 0 if any(server.used for server in servers) else 1


def location(kernel: object) -> str:
    """The file and line of a kernel; for compiled ones the name; of a partial its function.

    >>> location(len)
    'builtins.len'
    """
    while isinstance(kernel, partial):
        kernel = kernel.func
    kernel = inspect.unwrap(kernel) if callable(kernel) else kernel
    code = getattr(kernel, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    module = getattr(kernel, "__module__", None) or type(kernel).__module__
    return f"{module}.{getattr(kernel, '__name__', type(kernel).__name__)}"


def _servers(op: spec.Op, info: BackendInfo) -> Iterator[Server]:
    """Kernels by priority, then the body; after them, the packs that are not used."""
    if info.state != "ready":
        why = f"the backend cannot be used: {info.state}"
        yield Server(info.name, "", None, (), why, used=False)
        return
    taken: set[str] = set()
    all_taken_by = ""
    backend = registry.backend(info.name)
    for rank, offer in enumerate(backend.kernels_for(op.name)):
        dtypes = None if offer.dtypes is None else sorted(map(str, offer.dtypes))
        why = "its own kernel" if offer.source == info.name else "a kernel pack"
        used = False
        if all_taken_by:
            why += f", never reached: {all_taken_by} takes every dtype"
        elif dtypes is not None and taken.issuperset(dtypes):
            why += ", never reached: its dtypes are served"
        else:
            used = True
            why += ", for the remaining dtypes" if rank else ", of the highest priority"
        if declines(offer.kernel):
            why += "; may decline"
        if leaves_out_residuals(op, offer.kernel):
            why += "; leaves residuals out where nothing reads them"
        yield Server(
            info.name, offer.source, offer.priority, dtypes, why, used, location(offer.kernel)
        )
        if declines(offer.kernel):
            continue  # what comes after it is reached
        if dtypes is None:
            all_taken_by = all_taken_by or offer.source
        else:
            taken.update(dtypes)
    other = backend.fallback.get(op.name, "")
    if other:
        why = "a fallback: runs there, and moves the arrays there and back"
        if all_taken_by:
            why += f", never reached: {all_taken_by} takes every dtype"
        yield Server(info.name, other, None, None, why, used=not all_taken_by)
        all_taken_by = all_taken_by or other
    if not op.primitive:
        yield _body(op, info, all_taken_by)
    elif not (taken or all_taken_by):
        why = f"a primitive of the tier {op.tier} without a kernel"
        yield Server(info.name, "", None, (), why, used=False)
    for pack in info.packs:
        if pack.state != "ready":
            why = f"a kernel pack, not used: {pack.state}"
            # Its priority is in its module, which was not imported, or failed.
            yield Server(info.name, pack.name, None, (), why, used=False)


def _body(op: spec.Op, info: BackendInfo, all_taken_by: str) -> Server:
    why, used = "its body, made of other ops", True
    if all_taken_by and op.differentiable and not op.rules:
        why += f": while a tape records; else {all_taken_by} takes every dtype"
    elif all_taken_by:
        why += f", never reached: {all_taken_by} takes every dtype"
        used = False
    return Server(info.name, "decomposition", None, None, why, used, location(op.body))
