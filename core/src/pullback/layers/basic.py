"""Dense, Embedding, Rescaling, and functions as layers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from pullback import dtypes, errors
from pullback._dispatch.arguments import as_bool
from pullback._masked import Masked
from pullback.layers.activations import ActivationLike, activation_of
from pullback.layers.initializers import InitializerLike
from pullback.layers.layer import Layer
from pullback.layers.masks import keep_mask, pass_mask
from pullback.layers.options import UNBUILT, LayerOptions
from pullback.layers.regularizers import RegularizerLike
from pullback.ops.indexing import take
from pullback.ops.linalg.einsum import einsum
from pullback.ops.linalg.linear_algebra import linear
from pullback.ops.manipulation import expand_dims
from pullback.ops.reductions import any as reduce_any
from pullback.ops.selection import where
from pullback.shapes import Shape, as_count, check_number
from pullback.tensor import Tensor
from pullback.variable import Variable

__all__ = ["Dense", "EinsumDense", "Embedding", "Lambda", "Masking", "Rescaling"]


class Dense(Layer):
    """activation(x @ kernel + bias) over the last axis; the product is `pb.linear`.

    Args:
        units: the size of the last axis of the result.
        activation: the name of an op, or a function.
        use_bias: whether there is a bias.
        kernel_initializer: the initializer of the kernel (inputs, units).
        bias_initializer: the initializer of the bias (units,).
        kernel_regularizer: a function of the kernel, whose value is added to the `losses`.
        options: see `Layer`; with `input_shape` the variables are made at once.

    >>> pb.layers.Dense(3)(pb.zeros((1, 1, 784))).shape
    (1, 1, 3)

    Raises:
        LayerError: for inputs whose last axis has another size than the first one's.
    """

    call_masked = keep_mask

    def __init__(
        self,
        units: int,
        activation: ActivationLike = None,
        *,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.units = as_count(units, "units")
        self.activation = activation_of(activation)
        self.use_bias = as_bool(use_bias, "use_bias")
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer = kernel_regularizer
        self.kernel: Variable = UNBUILT
        self.bias: Variable | None = None
        self._build_if_sized()

    def build(self, input_shape: Shape) -> None:
        """Makes the kernel and the bias."""
        if input_shape == ():
            raise errors.LayerError("inputs must have at least one axis, got shape ()")
        self.kernel = self.add_variable(
            "kernel",
            (input_shape[-1], self.units),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
        )
        if self.use_bias:
            self.bias = self.add_variable("bias", (self.units,), initializer=self.bias_initializer)

    def call(self, x: Tensor) -> Tensor:
        """Returns activation(x @ kernel + bias), shape (..., units)."""
        size = self.kernel.shape[0]
        if not x.ndim or x.shape[-1] != size:
            raise errors.LayerError(
                f"built for inputs with {size} values along the last axis, got shape {x.shape}"
            )
        y = linear(x, self.kernel, self.bias)
        return y if self.activation is None else self.activation(y)


class EinsumDense(Layer):
    """activation(einsum(equation, x, kernel) + bias): a dense layer over any axes.

    Args:
        equation: the equation of `pb.einsum`, with the axes of x, of the kernel and of the result:
            "abc,cx->abx"; "..." stands for axes at the beginning of x and of the result.
        output_shape: the sizes of the last axes of the result; None for an axis of x.
        activation: the name of an op, or a function.
        bias_axes: the axes of the result that the bias has, such as "x"; None for no bias.
        kernel_initializer: the initializer of the kernel.
        bias_initializer: the initializer of the bias.
        kernel_regularizer: a function of the kernel, whose value is added to the `losses`.
        options: see `Layer`.

    >>> layer = pb.layers.EinsumDense("...x,xhd->...hd", (4, 8), bias_axes="hd")
    >>> layer(pb.zeros((2, 5, 16))).shape, layer.kernel.shape, layer.bias.shape
    ((2, 5, 4, 8), (16, 4, 8), (4, 8))

    Raises:
        InputTypeError: for axes of the bias that are not a str.
        InputValueError: for an equation of another form, or a bias of axes that are not there.
        LayerError: for sizes that do not fit the equation.
    """

    def __init__(
        self,
        equation: str,
        output_shape: int | Sequence[int | None],
        activation: ActivationLike = None,
        *,
        bias_axes: str | None = None,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        parts = re.fullmatch(r"((?:\.\.\.)?)(\w+),(\w+)->((?:\.\.\.)?)(\w+)", str(equation))
        if parts is None or parts[1] != parts[4]:
            raise errors.InputValueError(
                f"equation must be such as 'abc,cx->abx' or '...c,cd->...d', got {equation!r}"
            )
        _, self._x, self._kernel, _, self._out = parts.groups()
        self.equation = str(equation)
        sizes = output_shape if isinstance(output_shape, Sequence) else (output_shape,)
        self.output_shape = tuple([None if n is None else as_count(n, "a size") for n in sizes])
        self.activation = activation_of(activation)
        self.bias_axes = bias_axes
        if not (bias_axes is None or isinstance(bias_axes, str)):
            raise errors.InputTypeError(
                f"bias_axes must be a str of axes of the result {self._out!r}, or None, got "
                f"{type(bias_axes).__name__}"
            )
        if not {*(bias_axes or "")} <= {*self._out}:
            raise errors.InputValueError(
                f"bias_axes must be axes of the result {self._out!r}, got {bias_axes!r}"
            )
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer = kernel_regularizer
        self.kernel: Variable = UNBUILT
        self.bias: Variable | None = None
        self._build_if_sized()

    def build(self, input_shape: Shape) -> None:
        """Makes the kernel and the bias."""
        if len(input_shape) < len(self._x):
            raise errors.LayerError(
                f"inputs must have the axes of {self.equation!r}, got shape {tuple(input_shape)}"
            )
        ends = zip(reversed(self._out), reversed(self.output_shape), strict=False)
        sizes = {letter: size for letter, size in ends if size is not None}
        for letter, size in zip(reversed(self._x), reversed(input_shape), strict=False):
            if sizes.setdefault(letter, size) != size:
                raise errors.LayerError(
                    f"axis {letter} of {self.equation!r} has size {sizes[letter]} in output_shape "
                    f"or in another axis, got shape {tuple(input_shape)}"
                )
        missing = {*self._kernel, *(self.bias_axes or "")} - {*sizes}
        if missing:
            raise errors.LayerError(
                f"the sizes of {', '.join(sorted(missing))} in {self.equation!r} are in neither "
                f"output_shape {self.output_shape} nor the inputs {tuple(input_shape)}"
            )
        self.kernel = self.add_variable(
            "kernel",
            [sizes[letter] for letter in self._kernel],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
        )
        if self.bias_axes:
            first = min(map(self._out.index, self.bias_axes))
            shape = [sizes[x] if x in self.bias_axes else 1 for x in self._out[first:]]
            self.bias = self.add_variable("bias", shape, initializer=self.bias_initializer)

    def call(self, x: Tensor) -> Tensor:
        """Returns activation(einsum(equation, x, kernel) + bias)."""
        y = einsum(self.equation, x, self.kernel)
        y = y if self.bias is None else y + self.bias
        return y if self.activation is None else self.activation(y)


class Embedding(Layer):
    """Rows of a table, selected by integers: word vectors and the like.

    Args:
        input_dim: the number of rows of the table.
        output_dim: the size of a row.
        mask_zero: whether 0 stands for padding: a call returns a `Masked`, whose mask is ids != 0.
        embeddings_initializer: the initializer of the table (input_dim, output_dim).
        options: see `Layer`.

    >>> pb.layers.Embedding(100, 8)([[3, 1, 4]]).shape
    (1, 3, 8)
    >>> model = pb.Sequential([pb.layers.Embedding(9, 4, mask_zero=True), pb.layers.LSTM(2)])
    >>> bool(pb.all(model([[3, 1, 0, 0]]) == model([[3, 1]])))
    True

    Raises:
        IndexingError: for an integer outside the table.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        *,
        mask_zero: bool = False,
        embeddings_initializer: InitializerLike = "uniform",
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.embeddings = self.add_variable(
            "embeddings",
            (as_count(input_dim, "input_dim"), as_count(output_dim, "output_dim")),
            initializer=embeddings_initializer,
            autocast=False,
        )
        self.mask_zero = as_bool(mask_zero, "mask_zero")
        self.built = True

    if TYPE_CHECKING:

        def __call__(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Any:
            """Returns a tensor or, with `mask_zero`, a `Masked`."""

    def call(self, ids: Tensor) -> Tensor | Masked:
        """Returns the rows, shape (*ids.shape, output_dim); with `mask_zero` as a `Masked`."""
        if dtypes.kind(ids.dtype) != dtypes.INT:
            raise errors.LayerError(f"inputs must be integers, row indices, got {ids.dtype}")
        rows = take(self.embeddings, ids, axis=0)
        # Mixed precision casts the selected rows only, not the whole table.
        rows = rows if self.compute_dtype == self.dtype else rows.astype(self.compute_dtype)
        return Masked(rows, ids != 0) if self.mask_zero else rows


class Masking(Layer):
    """The mask of the steps in which any feature differs from a number, which stands for padding.

    A call returns a `Masked`, whose values are 0 in the steps that are padding.

    Args:
        mask_value: the number.
        options: see `Layer`.

    >>> x = pb.layers.Masking(-1.0)([[[1.0, -1.0], [-1.0, -1.0]]])
    >>> x.mask.tolist(), x.values.tolist()
    ([[True, False]], [[[1.0, -1.0], [0.0, 0.0]]])
    """

    def __init__(self, mask_value: float = 0.0, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        check_number(mask_value, "mask_value")
        self.mask_value = mask_value

    if TYPE_CHECKING:

        def __call__(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Any:
            """Returns a `Masked`."""

    def call(self, x: Tensor) -> Masked:
        """Returns x (batch, time, ..., features) with its mask (batch, time, ...)."""
        exists = reduce_any(x != self.mask_value, axis=-1)
        return Masked(where(expand_dims(exists, axis=-1), x, 0), exists)


class Lambda(Layer):
    """Any function as a layer. Configurations can hold a named function, not a lambda.

    Args:
        function: the function, which is called with the inputs.
        options: see `Layer`.

    >>> pb.layers.Lambda(lambda x: x * 2.0)([1.0, 2.0]).tolist()
    [2.0, 4.0]
    """

    call_masked = pass_mask

    def __init__(self, function: Callable[..., Any], **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        if not callable(function):
            raise errors.InputTypeError(
                f"Lambda takes a function of its inputs, got {type(function).__name__}"
            )
        self.function = function

    def call(self, *args: Any) -> Any:
        """Returns function(*args)."""
        return self.function(*args)


class Rescaling(Layer):
    """x * scale + offset, in the dtype of the layer: 1 / 255 brings images to [0, 1].

    Args:
        scale: the factor.
        offset: what is added.
        options: see `Layer`.

    >>> pb.layers.Rescaling(1 / 255)(pb.asarray([0, 255], dtype=pb.uint8)).tolist()
    [0.0, 1.0]
    """

    call_masked = keep_mask

    def __init__(self, scale: float, offset: float = 0.0, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        check_number(scale, "scale")
        check_number(offset, "offset")
        self.scale = float(scale)
        self.offset = float(offset)

    def call(self, x: Tensor) -> Tensor:
        """Returns x * scale + offset."""
        return x.astype(self.compute_dtype) * self.scale + self.offset
