"""The methods of tensors and variables that NumPy's arrays have, each the op of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never, SupportsIndex, cast

from pullback import dtypes, errors
from pullback._hints import check_keywords, reject_keywords
from pullback._operators import OPERATORS
from pullback.dtypes import DTypeLike
from pullback.shapes import Axes

if TYPE_CHECKING:
    from pullback.tensor import Tensor, TensorLike

#: The default of what PyTorch calls `axis` and `keepdims` in the method that is called most: a dict
#: of unknown keywords, as others have, would cost it a twentieth of its time.
_NOT_TAKEN: Never = cast("Never", ...)


class ArrayMethods:
    """NumPy's methods, with its order of arguments; results are tensors, and nothing changes."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def dtype(self) -> dtypes.DType:
            """The data type."""

        def __pullback_tensor__(self) -> Tensor: ...

    @property
    def real(self) -> Tensor:
        """The real part; real numbers as they are."""
        if dtypes.is_complex(self.dtype):
            return OPERATORS.real(self)
        return self.__pullback_tensor__()

    @property
    def imag(self) -> Tensor:
        """The imaginary part; 0 for real numbers."""
        if dtypes.is_complex(self.dtype):
            return OPERATORS.imag(self)
        return OPERATORS.numpy("zeros_like", self)

    # Forms ---------------------------------------------------------------------------------------

    def astype(self, dtype: DTypeLike, *, copy: bool = True) -> Tensor:
        """The values as another dtype (`pullback.astype`)."""
        return OPERATORS.astype(self, dtype, copy=copy)

    def copy(self) -> Tensor:
        """A copy."""
        return OPERATORS.asarray(self, copy=True)

    def reshape(self, *shape: Any) -> Tensor:
        """The values in another shape (`pullback.reshape`); sizes alone or as one sequence."""
        return OPERATORS.reshape(self, shape[0] if len(shape) == 1 else shape)

    def flatten(self, *unknown: Never) -> Tensor:
        """A copy of the values along one axis."""
        if unknown:
            raise errors.InputTypeError(
                "flatten() makes one axis of all; write x.reshape(x.shape[0], -1) to keep the first"
            )
        return OPERATORS.reshape(self, -1).__copy__()

    def ravel(self) -> Tensor:
        """The values along one axis."""
        return OPERATORS.reshape(self, -1)

    def squeeze(self, axis: Axes = None, **unknown: Never) -> Tensor:
        """The values without axes of size 1 (`pullback.squeeze`)."""
        if unknown:
            check_keywords(ArrayMethods.squeeze, unknown)
        return OPERATORS.squeeze(self, axis)

    def transpose(self, *axes: Any) -> Tensor:
        """The axes in another order: reversed, or as given, alone or as one sequence."""
        if len(axes) > 1 and {*map(type, axes)} == {int}:
            return OPERATORS.permute_dims(self, axes)
        order = axes[0] if len(axes) == 1 else axes or None
        return OPERATORS.numpy("transpose", self, order)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """The values with two axes in each other's place."""
        return OPERATORS.numpy("swapaxes", self, axis1, axis2)

    def repeat(
        self, repeats: Any, axis: int | None = None, *more: Never, **unknown: Never
    ) -> Tensor:
        """The elements repeated (`pullback.repeat`)."""
        if more:
            raise errors.InputTypeError(
                f"x.repeat(repeats, axis) repeats each element; for copies of the whole, as many "
                f"along each axis, write pb.tile(x, {(repeats, axis, *more)})"
            )
        if unknown:
            check_keywords(ArrayMethods.repeat, unknown)
        return OPERATORS.numpy("repeat", self, repeats, axis)

    def take(self, indices: TensorLike, axis: int | None = None, **unknown: Never) -> Tensor:
        """The elements at `indices`: of the flattened values, or along `axis`."""
        if unknown:
            check_keywords(ArrayMethods.take, unknown)
        return OPERATORS.numpy("take", self, indices, axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The diagonals of the matrices along two axes."""
        return OPERATORS.numpy("diagonal", self, offset, axis1, axis2)

    # Reductions ----------------------------------------------------------------------------------

    def sum(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        dim: Never = _NOT_TAKEN,
        keepdim: Never = _NOT_TAKEN,
    ) -> Tensor:
        """The sum over `axis` (`pullback.sum`)."""
        if dim is not ... or keepdim is not ...:
            reject_keywords(ArrayMethods.sum, dim=dim, keepdim=keepdim)
        return OPERATORS.sum(self, axis, dtype=dtype, keepdims=keepdims)

    def prod(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        **unknown: Never,
    ) -> Tensor:
        """The product over `axis` (`pullback.prod`)."""
        if unknown:
            check_keywords(ArrayMethods.prod, unknown)
        return OPERATORS.prod(self, axis, dtype=dtype, keepdims=keepdims)

    def mean(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        **unknown: Never,
    ) -> Tensor:
        """The mean over `axis` (`pullback.mean`)."""
        if unknown:
            check_keywords(ArrayMethods.mean, unknown)
        return OPERATORS.mean(_cast(self, dtype), axis, keepdims=keepdims)

    def var(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        *,
        ddof: float = 0,
        keepdims: bool = False,
        **unknown: Never,
    ) -> Tensor:
        """The variance over `axis`; `ddof` is the `correction` of `pullback.var`."""
        if unknown:
            check_keywords(ArrayMethods.var, unknown)
        x = _cast(self, dtype)
        return OPERATORS.var(x, axis, correction=ddof, keepdims=keepdims)

    def std(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        *,
        ddof: float = 0,
        keepdims: bool = False,
        **unknown: Never,
    ) -> Tensor:
        """The standard deviation over `axis`; `ddof` is the `correction` of `pullback.std`."""
        if unknown:
            check_keywords(ArrayMethods.std, unknown)
        x = _cast(self, dtype)
        return OPERATORS.std(x, axis, correction=ddof, keepdims=keepdims)

    def max(self, axis: Axes = None, *, keepdims: bool = False, **unknown: Never) -> Tensor:
        """The largest value over `axis` (`pullback.max`)."""
        if unknown:
            check_keywords(ArrayMethods.max, unknown)
        return OPERATORS.max(self, axis, keepdims=keepdims)

    def min(self, axis: Axes = None, *, keepdims: bool = False, **unknown: Never) -> Tensor:
        """The smallest value over `axis` (`pullback.min`)."""
        if unknown:
            check_keywords(ArrayMethods.min, unknown)
        return OPERATORS.min(self, axis, keepdims=keepdims)

    def argmax(
        self, axis: int | None = None, *, keepdims: bool = False, **unknown: Never
    ) -> Tensor:
        """The index of the largest value over `axis` (`pullback.argmax`)."""
        if unknown:
            check_keywords(ArrayMethods.argmax, unknown)
        return OPERATORS.argmax(self, axis, keepdims=keepdims)

    def argmin(
        self, axis: int | None = None, *, keepdims: bool = False, **unknown: Never
    ) -> Tensor:
        """The index of the smallest value over `axis` (`pullback.argmin`)."""
        if unknown:
            check_keywords(ArrayMethods.argmin, unknown)
        return OPERATORS.argmin(self, axis, keepdims=keepdims)

    def any(self, axis: Axes = None, *, keepdims: bool = False, **unknown: Never) -> Tensor:
        """Returns True if any element over `axis` is not 0 (`pullback.any`)."""
        if unknown:
            check_keywords(ArrayMethods.any, unknown)
        return OPERATORS.any(self, axis, keepdims=keepdims)

    def all(self, axis: Axes = None, *, keepdims: bool = False, **unknown: Never) -> Tensor:
        """Returns True if all elements over `axis` are not 0 (`pullback.all`)."""
        if unknown:
            check_keywords(ArrayMethods.all, unknown)
        return OPERATORS.all(self, axis, keepdims=keepdims)

    def cumsum(
        self, axis: int | None = None, dtype: DTypeLike | None = None, **unknown: Never
    ) -> Tensor:
        """The cumulative sums along `axis`, or of the flattened values."""
        if unknown:
            check_keywords(ArrayMethods.cumsum, unknown)
        return OPERATORS.numpy("cumsum", self, axis, dtype)

    def cumprod(
        self, axis: int | None = None, dtype: DTypeLike | None = None, **unknown: Never
    ) -> Tensor:
        """The cumulative products along `axis`, or of the flattened values."""
        if unknown:
            check_keywords(ArrayMethods.cumprod, unknown)
        return OPERATORS.numpy("cumprod", self, axis, dtype)

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None
    ) -> Tensor:
        """The sums of the diagonals of the matrices along two axes."""
        return OPERATORS.numpy("trace", self, offset, axis1, axis2, dtype)

    # Elements and order --------------------------------------------------------------------------

    def clip(self, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
        """The values limited to an interval (`pullback.clip`)."""
        return OPERATORS.clip(self, min, max)

    def round(self, decimals: int = 0) -> Tensor:
        """The values rounded to a number of decimals, halves to the even digit."""
        return OPERATORS.numpy("round", self, decimals)

    def conj(self) -> Tensor:
        """The complex conjugate (`pullback.conj`)."""
        return OPERATORS.conj(self)

    def dot(self, other: TensorLike) -> Tensor:
        """NumPy's product of arrays: `x @ other` for vectors and matrices."""
        return OPERATORS.numpy("dot", self, other)

    def sort(self, axis: int | None = -1, **unknown: Never) -> Tensor:
        """The values in order along `axis`, as a new tensor (`pullback.sort`)."""
        if unknown:
            check_keywords(ArrayMethods.sort, unknown)
        return OPERATORS.numpy("sort", self, axis)

    def argsort(self, axis: int | None = -1, **unknown: Never) -> Tensor:
        """The indices that put the values in order along `axis` (`pullback.argsort`)."""
        if unknown:
            check_keywords(ArrayMethods.argsort, unknown)
        return OPERATORS.numpy("argsort", self, axis)

    def nonzero(self) -> tuple[Tensor, ...]:
        """The indices of what is not 0, along each axis (`pullback.nonzero`)."""
        return tuple(OPERATORS.numpy("nonzero", self))

    def __round__(self, ndigits: SupportsIndex | None = None) -> Tensor:
        return self.round(0 if ndigits is None else int(ndigits))


def _cast(x: ArrayMethods, dtype: DTypeLike | None) -> Any:
    return x if dtype is None else x.astype(dtype)
