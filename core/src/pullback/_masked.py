"""`Masked`: values with a mask, which only code that knows of masks takes apart."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from pullback import errors
from pullback.tensor import Tensor

__all__ = ["Masked"]


class Masked(NamedTuple):
    """Values and which of their steps exist, from `Embedding(mask_zero=True)` or `Masking`.

    Layers of sequences use the mask, layers that compute each step by itself hand it on, and all
    else raises: no mask is lost unseen. It is a named tuple: `values, mask = layer(x)`.

    Attributes:
        values: the values (batch, time, ...).
        mask: booleans (batch, time), False for padding.

    >>> x = pb.layers.Masking()([[[1.0], [0.0]]])
    >>> x.mask.tolist()
    [[True, False]]
    >>> pb.layers.Masked(x.values * 2, x.mask).values.tolist()
    [[[2.0], [0.0]]]
    """

    values: Tensor
    mask: Tensor

    def __getattr__(self, name: str) -> Any:
        if name in vars(Tensor):
            raise AttributeError(f"a Masked has no {name!r}: {_ADVICE}", name=name)
        raise AttributeError(f"'Masked' object has no attribute {name!r}", name=name)

    def reject(self, *_: object) -> NoReturn:
        """Raises: it is not a tensor."""
        raise errors.InputTypeError(f"a Masked, values with a mask, is not a tensor: {_ADVICE}")


_ADVICE = (
    "compute with x.values, and keep the mask with pb.layers.Masked(values, x.mask); a layer such "
    "as Dense takes it as it is"
)
# A tuple would be added to another, or repeated.
for _name in ("add", "sub", "mul", "truediv", "pow", "matmul"):
    setattr(Masked, f"__{_name}__", Masked.reject)
    setattr(Masked, f"__r{_name}__", Masked.reject)
Masked.__module__ = "pullback.layers"
