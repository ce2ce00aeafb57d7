/* Kernels of running sums, products and extremes. */
#include "calls.h"

/* True if x is C-contiguous but for the direction of an axis, which is stored in `reverse`. */
static int runs_along(PyObject *x, int axis, int *reverse) {
    ptrdiff_t step = PyArray_ITEMSIZE(as_array(x));
    *reverse = PyArray_STRIDE(as_array(x), axis) < 0 && PyArray_DIM(as_array(x), axis) > 1;
    for (int i = PyArray_NDIM(as_array(x)) - 1; i >= 0; i--) {
        ptrdiff_t stride = PyArray_STRIDE(as_array(x), i), along = PyArray_DIM(as_array(x), i);
        if (along != 1 && stride != (i == axis && *reverse ? -step : step))
            return 0;
        step *= along;
    }
    return PyArray_ISBEHAVED_RO(as_array(x));
}

/* y, whose reference is stolen, with an axis in the other direction. */
static PyObject *reversed(PyObject *y, int axis) {
    PyArrayObject *array = as_array(y);
    npy_intp strides[NPY_MAXDIMS];
    memcpy(strides, PyArray_STRIDES(array), (size_t)PyArray_NDIM(array) * sizeof *strides);
    char *first = (char *)data(y) + (PyArray_DIM(array, axis) - 1) * strides[axis];
    strides[axis] = -strides[axis];
    PyArray_Descr *dtype = PyArray_DESCR(array);
    Py_INCREF(dtype);
    PyObject *view =
        PyArray_NewFromDescr(&PyArray_Type, dtype, PyArray_NDIM(array), PyArray_DIMS(array),
                             strides, first, NPY_ARRAY_WRITEABLE, NULL);
    if (!view)
        Py_DECREF(y);
    else if (PyArray_SetBaseObject(as_array(view), y))
        Py_CLEAR(view);
    return view;
}

/* x with its axes as they lie in memory, whose order is stored; NULL without an error where that is
 * no array in C order either. */
static PyObject *as_it_lies(PyObject *x, int axis, npy_intp *order) {
    int ndim = PyArray_NDIM(as_array(x)), reverse;
    npy_stride_sort_item sorted[NPY_MAXDIMS];
    PyArray_CreateSortedStridePerm(ndim, PyArray_STRIDES(as_array(x)), sorted);
    for (int i = 0; i < ndim; i++)
        order[i] = sorted[i].perm;
    PyArray_Dims dims = {order, ndim};
    PyObject *view = PyArray_Transpose(as_array(x), &dims);
    for (int i = 0; view && i < ndim; i++)
        if (order[i] == axis && !runs_along(view, i, &reverse))
            Py_CLEAR(view);
    return view;
}

/* y, whose reference is stolen, with the axes that as_it_lies moved where they were. */
static PyObject *moved_back(PyObject *y, const npy_intp *order) {
    npy_intp back[NPY_MAXDIMS];
    int ndim = y ? PyArray_NDIM(as_array(y)) : 0;
    for (int i = 0; i < ndim; i++)
        back[order[i]] = i;
    PyArray_Dims dims = {back, ndim};
    PyObject *view = y ? PyArray_Transpose(as_array(y), &dims) : NULL;
    Py_XDECREF(y);
    return view;
}

/* The running combinations of x; NULL without an error where NumPy has to do it. */
static PyObject *running(PyObject *x, int axis, int initial, int loop32, int loop64, int integers) {
    int kind = PyArray_TYPE(as_array(x)), loop = kind == NPY_FLOAT  ? loop32
                                               : kind == NPY_DOUBLE ? loop64
                                               : kind == NPY_INT64  ? integers
                                                                    : NO_LOOP;
    if (loop == NO_LOOP)
        return NULL;
    int ndim = PyArray_NDIM(as_array(x)), reverse;
    if (axis < 0 || axis >= ndim)
        return NULL;
    PyObject *copy = NULL;
    if (!runs_along(x, axis, &reverse)) {
        npy_intp order[NPY_MAXDIMS];
        PyObject *view = as_it_lies(x, axis, order);
        if (view) {
            for (int i = 0; i < ndim; i++)
                axis = order[i] == axis ? i - ndim : axis;
            PyObject *y = running(view, axis + ndim, initial, loop32, loop64, integers);
            Py_DECREF(view);
            return moved_back(y, order);
        }
        if (PyErr_Occurred())
            return NULL;
        x = copy = PyArray_NewCopy(as_array(x), NPY_CORDER);
        reverse = 0;
        if (!copy)
            return NULL;
    }
    npy_intp shape[NPY_MAXDIMS];
    ptrdiff_t inner = 1, n = PyArray_DIM(as_array(x), axis);
    for (int i = 0; i < ndim; i++) {
        shape[i] = PyArray_DIM(as_array(x), i) + (i == axis && initial);
        inner *= i > axis ? shape[i] : 1;
    }
    int type = PyArray_TYPE(as_array(x));
    ptrdiff_t item = PyArray_ITEMSIZE(as_array(x)), outer = size(x) / n / inner;
    PyObject *y = new_array_of(type, item, ndim, shape);
    if (y) {
        ptrdiff_t blocks = (inner + 127) / 128, unit = n * (inner < 128 ? inner : 128);
        char *first = (char *)data(x) - (reverse ? (n - 1) * inner * item : 0);
        ScanArgs args = {.x = first,
                         .y = data(y),
                         .n = n,
                         .inner = inner,
                         .blocks = blocks,
                         .initial = initial,
                         .reverse = reverse};
        y = unless(run_loop(loop, &args, outer * blocks, 8 + PIECE / unit, 5 + 0.6 * (double)unit),
                   y);
    }
    Py_XDECREF(copy);
    return y && reverse ? reversed(y, axis) : y;
}

#define RUNNING(name, loop, integers)                                                              \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        PyObject *dtype = attribute(x, count, names, "dtype");                                     \
        PyObject *axis = attribute(x, count, names, "axis");                                       \
        if (count == 1 && (!dtype || dtype == Py_None) && axis && PyLong_Check(axis)               \
            && PyArray_CheckExact(x[0]) && size(x[0]) && PyArray_ISNOTSWAPPED(as_array(x[0]))) {   \
            PyObject *y = running(x[0], (int)PyLong_AsLong(axis),                                  \
                                  is_true(x, count, names, "include_initial"),                     \
                                  LOOP_##loop##_float32, LOOP_##loop##_float64, integers);         \
            if (y || PyErr_Occurred())                                                             \
                return y;                                                                          \
        }                                                                                          \
        return NUMPY_FALLBACK(name);                                                               \
    }

RUNNING(cumulative_sum, running_sum, LOOP_running_sum_int64)
RUNNING(cumulative_prod, running_prod, NO_LOOP)
RUNNING(cumulative_max, running_max, LOOP_running_max_int64)
RUNNING(cumulative_min, running_min, LOOP_running_min_int64)

KERNEL(linear_recurrence) {
    (void)module;
    PyObject *along = attribute(x, count, names, "axis");
    if (count != 2 || !along || !PyLong_Check(along) || !PyArray_CheckExact(x[0])
        || !PyArray_CheckExact(x[1]) || !same_shape(x[0], x[1]) || !size(x[0])
        || PyArray_TYPE(as_array(x[0])) != PyArray_TYPE(as_array(x[1]))
        || (PyArray_TYPE(as_array(x[0])) != NPY_FLOAT
            && PyArray_TYPE(as_array(x[0])) != NPY_DOUBLE))
        return NUMPY_FALLBACK(linear_recurrence);
    PyArrayObject *array = as_array(x[0]);
    int axis = (int)PyLong_AsLong(along), ndim = PyArray_NDIM(array), type = PyArray_TYPE(array);
    if (axis < 0 || axis >= ndim)
        return NUMPY_FALLBACK(linear_recurrence);
    ptrdiff_t inner = 1, n = PyArray_DIM(array, axis);
    for (int i = axis + 1; i < ndim; i++)
        inner *= PyArray_DIM(array, i);
    PyObject *a = plain_copy(x[0]), *b = plain_copy(x[1]);
    PyObject *y =
        a && b ? new_array_of(type, PyArray_ITEMSIZE(array), ndim, PyArray_DIMS(array)) : NULL;
    if (y) {
        ptrdiff_t blocks = (inner + 127) / 128, unit = n * (inner < 128 ? inner : 128);
        RecurrenceArgs args = {.a = data(a),
                               .b = data(b),
                               .y = data(y),
                               .n = n,
                               .inner = inner,
                               .blocks = blocks,
                               .reverse = is_true(x, count, names, "reverse")};
        y = unless(run_loop(type == NPY_FLOAT ? LOOP_recurrence_float32 : LOOP_recurrence_float64,
                            &args, size(x[0]) / n / inner * blocks, 8 + PIECE / unit,
                            5 + (double)unit),
                   y);
    }
    Py_XDECREF(a);
    Py_XDECREF(b);
    return y;
}
