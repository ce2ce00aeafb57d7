/* Kernels of small matrices: LU factors, and systems of triangles and of such factors. */
#include <math.h>

#include "calls.h"

/* Up to so many rows and columns they take less time than NumPy's products of blocks. */
#define MOST_SIDE 128
/* Nanoseconds of a multiplication. */
#define TERM 0.4

static int is_matrices(PyObject *x) {
    return PyArray_CheckExact(x) && PyArray_ISNOTSWAPPED(as_array(x))
        && (PyArray_TYPE(as_array(x)) == NPY_FLOAT || PyArray_TYPE(as_array(x)) == NPY_DOUBLE);
}

#define MATRIX_FUNCTIONS(T)                                                                        \
    /* Gaussian elimination with partial pivoting, a column at a time. NaN is the largest pivot.   \
     */                                                                                            \
    static void factor_##T(T *x, int32_t *pivots, ptrdiff_t m, ptrdiff_t n) {                      \
        for (ptrdiff_t j = 0; j < m && j < n; j++) {                                               \
            ptrdiff_t pivot = j;                                                                   \
            T most = (T)fabs((double)x[j * n + j]);                                                \
            for (ptrdiff_t i = j + 1; i < m; i++) {                                                \
                T one = (T)fabs((double)x[i * n + j]);                                             \
                if (!(one <= most) && most == most)                                                \
                    most = one, pivot = i;                                                         \
            }                                                                                      \
            pivots[j] = (int32_t)pivot;                                                            \
            T *restrict row = x + j * n;                                                           \
            if (pivot != j) {                                                                      \
                T *restrict other = x + pivot * n;                                                 \
                for (ptrdiff_t k = 0; k < n; k++) {                                                \
                    T kept = row[k];                                                               \
                    row[k] = other[k], other[k] = kept;                                            \
                }                                                                                  \
            }                                                                                      \
            for (ptrdiff_t i = j + 1; i < m; i++) {                                                \
                T *restrict below = x + i * n;                                                     \
                T factor = below[j] = row[j] == 0 ? below[j] : below[j] / row[j];                  \
                for (ptrdiff_t k = j + 1; k < n; k++)                                              \
                    below[k] -= factor * row[k];                                                   \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* Solves a system of a triangle in place. */                                                  \
    static void substitute_##T(const T *x1, T *y, ptrdiff_t n, ptrdiff_t columns, int upper,       \
                               int unit) {                                                         \
        for (ptrdiff_t step = 0; step < n; step++) {                                               \
            ptrdiff_t i = upper ? n - 1 - step : step;                                             \
            const T *row = x1 + i * n;                                                             \
            T *restrict target = y + i * columns;                                                  \
            for (ptrdiff_t j = upper ? i + 1 : 0; j < (upper ? n : i); j++) {                      \
                const T *restrict known = y + j * columns;                                         \
                T factor = row[j];                                                                 \
                for (ptrdiff_t k = 0; k < columns; k++)                                            \
                    target[k] -= factor * known[k];                                                \
            }                                                                                      \
            for (ptrdiff_t k = 0; !unit && k < columns; k++)                                       \
                target[k] /= row[i];                                                               \
        }                                                                                          \
    }                                                                                              \
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
    static void solve_##T(const Systems *it) {                                                     \
        ptrdiff_t n = it->n, columns = it->columns;                                                \
        for (ptrdiff_t item = 0; item < it->items; item++) {                                       \
            const T *x1 = (const T *)it->x1 + item * it->matrix_step;                              \
            const T *x2 = (const T *)it->x2 + item * it->side_step;                                \
            T *y = (T *)it->y + item * n * columns;                                                \
            memcpy(y, x2, (size_t)(n * columns) * sizeof(T));                                      \
            for (ptrdiff_t i = 0; it->pivots && i < n; i++) {                                      \
                ptrdiff_t pivot = index_of(it->pivots, item * it->pivot_step + i);                 \
                for (ptrdiff_t k = 0; pivot != i && k < columns; k++) {                            \
                    T kept = y[i * columns + k];                                                   \
                    y[i * columns + k] = y[pivot * columns + k], y[pivot * columns + k] = kept;    \
                }                                                                                  \
            }                                                                                      \
            substitute_##T(x1, y, n, columns, it->upper, it->unit);                                \
            if (it->pivots)                                                                        \
                substitute_##T(x1, y, n, columns, 1, 0);                                           \
        }                                                                                          \
    }

/* Systems of n rows with so many columns on the right, and the steps from one item to the next. */
typedef struct {
    const void *x1, *x2;
    void *y;
    const Indices *pivots;
    ptrdiff_t n, columns, items, matrix_step, side_step, pivot_step;
    int upper, unit;
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
        int32_t *places = data(pivots);
        double cost = TERM * (double)items * (double)m * (double)n * (double)least;
        PyThreadState *held = cost > 10 * WORTH_THE_LOCK ? PyEval_SaveThread() : NULL;
        for (ptrdiff_t item = 0; item < items; item++, places += least)
            if (is_single)
                factor_float((float *)data(lu) + item * m * n, places, m, n);
            else
                factor_double((double *)data(lu) + item * m * n, places, m, n);
        int finite = is_single ? are_finite_float(data(lu), size(lu))
                               : are_finite_double(data(lu), size(lu));
        if (held)
            PyEval_RestoreThread(held);
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
    it->n = dims[ndim - 1];
    it->columns = is_vector ? 1 : more[sides - 1];
    if (dims[ndim - 2] != it->n || more[is_vector ? 0 : sides - 2] != it->n || it->n > MOST_SIDE
        || (stack && other && (stack != other || !PyArray_CompareLists(dims, more, stack))))
        return 0;
    *axes = 0;
    it->items = 1;
    for (int i = 0; i < (stack ? stack : other); i++)
        it->items *= shape[(*axes)++] = stack ? dims[i] : more[i];
    shape[(*axes)++] = it->n;
    if (!is_vector)
        shape[(*axes)++] = it->columns;
    it->matrix_step = stack ? it->n * it->n : 0;
    it->side_step = other ? it->n * it->columns : 0;
    it->pivot_step = stack ? it->n : 0;
    return 1;
}

/* The solutions of systems; NULL without an error where a 0 is on a diagonal that divides. */
static PyObject *solutions(Systems *it, PyObject *x1, PyObject *x2, const npy_intp *shape,
                           int axes) {
    PyObject *left = plain_copy(x1), *right = left ? plain_copy(x2) : NULL, *y = NULL;
    if (right) {
        int is_single = PyArray_TYPE(as_array(left)) == NPY_FLOAT;
        ptrdiff_t matrices = it->matrix_step ? it->items : 1;
        it->x1 = data(left), it->x2 = data(right);
        int fine = (it->unit && !it->pivots)
                || (is_single ? has_no_zero_float(it->x1, it->n, matrices)
                              : has_no_zero_double(it->x1, it->n, matrices));
        if (fine)
            y = new_array_of(PyArray_TYPE(as_array(left)), PyArray_ITEMSIZE(as_array(left)), axes,
                             shape);
        if (y) {
            it->y = data(y);
            double cost =
                TERM * (double)it->items * (double)it->n * (double)it->n * (double)it->columns;
            PyThreadState *held = cost > 10 * WORTH_THE_LOCK ? PyEval_SaveThread() : NULL;
            if (is_single)
                solve_float(it);
            else
                solve_double(it);
            if (held)
                PyEval_RestoreThread(held);
        }
    }
    Py_XDECREF(left);
    Py_XDECREF(right);
    return y;
}

KERNEL(solve_triangular) {
    (void)module;
    Systems it = {.upper = is_true(x, count, names, "upper"),
                  .unit = is_true(x, count, names, "unit_diagonal")};
    npy_intp shape[NPY_MAXDIMS + 2];
    int axes;
    PyObject *y = NULL;
    if (count == 2 && as_systems(&it, x[0], x[1], shape, &axes))
        y = solutions(&it, x[0], x[1], shape, axes);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(solve_triangular);
}

KERNEL(lu_solve) {
    (void)module;
    Systems it = {.unit = 1};
    Indices pivots;
    npy_intp shape[NPY_MAXDIMS + 2];
    int axes;
    if (count != 3 || !as_indices(x[1], &pivots) || !as_systems(&it, x[0], x[2], shape, &axes)
        || PyArray_NDIM(as_array(x[1])) != PyArray_NDIM(as_array(x[0])) - 1
        || pivots.count * it.n != size(x[0]))
        return NUMPY_FALLBACK(lu_solve);
    for (ptrdiff_t i = 0; i < pivots.count; i++)
        if (index_of(&pivots, i) < 0 || index_of(&pivots, i) >= it.n)
            return NUMPY_FALLBACK(lu_solve);
    it.pivots = &pivots;
    PyObject *y = solutions(&it, x[0], x[2], shape, axes);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(lu_solve);
}
