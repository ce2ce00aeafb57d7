/* Kernels of one number for each row, of the last axes of contiguous arrays; and of groups of
 * channels. */
#include <math.h>

#include "calls.h"

/* Elements of a row: longer ones are NumPy's kernel's, which splits them over threads. */
#define MOST_SUMMED 32768

/* The elements of a row if `axis` names the last axes of x, or all; 0 where NumPy has to do it. */
static ptrdiff_t row_width(PyObject *x, PyObject *axis, int *others) {
    if (!axis || !PyArray_CheckExact(x) || !PyArray_ISCARRAY_RO(as_array(x)) || !size(x)
        || (PyArray_TYPE(as_array(x)) != NPY_FLOAT && PyArray_TYPE(as_array(x)) != NPY_DOUBLE))
        return 0;
    int ndim = PyArray_NDIM(as_array(x)), many = ndim;
    if (axis != Py_None) {
        if (!PyTuple_CheckExact(axis))
            return 0;
        many = (int)PyTuple_GET_SIZE(axis);
        for (int i = 0; i < many; i++)
            if (PyLong_AsLong(PyTuple_GET_ITEM(axis, i)) != ndim - many + i)
                return 0;
    }
    ptrdiff_t width = 1;
    for (int i = ndim - many; i < ndim; i++)
        width *= PyArray_DIM(as_array(x), i);
    *others = ndim - many;
    return width <= MOST_SUMMED ? width : 0;
}

/* What a loop has of each row; NULL without an error where NumPy has to do it. */
static PyObject *rowwise(int loop32, int loop64, RowwiseArgs *args, double cost, PyObject *const *x,
                         Py_ssize_t count, PyObject *names) {
    int others;
    PyObject *keep = attribute(x, count, names, "keepdims");
    ptrdiff_t width =
        count == 1 && keep ? row_width(x[0], attribute(x, 1, names, "axis"), &others) : 0;
    if (!width)
        return NULL;
    npy_intp shape[NPY_MAXDIMS];
    int ndim = PyArray_NDIM(as_array(x[0])), wide = PyArray_TYPE(as_array(x[0])) == NPY_DOUBLE;
    for (int i = 0; i < ndim; i++)
        shape[i] = i < others ? PyArray_DIM(as_array(x[0]), i) : 1;
    PyObject *y = new_array_of(wide ? NPY_DOUBLE : NPY_FLOAT, wide ? 8 : 4,
                               keep == Py_True ? ndim : others, shape);
    if (!y)
        return NULL;
    args->x = data(x[0]);
    args->y = data(y);
    args->width = width;
    return unless(run_loop(wide ? loop64 : loop32, args, size(x[0]) / width, 1 + PIECE / width,
                           15 + cost * (double)width),
                  y);
}

static PyObject *variance(int root, PyObject *const *x, Py_ssize_t count, PyObject *names) {
    int others;
    double correction = ATTRIBUTE(correction);
    ptrdiff_t width = count == 1 && !PyErr_Occurred()
                        ? row_width(x[0], attribute(x, 1, names, "axis"), &others)
                        : 0;
    PyErr_Clear();
    double left = (double)width - correction;
    RowwiseArgs args = {.left = left > 0 ? left : 0, .root = root};
    return width
             ? rowwise(LOOP_variance_float32, LOOP_variance_float64, &args, 0.6, x, count, names)
             : NULL;
}

#define VARIANCE(name, root)                                                                       \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        PyObject *y = variance(root, x, count, names);                                             \
        return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(name);                                   \
    }
VARIANCE(var, 0)
VARIANCE(std, 1)

KERNEL(logsumexp) {
    (void)module;
    RowwiseArgs args = {0};
    PyObject *y =
        rowwise(LOOP_logsumexp_float32, LOOP_logsumexp_float64, &args, 1.0, x, count, names);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(logsumexp);
}

/* True of None, and of an array of x's dtype with a number for each channel. */
static int is_for_channels(PyObject *parameter, PyObject *x, ptrdiff_t channels) {
    return parameter == Py_None
        || (PyArray_CheckExact(parameter) && PyArray_ISCARRAY_RO(as_array(parameter))
            && PyArray_TYPE(as_array(parameter)) == PyArray_TYPE(as_array(x))
            && size(parameter) == channels);
}

KERNEL(group_norm) {
    (void)module;
    PyObject *wanted = attribute(x, count, names, "groups");
    PyObject *axis = attribute(x, count, names, "axis");
    if (count != 3 || !wanted || !axis || !PyArray_CheckExact(x[0])
        || !PyArray_ISCARRAY_RO(as_array(x[0])) || PyArray_NDIM(as_array(x[0])) < 2 || !size(x[0])
        || (PyArray_TYPE(as_array(x[0])) != NPY_FLOAT
            && PyArray_TYPE(as_array(x[0])) != NPY_DOUBLE))
        return NUMPY_FALLBACK(group_norm);
    int ndim = PyArray_NDIM(as_array(x[0])), wide = PyArray_TYPE(as_array(x[0])) == NPY_DOUBLE;
    ptrdiff_t channels = PyArray_DIM(as_array(x[0]), ndim - 1);
    ptrdiff_t items = PyArray_DIM(as_array(x[0]), 0), groups = PyLong_AsSsize_t(wanted);
    double epsilon = ATTRIBUTE(epsilon);
    if (PyErr_Occurred())
        return NULL;
    if (PyLong_AsLong(axis) != ndim - 1 || channels > MOST_CHANNELS || groups < 1
        || channels % groups || !is_for_channels(x[1], x[0], channels)
        || !is_for_channels(x[2], x[0], channels))
        return NUMPY_FALLBACK(group_norm);
    PyObject *y = new_array_of(PyArray_TYPE(as_array(x[0])), PyArray_ITEMSIZE(as_array(x[0])), ndim,
                               PyArray_DIMS(as_array(x[0])));
    if (!y)
        return NULL;
    GroupNormArgs args = {.x = data(x[0]),
                          .scale = x[1] == Py_None ? NULL : data(x[1]),
                          .offset = x[2] == Py_None ? NULL : data(x[2]),
                          .y = data(y),
                          .pixels = size(x[0]) / items / channels,
                          .channels = channels,
                          .groups = groups,
                          .epsilon = epsilon};
    ptrdiff_t each = size(x[0]) / items;
    return unless(run_loop(wide ? LOOP_group_norm_float64 : LOOP_group_norm_float32, &args, items,
                           1 + PIECE / each, 30 + 0.8 * (double)each),
                  y);
}
