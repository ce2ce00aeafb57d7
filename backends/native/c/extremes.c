/* The kernels of scatter_max and scatter_min. */
#include "calls.h"

/* Takes the larger or the smaller of an element and of each row that goes to it; NaN is kept, and
 * taken. 0 for an index that is out of range. */
#define EXTREMES(T)                                                                                \
    static int extremes_##T(const T *row, const Indices *ids, ptrdiff_t outer, ptrdiff_t size,     \
                            ptrdiff_t inner, int largest, T *y) {                                  \
        for (ptrdiff_t item = 0; item < outer; item++, y += size * inner)                          \
            for (ptrdiff_t i = 0; i < ids->count; i++, row += inner) {                             \
                ptrdiff_t id = index_of(ids, i);                                                   \
                id += id < 0 ? size : 0;                                                           \
                if (id < 0 || id >= size)                                                          \
                    return 0;                                                                      \
                T *own = y + id * inner;                                                           \
                for (ptrdiff_t at = 0; at < inner; at++) {                                         \
                    T a = own[at], b = row[at];                                                    \
                    int stays = (a != a) | (largest ? a >= b : a <= b);                            \
                    own[at] = stays ? a : b;                                                       \
                }                                                                                  \
            }                                                                                      \
        return 1;                                                                                  \
    }
EXTREMES(float)
EXTREMES(double)
EXTREMES(int32_t)
EXTREMES(int64_t)

static PyObject *extremes(int largest, PyObject *const *x, Py_ssize_t count, PyObject *names) {
    PyObject *axis = attribute(x, count, names, "axis");
    Indices ids;
    if (count != 3 || !axis || !as_indices(x[1], &ids) || !PyArray_CheckExact(x[0])
        || !PyArray_CheckExact(x[2]) || !PyArray_ISBEHAVED_RO(as_array(x[0]))
        || !PyArray_ISCARRAY_RO(as_array(x[2])) || !size(x[0])
        || PyArray_TYPE(as_array(x[0])) != PyArray_TYPE(as_array(x[2])))
        return NULL;
    int ndim = PyArray_NDIM(as_array(x[0])), type = PyArray_TYPE(as_array(x[0]));
    int along = (int)PyLong_AsLong(axis);
    if (along < 0 || along >= ndim
        || (type != NPY_FLOAT && type != NPY_DOUBLE && type != NPY_INT32 && type != NPY_INT64))
        return NULL;
    ptrdiff_t outer = 1, inner = 1;
    for (int i = 0; i < ndim; i++)
        *(i < along ? &outer : &inner) *= i == along ? 1 : PyArray_DIM(as_array(x[0]), i);
    if (outer * ids.count * inner != size(x[2]))
        return NULL;
    PyObject *y = PyArray_NewCopy(as_array(x[0]), NPY_CORDER);
    if (!y)
        return NULL;
    ptrdiff_t all = PyArray_DIM(as_array(x[0]), along);
    int inside = type == NPY_FLOAT
                   ? extremes_float(data(x[2]), &ids, outer, all, inner, largest, data(y))
               : type == NPY_DOUBLE
                   ? extremes_double(data(x[2]), &ids, outer, all, inner, largest, data(y))
               : type == NPY_INT32
                   ? extremes_int32_t(data(x[2]), &ids, outer, all, inner, largest, data(y))
                   : extremes_int64_t(data(x[2]), &ids, outer, all, inner, largest, data(y));
    return unless(!inside, y);
}

KERNEL(scatter_max) {
    (void)module;
    PyObject *y = extremes(1, x, count, names);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(scatter_max);
}

KERNEL(scatter_min) {
    (void)module;
    PyObject *y = extremes(0, x, count, names);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(scatter_min);
}
