"""`tf.contrib.eager`, which the guides call `tfe`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pullback as pb
from pullback import GradientTape, custom_gradient, errors, executing_eagerly, implicit_gradients
from pullback import implicit_value_and_gradients as implicit_value_and_gradients
from pullback.checkpoint import Checkpoint as _Checkpoint
from pullback.data import Iterator as _Iterator
from pullback.devices import devices
from pullback.dtypes import is_floating
from pullback_tensorflow import keras, metrics
from pullback_tensorflow.basics import Variable, convert_to_tensor, enable_eager_execution
from pullback_tensorflow.layers import Layer
from pullback_tensorflow.train import Checkpoint

__all__ = [
    "DEVICE_PLACEMENT_EXPLICIT",
    "DEVICE_PLACEMENT_SILENT",
    "DEVICE_PLACEMENT_WARN",
    "Checkpoint",
    "GradientTape",
    "Iterator",
    "Network",
    "Saver",
    "Sequential",
    "Variable",
    "custom_gradient", "defun",
    "enable_eager_execution",
    "executing_eagerly",
    "get_optimizer_variables",
    "gradients_function",
    "implicit_gradients",
    "implicit_value_and_gradients",
    "in_eager_mode",
    "list_devices",
    "metrics",
    "num_gpus",
    "py_func",
    "restore_network_checkpoint",
    "save_network_checkpoint",
    "value_and_gradients_function",
]  # fmt: skip

# The values of `enable_eager_execution(device_policy=...)`.
DEVICE_PLACEMENT_EXPLICIT, DEVICE_PLACEMENT_WARN, DEVICE_PLACEMENT_SILENT = range(3)

in_eager_mode = executing_eagerly


def num_gpus() -> int:
    """Returns the number of GPUs that can be used."""
    return len(devices("gpu"))


def list_devices() -> list[str]:
    """The names of all devices."""
    return [str(device) for device in devices()]


def py_func(func: Callable[..., Any], inp: Sequence[Any], Tout: Any, name: Any = None) -> Any:
    """Calls a function: there is no graph to put it in."""
    return func(*inp)


def defun(func: Callable[..., Any] | None = None, **_: Any) -> Any:
    """Returns the function as it is: its results are the same, captured or not."""
    return (lambda function: function) if func is None else func


# Gradients ---------------------------------------------------------------------------------------


def value_and_gradients_function(
    f: Callable[..., Any], params: Sequence[int | str] | None = None
) -> Callable[..., tuple[Any, list[Any]]]:
    """Returns a function that computes `f` and its gradients by its positional arguments.

    Args:
        f: a function of tensors; a result of several elements is summed.
        params: the positions or names of the arguments to differentiate by; all if None.

    Returns:
        A function of the same arguments; the gradient by an argument that has none, such as an
        integer, is None. `dy=` is the gradient of the result.

    >>> import pullback.compat.tensorflow as tf
    >>> tfe = tf.contrib.eager
    >>> value, (gradient,) = tfe.value_and_gradients_function(lambda x: x * x)(3.0)
    >>> float(value), float(gradient)
    (9.0, 6.0)

    Raises:
        InputTypeError: for a name that no argument has.
    """
    wanted = None if params is None else [_position(f, one) for one in params]

    def both(*args: Any, dy: Any = None, **kwargs: Any) -> tuple[Any, list[Any]]:
        given = [_tensor(value) for value in args]
        places = range(len(given)) if wanted is None else wanted
        smooth = [place for place in places if not _is_integer(given[place])]

        def of_these(*values: Any) -> Any:
            filled = list(given)
            for place, value in zip(smooth, values, strict=True):
                filled[place] = value
            return f(*filled, **kwargs)

        sources = [given[place] for place in smooth]
        if dy is None:
            value, found = pb.value_and_grad(of_these, tuple(range(len(smooth))))(*sources)
        else:
            value, pull = pb.vjp(of_these, *sources)
            found = pull(convert_to_tensor(dy))
        by_place = dict(zip(smooth, found, strict=True))
        return value, [by_place.get(place) for place in places]

    return both


def gradients_function(
    f: Callable[..., Any], params: Sequence[int | str] | None = None
) -> Callable[..., list[Any]]:
    """A function that gives the gradients of `f`, as `value_and_gradients_function` does.

    >>> import pullback.compat.tensorflow as tf
    >>> tfe = tf.contrib.eager
    >>> grad = tfe.gradients_function(lambda x: x * x)
    >>> [float(g) for g in grad(3.0)]
    [6.0]
    """
    both = value_and_gradients_function(f, params)

    def found(*args: Any, dy: Any = None, **kwargs: Any) -> list[Any]:
        return both(*args, dy=dy, **kwargs)[1]

    return found


def _position(f: Callable[..., Any], param: int | str) -> int:
    if isinstance(param, int):
        return param
    names = f.__code__.co_varnames[: f.__code__.co_argcount]
    if param not in names:
        raise errors.InputTypeError(f"{f.__name__} has no argument {param!r}, but {list(names)}")
    return names.index(param)


def _tensor(value: Any) -> Any:
    if isinstance(value, (bool, int, float, complex, list)):
        return convert_to_tensor(value)
    return value


def _is_integer(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and not is_floating(dtype)


# Data --------------------------------------------------------------------------------------------


def Iterator(dataset: Iterable[Any]) -> Any:
    """The elements of a dataset, by `next(iterator)` and `iterator.next()`."""
    return dataset if isinstance(dataset, _Iterator) else iter(dataset)


# Networks ----------------------------------------------------------------------------------------


class Network(keras.Model):
    """A model; `track_layer` keeps a layer that may be in no attribute.

    >>> import pullback.compat.tensorflow as tf
    >>> tfe = tf.contrib.eager
    >>> class Net(tfe.Network):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.dense = self.track_layer(tf.layers.Dense(10))
    ...     def call(self, x):
    ...         return self.dense(x)
    >>> Net()(tf.zeros([1, 1, 784])).shape
    (1, 1, 10)
    """

    def track_layer(self, layer: Any) -> Any:
        """Keeps a layer, and gives it."""
        self.tracked: list[Any] = [*vars(self).get("tracked", ()), layer]
        return layer

    @property
    def layers(self) -> list[Any]:  # type: ignore[override]
        """The layers that have been tracked."""
        return list(vars(self).get("tracked", ()))

    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        """A tracked layer by its name or number.

        Raises:
            InputValueError: when there is none.
        """
        found = [one for one in self.layers if one.name == name]
        if index is not None:
            found = self.layers[index : index + 1]
        if not found:
            raise errors.InputValueError(f"{self.name} tracks no layer {name or index!r}")
        return found[0]


class Sequential(Network):
    """Layers one after another."""

    def __init__(self, layers_funcs: Iterable[Any] = (), name: str | None = None) -> None:
        super().__init__(name=name)
        for layer in layers_funcs:
            self.add(layer)

    def add(self, layer_func: Any) -> None:
        """Adds a layer, or a function, at the end."""
        self.track_layer(layer_func)

    def call(self, inputs: Any) -> Any:
        """Returns the result of the last layer."""
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs


# Saving ------------------------------------------------------------------------------------------


class Saver:
    """Saves and restores variables: a list of them by their order, a dict by its names.

    >>> import tempfile
    >>> import pullback.compat.tensorflow as tf
    >>> x = tf.Variable(10.0)
    >>> saver = tf.contrib.eager.Saver([x])
    >>> path = saver.save(tempfile.mkdtemp() + "/checkpoint.ckpt", global_step=100)
    >>> _ = x.assign(11.0)
    >>> saver.restore(path)
    >>> float(x), path.rpartition("/")[2]
    (10.0, 'checkpoint.ckpt-100')
    """

    def __init__(self, var_list: Sequence[Any] | Mapping[str, Any]) -> None:
        named = isinstance(var_list, Mapping)
        self._checkpoint = _Checkpoint(variables=dict(var_list) if named else list(var_list))

    def save(self, file_prefix: str | os.PathLike[str], global_step: Any = None) -> str:
        """Saves to the prefix with the step, and returns the path."""
        return self._checkpoint.save(
            file_prefix, step=None if global_step is None else int(global_step)
        )

    def restore(self, file_prefix: str) -> None:
        """Restores the values of the variables."""
        self._checkpoint.restore(file_prefix)


def get_optimizer_variables(optimizer: Any) -> list[Any]:
    """Returns the slots of an optimizer."""
    return [slot for _, _, slot in optimizer.slot_variables()]


def save_network_checkpoint(network: Layer, save_path: str, global_step: Any = None) -> str:
    """Saves the variables of a network, and returns the path."""
    step = None if global_step is None else int(global_step)
    return _Checkpoint(network=network).save(save_path, step=step)


def restore_network_checkpoint(network: Layer, save_path: str) -> None:
    """Restores the variables of a network; those of layers without variables yet, once built."""
    _Checkpoint(network=network).restore(save_path)
