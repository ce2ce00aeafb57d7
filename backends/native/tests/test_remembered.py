"""Caches of the pack: plans of attention and convolution, instructions, kernels of ops."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
from pullback.devices import as_device
from pullback.plugins.kind import Kind
from pullback.plugins.public import use_kernel_packs
from pullback.shapes import output_sizes
from pullback.spec import OPS
from pullback_conformance.case import cases
from pullback_conformance.samples import load
from pullback_native import _native
from pullback_native.kernels import KERNELS, attention, convolution
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.threads import number_of_threads

SERVED = sorted({*_native.KERNELS, *KERNELS})
CASES = [
    case
    for name in SERVED
    for case in cases(OPS[name], load()[name], as_device("cpu"))
    if str(case.dtype) == "float32"
]


def bits(found):
    return [(x.dtype.str, x.shape, x.tobytes()) for x in map(np.asarray, found)]


def laid(rng, order, shape, dtype=np.float32):
    """An array in one of several layouts."""
    how = order.choice(("plain", "steps", "turned", "axes", "wide", "same"))
    wide = [*shape[:-1], shape[-1] + 3]
    if how == "steps":
        x = rng.standard_normal([2 * n for n in shape])[tuple(slice(None, None, 2) for _ in shape)]
        return x.astype(np.float32).astype(dtype) if order.random() < 0.5 else _cut(x, dtype)
    if how == "wide":
        return rng.standard_normal(wide).astype(dtype)[..., 1:-2]
    if how == "same":
        return np.broadcast_to(rng.standard_normal(shape[-1:]).astype(dtype), shape)
    x = rng.standard_normal(shape).astype(dtype)
    return x[::-1] if how == "turned" else np.asfortranarray(x) if how == "axes" else x


def _cut(x, dtype):
    whole = np.zeros([2 * n for n in x.shape], dtype)
    whole[tuple(slice(None, None, 2) for _ in x.shape)] = x
    return whole[tuple(slice(None, None, 2) for _ in x.shape)]


def attention_call(rng, order):
    batch = order.choice(((), (2,), (2, 2), (2, 4)))
    queries, keys = (order.choice((1, 2, 3, 70)) for _ in range(2))
    depth, width = (order.choice((1, 2, 3, 5)) for _ in range(2))
    q = laid(rng, order, (*batch, queries, depth))
    fewer = (*batch[:-1], 1) if batch and order.random() < 0.5 else batch
    k, v = (laid(rng, order, (*fewer, keys, n)) for n in (depth, width))
    kind = order.choice((None, None, np.bool_, np.float32))
    shape = order.choice(((queries, keys), (keys,), (*batch, queries, keys), (1, keys)))
    mask = None if kind is None else laid(rng, order, shape, kind)
    causal = order.random() < 0.5
    how = {"is_causal": order.choice((causal, int(causal))), "scale": 0.5}
    y, normalizer = attention._attention(q, k, v, mask, **how)
    g = laid(rng, order, y.shape)
    return order.choice((
        lambda: attention._attention(q, k, v, mask, **how),
        lambda: attention._attention_gradient(q, k, v, mask, y, normalizer, g, **how),
    ))  # fmt: skip


def convolution_arguments(rng, order):
    axes = order.choice((1, 2))
    many = [order.choices((low, low + 1, low + 2), k=axes) for low in (3, 1, 1, 1)]
    size, window, strides, dilation = map(tuple, many)
    padding = tuple((order.choice((0, 1, 2)), order.choice((0, 1))) for _ in range(axes))
    out = output_sizes(size, window, strides, padding, dilation)
    if any(n < 0 for n in out):
        return convolution_arguments(rng, order)
    channels, features, batch = (order.choice((1, 2, 5)) for _ in range(3))
    shapes = (batch, *size, channels), (*window, channels, features)
    x, kernel = (laid(rng, order, shape) for shape in shapes)
    g = laid(rng, order, (batch, *out, features))
    how = {
        "strides": strides, "padding": padding, "dilation": dilation, "groups": 1,
        "data_format": "channels_last",
    }  # fmt: skip
    return order.choice((
        ("conv", (x, kernel), how),
        ("conv_input_gradient", (g, kernel), {"input_shape": shapes[0], **how}),
        ("conv_kernel_gradient", (x, g), {"kernel_shape": shapes[1], **how}),
    ))  # fmt: skip


def convolution_call(rng, order):
    name, arrays, attributes = convolution_arguments(rng, order)
    return lambda: [KERNELS[name](*arrays, **attributes)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fill", [None, np.inf])
def test_convolutions_made_ready_for_their_shapes(fill):
    """They have the bits of the kernels, also where NumPy's have to do the call."""
    order, rng = random.Random(0), np.random.default_rng(0)
    found = 0
    for _ in range(150):
        name, arrays, attributes = convolution_arguments(rng, order)
        if fill is not None and arrays[0].flags.writeable and arrays[0].size:
            arrays[0][..., 0] = fill
        kinds = [Kind(x.shape, x.dtype) for x in arrays]
        ready = KERNELS[name].prepare(kinds, attributes)
        if ready is not None:
            expected = KERNELS[name](*arrays, **attributes)
            assert bits([ready(*arrays, **attributes)]) == bits([expected])
            found += 1
    assert found > 100


def forget():
    attention._plan.cache_clear()
    convolution._conv_for.cache_clear()
    convolution._input_gradient_for.cache_clear()
    convolution._kernel_gradient_for.cache_clear()


def campaign(seed, count, call):
    """Calls in random order, each compared with itself without a cached plan."""
    order, rng = random.Random(seed), np.random.default_rng(seed)
    calls, fresh = [], []
    while len(calls) < count:
        calls.append(call(rng, order))
        forget()
        fresh.append(bits(calls[-1]()))
    for i in order.choices(range(count), k=2 * count):
        with number_of_threads(order.choice((1, 2))):
            assert bits(calls[i]()) == fresh[i]


@pytest.mark.filterwarnings("ignore")
def test_plans_of_attention():
    campaign(0, 150, attention_call)


def test_plans_of_convolution():
    campaign(0, 150, convolution_call)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_plans():
    for seed in range(1, 9):
        campaign(seed, 1500, attention_call)
        campaign(seed, 1500, convolution_call)


def test_a_plan_is_not_written_into():
    """Its offsets serve every later call of these shapes."""
    q = np.ones((2, 3, 4), np.float32)
    attention._plan.cache_clear()
    plan = attention._plan(*(q.shape, q.strides) * 3, None, True)
    before = dict(plan.sizes), plan.offsets.tobytes()
    y, normalizer = attention._attention(q, q, q, None, is_causal=True, scale=1.0)
    attention._attention_gradient(q, q, q, None, y, normalizer, y, is_causal=True, scale=1.0)
    assert attention._plan.cache_info().hits == 2
    assert (plan.sizes, plan.offsets.tobytes()) == before


def sampled(seed, most):
    return random.Random(seed).sample(CASES, min(most, len(CASES)))


def results(case):
    found = case.call()
    return bits([x.numpy() for x in (found if isinstance(found, tuple) else (found,))])


def every_call(seed, most):
    """Calls of all ops of the pack in random order, the pack switched on and off in between."""
    order, chosen = random.Random(seed), sampled(seed, most)
    fresh = {}
    for packs in ([], None):
        use_kernel_packs(packs)
        for i, case in enumerate(chosen):
            as_device("cpu").backend.forget_kernels()
            fresh[packs is None, i] = results(case)
    for i in order.choices(range(len(chosen)), k=3 * len(chosen)):
        if order.random() < 0.1:
            packs = order.choice(([], None, ["native"]))
            use_kernel_packs(packs)
        with number_of_threads(order.choice((1, 2))):
            assert results(chosen[i]) == fresh[packs != [], i], str(chosen[i])


@pytest.fixture
def _all_packs():
    yield
    use_kernel_packs(None)


@pytest.mark.usefixtures("_all_packs")
@pytest.mark.filterwarnings("ignore")
def test_switched_on_and_off():
    every_call(0, 120)


@pytest.mark.slow
@pytest.mark.usefixtures("_all_packs")
@pytest.mark.filterwarnings("ignore")
def test_all_switched_on_and_off():
    for seed in range(1, 4):
        every_call(seed, len(CASES))


@pytest.mark.usefixtures("_all_packs")
def test_steps_are_those_of_who_serves_the_op_now():
    """An optimizer keeps a kernel from step to step, until another is registered."""
    order, rng = random.Random(0), np.random.default_rng(0)
    for make in (lambda: pb.optimizers.Adam(0.1), lambda: pb.optimizers.SGD(0.1, 0.9)):
        optimizer, v = make(), pb.Variable(rng.standard_normal(7).astype(np.float32))
        for step in range(1, 13):
            packs = order.choice(([], None))
            use_kernel_packs(packs)
            g = rng.standard_normal(7).astype(np.float32)
            slots = [slot.numpy() for _, _, slot in optimizer.slot_variables()]
            slots = slots or [np.zeros(7, np.float32) for _ in optimizer.slot_names]
            kernel = NUMPY_KERNELS[optimizer.op] if packs == [] else getattr(_native, optimizer.op)
            numbers = (np.float32(0.1), np.float32(step))[: 1 + optimizer.takes_step]
            defaults = OPS[optimizer.op].body.__kwdefaults__
            wanted = kernel(v.numpy(), g, *slots, *map(np.asarray, numbers),
                            **{**defaults, **optimizer.settings})  # fmt: skip
            optimizer.apply_gradients([(pb.asarray(g), v)])
            assert bits([v.numpy()]) == bits(wanted[:1])


SCRIPT = """
import sys, numpy as np
from pullback_native import _native
for name in sys.argv[1:]:
    _native.use(name)
    x = np.random.default_rng(0).standard_normal((40, 33), np.float32)
    found = [_native.exp(x), _native.matmul(x.T, x), _native.softmax(x, axis=-1)]
    found.append(_native.sum(x, axis=(0,), keepdims=False, dtype=None))
    said = b"".join(one.tobytes() for one in found).hex()
print(said)
"""


def test_the_last_set_of_instructions_counts(instructions, capsys, monkeypatch):
    """Instruction sets used before leave no trace: results are those of a new process."""
    monkeypatch.setattr(sys, "argv", ["", "base", instructions, "base", instructions])
    exec(SCRIPT, {})
    here = capsys.readouterr().out
    command = [sys.executable, "-c", SCRIPT, instructions]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == here
