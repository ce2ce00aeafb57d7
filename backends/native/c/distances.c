/* The kernels of Euclidean distances, and of their gradients. */
#include "calls.h"

typedef struct {
    PyObject *a, *b, *y; /* the distances */
    ptrdiff_t items, rows, columns, size;
    int single;
} Distances;

static void release(Distances *all) {
    Py_CLEAR(all->a);
    Py_CLEAR(all->b);
    Py_CLEAR(all->y);
}

/* Computes the distances; 0 without an error where NumPy has to do it. */
static int find_distances(PyObject *const *x, Py_ssize_t count, PyObject *names, Distances *all) {
    PyObject *p = attribute(x, count, names, "p");
    *all = (Distances){.a = NULL};
    if (!p || !(PyLong_Check(p) || PyFloat_Check(p)) || PyFloat_AsDouble(p) != 2
        || !PyArray_CheckExact(x[0]) || !PyArray_CheckExact(x[1]) || !size(x[0]) || !size(x[1])
        || PyArray_TYPE(as_array(x[0])) != PyArray_TYPE(as_array(x[1])))
        return 0;
    PyArrayObject *first = as_array(x[0]), *second = as_array(x[1]);
    int ndim = PyArray_NDIM(first), type = PyArray_TYPE(first);
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || ndim < 2 || PyArray_NDIM(second) != ndim
        || PyArray_DIM(first, ndim - 1) != PyArray_DIM(second, ndim - 1))
        return 0;
    npy_intp shape[NPY_MAXDIMS];
    all->items = 1;
    for (int i = 0; i < ndim - 2; i++) {
        all->items *= shape[i] = PyArray_DIM(first, i);
        if (PyArray_DIM(second, i) != shape[i])
            return 0;
    }
    all->rows = shape[ndim - 2] = PyArray_DIM(first, ndim - 2);
    all->columns = shape[ndim - 1] = PyArray_DIM(second, ndim - 2);
    all->size = PyArray_DIM(first, ndim - 1);
    all->single = type == NPY_FLOAT;
    all->a = plain_copy(x[0]);
    all->b = plain_copy(x[1]);
    all->y = all->a && all->b ? new_array_of(type, PyArray_ITEMSIZE(first), ndim, shape) : NULL;
    int32_t status = 0;
    DistancesArgs args = {
        .status = &status, .rows = all->rows, .columns = all->columns, .size = all->size};
    int failed = !all->y;
    if (!failed) {
        args.a = data(all->a), args.b = data(all->b), args.y = data(all->y);
        double terms = (double)all->columns * (double)(8 + all->size);
        failed = run_loop(all->single ? LOOP_distances_float32 : LOOP_distances_float64, &args,
                          all->items * all->rows, 1 + (ptrdiff_t)(PIECE / terms), 0.2 * terms);
    }
    if (failed || status)
        release(all);
    return all->y != NULL;
}

KERNEL(cdist) {
    (void)module;
    Distances all;
    if (count == 2 && find_distances(x, count, names, &all)) {
        PyObject *y = Py_NewRef(all.y);
        release(&all);
        return y;
    }
    return PyErr_Occurred() ? NULL : NUMPY_FALLBACK(cdist);
}

/* Turns distances into weights, g / distance, 0 where that is 0; 0 where one is infinite or NaN. */
#define WEIGHTING(T)                                                                               \
    static int weighted_##T(T *y, const T *g, ptrdiff_t many) {                                    \
        T odd = 0;                                                                                 \
        for (ptrdiff_t i = 0; i < many; i++) {                                                     \
            T weight = y[i] == 0 ? 0 : g[i] / y[i];                                                \
            odd += (weight - weight) + (y[i] - y[i]) + (g[i] - g[i]);                              \
            y[i] = weight;                                                                         \
        }                                                                                          \
        return odd == 0;                                                                           \
    }
WEIGHTING(float)
WEIGHTING(double)

/* One of the gradients, in C order. */
static PyObject *slopes(const Distances *all, PyObject *a, PyObject *b, int is_second) {
    PyObject *y = new_array_of(PyArray_TYPE(as_array(a)), PyArray_ITEMSIZE(as_array(a)),
                               PyArray_NDIM(as_array(a)), PyArray_DIMS(as_array(a)));
    if (!y)
        return NULL;
    ptrdiff_t rows = is_second ? all->columns : all->rows;
    ptrdiff_t columns = is_second ? all->rows : all->columns;
    DifferencesArgs args = {.a = data(a),
                            .b = data(b),
                            .weights = data(all->y),
                            .y = data(y),
                            .rows = rows,
                            .columns = columns,
                            .size = all->size,
                            .row_step = is_second ? 1 : all->columns,
                            .column_step = is_second ? all->columns : 1};
    double terms = (double)columns * (double)(8 + all->size);
    return unless(run_loop(all->single ? LOOP_weighted_differences_float32
                                       : LOOP_weighted_differences_float64,
                           &args, all->items * rows, 1 + (ptrdiff_t)(PIECE / terms), 0.2 * terms),
                  y);
}

KERNEL(cdist_gradient) {
    (void)module;
    Distances all;
    PyObject *both = NULL;
    if (count == 3 && PyArray_CheckExact(x[2]) && find_distances(x, count, names, &all)) {
        PyObject *g =
            same_shape(x[2], all.y) && PyArray_TYPE(as_array(x[2])) == PyArray_TYPE(as_array(all.y))
                ? plain_copy(x[2])
                : NULL;
        if (g
            && (all.single ? weighted_float(data(all.y), data(g), size(g))
                           : weighted_double(data(all.y), data(g), size(g))))
            both = pair(slopes(&all, all.a, all.b, 0), slopes(&all, all.b, all.a, 1));
        Py_XDECREF(g);
        release(&all);
    }
    return both || PyErr_Occurred() ? both : NUMPY_FALLBACK(cdist_gradient);
}
