/* The kernel of top_k. */
#include "calls.h"

/* Arrays of so many elements at most are turned around. */
#define MOST_TURNED 100000

/* The same for a copy of x in C order. */
static PyObject *of_copy(PyObject *x, PyObject *const *rest, PyObject *names) {
    PyObject *all[] = {PyArray_NewCopy(as_array(x), NPY_CORDER), rest[0], rest[1], rest[2]};
    PyObject *both = all[0] ? kernel_top_k(NULL, all, 1, names) : NULL;
    Py_XDECREF(all[0]);
    return both;
}

/* The same along another axis than the last: that of a copy with the two axes exchanged. */
static PyObject *of_turned(PyObject *const *x, int along, PyObject *names) {
    int last = PyArray_NDIM(as_array(x[0])) - 1;
    PyObject *all[] = {PyArray_SwapAxes(as_array(x[0]), along, last), x[1], x[2], x[3]};
    PyObject *axis = PyLong_FromLong(last), *both = NULL;
    for (Py_ssize_t i = 0; i < 3; i++)
        if (!PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "axis"))
            all[1 + i] = axis;
    if (all[0] && axis)
        both = kernel_top_k(NULL, all, 1, names);
    Py_XDECREF(all[0]);
    Py_XDECREF(axis);
    if (!both || !PyTuple_CheckExact(both))
        return both;
    PyObject *values = PyArray_SwapAxes(as_array(PyTuple_GET_ITEM(both, 0)), along, last);
    PyObject *indices = PyArray_SwapAxes(as_array(PyTuple_GET_ITEM(both, 1)), along, last);
    Py_DECREF(both);
    return pair(values, indices);
}

KERNEL(top_k) {
    (void)module;
    if (count == 1 && names && PyTuple_GET_SIZE(names) == 3 && PyArray_CheckExact(x[0])
        && PyArray_ISNOTSWAPPED(as_array(x[0])) && !PyArray_ISCARRAY_RO(as_array(x[0])))
        return of_copy(x[0], x + 1, names);
    static const int loops_of[] = {LOOP_top_float32, LOOP_top_float64, LOOP_top_int32,
                                   LOOP_top_int64};
    PyObject *wanted = attribute(x, count, names, "k"), *axis = attribute(x, count, names, "axis");
    if (count != 1 || !wanted || !axis || !PyArray_CheckExact(x[0])
        || !PyArray_ISCARRAY_RO(as_array(x[0])) || !size(x[0]))
        return NUMPY_FALLBACK(top_k);
    int ndim = PyArray_NDIM(as_array(x[0])), type = PyArray_TYPE(as_array(x[0]));
    int which = type == NPY_FLOAT ? 0 : type == NPY_DOUBLE ? 1 : type == NPY_INT32 ? 2 : 3;
    ptrdiff_t k = PyLong_AsSsize_t(wanted), along = PyLong_AsSsize_t(axis);
    if (PyErr_Occurred())
        return NULL;
    npy_intp shape[NPY_MAXDIMS];
    if (along >= 0 && along < ndim - 1 && PyTuple_GET_SIZE(names) == 3 && size(x[0]) <= MOST_TURNED)
        return of_turned(x, (int)along, names);
    if (along != ndim - 1 || k < 1 || k > MOST_SELECTED || (which == 3 && type != NPY_INT64))
        return NUMPY_FALLBACK(top_k);
    memcpy(shape, PyArray_DIMS(as_array(x[0])), (size_t)ndim * sizeof *shape);
    ptrdiff_t n = shape[along];
    if (k > n)
        return NUMPY_FALLBACK(top_k);
    shape[along] = k;
    PyObject *values = new_array_of(type, PyArray_ITEMSIZE(as_array(x[0])), ndim, shape);
    PyObject *indices = values ? new_array_of(NPY_INT64, sizeof(int64_t), ndim, shape) : NULL;
    if (indices) {
        TopArgs args = {.x = data(x[0]),
                        .values = data(values),
                        .indices = data(indices),
                        .n = n,
                        .k = k,
                        .largest = is_true(x, count, names, "largest")};
        values = unless(run_loop(loops_of[which], &args, size(x[0]) / n, 1 + PIECE / n,
                                 20 + 0.4 * (double)n + 10 * (double)k),
                        values);
    }
    return pair(values, indices);
}

/* The positions of what is not 0 in `found`, bytes in the shape of an array of `ndim`
 * axes, to the `count` rows of y: eight zeros are passed over at once. */
static void positions_of(const uint8_t *found, ptrdiff_t all, int ndim, const npy_intp *shape,
                         ptrdiff_t count, int64_t *y) {
    int64_t at[NPY_MAXDIMS] = {0};
    const int last = ndim - 1;
    const ptrdiff_t columns = shape[last];
    const int64_t *end = y + count * ndim;
    for (ptrdiff_t row = 0; row < all && y < end; row += columns) {
        for (ptrdiff_t begin = 0; begin < columns && y < end; begin += 8) {
            ptrdiff_t some = columns - begin < 8 ? columns - begin : 8;
            uint64_t any = 0;
            memcpy(&any, found + begin, (size_t)some);
            for (ptrdiff_t i = begin; any && i < begin + some && y < end; i++) {
                /* Written over where it is 0: a jump would be guessed wrong. */
                for (int axis = 0; axis < last; axis++)
                    y[axis] = at[axis];
                y[last] = i;
                y += found[i] ? ndim : 0;
            }
        }
        found += columns;
        for (int axis = last - 1; axis >= 0 && ++at[axis] == shape[axis]; axis--)
            at[axis] = 0;
    }
}

/* Of matrices and more: NumPy takes vectors in one pass. */
KERNEL(argwhere) {
    (void)module;
    if (count != 1 || !PyArray_CheckExact(x[0]) || PyArray_NDIM(as_array(x[0])) < 2)
        return NUMPY_FALLBACK(argwhere);
    PyArrayObject *array = as_array(x[0]);
    PyObject *found = PyArray_TYPE(array) == NPY_BOOL         ? Py_NewRef(x[0])
                    : type_numbered(PyArray_TYPE(array)) >= 0 ? truth(x[0])
                                                              : NULL;
    if (!found)
        return PyErr_Occurred() ? NULL : NUMPY_FALLBACK(argwhere);
    PyObject *plain = plain_copy(found), *y = NULL;
    Py_DECREF(found);
    npy_intp shape[2] = {plain ? PyArray_CountNonzero(as_array(plain)) : -1, PyArray_NDIM(array)};
    if (shape[0] >= 0)
        y = new_array_of(NPY_INT64, sizeof(int64_t), 2, shape);
    if (y && shape[0]) {
        PyThreadState *held = (double)size(plain) > WORTH_THE_LOCK ? PyEval_SaveThread() : NULL;
        positions_of(data(plain), size(plain), (int)shape[1], PyArray_DIMS(array), shape[0],
                     data(y));
        if (held)
            PyEval_RestoreThread(held);
    }
    Py_XDECREF(plain);
    return y;
}
