"""A call of each of NumPy's functions and ufuncs, for `test_numpy_functions`.

Each is a function of a matrix of 3 x 3 numbers between 0 and 1, all different.
"""

from __future__ import annotations

import io
import operator

import numpy as np

Y = np.array([[0.9, 0.15, 0.4], [0.35, 0.7, 0.6], [0.25, 0.8, 0.55]])
I = np.array([[4, 7, 1], [2, 9, 5], [6, 3, 8]])  # noqa: E741
M = np.array([[True, False, True], [False, True, True], [True, True, False]])


def words(text):
    return text.split()


def spd(x):
    """A symmetric positive definite matrix."""
    return x @ x.T + np.eye(3)


def signed(x):
    """A matrix of numbers of both signs."""
    return (x - 0.5) * 3


def with_nan(x):
    """A matrix with NaN in places, which depends on x elsewhere."""
    return np.where(M, x, np.nan)


UFUNCS = {
    name: (lambda x, name=name: getattr(np, name)(signed(x)))
    for name in words(
        "absolute abs cbrt ceil conj conjugate cos cosh deg2rad degrees exp exp2 expm1 fabs floor "
        "isfinite isinf isnan logical_not modf negative positive rad2deg radians reciprocal rint "
        "sign signbit sin sinh spacing square tan tanh trunc arctan atan arcsinh asinh frexp"
    )
}
UFUNCS |= {
    name: (lambda x, name=name: getattr(np, name)(x))
    for name in words("arccos acos arcsin asin arctanh atanh log log10 log1p log2 sqrt")
}
UFUNCS |= {name: (lambda x, name=name: getattr(np, name)(x + 1)) for name in ("arccosh", "acosh")}
UFUNCS |= {
    name: (lambda x, name=name: getattr(np, name)(signed(x), Y))
    for name in words(
        "add arctan2 atan2 copysign divide divmod equal floor_divide fmax fmin fmod greater "
        "greater_equal heaviside hypot less less_equal logaddexp logaddexp2 logical_and "
        "logical_or logical_xor maximum minimum mod multiply nextafter not_equal remainder "
        "subtract true_divide matmul matvec vecdot vecmat"
    )
}
UFUNCS |= {
    name: (lambda x, name=name: getattr(np, name)(x, Y)) for name in words("power pow float_power")
}
UFUNCS["ldexp"] = lambda x: np.ldexp(x, I)
UFUNCS |= {
    name: (lambda x, name=name: getattr(np, name)((x > 0.5), M))
    for name in words("bitwise_and bitwise_or bitwise_xor")
}
UFUNCS |= {
    name: (lambda x, name=name: getattr(np, name)(np.argsort(x), I))
    for name in words("gcd lcm left_shift right_shift bitwise_left_shift bitwise_right_shift")
}
UFUNCS |= {
    name: (lambda x, name=name: getattr(np, name)(np.argsort(x)))
    for name in words("invert bitwise_not bitwise_invert bitwise_count")
}
UFUNCS["isnat"] = lambda x: np.isnat(np.array("2020-01-01", "datetime64[D]"))

FUNCTIONS = {
    name: (lambda x, name=name: getattr(np, name)(signed(x)))
    for name in words(
        "all any amax amin angle argmax argmin argsort argwhere around array2string array_repr "
        "array_str atleast_1d atleast_2d atleast_3d average broadcast_arrays common_type copy "
        "corrcoef count_nonzero cov cumprod cumsum diag diagflat diagonal diff ediff1d empty_like "
        "fix flatnonzero flip fliplr flipud gradient histogram histogram_bin_edges i0 imag "
        "iscomplex iscomplexobj isneginf isposinf isreal isrealobj matrix_transpose max "
        "mean median meshgrid min min_scalar_type nan_to_num nanargmax nanargmin nancumprod "
        "nancumsum nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar ndim nonzero "
        "ones_like permute_dims prod ptp ravel real real_if_close result_type rot90 round shape "
        "sinc size sort squeeze std sum trace transpose tril triu tril_indices_from "
        "triu_indices_from trapezoid unique unique_all unique_counts unique_inverse "
        "unique_values unstack unwrap var zeros_like diag_indices_from sort_complex"
    )
}
FUNCTIONS["empty_like"] = lambda x: np.shape(np.empty_like(x))
FUNCTIONS |= {
    name: (lambda x, name=name: getattr(np, name)(with_nan(x)))
    for name in words(
        "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanprod nanstd "
        "nansum nanvar nan_to_num"
    )
}
FUNCTIONS |= {
    "allclose": lambda x: np.allclose(x, Y),
    "append": lambda x: np.append(x, Y, 0),
    "apply_along_axis": lambda x: np.apply_along_axis(np.sum, 0, x),
    "apply_over_axes": lambda x: np.apply_over_axes(np.sum, x, (0, 1)),
    "argpartition": lambda x: np.argpartition(x, 1)[:, 1],
    "array_equal": lambda x: np.array_equal(x, Y),
    "array_equiv": lambda x: np.array_equiv(x, x[0]),
    "array_split": lambda x: np.array_split(x, 2, 1),
    "astype": lambda x: np.astype(x, np.float64),
    "average": lambda x: np.average(x, 1, weights=x[0]),
    "bincount": lambda x: np.bincount(np.argsort(x)[0]),
    "block": lambda x: np.block([[x, x], [x[0], x[1]]]),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 3)),
    "busday_count": lambda x: np.busday_count("2020-01-01", "2020-02-01"),
    "busday_offset": lambda x: np.busday_offset("2020-01-01", 1),
    "can_cast": lambda x: np.can_cast(x.dtype, np.float64),
    "choose": lambda x: np.choose(I % 2, [x, x * x]),
    "clip": lambda x: np.clip(x, 0.2, a_max=0.5),
    "column_stack": lambda x: np.column_stack([x[0], x]),
    "compress": lambda x: np.compress([True, False, True], x, 1),
    "concat": lambda x: np.concat([x, Y], 1),
    "concatenate": lambda x: np.concatenate((x, Y), axis=None),
    "convolve": lambda x: np.convolve(x[0], x[1], "same"),
    "copyto": lambda x: np.copyto(np.zeros((3, 3)), x),
    "correlate": lambda x: np.correlate(x[0], x[1, :2], "full"),
    "cross": lambda x: np.cross(x, Y),
    "cumulative_prod": lambda x: np.cumulative_prod(x, axis=0),
    "cumulative_sum": lambda x: np.cumulative_sum(x, axis=1, include_initial=True),
    "datetime_as_string": lambda x: np.datetime_as_string(np.datetime64("2020-01-01")),
    "delete": lambda x: np.delete(x, 1, 0),
    "digitize": lambda x: np.digitize(x, np.array([0.2, 0.5])),
    "dot": lambda x: np.dot(x, Y),
    "dsplit": lambda x: np.dsplit(x[None], 3),
    "dstack": lambda x: np.dstack([x, Y]),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, Y),
    "einsum_path": lambda x: np.einsum_path("ij,kj->ik", x, Y)[0],
    "expand_dims": lambda x: np.expand_dims(x, 1),
    "extract": lambda x: np.extract(M, x),
    "fill_diagonal": lambda x: np.fill_diagonal(x, 1.0),
    "full_like": lambda x: np.full_like(x, x[0, 0]),
    "geomspace": lambda x: np.geomspace(x[0], x[1], 4),
    "histogram2d": lambda x: np.histogram2d(x[0], x[1], 2),
    "histogramdd": lambda x: np.histogramdd(x[:, :2], 2),
    "hsplit": lambda x: np.hsplit(x, [1]),
    "hstack": lambda x: np.hstack([x, Y]),
    "in1d": lambda x: np.in1d(x, x[0]),
    "inner": lambda x: np.inner(x, Y),
    "insert": lambda x: np.insert(x, 1, 0.0, 0),
    "interp": lambda x: np.interp(x, [0.0, 0.3, 1.0], x[0]),
    "intersect1d": lambda x: np.intersect1d(x[0], x),
    "is_busday": lambda x: np.is_busday("2020-01-01"),
    "isclose": lambda x: np.isclose(x, Y),
    "isin": lambda x: np.isin(x, x[0]),
    "ix_": lambda x: np.ix_(x[0] > 0.5, [0, 1]),
    "kron": lambda x: np.kron(x, Y[0]),
    "lexsort": lambda x: np.lexsort(x),
    "linspace": lambda x: np.linspace(x[0], x[1], 4),
    "logspace": lambda x: np.logspace(x[0], x[1], 4),
    "mask_indices": lambda x: np.mask_indices(3, np.triu),
    "may_share_memory": lambda x: np.may_share_memory(x, Y),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "nanpercentile": lambda x: np.nanpercentile(x, 30),
    "nanquantile": lambda x: np.nanquantile(x, 0.3),
    "outer": lambda x: np.outer(x, Y),
    "packbits": lambda x: np.packbits(x > 0.5),
    "pad": lambda x: np.pad(x, ((1, 0), (0, 2)), "edge"),
    "partition": lambda x: np.partition(x, 1)[:, 1],
    "percentile": lambda x: np.percentile(x, [30, 60], 1),
    "piecewise": lambda x: np.piecewise(x, [M], [np.sin, np.cos]),
    "place": lambda x: np.place(x, M, [1.0]),
    "poly": lambda x: np.poly(x[0]),
    "polyadd": lambda x: np.polyadd(x[0], x[1, :2]),
    "polyder": lambda x: np.polyder(x[0], 1),
    "polydiv": lambda x: np.polydiv(x[0], x[1, :2]),
    "polyfit": lambda x: np.polyfit(x[0], x[1], 1),
    "polyint": lambda x: np.polyint(x[0], 2),
    "polymul": lambda x: np.polymul(x[0], x[1]),
    "polysub": lambda x: np.polysub(x[0, :2], x[1]),
    "polyval": lambda x: np.polyval(x[0], x),
    "put": lambda x: np.put(x, [0], 1.0),
    "put_along_axis": lambda x: np.put_along_axis(x, I[:1] % 3, 1.0, 0),
    "putmask": lambda x: np.putmask(x, M, 1.0),
    "quantile": lambda x: np.quantile(x, 0.3, 0, keepdims=True),
    "ravel_multi_index": lambda x: np.ravel_multi_index((np.argmax(x, 0), [0, 1, 2]), (3, 3)),
    "repeat": lambda x: np.repeat(x, 2, 1),
    "require": None,
    "reshape": lambda x: np.reshape(x, (9,)),
    "resize": lambda x: np.resize(x, (2, 7)),
    "roll": lambda x: np.roll(x, 1, 1),
    "rollaxis": lambda x: np.rollaxis(x, 1),
    "roots": lambda x: np.roots(x[0]),
    "row_stack": lambda x: np.vstack([x, Y]),
    "save": lambda x: np.save(io.BytesIO(), x),
    "savetxt": lambda x: np.savetxt(io.StringIO(), x),
    "savez": lambda x: np.savez(io.BytesIO(), x),
    "savez_compressed": lambda x: np.savez_compressed(io.BytesIO(), x),
    "searchsorted": lambda x: np.searchsorted([0.2, 0.5], x),
    "select": lambda x: np.select([x > 0.7, x > 0.4], [x * x, 2 * x], 0.1),
    "setdiff1d": lambda x: np.setdiff1d(x, x[0]),
    "setxor1d": lambda x: np.setxor1d(x, np.append(x[0], 2.0)),
    "shares_memory": lambda x: np.shares_memory(x, Y),
    "split": lambda x: np.split(x, 3, 1),
    "stack": lambda x: np.stack([x, Y], 1),
    "std": lambda x: np.std(x, 0, ddof=1),
    "swapaxes": lambda x: np.swapaxes(x, 0, -1),
    "take": lambda x: np.take(x, [1, 5]),
    "take_along_axis": lambda x: np.take_along_axis(x, I[:1] % 3, 0),
    "tensordot": lambda x: np.tensordot(x, Y, 1),
    "tile": lambda x: np.tile(x, (2, 1, 2)),
    "trapz": lambda x: np.trapz(x),
    "trim_zeros": lambda x: np.trim_zeros(x[0] * np.array([0, 1, 0])),
    "union1d": lambda x: np.union1d(x[0], x[1]),
    "unpackbits": lambda x: np.unpackbits(np.packbits(x > 0.5)),
    "unravel_index": lambda x: np.unravel_index(np.argmax(x), (3, 3)),
    "vander": lambda x: np.vander(x[0]),
    "var": lambda x: np.var(x, 1, np.float64, keepdims=True),
    "vdot": lambda x: np.vdot(x, Y),
    "vsplit": lambda x: np.vsplit(x, 3),
    "vstack": lambda x: np.vstack([x, Y[0]]),
    "where": lambda x: np.where(M, x, Y),
}
del FUNCTIONS["require"]

LINALG = {
    "cholesky": lambda x: np.linalg.cholesky(spd(x)),
    "cond": lambda x: np.linalg.cond(x),
    "cross": lambda x: np.linalg.cross(x, Y),
    "det": lambda x: np.linalg.det(x),
    "diagonal": lambda x: np.linalg.diagonal(x, offset=1),
    "eig": lambda x: np.sort(np.real(np.linalg.eig(spd(x))[0])),
    "eigh": lambda x: np.abs(np.linalg.eigh(spd(x))[1]),
    "eigvals": lambda x: np.sort(np.real(np.linalg.eigvals(spd(x)))),
    "eigvalsh": lambda x: np.linalg.eigvalsh(spd(x)),
    "inv": lambda x: np.linalg.inv(x),
    "lstsq": lambda x: np.linalg.lstsq(x, Y)[0],
    "matmul": lambda x: np.linalg.matmul(x, Y),
    "matrix_norm": lambda x: np.linalg.matrix_norm(x),
    "matrix_power": lambda x: np.linalg.matrix_power(x, 3),
    "matrix_rank": lambda x: np.linalg.matrix_rank(x),
    "matrix_transpose": lambda x: np.linalg.matrix_transpose(x),
    "multi_dot": lambda x: np.linalg.multi_dot([x[0], x, Y]),
    "norm": lambda x: np.linalg.norm(x),
    "outer": lambda x: np.linalg.outer(x[0], x[1]),
    "pinv": lambda x: np.linalg.pinv(x),
    "qr": lambda x: np.abs(np.linalg.qr(x)[1]),
    "slogdet": lambda x: np.linalg.slogdet(x)[1],
    "solve": lambda x: np.linalg.solve(x, Y),
    "svd": lambda x: np.abs(np.linalg.svd(x)[2]),
    "svdvals": lambda x: np.linalg.svdvals(x),
    "tensordot": lambda x: np.linalg.tensordot(x, Y, axes=1),
    "tensorinv": lambda x: np.linalg.tensorinv(x, 1),
    "tensorsolve": lambda x: np.linalg.tensorsolve(x, Y[0]),
    "trace": lambda x: np.linalg.trace(x),
    "vecdot": lambda x: np.linalg.vecdot(x, Y),
    "vector_norm": lambda x: np.linalg.vector_norm(x, axis=1, ord=3),
}

CALLS = UFUNCS | FUNCTIONS | {f"linalg.{name}": call for name, call in LINALG.items()}

#: Other arguments of functions above, as NumPy code writes them.
MORE = {
    "sum, dtype": lambda x: np.sum(x, 0, np.float64),
    "sum, keepdims": lambda x: np.sum(x, 1, keepdims=True),
    "sum, where is all": lambda x: np.sum(x, where=True),
    "sum, where": lambda x: np.sum(x, 0, where=M),
    "sum, initial": lambda x: np.sum(x, initial=1.0),
    "sum, where and initial": lambda x: np.sum(x, 1, initial=2.0, where=M[0], keepdims=True),
    "prod, where": lambda x: np.prod(x, 1, initial=3.0, where=M),
    "max, initial": lambda x: np.max(x, 1, initial=0.5),
    "max, of nothing": lambda x: np.max(x[:, :0], 1, initial=0.5) + x[0],
    "min, where": lambda x: np.min(x, 0, initial=0.9, where=M),
    "mean, where": lambda x: np.mean(x, 1, where=M),
    "var, where": lambda x: np.var(x, 0, where=M, ddof=0.5),
    "std, where": lambda x: np.std(x, where=M, keepdims=True),
    "any, where": lambda x: np.any(x > 0.5, 1, where=M),
    "all, where": lambda x: np.all(x > 0.5, where=~M),
    "nansum, where": lambda x: np.nansum(with_nan(x), 1, where=M.T),
    "nanmax, initial": lambda x: np.nanmax(with_nan(x), 1, initial=0.5),
    "nanmean, where": lambda x: np.nanmean(np.where(M, x, np.inf), 1, where=M),
    "nanvar, where": lambda x: np.nanvar(with_nan(x), where=M.T, ddof=1),
    "mean, dtype": lambda x: np.mean(x, 0, dtype=np.float64),
    "std, correction": lambda x: np.std(x, correction=1),
    "round, decimals": lambda x: np.round(x, 1),
    "round, tens": lambda x: np.round(x * 100, -1),
    "reshape, order": lambda x: np.reshape(x, (9,), order="C"),
    "clip, min and max": lambda x: np.clip(x, min=0.2, max=0.5),
    "clip, one bound": lambda x: np.clip(x, None, 0.5),
    "cumsum, axis": lambda x: np.cumsum(x, 1),
    "dot of a vector": lambda x: np.dot(x, x[0]),
    "dot of vectors": lambda x: np.dot(x[0], x[1]),
    "dot of stacks": lambda x: np.dot(x, np.ones((2, 3, 4))),
    "dot with a number": lambda x: np.dot(x, 2.0),
    "inner of stacks": lambda x: np.inner(x, np.ones((2, 4, 3))),
    "kron of matrices": lambda x: np.kron(x, Y[:2]),
    "transpose, axes": lambda x: np.transpose(x[None], (2, 0, 1)),
    "tensordot, axes": lambda x: np.tensordot(x, Y, ([0, 1], [1, 0])),
    "einsum without an arrow": lambda x: np.einsum("ij,jk", x, Y),
    "einsum, optimize": lambda x: np.einsum("ij,jk,kl->il", x, Y, x, optimize=True),
    "norm, axis": lambda x: np.linalg.norm(x, axis=1),
    "norm, ord and keepdims": lambda x: np.linalg.norm(x, 1, 1, True),
    "norm of a matrix": lambda x: np.linalg.norm(x, 1),
    "norm, nuclear": lambda x: np.linalg.norm(x, "nuc"),
    "norm of matrices": lambda x: np.linalg.norm(np.stack([x, Y]), "fro", (0, 2), keepdims=True),
    "norm of a vector": lambda x: np.linalg.norm(x[0], 3),
    "cond, 1": lambda x: np.linalg.cond(x, 1),
    "svd, values": lambda x: np.linalg.svd(x, compute_uv=False),
    "qr, r": lambda x: np.abs(np.linalg.qr(x, "r")),
    "cholesky, upper": lambda x: np.linalg.cholesky(spd(x), upper=True),
    "eigvalsh, upper": lambda x: np.linalg.eigvalsh(np.triu(x), "U"),
    "eigvalsh, lower": lambda x: np.linalg.eigvalsh(np.tril(x)),
    "diff, n": lambda x: np.diff(x, 2, 0),
    "diff, prepend": lambda x: np.diff(x, prepend=0.0, append=x[:, :1]),
    "gradient, step": lambda x: np.gradient(x, 0.5, axis=1),
    "trapezoid, x": lambda x: np.trapezoid(x, x[0]),
    "trapezoid, dx": lambda x: np.trapezoid(x, dx=0.5, axis=0),
    "convolve": lambda x: np.convolve(x[0], np.ravel(x)),
    "convolve, valid": lambda x: np.convolve(np.ravel(x), x[0], "valid"),
    "correlate": lambda x: np.correlate(np.ravel(x), x[0]),
    "correlate, same": lambda x: np.correlate(np.ravel(x), x[0, :2], "same"),
    "correlate, shorter": lambda x: np.correlate(x[0, :2], np.ravel(x), "same"),
    "correlate, shorter, full": lambda x: np.correlate(x[0, :2], np.ravel(x), "full"),
    "diag of a vector": lambda x: np.diag(x[0], 1),
    "diag of a vector, below": lambda x: np.diag(x[0], -2),
    "trace, axes": lambda x: np.trace(np.stack([x, Y]), 0, 1, 2),
    "diagonal, offset": lambda x: np.diagonal(x, 1),
    "rot90, 3": lambda x: np.rot90(x, 3),
    "rot90, 2": lambda x: np.rot90(x, 2),
    "rot90, back": lambda x: np.rot90(x, 1, (1, 0)),
    "rollaxis, start": lambda x: np.rollaxis(x[None], 2, 1),
    "tile of a number of times": lambda x: np.tile(x, 2),
    "repeat, flat": lambda x: np.repeat(x, 2),
    "pad, constant": lambda x: np.pad(x, 1, constant_values=2.0),
    "take, axis": lambda x: np.take(x, [0, -1], 1),
    "sort, flat": lambda x: np.sort(x, None),
    "sort, axis": lambda x: np.sort(x, 0),
    "sort, kind": lambda x: np.sort(x, kind="stable"),
    "hstack of vectors": lambda x: np.hstack((x[0], x[1])),
    "vstack of vectors": lambda x: np.vstack((x[0], x[1])),
    "dstack of vectors": lambda x: np.dstack((x[0], x[1])),
    "append, flat": lambda x: np.append(x, 1.0),
    "split, positions": lambda x: np.split(x, [1, 2]),
    "linspace, endpoint": lambda x: np.linspace(0.0, x[0], 4, endpoint=False, retstep=True, axis=1),
    "average of all": lambda x: np.average(x),
    "average, weights of all": lambda x: np.average(x, weights=Y, returned=True),
    "cov of two": lambda x: np.cov(x[0], x[1], ddof=0),
    "cov of columns": lambda x: np.cov(x[:, :2], rowvar=False),
    "unique, counts": lambda x: np.unique(x, return_index=True, return_counts=True),
    "full_like, number": lambda x: np.full_like(x, 2.0) * x,
    "zeros_like, shape": lambda x: np.zeros_like(x, shape=(2,)),
    "where, mask alone": lambda x: np.where(x > 0.5),
    "where of numbers": lambda x: np.where(x * (x > 0.5), x, 0.0),
    "interp, left": lambda x: np.interp(x, [0.4, 0.5, 0.6], x[0], left=0.0),
    "argmax, axis": lambda x: np.argmax(x, 1, keepdims=True),
    "bincount, weights": lambda x: np.bincount(I[0], x[0], 10),
    "delete, a slice": lambda x: np.delete(x, slice(0, 2), 1),
    "delete, flat": lambda x: np.delete(x, [0, -1]),
    "delete, a mask": lambda x: np.delete(x, [True, False, True], 0),
    "insert, a row": lambda x: np.insert(x, -1, x[0] * 2, 0),
    "insert, flat": lambda x: np.insert(x, 4, x[0, 0] * 2),
    "apply_along_axis, vectors": lambda x: np.apply_along_axis(np.cumsum, 0, x),
    "apply_along_axis, matrices": lambda x: np.apply_along_axis(np.diag, 1, x),
    "piecewise, default": lambda x: np.piecewise(x, [x < 0.3, x > 0.6], [np.sin, 2.0, np.sqrt]),
    "lstsq, more rows": lambda x: np.linalg.lstsq(np.concatenate([x, Y * 2]), Y.ravel()[:6]),
    "lstsq, of matrices": lambda x: np.linalg.lstsq(np.concatenate([x, Y * 2]), np.ones((6, 2))),
    "polyfit of columns": lambda x: np.polyfit(x[0], x, 1),
    "nanquantile, several": lambda x: np.nanquantile(with_nan(x), [0.2, 0.5]),
    "nanmedian": lambda x: np.nanmedian(with_nan(x)),
    "nanmedian, axis": lambda x: np.nanmedian(with_nan(x), 0),
    "nanquantile, axis": lambda x: np.nanquantile(
        with_nan(x), [0.25, 0.6], 1, method="midpoint", keepdims=True
    ),
    "nanpercentile, axes": lambda x: np.nanpercentile(
        np.stack([x, with_nan(x)]), 30.0, (0, 2), method="lower"
    ),
    "quantile, method": lambda x: np.quantile(x, 0.3, method="nearest"),
    "percentile, method": lambda x: np.percentile(x, [30, 70], 1, method="median_unbiased"),
    "add.reduce": lambda x: np.add.reduce(x),
    "add.reduce, axis": lambda x: np.add.reduce(x, axis=None),
    "multiply.reduce": lambda x: np.multiply.reduce(x, 1, keepdims=True),
    "maximum.reduce": lambda x: np.maximum.reduce(x),
    "minimum.accumulate": lambda x: np.minimum.accumulate(x),
    "maximum.accumulate": lambda x: np.maximum.accumulate(x, 1),
    "add.accumulate": lambda x: np.add.accumulate(x),
    "multiply.accumulate": lambda x: np.multiply.accumulate(x),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x),
    "logical_and.reduce": lambda x: np.logical_and.reduce(x > 0.5),
    "multiply.outer": lambda x: np.multiply.outer(x, x[0]),
    "add, dtype": lambda x: np.add(x, 1, dtype=np.float64),
    "fft": lambda x: np.fft.fft(x),
    "fft, n": lambda x: np.fft.fft(x, 4, 0, "ortho"),
    "rfft and irfft": lambda x: np.fft.irfft(np.fft.rfft(x), 3),
    "fft2": lambda x: np.fft.fft2(x),
    "rfftn": lambda x: np.fft.rfftn(x),
    "fftshift": lambda x: np.fft.fftshift(x, axes=1),
    "operator.matmul": lambda x: operator.matmul(Y, x),
}  # fmt: skip

#: Calls without an equivalent: an error while a tape records, else NumPy's array.
NOT_ROUTED = {
    "insert, several": lambda x: np.insert(x, [0, 1], 1.0, 0),
    "polyfit, weights": lambda x: np.polyfit(x[0], x[1], 1, w=[1.0, 2.0, 1.0]),
    "var, mean": lambda x: np.var(x, mean=0.5),
    "sum, out": lambda x: np.sum(x, 0, out=np.zeros(3)),
    "add, out": lambda x: np.add(x, x, out=np.zeros((3, 3))),
    "add, where": lambda x: np.add(x, x, out=np.zeros((3, 3)), where=M),
    "add.reduceat": lambda x: np.add.reduceat(x, [0, 2]),
    "subtract.reduce": lambda x: np.subtract.reduce(x),
    "reshape, order": lambda x: np.reshape(x, (9,), order="F"),
    "nanquantile, method": lambda x: np.nanquantile(x, 0.3, method="hazen"),
    "gradient, edge order": lambda x: np.gradient(x, edge_order=2),
    "sliding windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2)),
    "frompyfunc": lambda x: np.frompyfunc(float, 1, 1)(x),
}
