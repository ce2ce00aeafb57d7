"""Devices: their names, which one is active, and what the messages say."""

from __future__ import annotations

import copy
import pickle
import re
import sys
import threading
from types import SimpleNamespace

import pytest

from pullback import errors
from pullback.devices import (
    Device,
    as_device,
    default_device,
    device,
    devices,
    set_default_device,
)
from pullback.plugins.backend import Backend
from pullback.plugins.hookspecs import hookimpl
from pullback.plugins.memory import Memory
from pullback.plugins.registry import Registry

# By name `pullback.devices` is the function.
module = sys.modules["pullback.devices"]


class Cpu(Backend):
    name = "mill"

    def native_device(self, kind, index):
        return f"native {kind} {index}"

    def memory(self, device):
        return Memory(1, 2, 3) if device == "native cpu 0" else None

    def synchronize(self, device):
        self.waited = device


class Gpu(Cpu):
    name = "loom"
    kinds = ("gpu",)
    count = 2

    def device_count(self, kind):
        return self.count


class Both(Cpu):
    name = "both"
    kinds = ("cpu", "gpu")


class CpuOfBoth(Both):
    def device_count(self, kind):
        return int(kind == "cpu")


class Broken(Backend):
    name = "loom"
    kinds = ("gpu",)

    def unusable(self):
        raise OSError("no libcuda.so")


class NoDriver(Backend):
    name = "loom"
    kinds = ("gpu",)

    def unusable(self):
        return "no driver"


def entries(backend: type[Backend], *, owns: bool = False, loads: list | None = None) -> list:
    @hookimpl
    def pullback_register_backend(register):
        if loads is not None:
            loads.append(backend.name)
        register(backend())

    plugin = SimpleNamespace(pullback_register_backend=pullback_register_backend)
    return [
        SimpleNamespace(
            group=f"pullback.{group}.{kind}", name=backend.name, value="module",
            dist=SimpleNamespace(name=f"dist-{backend.name}", version="1"), load=lambda: plugin,
        )
        for kind in backend.kinds
        for group in (["backends", "default"] if owns else ["backends"])
    ]  # fmt: skip


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch):
    """Puts other plugins in the place of the installed ones."""
    monkeypatch.delenv(module.DEVICE_VARIABLE, raising=False)

    def use(*installed: list) -> Registry:
        registry = Registry(lambda: [one for each in installed for one in each])
        registry.listeners.append(module._forget)
        monkeypatch.setattr(module, "_registry", lambda: registry)
        monkeypatch.setattr(module, "_named", {})
        monkeypatch.setattr(module, "_chosen", None)
        monkeypatch.setattr(module, "_default", None)
        return registry

    return use


@pytest.fixture
def both_kinds(use) -> None:
    use(entries(Cpu, owns=True), entries(Gpu, owns=True), entries(Both))


@pytest.mark.usefixtures("both_kinds")
class TestNames:
    @pytest.mark.parametrize(
        ("spec", "name"),
        [
            ("cpu", "cpu:0"),
            ("cpu:0", "cpu:0"),
            ("gpu", "gpu:0"),
            ("gpu:1", "gpu:1"),
            ("mill", "cpu:0"),
            ("mill:cpu", "cpu:0"),
            ("mill:cpu:0", "cpu:0"),
            ("loom", "gpu:0"),
            ("loom:gpu:1", "gpu:1"),
            ("both:cpu", "both:cpu:0"),
            ("both:gpu:0", "both:gpu:0"),
            ("both", "both:gpu:0"),
        ],
    )
    def test_resolve(self, spec, name):
        assert str(device(spec)) == name
        assert device(spec) is device(name) is device(device(name)) is as_device(spec)
        assert repr(device(spec)) == f"device('{name}')"
        assert f"{device(spec)}" == name

    @pytest.mark.parametrize(
        "spec",
        [
            "", ":", "cpu:", "cpu:-1", "cpu:+1", "cpu:1", "cpu:x", "cpu:0:0", "gpu:2", "/gpu:0",
            "CPU:0", "mill:", "mill:0", "mill:gpu", "mill:tpu", "mill:cpu:1", "mill:cpu:0:0",
            "cpu:cpu", "cpu:\u0661", "tpu", "tpu:0", "both:gpu:1", " cpu",
        ],
    )  # fmt: skip
    def test_that_no_device_has(self, spec):
        with pytest.raises(
            errors.DeviceError, match="There are: cpu:0, gpu:0, gpu:1, both:cpu:0, both:gpu:0"
        ):
            device(spec)

    @pytest.mark.parametrize("value", [0, b"cpu", ["cpu"], object()])
    def test_that_are_no_strings(self, value):
        with pytest.raises(errors.InputTypeError, match="named by a string"):
            device(value)

    def test_lists(self):
        assert [str(one) for one in devices()] == [
            "cpu:0", "gpu:0", "gpu:1", "both:cpu:0", "both:gpu:0",
        ]  # fmt: skip
        assert [str(one) for one in devices("gpu")] == ["gpu:0", "gpu:1", "both:gpu:0"]

    @pytest.mark.parametrize(
        ("spec", "names"),
        [
            ("cpu", ["cpu:0", "both:cpu:0"]),
            ("mill", ["cpu:0"]),
            ("loom", ["gpu:0", "gpu:1"]),
            ("both", ["both:cpu:0", "both:gpu:0"]),
            ("both:gpu", ["both:gpu:0"]),
            ("mill:gpu", []),
        ],
    )
    def test_lists_of_a_kind_or_a_backend(self, spec, names):
        assert [str(one) for one in devices(spec)] == names

    @pytest.mark.parametrize(
        "spec", ["tpu", "", ":", "cpu:0", "gpu:cpu", "both:tpu", "both:gpu:0", "both:", ":gpu"]
    )
    def test_lists_nothing_else(self, spec):
        message = (
            f"{spec!r} names no devices; write a kind, 'cpu' or 'gpu', or an installed backend: "
        )
        with pytest.raises(errors.DeviceError, match=re.escape(f"{message}'mill', 'loom', 'both'")):
            devices(spec)


@pytest.mark.usefixtures("both_kinds")
class TestDevice:
    def test_holds_what_dispatch_needs(self):
        one = device("gpu:1")
        assert (one.kind, one.index, one.native) == ("gpu", 1, "native gpu 1")
        assert one.tables is one.backend.tables
        assert one.constants == {}
        assert one.constants is not device("gpu:0").constants

    def test_asks_its_backend(self):
        assert device("cpu").memory == Memory(1, 2, 3)
        assert device("cpu").memory.peak is None
        assert device("gpu").memory is None
        device("gpu:1").synchronize()
        assert device("gpu").backend.waited == "native gpu 1"

    def test_the_peak_of_memory_is_reset_where_the_backend_measures_it(self, monkeypatch):
        backend, reset = type(device("gpu").backend), []
        with pytest.raises(errors.BackendError, match=r"does not measure.*memory\.peak without"):
            device("gpu").reset_peak()
        monkeypatch.setattr(backend, "memory", lambda self, native: Memory(1, 2, 3, 4 - len(reset)))
        monkeypatch.setattr(backend, "reset_peak", lambda self, native: reset.append(native))
        assert device("gpu:1").memory.peak == 4
        device("gpu:1").reset_peak()
        assert device("gpu:1").memory == Memory(1, 2, 3, 3)
        assert reset == ["native gpu 1"]

    def test_is_one_object(self):
        one = device("gpu:1")
        assert copy.copy(one) is copy.deepcopy([one])[0] is pickle.loads(pickle.dumps(one)) is one
        assert len({one, device("gpu:1"), device("gpu:0")}) == 2
        assert one != "gpu:1"

    def test_one_object_for_all_threads(self):
        found: list[Device] = []
        threads = [threading.Thread(target=lambda: found.append(device("gpu"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(map(id, found))) == 1


class TestInForce:
    @pytest.mark.usefixtures("both_kinds")
    def test_by_context(self):
        assert str(as_device()) == "gpu:0"
        with device("gpu:1") as one:
            assert as_device() is one
            with device("cpu"), device("gpu:1"):
                assert as_device() is one
            assert as_device(None) is one
            assert str(as_device("cpu")) == "cpu:0"
            with pytest.raises(KeyError), device("cpu"):
                raise KeyError
            assert as_device() is one
            assert default_device() is device("gpu:0")
        assert str(as_device()) == "gpu:0"

    @pytest.mark.usefixtures("both_kinds")
    def test_context_is_of_one_thread(self):
        seen: list[Device] = []
        with device("cpu"):
            thread = threading.Thread(target=lambda: seen.append(as_device()))
            thread.start()
            thread.join()
        assert seen == [device("gpu:0")]

    @pytest.mark.usefixtures("both_kinds")
    def test_by_choice(self):
        set_default_device("both:cpu")
        assert default_device() is as_device() is device("both:cpu:0")
        set_default_device(device("cpu"))
        assert as_device() is device("cpu")
        with pytest.raises(errors.DeviceError):
            set_default_device("cpu:7")
        assert as_device() is device("cpu")
        set_default_device(None)
        assert as_device() is device("gpu")

    def test_by_environment(self, both_kinds, monkeypatch):
        monkeypatch.setenv(module.DEVICE_VARIABLE, "both:cpu")
        assert as_device() is device("both:cpu:0")

    def test_by_environment_wrongly(self, both_kinds, monkeypatch):
        monkeypatch.setenv(module.DEVICE_VARIABLE, "gpu:7")
        with pytest.raises(errors.DeviceError, match=r"PULLBACK_DEVICE=gpu:7.*There are"):
            as_device()

    def test_environment_of_a_plain_name_loads_nothing_else(self, use, monkeypatch):
        loads: list[str] = []
        use(entries(Cpu, owns=True, loads=loads), entries(Gpu, owns=True, loads=loads))
        monkeypatch.setenv(module.DEVICE_VARIABLE, "cpu")
        as_device()
        assert loads == ["mill"]

    def test_nothing_is_installed(self, use):
        use()
        for ask in (as_device, default_device, lambda: device("cpu"), lambda: device("mill")):
            with pytest.raises(errors.BackendNotFoundError, match="pip install"):
                ask()
        assert devices() == devices("cpu") == []
        with pytest.raises(errors.DeviceError, match="an installed backend: there is none"):
            devices("mill")

    def test_cpu_without_a_gpu(self, use):
        use(entries(Cpu, owns=True), entries(NoDriver, owns=True))
        assert str(as_device()) == "cpu:0"
        with pytest.raises(errors.BackendError, match="no driver"):
            device("gpu")
        assert devices("gpu") == devices("loom") == []

    def test_cpu_with_a_warning_where_the_gpu_is_broken(self, use):
        use(entries(Cpu, owns=True), entries(Broken, owns=True))
        with pytest.warns(RuntimeWarning, match=r"using cpu:0, because.*no libcuda\.so"):
            assert str(as_device()) == "cpu:0"
        as_device()

    def test_a_stranger_with_a_gpu_is_not_imported_to_see_it(self, use):
        loads: list[str] = []
        use(entries(Cpu, owns=True), entries(Both, loads=loads))
        assert str(as_device()) == str(device("cpu")) == "cpu:0"
        with pytest.raises(errors.BackendNotFoundError, match="name one in full: both:gpu"):
            device("gpu")
        assert not loads
        assert str(device("both:gpu")) == "both:gpu:0"

    def test_a_stranger_alone(self, use):
        use(entries(Both))
        assert as_device() is device("gpu") is device("both:gpu:0")
        assert device("cpu") is device("both:cpu")
        assert str(device("cpu")) == "both:cpu:0"

    def test_a_stranger_alone_without_a_gpu(self, use):
        use(entries(CpuOfBoth))
        assert as_device() is device("both") is device("both:cpu:0")

    def test_none_is_usable(self, use):
        use(entries(NoDriver))
        with pytest.raises(errors.BackendNotFoundError, match="no driver"):
            as_device()

    def test_what_is_wrong_with_the_cpu_does_not_speak_of_a_gpu(self, use):
        class NoCpu(NoDriver):
            kinds = ("cpu",)

        use(entries(NoCpu, owns=True))
        with pytest.raises(errors.BackendNotFoundError) as caught:
            as_device()
        assert str(caught.value) == "the backend 'loom' cannot be used: no driver"

    def test_registering_by_hand_moves_nothing(self, use):
        registry = use(entries(Cpu, owns=True))
        registry.register_backend(Gpu())
        assert str(as_device()) == "cpu:0"
        assert str(device("loom:gpu:1")) == "loom:gpu:1"

    def test_two_strangers(self, use):
        class Second(Cpu):
            name = "second"

        use(entries(Cpu), entries(Second))
        with pytest.raises(errors.DeviceError, match="mill:cpu or second:cpu"):
            as_device()
        set_default_device("second")
        assert str(as_device()) == "second:cpu:0"

    def test_replacing_gives_new_devices(self, use):
        registry = use(entries(Cpu, owns=True))
        old = as_device()
        registry.register_backend(Cpu(), replace=True)
        assert as_device() is device("cpu") is not old
        assert str(as_device()) == "cpu:0"
