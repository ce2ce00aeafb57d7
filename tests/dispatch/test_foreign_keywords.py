"""PyTorch's `dim` and `keepdim` are answered at every call, of ops and of methods."""

import inspect

import pytest

import pullback as pb
from pullback._dispatch.arguments import foreign_keywords
from pullback.spec import OPS

X = pb.ones((2, 3))
CALLS = {
    "sum": lambda **foreign: pb.sum(X, **foreign),
    "softmax": lambda **foreign: pb.softmax(X, **foreign),
    "argmax": lambda **foreign: pb.argmax(X, **foreign),
    "concat": lambda **foreign: pb.concat([X, X], **foreign),
    "vector_norm": lambda **foreign: pb.linalg.vector_norm(X, **foreign),
}


@pytest.mark.parametrize("name", CALLS)
def test_dim_is_answered_before_and_after_the_code_is_made(name):
    call = CALLS[name]
    for _ in range(3):
        with pytest.raises(pb.errors.InputTypeError, match=r"'dim'.*write `axis=`"):
            call(dim=0)
        call()


@pytest.mark.parametrize("value", [True, False, None])
def test_keepdim_is_answered_whatever_its_value(value):
    pb.mean(X)
    for call in (pb.mean, pb.max, pb.std, pb.all):
        with pytest.raises(pb.errors.InputTypeError, match="write `keepdims=`"):
            call(X, keepdim=value)


def test_an_argument_too_many_by_position_is_an_error_too():
    pb.softmax(X)
    with pytest.raises(pb.errors.InputTypeError, match=r"too many by position; write `axis=`"):
        pb.softmax(X, 0, None)


def test_dims_is_answered():
    pb.flip(X)
    with pytest.raises(pb.errors.InputTypeError, match="write `axis=`"):
        pb.flip(X, dims=0)


METHODS = ["sum", "mean", "prod", "var", "std", "max", "min", "argmax", "argmin", "any", "all"]


@pytest.mark.parametrize("x", [X, pb.Variable(X)], ids=["tensor", "variable"])
@pytest.mark.parametrize("name", [*METHODS, "squeeze", "cumsum", "cumprod", "sort", "argsort"])
def test_methods_answer_dim(name, x):
    for _ in range(2):
        with pytest.raises(pb.errors.InputTypeError, match=rf"{name}\(\).*'dim'; write `axis=`"):
            getattr(x, name)(dim=0)


@pytest.mark.parametrize("name", METHODS)
def test_methods_answer_keepdim(name):
    with pytest.raises(pb.errors.InputTypeError, match="write `keepdims=`"):
        getattr(X, name)(keepdim=True)


def test_other_methods_answer_every_keyword():
    with pytest.raises(pb.errors.InputTypeError, match="it takes axis, dtype, ddof, keepdims"):
        X.var(offset=1)
    with pytest.raises(pb.errors.InputTypeError, match="write `axis=`"):
        X.take([0], dim=1)
    with pytest.raises(pb.errors.InputTypeError, match="write `axis=`"):
        X.repeat(2, dim=1)


def test_every_public_op_with_an_axis_knows_them_and_no_other():
    assert foreign_keywords(OPS["sum"]) == ["dim", "keepdim"]
    assert foreign_keywords(OPS["softmax"]) == ["dim"]
    assert foreign_keywords(OPS["flip"]) == ["dim", "dims"]
    for name in ("add", "matmul", "relu", "linear", "softmax_gradient"):
        assert foreign_keywords(OPS[name]) == [], name


def test_help_shows_the_parameters_of_the_definition():
    pb.sum(X)
    assert [*inspect.signature(pb.sum).parameters] == ["x", "axis", "dtype", "keepdims"]


@pytest.mark.parametrize(
    "call",
    [
        lambda **foreign: pb.split(X, 2, **foreign),
        lambda **foreign: pb.unstack(X, **foreign),
        lambda **foreign: pb.repeat(X, 2, **foreign),
        lambda **foreign: pb.diff(X, **foreign),
        lambda **foreign: pb.one_hot([0, 1], 2, **foreign),
    ],
    ids=["split", "unstack", "repeat", "diff", "one_hot"],
)
def test_functions_that_are_no_ops_answer_it_too(call):
    with pytest.raises(pb.errors.InputTypeError, match="'dim'; write `axis=`"):
        call(dim=0)
    call(axis=0)


#: The ops whose keyword-only arguments can all be left out.
FURTHER = [
    op.name
    for op in OPS.values()
    if op.public and len(op.body.__kwdefaults__ or ()) == op.body.__code__.co_kwonlyargcount > 0
]


@pytest.mark.parametrize("name", FURTHER)
def test_a_keyword_given_by_position_is_named(name):
    op = OPS[name]
    code = op.body.__code__
    keyword = code.co_varnames[code.co_argcount]
    arguments = [X] * (code.co_argcount + 1)
    for _ in range(2):
        with pytest.raises(pb.errors.InputTypeError, match=f"by position.*{keyword}=.* by name"):
            op.function(*arguments)


def test_keywords_by_position_are_answered_as_people_write_them():
    for call, keyword in (
        (lambda: pb.leaky_relu(X, 0.2), "negative_slope"),
        (lambda: pb.pad(X, ((1, 1), (1, 1)), 5.0), "constant_values"),
        (lambda: pb.sum(X, 0, True), "keepdims"),
        (lambda: pb.one_hot(pb.asarray([1]), 3, "float32"), "dtype"),
        (lambda: pb.zeros((2,), "float32"), "dtype"),
        (lambda: pb.full((2,), 1, "float32"), "dtype"),
    ):
        with pytest.raises(pb.errors.InputTypeError, match=f"position.*{keyword}=.* by name"):
            call()
