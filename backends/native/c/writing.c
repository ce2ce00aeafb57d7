/* x[key] = value into the array of a tensor that nobody else has. The GIL is held from the test of
 * the references to the last element, as in updates.c: no thread sees an array half written. So
 * what would take long is left to a copy. */
#include "calls.h"

/* The most bytes that are written here: less than a millisecond. */
#define MOST_BYTES (1 << 22)

#define COPY_RUN(type)                                                                             \
    for (npy_intp i = 0; i < count; i++)                                                           \
        *(type *)(y + i * y_step) = *(const type *)(x + i * x_step);

/* Copies `count` elements of so many bytes. */
static void copy_run(char *y, npy_intp y_step, const char *x, npy_intp x_step, npy_intp count,
                     size_t width) {
    if (y_step == (npy_intp)width && x_step == (npy_intp)width)
        memcpy(y, x, (size_t)count * width);
    else if (width == 8)
        COPY_RUN(int64_t)
    else if (width == 4)
        COPY_RUN(int32_t)
    else if (width == 2)
        COPY_RUN(int16_t)
    else if (width == 1)
        COPY_RUN(char)
    else
        for (npy_intp i = 0; i < count; i++)
            memcpy(y + i * y_step, x + i * x_step, width);
}

/* Copies x, of the shape of y or broadcast to it, from an axis of y on. */
static void copy_axes(PyArrayObject *y, int axis, char *to, PyArrayObject *x, const char *from) {
    int own = axis - PyArray_NDIM(y) + PyArray_NDIM(x);
    npy_intp count = PyArray_NDIM(y) ? PyArray_DIM(y, axis) : 1;
    npy_intp y_step = PyArray_NDIM(y) ? PyArray_STRIDE(y, axis) : 0;
    npy_intp x_step =
        own < 0 || !PyArray_NDIM(x) || PyArray_DIM(x, own) == 1 ? 0 : PyArray_STRIDE(x, own);
    if (axis + 1 >= PyArray_NDIM(y)) {
        copy_run(to, y_step, from, x_step, count, (size_t)PyArray_ITEMSIZE(y));
        return;
    }
    for (npy_intp i = 0; i < count; i++)
        copy_axes(y, axis + 1, to + i * y_step, x, from + i * x_step);
}

static int broadcasts(PyArrayObject *x, PyArrayObject *y) {
    int more = PyArray_NDIM(y) - PyArray_NDIM(x);
    if (more < 0)
        return 0;
    for (int axis = 0; axis < PyArray_NDIM(x); axis++)
        if (PyArray_DIM(x, axis) != 1 && PyArray_DIM(x, axis) != PyArray_DIM(y, axis + more))
            return 0;
    return 1;
}

/* True for arrays of one type, whose elements can be copied as bytes. */
static int are_alike(PyObject *x, PyObject *y) {
    return PyArray_CheckExact(x) && PyArray_CheckExact(y)
        && PyArray_TYPE(as_array(x)) == PyArray_TYPE(as_array(y))
        && PyArray_ISBEHAVED_RO(as_array(x)) && PyArray_ISBEHAVED_RO(as_array(y))
        && !PyDataType_REFCHK(PyArray_DESCR(as_array(y)));
}

/* The array of a tensor; NULL with an error for what is none. */
static PyObject *array_of(PyObject *tensor) {
    PyObject *array = PyObject_GetAttr(tensor, array_name);
    if (array && !PyArray_CheckExact(array)) {
        PyErr_SetString(PyExc_TypeError, "the tensor has no array of NumPy");
        Py_CLEAR(array);
    }
    return array;
}

/* write_part(tensor, value, key): tensor[key] = value; False where that is to be done by a copy. */
PyObject *write_part(PyObject *module, PyObject *const *x, Py_ssize_t count) {
    (void)module;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "write_part takes a tensor, a value and a key");
        return NULL;
    }
    PyObject *array = array_of(x[0]), *part = array ? PyObject_GetItem(array, x[2]) : NULL;
    if (!part) {
        Py_XDECREF(array);
        return NULL;
    }
    int writes = PyArray_CheckExact(part) && PyArray_BASE(as_array(part)) == array
              && are_alike(array, x[1]) && PyArray_NBYTES(as_array(part)) <= MOST_BYTES
              && broadcasts(as_array(x[1]), as_array(part)) && is_owners_alone(array, 3);
    if (writes && size(part)) {
        forget_strips(array);
        copy_axes(as_array(part), 0, data(part), as_array(x[1]), data(x[1]));
    }
    Py_DECREF(part);
    Py_DECREF(array);
    return PyBool_FromLong(writes);
}

/* write_rows(tensor, positions, values): tensor[positions] = values, for positions along the first
 * axis; False where that is to be done by a copy. */
PyObject *write_rows(PyObject *module, PyObject *const *x, Py_ssize_t count) {
    (void)module;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "write_rows takes a tensor, positions and values");
        return NULL;
    }
    PyObject *array = array_of(x[0]);
    if (!array)
        return NULL;
    Indices ids;
    int writes = is_owners_alone(array, 2) && are_alike(array, x[2]) && as_indices(x[1], &ids)
              && PyArray_ISCARRAY(as_array(array)) && PyArray_NDIM(as_array(array)) && size(array);
    if (writes) {
        char *y = data(array);
        const char *value = data(x[2]);
        ptrdiff_t rows = PyArray_DIM(as_array(array), 0), item = PyArray_ITEMSIZE(as_array(array));
        ptrdiff_t width = PyArray_NBYTES(as_array(array)) / rows;
        int one = 1; /* a number for all elements */
        for (int axis = 0; axis < PyArray_NDIM(as_array(x[2])); axis++)
            one = one && !PyArray_STRIDE(as_array(x[2]), axis);
        writes = ids.count * width <= MOST_BYTES && size(x[2]) * item == ids.count * width
              && (one || PyArray_ISCARRAY_RO(as_array(x[2])));
        for (ptrdiff_t i = 0; writes && i < ids.count; i++)
            writes = index_of(&ids, i) >= -rows && index_of(&ids, i) < rows;
        if (writes)
            forget_strips(array);
        for (ptrdiff_t i = 0; writes && i < ids.count; i++) {
            ptrdiff_t id = index_of(&ids, i);
            copy_run(y + (id < 0 ? id + rows : id) * width, item, one ? value : value + i * width,
                     one ? 0 : item, width / item, (size_t)item);
        }
    }
    Py_DECREF(array);
    return PyBool_FromLong(writes);
}
