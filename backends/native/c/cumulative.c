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

/* The running combinations of x; NULL without an error where NumPy has to do it. */
static PyObject *running(PyObject *x, PyObject *along, int initial, int loop32, int loop64) {
    if (!along || !PyLong_Check(along) || !PyArray_CheckExact(x) || !size(x)
        || (PyArray_TYPE(as_array(x)) != NPY_FLOAT && PyArray_TYPE(as_array(x)) != NPY_DOUBLE)
        || !PyArray_ISNOTSWAPPED(as_array(x)))
        return NULL;
    int axis = (int)PyLong_AsLong(along), ndim = PyArray_NDIM(as_array(x)), reverse;
    if (axis < 0 || axis >= ndim)
        return NULL;
    PyObject *copy = NULL;
    if (!runs_along(x, axis, &reverse)) {
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
        y = unless(run_loop(type == NPY_FLOAT ? loop32 : loop64, &args, outer * blocks,
                            8 + PIECE / unit, 5 + 0.6 * (double)unit),
                   y);
    }
    Py_XDECREF(copy);
    return y && reverse ? reversed(y, axis) : y;
}

#define RUNNING(name, loop)                                                                        \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        PyObject *dtype = attribute(x, count, names, "dtype");                                     \
        if (count == 1 && (!dtype || dtype == Py_None)) {                                          \
            PyObject *y = running(x[0], attribute(x, count, names, "axis"),                        \
                                  is_true(x, count, names, "include_initial"),                     \
                                  LOOP_##loop##_float32, LOOP_##loop##_float64);                   \
            if (y || PyErr_Occurred())                                                             \
                return y;                                                                          \
        }                                                                                          \
        return NUMPY_FALLBACK(name);                                                               \
    }

RUNNING(cumulative_sum, running_sum)
RUNNING(cumulative_prod, running_prod)
RUNNING(cumulative_max, running_max)
RUNNING(cumulative_min, running_min)
