/* Kernels that work along the last axes: softmax, cross entropy, layer normalization. */
#include "calls.h"

/* The width of the rows of x where `axis` is its last one, else 0: then NumPy's kernel has to do
 * it. The loops are for rows of at least one element. */
static ptrdiff_t last_width(PyObject *x, PyObject *axis) {
    int last = axis && is_plain(x) && size(x) ? PyArray_NDIM(as_array(x)) - 1 : -1;
    ptrdiff_t width = last >= 0 ? PyArray_DIM(as_array(x), last) : 0;
    return last >= 0 && PyLong_AsLong(axis) == last && !is_short(x, width) ? width : 0;
}

/* Sums of more rows than this are NumPy's. Elements of rows that are turned are so many at most. */
#define MOST_NORMALIZED 4096
#define MOST_TURNED 16384

static void turn(const double *x, ptrdiff_t rows, ptrdiff_t columns, double *y) {
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t j = 0; j < columns; j++)
            y[j * rows + i] = x[i * columns + j];
}

/* The last axis of float64: as the first one of copies. */
static int run_turned(int loop, ColumnsArgs *args, ptrdiff_t outer) {
    ptrdiff_t n = args->n, all = outer * n;
    double *room = PyMem_Malloc((size_t)(3 * all) * sizeof *room), *y = args->y;
    if (!room) {
        PyErr_NoMemory();
        return -1;
    }
    turn(args->a, outer, n, room);
    args->a = room;
    if (args->b) {
        turn(args->b, outer, n, room + all);
        args->b = room + all;
    }
    args->y = room + 2 * all;
    args->inner = outer;
    args->blocks = (outer + 127) / 128;
    int failed = run_loop(loop, args, args->blocks, 1, 4.0 * (double)all);
    if (!failed)
        turn(args->y, n, outer, y);
    PyMem_Free(room);
    return failed;
}

/* Softmax or a gradient along any axis, of arrays of any layout; NULL without an error where NumPy
 * has to do it. */
static PyObject *along(const int *of_dtypes, PyObject *a, PyObject *b, PyObject *axis) {
    int type = PyArray_CheckExact(a) ? PyArray_TYPE(as_array(a)) : -1;
    int at = axis ? (int)PyLong_AsLong(axis) : -1;
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || at < 0 || at >= PyArray_NDIM(as_array(a))
        || !size(a) || !PyArray_ISNOTSWAPPED(as_array(a))
        || (b
            && (!PyArray_CheckExact(b) || PyArray_TYPE(as_array(b)) != type || !same_shape(a, b)
                || !PyArray_ISNOTSWAPPED(as_array(b)))))
        return NULL;
    ptrdiff_t n = PyArray_DIM(as_array(a), at), inner = 1;
    for (int i = at + 1; i < PyArray_NDIM(as_array(a)); i++)
        inner *= PyArray_DIM(as_array(a), i);
    int turned = inner == 1;
    if (n > MOST_NORMALIZED || (turned && (type == NPY_FLOAT || size(a) > MOST_TURNED)))
        return NULL;
    PyObject *plain[2] = {NULL, NULL}, *given[2] = {a, b}, *y = NULL;
    int whole = 1;
    for (int i = 0; i < 2 && given[i] && whole; i++) {
        plain[i] = plain_copy(given[i]);
        whole = plain[i] != NULL;
    }
    if (whole)
        y = new_array_of(type, PyArray_ITEMSIZE(as_array(a)), PyArray_NDIM(as_array(a)),
                         PyArray_DIMS(as_array(a)));
    if (y) {
        ptrdiff_t outer = size(a) / n / inner, blocks = (inner + 127) / 128;
        ColumnsArgs args = {.a = data(plain[0]),
                            .b = b ? data(plain[1]) : NULL,
                            .y = data(y),
                            .n = n,
                            .inner = inner,
                            .blocks = blocks};
        double unit = (double)n * (double)(inner < 128 ? inner : 128);
        int loop = of_dtypes[type == NPY_DOUBLE];
        y = unless(turned ? run_turned(loop, &args, outer)
                          : run_loop(loop, &args, outer * blocks,
                                     1 + (ptrdiff_t)((double)PIECE / unit), 10 + 1.5 * unit),
                   y);
    }
    Py_XDECREF(plain[0]);
    Py_XDECREF(plain[1]);
    return y;
}

#define ALONG(name, a, b)                                                                          \
    along((const int[]){LOOP_##name##_columns_float32, LOOP_##name##_columns_float64}, a, b,       \
          attribute(x, count, names, "axis"))

typedef int (*RunSoftmax)(const SoftmaxArgs *, ptrdiff_t, ptrdiff_t, double);
static PyObject *softmax_by(RunSoftmax run, PyObject *x, ptrdiff_t width) {
    PyObject *y = new_like(x);
    if (y) {
        SoftmaxArgs args = {.x = data(x), .y = data(y), .width = width};
        return unless(run(&args, size(y) / width, 1 + PIECE / width, 10 + (double)width), y);
    }
    return y;
}

#define SOFTMAX(name)                                                                              \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        ptrdiff_t width = count == 1 ? last_width(x[0], attribute(x, count, names, "axis")) : 0;   \
        PyObject *y = width      ? softmax_by(run_##name, x[0], width)                             \
                    : count == 1 ? ALONG(name, x[0], NULL)                                         \
                                 : NULL;                                                           \
        return y || PyErr_Occurred() ? y : PLAIN_OR_NUMPY(name);                                   \
    }

SOFTMAX(softmax)
SOFTMAX(log_softmax)

typedef int (*RunSoftmaxGradient)(const SoftmaxGradientArgs *, ptrdiff_t, ptrdiff_t, double);
static PyObject *softmax_gradient_by(RunSoftmaxGradient run, double cost, PyObject *g, PyObject *y,
                                     ptrdiff_t width) {
    PyObject *dx = new_like(g);
    if (dx) {
        SoftmaxGradientArgs args = {.g = data(g), .y = data(y), .dx = data(dx), .width = width};
        return unless(run(&args, size(dx) / width, 1 + PIECE / width, 10 + cost * (double)width),
                      dx);
    }
    return dx;
}

#define SOFTMAX_GRADIENT(name, cost)                                                               \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        ptrdiff_t width = count == 2 ? last_width(x[0], attribute(x, count, names, "axis")) : 0;   \
        PyObject *y = width && is_plain(x[1]) && same_shape(x[0], x[1])                            \
                        ? softmax_gradient_by(run_##name, cost, x[0], x[1], width)                 \
                    : count == 2 ? ALONG(name, x[0], x[1])                                         \
                                 : NULL;                                                           \
        return y || PyErr_Occurred() ? y : PLAIN_OR_NUMPY(name);                                   \
    }

SOFTMAX_GRADIENT(softmax_gradient, 0.5)
SOFTMAX_GRADIENT(log_softmax_gradient, 0.8)

/* Cross entropy. ------------------------------------------------------------------------------- */

/* Fills `found` for logits x[0] and classes x[1]; false where NumPy's kernel has to do it. */
static int as_labels(PyObject *const *x, Py_ssize_t count, PyObject *names, Labels *found) {
    PyObject *logits = x[0], *labels = x[1];
    PyObject *axis = attribute(x, count, names, "axis");
    PyObject *smoothing = attribute(x, count, names, "label_smoothing");
    PyObject *ignored = attribute(x, count, names, "ignore_label");
    if (!axis || !smoothing || !ignored || !is_plain(logits) || !size(logits)
        || !PyArray_CheckExact(labels) || !PyArray_ISCARRAY_RO(as_array(labels)))
        return 0;
    int last = PyArray_NDIM(as_array(logits)) - 1, type = PyArray_TYPE(as_array(labels));
    int wide = type == NPY_INT64;
    if (PyLong_AsLong(axis) != last || PyFloat_AsDouble(smoothing) != 0
        || is_short(logits, PyArray_DIM(as_array(logits), last)) || !(wide || type == NPY_INT32)
        || PyArray_NDIM(as_array(labels)) != last
        || !PyArray_CompareLists(PyArray_DIMS(as_array(logits)), PyArray_DIMS(as_array(labels)),
                                 last))
        return 0;
    int has_ignored = ignored != Py_None;
    *found = (Labels){.at = data(labels),
                      .wide = wide,
                      .has_ignored = has_ignored,
                      .ignored = has_ignored ? PyLong_AsLong(ignored) : 0};
    return !PyErr_Occurred();
}

/* New arrays of one number for each row of logits, in the shape without the last axis and with it;
 * NULL with an error set. */
static int new_for_classes(PyObject *logits, PyObject **losses, PyObject **normalizers) {
    npy_intp shape[NPY_MAXDIMS];
    int ndim = PyArray_NDIM(as_array(logits));
    for (int i = 0; i < ndim; i++)
        shape[i] = i < ndim - 1 ? PyArray_DIM(as_array(logits), i) : 1;
    *losses = new_array(ndim - 1, shape);
    *normalizers = new_array(ndim, shape);
    return *losses && *normalizers;
}

/* Rows of few classes are no whole vectors: so many are NumPy's, which takes all rows at once. */
#define FEW_CLASSES 32
#define MANY_ROWS 128

KERNEL(softmax_cross_entropy_with_logits) {
    (void)module;
    ptrdiff_t width = count == 2 ? last_width(x[0], attribute(x, count, names, "axis")) : 0;
    if (!width || !is_plain(x[1]) || !same_shape(x[0], x[1])
        || (width < FEW_CLASSES && size(x[0]) > MANY_ROWS * width))
        return PLAIN_OR_NUMPY(softmax_cross_entropy_with_logits);
    double smoothing = ATTRIBUTE(label_smoothing);
    if (smoothing == -1 && PyErr_Occurred())
        return NULL;
    PyObject *losses, *normalizers;
    if (new_for_classes(x[0], &losses, &normalizers)) {
        DenseCrossEntropyArgs args = {.logits = data(x[0]),
                                      .labels = data(x[1]),
                                      .losses = data(losses),
                                      .normalizers = data(normalizers),
                                      .width = width,
                                      .kept = (float)(1 - smoothing),
                                      .spread = (float)(smoothing / (double)width)};
        losses = unless(run_dense_cross_entropy(&args, size(losses), 1 + PIECE / width,
                                                15 + 0.8 * (double)width),
                        losses);
    }
    return pair(losses, normalizers);
}

KERNEL(sparse_softmax_cross_entropy_with_logits) {
    (void)module;
    Labels labels;
    if (count != 2 || !as_labels(x, count, names, &labels)) {
        PyErr_Clear();
        return NUMPY_FALLBACK(sparse_softmax_cross_entropy_with_logits);
    }
    PyObject *losses, *normalizers;
    if (new_for_classes(x[0], &losses, &normalizers)) {
        ptrdiff_t width = PyArray_DIM(as_array(x[0]), PyArray_NDIM(as_array(x[0])) - 1);
        CrossEntropyArgs args = {.logits = data(x[0]),
                                 .losses = data(losses),
                                 .normalizers = data(normalizers),
                                 .width = width,
                                 .labels = labels};
        losses = unless(
            run_cross_entropy(&args, size(losses), 1 + PIECE / width, 15 + 0.6 * (double)width),
            losses);
    }
    return pair(losses, normalizers);
}

KERNEL(sparse_softmax_cross_entropy_gradient) {
    (void)module;
    Labels labels;
    if (count != 4 || !as_labels(x, count, names, &labels) || !is_plain(x[2]) || !is_plain(x[3])
        || size(x[2]) != size(x[1]) || size(x[3]) != size(x[1])) {
        PyErr_Clear();
        return PLAIN_OR_NUMPY(sparse_softmax_cross_entropy_gradient);
    }
    PyObject *y = new_like(x[0]);
    if (y) {
        ptrdiff_t width = PyArray_DIM(as_array(x[0]), PyArray_NDIM(as_array(x[0])) - 1);
        CrossEntropyGradientArgs args = {.logits = data(x[0]),
                                         .normalizers = data(x[2]),
                                         .g = data(x[3]),
                                         .dlogits = data(y),
                                         .width = width,
                                         .labels = labels};
        return unless(run_cross_entropy_gradient(&args, size(x[1]), 1 + PIECE / width,
                                                 10 + 0.6 * (double)width),
                      y);
    }
    return NULL;
}

/* Layer normalization. ------------------------------------------------------------------------- */

/* -x[label] of each row; NaN for labels that are no class. */
#define PICKED(T)                                                                                  \
    for (ptrdiff_t row = 0; row < labels.count; row++) {                                           \
        ptrdiff_t label = index_of(&labels, row);                                                  \
        ((T *)data(y))[row] =                                                                      \
            label >= 0 && label < width ? -((const T *)data(x[0]))[row * width + label] : (T)NAN;  \
    }

KERNEL(negative_log_likelihood_of_classes) {
    (void)module;
    PyObject *axis = attribute(x, count, names, "axis");
    int ndim = count == 2 && PyArray_CheckExact(x[0]) ? PyArray_NDIM(as_array(x[0])) : 0;
    int type = ndim ? PyArray_TYPE(as_array(x[0])) : -1;
    Indices labels;
    if (!axis || !ndim || (type != NPY_FLOAT && type != NPY_DOUBLE)
        || !PyArray_ISCARRAY_RO(as_array(x[0])) || !size(x[0]) || PyLong_AsLong(axis) != ndim - 1
        || !as_indices(x[1], &labels) || PyArray_NDIM(as_array(x[1])) != ndim - 1
        || !PyArray_CompareLists(PyArray_DIMS(as_array(x[0])), PyArray_DIMS(as_array(x[1])),
                                 ndim - 1))
        return NUMPY_FALLBACK(negative_log_likelihood_of_classes);
    ptrdiff_t width = PyArray_DIM(as_array(x[0]), ndim - 1);
    PyObject *y = new_array_of(type, PyArray_ITEMSIZE(as_array(x[0])), ndim - 1,
                               PyArray_DIMS(as_array(x[1])));
    if (y && type == NPY_FLOAT) {
        PICKED(float)
    } else if (y) {
        PICKED(double)
    }
    return y;
}

/* The number of elements of a row if `axis` names the last axes of x, else 0: then NumPy's kernel
 * has to do it. The loops are for rows of at least one element. */
static ptrdiff_t width_of_any(PyObject *x, PyObject *axis) {
    if (!axis || !PyTuple_CheckExact(axis) || !PyTuple_GET_SIZE(axis) || !size(x))
        return 0;
    int ndim = PyArray_NDIM(as_array(x));
    int many = (int)PyTuple_GET_SIZE(axis);
    ptrdiff_t width = 1;
    for (int i = 0; i < many; i++) {
        if (PyLong_AsLong(PyTuple_GET_ITEM(axis, i)) != ndim - many + i)
            return 0;
        width *= PyArray_DIM(as_array(x), ndim - many + i);
    }
    return width;
}

static ptrdiff_t width_of(PyObject *x, PyObject *axis) {
    return is_plain(x) ? width_of_any(x, axis) : 0;
}

static int is_parameter(PyObject *x, ptrdiff_t width) {
    return x == Py_None || (is_plain(x) && size(x) == width);
}

/* True if `array` has one element for each row of x. */
static int is_for_rows(PyObject *array, PyObject *x, ptrdiff_t width) {
    return is_plain(array) && size(array) * width == size(x);
}

static void *data_or_null(PyObject *x) { return x == Py_None ? NULL : data(x); }

/* Elements of a row of float64 whose sums are taken in one go. */
#define MOST_WIDE 4096

/* As is_plain, of float64. */
static int is_plain_wide(PyObject *x) {
    return PyArray_CheckExact(x) && PyArray_TYPE(as_array(x)) == NPY_DOUBLE
        && PyArray_ISCARRAY_RO(as_array(x));
}

/* x as it is asked for: float32, or float64 where `wide`. */
static int is_plain_of(int wide, PyObject *x) { return wide ? is_plain_wide(x) : is_plain(x); }

/* As width_of, of float64: NumPy adds longer rows pair by pair. */
static ptrdiff_t width_of_wide(PyObject *x, PyObject *axis) {
    ptrdiff_t width = width_of_any(x, axis);
    return width <= MOST_WIDE ? width : 0;
}

static PyObject *new_of(int wide, int ndim, const npy_intp *shape) {
    return wide ? new_array_of(NPY_DOUBLE, 8, ndim, shape) : new_array(ndim, shape);
}

/* An array with one element for each row: the axes of the rows are kept, with size 1. */
static PyObject *new_for_rows(int wide, PyObject *x, PyObject *axis) {
    npy_intp shape[NPY_MAXDIMS];
    int ndim = PyArray_NDIM(as_array(x)), others = ndim - (int)PyTuple_GET_SIZE(axis);
    for (int i = 0; i < ndim; i++)
        shape[i] = i < others ? PyArray_DIM(as_array(x), i) : 1;
    return new_of(wide, ndim, shape);
}

/* An array in the shape of a parameter: that of the rows. */
static PyObject *new_parameter(int wide, PyObject *x, PyObject *axis) {
    int many = (int)PyTuple_GET_SIZE(axis);
    return new_of(wide, many, PyArray_DIMS(as_array(x)) + PyArray_NDIM(as_array(x)) - many);
}

static double epsilon_of(PyObject *const *x, Py_ssize_t count, PyObject *names) {
    PyObject *epsilon = attribute(x, count, names, "epsilon");
    return epsilon ? PyFloat_AsDouble(epsilon) : 0.0;
}

KERNEL(layer_norm) {
    (void)module;
    PyObject *axis = attribute(x, count, names, "axis");
    int wide = count == 3 && is_plain_wide(x[0]);
    ptrdiff_t width = wide ? width_of_wide(x[0], axis) : count == 3 ? width_of(x[0], axis) : 0;
    for (int i = 1; width && i < 3; i++)
        if (x[i] != Py_None && !(is_plain_of(wide, x[i]) && size(x[i]) == width))
            width = 0;
    if (!width)
        return PLAIN_OR_NUMPY(layer_norm);
    PyObject *y = new_of(wide, PyArray_NDIM(as_array(x[0])), PyArray_DIMS(as_array(x[0])));
    PyObject *mean = new_for_rows(wide, x[0], axis), *spread = new_for_rows(wide, x[0], axis);
    if (y && mean && spread) {
        LayerNormArgs args = {.x = data(x[0]),
                              .scale = data_or_null(x[1]),
                              .offset = data_or_null(x[2]),
                              .y = data(y),
                              .mean = data(mean),
                              .spread = data(spread),
                              .width = width,
                              .epsilon = epsilon_of(x, count, names)};
        y = unless(run_loop(wide ? LOOP_layer_norm_wide : LOOP_layer_norm, &args, size(mean),
                            1 + PIECE / width, 20 + 0.5 * (double)width),
                   y);
    }
    return triple(y, mean, spread);
}

/* Adds the sums of the pieces, (pieces, many, width), in order, so that the result does not depend
 * on the threads. */
#define ADD_PIECES(name, real)                                                                     \
    static void name(const real *sums, ptrdiff_t pieces, ptrdiff_t many, ptrdiff_t width,          \
                     real *const *totals) {                                                        \
        for (ptrdiff_t which = 0; which < many; which++) {                                         \
            real *total = totals[which];                                                           \
            for (ptrdiff_t i = 0; i < width; i++)                                                  \
                total[i] = 0;                                                                      \
            for (ptrdiff_t piece = 0; piece < pieces; piece++) {                                   \
                const real *part = sums + (piece * many + which) * width;                          \
                for (ptrdiff_t i = 0; i < width; i++)                                              \
                    total[i] += part[i];                                                           \
            }                                                                                      \
        }                                                                                          \
    }
ADD_PIECES(add_pieces, float)
ADD_PIECES(add_wide_pieces, double)

/* The rows of a piece of a gradient. */
static ptrdiff_t piece_rows(ptrdiff_t width) { return 1 + PIECE / width; }

static ptrdiff_t pieces_of(ptrdiff_t rows, ptrdiff_t width) {
    return (rows + piece_rows(width) - 1) / piece_rows(width);
}

static double gradient_cost(ptrdiff_t width) { return 20 + 0.8 * (double)width; }

/* Memory for `many` rows of sums for each piece of a gradient; NULL with an error set. */
static void *room_for_sums(ptrdiff_t rows, ptrdiff_t width, ptrdiff_t many, size_t item) {
    void *sums = PyMem_Malloc((size_t)(pieces_of(rows, width) * many * width) * item);
    if (!sums)
        PyErr_NoMemory();
    return sums;
}

KERNEL(layer_norm_gradient) {
    (void)module;
    PyObject *axis = attribute(x, count, names, "axis");
    int wide = count == 5 && is_plain_wide(x[0]);
    ptrdiff_t width = wide ? width_of_wide(x[0], axis) : count == 5 ? width_of(x[0], axis) : 0;
    for (int i = 1; width && i < 5; i++)
        if ((i > 1 || x[i] != Py_None) && !is_plain_of(wide, x[i]))
            width = 0;
    if (!width || (x[1] != Py_None && size(x[1]) != width) || size(x[2]) * width != size(x[0])
        || size(x[3]) * width != size(x[0]) || !same_shape(x[0], x[4]))
        return PLAIN_OR_NUMPY(layer_norm_gradient);
    PyObject *dx = new_of(wide, PyArray_NDIM(as_array(x[0])), PyArray_DIMS(as_array(x[0])));
    PyObject *dscale = new_parameter(wide, x[0], axis), *doffset = new_parameter(wide, x[0], axis);
    if (dx && dscale && doffset) {
        ptrdiff_t rows = size(x[2]), grain = piece_rows(width), pieces = pieces_of(rows, width);
        void *sums = room_for_sums(rows, width, 2, wide ? sizeof(double) : sizeof(float));
        LayerNormGradientArgs args = {.x = data(x[0]),
                                      .scale = data_or_null(x[1]),
                                      .mean = data(x[2]),
                                      .spread = data(x[3]),
                                      .g = data(x[4]),
                                      .dx = data(dx),
                                      .sums = sums,
                                      .width = width,
                                      .piece_rows = grain};
        int loop = wide ? LOOP_layer_norm_gradient_wide : LOOP_layer_norm_gradient;
        int failed = !sums || run_loop(loop, &args, rows, grain, gradient_cost(width));
        if (!failed && wide)
            add_wide_pieces(sums, pieces, 2, width, (double *[]){data(dscale), data(doffset)});
        else if (!failed)
            add_pieces(sums, pieces, 2, width, (float *[]){data(dscale), data(doffset)});
        PyMem_Free(sums);
        dx = unless(failed, dx);
    }
    return triple(dx, dscale, doffset);
}

KERNEL(rms_norm) {
    (void)module;
    PyObject *axis = attribute(x, count, names, "axis");
    ptrdiff_t width = count == 2 ? width_of(x[0], axis) : 0;
    if (!width || !is_parameter(x[1], width))
        return PLAIN_OR_NUMPY(rms_norm);
    PyObject *y = new_like(x[0]), *spread = new_for_rows(0, x[0], axis);
    if (y && spread) {
        RmsNormArgs args = {.x = data(x[0]),
                            .scale = data_or_null(x[1]),
                            .y = data(y),
                            .spread = data(spread),
                            .width = width,
                            .epsilon = epsilon_of(x, count, names)};
        y = unless(run_rms_norm(&args, size(spread), 1 + PIECE / width, 15 + 0.4 * (double)width),
                   y);
    }
    return pair(y, spread);
}

KERNEL(rms_norm_gradient) {
    (void)module;
    PyObject *axis = attribute(x, count, names, "axis");
    ptrdiff_t width = count == 4 ? width_of(x[0], axis) : 0;
    if (!width || !is_parameter(x[1], width) || !is_for_rows(x[2], x[0], width) || !is_plain(x[3])
        || !same_shape(x[0], x[3]))
        return PLAIN_OR_NUMPY(rms_norm_gradient);
    PyObject *dx = new_like(x[0]), *dscale = new_parameter(0, x[0], axis);
    if (dx && dscale) {
        ptrdiff_t rows = size(x[2]), grain = piece_rows(width);
        float *sums = room_for_sums(rows, width, 1, sizeof(float)), *totals[] = {data(dscale)};
        RmsNormGradientArgs args = {.x = data(x[0]),
                                    .scale = data_or_null(x[1]),
                                    .spread = data(x[2]),
                                    .g = data(x[3]),
                                    .dx = data(dx),
                                    .sums = sums,
                                    .width = width,
                                    .piece_rows = grain};
        int failed = !sums || run_rms_norm_gradient(&args, rows, grain, gradient_cost(width));
        if (!failed)
            add_pieces(sums, pieces_of(rows, width), 1, width, totals);
        PyMem_Free(sums);
        dx = unless(failed, dx);
    }
    return pair(dx, dscale);
}
