"""Conversion, control flow and transformations: Keras's contract over pullback's functions."""

from __future__ import annotations

import builtins
import functools

import numpy as np
from keras.src import tree
from keras.src.backend import config
from keras.src.backend.common import KerasVariable, dtypes, standardize_dtype
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.backend.common.stateless_scope import StatelessScope
from keras.src.backend.common.symbolic_scope import SymbolicScope

import pullback as pb

SUPPORTS_SPARSE_TENSORS = False
SUPPORTS_RAGGED_TENSORS = False
SUPPORTS_COMPLEX_DTYPES = True
IS_THREAD_SAFE = True

#: The names of dtypes that Keras's promotion leaves as they are; 64-bit ones become 32-bit ones.
STABLE = {name for name in dtypes.ALLOWED_DTYPES if "64" not in name and "float8" not in name}
STABLE |= {"bool", "complex64"}
FLOATS = {"float16", "bfloat16", "float32"}
NUMBERS = (bool, int, float)
BOOL = pb.bool


# Dtypes ------------------------------------------------------------------------------------------


def name_of(x):
    """The name of a tensor's dtype."""
    return x.dtype.name


@functools.lru_cache(4096)
def _result(floatx, *kinds):
    return dtypes.result_type(*kinds)


def result(*kinds):
    """Keras's promotion of dtypes, by their names, and of Python's `int` and `float`."""
    return _result(config.floatx(), *kinds)


def kind_of(x):
    """The name of a dtype, or the type of a Python number, as it takes part in the promotion."""
    return type(x) if isinstance(x, NUMBERS) else name_of(x)


def to(x, name):
    """The tensor in the dtype of this name; dtypes of storage are reached by float32."""
    now = x.dtype.name
    if now == name:
        return x
    if "float8" in now or "float8" in name:
        x = x.astype("float32")
    elif "complex" in now and "complex" not in name:
        x = pb.real(x)
    return x.astype(name)


def same(*xs, floating=False):
    """The operands as tensors of the dtype that Keras promotes them to."""
    first = xs[0]
    if type(first) is pb.Tensor and first.dtype.name in FLOATS:
        for x in xs:
            if type(x) is not pb.Tensor or x.dtype is not first.dtype:
                break
        else:
            return xs
    xs = [x if isinstance(x, NUMBERS) else convert_to_tensor(x) for x in xs]
    kinds = [kind_of(x) for x in xs]
    name = result(*kinds, float) if floating else result(*kinds)
    return [convert_to_tensor(x, name) for x in xs]


def floating(x):
    """The operand as a tensor that an op of floating-point numbers takes."""
    x = convert_to_tensor(x)
    name = x.dtype.name
    if name in FLOATS or name == "complex64":
        return x
    return to(x, config.floatx() if name == "int64" else result(name, float))


def numeric(x):
    """The operand as a tensor, booleans as int32."""
    x = convert_to_tensor(x)
    return x.astype("int32") if x.dtype.name == "bool" else x


# Tensors -----------------------------------------------------------------------------------------


def is_tensor(x):
    return isinstance(x, pb.Tensor)


def convert_to_tensor(x, dtype=None, sparse=None, ragged=None):
    if type(x) is pb.Tensor and not sparse and not ragged:
        return x if dtype is None or dtype == x.dtype.name else to(x, _standard(dtype))
    if sparse or ragged:
        kind = "sparse" if sparse else "ragged"
        raise ValueError(f"`{kind}=True` is not supported with the pullback backend")
    if isinstance(x, KerasVariable):
        x = x.value
    if isinstance(x, pb.Tensor):
        return x if dtype is None else to(x, _standard(dtype))
    if x is None or isinstance(x, KerasTensor):
        raise ValueError(f"{x!r} cannot be converted to a tensor")
    if dtype is not None:
        dtype = _standard(dtype)
    if isinstance(x, (list, tuple)):
        leaves = tree.flatten(x)
        if builtins.any(isinstance(leaf, (pb.Tensor, KerasVariable)) for leaf in leaves):
            if dtype is None:
                dtype = result(*(_kind(leaf) for leaf in leaves))
            return pb.stack([convert_to_tensor(item, dtype) for item in x])
        if dtype is None:
            dtype = result(*(_kind(leaf) for leaf in leaves))
    elif dtype is None:
        dtype = result(_kind(x))
    if hasattr(x, "detach"):
        x = x.detach().cpu()
    array = np.asarray(x)
    if array.dtype.kind in "OSU":
        raise ValueError(f"an array of {array.dtype} cannot be converted to a tensor: {x!r}")
    return pb.asarray(array.astype(np.dtype(getattr(pb, dtype, dtype)), copy=False))


def _standard(dtype):
    return (
        dtype if type(dtype) is str and dtype in dtypes.ALLOWED_DTYPES else standardize_dtype(dtype)
    )


def _kind(x):
    if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        return type(x)
    return standardize_dtype(getattr(x, "dtype", type(x)))


def convert_to_numpy(x):
    if isinstance(x, KerasVariable):
        x = x.value
    return np.array(x.numpy() if isinstance(x, pb.Tensor) else x)


def shape(x):
    return tuple(x.shape)


def cast(x, dtype):
    return convert_to_tensor(x, dtype)


def random_seed_dtype():
    return "uint32"


def device_scope(device_name):
    try:
        return pb.device(device_name)
    except (pb.errors.PullbackError, TypeError) as error:
        raise ValueError(f"Invalid value for argument `device_name`: {error}") from error


# Shapes without values ---------------------------------------------------------------------------


def compute_output_spec(fn, *args, **kwargs):
    """The shapes and dtypes of what a function returns, by `pb.eval_shape`.

    Where a size is None the function is called for two sizes, and what differs is None again. A
    function that looks at values is called with zeros.
    """
    leaves = tree.flatten((args, kwargs))
    unknown = builtins.any(isinstance(x, KerasTensor) and None in x.shape for x in leaves)
    outputs = _specs_of(fn, args, kwargs, 83)
    if not unknown:
        return tree.map_structure(_keras_tensor, outputs)
    others = tree.flatten(_specs_of(fn, args, kwargs, 89))

    def merge(one, other):
        if not isinstance(one, pb.TensorSpec):
            return one
        sizes = [m if m == n else None for m, n in zip(one.shape, other.shape, strict=True)]
        return KerasTensor(sizes, one.dtype.name)

    flat = [merge(*pair) for pair in zip(tree.flatten(outputs), others, strict=True)]
    return tree.pack_sequence_as(outputs, flat)


def _keras_tensor(x):
    return KerasTensor(x.shape, x.dtype.name) if isinstance(x, pb.TensorSpec) else x


def _specs_of(fn, args, kwargs, size):
    leaves = tree.flatten((args, kwargs))
    specs = [
        pb.TensorSpec(tuple(size if n is None else n for n in x.shape), x.dtype)
        for x in leaves
        if isinstance(x, KerasTensor)
    ]
    packed = []

    def call(tensors):
        given = iter(tensors)
        flat = [next(given) if isinstance(x, KerasTensor) else x for x in leaves]
        now_args, now_kwargs = tree.pack_sequence_as((args, kwargs), flat)
        outputs = fn(*now_args, **now_kwargs)
        flat = [x.value if isinstance(x, KerasVariable) else x for x in tree.flatten(outputs)]
        packed[:] = [outputs, flat]
        return [x for x in flat if isinstance(x, pb.Tensor)]

    try:
        with StatelessScope(), SymbolicScope():
            found = pb.eval_shape(call, specs)
    except Exception:
        # It may look at values: what fails with zeros, too, is the caller's error.
        zeros = [pb.zeros(spec.shape, dtype=spec.dtype) for spec in specs]
        with StatelessScope(), SymbolicScope():
            found = [pb.TensorSpec(x.shape, x.dtype) for x in call(zeros)]
    outputs, flat = packed
    found = iter(found)
    flat = [next(found) if isinstance(x, pb.Tensor) else x for x in flat]
    return tree.pack_sequence_as(outputs, flat)


# Control flow ------------------------------------------------------------------------------------


def cond(pred, true_fn, false_fn):
    if isinstance(pred, KerasVariable):
        pred = pred.value
    if not isinstance(pred, pb.Tensor):
        return true_fn() if pred else false_fn()
    return pb.cond(pb.reshape(to(pred, "bool"), ()), true_fn, false_fn)


def switch(index, branches, *operands):
    return pb.switch(convert_to_tensor(index, "int32"), list(branches), *operands)


def map(f, xs):
    return scan(lambda _, x: ((), f(x)), (), xs)[1]


def scan(f, init, xs=None, length=None, reverse=False, unroll=1):
    if not callable(f):
        raise TypeError(f"`f` should be a callable. Received: f={f}")
    if not isinstance(unroll, bool) and (not isinstance(unroll, int) or unroll < 1):
        raise ValueError(
            f"`unroll` must be an positive integer or boolean. Received: unroll={unroll}"
        )
    if xs is None and length is None:
        raise ValueError("Got no `xs` to scan over and `length` not provided.")
    init = tree.map_structure(convert_to_tensor, init)
    xs = tree.map_structure(convert_to_tensor, xs) if xs is not None else None

    def step(carry, x):
        carry, y = f(carry, x)
        return carry, tree.map_structure(pb.zeros_like, init) if y is None else y

    return pb.scan(step, init, xs, length=length, reverse=reverse)


def associative_scan(f, elems, reverse=False, axis=0):
    if not callable(f):
        raise TypeError(f"`f` should be a callable. Received: f={f}")
    elems = tree.map_structure(convert_to_tensor, elems)
    sizes = {x.shape[axis] for x in tree.flatten(elems)}
    if len(sizes) > 1:
        shapes = [x.shape for x in tree.flatten(elems)]
        raise ValueError(
            f"Array inputs to associative_scan must have the same first dimension. (saw: {shapes})"
        )
    return pb.associative_scan(f, elems, axis=axis, reverse=reverse)


def while_loop(cond, body, loop_vars, maximum_iterations=None):
    many = isinstance(loop_vars, (tuple, list))
    carry = tuple(loop_vars) if many else (loop_vars,)
    carry = tree.map_structure(convert_to_tensor, carry)

    def step(carry):
        carry = body(*carry)
        carry = tuple(carry) if isinstance(carry, (tuple, list)) else (carry,)
        return tree.map_structure(convert_to_tensor, carry)

    def goes_on(carry):
        return pb.reshape(convert_to_tensor(cond(*carry), "bool"), ())

    carry = pb.while_loop(goes_on, step, carry, maximum=maximum_iterations)
    return carry if many else carry[0]


def fori_loop(lower, upper, body_fun, init_val):
    return pb.fori_loop(int(lower), int(upper), body_fun, init_val)


def vectorized_map(function, elements):
    return pb.vmap(function)(tree.map_structure(convert_to_tensor, elements))


# Gradients ---------------------------------------------------------------------------------------


def stop_gradient(variable):
    return pb.stop_gradient(convert_to_tensor(variable))


def remat(f):
    return pb.remat(f)


class custom_gradient:
    """A function whose gradient is what the second of its results says.

    Keras calls that with the gradient of the result, or with `upstream=`.
    """

    def __init__(self, fun):
        self.fun = fun

    def __call__(self, *args, **kwargs):
        args = [x.value if isinstance(x, KerasVariable) else x for x in args]

        def function(*args):
            outputs, grad_fn = self.fun(*args, **kwargs)

            def backward(*upstream, variables=None):
                grads = grad_fn(*upstream)
                grads = list(grads) if isinstance(grads, (list, tuple)) else [grads]
                grads = (grads + [None] * len(args))[: len(args)]
                grads = grads if len(args) > 1 else grads[0]
                return grads if variables is None else (grads, [None] * len(variables))

            return outputs, backward

        return pb.custom_gradient(function)(*args)


# Parts -------------------------------------------------------------------------------------------


def _flat(indices, sizes):
    """The positions, in the flattened axes of these sizes, of indices in the last axis."""
    position = 0
    for i, size in enumerate(sizes):
        index = indices[..., i]
        position = position * size + pb.where(index < 0, index + size, index)
    return position


def scatter(indices, values, shape):
    values = convert_to_tensor(values)
    return scatter_update(pb.zeros(tuple(shape), dtype=values.dtype), indices, values, "add")


SCATTERS = {
    None: pb.scatter_update,
    "add": pb.scatter_add,
    "max": pb.scatter_max,
    "min": pb.scatter_min,
    "mul": pb.scatter_multiply,
}


def scatter_update(inputs, indices, updates, reduction=None):
    inputs = convert_to_tensor(inputs)
    indices = convert_to_tensor(indices, "int32")
    updates = convert_to_tensor(updates, name_of(inputs))
    depth = indices.shape[-1]
    rest = inputs.shape[depth:]
    rows = pb.reshape(inputs, (-1, *rest)) if depth else inputs
    positions = pb.reshape(_flat(indices, inputs.shape[:depth]), (-1,))
    updates = pb.reshape(pb.broadcast_to(updates, (*indices.shape[:-1], *rest)), (-1, *rest))
    if reduction in SCATTERS:
        rows = SCATTERS[reduction](rows, positions, updates)
    else:
        raise ValueError(f"Unsupported reduction: {reduction}")
    return pb.reshape(rows, inputs.shape)


def _ints(values):
    """The values as Python's ints; None where a captured function has none to look at."""
    if isinstance(values, (pb.Tensor, KerasVariable)):
        values = list(pb.unstack(convert_to_tensor(values)))
    try:
        return [int(value) for value in values]
    except pb.errors.PullbackError:
        return None


def slice(inputs, start_indices, shape):
    inputs = convert_to_tensor(inputs)
    starts, sizes = _ints(start_indices), _ints(shape)
    if starts is not None:
        ends = [
            inputs.shape[i] if n < 0 else start + n
            for i, (start, n) in enumerate(zip(starts, sizes, strict=True))
        ]
        return inputs[tuple(builtins.slice(*ends) for ends in zip(starts, ends, strict=True))]
    for axis, size in enumerate(sizes):
        start = convert_to_tensor(start_indices[axis], "int32")
        inputs = pb.take(inputs, pb.arange(size) + start, axis=axis)
    return inputs


def slice_update(inputs, start_indices, updates):
    inputs = convert_to_tensor(inputs)
    updates = convert_to_tensor(updates, name_of(inputs))
    starts = _ints(start_indices)
    if starts is not None:
        outputs = pb.asarray(inputs, copy=True)
        ends = [start + n for start, n in zip(starts, updates.shape, strict=True)]
        outputs[tuple(builtins.slice(*ends) for ends in zip(starts, ends, strict=True))] = updates
        return outputs
    ranges = [
        pb.arange(n) + convert_to_tensor(start_indices[axis], "int32")
        for axis, n in enumerate(updates.shape)
    ]
    return scatter_update(inputs, pb.stack(pb.meshgrid(*ranges, indexing="ij"), axis=-1), updates)


def unstack(x, num=None, axis=0):
    return list(pb.unstack(convert_to_tensor(x), axis=axis))
