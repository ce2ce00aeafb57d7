/* The kernels of matmul and linear. */
#include "calls.h"

#include <math.h>

/* Multiplications a nanosecond, on one thread. */
#define SPEED 50.0
/* From this many nanoseconds on, each thread has two pieces, for one thread may start late. */
#define MUCH 5e6
/* A tile of the widest vectors: pieces are made of whole tiles. */
#define ROWS 12
#define COLUMNS 32
/* The cost of an element of a or b in each piece that needs it, in multiplications: to read it, and
 * to copy it. */
#define READ 15.0
#define COPY_A 30.0
#define COPY_B 20.0

static ptrdiff_t step(PyObject *x, int axis) {
    return PyArray_STRIDE(as_array(x), axis) / (ptrdiff_t)sizeof(float);
}

static ptrdiff_t length(PyObject *x, int axis) { return PyArray_DIM(as_array(x), axis); }

/* True if x is a float32 array of two axes or more, with strides of whole floats. */
static int is_matrix(PyObject *x) {
    if (!PyArray_CheckExact(x) || PyArray_TYPE(as_array(x)) != NPY_FLOAT
        || PyArray_NDIM(as_array(x)) < 2 || !PyArray_ISBEHAVED_RO(as_array(x)))
        return 0;
    for (int axis = 0; axis < PyArray_NDIM(as_array(x)); axis++)
        if (PyArray_STRIDE(as_array(x), axis) % (ptrdiff_t)sizeof(float))
            return 0;
    return 1;
}

/* Merges axes `first` to `last` of x: stores the length of the merged axis, and the step between
 * its elements. 0 if memory has no such axis. */
static int merge(PyObject *x, int first, int last, ptrdiff_t *count, ptrdiff_t *apart) {
    *count = 1, *apart = step(x, last);
    for (int axis = last; axis >= first; axis--) {
        if (length(x, axis) == 1)
            continue;
        if (*count == 1)
            *apart = step(x, axis);
        else if (step(x, axis) != *apart * *count)
            return 0;
        *count *= length(x, axis);
    }
    return 1;
}

/* True if an array has room for the strips of a matrix. */
static int is_strips(PyObject *strips, PyObject *x) {
    return is_plain(strips) && is_matrix(x) && PyArray_NDIM(as_array(x)) == 2
        && size(strips) == STRIPS_ROOM(length(x, 0), length(x, 1));
}

static ptrdiff_t up(ptrdiff_t x, ptrdiff_t to) { return (x + to - 1) / to * to; }

/* Cuts a product into `parts` pieces of the same size, so that as little as possible is copied. */
static void cut(ptrdiff_t parts, ptrdiff_t rows, ptrdiff_t columns, double cost_a, ptrdiff_t *high,
                ptrdiff_t *wide) {
    double least = HUGE_VAL;
    for (ptrdiff_t down = 1; down <= parts; down++) {
        if (parts % down)
            continue;
        ptrdiff_t across = parts / down;
        ptrdiff_t i = up((rows + down - 1) / down, ROWS);
        ptrdiff_t j = up((columns + across - 1) / across, COLUMNS);
        double cost = (double)parts * (double)i * (double)j + cost_a * (double)across * (double)rows
                    + COPY_B * (double)down * (double)columns;
        if (cost < least)
            least = cost, *high = i, *wide = j;
    }
}

/* The products of matrices or stacks of matrices, plus a row unless `bias` is NULL; NULL without an
 * error where NumPy has to do it. `strips` has the strips of a matrix x2, or is NULL. */
static PyObject *products(PyObject *x1, PyObject *x2, PyObject *strips, const float *bias) {
    int ndim = PyArray_NDIM(as_array(x1)), ndim2 = PyArray_NDIM(as_array(x2));
    npy_intp shape[NPY_MAXDIMS];
    memcpy(shape, PyArray_DIMS(as_array(x1)), (size_t)ndim * sizeof(npy_intp));
    shape[ndim - 1] = length(x2, ndim2 - 1);
    ptrdiff_t items = 1, rows = length(x1, ndim - 2), columns = shape[ndim - 1];
    ProductArgs args = {.strips = strips ? data(strips) : NULL,
                        .bias = bias,
                        .columns = columns,
                        .inner = length(x1, ndim - 1),
                        .a_row_step = step(x1, ndim - 2),
                        .a_column_step = step(x1, ndim - 1),
                        .b_row_step = step(x2, ndim2 - 2),
                        .b_column_step = step(x2, ndim2 - 1),
                        .c_row_step = columns};
    if (length(x1, ndim - 1) != length(x2, ndim2 - 2))
        return NULL;
    if (ndim2 == 2 && !merge(x1, 0, ndim - 2, &rows, &args.a_row_step))
        return NULL;
    if (ndim2 > 2) {
        ptrdiff_t items2;
        if (ndim != ndim2 || !PyArray_CompareLists(shape, PyArray_DIMS(as_array(x2)), ndim - 2)
            || !merge(x1, 0, ndim - 3, &items, &args.a_item_step)
            || !merge(x2, 0, ndim - 3, &items2, &args.b_item_step))
            return NULL;
        args.c_item_step = rows * columns;
    }
    /* BLAS multiplies by a vector at the speed of memory, and has better tiles where the compiler
     * may not use wide vectors. */
    if (rows == 1 || columns == 1 || loops == loops_base)
        return NULL;
    PyObject *y = new_array(ndim, shape);
    if (!y || !size(y))
        return y;
    int32_t status = 0;
    ptrdiff_t high = rows, wide = columns;
    double cost = (double)rows * (double)columns * (double)(args.inner + 8) / SPEED;
    int threads = threads_for(cost * (double)items);
    if (threads < 0)
        return unless(1, y);
    if (threads > 1 && items < 2 * threads)
        cut((threads + items - 1) / items * (cost > MUCH ? 2 : 1), rows, columns,
            rows <= FEW_ROWS && args.a_column_step == 1 ? READ : COPY_A, &high, &wide);
    ptrdiff_t pieces = (rows + high - 1) / high * ((columns + wide - 1) / wide);
    args.a = data(x1), args.b = data(x2), args.c = data(y), args.status = &status;
    args.rows = rows, args.piece_rows = high, args.piece_columns = wide;
    int failed = run_product(&args, items * pieces, 1, cost / (double)pieces);
    if (status)
        PyErr_NoMemory();
    return unless(failed || status, y);
}

static PyObject *matmul_with(PyObject *strips, PyObject *const *x, Py_ssize_t count,
                             PyObject *names) {
    PyObject *y = count == 2 && is_matrix(x[0]) && is_matrix(x[1])
                    ? products(x[0], x[1], strips, NULL)
                    : NULL;
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(matmul);
}

static PyObject *linear_with(PyObject *strips, PyObject *const *x, Py_ssize_t count,
                             PyObject *names) {
    PyObject *y = NULL;
    if (count == 3 && is_matrix(x[0]) && is_matrix(x[1]) && PyArray_NDIM(as_array(x[1])) == 2
        && (x[2] == Py_None
            || (is_plain(x[2]) && PyArray_NDIM(as_array(x[2])) == 1
                && size(x[2]) == length(x[1], 1))))
        y = products(x[0], x[1], strips, x[2] == Py_None ? NULL : data(x[2]));
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(linear);
}

#define PRODUCT(name)                                                                              \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        return name##_with(NULL, x, count, names);                                                 \
    }                                                                                              \
    PyObject *name##_by_strips(PyObject *module, PyObject *const *x, Py_ssize_t count,             \
                               PyObject *names) {                                                  \
        (void)module;                                                                              \
        if (count < 3 || !is_strips(x[0], x[2])) {                                                 \
            PyErr_SetString(PyExc_TypeError, #name "_by_strips(strips, x, matrix, ...)");          \
            return NULL;                                                                           \
        }                                                                                          \
        return name##_with(x[0], x + 1, count - 1, names);                                         \
    }
PRODUCT(matmul)
PRODUCT(linear)
