/* Kernels of matrices and vectors in the last axes: triangles, and cross products. */
#include "calls.h"

/* The columns of row i that a triangle keeps: those before `end`, or from it on. */
static ptrdiff_t end_of(ptrdiff_t row, long k, ptrdiff_t columns) {
    ptrdiff_t end = row + k;
    return end < 0 ? 0 : end > columns ? columns : end;
}

/* From so many elements on in another order NumPy's mask takes less time than a copy. */
#define WORTH_A_MASK 4096

/* x with its last two axes exchanged. */
static PyObject *transposed(PyObject *x) {
    int ndim = PyArray_NDIM(as_array(x));
    return PyArray_SwapAxes(as_array(x), ndim - 2, ndim - 1);
}

/* x with zeros above diagonal k, or below it. */
static PyObject *triangle_of(PyObject *x, int lower, long k) {
    int ndim = PyArray_NDIM(as_array(x));
    ptrdiff_t rows = PyArray_DIM(as_array(x), ndim - 2);
    ptrdiff_t columns = PyArray_DIM(as_array(x), ndim - 1);
    ptrdiff_t item = PyArray_ITEMSIZE(as_array(x)), all = columns ? size(x) / columns : 0;
    PyObject *y = new_array_of(PyArray_TYPE(as_array(x)), item, ndim, PyArray_DIMS(as_array(x)));
    PyObject *plain = y ? plain_copy(x) : NULL;
    if (!plain) {
        Py_XDECREF(y);
        return NULL;
    }
    const char *from = data(plain);
    char *to = data(y);
    ptrdiff_t width = columns * item;
    int free = (double)all * (double)width > 10 * WORTH_THE_LOCK;
    PyThreadState *held = free ? PyEval_SaveThread() : NULL;
    for (ptrdiff_t row = 0; row < all; row++, from += width, to += width) {
        ptrdiff_t end = end_of(row % rows, lower ? k + 1 : k, columns) * item;
        if (lower) {
            memcpy(to, from, (size_t)end);
            memset(to + end, 0, (size_t)(width - end));
        } else {
            memset(to, 0, (size_t)end);
            memcpy(to + end, from + end, (size_t)(width - end));
        }
    }
    if (held)
        PyEval_RestoreThread(held);
    Py_DECREF(plain);
    return y;
}

/* The same for a call; NULL without an error where NumPy has to do it. */
static PyObject *triangle(int lower, PyObject *const *x, Py_ssize_t count, PyObject *names) {
    PyObject *number = attribute(x, count, names, "k");
    if (count != 1 || !number || !PyArray_CheckExact(x[0]) || !PyArray_ISBEHAVED_RO(as_array(x[0]))
        || PyArray_NDIM(as_array(x[0])) < 2
        || !(PyArray_ISNUMBER(as_array(x[0])) || PyArray_ISBOOL(as_array(x[0]))
             || PyArray_TYPE(as_array(x[0])) == bfloat16))
        return NULL;
    int overflow;
    long k = PyLong_AsLongAndOverflow(number, &overflow);
    if (overflow || k < -PY_SSIZE_T_MAX / 4 || k > PY_SSIZE_T_MAX / 4)
        return NULL;
    PyObject *turned = PyArray_ISCARRAY_RO(as_array(x[0])) ? NULL : transposed(x[0]), *y = NULL;
    if (turned && PyArray_ISCARRAY_RO(as_array(turned))) {
        PyObject *other = triangle_of(turned, !lower, -k);
        y = other ? transposed(other) : NULL;
        Py_XDECREF(other);
    } else if (!PyErr_Occurred() && (!turned || size(x[0]) < WORTH_A_MASK)) {
        y = triangle_of(x[0], lower, k);
    }
    Py_XDECREF(turned);
    return y;
}

#define CROSS(T)                                                                                   \
    static void cross_##T(const T *a, const T *b, T *y, ptrdiff_t count) {                         \
        for (ptrdiff_t i = 0; i < 3 * count; i += 3) {                                             \
            y[i] = a[i + 1] * b[i + 2] - a[i + 2] * b[i + 1];                                      \
            y[i + 1] = a[i + 2] * b[i] - a[i] * b[i + 2];                                          \
            y[i + 2] = a[i] * b[i + 1] - a[i + 1] * b[i];                                          \
        }                                                                                          \
    }
CROSS(float)
CROSS(double)

/* Of vectors along the last axis, of one shape, and so many elements at most. */
#define FEW_IN_VECTORS 65536
KERNEL(cross) {
    (void)module;
    PyObject *axis = attribute(x, count, names, "axis");
    int type = count == 2 && PyArray_CheckExact(x[0]) ? PyArray_TYPE(as_array(x[0])) : -1;
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || !axis || PyLong_AsLong(axis) != -1
        || !PyArray_CheckExact(x[1]) || PyArray_TYPE(as_array(x[1])) != type
        || !PyArray_ISBEHAVED_RO(as_array(x[0])) || !PyArray_ISBEHAVED_RO(as_array(x[1]))
        || !same_shape(x[0], x[1]) || !PyArray_NDIM(as_array(x[0])) || size(x[0]) > FEW_IN_VECTORS
        || PyArray_DIM(as_array(x[0]), PyArray_NDIM(as_array(x[0])) - 1) != 3)
        return NUMPY_FALLBACK(cross);
    PyObject *all[2] = {NULL, NULL};
    for (int i = 0; i < 2 && (!i || all[0]); i++)
        all[i] = plain_copy(x[i]);
    PyObject *y = all[1] ? new_array_of(type, PyArray_ITEMSIZE(as_array(x[0])),
                                        PyArray_NDIM(as_array(x[0])), PyArray_DIMS(as_array(x[0])))
                         : NULL;
    if (y && type == NPY_FLOAT)
        cross_float(data(all[0]), data(all[1]), data(y), size(y) / 3);
    else if (y)
        cross_double(data(all[0]), data(all[1]), data(y), size(y) / 3);
    Py_XDECREF(all[0]);
    Py_XDECREF(all[1]);
    return y;
}

KERNEL(tril) {
    (void)module;
    PyObject *y = triangle(1, x, count, names);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(tril);
}

KERNEL(triu) {
    (void)module;
    PyObject *y = triangle(0, x, count, names);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(triu);
}
