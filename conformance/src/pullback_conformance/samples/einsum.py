"""Samples of the sums of products in Einstein's convention."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import cnormal, integers, normal
from pullback_conformance.sample import Array, Sample, WrongCall, call, suite, wrong


def _einsum(operands: list[Array], *, equation: str) -> Any:
    return np.einsum(equation, *operands, optimize=False)


def _sample(equation: str, *shapes: tuple[int, ...]) -> Sample:
    operands = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    return call(operands, equation=equation, note=equation)


def _fails(equation: str, kind: type[Exception], *shapes: tuple[int, ...]) -> WrongCall:
    return wrong(kind, [normal(*shape) for shape in shapes], equation=equation)


suite("einsum", _einsum)(
    _sample("ij,jk->ik", (2, 3), (3, 4)),
    _sample("ij,kj", (2, 3), (4, 3)),
    _sample("ji", (2, 3)),
    _sample("ij->", (2, 3)),
    _sample("ij->j", (2, 3)),
    _sample("ii", (3, 3)),
    _sample("ii->i", (3, 3)),
    _sample("iij->ji", (3, 3, 2)),
    _sample("iii->i", (2, 2, 2)),
    _sample("ii,ij->j", (3, 3), (3, 2)),
    _sample("i,i", (3,), (3,)),
    _sample("i,j->ji", (3,), (2,)),
    _sample("ij,ij->ij", (2, 3), (2, 3)),
    _sample("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    _sample("bij,bjk,bkl->bil", (2, 2, 3), (2, 3, 4), (2, 4, 2)),
    _sample("ij,jk,kl,lm->im", (2, 3), (3, 4), (4, 2), (2, 3)),
    _sample("ij,j,k->ik", (2, 3), (3,), (2,)),
    _sample("ij,kl->", (2, 3), (2, 2)),
    _sample("...ij,...jk->...ik", (2, 2, 3), (1, 3, 4)),
    _sample("...ij,jk", (2, 2, 3), (3, 4)),
    _sample("i...->...", (2, 3, 2)),
    _sample("...,...", (2, 3), (3,)),
    _sample("...i,i...->i...", (2, 3), (3, 2)),
    _sample("aB,Ba", (2, 3), (3, 2)),
    _sample("ij,jk->ik", (2, 0), (0, 3)),
    _sample(" i j , j -> i ", (2, 3), (3,)),
    _sample("...->...", (2, 3)),
    call([cnormal(2, 3), cnormal(3, 2, seed=5)], equation="ij,jk->ki"),
    call([integers(-5, 5, 2, 3), integers(-5, 5, 3)], equation="ij,j->i"),
    call([integers(-5, 5, 2, 3).astype(np.int8)], equation="ij->i", note="small integers"),
    _fails("ij,jk", errors.InputValueError, (2, 3)),
    _fails("ij", errors.ShapeError, (2, 3, 4)),
    _fails("ij,jk->ik", errors.ShapeError, (2, 3), (4, 2)),
    _fails("ij->iij", errors.InputValueError, (2, 3)),
    _fails("ij->k", errors.InputValueError, (2, 3)),
    _fails("i1->i", errors.InputValueError, (2, 3)),
    _fails("...i->i", errors.InputValueError, (2, 3)),
)
