"""NumPy's functions and ufuncs on what a tape records: the right gradient, or an error."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.special

import pullback as pb
from pullback import errors


def _calls():
    path = Path(__file__).with_name("numpy_calls.py")
    spec = importlib.util.spec_from_file_location("numpy_calls", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found.CALLS, found.MORE, found.NOT_ROUTED


CALLS, MORE, NOT_ROUTED = _calls()
X = np.array([[0.31, 0.72, 0.11], [0.84, 0.23, 0.97], [0.47, 0.66, 0.58]])

PAGE = Path(__file__).parents[2] / "docs" / "numpy.md"


def _listed():
    """The name of every function on the page, and the section that it stands in."""
    found = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        rows = [line for line in text.splitlines() if line.startswith("| ")]
        for name in re.findall(r"`([\w.]+)`", "\n".join(rows)):
            assert name not in found, f"np.{name} stands twice on the page"
            found[name] = title
    return found


LISTED = _listed()
SECTIONS = {
    "routed": "What tapes record",
    "constant": "What has no gradient",
    "error": "What computes on the host",
}
OTHERS = ("What makes an ndarray of everything", "What takes no tensors")


def functions():
    """The names of all functions and ufuncs of NumPy's namespace and of its `linalg`."""
    for prefix, module in (("", np), ("linalg.", np.linalg)):
        for name in sorted(module.__all__):
            one = getattr(module, name)
            if callable(one) and not isinstance(one, type):
                yield prefix + name


def leaves(result):
    """The results in tuples and lists."""
    if isinstance(result, (list, tuple)):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


def is_number(leaf):
    """True for what a gradient could be lost of."""
    if isinstance(leaf, pb.Tensor):
        return leaf.dtype.kind in "fc"
    return isinstance(leaf, (float, complex, np.ndarray, np.generic)) and (
        np.asarray(leaf).dtype.kind in "fcO"
    )


def numbers(result):
    return [leaf for leaf in leaves(result) if is_number(leaf)]


def weights(found):
    """Fixed weights of the parts of each result."""
    generator = np.random.default_rng(3)
    return [[generator.uniform(0.5, 1.5, np.shape(one)) for _ in "ri"] for one in found]


def loss(result):
    total = 0.0
    found = numbers(result)
    for one, (real, imaginary) in zip(found, weights(found), strict=True):
        total = total + (real * np.real(one)).sum()
        if one.dtype.kind == "c":
            total = total + (imaginary * np.imag(one)).sum()
    return total


def slope(call):
    """The gradient of the loss by finite differences of NumPy's own results."""
    found = np.zeros_like(X)
    for place in np.ndindex(*X.shape):
        step = np.zeros_like(X)
        step[place] = 1e-6
        found[place] = (loss(call(X + step)) - loss(call(X - step))) / 2e-6
    return found


def recorded(kind, call):
    """The result of a call on a watched tensor or variable, and the gradient of its loss."""
    x = pb.Variable(X) if kind == "variable" else pb.asarray(X)
    with pb.GradientTape() as tape:
        if kind == "tensor":
            tape.watch(x)
        result = call(x)
        total = loss(result) if numbers(result) else None
    # Of a loss that depends on nothing watched there is no gradient: it is 0.
    gradient = tape.gradient(total, x) if isinstance(total, pb.Tensor) else None
    return result, np.zeros_like(X) if gradient is None else gradient.numpy()


def agree(found, expected):
    for one, other in zip(leaves(found), leaves(expected), strict=True):
        if np.asarray(other).dtype.kind in "fciub":
            np.testing.assert_allclose(np.asarray(one), other, rtol=1e-9, atol=1e-12)


def outcome(kind, call):
    """The outcome of a call, checked for what it promises: "routed", "error" or "constant"."""
    expected = call(X.copy())
    try:
        result, gradient = recorded(kind, call)
    except (errors.TapeError, errors.InputTypeError) as error:
        assert "write" in str(error)  # noqa: PT017
        return "error"
    assert not [one for one in numbers(result) if not isinstance(one, pb.Tensor)]
    agree(result, expected)
    if not numbers(expected):
        return "constant"
    np.testing.assert_allclose(gradient, slope(call), rtol=1e-5, atol=1e-7)
    return "routed"


@pytest.mark.each("name", sorted(functions()))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_function_has_the_right_gradient_or_raises(name):
    assert name in LISTED, f"docs/numpy.md does not list np.{name}"
    if LISTED[name] in OTHERS:
        return
    assert name in CALLS, f"say in numpy_calls how np.{name} is called"
    # Tensors and variables alike.
    for kind in ("tensor", "variable"):
        assert SECTIONS[outcome(kind, CALLS[name])] == LISTED[name]


@pytest.mark.parametrize("kind", ["tensor", "variable"])
@pytest.mark.each("name", sorted(MORE))
def test_arguments_as_numpy_code_writes_them(name, kind):
    assert outcome(kind, MORE[name]) != "error"


@pytest.mark.parametrize("kind", ["tensor", "variable"])
@pytest.mark.each("name", sorted(NOT_ROUTED))
def test_arguments_without_an_equivalent(name, kind):
    call = NOT_ROUTED[name]
    with pytest.raises(errors.TapeError, match=r"^(np\.|the ufunc ).* computes on the host.*write"):
        recorded(kind, call)
    x = pb.Variable(X) if kind == "variable" else pb.asarray(X)
    agree(call(x), call(X))


WAYS_OUT = {
    **{name: getattr(np, name) for name in LISTED if LISTED[name] == OTHERS[0]},
    "fromiter": lambda x: np.fromiter(x[0], float),
    "asmatrix": lambda x: np.asarray(np.asmatrix(x)),
    "bmat": lambda x: np.asarray(np.bmat([[x, x]])),
    "full": lambda x: np.full((3, 3), x),
    "arange": lambda x: np.arange(x[0, 0]),
    "kaiser": lambda x: np.kaiser(3, x[0, 0]),
}


@pytest.mark.each("name", sorted(WAYS_OUT))
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_what_makes_an_array_of_everything_gives_a_constant(name):
    for kind in ("tensor", "variable"):
        result, gradient = recorded(kind, WAYS_OUT[name])
        assert isinstance(result, np.ndarray)
        assert not gradient.any()
        np.testing.assert_array_equal(result, WAYS_OUT[name](X))


@pytest.mark.each("name", sorted(CALLS))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_no_tape_records_is_answered_as_numpy_does(name):
    if name not in {*functions()}:
        return  # another version's
    try:
        found = CALLS[name](pb.asarray(X))
    except errors.InputTypeError as error:
        assert "would write into a tensor" in str(error)  # noqa: PT017
    else:
        agree(found, CALLS[name](X))


def test_a_tensor_is_added_to_an_array_in_place():
    total, x = np.ones(2), pb.asarray([1.0, 2.0])
    total += x
    assert type(total) is np.ndarray
    assert total.tolist() == [2.0, 3.0]
    with pb.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(errors.TapeError, match=r"np.add with out=.*write it without out="):
            total += x
        # A constant is no part of the tape.
        total += pb.stop_gradient(x)
    assert total.tolist() == [3.0, 5.0]


def test_a_ufunc_of_another_library_is_not_taken_for_numpys_of_its_name():
    x = pb.asarray([1.0, 2.0])
    assert scipy.special.expm1.__name__ == np.expm1.__name__
    assert type(scipy.special.expm1(x)) is np.ndarray
    assert type(np.expm1(x)) is pb.Tensor
    with pytest.raises(errors.TapeError, match=r"^the ufunc expm1 computes on the host"):
        pb.grad(lambda x: scipy.special.expm1(x)[0])(x)


def test_a_function_of_another_library_is_not_taken_for_numpys_of_its_name():
    dispatched = np._core.overrides.array_function_dispatch(lambda x: (x,), module="other")

    def sum(x):
        return np.sum(x) + 100

    assert dispatched(sum)(pb.asarray([1.0, 2.0])) == 103


def test_a_variable_that_no_tape_watches_is_a_constant():
    v = pb.Variable(X, trainable=False)
    with pb.GradientTape():
        assert type(np.spacing(v)) is np.ndarray
    with pb.GradientTape() as tape:
        tape.watch(v)
        with pytest.raises(errors.TapeError, match=r"np\.spacing"):
            np.spacing(v)


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        (lambda x: np.add(1.0, 2.0, out=x), "x = np.add"),
        (lambda x: np.add.at(x, [0], 1.0), "scatter_add"),
        (lambda x: np.copyto(x, 1.0), "broadcast_to"),
        (lambda x: np.sum(np.ones((2, 2)), 0, out=x), "x = np.sum"),
    ],
)
def test_nothing_writes_into_a_tensor(call, fix):
    with pytest.raises(errors.InputTypeError, match=fix):
        call(pb.asarray([1.0, 2.0]))


def test_arguments_that_numpy_does_not_take():
    with pytest.raises(TypeError, match="dim"):
        np.sum(pb.asarray(X), dim=0)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.argmax(x), lambda x: np.max(x), lambda x: np.abs(x), lambda x: np.add(x, x),
        lambda x: np.sort(x), lambda x: np.maximum.reduce(x),
    ],
)  # fmt: skip
def test_booleans_are_taken_as_numpy_takes_them(call):
    values = np.array([False, True, True])
    agree(call(pb.asarray(values)), call(values))


def test_dtypes_that_an_op_does_not_take_are_an_error_where_a_tape_records():
    x = pb.asarray([1j, 2.0])
    with pb.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(errors.DTypeError, match=r"sort: .*complex"):
            np.sort(x)
    assert np.sort(x).tolist() == [1j, 2.0]


def test_nan_and_infinities():
    values = np.array([1.0, np.nan, np.inf, -np.inf, np.nan, 2.0])
    parts = np.array([1 + 1j, complex(np.nan, 2), complex(np.inf, -np.inf), 3])
    for call in (np.unique, np.nan_to_num, np.max, np.sort, np.isfinite, np.nanmax, np.fmax.reduce):
        np.testing.assert_array_equal(call(pb.asarray(values)), call(values))
    np.testing.assert_array_equal(np.nan_to_num(pb.asarray(parts)), np.nan_to_num(parts))
    for call in (np.fmax, np.fmin, np.heaviside, np.fmod):
        with np.errstate(all="ignore"):
            expected = call(values, values[::-1])
            np.testing.assert_array_equal(
                call(pb.asarray(values), pb.asarray(values[::-1])), expected
            )


class Duck:
    """An array of another library, which takes NumPy's functions in its own way."""

    def __array_function__(self, function, types, args, kwargs):
        return f"duck's {function.__name__}"

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return f"duck's {ufunc.__name__}"


@pytest.mark.parametrize("x", [pb.asarray([1.0]), pb.Variable([1.0])], ids=["tensor", "variable"])
def test_arrays_of_other_libraries_get_their_turn(x):
    assert np.concatenate([x, Duck()]) == "duck's concatenate"
    assert np.add(x, Duck()) == "duck's add"


def test_like_makes_tensors():
    x = pb.asarray(X)
    for found in (np.ones(2, like=x), np.asarray([1.0, 1.0], like=x), np.eye(1, 2, like=x) + 1):
        assert type(found) is pb.Tensor


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "float32"])
def test_signbit_takes_what_numpy_takes(dtype):
    x = np.array([1, 0, 3] if dtype in ("bool", "uint8") else [1, 0, -3]).astype(dtype)
    for found in (pb.numpy.signbit(pb.asarray(x)), np.signbit(pb.asarray(x))):
        assert found.dtype == pb.bool
        np.testing.assert_array_equal(found.numpy(), np.signbit(x))
