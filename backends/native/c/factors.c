/* Kernels of small matrices: LU factors, and systems of triangles and of such factors. */
#include <math.h>

#include "calls.h"

/* Up to so many rows and columns they take less time than NumPy's products of blocks. */
#define MOST_SIDE 128
/* Matrices of fewer rows or columns take less time in the shortest vectors, and in one thread. */
#define FEW_COLUMNS 40
/* Nanoseconds of a multiplication. */
#define TERM 0.4

/* Items of a piece, so that each takes some 30 us. */
static ptrdiff_t grain_of(double cost) { return 1 + (ptrdiff_t)(3e4 / (1 + cost)); }

static int is_matrices(PyObject *x) {
    return PyArray_CheckExact(x) && PyArray_ISNOTSWAPPED(as_array(x))
        && (PyArray_TYPE(as_array(x)) == NPY_FLOAT || PyArray_TYPE(as_array(x)) == NPY_DOUBLE);
}

#define MATRIX_FUNCTIONS(T)                                                                        \
    static int are_finite_##T(const T *x, ptrdiff_t count) {                                       \
        int finite = 1;                                                                            \
        for (ptrdiff_t i = 0; i < count; i++)                                                      \
            finite &= x[i] - x[i] == 0;                                                            \
        return finite;                                                                             \
    }                                                                                              \
    static int has_no_zero_##T(const T *x1, ptrdiff_t n, ptrdiff_t items) {                        \
        for (ptrdiff_t item = 0; item < items; item++)                                             \
            for (ptrdiff_t i = 0; i < n; i++)                                                      \
                if (x1[(item * n + i) * n + i] == 0)                                               \
                    return 0;                                                                      \
        return 1;                                                                                  \
    }                                                                                              \
    /* Copies right sides, and exchanges their rows in the order of pivots. */                     \
    static void place_##T(const Systems *it, const T *x2, T *y) {                                  \
        ptrdiff_t n = it->loop.n, columns = it->loop.columns;                                      \
        for (ptrdiff_t item = 0; item < it->items; item++, y += n * columns) {                     \
            memcpy(y, x2 + item * it->side_step, (size_t)(n * columns) * sizeof(T));               \
            for (ptrdiff_t i = 0; it->pivots && i < n; i++) {                                      \
                ptrdiff_t pivot = index_of(it->pivots, item * it->pivot_step + i);                 \
                for (ptrdiff_t k = 0; pivot != i && k < columns; k++) {                            \
                    T kept = y[i * columns + k];                                                   \
                    y[i * columns + k] = y[pivot * columns + k], y[pivot * columns + k] = kept;    \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* Systems, and the steps from one item to the next. */
typedef struct {
    SystemsArgs loop;
    const Indices *pivots;
    ptrdiff_t items, side_step, pivot_step;
} Systems;
MATRIX_FUNCTIONS(float)
MATRIX_FUNCTIONS(double)

KERNEL(lu_factor) {
    (void)module;
    int ndim = count == 1 && is_matrices(x[0]) ? PyArray_NDIM(as_array(x[0])) : 0;
    const npy_intp *dims = ndim ? PyArray_DIMS(as_array(x[0])) : NULL;
    if (ndim < 2 || !size(x[0]) || dims[ndim - 2] > MOST_SIDE || dims[ndim - 1] > MOST_SIDE)
        return NUMPY_FALLBACK(lu_factor);
    ptrdiff_t m = dims[ndim - 2], n = dims[ndim - 1], least = m < n ? m : n;
    npy_intp shape[NPY_MAXDIMS];
    memcpy(shape, dims, (size_t)ndim * sizeof *shape);
    shape[ndim - 2] = least;
    PyObject *lu = PyArray_NewCopy(as_array(x[0]), NPY_CORDER);
    PyObject *pivots = lu ? new_array_of(NPY_INT32, sizeof(int32_t), ndim - 1, shape) : NULL;
    if (pivots) {
        ptrdiff_t items = size(lu) / (m * n);
        int is_single = PyArray_TYPE(as_array(lu)) == NPY_FLOAT;
        double cost = TERM * (double)m * (double)n * (double)least;
        FactorsArgs args = {.x = data(lu), .pivots = data(pivots), .m = m, .n = n};
        int loop = is_single ? LOOP_lu_float32 : LOOP_lu_float64;
        if (least < FEW_COLUMNS) {
            PyThreadState *held =
                cost * (double)items > 10 * WORTH_THE_LOCK ? PyEval_SaveThread() : NULL;
            loops_base[loop](0, items, &args);
            if (held)
                PyEval_RestoreThread(held);
        } else if (run_loop(loop, &args, items, grain_of(cost), cost) < 0) {
            Py_DECREF(lu);
            Py_DECREF(pivots);
            return NULL;
        }
        int finite = is_single ? are_finite_float(data(lu), size(lu))
                               : are_finite_double(data(lu), size(lu));
        /* How far NaN spreads is as in NumPy's kernel. */
        if (!finite) {
            Py_DECREF(lu);
            Py_DECREF(pivots);
            return NUMPY_FALLBACK(lu_factor);
        }
    }
    return pair(lu, pivots);
}

/* The sizes of systems, whose stacks are of one shape or of one item; false for others. `shape` is
 * that of the result, of `axes` axes. */
static int as_systems(Systems *it, PyObject *x1, PyObject *x2, npy_intp *shape, int *axes) {
    if (!is_matrices(x1) || !is_matrices(x2)
        || PyArray_TYPE(as_array(x1)) != PyArray_TYPE(as_array(x2)))
        return 0;
    int ndim = PyArray_NDIM(as_array(x1)), sides = PyArray_NDIM(as_array(x2));
    const npy_intp *dims = PyArray_DIMS(as_array(x1)), *more = PyArray_DIMS(as_array(x2));
    if (ndim < 2 || sides < 1 || !size(x1) || !size(x2))
        return 0;
    int is_vector = sides == 1, stack = ndim - 2, other = is_vector ? 0 : sides - 2;
    it->loop.n = dims[ndim - 1];
    it->loop.columns = is_vector ? 1 : more[sides - 1];
    if (dims[ndim - 2] != it->loop.n || more[is_vector ? 0 : sides - 2] != it->loop.n
        || it->loop.n > MOST_SIDE
        || (stack && other && (stack != other || !PyArray_CompareLists(dims, more, stack))))
        return 0;
    *axes = 0;
    it->items = 1;
    for (int i = 0; i < (stack ? stack : other); i++)
        it->items *= shape[(*axes)++] = stack ? dims[i] : more[i];
    shape[(*axes)++] = it->loop.n;
    if (!is_vector)
        shape[(*axes)++] = it->loop.columns;
    it->loop.matrix_step = stack ? it->loop.n * it->loop.n : 0;
    it->side_step = other ? it->loop.n * it->loop.columns : 0;
    it->pivot_step = stack ? it->loop.n : 0;
    return 1;
}

/* The solutions of systems; NULL without an error where a 0 is on a diagonal that divides. */
static PyObject *solutions(Systems *it, PyObject *x1, PyObject *x2, const npy_intp *shape,
                           int axes) {
    PyObject *left = plain_copy(x1), *right = left ? plain_copy(x2) : NULL, *y = NULL;
    if (right) {
        int is_single = PyArray_TYPE(as_array(left)) == NPY_FLOAT;
        ptrdiff_t matrices = it->loop.matrix_step ? it->items : 1;
        it->loop.x1 = data(left);
        int fine = (it->loop.unit && !it->pivots)
                || (is_single ? has_no_zero_float(data(left), it->loop.n, matrices)
                              : has_no_zero_double(data(left), it->loop.n, matrices));
        if (fine)
            y = new_array_of(PyArray_TYPE(as_array(left)), PyArray_ITEMSIZE(as_array(left)), axes,
                             shape);
        if (y) {
            it->loop.y = data(y);
            it->loop.are_factors = it->pivots != NULL;
            if (is_single)
                place_float(it, data(right), data(y));
            else
                place_double(it, data(right), data(y));
            double cost = TERM * (double)it->loop.n * (double)it->loop.n * (double)it->loop.columns;
            int loop = is_single ? LOOP_systems_float32 : LOOP_systems_float64;
            y = unless(run_loop(loop, &it->loop, it->items, grain_of(cost), cost), y);
        }
    }
    Py_XDECREF(left);
    Py_XDECREF(right);
    return y;
}

KERNEL(solve_triangular) {
    (void)module;
    Systems it = {.loop.upper = is_true(x, count, names, "upper"),
                  .loop.unit = is_true(x, count, names, "unit_diagonal")};
    npy_intp shape[NPY_MAXDIMS + 2];
    int axes;
    PyObject *y = NULL;
    if (count == 2 && as_systems(&it, x[0], x[1], shape, &axes))
        y = solutions(&it, x[0], x[1], shape, axes);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(solve_triangular);
}

KERNEL(lu_solve) {
    (void)module;
    Systems it = {.loop.unit = 1};
    Indices pivots;
    npy_intp shape[NPY_MAXDIMS + 2];
    int axes;
    if (count != 3 || !as_indices(x[1], &pivots) || !as_systems(&it, x[0], x[2], shape, &axes)
        || PyArray_NDIM(as_array(x[1])) != PyArray_NDIM(as_array(x[0])) - 1
        || pivots.count * it.loop.n != size(x[0]))
        return NUMPY_FALLBACK(lu_solve);
    for (ptrdiff_t i = 0; i < pivots.count; i++)
        if (index_of(&pivots, i) < 0 || index_of(&pivots, i) >= it.loop.n)
            return NUMPY_FALLBACK(lu_solve);
    it.pivots = &pivots;
    PyObject *y = solutions(&it, x[0], x[2], shape, axes);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(lu_solve);
}
