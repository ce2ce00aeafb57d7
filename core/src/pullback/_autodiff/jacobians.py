"""Jacobians: a backward pass for each element of the target."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pullback import errors
from pullback._autodiff import seeds
from pullback._autodiff.seeds import Unconnected
from pullback._tree import leaves, like
from pullback.tensor import Tensor


class Jacobians:
    """The part of a tape that runs several backward passes over one record."""

    __slots__ = ()

    if TYPE_CHECKING:

        def gradient(
            self, target: object, sources: object, seed: object, unconnected_gradients: Unconnected
        ) -> Any: ...
        def _again(self) -> AbstractContextManager[None]: ...

    def jacobian(
        self, target: Tensor, sources: object, unconnected_gradients: Unconnected = "none"
    ) -> Any:
        """The Jacobian of a tensor: shape target.shape + source.shape for each source.

        Raises:
            TapeError: as `gradient`.
        """
        target = seeds.target_of(target)
        flat = leaves(sources)
        with self._again():
            rows = [
                self.gradient(target, flat, seed, unconnected_gradients)
                for seed in seeds.unit_seeds(target)
            ]
        return like(sources, iter(seeds.stacked(rows, target, flat)))

    def batch_jacobian(
        self, target: Tensor, source: Any, unconnected_gradients: Unconnected = "none"
    ) -> Any:
        """For each item i of a batch, the Jacobian of target[i] with respect to source[i].

        Shape (batch, *target.shape[1:], *source.shape[1:]). Items must not depend on each other.

        Raises:
            ShapeError: when the two do not have the same number of items.
            TapeError: as `gradient`.
        """
        target = seeds.target_of(target)
        shape = tuple(source.shape)
        if not target.ndim or not shape or target.shape[0] != shape[0]:
            raise errors.ShapeError(
                f"batch_jacobian: target {target.shape} and source {shape} need one batch axis "
                f"in front, of the same size"
            )
        with self._again():
            rows = [
                self.gradient(target, source, seed, unconnected_gradients)
                for seed in seeds.unit_seeds(target, batch=True)
            ]
        return seeds.stacked_by_item(rows, target, source)
