"""Names of other frameworks: what errors suggest exists, and nothing is suggested astray."""

from __future__ import annotations

import ast
import functools
import inspect
import pickle
import re
import subprocess
import sys
import textwrap
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback._foreign_names import functions, keywords, namespaces, objects, tensors
from pullback._hints import ForeignName, _constructor_parameters, close_names

OBJECTS = {
    "tensor": tensors.TENSOR,
    "variable": tensors.VARIABLE,
    "tape": tensors.TAPE,
    "layer": objects.LAYER,
    "model": objects.MODEL,
    "optimizer": objects.OPTIMIZER,
    "metric": objects.METRIC,
    "dataset": objects.DATASET,
    "callback": objects.CALLBACK,
}
TABLES = {
    **OBJECTS,
    **namespaces.NAMESPACES,
    **{f"{part or 'tensor'} keywords": table for part, table in keywords.KEYWORDS.items()},
    "calls": keywords.CALLS,
}
ENTRIES = [
    (f"{table}: {names.split()[0]}", text)
    for table, entries in TABLES.items()
    for names, text in entries.items()
]


@functools.cache
def known() -> dict[str, Any]:
    """Returns objects for the names in suggestions."""
    model = pb.Sequential([pb.layers.Dense(3, input_shape=(3,))])
    model.compile("adam", "mean_squared_error")
    callback = pb.callbacks.Callback()
    callback.run, callback.model = pb.training.run.Run(1, None), model  # type: ignore[arg-type]
    return {
        "pb": pb,
        "np": np,
        "x": pb.ones((3, 3)),
        "y": pb.ones((3, 3)),
        "v": pb.Variable([1.0, 2.0]),
        "tape": pb.GradientTape(),
        "layer": model.layers[0],
        "model": model,
        "optimizer": model.compiled.optimizer,
        "metric": pb.metrics.Mean(),
        "dataset": pb.data.Dataset.range(3),
        "callback": callback,
    }


def code_in(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def resolve(node: ast.AST, names: dict[str, Any]) -> Any:
    """The object of a dotted name, or None where the root is a stand-in such as `f`."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = resolve(node.value, names)
        if owner is None:
            return None
        static = inspect.getattr_static(type(owner), node.attr, None)
        assert not isinstance(static, ForeignName), ast.unparse(node)
        assert hasattr(owner, node.attr), ast.unparse(node)
        return getattr(owner, node.attr)
    return None


def accepted(function: Any) -> set[str]:
    if inspect.isclass(function):
        return {*_constructor_parameters(function)}
    return {parameter.name for parameter in inspect.signature(function).parameters.values()}


def test_there_are_many() -> None:
    assert sum(len(names.split()) for table in TABLES.values() for names in table) > 600


@pytest.mark.each("entry", ENTRIES, ids=lambda entry: entry[0])
def test_what_is_suggested_exists(entry: tuple[str, str]) -> None:
    text = entry[1]
    objects_ = known()
    for code in code_in(text):
        if re.fullmatch(r"\w+=(\w+)?", code):
            continue  # a keyword: the next test
        source = f"{code} pass" if code.endswith(":") else code
        source = "class Net(pb.Model): pass" if code.startswith("class ") else source
        for node in ast.walk(ast.parse(textwrap.dedent(source))):
            if isinstance(node, ast.Attribute):
                resolve(node, objects_)
            if isinstance(node, ast.Call):
                function = resolve(node.func, objects_)
                given = {keyword.arg for keyword in node.keywords}
                if given and function is not None and function is not pb.Checkpoint:
                    assert given <= accepted(function), code


CALLABLES = {
    "layers": [getattr(pb.layers, n) for n in pb.layers.__all__],
    "optimizers": [
        *(getattr(pb.optimizers, n) for n in pb.optimizers.__all__),
        *(getattr(pb.optimizers.schedules, n) for n in pb.optimizers.schedules.__all__),
    ],
    "losses": [getattr(pb.losses, n) for n in pb.losses.__all__],
    "metrics": [getattr(pb.metrics, n) for n in pb.metrics.__all__],
    "callbacks": [getattr(pb.callbacks, n) for n in pb.callbacks.__all__],
    "data": [v for k, v in inspect.getmembers(pb.data.Dataset, callable) if k[0] != "_"],
    "training": [getattr(pb.Model, n) for n in ("compile", "fit", "evaluate", "predict")],
    "variable": [pb.Variable],
    "graph": [pb.function],
    "_batching": [pb.vmap],
    "_autodiff": [pb.grad, pb.value_and_grad],
    "": [
        *(getattr(pb, n) for n in pb.__all__ if inspect.isfunction(getattr(pb, n))),
        *(getattr(pb.random, n) for n in pb.random.__all__ if n != "default_generator"),
    ],
}


@pytest.mark.parametrize("part", keywords.KEYWORDS)
def test_suggested_keywords_exist(part: str) -> None:
    found: set[str] = set()
    for function in CALLABLES[part]:
        try:
            found |= accepted(function)
        except (TypeError, ValueError):
            continue
    # Calls of layers take these.
    found |= {"mask", "key_mask", "training"}
    for text in keywords.KEYWORDS[part].values():
        wanted = {match for code in code_in(text) for match in re.findall(r"^(\w+)=\w*$", code)}
        assert wanted <= found, (text, wanted - found)


def test_no_name_is_in_a_table_twice() -> None:
    for table in [*OBJECTS.values(), *namespaces.NAMESPACES.values(), *keywords.KEYWORDS.values()]:
        names = [name for names in table for name in names.split()]
        if table is not namespaces.NAMESPACES["pullback"]:  # of three frameworks
            assert len(names) == len(set(names)), sorted({n for n in names if names.count(n) > 1})


@pytest.mark.parametrize("module", namespaces.NAMESPACES)
def test_foreign_names_of_modules_are_not_there(module: str) -> None:
    __import__(module)
    for names in namespaces.NAMESPACES[module]:
        for name in names.split():
            assert name not in sys.modules[module].__all__
            value = getattr(sys.modules[module], name, None)
            assert value is None or isinstance(value, ModuleType), name


@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_answer(kind: str) -> None:
    name = {"tensor": "x", "variable": "v"}.get(kind, kind)
    value = known()[name]
    answered = 0
    for names, text in OBJECTS[kind].items():
        for attribute in names.split():
            static = inspect.getattr_static(type(value), attribute)
            if not isinstance(static, ForeignName):
                continue  # the class has it by now
            assert not hasattr(value, attribute)
            assert attribute not in dir(value)
            with pytest.raises(AttributeError, match=re.escape(f"{attribute!r}; {text}"[:60])):
                getattr(value, attribute)
            answered += 1
    assert answered


def test_an_attribute_of_ones_own_takes_the_place_of_a_foreign_one() -> None:
    class Linear(pb.layers.Layer):
        def build(self, input_shape: Any) -> None:
            self.weight = self.add_variable("weight", (3,), initializer="ones")

        def parameters(self) -> int:
            return 3

        def call(self, x: pb.Tensor) -> pb.Tensor:
            return x * self.weight

    layer = Linear()
    layer(pb.ones(3))
    assert layer.weight.shape == (3,)
    assert layer.parameters() == 3
    assert "weight" in dir(layer)
    assert list(layer.named_variables) == ["weight"]


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [
        (pb.layers.Dense(3), "requires_grad", "write `layer.trainable = False`"),
        (pb.Sequential([]), "requires_grad", "write `layer.trainable = False`"),
        (pb.Sequential([]), "training", "write `layer(x, training=True)`"),
        (pb.optimizers.Adam(), "lr", "write `optimizer.learning_rate`"),
        (pb.optimizers.Adam(), "param_groups", "write `optimizer.learning_rate`"),
    ],
)
def test_a_setting_of_another_name_is_not_lost_silently(value: Any, name: str, text: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(text)):
        setattr(value, name, 0.0)
    assert not hasattr(value, name)
    assert name not in dir(value)


def test_help_says_once_that_a_name_is_not_here() -> None:
    static = inspect.getattr_static(pb.layers.Layer, "add_metric")
    assert static.__doc__ == "Not here: return values from `train_step`."
    assert repr(static) == "not here: return values from `train_step`"


# Where the same word means something else: an example has to be right as it stands.
EXAMPLES = {"pullback": ["randint", "chunk", "flatten"], "pullback.random": ["randint"]}


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module in EXAMPLES for name in EXAMPLES[module]]
)
def test_the_first_example_of_an_answer_runs(module: str, name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(sys.modules[module], name)
    eval(code_in(str(caught.value))[0], {"pb": pb, "x": pb.ones((4, 2))})


# What has misled people: (name, what must not be suggested).
MISLEADING = {
    "no_grad": "tanh_gradient",
    "load": "logaddexp",
    "nn": "nan",
    "utils": "tril",
    "constant": "state",
    "randint": "random_bits",
}


@pytest.mark.parametrize("name", MISLEADING)
def test_no_suggestion_misleads(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(pb, name)
    assert MISLEADING[name] not in str(caught.value)
    assert "; " in str(caught.value)
    assert close_names(name, pb.__all__) == []


@pytest.mark.parametrize(
    ("module", "name", "suggested"),
    [
        ("pullback", "vector_norm", "pb.linalg.vector_norm"),
        ("pullback", "Adam", "pb.optimizers.Adam"),
        ("pullback", "hinge", "pb.losses.hinge"),
        ("pullback", "rfft", "pb.fft.rfft"),
        ("pullback", "Dataset", "pb.data.Dataset"),
        ("pullback", "sigmiod", "pb.sigmoid"),
        ("pullback", "adam_update", "pb.ops.adam_update"),
        ("pullback", "cat", "pb.concat"),
        ("pullback.layers", "Dens", "pb.layers.Dense"),
        ("pullback.layers", "Conv2d", "pb.layers.Conv2D"),
        ("pullback.layers", "Batchnorm", "pb.layers.BatchNormalization"),
        ("pullback.metrics", "Precison", "pb.metrics.Precision"),
    ],
)
def test_names_are_found_by_spelling_and_in_other_modules(
    module: str, name: str, suggested: str
) -> None:
    with pytest.raises(AttributeError, match=re.escape(suggested)):
        getattr(sys.modules[module], name)


def test_a_name_like_nothing_gets_no_suggestion() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'xyzzy'$"):
        pb.xyzzy  # noqa: B018


def test_errors_of_modules_are_attribute_errors_to_others() -> None:
    with pytest.raises(AttributeError) as caught:
        pb.xyzzy  # noqa: B018
    assert type(caught.value).__name__ == "MissingName"
    assert type(caught.value).__qualname__ == "AttributeError"
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is AttributeError
    assert str(again) == str(caught.value)


WRONG_CALLS = {
    "pb.optimizers.Adam(lr=0.1)": "Adam() got an unexpected keyword argument 'lr'; write `learn",
    "pb.optimizers.Adam(betas=(0.9, 0.99))": "write `beta1=` and `beta2=`",
    "pb.optimizers.SGD(eps=1)": "SGD() got an unexpected keyword argument 'eps'; it takes learn",
    "pb.optimizers.Adam(lerning_rate=1)": "did you mean learning_rate=?",
    "pb.layers.GRU(3, linear_before_reset=0)": "write `reset_after=`",
    "pb.layers.Conv2D(8, 3, dilation_rate=2)": "write `dilation=`",
    "pb.layers.MultiHeadAttention(2, key_dim=8)": "write `head_dim=`",
    "pb.layers.Embedding(5, 2, padding_idx=0)": "write `mask_zero=`",
    "pb.layers.Embedding(num_embeddings=5, embedding_dim=2)": (
        "'num_embeddings'; write `input_dim=`, and 'embedding_dim'; write `output_dim=`"
    ),
    "pb.layers.LSTM(8, 16)": "write `pb.layers.LSTM(64)`: the size of the inputs comes from",
    "pb.layers.Flatten(3)": "Flatten() takes 1 positional argument but 2 were given; write",
    "pb.Sequential(pb.layers.Dense(1), pb.layers.Dense(2))": "write `pb.Sequential([",
    "pb.metrics.Precision(thresholds=0.3)": "write `threshold=`",
    "pb.metrics.Mean(nme='x')": "did you mean name=?",
    "pb.callbacks.EarlyStopping(foo=1)": "EarlyStopping() got an unexpected keyword argument 'foo'",
    "pb.callbacks.ReduceLearningRateOnPlateau(min_lr=0.1)": "write `min_rate=`",
    "pb.data.Dataset.range(3).map(len, num_parallel_calls=2)": "write `parallel=`",
    "pb.data.Dataset.range(3).batch(3, drop_last=True)": "write `drop_remainder=`",
    "pb.losses.huber([1.0], [1.0], from_logits=True)": "leave it out: cross entropies take logits",
    "pb.data.Dataset.from_tensor_slices([1.0], [2.0])": "from_tensor_slices((x, y))`, one tuple",
    "pb.grad(pb.ones(()), pb.ones(()))": "got Tensor; write pb.grad(f)(x), or tape.gradient(y, x)",
    "pb.ones(3).to(pb.float64)": "a dtype is changed by x.astype(pb.float32)",
    "pb.Variable(1.0, requires_grad=False)": "write `trainable=`",
    "pb.tensor([1.0])": "write `pb.asarray(x)`",
    "pb.Sequential([]).compile('adam', loss_fn='mse')": "write `loss=`",
    "pb.function(len, jit_compile=True)": "leave it out: a program is compiled as well",
    "pb.function(input_signature=[])": "`limit=` says for how many",
    "pb.vmap(len, in_dims=0)": "write `in_axes=`",
    "pb.vmap(len, chunk_size=3)": "write `pb.map(f, xs, batch_size=64)`",
    "pb.grad(len, argnum=0)": "write `argnums=`",
    "pb.value_and_grad(len, argnum=0)": "write `argnums=`",
    "pb.optimizers.schedules.cosine_decay(0.1, decay_steps=9)": "write `steps=`",
    "pb.optimizers.schedules.cosine_decay(0.1, 9, eta_min=0.01)": "write `final=`",
    "pb.optimizers.RMSprop(alpha=0.9)": "write `rho=`",
    "pb.callbacks.Checkpoint('run', save_best_only=True)": "write `keep_best=`",
    "pb.callbacks.Checkpoint('run', seed=3)": "neither a setting nor an object with state",
    "pb.ones((2, 3, 4)).repeat(2, 1, 1)": "write pb.tile(x, (2, 1, 1))",
    "pb.ones((2, 3)).reshape(None, -1)": "write -1 for one size",
    "pb.Input((2, 3)).reshape(None, -1)": "pb.layers.Flatten()",
    "pb.Sequential([]).fit([1.0], workers=3)": "pb.data.Dataset.map(f, parallel=4",
}


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_wrong_keywords_say_what_to_write(call: str) -> None:
    with pytest.raises(TypeError) as caught:
        eval(call)
    assert WRONG_CALLS[call] in str(caught.value)
    assert isinstance(caught.value, pb.errors.InputTypeError)


def test_a_layer_of_ones_own_is_named_in_the_error() -> None:
    class Own(pb.layers.Layer):
        def __init__(self, width: int = 3, **options: Any) -> None:
            super().__init__(**options)

    with pytest.raises(TypeError, match=r"Own\(\) got an unexpected keyword argument 'foo'; it ta"):
        Own(foo=3)


def test_a_type_error_inside_a_constructor_is_left_alone() -> None:
    class Own(pb.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            len(3)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match=r"^object of type 'int' has no len\(\)$"):
        Own()


def test_import_loads_no_table_but_that_of_tensors() -> None:
    program = (
        "import sys, pullback as pb; hasattr(pb, 'tensr'), getattr(pb, 'nn', None); "
        "print(*[name for name in sys.modules if '_foreign_names' in name or name == 'difflib' "
        "or name == 'pullback.layers'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["pullback._foreign_names", "pullback._foreign_names.tensors"]


OP_CALLS = {
    "pb.sum(x, dim=0)": "sum() got an unexpected keyword argument 'dim'; write `axis=`",
    "pb.mean(x, keepdim=True)": "write `keepdims=`",
    "pb.std(x, ddof=1)": "write `correction=`",
    "pb.concat([x, x], dim=0)": "write `axis=`",
    "pb.relu(x, inplace=True)": "it takes no keyword arguments",
    "pb.softmax(x, axes=0)": "write `axis=`",
    "pb.clip(x, 0, 1, out=x)": "leave it out: tensors do not change",
}


def test_first_calls_of_ops_say_what_to_write() -> None:
    # An op refuses unknown keywords itself until its code is specialized, after the first call.
    program = f"""
import pullback as pb
x = pb.asarray([1.0, 2.0])
for call in {list(OP_CALLS)!r}:
    for _ in range(2):
        try:
            eval(call)
        except TypeError as error:
            print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    for number, message in enumerate(OP_CALLS.values()):
        assert message in lines[2 * number]
        assert lines[2 * number] == lines[2 * number + 1]


def test_wrong_keywords_of_ops_inside_a_layer_are_answered_with_the_layer() -> None:
    class Torchlike(pb.layers.Layer):
        def call(self, x: pb.Tensor) -> pb.Tensor:
            return pb.sum(x, dim=0)  # type: ignore[call-arg]

    pb.sum(pb.ones(3))
    with pytest.raises(TypeError, match="'dim'") as caught:
        Torchlike()(pb.ones(3))
    assert str(caught.value).startswith("torchlike (Torchlike): sum() got an unexpected keyword")
    assert str(caught.value).endswith("write `axis=`")


#: What a suggestion stands for where it is not NumPy's function of one matrix.
NUMPY = {
    "concatenate": "np.concatenate([x, y], axis=0)",
    "vstack": "np.vstack([x, y])",
    "row_stack": "np.vstack([x, y])",
    "hstack": "np.hstack([x, y])",
    "dstack": "np.dstack([x, y])",
    "column_stack": "np.column_stack([x, y])",
    "swapaxes": "np.swapaxes(x, 0, 1)",
    "dot": "np.dot(x, y)",
    "inner": "np.inner(x, y)",
    "kron": "np.kron(x, y)",
    "outer": "np.outer(x, y)",
    "amax": "np.amax(x, axis=0)",
    "amin": "np.amin(x, axis=0)",
    "allclose": "np.allclose(x, y)",
    "cumsum": "np.cumsum(x, axis=0)",
    "cumprod": "np.cumprod(x, axis=0)",
    "power": "np.power(x, 2)",
    "float_power": "np.float_power(x, 2)",
    "mod": "np.mod(x, 3)",
    "arctan2": "np.arctan2(y, x)",
    "left_shift": "np.left_shift(x, 1)",
    "right_shift": "np.right_shift(x, 1)",
    "percentile": "np.percentile(x, 50)",
    "nanpercentile": "np.percentile(x, 50)",
    "append": "np.append(x, y, axis=0)",
    "insert": "np.insert(x, 1, y, axis=0)",
    "delete": "np.delete(x, 1, axis=0)",
    "array_split": "np.array_split(x, (1, 3))",
    "vsplit": "np.vsplit(x, 2)",
    "hsplit": "np.hsplit(x, 2)",
    "dsplit": "np.dsplit(x, 2)",
    "interp": "np.interp(x, xp, fp)",
    "partition": "np.sort(x)[:, :-4:-1]",
    "argpartition": "np.sort(x)[:, :-4:-1]",
    "mgrid": "np.meshgrid(x, y)",
    "ogrid": "np.meshgrid(x, y)",
    "true_divide": "np.true_divide(x, y)",
    "gather": "np.take_along_axis(x, indices, axis=0)",
}
#: Arguments of another kind than matrices of different numbers, by the name of the function.
INTEGERS = np.array([[3, 1, 2, 0], [1, 0, 3, 2], [2, 2, 0, 1], [0, 3, 1, 3]], np.int32)
VECTORS = {"x": np.array([3.0, 1.0, 4.0]), "y": np.array([2.0, 7.0, 1.0])}
OTHER = {
    **{name: {"x": INTEGERS} for name in ("invert", "bitwise_not", "left_shift", "right_shift")},
    **{name: VECTORS for name in ("outer", "mgrid", "ogrid")},  # noqa: C420
    "bincount": {"x": INTEGERS.reshape(-1)},
    **{
        name: {"x": np.array([[1.0, np.nan], [5.0, 2.0]])}
        for name in ("nansum", "nanmean", "nanmax", "nanmin", "nan_to_num")
    },
    "dsplit": {"x": np.arange(24.0).reshape(2, 3, 4)},
    "diag": {"x": np.array([3.0, 1.0, 4.0])},
    "arccosh": {"x": np.array([1.5, 2.0])},
    "interp": {"xp": np.array([0.0, 1.0]), "fp": np.array([5.0, 7.0])},
}
#: Not values of an array: types, random numbers, states, files.
WITHOUT_VALUE = {
    "array", "save", "savez", "load", "random", "ndarray", "shuffle", "normal", "uniform",
    "half", "double", "long", "int", "float", "dtype", "float_", "vectorize", "apply_along_axis",
    "fromfunction", "copy", "range", "fill", "identity", "compile", "trace",
}  # fmt: skip


def _numpy_functions() -> dict[str, str]:
    return {
        name: text
        for names, text in functions.FUNCTIONS.items()
        for name in names.split()
        if (name in NUMPY or callable(getattr(np, name, None))) and name not in WITHOUT_VALUE
    }


@pytest.mark.parametrize("name", _numpy_functions())
def test_what_is_suggested_for_a_function_of_numpy_has_its_value(name: str) -> None:
    rng = np.random.default_rng(3)
    arrays = {"x": rng.uniform(0.1, 0.9, (4, 4)), "y": rng.uniform(0.1, 0.9, (4, 4))}
    arrays |= {"indices": INTEGERS, **OTHER.get(name, {})}
    tensors_ = {key: pb.asarray(array) for key, array in arrays.items()}
    code = code_in(_numpy_functions()[name])[0]
    found = eval(code, {"pb": pb, "np": np, **tensors_})
    expected = eval(NUMPY.get(name, f"np.{name}(x)"), {"np": np, **arrays})
    if name in ("partition", "argpartition"):
        found = found[0]  # and the indices
    several = isinstance(expected, (list, tuple))
    for one, other in zip(
        found if several else [found], expected if several else [expected], strict=True
    ):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-6, err_msg=code)
