"""Finds plugins by their entry points, and calls the hook of one plugin.

pluggy's own loader stops at the first plugin that fails, so each plugin is loaded alone, in a
manager of its own, and whatever it raises becomes a `BackendError` that names it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pullback import errors, spec
from pullback.plugins.hookspecs import PROJECT, manager
from pullback.plugins.validation import check_spec_version

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def entry_points() -> list[EntryPoint]:
    """Every entry point of the groups `pullback.*`; damaged metadata of one package is skipped."""
    # Costs 20 ms to import, so not before the first tensor.
    from importlib import metadata

    entries: list[EntryPoint] = []
    seen: set[str] = set()
    for distribution in metadata.distributions():
        with contextlib.suppress(Exception):
            if f"{PROJECT}." not in (distribution.read_text("entry_points.txt") or ""):
                continue
            # The first on the path wins, as in an import; a package may be found twice.
            name = distribution.name.lower().replace("-", "_").replace(".", "_")
            if name not in seen:
                seen.add(name)
                points = distribution.entry_points
                entries.extend(entry for entry in points if entry.group.startswith(f"{PROJECT}."))
    return entries


def origin(entries: Sequence[EntryPoint]) -> tuple[str, str]:
    """The name and version of the distribution of `entries`; empty for none or several."""
    owners = {(entry.dist.name, entry.dist.version) for entry in entries if entry.dist is not None}
    return owners.pop() if len(owners) == 1 else ("", "")


def plugin_label(role: str, name: str, entries: Sequence[EntryPoint]) -> str:
    """The name of a plugin in messages, such as "the backend 'numpy' (pullback-numpy 0.1)"."""
    distribution = " ".join(origin(entries)).strip()
    return f"the {role} {name!r}" + (f" ({distribution})" if distribution else "")


@contextlib.contextmanager
def blame_plugin(plugin: str, entries: Sequence[EntryPoint]) -> Iterator[None]:
    """Turns whatever a plugin raises into a BackendError that names the plugin and the fix."""
    try:
        yield
    except (errors.BackendError, KeyboardInterrupt):
        raise
    # SystemExit and a BaseException of its own too: a plugin must not end the process.
    except BaseException as error:
        raise errors.BackendError(
            f"{plugin} failed: {one_line(error)}{_location(error, entries)}{_fix(entries)}"
        ) from error


def _fix(entries: Sequence[EntryPoint]) -> str:
    """The end of a message, for the author of a plugin or for its users."""
    name = origin(entries)[0]
    if not name:
        return ""
    source = _source(entries[0])
    if source:
        return f"; mend it in {source}, from where it is installed"
    return f"; reinstall it (pip install --force-reinstall {name}) or uninstall it"


def _source(entry: EntryPoint) -> str:
    """The folder of a distribution that was installed with `pip install -e`; empty for others."""
    try:
        text = entry.dist.read_text("direct_url.json") if entry.dist is not None else None
        about = json.loads(text or "{}")
        editable = about.get("dir_info", {}).get("editable")
        return str(about["url"]).removeprefix("file://") if editable else ""
    except (OSError, ValueError, KeyError, AttributeError):
        return ""


def _location(error: BaseException, entries: Sequence[EntryPoint]) -> str:
    """The file and line where a plugin raised; empty for errors of Python's import itself.

    It is the last line of the plugin's own code: what it called cannot be mended by its author.
    """
    location, in_plugin = "", False
    modules = {entry.value.strip().partition(":")[0].partition(".")[0] for entry in entries}
    step = error.__traceback__ and error.__traceback__.tb_next
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        own = str(step.tb_frame.f_globals.get("__name__")).partition(".")[0] in modules
        if not name.startswith("<") and own >= in_plugin:
            location, in_plugin = f" ({os.path.basename(name)}, line {step.tb_lineno})", own
        step = step.tb_next
    return location


def load(entries: Sequence[EntryPoint], plugin: str) -> object:
    """Imports the object that the entries of one name point to.

    Raises:
        PluginError: when they belong to different distributions or point to different objects.
    """
    values = {entry.value.replace(" ", "") for entry in entries}
    owners = sorted({origin([entry]) for entry in entries})
    if len(owners) > 1:
        packages = " and ".join(map(" ".join, owners))
        commands = " or ".join(f"pip uninstall {name}" for name, _ in owners)
        raise errors.PluginError(
            f"{plugin}: several packages provide it: {packages}; uninstall one of them: {commands}"
        )
    if len(values) > 1:
        raise errors.PluginError(
            f"{plugin}: its entry points name different objects, {' and '.join(sorted(values))}; "
            f"make all of them name the same object"
        )
    loaded: object = entries[0].load()
    return loaded


def call(
    loaded: object,
    hook: str,
    register: Callable[..., None],
    plugin: str,
    entries: Sequence[EntryPoint],
) -> None:
    """Calls one hook of a loaded plugin with `register`.

    Raises:
        PluginError: when it needs another op specification or does not implement the hook.
    """
    version = getattr(loaded, "spec_version", spec.SPEC_VERSION)
    check_spec_version(version, plugin, origin(entries)[0])
    plugins = manager()
    plugins.register(loaded, plugin)
    caller = getattr(plugins.hook, hook)
    if not caller.get_hookimpls():
        unmarked = callable(getattr(loaded, hook, None))
        raise errors.PluginError(
            f"{plugin}: {hook} is not marked as a hook; decorate it with @pullback.hookimpl"
            if unmarked
            else f"{plugin} has no hook {hook}(register); define it, with @pullback.hookimpl"
        )
    plugins.check_pending()
    caller(register=register)


def one_line(error: BaseException, *, named: bool = True) -> str:
    """An exception in one line, with or without the name of its type."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # __str__ of a plugin's own exception type may raise
        text = ""
    name = type(error).__name__
    return f"{name}: {text}" if text and named else text or name
