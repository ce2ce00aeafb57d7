"""Keras's `image` ops: resampling by products of matrices, and by gathering."""

from __future__ import annotations

import math

import numpy as np
from keras.src import backend
from keras.src.random.seed_generator import draw_seed

import pullback as pb
from keras_pullback.src.ops.core import (
    cast,
    convert_to_tensor,
    floating,
    name_of,
    result,
    same,
    to,
)

RESIZE_INTERPOLATIONS = ("bilinear", "nearest", "lanczos3", "lanczos5", "bicubic")
AFFINE_TRANSFORM_INTERPOLATIONS = {"nearest": 0, "bilinear": 1}
FILL_MODES = {"constant", "nearest", "wrap", "mirror", "reflect"}
SCALE_AND_TRANSLATE_METHODS = {
    "linear": "linear",
    "bilinear": "linear",
    "trilinear": "linear",
    "cubic": "cubic",
    "bicubic": "cubic",
    "tricubic": "cubic",
    "lanczos3": "lanczos3",
    "lanczos5": "lanczos5",
}


def _check(name, value, allowed):
    if value not in allowed:
        raise ValueError(
            f"Invalid value for argument `{name}`. Expected of one {set(allowed)}. "
            f"Received: {name}={value}"
        )


def _images(images, data_format=None):
    """Images with a batch and the channels last, and a function that puts results back."""
    images = convert_to_tensor(images)
    if images.ndim not in (3, 4):
        raise ValueError(
            "Invalid images rank: expected rank 3 (single image) or rank 4 (batch of images). "
            f"Received input with shape: images.shape={images.shape}"
        )
    single = images.ndim == 3
    first = backend.standardize_data_format(data_format) == "channels_first"
    images = images[None] if single else images
    images = pb.moveaxis(images, 1, 3) if first else images

    def back(y):
        y = pb.moveaxis(y, 3, 1) if first else y
        return y[0] if single else y

    return images, back


# Colors ------------------------------------------------------------------------------------------


def _channels(images, data_format, floats):
    images = convert_to_tensor(images)
    axis = -1 if backend.standardize_data_format(data_format) == "channels_last" else -3
    if images.ndim not in (3, 4):
        _images(images)
    if floats and "float" not in name_of(images):
        raise ValueError(
            f"Invalid images dtype: expected float dtype. Received: images.dtype={name_of(images)}"
        )
    return images, axis


def rgb_to_grayscale(images, data_format=None):
    images, axis = _channels(images, data_format, floats=False)
    if images.shape[axis] not in (1, 3):
        raise ValueError(
            "Invalid channel size: expected 3 (RGB) or 1 (Grayscale). "
            f"Received input with shape: images.shape={images.shape}"
        )
    if images.shape[axis] == 1:
        return images
    wide = floating(images)
    weights = pb.asarray([0.2989, 0.5870, 0.1140], dtype=wide.dtype)
    gray = pb.tensordot(wide, weights, axes=((axis % wide.ndim,), (0,)))
    return to(pb.expand_dims(gray, axis), name_of(images))


def rgb_to_hsv(images, data_format=None):
    images, axis = _channels(images, data_format, floats=True)
    images = pb.where(pb.abs(images) < pb.finfo(images.dtype).eps, 0.0, images)
    r, g, b = pb.unstack(images, axis=axis)
    value = pb.maximum(pb.maximum(r, g), b)
    spread = value - pb.minimum(pb.minimum(r, g), b)
    gray = spread <= 0
    saturation = pb.where(value > 0, spread / pb.where(value > 0, value, 1.0), 0.0)
    unit = 1.0 / (6.0 * pb.where(gray, 1.0, spread))
    hue = pb.where(value == g, unit * (b - r) + 2 / 6, unit * (r - g) + 4 / 6)
    hue = pb.where(value == r, unit * (g - b), hue)
    hue = pb.where(gray, 0.0, hue) + (hue < 0).astype(hue.dtype)
    return pb.stack([hue, saturation, value], axis=axis)


def hsv_to_rgb(images, data_format=None):
    images, axis = _channels(images, data_format, floats=True)
    hue, saturation, value = pb.unstack(images, axis=axis)
    angle = pb.remainder(hue, 1.0) * 6.0
    parts = (
        pb.clip(pb.abs(angle - 3.0) - 1.0, 0.0, 1.0),
        pb.clip(2.0 - pb.abs(angle - 2.0), 0.0, 1.0),
        pb.clip(2.0 - pb.abs(angle - 4.0), 0.0, 1.0),
    )
    planes = [value * (1.0 - saturation + saturation * part) for part in parts]
    return pb.stack(planes, axis=axis)


# Resizing ----------------------------------------------------------------------------------------


def _triangle(x):
    return pb.maximum(0.0, 1.0 - pb.abs(x))


def _cubic(x):
    near = ((1.5 * x - 2.5) * x) * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return pb.where(x >= 2.0, 0.0, pb.where(x >= 1.0, far, near))


def _lanczos(radius):
    def kernel(x):
        safe = pb.where(x > 1e-3, x, 1.0)
        y = radius * pb.sin(math.pi * safe) * pb.sin(math.pi * safe / radius)
        y = pb.where(x > 1e-3, y / (math.pi**2 * safe * safe), 1.0)
        return pb.where(x > radius, 0.0, y)

    return kernel


_KERNELS = {
    "linear": _triangle,
    "bilinear": _triangle,
    "cubic": _cubic,
    "bicubic": _cubic,
    "lanczos3": _lanczos(3.0),
    "lanczos5": _lanczos(5.0),
}


def _weights(size, new, scale, translation, kernel, antialias):
    """The matrix (size, new) whose columns are the weights of an element of the result."""
    inverse = 1.0 / scale
    width = pb.maximum(inverse, 1.0) if antialias else 1.0
    places = (pb.arange(new, dtype="float32") + 0.5) * inverse - translation * inverse - 0.5
    weights = kernel(pb.abs(places[None, :] - pb.arange(size, dtype="float32")[:, None]) / width)
    total = pb.sum(weights, axis=0, keepdims=True)
    kept = pb.abs(total) > 1000.0 * np.finfo("float32").eps
    weights = pb.where(kept, weights / pb.where(total != 0, total, 1.0), 0.0)
    inside = pb.logical_and(places >= -0.5, places <= size - 0.5)
    return pb.where(inside[None, :], weights, 0.0)


def _scaled(x, shape, axes, scale, translation, method, antialias):
    kept = x
    integer = "int" in name_of(x)
    x = x.astype("float32") if integer else floating(x)
    for i, axis in enumerate(axes):
        axis %= x.ndim
        weights = _weights(
            x.shape[axis], shape[axis], scale[i], translation[i], _KERNELS[method], antialias
        )
        product = pb.tensordot(x, weights.astype(x.dtype), axes=((axis,), (0,)))
        x = pb.moveaxis(product, -1, axis)
    if integer:
        x = pb.clip(pb.round(x), pb.min(kept).astype("float32"), pb.max(kept).astype("float32"))
    return to(x, name_of(kept))


def resize(
    images,
    size,
    interpolation="bilinear",
    antialias=False,
    crop_to_aspect_ratio=False,
    pad_to_aspect_ratio=False,
    fill_mode="constant",
    fill_value=0.0,
    data_format=None,
):
    _check("interpolation", interpolation, RESIZE_INTERPOLATIONS)
    if fill_mode != "constant":
        raise ValueError(
            "Invalid value for argument `fill_mode`. Only `'constant'` is supported. "
            f"Received: fill_mode={fill_mode}"
        )
    if pad_to_aspect_ratio and crop_to_aspect_ratio:
        raise ValueError(
            "Only one of `pad_to_aspect_ratio` & `crop_to_aspect_ratio` can be `True`."
        )
    if len(size) != 2:
        raise ValueError(
            "Argument `size` must be a tuple of two elements (height, width). "
            f"Received: size={size}"
        )
    images, back = _images(images, data_format)
    new_height, new_width = (int(n) for n in size)
    height, width = images.shape[1:3]
    # The largest or smallest sizes with the ratio of the result.
    fit_height = int(float(width * new_height) / new_width)
    fit_width = int(float(height * new_width) / new_height)
    if crop_to_aspect_ratio:
        crop = max(min(height, fit_height), 1), max(min(width, fit_width), 1)
        top, left = int(float(height - crop[0]) / 2), int(float(width - crop[1]) / 2)
        images = images[:, top : top + crop[0], left : left + crop[1]]
    elif pad_to_aspect_ratio:
        top = int(float(max(height, fit_height) - height) / 2)
        left = 0 if top else int(float(max(width, fit_width) - width) / 2)
        widths = [(0, 0), (top, top), (left, left), (0, 0)]
        images = pb.pad(
            images,
            widths,
            constant_values=fill_value if "float" in name_of(images) else int(fill_value),
        )
    if interpolation == "nearest":
        for axis, new in ((1, new_height), (2, new_width)):
            old = images.shape[axis]
            places = np.floor((np.arange(new, dtype="float32") + 0.5) * old / new)
            images = (
                pb.take(images, pb.asarray(places.astype("int32")), axis=axis)
                if old != new
                else images
            )
        return back(images)
    shape = (images.shape[0], new_height, new_width, images.shape[3])
    axes = [axis for axis in (1, 2) if images.shape[axis] != shape[axis]]
    scale = [shape[axis] / images.shape[axis] for axis in axes]
    scale = [pb.asarray(s, dtype="float32") for s in scale]
    return back(_scaled(images, shape, axes, scale, [0.0, 0.0], interpolation, antialias))


def scale_and_translate(
    images, output_shape, scale, translation, spatial_dims, method, antialias=True
):
    _check("method", method, SCALE_AND_TRANSLATE_METHODS)
    images = convert_to_tensor(images)
    scale, translation = (cast(v, "float32") for v in (scale, translation))
    method = SCALE_AND_TRANSLATE_METHODS[method]
    return _scaled(images, output_shape, spatial_dims, scale, translation, method, antialias)


# Sampling ----------------------------------------------------------------------------------------


def _back_to(y, name):
    return to(pb.round(y) if "int" in name else y, name)


def map_coordinates(inputs, coordinates, order, fill_mode="constant", fill_value=0.0):
    inputs, coordinates = convert_to_tensor(inputs), convert_to_tensor(coordinates)
    if coordinates.shape[0] != inputs.ndim:
        raise ValueError(
            "First dim of `coordinates` must be the same as the rank of `inputs`. Received inputs "
            f"with shape: {inputs.shape} and coordinate leading dim of {coordinates.shape[0]}"
        )
    if coordinates.ndim < 2:
        raise ValueError(
            "Invalid coordinates rank: expected at least rank 2. "
            f"Received input with shape: {coordinates.shape}"
        )
    _check("fill_mode", fill_mode, FILL_MODES)
    _check("order", order, (0, 1))
    wide = to(inputs, result(name_of(inputs), "float32"))
    y = pb.map_coordinates(
        wide,
        coordinates.astype("float32"),
        order=order,
        mode=fill_mode,
        fill_value=float(fill_value),
    )
    return _back_to(y, name_of(inputs))


def _sample_images(images, rows, columns, interpolation, fill_mode, fill_value):
    """Images (batch, height, width, channels) at coordinates (batch, new height, new width)."""
    name = name_of(images)
    y = pb.map_coordinates(
        to(images, result(name, "float32")),
        pb.stack([rows, columns], axis=1),
        order=AFFINE_TRANSFORM_INTERPOLATIONS[interpolation],
        mode=fill_mode,
        fill_value=float(fill_value),
        batch_dims=1,
    )
    return _back_to(y, name)


def _grid(height, width):
    return pb.meshgrid(
        pb.arange(height, dtype="float32"), pb.arange(width, dtype="float32"), indexing="ij"
    )


def affine_transform(
    images,
    transform,
    interpolation="bilinear",
    fill_mode="constant",
    fill_value=0,
    data_format=None,
):
    _check("interpolation", interpolation, AFFINE_TRANSFORM_INTERPOLATIONS)
    _check("fill_mode", fill_mode, FILL_MODES)
    images, back = _images(images, data_format)
    transform = cast(transform, "float32")
    if transform.ndim not in (1, 2):
        raise ValueError(
            "Invalid transform rank: expected rank 1 (single transform) or rank 2 (batch of "
            "transforms). "
            f"Received input with shape: transform.shape={transform.shape}"
        )
    transform = transform[None] if transform.ndim == 1 else transform
    transform = pb.broadcast_to(transform, (images.shape[0], transform.shape[1]))
    y, x = _grid(*images.shape[1:3])
    a = [transform[:, i, None, None] for i in range(6)]
    columns = a[0] * x + a[1] * y + a[2]
    rows = a[3] * x + a[4] * y + a[5]
    return back(_sample_images(images, rows, columns, interpolation, fill_mode, fill_value))


def _check_points(start_points, end_points):
    for name, points in (("start_points", start_points), ("end_points", end_points)):
        if points.ndim not in (2, 3) or points.shape[-2:] != (4, 2):
            raise ValueError(
                f"Invalid {name} shape: expected (4,2) for a single image or (N,4,2) for a batch. "
                f"Received shape: {points.shape}"
            )
    if start_points.shape != end_points.shape:
        raise ValueError(
            "start_points and end_points must have the same shape. Received "
            f"start_points.shape={start_points.shape}, end_points.shape={end_points.shape}"
        )


def perspective_transform(
    images, start_points, end_points, interpolation="bilinear", fill_value=0, data_format=None
):
    _check("interpolation", interpolation, AFFINE_TRANSFORM_INTERPOLATIONS)
    images, back = _images(images, data_format)
    start_points, end_points = convert_to_tensor(start_points), convert_to_tensor(end_points)
    _check_points(start_points, end_points)
    if start_points.ndim == 2:
        start_points, end_points = start_points[None], end_points[None]
    transforms = compute_homography_matrix(start_points, end_points).astype("float32")
    transforms = pb.broadcast_to(transforms, (images.shape[0], 8))
    y, x = _grid(*images.shape[1:3])
    a = [transforms[:, i, None, None] for i in range(8)]
    scale = a[6] * x + a[7] * y + 1.0
    columns, rows = (a[0] * x + a[1] * y + a[2]) / scale, (a[3] * x + a[4] * y + a[5]) / scale
    return back(_sample_images(images, rows, columns, interpolation, "constant", fill_value))


def compute_homography_matrix(start_points, end_points):
    start_points, end_points = same(start_points, end_points, floating=True)
    name = name_of(start_points)
    start, end = start_points.astype("float32"), end_points.astype("float32")
    x, y = end[:, :, 0], end[:, :, 1]
    one, zero = pb.ones_like(x), pb.zeros_like(x)
    u, v = start[:, :, 0], start[:, :, 1]
    first = pb.stack([x, y, one, zero, zero, zero, -u * x, -u * y], axis=-1)
    second = pb.stack([zero, zero, zero, x, y, one, -v * x, -v * y], axis=-1)
    equations = pb.reshape(pb.stack([first, second], axis=2), (-1, 8, 8))
    solution = pb.linalg.solve(equations, pb.reshape(start, (-1, 8, 1)))
    return to(pb.reshape(solution, (-1, 8)), name)


# Filters -----------------------------------------------------------------------------------------


def _filtered(images, kernel):
    """Each channel of images (batch, height, width, channels) under one kernel."""
    channels = images.shape[3]
    kernel = pb.broadcast_to(kernel[:, :, None, None], (*kernel.shape, 1, channels))
    return pb.conv(images, kernel, groups=channels)


def gaussian_blur(images, kernel_size=(3, 3), sigma=(1.0, 1.0), data_format=None):
    images, back = _images(images, data_format)
    name = name_of(images)
    wide = to(images, result(name, "float32"))
    sigma = pb.unstack(to(convert_to_tensor(sigma), name_of(wide)))
    sizes = [
        int(n)
        for n in (
            kernel_size
            if isinstance(kernel_size, (tuple, list))
            else convert_to_tensor(kernel_size).tolist()
        )
    ]

    def bell(size, width):
        x = pb.arange(size, dtype=wide.dtype) - (size - 1) / 2
        y = pb.exp(-0.5 * pb.square(x / width))
        return y / pb.sum(y)

    kernel = pb.expand_dims(bell(sizes[1], sigma[1]), 1) * bell(sizes[0], sigma[0])
    pads = [((n - 1) // 2, n - 1 - (n - 1) // 2) for n in kernel.shape]
    return back(to(_filtered(pb.pad(wide, [(0, 0), *pads, (0, 0)]), kernel), name))


def elastic_transform(
    images,
    alpha=20.0,
    sigma=5.0,
    interpolation="bilinear",
    fill_mode="reflect",
    fill_value=0.0,
    seed=None,
    data_format=None,
):
    from keras_pullback.src.random import normal

    _check("interpolation", interpolation, AFFINE_TRANSFORM_INTERPOLATIONS)
    _check("fill_mode", fill_mode, FILL_MODES)
    images, back = _images(images, data_format)
    alpha, sigma = float(alpha), float(sigma)
    size = int(6 * sigma) | 1
    seed = draw_seed(seed)
    noise = normal(
        (*images.shape[:3], 2), stddev=sigma, dtype="float32", seed=int(seed[0]) + int(seed[1])
    )
    shift = alpha * gaussian_blur(noise, (size, size), (sigma, sigma), "channels_last")
    y, x = _grid(*images.shape[1:3])
    rows, columns = y + shift[..., 0], x + shift[..., 1]
    return back(_sample_images(images, rows, columns, interpolation, fill_mode, fill_value))


def sobel_edges(images, data_format=None):
    first = data_format == "channels_first"
    images, _ = _images(images, data_format)
    name = name_of(images)
    kernel = pb.asarray([[-1.0, -2.0, -1.0], [0.0, 0.0, 0.0], [1.0, 2.0, 1.0]])
    wide = pb.pad(
        to(images, result(name, "float32")), [(0, 0), (1, 1), (1, 1), (0, 0)], mode="symmetric"
    )
    kernel = kernel.astype(wide.dtype)
    edges = [_filtered(wide, k) for k in (kernel, pb.matrix_transpose(kernel))]
    y = to(pb.stack(edges, axis=-1), name)
    return pb.moveaxis(y, 3, 1) if first else y
