"""Objects of every public class, each small and as it is in use, for calls of their methods."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import pullback as pb

L = pb.layers
#: Arguments of a layer, and the shape of what it is built for.
LAYERS: dict[str, tuple[tuple[Any, ...], tuple[int, ...]]] = {
    "Activation": (("relu",), (2, 3)),
    "BatchNormalization": ((), (2, 3)),
    "Bidirectional": ((L.LSTM(2),), (2, 3, 4)),
    "ActivityRegularization": ((0.1,), (2, 3)),
    "AlphaDropout": ((0.5,), (2, 3)),
    "EinsumDense": (("ab,bc->ac", 2), (2, 3)),
    "GaussianDropout": ((0.5,), (2, 3)),
    "UnitNormalization": ((), (2, 3)),
    "Dense": ((2,), (2, 3)),
    "Dropout": ((0.5,), (2, 3)),
    "Embedding": ((5, 2), ()),
    "Flatten": ((), (2, 3)),
    "GRU": ((2,), (2, 3, 4)),
    "GaussianNoise": ((0.5,), (2, 3)),
    "GroupNormalization": ((2,), (2, 3, 4)),
    "InstanceNormalization": ((), (2, 3, 4)),
    "LSTM": ((2,), (2, 3, 4)),
    "Lambda": ((pb.tanh,), (2, 3)),
    "LayerNormalization": ((), (2, 3)),
    "LeakyReLU": ((), (2, 3)),
    "Masking": ((), (2, 3, 4)),
    "MultiHeadAttention": ((2, 2), (2, 3, 4)),
    "Permute": (((2, 1),), (2, 3, 4)),
    "RMSNormalization": ((), (2, 3)),
    "ReLU": ((), (2, 3)),
    "RepeatVector": ((2,), (2, 3)),
    "Rescaling": ((2.0,), (2, 3)),
    "RotaryEmbedding": ((), (2, 3, 4)),
    "Reshape": (((3, 1),), (2, 3)),
    "SimpleRNN": ((2,), (2, 3, 4)),
    "Softmax": ((), (2, 3)),
    "SpectralNormalization": ((L.Dense(2),), (2, 3)),
    "TimeDistributed": ((L.Dense(2),), (2, 3, 4)),
    "WeightNormalization": ((L.Dense(2),), (2, 3)),
    "CategoryEncoding": ((3,), (2, 3)),
    "Discretization": (([0.5, 2.0],), (2, 3)),
    "Hashing": ((3,), (2, 3)),
    "Normalization": ((None,), (2, 3)),
    "IntegerLookup": (([1, 2],), (2, 3)),
    "StringLookup": ((["a", "b"],), (2, 3)),
    "TextVectorization": ((), (2, 3)),
    "RandomBrightness": ((0.1,), (2, 4, 4, 3)),
    "RandomContrast": ((0.1,), (2, 4, 4, 3)),
    "RandomCrop": ((2, 2), (2, 4, 4, 3)),
    "RandomFlip": ((), (2, 4, 4, 3)),
    "RandomRotation": ((0.1,), (2, 4, 4, 3)),
    "RandomTranslation": ((0.1, 0.1), (2, 4, 4, 3)),
    "RandomZoom": ((0.1,), (2, 4, 4, 3)),
}
#: The same of layers that end in a number of dimensions.
SPATIAL: dict[str, tuple[Any, ...]] = {
    "AdaptiveAveragePool": (2,),
    "AdaptiveMaxPool": (2,),
    "AveragePool": (2,),
    "Conv": (2, 2),
    "Cropping": (1,),
    "DepthwiseConv": (2,),
    "GlobalAveragePool": (),
    "GlobalMaxPool": (),
    "MaxPool": (2,),
    "SeparableConv": (2, 2),
    "SpatialDropout": (0.5,),
    "UpSampling": (2,),
    "ZeroPadding": (1,),
}
METRICS: dict[str, tuple[Any, ...]] = {
    "ConfusionMatrix": (3,),
    "MatthewsCorrelation": (3,),
    "MeanIoU": (3,),
    "MeanOf": (pb.abs,),
}
#: What the framework calls, with what it has made or checked: hooks that subclasses override.
HOOKS = {
    # layers
    "augment", "build", "call", "call_masked", "called_with_symbols", "changed", "check",
    "check_channels", "check_fits", "dropped", "from_constructor_arguments", "infer",
    "kernel_channels", "kernel_shapes", "mask_of", "merged_mask", "mixed", "normalized", "per_axis",
    "places", "run", "state_shape",
    "train_step", "test_step", "predict_step",
    # optimizers
    "make_slots", "restore_slot", "slot_shape", "update",
    # metrics
    "compare", "expected", "score",
    # state
    "begin", "checkpoint_state", "forget", "reserve", "restore_deferred", "restore_state",
    "set_seeds",
    # captured functions, devices, tapes
    "leaf_of", "lift", "miss", "prefer", "retire_token", "run_eagerly",
}  # fmt: skip
#: The same of some classes alone.
HOOKS_OF = (pb.callbacks.Checkpoint.save,)


def _input_of(name: str, shape: tuple[int, ...]) -> Any:
    if name in ("StringLookup", "TextVectorization"):
        return ["a", "b"]
    integers = ("CategoryEncoding", "Embedding", "Hashing", "IntegerLookup")
    return pb.ones(shape, dtype="int32" if name in integers else None)


class Kind(NamedTuple):
    """A class, arguments that make an object of it, and the shapes of inputs of a layer."""

    name: str
    kind: Callable[..., Any]
    args: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...] = ()

    def made(self) -> Any:
        return self.kind(*self.args)

    def inputs(self) -> Any:
        """Returns the inputs of a layer."""
        found = [_input_of(self.name, shape) for shape in self.shapes]
        return found[0] if len(found) == 1 else found


def layer_kinds() -> Iterator[Kind]:
    """Yields the classes of layers."""
    for name, (args, shape) in LAYERS.items():
        yield Kind(name, getattr(L, name), args, (shape,))
    for name, args in SPATIAL.items():
        for n in (1, 2, 3):
            for full in (f"{name}{n}D", f"{name}{n}DTranspose"):
                if hasattr(L, full):
                    yield Kind(full, getattr(L, full), args, ((1, *[4] * n, 2),))
    for n in (1, 2, 3):
        full = f"ConvLSTM{n}D"
        yield Kind(full, getattr(L, full), (2, 2), ((1, 2, *[4] * n, 2),))
    for name in ("CutMix", "MixUp"):
        yield Kind(name, getattr(L, name), (), ((2, 4, 4, 3), (2, 3)))
    yield Kind("Dot", L.Dot, (1,), ((2, 3), (2, 3)))
    for name in ("Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract"):
        yield Kind(name, getattr(L, name), (), ((2, 3), (2, 3)))


def layers() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yields layers that have been called once."""
    for one in layer_kinds():
        yield one.name, functools.partial(_called, one)


def _called(one: Kind) -> object:
    layer, inputs = one.made(), one.inputs()
    if hasattr(layer, "adapt"):
        layer.adapt(inputs)
    layer(inputs)
    return layer


def optimizer_kinds() -> Iterator[Kind]:
    """Yields the classes of optimizers."""
    for name in pb.optimizers.__all__:
        kind = getattr(pb.optimizers, name)
        if kind is pb.optimizers.LossScale:
            yield Kind(name, kind, (pb.optimizers.SGD(0.1),))
        elif (
            isinstance(kind, type)
            and issubclass(kind, pb.optimizers.Optimizer)
            and kind is not pb.optimizers.Optimizer
        ):
            yield Kind(name, kind, (0.1,))


def optimizers() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yields optimizers that have taken a step."""

    def stepped(one: Kind) -> object:
        optimizer = one.made()
        if one.kind is not pb.optimizers.LossScale:
            variable = pb.Variable([1.0, 2.0])
            optimizer.minimize(lambda: pb.sum(variable * variable))
        return optimizer

    for one in optimizer_kinds():
        yield one.name, functools.partial(stepped, one)


def metric_kinds() -> Iterator[Kind]:
    """Yields the classes of metrics."""
    for name in pb.metrics.__all__:
        kind = getattr(pb.metrics, name)
        if kind is not pb.metrics.Metric and isinstance(kind, type):
            yield Kind(name, kind, METRICS.get(name, ()))


def callback_kinds() -> Iterator[Kind]:
    """Yields the classes of callbacks."""
    given = {"CSVLogger": "a.csv", "Checkpoint": "kept", "LearningRateSchedule": lambda i: 0.1}
    for name in pb.callbacks.__all__:
        arguments = (given[name],) if name in given else ()
        yield Kind(f"{name} callback", getattr(pb.callbacks, name), arguments)


def kinds() -> Iterator[Kind]:
    """Yields the public classes whose objects users make."""
    for several in (layer_kinds, optimizer_kinds, metric_kinds, callback_kinds):
        yield from several()


def model() -> object:
    found = pb.Sequential([L.Dense(2), L.Dense(1)])
    found.compile(pb.optimizers.SGD(0.1), loss=pb.losses.mean_squared_error)
    found.fit(np.zeros((4, 3), np.float32), np.zeros((4, 1), np.float32), verbose=0)
    return found


def tape(persistent: bool) -> object:
    with pb.GradientTape(persistent=persistent) as found:
        v = pb.Variable([1.0, 2.0])
        v * v
    return found


def captured() -> object:
    found = pb.function(lambda *args, **kwargs: pb.ones(2))
    for _ in range(3):
        found(pb.ones(2))
    return found


def saved() -> object:
    pb.function(lambda x: x * 2).lower(pb.ones(2)).save("program")
    return pb.load_program("program")


def checkpoint() -> object:
    found = pb.Checkpoint(v=pb.Variable(1.0))
    found.save("checkpoints")
    return found


def manager() -> object:
    found = pb.CheckpointManager(pb.Checkpoint(v=pb.Variable(1.0)), "managed")
    found.save()
    return found


def restored() -> object:
    path = pb.Checkpoint(v=pb.Variable(1.0)).save("restored/c")
    return pb.Checkpoint(v=pb.Variable(1.0)).restore(path)


OTHERS: dict[str, Callable[[], object]] = {
    "Tensor": lambda: pb.ones((2, 3)),
    "Tensor of integers": lambda: pb.asarray([1, 2, 3]),
    "Tensor of one": lambda: pb.asarray(1.5),
    "Variable": lambda: pb.Variable([1.0, 2.0]),
    "StringTensor": lambda: pb.StringTensor(["a", "b"]),
    "Generator": lambda: pb.Generator(1),
    "Model": model,
    "GradientTape": lambda: tape(False),
    "GradientTape, persistent": lambda: tape(True),
    "GradientTape, new": pb.GradientTape,
    "captured": captured,
    "lowered": lambda: pb.function(lambda x: x * 2).lower(pb.ones(2)),
    "saved program": saved,
    "Dataset": lambda: pb.data.Dataset.range(4),
    "Dataset of pairs": lambda: pb.data.Dataset.zip(*[pb.data.Dataset.range(3)] * 2),
    "Iterator": lambda: iter(pb.data.Dataset.range(4).batch(2)),
    "TFRecordWriter": lambda: pb.data.TFRecordWriter("records"),
    "Checkpoint": checkpoint,
    "CheckpointManager": manager,
    "Restoration": restored,
    "summary Writer": lambda: pb.summary.create_file_writer("logs"),
    "Device": lambda: pb.devices()[0],
    "VariableList": lambda: L.Dense(2, input_shape=(3,)).variables,
}
#: What is a method, and no setting, size or answer to a name of another library's.
METHODS = (types.FunctionType, classmethod, staticmethod, types.MethodDescriptorType)
SPECIAL = ("__call__", "__getitem__", "__setitem__", "__contains__")


def samples() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yields makers of objects, by name."""
    yield from layers()
    yield from optimizers()
    for one in (*metric_kinds(), *callback_kinds()):
        yield one.name, one.made
    yield from OTHERS.items()


def methods(value: object) -> list[str]:
    """The names of the public methods of an object, and of what its calls and brackets do."""
    kind = type(value)
    return [
        name
        for name in dir(kind)
        if (name in SPECIAL or name[0] != "_")
        if name not in HOOKS and not name.startswith("on_")
        if isinstance(inspect.getattr_static(kind, name), METHODS)
        if getattr(kind, name) not in HOOKS_OF
        if getattr(kind, name) is not getattr(list, name, None)
    ]
