/* The kernels of take_along_axis and of its transpose, place_along_axis. Elements are bytes to the
 * first; the second one adds numbers, float32 in double precision, and rounds once. */
#include "calls.h"

/* Arrays of one number of axes: of the positions, the array they are of, and of their result (or,
 * for sums, the values), in C order. `size` is that of the array along `axis`. */
typedef struct {
    ptrdiff_t shape[NPY_MAXDIMS], index_strides[NPY_MAXDIMS], strides[NPY_MAXDIMS];
    ptrdiff_t size, step;
    int ndim, axis, wide;
} Along;

static inline ptrdiff_t position(const Along *how, const char *at) {
    ptrdiff_t id = how->wide ? (ptrdiff_t)*(const int64_t *)at : *(const int32_t *)at;
    return id + (id < 0 ? how->size : 0);
}

typedef struct {
    double real, imaginary;
} Two;

/* Along the last axis; 0 for a position that is out of range. */
#define TAKING(T)                                                                                  \
    static int taken_##T(const Along *how, const char *x, const char *ids, T *y) {                 \
        int last = how->ndim - 1;                                                                  \
        ptrdiff_t n = how->shape[last], by = how->index_strides[last], next = how->strides[last];  \
        for (ptrdiff_t i = 0; i < n; i++, ids += by, x += next) {                                  \
            ptrdiff_t id = position(how, ids);                                                     \
            if ((size_t)id >= (size_t)how->size)                                                   \
                return 0;                                                                          \
            y[i] = *(const T *)(x + id * how->step);                                               \
        }                                                                                          \
        return 1;                                                                                  \
    }
TAKING(uint8_t)
TAKING(uint16_t)
TAKING(uint32_t)
TAKING(uint64_t)
TAKING(Two)

/* From an axis on; returns where the next elements go, NULL for a position that is out of range. */
static char *taken_from(const Along *how, int axis, int item, const char *x, const char *ids,
                        char *y) {
    if (axis == how->ndim - 1) {
        int inside = item == 1 ? taken_uint8_t(how, x, ids, (uint8_t *)y)
                   : item == 2 ? taken_uint16_t(how, x, ids, (uint16_t *)y)
                   : item == 4 ? taken_uint32_t(how, x, ids, (uint32_t *)y)
                   : item == 8 ? taken_uint64_t(how, x, ids, (uint64_t *)y)
                               : taken_Two(how, x, ids, (Two *)y);
        return inside ? y + how->shape[axis] * item : NULL;
    }
    for (ptrdiff_t i = 0; y && i < how->shape[axis]; i++) {
        y = taken_from(how, axis + 1, item, x, ids, y);
        x += how->strides[axis], ids += how->index_strides[axis];
    }
    return y;
}

static int are_positions(PyObject *x) {
    return PyArray_CheckExact(x) && PyArray_ISBEHAVED_RO(as_array(x)) && size(x)
        && (PyArray_TYPE(as_array(x)) == NPY_INT64 || PyArray_TYPE(as_array(x)) == NPY_INT32);
}

/* Steps along the axes of an array, 0 where it is repeated. */
static void steps_of(PyObject *x, ptrdiff_t *strides) {
    for (int i = 0; i < PyArray_NDIM(as_array(x)); i++)
        strides[i] = PyArray_DIM(as_array(x), i) == 1 ? 0 : PyArray_STRIDE(as_array(x), i);
}

KERNEL(take_along_axis) {
    (void)module;
    PyObject *number = attribute(x, count, names, "axis");
    if (count != 2 || !number || !PyLong_Check(number) || !PyArray_CheckExact(x[0])
        || !are_positions(x[1]) || !size(x[0]) || !PyArray_ISBEHAVED_RO(as_array(x[0]))
        || PyDataType_REFCHK(PyArray_DESCR(as_array(x[0]))) || PyArray_ISFLEXIBLE(as_array(x[0])))
        return NUMPY_FALLBACK(take_along_axis);
    PyArrayObject *array = as_array(x[0]), *ids = as_array(x[1]);
    ptrdiff_t item = PyArray_ITEMSIZE(array);
    Along how = {.ndim = PyArray_NDIM(array),
                 .axis = (int)PyLong_AsLong(number),
                 .wide = PyArray_TYPE(ids) == NPY_INT64};
    if (how.ndim != PyArray_NDIM(ids) || how.axis < 0 || how.axis >= how.ndim
        || (item != 1 && item != 2 && item != 4 && item != 8 && item != 16))
        return NUMPY_FALLBACK(take_along_axis);
    npy_intp shape[NPY_MAXDIMS];
    ptrdiff_t all = 1;
    for (int i = 0; i < how.ndim; i++) {
        ptrdiff_t n = PyArray_DIM(array, i), m = PyArray_DIM(ids, i);
        if (i != how.axis && n != m && n != 1 && m != 1)
            return NUMPY_FALLBACK(take_along_axis);
        shape[i] = how.shape[i] = i == how.axis || n == 1 ? m : n;
        all *= shape[i];
    }
    steps_of(x[0], how.strides);
    steps_of(x[1], how.index_strides);
    how.size = PyArray_DIM(array, how.axis);
    how.step = PyArray_STRIDE(array, how.axis);
    how.strides[how.axis] = 0;
    PyObject *y = new_array_of(PyArray_TYPE(array), item, how.ndim, shape);
    if (!y)
        return NULL;
    PyThreadState *held = (double)all > WORTH_THE_LOCK ? PyEval_SaveThread() : NULL;
    char *end = taken_from(&how, 0, (int)item, data(x[0]), data(x[1]), data(y));
    if (held)
        PyEval_RestoreThread(held);
    if (end)
        return y;
    Py_DECREF(y);
    return NUMPY_FALLBACK(take_along_axis);
}

/* Adds numbers along the last axis; 0 for a position that is out of range. */
#define PLACING(name, T, ADD)                                                                      \
    static int placed_##name(const Along *how, const T *values, const char *ids, double *sums,     \
                             double *lost) {                                                       \
        (void)lost;                                                                                \
        int last = how->ndim - 1;                                                                  \
        ptrdiff_t n = how->shape[last], by = how->index_strides[last], next = how->strides[last];  \
        ptrdiff_t step = how->step;                                                                \
        for (ptrdiff_t i = 0; i < n; i++, ids += by) {                                             \
            ptrdiff_t id = position(how, ids), at = id * step + i * next;                          \
            if ((size_t)id >= (size_t)how->size)                                                   \
                return 0;                                                                          \
            double number = (double)values[i];                                                     \
            ADD;                                                                                   \
        }                                                                                          \
        return 1;                                                                                  \
    }
PLACING(float32, float, sums[at] += number)
PLACING(float64, double, sums[at] += number)
PLACING(exactly, double, add_exactly(sums + at, lost + at, number))

/* From an axis on; 0 for a position that is out of range. */
static int placed_from(const Along *how, int axis, int item, const char **values, const char *ids,
                       double *sums, double *lost) {
    if (axis == how->ndim - 1) {
        int inside = item == 4 ? placed_float32(how, (const float *)*values, ids, sums, NULL)
                   : !lost     ? placed_float64(how, (const double *)*values, ids, sums, NULL)
                               : placed_exactly(how, (const double *)*values, ids, sums, lost);
        *values += how->shape[axis] * item;
        return inside;
    }
    int inside = 1;
    for (ptrdiff_t i = 0; inside && i < how->shape[axis]; i++) {
        inside = placed_from(how, axis + 1, item, values, ids, sums, lost);
        sums += how->strides[axis], ids += how->index_strides[axis];
        lost += lost ? how->strides[axis] : 0;
    }
    return inside;
}

/* One number for each vector along the last axis, as labels pick them: what is added to is 0. */
#define PLACING_ONE(T)                                                                             \
    static int one_placed_##T(const Along *how, const T *values, const char *ids, T *y,            \
                              ptrdiff_t outer) {                                                   \
        const ptrdiff_t run = how->size, step = how->wide ? 8 : 4;                                 \
        memset(y, 0, (size_t)(outer * run) * sizeof *y);                                           \
        for (ptrdiff_t i = 0; i < outer; i++, ids += step, y += run) {                             \
            ptrdiff_t id = position(how, ids);                                                     \
            if ((size_t)id >= (size_t)run)                                                         \
                return 0;                                                                          \
            y[id] = values[i] + 0; /* -0 is 0 */                                                   \
        }                                                                                          \
        return 1;                                                                                  \
    }
PLACING_ONE(float)
PLACING_ONE(double)

/* The vectors along the axis, and all behind it, of one item after the other. */
static int placed(Along *how, int item, const char *values, const char *ids, char *y, double *room,
                  ptrdiff_t outer, ptrdiff_t run) {
    ptrdiff_t at[NPY_MAXDIMS] = {0};
    for (ptrdiff_t i = 0; i < outer; i++, y += run * item) {
        double *sums = item == 4 ? room : (double *)y, *lost = item == 4 ? NULL : room;
        memset(sums, 0, (size_t)run * sizeof *sums);
        if (lost)
            memset(lost, 0, (size_t)run * sizeof *lost);
        if (!placed_from(how, how->axis, item, &values, ids, sums, lost))
            return 0;
        for (ptrdiff_t k = 0; k < run && item == 4; k++)
            ((float *)y)[k] = (float)sums[k];
        if (lost)
            add_lost(sums, lost, run);
        for (int axis = how->axis - 1; axis >= 0; axis--) {
            ids += how->index_strides[axis];
            if (++at[axis] < how->shape[axis])
                break;
            ids -= how->shape[axis] * how->index_strides[axis];
            at[axis] = 0;
        }
    }
    return 1;
}

/* NULL without an error where NumPy has to do it. */
static PyObject *placed_along(PyObject *values, PyObject *ids, PyObject *sizes, int axis) {
    int type = PyArray_TYPE(as_array(values)), ndim = PyArray_NDIM(as_array(values));
    Along how = {.ndim = ndim, .axis = axis, .wide = PyArray_TYPE(as_array(ids)) == NPY_INT64};
    if (ndim != PyArray_NDIM(as_array(ids)) || ndim != PyTuple_GET_SIZE(sizes) || axis < 0
        || axis >= ndim)
        return NULL;
    npy_intp shape[NPY_MAXDIMS];
    ptrdiff_t outer = 1, run = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        how.shape[i] = PyArray_DIM(as_array(values), i);
        ptrdiff_t m = PyArray_DIM(as_array(ids), i);
        shape[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(sizes, i));
        if (shape[i] < 1 || (i == axis ? m != how.shape[i] : shape[i] != how.shape[i])
            || (m != how.shape[i] && m != 1))
            return NULL;
        how.strides[i] = i == axis ? 0 : run;
        if (i == axis)
            how.step = run;
        run *= i >= axis ? shape[i] : 1;
        outer *= i < axis ? shape[i] : 1;
    }
    how.size = shape[axis];
    steps_of(ids, how.index_strides);
    int item = (int)PyArray_ITEMSIZE(as_array(values));
    int one = axis == ndim - 1 && how.shape[axis] == 1 && size(ids) == size(values)
           && PyArray_IS_C_CONTIGUOUS(as_array(ids));
    int plain = one || (type == NPY_DOUBLE && how.shape[axis] <= FEW_SUMMANDS);
    double *room = plain ? NULL : PyMem_Malloc((size_t)run * sizeof *room);
    PyObject *y = plain || room ? new_array_of(type, item, ndim, shape) : PyErr_NoMemory();
    if (y) {
        double all = (double)size(values) + (double)size(y);
        PyThreadState *held = all > WORTH_THE_LOCK ? PyEval_SaveThread() : NULL;
        int inside = !one ? placed(&how, item, data(values), data(ids), data(y), room, outer, run)
                   : item == 4 ? one_placed_float(&how, data(values), data(ids), data(y), outer)
                               : one_placed_double(&how, data(values), data(ids), data(y), outer);
        if (held)
            PyEval_RestoreThread(held);
        if (!inside)
            Py_CLEAR(y);
    }
    PyMem_Free(room);
    return y;
}

KERNEL(place_along_axis) {
    (void)module;
    PyObject *axis = attribute(x, count, names, "axis");
    PyObject *sizes = attribute(x, count, names, "shape");
    PyObject *y = NULL;
    if (count == 2 && axis && PyLong_Check(axis) && sizes && PyTuple_CheckExact(sizes)
        && PyArray_CheckExact(x[0]) && size(x[0]) && PyArray_ISBEHAVED_RO(as_array(x[0]))
        && (PyArray_TYPE(as_array(x[0])) == NPY_FLOAT || PyArray_TYPE(as_array(x[0])) == NPY_DOUBLE)
        && are_positions(x[1])) {
        PyObject *copy = plain_copy(x[0]);
        if (copy)
            y = placed_along(copy, x[1], sizes, (int)PyLong_AsLong(axis));
        Py_XDECREF(copy);
    }
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(place_along_axis);
}
