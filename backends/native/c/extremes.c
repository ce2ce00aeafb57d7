/* The kernels of scatter_max, scatter_min and scatter_multiply, of segment_prod, and of scatter_add
 * of integers. Products of float32 are in double, and rounded once. */
#include "calls.h"

enum { LARGER, SMALLER, PRODUCT, SUM };

/* An element of numbers and one that goes to it: the larger or the smaller one, where NaN is kept
 * and taken; their product or sum. U is the type of results without a sign: what overflows is cut.
 */
#define OF_NUMBERS(T, U)                                                                           \
    (how == PRODUCT                                 ? (T)((U)a * (U)b)                             \
     : how == SUM                                   ? (T)((U)a + (U)b)                             \
     : (a != a) | (how == LARGER ? a >= b : a <= b) ? a                                            \
                                                    : b)

/* A number whose order is that of 16-bit floats by their bits; both zeros are one. */
static inline int order_of(uint16_t bits) { return bits & 0x8000 ? -(bits & 0x7fff) : bits; }

/* The same extreme of 16-bit floats, whose NaN have bits above those of infinity. */
static inline uint16_t extreme_half(uint16_t a, uint16_t b, int how, uint16_t infinity) {
    int first = order_of(a), second = order_of(b);
    int wins = how == LARGER ? second > first : second < first;
    wins |= (b & 0x7fff) > infinity;
    return wins & ((a & 0x7fff) <= infinity) ? b : a;
}

/* Makes of each element and of each row that goes to it what is `joined` of them; 0 for an index
 * that is out of range. */
#define COMBINING(name, R, T, joined)                                                              \
    static int combine_##name(const R *row, const Indices *ids, ptrdiff_t outer, ptrdiff_t size,   \
                              ptrdiff_t inner, int how, T *y) {                                    \
        for (ptrdiff_t item = 0; item < outer; item++, y += size * inner)                          \
            for (ptrdiff_t i = 0; i < ids->count; i++, row += inner) {                             \
                ptrdiff_t id = index_of(ids, i);                                                   \
                id += id < 0 ? size : 0;                                                           \
                if (id < 0 || id >= size)                                                          \
                    return 0;                                                                      \
                T *own = y + id * inner;                                                           \
                for (ptrdiff_t at = 0; at < inner; at++) {                                         \
                    T a = own[at], b = (T)row[at];                                                 \
                    own[at] = joined;                                                              \
                }                                                                                  \
            }                                                                                      \
        return 1;                                                                                  \
    }
COMBINING(float, float, float, OF_NUMBERS(float, float))
COMBINING(widened, float, double, OF_NUMBERS(double, double))
COMBINING(double, double, double, OF_NUMBERS(double, double))
COMBINING(int32_t, int32_t, int32_t, OF_NUMBERS(int32_t, uint32_t))
COMBINING(int64_t, int64_t, int64_t, OF_NUMBERS(int64_t, uint64_t))
COMBINING(float16, uint16_t, uint16_t, extreme_half(a, b, how, 0x7c00))
COMBINING(bfloat16, uint16_t, uint16_t, extreme_half(a, b, how, 0x7f80))

/* Combines rows into y, which is of their type, or of float64 where they are of float32. */
static int combine(PyObject *rows, const Indices *ids, ptrdiff_t outer, ptrdiff_t size,
                   ptrdiff_t inner, int how, PyObject *y) {
    int type = PyArray_TYPE(as_array(rows));
    if (type == NPY_HALF)
        return combine_float16(data(rows), ids, outer, size, inner, how, data(y));
    if (type == bfloat16)
        return combine_bfloat16(data(rows), ids, outer, size, inner, how, data(y));
    if (type != PyArray_TYPE(as_array(y)))
        return combine_widened(data(rows), ids, outer, size, inner, how, data(y));
    return type == NPY_FLOAT  ? combine_float(data(rows), ids, outer, size, inner, how, data(y))
         : type == NPY_DOUBLE ? combine_double(data(rows), ids, outer, size, inner, how, data(y))
         : type == NPY_INT32  ? combine_int32_t(data(rows), ids, outer, size, inner, how, data(y))
                              : combine_int64_t(data(rows), ids, outer, size, inner, how, data(y));
}

static int is_combined(int type) {
    return type == NPY_FLOAT || type == NPY_DOUBLE || type == NPY_INT32 || type == NPY_INT64;
}

/* y, which may be NULL, in another type; steals its reference. */
static PyObject *rounded(PyObject *y, int type) {
    if (!y || PyArray_TYPE(as_array(y)) == type)
        return y;
    PyObject *narrow = PyArray_Cast(as_array(y), type);
    Py_DECREF(y);
    return narrow;
}

static PyObject *combined(int how, PyObject *const *x, Py_ssize_t count, PyObject *names) {
    PyObject *axis = attribute(x, count, names, "axis");
    Indices ids;
    if (count != 3 || !axis || !as_indices(x[1], &ids) || !PyArray_CheckExact(x[0])
        || !PyArray_CheckExact(x[2]) || !PyArray_ISBEHAVED_RO(as_array(x[0]))
        || !PyArray_ISBEHAVED_RO(as_array(x[2])) || !size(x[0])
        || PyArray_TYPE(as_array(x[0])) != PyArray_TYPE(as_array(x[2])))
        return NULL;
    int ndim = PyArray_NDIM(as_array(x[0])), type = PyArray_TYPE(as_array(x[0]));
    int along = (int)PyLong_AsLong(axis);
    int is_half = (how == LARGER || how == SMALLER) && (type == NPY_HALF || type == bfloat16);
    if (along < 0 || along >= ndim || !(is_combined(type) || is_half))
        return NULL;
    ptrdiff_t outer = 1, inner = 1;
    for (int i = 0; i < ndim; i++)
        *(i < along ? &outer : &inner) *= i == along ? 1 : PyArray_DIM(as_array(x[0]), i);
    if (outer * ids.count * inner != size(x[2]))
        return NULL;
    PyObject *rows = plain_copy(x[2]), *y = NULL;
    if (rows)
        y = how == PRODUCT && type == NPY_FLOAT ? PyArray_Cast(as_array(x[0]), NPY_DOUBLE)
                                                : PyArray_NewCopy(as_array(x[0]), NPY_CORDER);
    if (y && !PyArray_IS_C_CONTIGUOUS(as_array(y)))
        Py_SETREF(y, PyArray_NewCopy(as_array(y), NPY_CORDER));
    if (y) {
        ptrdiff_t all = PyArray_DIM(as_array(x[0]), along);
        y = unless(!combine(rows, &ids, outer, all, inner, how, y), y);
    }
    Py_XDECREF(rows);
    return rounded(y, type);
}

KERNEL(scatter_max) {
    (void)module;
    PyObject *y = combined(LARGER, x, count, names);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(scatter_max);
}

KERNEL(scatter_min) {
    (void)module;
    PyObject *y = combined(SMALLER, x, count, names);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(scatter_min);
}

KERNEL(scatter_multiply) {
    (void)module;
    PyObject *y = combined(PRODUCT, x, count, names);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(scatter_multiply);
}

KERNEL(segment_prod) {
    (void)module;
    PyObject *number = attribute(x, count, names, "num_segments");
    PyObject *axis = attribute(x, count, names, "axis");
    Indices ids;
    if (count != 2 || !number || !axis || !as_indices(x[1], &ids) || !PyArray_CheckExact(x[0])
        || !PyArray_ISBEHAVED_RO(as_array(x[0])) || !size(x[0])
        || !is_combined(PyArray_TYPE(as_array(x[0]))))
        return NUMPY_FALLBACK(segment_prod);
    int ndim = PyArray_NDIM(as_array(x[0])), several = PyArray_NDIM(as_array(x[1])), axes = 0;
    int along = (int)PyLong_AsLong(axis), type = PyArray_TYPE(as_array(x[0]));
    ptrdiff_t segments = PyLong_AsSsize_t(number), outer = 1, inner = 1;
    npy_intp shape[NPY_MAXDIMS];
    if (along < 0 || along + several > ndim || ndim - several >= NPY_MAXDIMS || segments < 1)
        return NUMPY_FALLBACK(segment_prod);
    for (int i = 0; i < along; i++)
        outer *= shape[axes++] = PyArray_DIM(as_array(x[0]), i);
    shape[axes++] = segments;
    for (int i = along + several; i < ndim; i++)
        inner *= shape[axes++] = PyArray_DIM(as_array(x[0]), i);
    if (outer * ids.count * inner != size(x[0]))
        return NUMPY_FALLBACK(segment_prod);
    PyObject *rows = plain_copy(x[0]), *y = NULL;
    int wide = type == NPY_FLOAT ? NPY_DOUBLE : type;
    if (rows)
        y = PyArray_SimpleNew(axes, shape, wide);
    if (y) {
        const ptrdiff_t all = size(y);
        double *doubles = data(y);
        int32_t *integers = data(y);
        int64_t *longs = data(y);
        for (ptrdiff_t i = 0; wide == NPY_DOUBLE && i < all; i++)
            doubles[i] = 1;
        for (ptrdiff_t i = 0; wide == NPY_INT32 && i < all; i++)
            integers[i] = 1;
        for (ptrdiff_t i = 0; wide != NPY_DOUBLE && wide != NPY_INT32 && i < all; i++)
            longs[i] = 1;
        y = unless(!combine(rows, &ids, outer, segments, inner, PRODUCT, y), y);
    }
    Py_XDECREF(rows);
    y = rounded(y, type);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(segment_prod);
}

/* The kernel of scatter_add for integers; NULL without an error where NumPy has to do it. */
PyObject *summed_integers(PyObject *const *x, Py_ssize_t count, PyObject *names) {
    return combined(SUM, x, count, names);
}
