/* The kernels of matmul and linear. */
#include "families.h"
#include "math32.h"

/* Multiplications a nanosecond, on one thread; and bytes that it reads. */
#define SPEED 50.0
#define READING 24.0
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

/* In elements, of which each has `item` bytes: a constant wherever this is called. */
INLINE ptrdiff_t step(PyObject *x, int axis, const ptrdiff_t item) {
    return PyArray_STRIDE(as_array(x), axis) / item;
}

static ptrdiff_t length(PyObject *x, int axis) { return PyArray_DIM(as_array(x), axis); }

/* True if x is an array of this type of two axes or more, with strides of whole elements. */
INLINE int is_matrix_of(PyObject *x, int type, const ptrdiff_t item) {
    if (!PyArray_CheckExact(x) || PyArray_TYPE(as_array(x)) != type || PyArray_NDIM(as_array(x)) < 2
        || !PyArray_ISBEHAVED_RO(as_array(x)))
        return 0;
    for (int axis = 0; axis < PyArray_NDIM(as_array(x)); axis++)
        if (PyArray_STRIDE(as_array(x), axis) % item)
            return 0;
    return 1;
}

static int is_matrix(PyObject *x) { return is_matrix_of(x, NPY_FLOAT, sizeof(float)); }

/* Merges axes `first` to `last` of x: stores the length of the merged axis, and the step between
 * its elements. 0 if memory has no such axis. */
INLINE int merge(PyObject *x, int first, int last, const ptrdiff_t item, ptrdiff_t *count,
                 ptrdiff_t *apart) {
    *count = 1, *apart = step(x, last, item);
    for (int axis = last; axis >= first; axis--) {
        if (length(x, axis) == 1)
            continue;
        if (*count == 1)
            *apart = step(x, axis, item);
        else if (step(x, axis, item) != *apart * *count)
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

/* Stores the shape of the product of x1 and x2, of `item` bytes an element, and the sizes and steps
 * of its items but for those of pieces. Returns the number of items; -1 where NumPy has to do it.
 */
INLINE ptrdiff_t arrange(PyObject *x1, PyObject *x2, const ptrdiff_t item, npy_intp *shape,
                         ProductSizes *sizes) {
    int ndim = PyArray_NDIM(as_array(x1)), ndim2 = PyArray_NDIM(as_array(x2));
    memcpy(shape, PyArray_DIMS(as_array(x1)), (size_t)ndim * sizeof(npy_intp));
    shape[ndim - 1] = length(x2, ndim2 - 1);
    ptrdiff_t items = 1, items2, columns = shape[ndim - 1];
    /* One by one: GCC fills a struct with zeros by an instruction that takes 50 ns. */
    sizes->rows = length(x1, ndim - 2), sizes->columns = columns;
    sizes->inner = length(x1, ndim - 1);
    sizes->a_row_step = step(x1, ndim - 2, item), sizes->a_column_step = step(x1, ndim - 1, item);
    sizes->b_row_step = step(x2, ndim2 - 2, item), sizes->b_column_step = step(x2, ndim2 - 1, item);
    sizes->c_row_step = columns;
    sizes->a_item_step = sizes->b_item_step = sizes->c_item_step = 0;
    if (length(x1, ndim - 1) != length(x2, ndim2 - 2))
        return -1;
    if (ndim2 == 2)
        return merge(x1, 0, ndim - 2, item, &sizes->rows, &sizes->a_row_step) ? 1 : -1;
    if (ndim != ndim2 || !PyArray_CompareLists(shape, PyArray_DIMS(as_array(x2)), ndim - 2)
        || !merge(x1, 0, ndim - 3, item, &items, &sizes->a_item_step)
        || !merge(x2, 0, ndim - 3, item, &items2, &sizes->b_item_step))
        return -1;
    sizes->c_item_step = sizes->rows * columns;
    return items;
}

/* The number of threads for products of `items` items of `cost` nanoseconds, or -1 with an error
 * set; stores the sizes of pieces for so many. */
static int cut_for_threads(ptrdiff_t items, double cost, double cost_a, ProductSizes *sizes) {
    sizes->piece_rows = sizes->rows, sizes->piece_columns = sizes->columns;
    int threads = threads_for(cost * (double)items);
    if (threads > 1 && items < 2 * threads)
        cut((threads + items - 1) / items * (cost > MUCH ? 2 : 1), sizes->rows, sizes->columns,
            cost_a, &sizes->piece_rows, &sizes->piece_columns);
    return threads;
}

static ptrdiff_t pieces_of(const ProductSizes *sizes) {
    return (sizes->rows + sizes->piece_rows - 1) / sizes->piece_rows
         * ((sizes->columns + sizes->piece_columns - 1) / sizes->piece_columns);
}

/* The products of matrices or stacks of matrices, plus a row unless `bias` is NULL; NULL without an
 * error where NumPy has to do it. `strips` has the strips of a matrix x2, or is NULL. */
static PyObject *products(PyObject *x1, PyObject *x2, PyObject *strips, const float *bias) {
    npy_intp shape[NPY_MAXDIMS];
    ProductArgs args;
    ProductSizes *sizes = &args.sizes;
    ptrdiff_t items = arrange(x1, x2, sizeof(float), shape, sizes);
    /* BLAS multiplies by a vector at the speed of memory, and has better tiles where the compiler
     * may not use wide vectors. */
    if (items < 0 || sizes->rows == 1 || sizes->columns == 1 || loops == loops_base)
        return NULL;
    PyObject *y = new_array(PyArray_NDIM(as_array(x1)), shape);
    if (!y || !size(y))
        return y;
    int32_t status = 0;
    double terms = (double)sizes->columns * (double)(sizes->inner + 8);
    double cost = (double)sizes->rows * terms / SPEED, reading = sizeof(float) * terms / READING;
    if (sizes->rows <= FEWEST_ROWS && cost < reading)
        cost = reading;
    double cost_a = sizes->rows <= FEW_ROWS && sizes->a_column_step == 1 ? READ : COPY_A;
    if (cut_for_threads(items, cost, cost_a, sizes) < 0)
        return unless(1, y);
    ptrdiff_t pieces = pieces_of(sizes);
    args.a = data(x1), args.b = data(x2), args.c = data(y), args.status = &status;
    args.strips = strips ? data(strips) : NULL, args.bias = bias;
    int failed = run_product(&args, items * pieces, 1, cost / (double)pieces);
    if (status)
        PyErr_NoMemory();
    return unless(failed || status, y);
}

/* bfloat16. ------------------------------------------------------------------------------------ */

/* Bytes of b that a thread reads and widens in a nanosecond. */
#define WIDENING 12.0

/* By a matrix of fewer columns it is faster to widen all of the other one before; where there are
 * few rows, of so many products. */
#define TOO_NARROW 16
#define MANY_PRODUCTS 16

/* The size of pieces of at most `most`, which are whole tiles. */
static ptrdiff_t even_size(ptrdiff_t most, ptrdiff_t count, ptrdiff_t tile) {
    ptrdiff_t pieces = (count + most - 1) / most;
    return pieces > 1 ? up((count + pieces - 1) / pieces, tile) : count;
}

/* As `products`, of arrays of bfloat16, whose elements are widened as they are read. */
static PyObject *narrow_products(PyObject *x1, PyObject *x2, const Bfloat16 *bias) {
    npy_intp shape[NPY_MAXDIMS];
    Bfloat16ProductArgs args;
    ProductSizes *sizes = &args.sizes;
    ptrdiff_t items = arrange(x1, x2, sizeof(Bfloat16), shape, sizes);
    int few = sizes->rows <= FEWEST_ROWS && (sizes->b_column_step == 1 || sizes->b_row_step == 1);
    int thin = sizes->columns < TOO_NARROW && (!few || items > MANY_PRODUCTS);
    if (items < 0 || thin || (!few && loops == loops_base))
        return NULL;
    PyObject *y = new_array_of(bfloat16, sizeof(Bfloat16), PyArray_NDIM(as_array(x1)), shape);
    if (!y || !size(y))
        return y;
    int32_t status = 0;
    double terms = (double)sizes->columns * (double)(sizes->inner + 8);
    double cost = (double)sizes->rows * terms / SPEED;
    if (few)
        cost = 2 * terms / WIDENING > cost ? 2 * terms / WIDENING : cost;
    if (cut_for_threads(items, cost, COPY_A, sizes) < 0)
        return unless(1, y);
    if (few) {
        sizes->piece_rows = even_size(MOST_FEW, sizes->rows, 1);
    } else {
        sizes->piece_rows = even_size(MOST_ROWS, sizes->piece_rows, ROWS);
        sizes->piece_columns = even_size(MOST_COLUMNS, sizes->piece_columns, COLUMNS);
    }
    ptrdiff_t pieces = pieces_of(sizes);
    args.a = data(x1), args.b = data(x2), args.c = data(y), args.status = &status;
    args.bias = bias;
    int failed = few ? run_few_rows_bfloat16(&args, items * pieces, 1, cost / (double)pieces)
                     : run_product_bfloat16(&args, items * pieces, 1, cost / (double)pieces);
    if (status)
        PyErr_NoMemory();
    return unless(failed || status, y);
}

/* Calls the kernel with the inputs as float32, and rounds its result. */
static PyObject *by_float32(KernelFunction kernel, PyObject *const *x, Py_ssize_t count) {
    PyObject *wide[3] = {NULL}, *y = NULL, *result = NULL;
    int failed = 0;
    for (Py_ssize_t i = 0; i < count && !failed; i++) {
        wide[i] = x[i] != Py_None ? widened(x[i]) : Py_NewRef(x[i]);
        failed = !wide[i];
    }
    if (!failed && (y = kernel(NULL, wide, count, NULL)))
        result = is_plain(y) ? narrowed(y) : NULL;
    Py_XDECREF(y);
    for (Py_ssize_t i = 0; i < count; i++)
        Py_XDECREF(wide[i]);
    return result;
}

/* matmul or linear of arrays of bfloat16; NULL without an error where NumPy has to do it. */
static PyObject *bfloat16_product(KernelFunction kernel, PyObject *const *x, Py_ssize_t count) {
    PyObject *bias = count == 3 && x[2] != Py_None ? x[2] : NULL;
    if (is_matrix_of(x[0], bfloat16, sizeof(Bfloat16))
        && is_matrix_of(x[1], bfloat16, sizeof(Bfloat16))
        && (count == 2 || PyArray_NDIM(as_array(x[1])) == 2)
        && (!bias
            || (PyArray_ISCARRAY_RO(as_array(bias)) && PyArray_NDIM(as_array(bias)) == 1
                && size(bias) == length(x[1], 1)))) {
        PyObject *y = narrow_products(x[0], x[1], bias ? data(bias) : NULL);
        if (y || PyErr_Occurred())
            return y;
    }
    return by_float32(kernel, x, count);
}

/* Products of one term each, of stacked matrices: NULL without an error for others. */
static PyObject *of_one_term(PyObject *x1, PyObject *x2) {
    int last =
        PyArray_CheckExact(x1) && PyArray_CheckExact(x2) ? PyArray_NDIM(as_array(x1)) - 1 : 0;
    if (last < 2 || PyArray_NDIM(as_array(x2)) != last + 1 || length(x1, last) != 1
        || length(x2, last - 1) != 1)
        return NULL;
    return elements(OF_FLOATS(multiply, multiply_float64, 0.3), OF_TWO, 0,
                    (PyObject *const[]){x1, x2}, 2);
}

static PyObject *matmul_with(PyObject *strips, PyObject *const *x, Py_ssize_t count,
                             PyObject *names) {
    PyObject *y = count == 2 && !strips ? of_one_term(x[0], x[1]) : NULL;
    if (y || PyErr_Occurred())
        return y;
    if (count == 2 && is_matrix(x[0]) && is_matrix(x[1]))
        y = products(x[0], x[1], strips, NULL);
    if (!y && !PyErr_Occurred() && count == 2 && is_bfloat16(x[0]) && is_bfloat16(x[1]))
        y = bfloat16_product(kernel_matmul, x, count);
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
    else if (count == 3 && is_bfloat16(x[0]) && is_bfloat16(x[1])
             && (x[2] == Py_None || is_bfloat16(x[2])))
        y = bfloat16_product(kernel_linear, x, count);
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
