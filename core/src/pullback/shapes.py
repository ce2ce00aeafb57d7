"""Pure functions of shapes: canonical axes, and the shape rules that op definitions name.

A shape rule gets the shapes of an op's inputs in order (None for an absent optional input, a list
for a sequence of inputs) and its attributes as keywords. It returns the shape of the result, or a
list of shapes for several results; None stands for a shape that depends on the data.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from types import NoneType
from typing import Annotated, Any, Final, NoReturn, ParamSpec, TypeAlias, TypeVar

from pullback import errors
from pullback._symbols import DrawnInt

Shape: TypeAlias = "tuple[int, ...]"
# What a caller may pass as a shape, an axis, several axes; kernels get them in canonical form.
# Their names are part of them: `@op` tells them apart.
ShapeLike: TypeAlias = Annotated[int | Sequence[int], "ShapeLike"]
Axis: TypeAlias = Annotated[int, "Axis"]
Axes: TypeAlias = Annotated[int | Sequence[int] | None, "Axes"]
# Several count as one, whose elements are all of theirs in C order: kernels get an int.
JoinedAxes: TypeAlias = Annotated[int | Sequence[int] | None, "JoinedAxes"]
P = ParamSpec("P")
R = TypeVar("R")

ShapeRule: TypeAlias = "Callable[..., Shape | list[Shape] | None]"


def as_int(value: Any, expected: str = "an integer") -> int:
    """`value` as an int, from anything with `__index__`; messages say what is `expected`.

    Raises:
        InputTypeError: for floats and other types that are not integers.
    """
    if type(value) is DrawnInt:
        return value  # `index` would make a plain int of it
    try:
        return operator.index(value)
    except TypeError:
        raise errors.InputTypeError(
            f"{expected} is expected, got {value!r} of type {type(value).__name__}"
        ) from None


def as_ints(values: Any, name: str) -> tuple[int, ...]:
    """`values` as a tuple of ints; messages call them `name`.

    Raises:
        InputTypeError: for anything but a sequence of integers.
    """
    if type(values) is tuple and {*map(type, values)} == {int}:
        return values
    if isinstance(values, (str, bytes)) or not hasattr(type(values), "__iter__"):
        raise errors.InputTypeError(
            f"{name} must be a sequence of integers, got {values!r} of type {type(values).__name__}"
        )
    if getattr(values, "shape", None) == ():
        values = (values,)  # a scalar of a library whose scalars have the methods of its arrays
    return tuple(as_int(value, f"{name}: an integer") for value in values)


def check_number(value: object, name: str) -> None:
    """Checks that a value is a real number, such as 0.5; messages call it `name`.

    Raises:
        InputTypeError: for anything else.
    """
    is_scalar = hasattr(type(value), "__float__") and getattr(value, "shape", ()) == ()
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if not isinstance(value, (int, float)) and (not is_scalar or kind in "OUSc"):
        raise errors.InputTypeError(
            f"{name} must be a number, got {value!r} of type {type(value).__name__}"
        )


def as_count(value: Any, name: str) -> int:
    """`value` as an int that is at least 1; messages call it `name`.

    Raises:
        InputTypeError: for floats and other types that are not integers.
        InputValueError: for 0 and less.
    """
    number = as_int(value, f"{name}: an integer")
    if number < 1:
        raise errors.InputValueError(f"{name}: 1 or more is expected, got {number}")
    return number


def check_choice(value: object, name: str, choices: Collection[object]) -> None:
    """Checks that a setting is one of some words, or None; messages call it `name`.

    Raises:
        InputValueError: for anything else.
    """
    if not isinstance(value, (str, NoneType)) or value not in choices:
        *most, last = map(repr, choices)
        raise errors.InputValueError(f"{name} must be {', '.join(most)} or {last}, got {value!r}")


def shape_first(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a method that draws numbers of a shape, followed by parameters of a distribution.

    NumPy has the shape last, and some of its calls would be read as others: `normal(0, 1, (2, 3))`,
    `normal(2, 3)`. What can be read both ways raises, and names both ways to write it.
    """
    code = function.__code__
    name, parameters = code.co_name, code.co_varnames[2 : code.co_argcount]

    @functools.wraps(function)
    def draw(*args: P.args, **kwargs: P.kwargs) -> R:
        given = args[1:]
        # A shape beside numbers is a tuple or a list; a number alone is a size.
        if given and not isinstance(given[0], (tuple, list)):
            several = len(given) > 1 or not hasattr(given[0], "__index__")
            if several and given[0] is not None:
                _raise_shape_first(name, parameters, given)
        elif any(isinstance(value, (tuple, list)) for value in given[1:]):
            _raise_shape_first(name, parameters, given)
        return function(*args, **kwargs)

    return draw


def _raise_shape_first(name: str, parameters: Sequence[str], given: Sequence[Any]) -> NoReturn:
    shape, numbers = (), given
    if len(given) > 1 and (len(given) > len(parameters) or isinstance(given[-1], (tuple, list))):
        *numbers, shape = given
    call = ", ".join(map(_shown, given))
    pairs = zip(parameters, numbers, strict=False)
    named = ", ".join(f"{key}={_shown(value)}" for key, value in pairs)
    raise errors.InputTypeError(
        f"{name}({call}): the shape comes first, as a tuple, and NumPy has it last; write "
        f"{name}({shape!r}, {named})"
    )


def _shown(value: Any) -> str:
    plain = isinstance(value, (int, float, tuple, list))
    return repr(value) if plain else type(value).__name__.lower()


def as_shape(value: Any) -> Shape:
    """A shape from an int or a sequence of ints.

    >>> as_shape(3)
    (3,)

    Raises:
        ShapeError: for negative sizes.
        InputTypeError: for sizes that are not integers.
    """
    if type(value) is tuple:
        for size in value:
            if type(size) is not int or size < 0:
                break
        else:
            return value
    elif isinstance(value, (str, bytes, Mapping, Set)):
        raise errors.InputTypeError(f"a shape is an integer or a sequence of them, got {value!r}")
    else:
        is_one = not isinstance(value, Iterable) or getattr(value, "shape", None) == ()
        value = (value,) if is_one else tuple(value)
    shape = tuple([as_int(size, "an integer size in a shape") for size in value])
    if shape and min(shape) < 0:
        raise errors.ShapeError(f"sizes in a shape must not be negative, got {shape}")
    return shape


def canonical_axis(axis: Any, ndim: int) -> int:
    """The non-negative form of one axis of an array of `ndim` dimensions.

    >>> canonical_axis(-1, 3)
    2

    Raises:
        AxisError: for an axis outside [-ndim, ndim).
    """
    value = axis if type(axis) is int else as_int(axis, "an integer axis")
    if 0 <= value < ndim:
        return value
    if -ndim <= value < 0:
        return value + ndim
    raise errors.AxisError(f"axis {value} is out of bounds for array of dimension {ndim}")


def canonical_axes(axes: Any, ndim: int) -> Shape | None:
    """Sorted non-negative axes from an int or a sequence of ints; None means all axes.

    Raises:
        AxisError: for an axis outside [-ndim, ndim), or one named twice.
    """
    if axes is None:
        return None
    if not isinstance(axes, (tuple, list)):
        return (canonical_axis(axes, ndim),)
    canonical = [
        axis if type(axis) is int and 0 <= axis < ndim else canonical_axis(axis, ndim)
        for axis in axes
    ]
    canonical.sort()
    for first, second in itertools.pairwise(canonical):
        if first == second:
            raise errors.AxisError(f"axis {first} is named twice in {tuple(axes)}")
    return tuple(canonical)


def size_of(shape: Iterable[int]) -> int:
    """The number of elements of an array of `shape`."""
    size = 1
    for length in shape:
        size *= length
    return size


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that all shapes broadcast to (array API standard, broadcasting).

    >>> broadcast_shapes((3, 1), (2,))
    (3, 2)

    Raises:
        ShapeError: for shapes that do not fit.
    """
    shapes = tuple([s if type(s) is tuple else as_shape(s) for s in shapes])
    ndim = max((len(shape) for shape in shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        offset = ndim - len(shape)
        for position, size in enumerate(shape):
            before = result[offset + position]
            if before == 1:
                result[offset + position] = size
            elif size not in (1, before):
                listed = " and ".join(str(s) for s in shapes)
                raise errors.ShapeError(
                    f"shapes {listed} cannot be broadcast together; sizes at the same position "
                    f"from the right must be equal or 1"
                )
    return tuple(result)


def reduced(shape: Shape, axes: Shape | None, keepdims: bool) -> Shape:
    """The shape after a reduction over canonical `axes`."""
    if keepdims:
        return tuple(1 if axes is None or axis in axes else size for axis, size in enumerate(shape))
    if axes is None:
        return ()
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


# ---------------------------------------------------------------------------------------------
# Shape rules.


def broadcast(*inputs: Shape | None, **_: object) -> Shape:
    """All inputs broadcast together."""
    return broadcast_shapes(*[shape for shape in inputs if shape is not None])


def first(x: Shape, *_: object, **__: object) -> Shape:
    """The result has the shape of the first input."""
    return x


def reduce(x: Shape, *_: object, axis: Any = None, keepdims: bool = False, **__: object) -> Shape:
    """A reduction over `axis`."""
    axes = (axis,) if isinstance(axis, int) else axis
    return reduced(x, axes, keepdims)


def matmul(x1: Shape, x2: Shape, **_: object) -> Shape:
    """Matrix product of stacks, with vectors as in the array API standard."""
    if not x1 or not x2:
        raise errors.ShapeError(f"0-d arrays have no matrix product, got {x1} and {x2}")
    left = (1, *x1) if len(x1) == 1 else x1
    right = (*x2, 1) if len(x2) == 1 else x2
    if left[-1] != right[-2]:
        raise errors.ShapeError(
            f"inner sizes differ: {x1} @ {x2} ({left[-1]} and {right[-2]}); "
            f"transpose one with x.mT, or check the sizes"
        )
    batch = broadcast_shapes(left[:-2], right[:-2])
    rows = left[-2:-1] if len(x1) > 1 else ()
    columns = right[-1:] if len(x2) > 1 else ()
    return (*batch, *rows, *columns)


def shape_attribute(*_: object, shape: Shape, **__: object) -> Shape:
    """The result has the shape of the attribute `shape`."""
    return shape


def data_dependent(*_: object, **__: object) -> None:
    """The shape of the result depends on the data."""
    return


class Checked:
    """The `normalize` of an op whose kernels would take shapes that its rule does not allow.

    The attributes stay as they are, so specialized code calls the rule itself.
    """

    __slots__ = ("rule",)

    def __init__(self, rule: ShapeRule) -> None:
        self.rule: Final = rule

    def __call__(self, shapes: tuple[Any, ...], /, **attributes: Any) -> dict[str, Any]:
        """Returns the attributes, after the rule has seen them."""
        self.rule(*shapes, **attributes)
        return attributes


def checked(rule: ShapeRule) -> Checked:
    """The `normalize` of an op whose kernels would take shapes that its rule does not allow."""
    return Checked(rule)


def permuted(shape: Shape, axes: Sequence[int]) -> Shape:
    """The shape after a permutation of the axes."""
    return tuple(shape[axis] for axis in axes)


# ---------------------------------------------------------------------------------------------
# Images and sliding windows: for shape rules, and for kernels of convolution and pooling.

#: (before, after) for each spatial dimension.
Pads: TypeAlias = "tuple[tuple[int, int], ...]"
#: By the mode of `pad`: the index into an axis of `size` for position i of the padded axis, which
#: starts below 0.
PAD_SOURCES: dict[str, Callable[[int, int], int]] = {
    "edge": lambda i, size: min(max(i, 0), size - 1),
    "reflect": lambda i, size: size - 1 - abs(i % max(2 * (size - 1), 1) - (size - 1)),
    "symmetric": lambda i, size: min(i % (2 * size), -(i + 1) % (2 * size)),
    "wrap": lambda i, size: i % size,
}


def output_sizes(
    spatial: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
) -> Shape:
    """The number of windows that fit along each spatial dimension; 0 where they are too large.

    >>> output_sizes((28, 28), (5, 5), (2, 2), ((0, 0), (2, 2)), (1, 1))
    (12, 14)
    """
    return tuple(
        max(0, (size + low + high - step * (width - 1) - 1) // stride + 1)
        for size, width, stride, (low, high), step in zip(
            spatial, window, strides, padding, dilation, strict=True
        )
    )


def spatial_of(shape: Shape, data_format: str) -> Shape:
    """The sizes of the spatial dimensions of a batch of images.

    >>> spatial_of((8, 3, 32, 48), "channels_first")
    (32, 48)
    """
    return shape[1:-1] if data_format == "channels_last" else shape[2:]


def channels_of(shape: Shape, data_format: str) -> int:
    """The number of channels of a batch of images.

    >>> channels_of((8, 32, 48, 3), "channels_last")
    3
    """
    return shape[-1 if data_format == "channels_last" else 1]


def image_shape(batch: int, spatial: Shape, channels: int, data_format: str) -> Shape:
    """The shape of a batch of images.

    >>> image_shape(8, (32, 48), 3, "channels_first")
    (8, 3, 32, 48)
    """
    if data_format == "channels_last":
        return (batch, *spatial, channels)
    return (batch, channels, *spatial)


def channels_last_shape(shape: Any, data_format: str) -> Shape:
    """The shape of the same images with their channels last.

    >>> channels_last_shape((8, 3, 32, 48), "channels_first")
    (8, 32, 48, 3)
    """
    return shape if data_format == "channels_last" else (shape[0], *shape[2:], shape[1])
