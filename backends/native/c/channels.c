/* Batch normalization with the channels last. */
#include <math.h>

#include "calls.h"

static double epsilon_of(PyObject *const *x, Py_ssize_t count, PyObject *names) {
    PyObject *epsilon = attribute(x, count, names, "epsilon");
    return epsilon ? PyFloat_AsDouble(epsilon) : 0.0;
}

/* True of float32 and 16-bit floats that lie in C order. */
static int is_read(PyObject *x) {
    return is_plain(x)
        || (PyArray_CheckExact(x) && PyArray_ISCARRAY_RO(as_array(x))
            && (PyArray_TYPE(as_array(x)) == NPY_HALF || is_bfloat16(x)));
}

/* Runs one of the loops over x, and g unless it is NULL; where these are 16-bit floats, it writes
 * to such, y, unless that is NULL. -1 with an error set. */
static int run_channels(int loop, const void *part, size_t bytes, PyObject *x, PyObject *g,
                        PyObject *y, ptrdiff_t width, ptrdiff_t grain, double cost) {
    ptrdiff_t pixels = size(x) / width;
    if (is_plain(x))
        return run_loop(loop, part, pixels, grain, cost);
    int32_t status = 0;
    ChannelHalvesArgs args = {.x = data(x),
                              .g = g ? data(g) : NULL,
                              .y = y ? data(y) : NULL,
                              .status = &status,
                              .loop = loop,
                              .width = width,
                              .is_bfloat16 = is_bfloat16(x)};
    memcpy(&args.part, part, bytes);
    /* What it writes stays in the cache; sums are of whole pieces. */
    grain = y ? 1 + grain / 8 : grain;
    int failed = run_channel_halves(&args, pixels, grain, cost);
    if (status)
        PyErr_NoMemory();
    return failed || status ? -1 : 0;
}
#define RUN_CHANNELS(name, part, ...)                                                              \
    run_channels(LOOP_channel_##name, &(part), sizeof(part), __VA_ARGS__)

static PyObject *new_of(PyObject *x) {
    return new_array_of(PyArray_TYPE(as_array(x)), PyArray_ITEMSIZE(as_array(x)),
                        PyArray_NDIM(as_array(x)), PyArray_DIMS(as_array(x)));
}

/* The number of channels if x is not empty and they are its last axis; else 0. */
static ptrdiff_t channels_of(PyObject *const *x, Py_ssize_t count, PyObject *names) {
    PyObject *axis = attribute(x, count, names, "axis");
    if (!axis || !is_read(x[0]) || !size(x[0]))
        return 0;
    int last = PyArray_NDIM(as_array(x[0])) - 1;
    return PyLong_AsLong(axis) == last ? PyArray_DIM(as_array(x[0]), last) : 0;
}

static int is_for_channels(PyObject *x, ptrdiff_t width) { return is_plain(x) && size(x) == width; }

static int is_parameter(PyObject *x, ptrdiff_t width) {
    return x == Py_None || is_for_channels(x, width);
}

static float or_else(PyObject *x, ptrdiff_t channel, float otherwise) {
    return x == Py_None ? otherwise : ((float *)data(x))[channel];
}

static ptrdiff_t piece_rows(ptrdiff_t width) { return 1 + PIECE / width; }

static ptrdiff_t pieces_of(ptrdiff_t pixels, ptrdiff_t width) {
    return (pixels + piece_rows(width) - 1) / piece_rows(width);
}

/* Memory for two rows of sums for each piece; NULL with an error set. */
static float *room_for_sums(ptrdiff_t pixels, ptrdiff_t width) {
    float *sums = PyMem_Malloc((size_t)(pieces_of(pixels, width) * 2 * width) * sizeof(float));
    if (!sums)
        PyErr_NoMemory();
    return sums;
}

/* Nanoseconds for the sums of a pixel. */
static double sums_cost(ptrdiff_t width) { return 4 + 0.25 * (double)width; }

/* Mean and variance of each channel of x, from those of the pieces (Chan, Golub and LeVeque). -1
 * with an error set; 0 if a variance is not finite: sums of pieces hide which squares were out of
 * range. */
static int moments(PyObject *x, ptrdiff_t width, float *mean, float *variance) {
    ptrdiff_t pixels = size(x) / width, grain = piece_rows(width),
              pieces = pieces_of(pixels, width);
    float *sums = room_for_sums(pixels, width);
    ChannelMomentsArgs args = {.x = data(x), .sums = sums, .width = width, .piece_rows = grain};
    if (!sums || RUN_CHANNELS(moments, args, x, NULL, NULL, width, grain, sums_cost(width))) {
        PyMem_Free(sums);
        return -1;
    }
    for (ptrdiff_t c = 0; c < width; c++) {
        double center = 0, squares = 0, before = 0;
        for (ptrdiff_t piece = 0; piece < pieces; piece++) {
            const float *part = sums + piece * 2 * width;
            ptrdiff_t rest = pixels - piece * grain;
            double here = (double)(rest < grain ? rest : grain), all = before + here;
            double away = part[c] - center;
            center += away * here / all;
            squares += part[width + c] + away * away * before * here / all;
            before = all;
        }
        mean[c] = (float)center;
        variance[c] = (float)(squares / (double)pixels);
    }
    PyMem_Free(sums);
    float nothing = 0.0f; /* NaN times 0 is NaN, and infinities are too */
    for (ptrdiff_t c = 0; c < width; c++)
        nothing += variance[c] * 0.0f;
    return nothing == 0.0f;
}

void channel_factors(const float *variance, const float *scale, double epsilon, ptrdiff_t width,
                     float *factor) {
    for (ptrdiff_t c = 0; c < width; c++)
        factor[c] = 1 / sqrtf(variance[c] + (float)epsilon) * (scale ? scale[c] : 1);
}

/* (x - mean) / sqrt(variance + epsilon) * scale + offset. */
static PyObject *normalized(PyObject *x, ptrdiff_t width, float *mean, const float *variance,
                            PyObject *scale, PyObject *offset, double epsilon) {
    PyObject *y = new_of(x);
    float *factor = PyMem_Malloc((size_t)(2 * width) * sizeof(float)), *summand = factor + width;
    if (y && factor) {
        channel_factors(variance, scale == Py_None ? NULL : data(scale), epsilon, width, factor);
        for (ptrdiff_t c = 0; c < width; c++)
            summand[c] = or_else(offset, c, 0);
        ChannelAffineArgs args = {.x = data(x),
                                  .mean = mean,
                                  .factor = factor,
                                  .offset = summand,
                                  .y = data(y),
                                  .width = width};
        y = unless(RUN_CHANNELS(affine, args, x, NULL, y, width, piece_rows(width),
                                2 + 0.25 * (double)width),
                   y);
    } else {
        Py_CLEAR(y);
        PyErr_NoMemory();
    }
    PyMem_Free(factor);
    return y;
}

KERNEL(batch_norm) {
    (void)module;
    ptrdiff_t width = count == 3 ? channels_of(x, count, names) : 0;
    if (!width || !is_parameter(x[1], width) || !is_parameter(x[2], width))
        return PLAIN_OR_NUMPY(batch_norm);
    npy_intp shape[] = {width};
    PyObject *y = NULL, *mean = new_array(1, shape), *variance = new_array(1, shape);
    int done = mean && variance ? moments(x[0], width, data(mean), data(variance)) : -1;
    if (!done) {
        Py_DECREF(mean);
        Py_DECREF(variance);
        return is_plain(x[0]) ? NUMPY_FALLBACK(batch_norm) : Py_NewRef(Py_None);
    }
    if (done > 0)
        y = normalized(x[0], width, data(mean), data(variance), x[1], x[2],
                       epsilon_of(x, count, names));
    return triple(y, mean, variance);
}

KERNEL(batch_norm_inference) {
    (void)module;
    ptrdiff_t width = count == 5 ? channels_of(x, count, names) : 0;
    if (!width || !is_for_channels(x[1], width) || !is_for_channels(x[2], width)
        || !is_parameter(x[3], width) || !is_parameter(x[4], width))
        return PLAIN_OR_NUMPY(batch_norm_inference);
    return normalized(x[0], width, data(x[1]), data(x[2]), x[3], x[4], epsilon_of(x, count, names));
}

/* x, scale, mean, variance, and the cotangents of y, mean and variance. */
KERNEL(batch_norm_gradient) {
    (void)module;
    ptrdiff_t width = count == 7 ? channels_of(x, count, names) : 0;
    int fits = width && is_parameter(x[1], width) && is_read(x[4]) && same_shape(x[0], x[4])
            && PyArray_TYPE(as_array(x[0])) == PyArray_TYPE(as_array(x[4]));
    for (int i = 2; fits && i < 7; i++)
        fits = i == 4 || is_for_channels(x[i], width);
    if (!fits)
        return PLAIN_OR_NUMPY(batch_norm_gradient);
    npy_intp shape[] = {width};
    ptrdiff_t pixels = size(x[0]) / width, grain = piece_rows(width),
              pieces = pieces_of(pixels, width);
    PyObject *dx = new_of(x[0]), *dscale = new_array(1, shape), *doffset = new_array(1, shape);
    float *parts = PyMem_Malloc((size_t)(3 * width) * sizeof(float));
    float *sums = dx && dscale && doffset && parts ? room_for_sums(pixels, width) : NULL;
    ChannelSlopesArgs slopes = {.x = data(x[0]),
                                .mean = data(x[2]),
                                .g = data(x[4]),
                                .sums = sums,
                                .width = width,
                                .piece_rows = grain};
    if (!sums || RUN_CHANNELS(slopes, slopes, x[0], x[4], NULL, width, grain, sums_cost(width))) {
        PyMem_Free(sums);
        PyMem_Free(parts);
        Py_CLEAR(dx);
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return triple(dx, dscale, doffset);
    }
    float *by_x = parts, *factor = parts + width, *constant = parts + 2 * width;
    const float *variance = data(x[3]), *mean_g = data(x[5]), *variance_g = data(x[6]);
    double epsilon = epsilon_of(x, count, names), share = 1.0 / (double)pixels;
    for (ptrdiff_t c = 0; c < width; c++) {
        double level = 0, slope = 0, spread = 1 / sqrt(variance[c] + epsilon);
        for (ptrdiff_t piece = 0; piece < pieces; piece++) {
            level += sums[piece * 2 * width + c];
            slope += sums[(piece * 2 + 1) * width + c];
        }
        slope *= spread;
        double by_g = spread * or_else(x[1], c, 1);
        factor[c] = (float)by_g;
        by_x[c] = (float)((2.0 * variance_g[c] - by_g * spread * slope) * share);
        constant[c] = (float)((mean_g[c] - by_g * level) * share);
        ((float *)data(dscale))[c] = (float)slope;
        ((float *)data(doffset))[c] = (float)level;
    }
    ChannelCombineArgs args = {.x = data(x[0]),
                               .mean = data(x[2]),
                               .g = data(x[4]),
                               .by_x = by_x,
                               .factor = factor,
                               .constant = constant,
                               .dx = data(dx),
                               .width = width};
    dx = unless(RUN_CHANNELS(combine, args, x[0], x[4], dx, width, grain, 2 + 0.35 * (double)width),
                dx);
    PyMem_Free(sums);
    PyMem_Free(parts);
    return triple(dx, dscale, doffset);
}
