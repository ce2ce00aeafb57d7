"""State that objects cache between calls: optimizers, layers and datasets."""

from __future__ import annotations

import copy
import random
from functools import partial

import numpy as np
import pytest

import pullback as pb
from pullback import dtypes
from pullback.devices import as_device
from pullback.optimizers.slots import StepScalars
from pullback.optimizers.update import Update

CPU = as_device("cpu")
O = pb.optimizers  # noqa: E741
MAKERS = {
    "SGD": lambda: O.SGD(0.1),
    "momentum": lambda: O.SGD(0.1, 0.9, nesterov=True, weight_decay=0.1),
    "Adam": O.Adam,
    "AMSGrad": lambda: O.Adam(amsgrad=True),
    "AdamW": O.AdamW,
    "Nadam": O.Nadam,
    "LAMB": O.LAMB,
    "RMSprop": lambda: O.RMSprop(momentum=0.5, centered=True),
    "Adadelta": O.Adadelta,
    "Adafactor": O.Adafactor,
    "averaged": lambda: O.Adam(ema_decay=0.9, clip_global_norm=1.0, decoupled_weight_decay=0.1),
    "accumulated": lambda: O.SGD(0.1, 0.9, accumulate_steps=2),
}
RATES = (
    *(0.1, 1, True, 1.0, 0, 0.0, -0.0, np.float32(0.1), np.array(0.2)),
    lambda step: 0.1 / (step + 1),
)
#: What settings are set to in the middle of a run: values, kinds, signs; some are errors.
SETTINGS = (
    *(0.5, 0.25, 0, 0.0, -0.0, 1, 1.0, True, False),
    *(np.float64(0.5), np.bool_(False), None, "no"),
)


class Pair:
    """An optimizer that remembers, and one that is made to forget before each step."""

    def __init__(self, make, order, remembered):
        self.remembered = remembered
        self.sides = [make(), make()]
        shapes = [((), "float32"), ((3,), "float32"), ((2, 3), "float64"), ((4,), "bfloat16")]
        rng = np.random.default_rng(order.randrange(99))
        starts = [(rng.standard_normal(shape), dtype) for shape, dtype in shapes]
        self.variables = [[pb.Variable(x, dtype=kind) for x, kind in starts] for _ in self.sides]
        self.order, self.rng = order, rng

    def change(self):
        """Something that a program may do between two steps, to both."""
        order = self.order
        what = order.choice(("rate", "setting", "setting", "kernel", "slots", "copy", "nothing"))
        if what == "rate":
            rate = order.choice(RATES)
            for side in self.sides:
                side.learning_rate = rate
        elif what == "setting" and self.sides[0].settings:
            name, value = order.choice(sorted(self.sides[0].settings)), order.choice(SETTINGS)
            for side in self.sides:
                side.settings[name] = value
        elif what == "kernel" and hasattr(self.sides[0], "op"):
            # Kernels that differ by their last bits, as those of a pack may.
            op, backend = self.sides[0].op, CPU.backend
            backend.unregister_kernels("test")
            real = backend.kernel(op, None)
            if order.random() < 0.5 and real is not None:
                backend.register_kernel(op, _halved(real), source="test", priority=1000)
        elif what == "slots":
            place, kept = order.randrange(4), order.random() < 0.5
            for side, variables in zip(self.sides, self.variables, strict=True):
                wanted = {(id(variables[place]), name) for name in side.slot_names[:1] if kept}
                others = {(id(v), name) for v, name, _ in side.slot_variables()
                          if v is not variables[place]}  # fmt: skip
                side._slots.keep(wanted | others)
        elif what == "copy":
            self.sides, self.variables = copy.deepcopy((self.sides, self.variables))

    def step(self):
        """One step of both, on some of the variables; what each ended with."""
        places = self.order.sample(range(4), self.order.randint(1, 4))
        kind = self.order.choice(("float32", "float32", None, "float64", "float16", "int32"))
        given = [self.rng.standard_normal(self.variables[0][i].shape) for i in places]
        found = []
        for side, variables, fresh in zip(self.sides, self.variables, (False, True), strict=True):
            pairs = [
                (pb.asarray(g, dtype=kind or str(variables[i].dtype)), variables[i])
                for g, i in zip(given, places, strict=True)
            ]
            if fresh:
                self.remembered.forget([])
                side._scalars = StepScalars()
                side._slots._of = {
                    key: (*kept[:2], Update()) for key, kept in side._slots._of.items()
                }
            said = self.remembered.outcome(partial(side.apply_gradients, pairs))
            places_of = {id(v): i for i, v in enumerate(variables)}
            slots = sorted(
                (places_of[id(v)], name, self.remembered.bits(slot.value))
                for v, name, slot in side.slot_variables()
            )
            found.append((said, [self.remembered.bits(v.value) for v in variables], slots))
        return found


def _halved(kernel):
    def halved(*arrays, **attributes):
        found = kernel(*arrays, **attributes)
        several = isinstance(found, (tuple, list))
        parts = [x * x.dtype.type(0.5) for x in (found if several else [found])]
        return tuple(parts) if several else parts[0]

    return halved


def run(make, seed, steps, remembered):
    pair = Pair(make, random.Random(seed), remembered)
    try:
        for i in range(steps):
            for _ in range(pair.order.randint(0, 2)):
                pair.change()
            one, other = pair.step()
            assert one == other, i
    finally:
        CPU.backend.unregister_kernels("test")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAKERS)
def test_steps(name, remembered):
    run(MAKERS[name], 1, 12, remembered)


@pytest.mark.campaign
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAKERS)
def test_many_steps(name, remembered):
    for seed in range(40):
        run(MAKERS[name], seed, 40, remembered)


def test_settings_of_another_kind():
    """Equal settings may differ in kind: 1.0 is not a boolean, and -0.0 has a sign."""
    v = pb.Variable(pb.ones(2))
    optimizer = O.SGD(0.1, 0.9, nesterov=True)
    optimizer.apply_gradients([(pb.ones(2), v)])
    optimizer.settings["nesterov"] = 1.0
    with pytest.raises(pb.errors.InputTypeError, match="True or False"):
        optimizer.apply_gradients([(pb.ones(2), v)])
    optimizer.settings["nesterov"] = 1
    optimizer.apply_gradients([(pb.ones(2), v)])


# Copies -------------------------------------------------------------------------------------------


def test_a_copy_of_a_model_and_its_optimizer():
    """A copy of an optimizer keeps its slots for the copies of the variables."""
    v, w = pb.Variable([1.0, 2.0]), pb.Variable([3.0])
    optimizer = O.AdamW(0.1, weight_decay=0.5, no_decay=[w])
    step = [(pb.ones(2), v), (pb.ones(1), w)]
    for _ in range(2):
        optimizer.apply_gradients(step)
        other, (a, b) = copy.deepcopy([optimizer, (v, w)])
        assert {id(one) for one, _, _ in other.slot_variables()} == {id(a), id(b)}
        assert other.step == optimizer.step
    optimizer.apply_gradients(step)
    assert a.tolist() != v.tolist()
    other.apply_gradients([(pb.ones(2), a), (pb.ones(1), b)])
    assert (a.tolist(), b.tolist()) == (v.tolist(), w.tolist())
    slots = [[slot.tolist() for _, _, slot in one.slot_variables()] for one in (optimizer, other)]
    assert slots[0] == slots[1]


def test_a_copy_before_the_first_step_leaves_the_same_variables_out():
    v, w = pb.Variable([1.0]), pb.Variable([1.0])
    optimizer = O.SGD(0.1, weight_decay=0.5, no_decay=[w])
    other, (a, b) = copy.deepcopy([optimizer, (v, w)])
    for one, pairs in ((optimizer, (v, w)), (other, (a, b))):
        one.apply_gradients([(pb.zeros(1), each) for each in pairs])
    assert (a.tolist(), b.tolist()) == (v.tolist(), w.tolist())
    assert b.tolist() == [1.0]
    assert a.tolist() != [1.0]


# Layers, random numbers, datasets -----------------------------------------------------------------

LAYERS = {
    "Dense": (lambda: pb.layers.Dense(3), [(2, 4), (5, 4), (1, 2, 4)]),
    "Conv2D": (lambda: pb.layers.Conv2D(2, 3, padding="same"), [(1, 5, 5, 2), (2, 3, 4, 2)]),
    "Conv1D": (lambda: pb.layers.Conv1D(2, 3, strides=2), [(1, 9, 2), (3, 4, 2)]),
    "LSTM": (lambda: pb.layers.LSTM(3, return_sequences=True), [(2, 3, 2), (1, 5, 2)]),
    "GRU": (lambda: pb.layers.GRU(3), [(2, 3, 2), (1, 5, 2)]),
    "BatchNormalization": (lambda: pb.layers.BatchNormalization(), [(4, 3), (2, 5, 3)]),
    "LayerNormalization": (lambda: pb.layers.LayerNormalization(), [(4, 3), (2, 5, 3)]),
    "MaxPool2D": (lambda: pb.layers.MaxPool2D(2), [(1, 4, 4, 1), (2, 5, 7, 3)]),
    "Embedding": (lambda: pb.layers.Embedding(5, 2), [(2,), (2, 3)]),
    "mixed": (lambda: pb.layers.Dense(3, dtype="mixed_bfloat16"), [(2, 4), (1, 4)]),
}


FLOATS = ("float32", "float64", "float16", "bfloat16")


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_several_shapes(name, remembered):
    """A built layer gives, for another shape or dtype, what one does that was built for that."""
    make, shapes = LAYERS[name]
    rng, order = np.random.default_rng(0), random.Random(0)
    layer, calls = make(), {}
    inputs = [
        pb.asarray(np.abs(rng.standard_normal(shape)), dtype=kind)
        for shape in shapes
        for kind in (("int32", "int8") if name == "Embedding" else FLOATS)
    ]
    layer(inputs[0])
    fresh = []
    for x in inputs:
        remembered.forget([])
        other = make()
        remembered.outcome(lambda x=x, other=other: other(x))
        for one, value in zip(other.variables, layer.variables, strict=True):
            one.assign(value.numpy())
        fresh.append(remembered.outcome(lambda x=x, other=other: other(x)))
    for i in order.choices(range(len(inputs)), k=24):
        calls[i] = remembered.outcome(lambda i=i: layer(inputs[i]))
        assert calls[i] == fresh[i], inputs[i]


def test_random_numbers_do_not_depend_on_those_before(remembered):
    """Each draw is a function of the key and of how many were drawn: nothing is left over."""
    order = random.Random(0)
    kinds = [("uniform", "float32"), ("uniform", "float64"), ("uniform", "bfloat16"),
             ("normal", "float32"), ("normal", "float64"), ("normal", "float16")]  # fmt: skip
    generator = pb.random.Generator(7)
    for _ in range(60):
        name, kind = order.choice(kinds)
        shape = order.choice([(), (1,), (3,), (2, 3), (5,), (0,)])
        again = pb.random.Generator(0)
        again.restore_state(generator.checkpoint_state())
        found = remembered.bits(getattr(generator, name)(shape, dtype=kind))
        for _ in range(2):
            other = pb.random.Generator(0)
            other.restore_state(again.checkpoint_state())
            pb.random.Generator(1).normal((order.randrange(4),))
            assert remembered.bits(getattr(other, name)(shape, dtype=kind)) == found


def test_a_cached_dataset_is_not_changed_by_who_reads_it():
    def written(x):
        x[...] = 9
        return x

    data = pb.data.Dataset.from_tensor_slices(np.arange(4.0)).batch(2).cache()
    for _ in range(3):
        assert [x.tolist() for x in data] == [[0, 1], [2, 3]]
        assert [x.tolist() for x in data.map(written)] == [[9, 9], [9, 9]]
        for x in data:
            written(x)


def test_dtypes_are_one_object_each():
    """Dispatch compares them by identity, whatever they were named by."""
    for dtype in dtypes.ALL:
        for name in (dtype, dtype.name, dtype.type, dtypes.named(dtype.name), np.dtype(dtype.name),
                     dtype.newbyteorder(">"), np.dtype(dtype, metadata={"a": 1})):  # fmt: skip
            assert dtypes.as_dtype(name) is dtype
    assert dtypes.as_dtype(np.dtype("q")) is dtypes.as_dtype(np.dtype("l")) is dtypes.int64
