/* Kernels that work along the last axes: softmax, cross entropy, layer normalization. */
#include "calls.h"

/* For one array, or two alike. The loops are for rows of at least one element. */
static PyObject *along_last(int loop, int kernel, double cost, PyObject *const *x, Py_ssize_t count,
                            PyObject *names) {
    PyObject *axis = attribute(x, count, names, "axis");
    Py_ssize_t arrays = kernel == KERNEL_softmax || kernel == KERNEL_log_softmax ? 1 : 2;
    if (count != arrays || !axis || !is_plain(x[0]) || !size(x[0])
        || PyLong_AsLong(axis) != PyArray_NDIM(as_array(x[0])) - 1
        || !is_plain(x[count - 1]) || !same_shape(x[0], x[count - 1]))
        return numpys(kernel, x, count, names);
    PyObject *y = new_like(x[0]);
    if (y) {
        ptrdiff_t width = PyArray_DIM(as_array(x[0]), PyArray_NDIM(as_array(x[0])) - 1);
        Job job = {.p = {data(x[0])}, .n = {width}};
        if (arrays == 2)
            job.p[1] = data(x[1]);
        job.p[arrays] = data(y);
        return unless(run_loop(loop, &job, size(y) / width, 1 + PIECE / width, 10 + cost * (double)width), y);
    }
    return NULL;
}

KERNEL(softmax) {
    (void)module;
    return along_last(LOOP_softmax, KERNEL_softmax, 1.0, x, count, names);
}

KERNEL(log_softmax) {
    (void)module;
    return along_last(LOOP_log_softmax, KERNEL_log_softmax, 1.0, x, count, names);
}

KERNEL(softmax_gradient) {
    (void)module;
    return along_last(LOOP_softmax_gradient, KERNEL_softmax_gradient, 0.5, x, count, names);
}

KERNEL(log_softmax_gradient) {
    (void)module;
    return along_last(LOOP_log_softmax_gradient, KERNEL_log_softmax_gradient, 0.8, x, count, names);
}

/* Cross entropy. ------------------------------------------------------------------------------- */

/* Fills n for logits x[0] and classes x[1]; false where NumPy's kernel has to do it. */
static int cross_entropy_job(PyObject *const *x, Py_ssize_t count, PyObject *names, Job *job) {
    PyObject *logits = x[0], *labels = x[1];
    PyObject *axis = attribute(x, count, names, "axis");
    PyObject *smoothing = attribute(x, count, names, "label_smoothing");
    PyObject *ignored = attribute(x, count, names, "ignore_label");
    if (!axis || !smoothing || !ignored || !is_plain(logits) || !size(logits)
        || !PyArray_CheckExact(labels) || !PyArray_ISCARRAY_RO(as_array(labels)))
        return 0;
    int last = PyArray_NDIM(as_array(logits)) - 1, type = PyArray_TYPE(as_array(labels));
    int wide = type == NPY_INT64;
    if (PyLong_AsLong(axis) != last || PyFloat_AsDouble(smoothing) != 0 || !(wide || type == NPY_INT32)
        || PyArray_NDIM(as_array(labels)) != last
        || !PyArray_CompareLists(PyArray_DIMS(as_array(logits)), PyArray_DIMS(as_array(labels)), last))
        return 0;
    job->n[0] = PyArray_DIM(as_array(logits), last);
    job->n[1] = wide;
    job->n[2] = ignored != Py_None;
    job->n[3] = ignored == Py_None ? 0 : PyLong_AsLong(ignored);
    job->p[0] = data(logits);
    job->p[1] = data(labels);
    return !PyErr_Occurred();
}

KERNEL(sparse_softmax_cross_entropy_with_logits) {
    (void)module;
    Job job = {0};
    if (count != 2 || !cross_entropy_job(x, count, names, &job)) {
        PyErr_Clear();
        return NUMPYS(sparse_softmax_cross_entropy_with_logits);
    }
    npy_intp shape[NPY_MAXDIMS];
    int ndim = PyArray_NDIM(as_array(x[0]));
    for (int i = 0; i < ndim; i++)
        shape[i] = i < ndim - 1 ? PyArray_DIM(as_array(x[0]), i) : 1;
    PyObject *losses = new_array(ndim - 1, shape), *normalizers = new_array(ndim, shape);
    if (losses && normalizers) {
        ptrdiff_t width = job.n[0];
        job.p[2] = data(losses), job.p[3] = data(normalizers);
        losses = unless(run_loop(LOOP_cross_entropy, &job, size(losses), 1 + PIECE / width,
                                 15 + 0.6 * (double)width), losses);
    }
    return pair(losses, normalizers);
}

KERNEL(sparse_softmax_cross_entropy_gradient) {
    (void)module;
    Job job = {0};
    if (count != 4 || !cross_entropy_job(x, count, names, &job) || !is_plain(x[2])
        || !is_plain(x[3]) || size(x[2]) != size(x[1]) || size(x[3]) != size(x[1])) {
        PyErr_Clear();
        return NUMPYS(sparse_softmax_cross_entropy_gradient);
    }
    PyObject *y = new_like(x[0]);
    if (y) {
        ptrdiff_t width = job.n[0];
        job.p[2] = data(x[2]), job.p[3] = data(x[3]), job.p[4] = data(y);
        return unless(run_loop(LOOP_cross_entropy_gradient, &job, size(x[1]), 1 + PIECE / width,
                               10 + 0.6 * (double)width), y);
    }
    return NULL;
}

/* Layer normalization. ------------------------------------------------------------------------- */

/* The number of elements in a row where `axis` is the last axes of x, else 0. */
static ptrdiff_t width_of(PyObject *x, PyObject *axis) {
    int ndim = PyArray_NDIM(as_array(x));
    if (!axis || !PyTuple_CheckExact(axis) || !PyTuple_GET_SIZE(axis))
        return 0;
    int many = (int)PyTuple_GET_SIZE(axis);
    ptrdiff_t width = 1;
    for (int i = 0; i < many; i++) {
        if (PyLong_AsLong(PyTuple_GET_ITEM(axis, i)) != ndim - many + i)
            return 0;
        width *= PyArray_DIM(as_array(x), ndim - many + i);
    }
    return width;
}

static int is_parameter(PyObject *x, ptrdiff_t width) {
    return x == Py_None || (is_plain(x) && size(x) == width);
}

/* Whether it has one element for each row of x. */
static int is_for_rows(PyObject *one, PyObject *x, ptrdiff_t width) {
    return is_plain(one) && size(one) * width == size(x);
}

static void *data_or_null(PyObject *x) { return x == Py_None ? NULL : data(x); }

/* An array with one element for each row: the axes of the rows are kept, with size 1. */
static PyObject *new_for_rows(PyObject *x, PyObject *axis) {
    npy_intp shape[NPY_MAXDIMS];
    int ndim = PyArray_NDIM(as_array(x)), others = ndim - (int)PyTuple_GET_SIZE(axis);
    for (int i = 0; i < ndim; i++)
        shape[i] = i < others ? PyArray_DIM(as_array(x), i) : 1;
    return new_array(ndim, shape);
}

/* An array in the shape of a parameter: that of the rows. */
static PyObject *new_parameter(PyObject *x, PyObject *axis) {
    int many = (int)PyTuple_GET_SIZE(axis);
    return new_array(many, PyArray_DIMS(as_array(x)) + PyArray_NDIM(as_array(x)) - many);
}

static double epsilon_of(PyObject *const *x, Py_ssize_t count, PyObject *names) {
    PyObject *epsilon = attribute(x, count, names, "epsilon");
    return epsilon ? PyFloat_AsDouble(epsilon) : 0.0;
}

KERNEL(layer_norm) {
    (void)module;
    PyObject *axis = attribute(x, count, names, "axis");
    ptrdiff_t width = count == 3 && is_plain(x[0]) && size(x[0]) ? width_of(x[0], axis) : 0;
    if (!width || !is_parameter(x[1], width) || !is_parameter(x[2], width))
        return NUMPYS(layer_norm);
    PyObject *y = new_like(x[0]), *mean = new_for_rows(x[0], axis), *spread = new_for_rows(x[0], axis);
    if (y && mean && spread) {
        Job job = {.p = {data(x[0]), data_or_null(x[1]), data_or_null(x[2]), data(y), data(mean),
                         data(spread)},
                   .n = {width},
                   .c = {epsilon_of(x, count, names)}};
        y = unless(run_loop(LOOP_layer_norm, &job, size(mean), 1 + PIECE / width,
                            20 + 0.5 * (double)width), y);
    }
    return triple(y, mean, spread);
}

/* Adds the sums of the pieces, (pieces, many, width), in order: the result does not depend on who
 * made them. */
static void add_pieces(const float *sums, ptrdiff_t pieces, ptrdiff_t many, ptrdiff_t width,
                       float *const *totals) {
    for (ptrdiff_t which = 0; which < many; which++) {
        float *total = totals[which];
        for (ptrdiff_t i = 0; i < width; i++)
            total[i] = 0;
        for (ptrdiff_t piece = 0; piece < pieces; piece++) {
            const float *part = sums + (piece * many + which) * width;
            for (ptrdiff_t i = 0; i < width; i++)
                total[i] += part[i];
        }
    }
}

/* Runs a gradient's loop with room for the sums of its pieces, and adds these to `totals`. */
static int run_with_sums(int loop, Job *job, int place, ptrdiff_t rows, int many,
                         float *const *totals) {
    ptrdiff_t width = job->n[0], grain = 1 + PIECE / width, pieces = (rows + grain - 1) / grain;
    float *sums = PyMem_Malloc((size_t)(pieces * many * width) * sizeof(float));
    if (!sums) {
        PyErr_NoMemory();
        return 0;
    }
    job->p[place] = sums;
    job->n[1] = grain;
    int failed = run_loop(loop, job, rows, grain, 20 + 0.8 * (double)width);
    if (!failed)
        add_pieces(sums, pieces, many, width, totals);
    PyMem_Free(sums);
    return !failed;
}

KERNEL(layer_norm_gradient) {
    (void)module;
    PyObject *axis = attribute(x, count, names, "axis");
    ptrdiff_t width = count == 5 && is_plain(x[0]) && size(x[0]) ? width_of(x[0], axis) : 0;
    if (!width || !is_parameter(x[1], width) || !is_for_rows(x[2], x[0], width)
        || !is_for_rows(x[3], x[0], width) || !is_plain(x[4]) || !same_shape(x[0], x[4]))
        return NUMPYS(layer_norm_gradient);
    PyObject *dx = new_like(x[0]), *dscale = new_parameter(x[0], axis);
    PyObject *doffset = new_parameter(x[0], axis);
    if (dx && dscale && doffset) {
        Job job = {.p = {data(x[0]), data_or_null(x[1]), data(x[2]), data(x[3]), data(x[4]), data(dx)},
                   .n = {width}};
        float *totals[] = {data(dscale), data(doffset)};
        if (!run_with_sums(LOOP_layer_norm_gradient, &job, 6, size(x[2]), 2, totals))
            Py_CLEAR(dx);
    }
    return triple(dx, dscale, doffset);
}

KERNEL(rms_norm) {
    (void)module;
    PyObject *axis = attribute(x, count, names, "axis");
    ptrdiff_t width = count == 2 && is_plain(x[0]) && size(x[0]) ? width_of(x[0], axis) : 0;
    if (!width || !is_parameter(x[1], width))
        return NUMPYS(rms_norm);
    PyObject *y = new_like(x[0]), *spread = new_for_rows(x[0], axis);
    if (y && spread) {
        Job job = {.p = {data(x[0]), data_or_null(x[1]), data(y), data(spread)},
                   .n = {width},
                   .c = {epsilon_of(x, count, names)}};
        y = unless(run_loop(LOOP_rms_norm, &job, size(spread), 1 + PIECE / width,
                            15 + 0.4 * (double)width), y);
    }
    return pair(y, spread);
}

KERNEL(rms_norm_gradient) {
    (void)module;
    PyObject *axis = attribute(x, count, names, "axis");
    ptrdiff_t width = count == 4 && is_plain(x[0]) && size(x[0]) ? width_of(x[0], axis) : 0;
    if (!width || !is_parameter(x[1], width) || !is_for_rows(x[2], x[0], width) || !is_plain(x[3])
        || !same_shape(x[0], x[3]))
        return NUMPYS(rms_norm_gradient);
    PyObject *dx = new_like(x[0]), *dscale = new_parameter(x[0], axis);
    if (dx && dscale) {
        Job job = {.p = {data(x[0]), data_or_null(x[1]), data(x[2]), data(x[3]), data(dx)},
                   .n = {width}};
        float *totals[] = {data(dscale)};
        if (!run_with_sums(LOOP_rms_norm_gradient, &job, 5, size(x[2]), 1, totals))
            Py_CLEAR(dx);
    }
    return pair(dx, dscale);
}
