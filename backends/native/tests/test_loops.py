"""Arguments of the loops: by name, checked, each passed once."""

import numpy as np
import pytest

from pullback_native import _native

rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape, np.float32)


def pooled(**changes):
    """The arguments of a loop, by name: 2x2 windows of a 4x4 image of one channel."""
    sizes = {"height": 4, "width": 4, "channels": 1, "pad_top": 0, "pad_left": 0}
    sizes |= dict.fromkeys(
        ("out_height", "out_width", "window_height", "window_width", "stride_height"), 2
    )
    sizes["stride_width"] = 2
    y = np.empty((1, 2, 2, 1), np.float32)
    arrays = {"x": normal(1, 4, 4, 1), "y": y, "indices": y.astype(np.int32)}
    return {**sizes, **arrays, **changes}


def test_a_loop_takes_its_arguments_by_name():
    names = _native.FIELDS["max_pool"]
    arguments = pooled()
    assert sorted(names) == sorted(arguments)
    expected = arguments["x"].reshape(2, 2, 2, 2).max((1, 3))
    number = _native.LOOPS["max_pool"]
    assert _native.run(number, 2, 1, 1.0, **arguments) == 0
    np.testing.assert_array_equal(arguments["y"].reshape(2, 2), expected)
    # Some of them in a dict, in any order.
    mixed = {name: arguments.pop(name) for name in reversed(names[3:8])}
    arguments["y"].fill(0)
    assert _native.run(number, 2, 1, 1.0, mixed, **arguments) == 0
    np.testing.assert_array_equal(arguments["y"].reshape(2, 2), expected)
    assert all("status" not in names for names in _native.FIELDS.values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": normal(1, 4, 4, 2)[..., :1]}, "'x' is not contiguous"),
        ({"x": np.zeros((1, 4, 4, 1))}, "'x' must be an array of float32, got .*float64"),
        ({"indices": np.zeros(4, np.int64)}, "'indices' must be an array of int32, got .*int64"),
        ({"y": np.broadcast_to(np.float32(0), (1, 1, 1, 1))}, "'y' is written"),
        ({"x": [1.0]}, "'x' must be an array or None, got <class 'list'>"),
        ({"height": 4.0}, "integer"),
        ({"tiled": 1}, "no argument 'tiled'"),
        ({"height": None}, "integer"),
    ],
)
def test_wrong_arguments_of_a_loop(changes, message):
    with pytest.raises(TypeError, match=message):
        _native.run(_native.LOOPS["max_pool"], 2, 1, 1.0, **pooled(**changes))


def test_a_loop_takes_all_its_arguments_once():
    number, arguments = _native.LOOPS["max_pool"], pooled()
    with pytest.raises(TypeError, match="'width' is passed twice"):
        _native.run(number, 2, 1, 1.0, {"width": 4}, **arguments)
    del arguments["width"]
    with pytest.raises(TypeError, match="the argument 'width' is missing"):
        _native.run(number, 2, 1, 1.0, **arguments)
    for call in ((number, 2, 1), (number, 2, 1, 1.0, 4), (number, 2, 1, 1.0, {}, {})):
        with pytest.raises(TypeError, match=r"run\(loop, count, grain, cost"):
            _native.run(*call)
    for loop, grain in ((-1, 1), (10**6, 1), (_native.LOOPS["tanh"], 1), (number, 0)):
        with pytest.raises(ValueError, match="FIELDS lists"):
            _native.run(loop, 1, grain, 1.0)
