"""Discovery of plugins: which are loaded, which are rejected, and the messages."""

from __future__ import annotations

import copy
import functools
import json
import operator
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pullback
from pullback import dtypes, errors, spec
from pullback.plugins import kernel_packs
from pullback.plugins.backend import Backend
from pullback.plugins.hookspecs import hookimpl
from pullback.plugins.registry import BackendInfo, Registry

CORE = Path(__file__).parents[2] / "core" / "src"
NEWER = f"{int(spec.SPEC_VERSION.partition('.')[0]) + 1}.0"


def entry(group: str, name: str, plugin: object, dist: str = "some-dist", value: str = "module"):
    """A stand-in for an entry point; `plugin` is what it points to, or an exception to raise."""

    def load() -> object:
        loads.append(name)
        if isinstance(plugin, BaseException):
            raise plugin
        return plugin

    loads: list[str] = []
    return SimpleNamespace(
        group=f"pullback.{group}", name=name, value=value, load=load, loads=loads,
        dist=SimpleNamespace(name=dist, version="1.5"),
    )  # fmt: skip


def backend_class(name: str, **attributes: object) -> type[Backend]:
    return type(f"{name.title()}Backend", (Backend,), {"name": name, **attributes})


def plugin(*backends: object, **attributes: object) -> SimpleNamespace:
    """A plugin object whose hook registers `backends`."""

    @hookimpl
    def pullback_register_backend(register):
        for backend in backends:
            register(backend)

    return SimpleNamespace(pullback_register_backend=pullback_register_backend, **attributes)


def pack(*kernels: tuple, **attributes: object) -> SimpleNamespace:
    @hookimpl
    def pullback_register_kernels(register):
        for op_name, kernel, *dtypes_ in kernels:
            register(op_name, kernel, **({"dtypes": dtypes_[0]} if dtypes_ else {}))

    return SimpleNamespace(pullback_register_kernels=pullback_register_kernels, **attributes)


def registry(*entries: object) -> Registry:
    return Registry(lambda: entries)


def made(name: str, **attributes: object) -> SimpleNamespace:
    """The entry of a CPU backend that works."""
    return entry("backends.cpu", name, plugin(backend_class(name, **attributes)()))


def define(monkeypatch: pytest.MonkeyPatch, name: str, inputs: tuple, attributes: tuple = ()):
    """Adds an op to the specification for one test."""
    op = copy.copy(spec.OPS["add"])
    op.name = name
    op.inputs = tuple(spec.Input(one, spec.Arity.ONE) for one in inputs)
    op.attributes = tuple(spec.Attribute(one, "int", True) for one in attributes)
    op.function = functools.partial(operator.add)
    monkeypatch.setitem(spec.OPS, name, op)
    return op


@pytest.fixture
def ops(monkeypatch: pytest.MonkeyPatch) -> None:
    define(monkeypatch, "fake_add", ("x1", "x2"))
    define(monkeypatch, "fake_sum", ("x",), ("axis", "keepdims"))


class TestBackends:
    def test_is_loaded_by_name_and_once(self):
        one, other = made("one"), made("other")
        plugins = registry(one, other)
        assert plugins.names() == ["one", "other"]
        assert not one.loads
        assert plugins.backend("one").name == "one"
        assert plugins.backend("one") is plugins.backend("one")
        assert (one.loads, other.loads) == (["one"], [])

    def test_unknown_names_what_there_is(self):
        with pytest.raises(errors.BackendNotFoundError, match=r"no backend is named 'three'.*one"):
            registry(made("one")).backend("three")

    def test_none_installed_says_what_to_install(self):
        with pytest.raises(errors.BackendNotFoundError, match="pip install"):
            registry().backend("one")
        with pytest.raises(errors.BackendNotFoundError, match="pip install"):
            registry().plain("cpu")

    def test_one_package_may_list_a_backend_for_both_kinds(self):
        both = plugin(backend_class("both", kinds=("cpu", "gpu"))())
        plugins = registry(entry("backends.cpu", "both", both), entry("backends.gpu", "both", both))
        assert plugins.names("gpu") == plugins.names("cpu") == ["both"]
        assert plugins.backend("both").kinds == ("cpu", "gpu")

    def test_two_packages_with_one_name(self):
        plugins = registry(
            entry("backends.cpu", "one", plugin(), dist="first"),
            entry("backends.cpu", "one", plugin(), dist="second"),
            made("other"),
        )
        message = (
            r"^the backend 'one': several packages provide it: first 1.5 and second 1.5; "
            r"uninstall one of them: pip uninstall first or pip uninstall second$"
        )
        with pytest.raises(errors.PluginError, match=message):
            plugins.backend("one")
        assert plugins.backend("other")
        assert [info[:3] for info in plugins.info()] == [
            ("one", "", ""),
            ("other", "some-dist", "1.5"),
        ]

    def test_ctrl_c_while_one_is_imported_is_no_failure_of_it(self):
        interrupted = made("one")
        works = interrupted.load
        interrupted.load = entry("backends.cpu", "one", KeyboardInterrupt()).load
        plugins = registry(interrupted)
        with pytest.raises(KeyboardInterrupt):
            plugins.backend("one")
        interrupted.load = works
        assert plugins.backend("one")

    def test_entries_of_one_package_that_differ(self):
        plugins = registry(
            entry("backends.cpu", "one", plugin(), value="a"),
            entry("backends.gpu", "one", plugin(), value="b"),
        )
        with pytest.raises(errors.PluginError, match="a and b"):
            plugins.backend("one")

    @pytest.mark.parametrize(
        "failure",
        [ImportError("no libfoo.so"), RuntimeError("bad"), SystemExit(3), BaseException("own")],
    )
    def test_one_that_fails_takes_nothing_else_down(self, failure):
        broken = entry("backends.cpu", "broken", failure, dist="broken-dist")
        plugins = registry(broken, made("one"))
        for _ in range(2):
            with pytest.raises(errors.BackendError, match="broken-dist") as caught:
                plugins.backend("broken")
            assert caught.value.__cause__ is failure
        assert broken.loads == ["broken"]
        assert plugins.backend("one")
        assert [(info.name, info.state == "ready") for info in plugins.info()] == [
            ("broken", False),
            ("one", True),
        ]

    def test_a_hook_that_raises(self):
        @hookimpl
        def pullback_register_backend(register):
            raise ZeroDivisionError("in the hook")

        broken = SimpleNamespace(pullback_register_backend=pullback_register_backend)
        with pytest.raises(errors.BackendError, match="ZeroDivisionError: in the hook"):
            registry(entry("backends.cpu", "broken", broken)).backend("broken")

    def test_a_hook_interrupted_can_be_loaded_again(self):
        one = made("one")
        interrupted = iter([KeyboardInterrupt()])
        load = one.load

        def load_late():
            for error in interrupted:
                raise error
            return load()

        one.load = load_late
        plugins = registry(one)
        with pytest.raises(KeyboardInterrupt):
            plugins.backend("one")
        assert plugins.backend("one")

    def test_without_a_driver(self):
        unusable = made("gone", unusable=lambda self: "no driver; install one from the vendor")
        plugins = registry(unusable, made("one"))
        with pytest.raises(errors.BackendError, match="install one from the vendor"):
            plugins.backend("gone")
        info = plugins.info()[0]
        assert "install one from the vendor" in info.state
        assert info.devices == ()

    def test_without_a_device(self):
        with pytest.raises(errors.BackendError, match="found no cpu"):
            registry(made("none", device_count=lambda self, kind: 0)).backend("none")

    def test_that_fails_while_counting(self):
        broken = made("none", device_count=lambda self, kind: 1 // 0)
        with pytest.raises(errors.BackendError, match="ZeroDivisionError"):
            registry(broken).backend("none")

    @pytest.mark.parametrize(
        ("registered", "message"),
        [
            ([], r"must call register\(backend\)"),
            ([backend_class("one")], "an instance of"),
            (["one"], "an instance of"),
            ([backend_class("two")()], "named 'one' and the backend 'two'"),
            ([backend_class("")()], "is not a valid backend name"),
            ([backend_class("cpu")()], "is not a valid backend name"),
            ([backend_class("a:b")()], "is not a valid backend name"),
            ([backend_class("one")(), backend_class("one")()], "more than one"),
            ([backend_class("one", spec_version=NEWER)()], "upgrade"),
            ([backend_class("one", spec_version=1)()], "must be a string 'major.minor'"),
            ([backend_class("one", kinds="cpu")()], "a tuple"),
            ([backend_class("one", kinds=("tpu",))()], "a tuple"),
            ([backend_class("one", __init__=lambda self: None)()], "super"),
            ([backend_class("one", dtypes={"float32": 1})()], "public dtypes such as pullback.flo"),
            (
                [backend_class("one", dtypes={dtypes.int32: "i", dtypes.int64: "i"})()],
                "maps both int32 and int64 to i; leave out",
            ),
        ],
    )
    def test_registrations_that_are_refused(self, registered, message):
        plugins = registry(entry("backends.cpu", "one", plugin(*registered)))
        with pytest.raises(errors.PluginError, match=message) as caught:
            plugins.backend("one")
        assert "some-dist" in str(caught.value)

    def test_a_plugin_for_a_newer_spec_is_not_asked(self):
        newer = plugin(backend_class("one")(), spec_version=NEWER)
        with pytest.raises(errors.PluginError, match=f"version {NEWER}"):
            registry(entry("backends.cpu", "one", newer)).backend("one")

    def test_hooks_that_are_missing_or_not_marked(self):
        with pytest.raises(errors.PluginError, match="has no hook"):
            registry(entry("backends.cpu", "one", SimpleNamespace())).backend("one")
        unmarked = SimpleNamespace(pullback_register_backend=lambda register: None)
        with pytest.raises(errors.PluginError, match="hookimpl"):
            registry(entry("backends.cpu", "one", unmarked)).backend("one")

    def test_asked_for_while_loading(self):
        plugins = registry(one := made("one"))
        load = one.load
        one.load = lambda: plugins.backend("one") and load()
        with pytest.raises(errors.BackendError, match="while it is being loaded"):
            plugins.backend("one")

    def test_loading_may_ask_for_another(self):
        plugins = registry(one := made("one"), made("other"))
        load = one.load
        one.load = lambda: plugins.backend("other") and load()
        assert plugins.backend("one").name == "one"

    def test_threads_load_once(self):
        plugins = registry(one := made("one"))
        found: list[Backend] = []
        threads = [
            threading.Thread(target=lambda: found.append(plugins.backend("one"))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert len(set(map(id, found))) == 1
        assert one.loads == ["one"]

    def test_metadata_that_cannot_be_read_is_reported(self):
        def scan():
            raise OSError("disk")

        (info,) = Registry(scan).info()
        assert "disk" in info.state

    def test_info(self):
        plugins = registry(made("one", version="7"), entry("default.cpu", "one", None), made("two"))
        assert plugins.info() == [
            BackendInfo("one", "some-dist", "7", ("cpu",), ("cpu:0",), "ready", ()),
            BackendInfo("two", "some-dist", "1.5", ("cpu",), ("two:cpu:0",), "ready", ()),
        ]


class TestPlainKinds:
    def test_belong_to_the_owner_without_loading_others(self):
        other = made("another")
        plugins = registry(other, made("one"), entry("default.cpu", "one", None))
        assert plugins.plain("cpu").name == "one"
        assert not other.loads
        assert plugins.names() == ["one", "another"]

    def test_fall_to_the_only_one_there_is(self):
        assert registry(made("one")).plain("cpu").name == "one"
        broken = entry("backends.cpu", "broken", ImportError())
        assert registry(broken, made("one")).plain("cpu").name == "one"

    def test_are_ambiguous_between_two(self):
        with pytest.raises(errors.DeviceError, match="one:cpu or two:cpu"):
            registry(made("one"), made("two")).plain("cpu")

    def test_of_an_owner_leave_strangers_alone(self):
        stranger = made("stranger", kinds=("cpu", "gpu"))
        gpu = entry("backends.gpu", "stranger", stranger.load())
        stranger.loads.clear()
        plugins = registry(stranger, gpu, made("one"), entry("default.cpu", "one", None))
        with pytest.raises(errors.BackendNotFoundError, match=r"name one in full: stranger:gpu"):
            plugins.plain("gpu")
        assert plugins.plain("cpu").name == "one"
        assert not stranger.loads + gpu.loads
        with pytest.raises(errors.BackendNotFoundError, match="no installed backend drives a gpu"):
            registry(made("one"), entry("default.cpu", "one", None)).plain("gpu")

    def test_claimed_twice(self):
        plugins = registry(
            made("one"), made("two"), entry("default.cpu", "one", 0), entry("default.cpu", "two", 0)
        )
        with pytest.raises(errors.PluginError, match=r"'one'.*'two'.*one:cpu or two:cpu"):
            plugins.plain("cpu")
        assert [info.state for info in plugins.info()] == ["ready", "ready"]

    def test_owned_by_one_that_is_not_installed(self):
        assert registry(made("one"), entry("default.cpu", "x", 0)).plain("cpu").name == "one"

    def test_say_why_the_owner_cannot_be_used(self):
        broken = entry("backends.gpu", "broken", ImportError("no libcuda"))
        with pytest.raises(errors.BackendError, match="no libcuda"):
            registry(broken, entry("default.gpu", "broken", 0)).plain("gpu")
        with pytest.raises(errors.BackendNotFoundError, match="no libcuda"):
            registry(broken).plain("gpu")


class TestByHand:
    def test_registers(self):
        plugins = registry(made("one"))
        mine = backend_class("mine")()
        plugins.register_backend(mine)
        plugins.register_backend(mine)
        assert plugins.backend("mine") is mine
        assert plugins.plain("cpu").name == "one"

    def test_is_plain_where_nothing_is_installed(self):
        plugins = registry()
        plugins.register_backend(backend_class("mine")())
        assert plugins.plain("cpu").name == "mine"
        with pytest.raises(errors.BackendNotFoundError, match="drives a gpu"):
            plugins.plain("gpu")

    def test_shadows_nothing_silently(self):
        plugins = registry(made("one"), entry("default.cpu", "one", 0))
        heard = []
        plugins.listeners.append(lambda: heard.append(1))
        mine = backend_class("one")()
        with pytest.raises(errors.PluginError, match=r"some-dist.*replace=True"):
            plugins.register_backend(mine)
        assert not heard
        plugins.register_backend(mine, replace=True)
        assert heard
        assert plugins.backend("one") is mine
        assert plugins.plain("cpu") is mine

    def test_is_checked(self):
        with pytest.raises(errors.PluginError, match="an instance"):
            registry().register_backend("mine")

    def test_that_cannot_be_used(self):
        plugins = registry()
        plugins.register_backend(backend_class("mine", unusable=lambda self: "asleep")())
        with pytest.raises(errors.BackendError, match="asleep"):
            plugins.backend("mine")


@pytest.mark.usefixtures("ops")
class TestKernels:
    def load(self, **kernels):
        return registry(made("one", kernels=kernels)).backend("one")

    def left_out(self, **kernels) -> str:
        """The warning about a kernel that cannot be called; the rest of its backend works."""
        plugins = registry(made("one", kernels={"fake_sum": max, **kernels}))
        with pytest.warns(RuntimeWarning, match=r"'one' \(some-dist 1\.5\).*left out") as caught:
            backend = plugins.backend("one")
        (info,) = plugins.info()
        (said,) = info.left_out
        assert info.state == "ready"
        assert len(caught) == 1
        assert said in str(caught[0].message)
        for op_name in kernels:
            assert backend.kernel(op_name, None) is None
        assert "fake_sum" in kernels or backend.kernel("fake_sum", None) is max
        return said

    @pytest.mark.parametrize(
        "kernel",
        [
            lambda x1, x2: x1,
            lambda a, b, /: a,
            lambda *args, **kwargs: args,
            lambda a, b, c=None: a,
            operator.add,
            np.add,
            max,
            functools.partial(lambda c, a, b: a, 1),
        ],
    )
    def test_signatures_that_fit(self, kernel):
        assert self.load(fake_add=kernel).kernel("fake_add", None) is kernel

    @pytest.mark.parametrize(
        "kernel", [lambda x1: x1, lambda a, b, c: a, lambda a, *, x2: a, lambda a, b, *, c: a]
    )
    def test_signatures_that_do_not(self, kernel):
        said = self.left_out(fake_add=kernel)
        assert "called as fake_add(x1, x2), which" in said

    def test_attributes_are_keywords(self):
        def good(x, *, axis, keepdims):
            return x

        def other(x, *, axes, keepdims):
            return x

        assert self.load(fake_sum=good)
        assert "fake_sum(x, *, axis, keepdims)" in self.left_out(fake_sum=other)

    def test_of_unknown_ops(self):
        said = self.left_out(fake_ad=operator.add)
        assert "unknown op 'fake_ad'; did you mean 'fake_add'" in said

    def test_that_are_no_functions(self):
        assert "must be a function" in self.left_out(fake_sum=3)

    def test_offered_by_the_constructor_are_checked_too(self):
        class One(Backend):
            name = "one"

            def __init__(self):
                super().__init__()
                self.register_kernel("fake_ad", operator.add, source="one", priority=1)

        with pytest.warns(RuntimeWarning, match="unknown op 'fake_ad'"):
            backend = registry(entry("backends.cpu", "one", plugin(One()))).backend("one")
        assert backend.kernels_for("fake_ad") == ()

    def test_registered_by_hand_are_all_right_or_an_error(self):
        mine = backend_class("mine", kernels={"fake_ad": operator.add})()
        with pytest.raises(errors.PluginError, match="unknown op 'fake_ad'"):
            registry().register_backend(mine)

        class Offers(backend_class("mine")):
            def __init__(self):
                super().__init__()
                self.register_kernel("fake_ad", operator.add, source="mine", priority=1)

        with pytest.raises(errors.PluginError, match="unknown op 'fake_ad'"):
            registry().register_backend(Offers())

    @pytest.mark.parametrize("tiers", ["core", frozenset({"cores"})])
    def test_a_tier_that_there_is_not(self, tiers):
        mine = backend_class("mine", tiers=tiers)()
        with pytest.raises(errors.PluginError, match=r"tiers must be a set of 'core', .*; got"):
            registry().register_backend(mine)


def first(x1, x2):
    return x1


def second(x1, x2):
    return x2


@pytest.mark.usefixtures("ops")
class TestPacks:
    @pytest.fixture(autouse=True)
    def _environment(self, monkeypatch):
        monkeypatch.delenv(kernel_packs.VARIABLE, raising=False)

    def plugins(self, **made_packs: SimpleNamespace) -> Registry:
        return registry(
            made("one", kernels={"fake_add": operator.add}),
            *(entry("kernels.one", name, made) for name, made in made_packs.items()),
        )

    def test_come_before_the_backends_own(self):
        backend = self.plugins(fast=pack(("fake_add", first))).backend("one")
        assert backend.kernel("fake_add", None) is first
        assert [offer.source for offer in backend.kernels_for("fake_add")] == ["fast", "one"]

    def test_are_loaded_with_their_backend_only(self):
        fast = entry("kernels.two", "fast", pack(("fake_add", first)))
        plugins = registry(made("one"), made("two"), fast)
        plugins.backend("one")
        assert not fast.loads
        plugins.backend("two")
        assert fast.loads

    def test_go_by_priority(self):
        plugins = self.plugins(
            a=pack(("fake_add", first)), b=pack(("fake_add", second), priority=20)
        )
        assert plugins.backend("one").kernel("fake_add", None) is second
        assert [info.priority for info in plugins.info()[0].packs] == [10, 20]

    def test_may_make_fused_kernels(self):
        @hookimpl
        def pullback_register_fuser(register):
            register(first, ["fake_add"])

        made_pack = pack(("fake_add", first), pullback_register_fuser=pullback_register_fuser)
        backend = self.plugins(fast=made_pack).backend("one")
        [fuser] = backend.fusers()
        assert (fuser.fuse, fuser.ops) == (first, {"fake_add"})
        assert (fuser.source, fuser.priority) == ("fast", 10)
        backend.unregister_kernels("fast")
        assert not list(backend.fusers())

    def test_that_make_fused_kernels_name_ops(self):
        @hookimpl
        def pullback_register_fuser(register):
            register(first, "fake_add")

        made_pack = pack(("fake_add", first), pullback_register_fuser=pullback_register_fuser)
        with pytest.warns(RuntimeWarning, match="takes a function and the names of ops"):
            assert not list(self.plugins(fast=made_pack).backend("one").fusers())

    def test_may_stand_behind_the_backend(self):
        plugins = self.plugins(a=pack(("fake_add", first), priority=-1))
        assert plugins.backend("one").kernel("fake_add", None) is operator.add

    def test_may_serve_some_dtypes_only(self):
        plugins = self.plugins(
            a=pack(("fake_add", first, ["float32"]), ("fake_add", second, [dtypes.float64]))
        )
        backend = plugins.backend("one")
        assert backend.kernel("fake_add", dtypes.float32) is first
        assert backend.kernel("fake_add", dtypes.float64) is second
        assert backend.kernel("fake_add", dtypes.int32) is operator.add

    @pytest.mark.parametrize(
        ("kernels", "attributes", "message"),
        [
            ([("fake_add", first), ("fake_add", second)], {}, "two kernels of 'fake_add'"),
            ([("fake_add", first, ["float32"]), ("fake_add", second)], {}, "two kernels"),
            (
                [("fake_add", first), ("nothing_like_it", second)],
                {},
                "unknown op 'nothing_like_it'",
            ),
            ([("fake_add", lambda x1: x1)], {}, "called as"),
            ([("fake_add", first, ["float33"])], {}, "float33"),
            ([("fake_add", first, [])], {}, "an empty set of dtypes"),
            ([("fake_add", first)], {"priority": 0}, "priority 0"),
            ([("fake_add", first)], {"priority": "high"}, "must be an int"),
            ([("fake_add", first)], {"spec_version": NEWER}, "upgrade"),
        ],
    )
    def test_that_are_refused_are_left_out_whole(self, kernels, attributes, message):
        plugins = self.plugins(bad=pack(*kernels, **attributes))
        with pytest.warns(RuntimeWarning, match=message):
            backend = plugins.backend("one")
        assert backend.kernel("fake_add", dtypes.float32) is operator.add
        (info,) = plugins.info()[0].packs
        assert "'bad' (some-dist 1.5)" in info.state

    def test_two_with_one_priority(self):
        plugins = self.plugins(a=pack(("fake_add", first)), b=pack(("fake_add", second)))
        with pytest.warns(RuntimeWarning, match="'b'.*'a' both have"):
            assert plugins.backend("one").kernel("fake_add", None) is first

    def test_two_with_one_priority_lose_what_is_contested_only(self):
        a = pack(("fake_add", first, ["float32"]))
        b = pack(("fake_add", second, ["float32", "float64"]), ("fake_sum", max))
        plugins = self.plugins(a=a, b=b)
        message = (
            r"^the kernel pack for 'one' 'b' \(some-dist 1\.5\) and 'a' both have a kernel of "
            r"'fake_add' with priority 10 for float32: that of 'a' is used; set another"
        )
        with pytest.warns(RuntimeWarning, match=message):
            backend = plugins.backend("one")
        assert backend.kernel("fake_add", dtypes.float32) is first
        assert backend.kernel("fake_add", dtypes.float64) is second
        assert backend.kernel("fake_add", dtypes.int32) is operator.add
        assert backend.kernel("fake_sum", dtypes.float32) is max
        a, b = plugins.info()[0].packs
        assert (a.state, a.left_out, b.state, len(b.left_out)) == ("ready", (), "ready", 1)

    def test_one_for_all_dtypes_keeps_those_that_nobody_else_serves(self):
        plugins = registry(
            made("one", dtypes={dtypes.float32: "f", dtypes.int32: "i"}),
            entry("kernels.one", "a", pack(("fake_add", first, ["float32"]))),
            entry("kernels.one", "b", pack(("fake_add", second))),
        )
        with pytest.warns(RuntimeWarning, match="both have"):
            backend = plugins.backend("one")
        assert backend.kernel("fake_add", dtypes.float32) is first
        assert backend.kernel("fake_add", dtypes.int32) is second

    @pytest.mark.parametrize("wanted", [None, ">=1.5", "==1.5.0", ">1,<2", "!=1.4", "<=1.5"])
    def test_that_fit_the_version_of_their_backend(self, recwarn, wanted):
        attributes = {} if wanted is None else {"backend_versions": wanted}
        backend = self.plugins(a=pack(("fake_add", first), **attributes)).backend("one")
        assert backend.kernel("fake_add", None) is first
        assert not recwarn

    @pytest.mark.parametrize(
        ("wanted", "message"),
        [
            (">=1.6", r"'a' .* is for versions >=1\.6 of some-dist, and this is 1\.5; "
                      r"pip install 'some-dist>=1\.6'"),
            (">=1.4,<1.5", r"this is 1\.5; pip install 'some-dist>=1\.4,<1\.5'"),
            ("1.5", r"must be a string such as '>=0\.2,<0\.4', got '1\.5'"),
            (1.5, "must be a string"),
        ],
    )  # fmt: skip
    def test_for_another_version_of_their_backend(self, wanted, message):
        plugins = self.plugins(a=pack(("fake_add", first), backend_versions=wanted))
        with pytest.warns(RuntimeWarning, match=message):
            backend = plugins.backend("one")
        assert backend.kernel("fake_add", None) is operator.add
        assert plugins.info()[0].state == "ready"

    def test_named_like_the_backend(self):
        plugins = self.plugins(one=pack(("fake_add", first)))
        with pytest.warns(RuntimeWarning, match="named like its backend"):
            plugins.backend("one")

    @pytest.mark.parametrize(
        ("value", "served"), [("", operator.add), ("a", first), (" b , a", second), ("b", second)]
    )
    def test_are_chosen_by_the_environment(self, monkeypatch, value, served):
        monkeypatch.setenv(kernel_packs.VARIABLE, value)
        plugins = self.plugins(
            a=pack(("fake_add", first)), b=pack(("fake_add", second), priority=20)
        )
        assert plugins.backend("one").kernel("fake_add", None) is served

    def test_the_environment_names_one_that_is_not_there(self, monkeypatch):
        monkeypatch.setenv(kernel_packs.VARIABLE, "c")
        with pytest.warns(RuntimeWarning, match="named 'c'; installed are: a"):
            self.plugins(a=pack(("fake_add", first))).backend("one")

    def test_are_chosen_in_a_program(self):
        plugins = self.plugins(a=pack(("fake_add", first)))
        backend = plugins.backend("one")
        backend.tables.append({"cached": first})
        plugins.use_kernel_packs([])
        assert backend.kernel("fake_add", None) is operator.add
        assert backend.tables == [{}]
        assert plugins.info()[0].packs[0].state == "switched off"
        plugins.use_kernel_packs(["a"])
        assert backend.kernel("fake_add", None) is first
        plugins.use_kernel_packs(None)
        assert len(backend.kernels_for("fake_add")) == 2
        with pytest.raises(errors.PluginError, match="named 'b'; installed are: a"):
            plugins.use_kernel_packs(["b"])
        with pytest.raises(errors.InputTypeError, match=r"\['a'\]"):
            plugins.use_kernel_packs("a")


class TestOps:
    def plugin(self, function) -> SimpleNamespace:
        @hookimpl
        def pullback_register_ops(register):
            register(function)

        return SimpleNamespace(pullback_register_ops=pullback_register_ops)

    def test_are_there_before_kernels_are_checked(self, monkeypatch):
        late = entry("ops", "late", None)

        def load():
            return self.plugin(define(monkeypatch, "late_op", ("x",)).function)

        late.load = load
        plugins = registry(late, made("one", kernels={"late_op": operator.neg}))
        assert plugins.backend("one").kernel("late_op", None) is operator.neg

    def test_may_be_registered(self, recwarn):
        plugins = registry(entry("ops", "good", self.plugin(pullback.add)), made("one"))
        assert plugins.backend("one")
        assert not recwarn

    def test_must_be_ops(self):
        plugins = registry(entry("ops", "bad", self.plugin(len)), made("one"))
        with pytest.warns(RuntimeWarning, match=r"pullback\.op"):
            assert plugins.backend("one")

    def test_that_fail_take_nothing_down(self):
        plugins = registry(entry("ops", "bad", ImportError("gone")), made("one"))
        with pytest.warns(RuntimeWarning, match="gone"):
            assert plugins.backend("one")


def install(folder: Path, dist: str, module: str, source: str, entries: str) -> None:
    """A package as pip leaves it: a module and its metadata."""
    (folder / f"{module}.py").write_text(textwrap.dedent(source))
    info = folder / f"{dist.replace('-', '_')}-2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 2.1\n")
    (info / "entry_points.txt").write_text(textwrap.dedent(entries))


def run(folder: Path, program: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(CORE)])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, check=False, env=environment, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


BACKEND = """
    from pullback.plugins.backend import Backend
    from pullback.plugins.hookspecs import hookimpl
    print("loaded", __name__)
    class Stranger(Backend):
        name = "{name}"
    @hookimpl
    def pullback_register_backend(register):
        register(Stranger())
"""


ARRAYS = """
    import operator
    import numpy as np
    from pullback import dtypes
    from pullback.plugins.backend import Backend
    from pullback.plugins.hookspecs import hookimpl
    class Stranger(Backend):
        name = __name__.removesuffix("_plugin")
        dtypes = dict(zip(dtypes.ALL, dtypes.ALL))
        kernels = {{"negative": operator.neg, {kernels}}}
        def from_host(self, array, device, *, copy):
            return np.array(array)
        def to_host(self, array):
            return array
    @hookimpl
    def pullback_register_backend(register):
        register(Stranger())
"""

#: Plugins that do what none should: group, source, and what a line of `pullback backends` says.
HOSTILE = {
    "import_fails": ("backends.gpu", "import not_there", "No module named 'not_there'"),
    "exits": ("backends.cpu", "import sys; sys.exit('bye')", "SystemExit: bye"),
    "raises_its_own": (
        "backends.cpu",
        """
        class Own(BaseException):
            pass
        raise Own("no Exception")
        """,
        "failed: Own: no Exception",
    ),
    "raises_in_a_library": (
        "backends.cpu", "import json\njson.loads('{')", "(raises_in_a_library_plugin.py, line 2)"
    ),
    "raising_pack": ("kernels.misnamed_kernel", "raise BaseException('in a pack')", "in a pack"),
    "raising_ops": ("ops", "raise GeneratorExit('among ops')", "among ops"),
    "unspeakable": (
        "backends.cpu",
        """
        class Silent(Exception):
            def __str__(self):
                raise RuntimeError
        raise Silent
        """,
        "failed: Silent",
    ),
    "no_hook": ("backends.cpu", "", "has no hook pullback_register_backend(register)"),
    "bad_hook": (
        "backends.cpu",
        """
        from pullback.plugins.hookspecs import hookimpl
        @hookimpl
        def pullback_register_backend(registry):
            pass
        """,
        "'registry'",
    ),
    "newer": ("backends.cpu", "spec_version = '99.0'", "written for version 99.0 of the op spec"),
    "twice": ("backends.cpu", ARRAYS.format(kernels=""), "several packages provide it"),
    "makes_tensors": ("backends.cpu", "import pullback; pullback.ones(2, device='makes_tensors')",
                      "must not create tensors at import"),
    "misnamed_kernel": (
        "backends.cpu", ARRAYS.format(kernels="'softmx': operator.neg"),
        "left out: unknown op 'softmx'; did you mean 'softmax'",
    ),
    "bad_signature": (
        "backends.cpu", ARRAYS.format(kernels="'softmax': lambda x: x"),
        "left out: the kernel of 'softmax' is called as softmax(x, *, axis), which",
    ),
    "bad_pack": (
        "kernels.misnamed_kernel",
        """
        from pullback.plugins.hookspecs import hookimpl
        @hookimpl
        def pullback_register_kernels(register):
            register("negativ", abs)
        """,
        "unknown op 'negativ'; did you mean 'negative'",
    ),
    "bad_ops": (
        "ops",
        """
        from pullback.plugins.hookspecs import hookimpl
        @hookimpl
        def pullback_register_ops(register):
            register(len)
        """,
        "register() takes a function made by pullback.op",
    ),
}  # fmt: skip


class TestInstalled:
    def test_real_entry_points(self, tmp_path):
        for name in ("stranger", "other"):
            install(
                tmp_path, f"pullback-{name}", f"{name}_plugin", BACKEND.format(name=name),
                f"[pullback.backends.cpu]\n{name} = {name}_plugin\n",
            )  # fmt: skip
        install(tmp_path, "damaged", "damaged", "", "[pullback.backends.cpu]\nnothing here\n")
        install(
            tmp_path, "pullback-broken", "broken_plugin", "import not_there",
            "[pullback.backends.gpu]\nbroken = broken_plugin\n",
        )  # fmt: skip
        out = run(
            tmp_path,
            """
            import sys
            from pullback.plugins.public import registry
            assert "broken_plugin" not in sys.modules
            registry.backend("stranger")
            assert "other_plugin" not in sys.modules
            for info in registry.info():
                if info.name in ("stranger", "other", "broken"):
                    print(info.name, info.distribution, info.version, info.state)
            """,
        )
        lines = out.splitlines()
        assert lines[0] == "loaded stranger_plugin"
        assert "stranger pullback-stranger 2.1 ready" in lines
        assert "other pullback-other 2.1 ready" in lines
        broken = next(line for line in lines if line.startswith("broken"))
        assert "No module named 'not_there'" in broken
        assert "pip install --force-reinstall pullback-broken" in broken

    def test_the_author_of_a_plugin_is_told_where_to_mend_it(self, tmp_path):
        install(
            tmp_path, "pullback-broken", "broken_plugin", "import not_there",
            "[pullback.backends.gpu]\nbroken = broken_plugin\n",
        )  # fmt: skip
        (info,) = tmp_path.glob("*.dist-info")
        about = {"url": "file:///srv/pullback-broken", "dir_info": {"editable": True}}
        (info / "direct_url.json").write_text(json.dumps(about))
        out = run(
            tmp_path,
            """
            from pullback.plugins.public import registry
            print(registry.about("broken").state)
            """,
        )
        assert "mend it in /srv/pullback-broken, from where it is installed" in out
        assert "reinstall" not in out

    def test_hostile_plugins_end_in_a_line_each_and_a_working_rest(self, tmp_path):
        for name, (group, source, _) in HOSTILE.items():
            module = f"{name}_plugin"
            entries = f"[pullback.{group}]\n{name} = {module}\n"
            install(tmp_path, f"pullback-{name}", module, source, entries)
        # A second package that brings a backend of a name that is taken.
        install(
            tmp_path, "copy-of-twice", "another", HOSTILE["twice"][1],
            "[pullback.backends.cpu]\ntwice = another\n",
        )  # fmt: skip
        out = run(
            tmp_path,
            """
            import warnings
            warnings.simplefilter("ignore")
            from pullback import cli
            cli.main(["backends"])
            import pullback as pb
            assert pb.sum(pb.asarray([1.0, 2.0], device="numpy")).item() == 3
            with pb.device("misnamed_kernel"):
                print("rest:", pb.negative(pb.asarray([1.0])).tolist())
            """,
        )
        lines = out.splitlines()
        for name, (_, _, words) in HOSTILE.items():
            (line,) = [one for one in lines if words in one]
            # A kernel that is left out stands below its backend; all others name themselves.
            assert words.startswith("left out") or name in line
        assert "rest: [-1.0]" in lines
        assert next(line for line in lines if line.startswith("numpy ")).endswith("ready")

    def test_import_reads_no_metadata_and_no_pluggy(self, tmp_path):
        out = run(
            tmp_path,
            """
            import sys
            import numpy, ml_dtypes
            before = set(sys.modules)
            import pullback.devices
            print(*sorted({"pluggy", "importlib.metadata"} & (set(sys.modules) - before)))
            """,
        )
        assert out.strip() == ""
