/* Kernels of reductions, and of sums over segments. */
#include <math.h>

#include "calls.h"

/* The axes of an array as groups, in the order of memory: neighbours that are reduced, or kept, are
 * one group. Axes of size 1 are in none. */
typedef struct {
    int groups, order[NPY_MAXDIMS], reduced[NPY_MAXDIMS];
    ptrdiff_t size[NPY_MAXDIMS];
} Groups;

/* Stores the axes of x in the order of memory; false where it has gaps, or elements that share an
 * address. */
static int order_axes(PyObject *x, int *order) {
    PyArrayObject *array = as_array(x);
    int ndim = PyArray_NDIM(array);
    for (int i = 0; i < ndim; i++) {
        int at = i;
        for (; at && PyArray_STRIDE(array, order[at - 1]) < PyArray_STRIDE(array, i); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    ptrdiff_t step = PyArray_ITEMSIZE(array);
    for (int i = ndim - 1; i >= 0; i--) {
        if (PyArray_DIM(array, order[i]) != 1 && PyArray_STRIDE(array, order[i]) != step)
            return 0;
        step *= PyArray_DIM(array, order[i]);
    }
    return 1;
}

static int is_reduced(PyObject *axis, int i) {
    if (axis == Py_None)
        return 1;
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(axis); at++)
        if (PyLong_AsLong(PyTuple_GET_ITEM(axis, at)) == i)
            return 1;
    return 0;
}

static int group_axes(PyObject *x, PyObject *axis, Groups *all) {
    int ndim = PyArray_NDIM(as_array(x));
    all->groups = 0;
    if (PyArray_IS_C_CONTIGUOUS(as_array(x)))
        for (int i = 0; i < ndim; i++)
            all->order[i] = i;
    else if (!order_axes(x, all->order))
        return 0;
    for (int i = 0; i < ndim; i++) {
        ptrdiff_t along = PyArray_DIM(as_array(x), all->order[i]);
        int reduced = is_reduced(axis, all->order[i]);
        if (along == 1)
            continue;
        if (!all->groups || all->reduced[all->groups - 1] != reduced)
            all->reduced[all->groups] = reduced, all->size[all->groups++] = 1;
        all->size[all->groups - 1] *= along;
    }
    return 1;
}

/* A new array without the axes that are reduced, or with size 1 there; its elements are in memory
 * in the order of the groups that are kept. `at` is set to its data. */
static PyObject *new_reduced(PyObject *x, PyObject *axis, int keep, const Groups *all, int wide,
                             void **at) {
    npy_intp shape[NPY_MAXDIMS], place[NPY_MAXDIMS];
    int ndim = PyArray_NDIM(as_array(x)), axes = 0, in_order = 1, before[NPY_MAXDIMS];
    for (int i = 0, kept = 0; i < ndim; i++) {
        before[i] = kept;
        kept += keep || !is_reduced(axis, i);
    }
    for (int i = 0; i < ndim; i++) {
        int from = all->order[i], reduced = is_reduced(axis, from);
        if (reduced && !keep)
            continue;
        in_order &= before[from] == axes;
        place[before[from]] = axes;
        shape[axes++] = reduced ? 1 : PyArray_DIM(as_array(x), from);
    }
    PyObject *y =
        wide ? new_array_of(NPY_DOUBLE, sizeof(double), axes, shape) : new_array(axes, shape);
    *at = y ? data(y) : NULL;
    if (!y || in_order)
        return y;
    PyArray_Dims how = {place, axes};
    PyObject *turned = PyArray_Transpose(as_array(y), &how);
    Py_DECREF(y);
    return turned;
}

/* A reduction, with its loops for float32 and float64, and that for results in double precision;
 * -1 where those of float32 are numbers of float32. */
typedef struct {
    int loop32, loop64, again;
    double factor; /* 0 for roots */
} Reduction;

/* Stores the results that were taken in double precision. */
static void finish(const double *total, ptrdiff_t many, double factor, double terms, int wide,
                   void *y) {
    for (ptrdiff_t i = 0; i < many; i++) {
        double value = !factor ? sqrt(total[i]) : wide ? total[i] / terms : total[i] * factor;
        if (wide)
            ((double *)y)[i] = value;
        else
            ((float *)y)[i] = (float)value;
    }
}

/* Reduces the pieces of each item in place: `partial` is (outer, pieces, inner). */
static void reduce_pieces(int loop, void *partial, ptrdiff_t outer, ptrdiff_t pieces,
                          ptrdiff_t inner) {
    ptrdiff_t blocks = (inner + 1023) / 1024;
    FoldArgs args = {.x = partial,
                     .y = partial,
                     .rows = pieces,
                     .inner = inner,
                     .piece_rows = pieces,
                     .pieces = 1,
                     .blocks = blocks,
                     .factor = 1.0,
                     .count = 1.0};
    loops[loop](0, outer * blocks, &args);
}

void add_sums(double *partial, ptrdiff_t outer, ptrdiff_t pieces, ptrdiff_t inner, double factor,
              float *result) {
    reduce_pieces(LOOP_sum_float64, partial, outer, pieces, inner);
    finish(partial, outer * inner, factor, 1.0, 0, result);
}

/* Rows shorter than this are reduced after a group before them, where that has so many elements
 * after it: several columns at once, whose results fit into a second-level cache. */
#define SHORT_LAST 512
#define COLUMNS_IN_CACHE 16384

/* The group to reduce next, the elements before and after it, and whether there are more; -1 if
 * there is none. */
static int next_group(const Groups *all, ptrdiff_t *outer, ptrdiff_t *inner, int *more) {
    int last = all->groups - 1, first = 0;
    while (last >= 0 && !all->reduced[last])
        last--;
    while (first < last && !all->reduced[first])
        first++;
    ptrdiff_t after = 1;
    for (int i = first + 1; i < all->groups; i++)
        after *= all->size[i];
    *more = first < last;
    if (*more && all->size[last] < SHORT_LAST && after <= COLUMNS_IN_CACHE)
        last = first;
    *outer = *inner = 1;
    for (int i = 0; i < all->groups; i++)
        *(i < last ? outer : inner) *= i == last ? 1 : all->size[i];
    return last;
}

static int is_half(PyObject *x) { return PyArray_TYPE(as_array(x)) == NPY_HALF || is_bfloat16(x); }

/* Reduces the groups of `array`, one after the other, into y; -1 with an error set. */
static int reduce_groups(PyObject *array, Groups *all, const Reduction *how, double terms, int wide,
                         void *y) {
    const void *x = data(array);
    int half = is_half(array);
    int loop = wide ? how->loop64 : how->loop32, again = how->again < 0 ? loop : how->again;
    size_t item = how->again < 0 && !wide ? sizeof(float) : sizeof(double);
    void *held = NULL;
    while (1) {
        ptrdiff_t outer, inner;
        int more, last = next_group(all, &outer, &inner, &more);
        ptrdiff_t rows = last >= 0 ? all->size[last] : 1;
        ptrdiff_t width = inner < 1024 ? inner : 1024, blocks = (inner + 1023) / 1024;
        ptrdiff_t grain = PIECE / width < 64 ? 64 : PIECE / width;
        int adds_columns = loop == LOOP_sum_float32 && inner >= WIDE_COLUMNS;
        grain = half && !adds_columns ? WIDENED_PIECE / width : grain;
        ptrdiff_t pieces = (rows + grain - 1) / grain, unit = (rows < grain ? rows : grain) * width;
        int direct = pieces == 1 && !more && !held;
        FoldArgs args = {.x = x,
                         .rows = rows,
                         .inner = inner,
                         .piece_rows = grain,
                         .pieces = pieces,
                         .blocks = blocks,
                         .factor = how->factor,
                         .count = terms};
        void *partial = NULL;
        if (direct) {
            args.y = y;
        } else {
            args.partial = partial = PyMem_Malloc((size_t)(outer * pieces * inner) * item);
            if (!partial) {
                PyMem_Free(held);
                PyErr_NoMemory();
                return -1;
            }
        }
        HalfFoldArgs widening = {
            .fold = args, .loop = loop, .item = (ptrdiff_t)item, .is_bfloat16 = is_bfloat16(array)};
        int failed = run_loop(half ? LOOP_fold_halves : loop, half ? (void *)&widening : &args,
                              outer * pieces * blocks, 1 + PIECE / unit, 5 + 0.15 * (double)unit);
        half = 0;
        PyMem_Free(held);
        held = partial;
        if (failed || direct) {
            PyMem_Free(held);
            return failed ? -1 : 0;
        }
        if (pieces > 1)
            reduce_pieces(again, partial, outer, pieces, inner);
        if (!more) {
            if (how->again < 0)
                memcpy(y, partial, (size_t)(outer * inner) * item);
            else
                finish(partial, outer * inner, how->factor, terms, wide, y);
            PyMem_Free(held);
            return 0;
        }
        x = partial, loop = again;
        all->reduced[last] = 0, all->size[last] = 1;
    }
}

static PyObject *reduced(PyObject *x, PyObject *axis, PyObject *keep, const Reduction *how,
                         int mean);

/* The same of an array that repeats its elements along axes that are kept: of one of them, which is
 * repeated. NULL without an error for others. */
static PyObject *of_repeated(PyObject *x, PyObject *axis, PyObject *keep, const Reduction *how,
                             int mean) {
    npy_intp shape[NPY_MAXDIMS], steps[NPY_MAXDIMS];
    int ndim = PyArray_NDIM(as_array(x)), any = 0, axes = 0;
    memcpy(shape, PyArray_DIMS(as_array(x)), (size_t)ndim * sizeof *shape);
    for (int i = 0; i < ndim; i++)
        if (shape[i] > 1 && !PyArray_STRIDE(as_array(x), i) && !is_reduced(axis, i))
            shape[i] = 1, any = 1;
    if (!any)
        return NULL;
    PyArray_Descr *dtype = PyArray_DESCR(as_array(x));
    Py_INCREF(dtype);
    PyObject *one = PyArray_NewFromDescr(&PyArray_Type, dtype, ndim, shape,
                                         PyArray_STRIDES(as_array(x)), data(x), 0, NULL);
    if (one && PyArray_SetBaseObject(as_array(one), Py_NewRef(x)))
        Py_CLEAR(one);
    PyObject *y = one ? reduced(one, axis, keep, how, mean) : NULL;
    Py_XDECREF(one);
    if (!y)
        return NULL;
    for (int i = 0; i < ndim; i++) {
        int gone = is_reduced(axis, i);
        if (gone && keep != Py_True)
            continue;
        ptrdiff_t size = PyArray_DIM(as_array(x), i);
        int is_new = !gone && shape[i] != size;
        shape[axes] = gone ? 1 : size;
        steps[axes] = is_new ? 0 : PyArray_STRIDE(as_array(y), axes);
        axes++;
    }
    dtype = PyArray_DESCR(as_array(y));
    Py_INCREF(dtype);
    PyObject *all =
        PyArray_NewFromDescr(&PyArray_Type, dtype, axes, shape, steps, data(y), 0, NULL);
    if (!all)
        Py_DECREF(y);
    else if (PyArray_SetBaseObject(as_array(all), y))
        Py_CLEAR(all);
    return all;
}

/* The same of an array that repeats its elements along axes that are reduced: sums of what is not
 * repeated, so many times; means and extremes are those of it. */
static PyObject *over_repeated(PyObject *x, PyObject *axis, PyObject *keep, const Reduction *how,
                               int mean) {
    npy_intp shape[NPY_MAXDIMS];
    int ndim = PyArray_NDIM(as_array(x)), sums = how->loop32 == LOOP_sum_float32;
    double times = 1.0;
    if (!sums && how->again >= 0) /* products and norms */
        return NULL;
    for (int i = 0; i < ndim; i++) {
        int repeats = !PyArray_STRIDE(as_array(x), i) && is_reduced(axis, i);
        shape[i] = repeats ? 1 : PyArray_DIM(as_array(x), i);
        times *= repeats ? (double)PyArray_DIM(as_array(x), i) : 1.0;
    }
    if (times == 1.0)
        return NULL;
    PyArray_Descr *dtype = PyArray_DESCR(as_array(x));
    Py_INCREF(dtype);
    PyObject *one = PyArray_NewFromDescr(&PyArray_Type, dtype, ndim, shape,
                                         PyArray_STRIDES(as_array(x)), data(x), 0, NULL);
    PyObject *y = one ? reduced(one, axis, keep, how, mean) : NULL;
    Py_XDECREF(one);
    for (ptrdiff_t i = 0; y && sums && !mean && i < size(y); i++)
        if (PyArray_TYPE(as_array(y)) == NPY_DOUBLE)
            ((double *)data(y))[i] *= times;
        else
            ((float *)data(y))[i] = (float)((double)((float *)data(y))[i] * times);
    return y;
}

/* x reduced over `axis`; NULL without an error where NumPy has to do it. */
static PyObject *reduced(PyObject *x, PyObject *axis, PyObject *keep, const Reduction *how,
                         int mean) {
    Groups all;
    if (!axis || !keep || !(axis == Py_None || PyTuple_CheckExact(axis)) || !PyArray_CheckExact(x)
        || !PyArray_ISBEHAVED_RO(as_array(x)) || !size(x)
        || (PyArray_TYPE(as_array(x)) != NPY_FLOAT && PyArray_TYPE(as_array(x)) != NPY_DOUBLE
            && !is_half(x)))
        return NULL;
    if (!group_axes(x, axis, &all)) {
        PyObject *y = of_repeated(x, axis, keep, how, mean);
        if (!y && !PyErr_Occurred())
            y = over_repeated(x, axis, keep, how, mean);
        if (y || PyErr_Occurred() || !is_half(x))
            return y;
        PyObject *wide = widened(x);
        y = wide ? reduced(wide, axis, keep, how, mean) : NULL;
        Py_XDECREF(wide);
        return y;
    }
    void *at;
    int wide = PyArray_TYPE(as_array(x)) == NPY_DOUBLE;
    PyObject *y = new_reduced(x, axis, keep == Py_True, &all, wide, &at);
    if (!y)
        return NULL;
    double terms = mean ? (double)(size(x) / size(y)) : 1.0;
    Reduction how_many = *how;
    how_many.factor /= terms;
    return unless(reduce_groups(x, &all, &how_many, terms, wide, at), y);
}

/* Elements of float32 that are converted before their sum in double. */
#define MOST_CONVERTED 16384

/* The same kernel for float32 in double, if `dtype` says so: as metrics add. NULL without an error
 * for others. */
static PyObject *in_double(KernelFunction kernel, PyObject *dtype, PyObject *const *x,
                           Py_ssize_t count, PyObject *names) {
    PyObject *all[4];
    Py_ssize_t many = names ? PyTuple_GET_SIZE(names) : 0;
    if (count != 1 || many > 3 || !dtype || !PyArray_DescrCheck(dtype) || !is_float32(x[0])
        || ((PyArray_Descr *)dtype)->type_num != NPY_DOUBLE || size(x[0]) > MOST_CONVERTED)
        return NULL;
    PyArray_Descr *wide = PyArray_DescrFromType(NPY_DOUBLE);
    all[0] = wide ? PyArray_CastToType(as_array(x[0]), wide, 0) : NULL;
    for (Py_ssize_t i = 0; i < many; i++)
        all[1 + i] = x[1 + i] == dtype ? Py_None : x[1 + i];
    PyObject *y = all[0] ? kernel(NULL, all, 1, names) : NULL;
    Py_XDECREF(all[0]);
    return y;
}

/* True of the dtype that an array has. */
static int is_own(PyObject *dtype, PyObject *x) {
    return PyArray_CheckExact(x) && dtype == (PyObject *)PyArray_DESCR(as_array(x));
}

#define REDUCTION(name, op, again, factor, mean)                                                   \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        static const Reduction how = {LOOP_##op##_float32, LOOP_##op##_float64, again, factor};    \
        PyObject *dtype = attribute(x, count, names, "dtype");                                     \
        if (count == 1 && (!dtype || dtype == Py_None || is_own(dtype, x[0]))) {                   \
            PyObject *y = reduced(x[0], attribute(x, count, names, "axis"),                        \
                                  attribute(x, count, names, "keepdims"), &how, mean);             \
            if (y || PyErr_Occurred())                                                             \
                return y && is_half(x[0]) ? narrowed_to(y, PyArray_TYPE(as_array(x[0]))) : y;      \
        } else {                                                                                   \
            PyObject *y = in_double(kernel_##name, dtype, x, count, names);                        \
            if (y || PyErr_Occurred())                                                             \
                return y;                                                                          \
        }                                                                                          \
        return NUMPY_FALLBACK(name);                                                               \
    }

REDUCTION(sum, sum, LOOP_sum_float64, 1.0, 0)
REDUCTION(mean, sum, LOOP_sum_float64, 1.0, 1)
REDUCTION(prod, prod, LOOP_prod_float64, 1.0, 0)
REDUCTION(max, max, -1, 1.0, 0)
REDUCTION(min, min, -1, 1.0, 0)

/* Norms of float64 between these are roots of sums whose squares did not leave the range. */
#define LEAST_NORM 1e-140
#define MOST_NORM 1e150

KERNEL(vector_norm) {
    (void)module;
    static const Reduction how = {LOOP_norm_float32, LOOP_norm_float64, LOOP_sum_float64, 0.0};
    PyObject *order = attribute(x, count, names, "ord");
    double number =
        order && (PyLong_Check(order) || PyFloat_Check(order)) ? PyFloat_AsDouble(order) : -1;
    if (PyErr_Occurred())
        return NULL;
    PyObject *y = count == 1 && number == 2
                    ? reduced(x[0], attribute(x, count, names, "axis"),
                              attribute(x, count, names, "keepdims"), &how, 0)
                    : NULL;
    if (!y && PyErr_Occurred())
        return NULL;
    int inside = y != NULL;
    if (inside && PyArray_TYPE(as_array(y)) == NPY_DOUBLE) {
        PyArrayObject *array = as_array(y);
        ptrdiff_t many = 1; /* in memory: some may be repeated */
        for (int i = 0; i < PyArray_NDIM(array); i++)
            many *= PyArray_STRIDE(array, i) ? PyArray_DIM(array, i) : 1;
        const double *norm = PyArray_DATA(array);
        for (ptrdiff_t i = 0; i < many; i++) /* in any order: there are no gaps */
            inside &= !(norm[i] < LEAST_NORM || norm[i] > MOST_NORM);
    }
    if (inside)
        return is_half(x[0]) ? narrowed_to(y, PyArray_TYPE(as_array(x[0]))) : y;
    Py_XDECREF(y);
    return NUMPY_FALLBACK(vector_norm);
}

/* Fills `begins` and `order` for the loop, from the segment of each position; false if a segment is
 * out of range. */
static int order_positions(const Indices *ids, ptrdiff_t segments, ptrdiff_t *order,
                           ptrdiff_t *begins) {
    memset(begins, 0, (size_t)(segments + 1) * sizeof *begins);
    for (ptrdiff_t i = 0; i < ids->count; i++) {
        ptrdiff_t id = index_of(ids, i);
        if (id < -segments || id >= segments)
            return 0;
        begins[id + (id < 0 ? segments : 0)]++;
    }
    ptrdiff_t end = 0;
    for (ptrdiff_t segment = 0; segment <= segments; segment++)
        begins[segment] = end += segment < segments ? begins[segment] : 0;
    /* Each is the end of its segment; going backwards, it becomes the beginning. */
    for (ptrdiff_t i = ids->count - 1; i >= 0; i--) {
        ptrdiff_t id = index_of(ids, i);
        order[--begins[id + (id < 0 ? segments : 0)]] = i;
    }
    return 1;
}

/* Rows shorter than this are added where they belong, one after the other, without ordering them.
 */
#define SHORT_ROW 16
/* One of so many segments at most: the others are only copied. */
#define FEW_OF 8

/* As `added`, of short rows: in the same order, and so with the same bits. 0 for an index that is
 * out of range. */
#define ADD_SHORT(T)                                                                               \
    static int add_short_##T(const T *row, const Indices *ids, ptrdiff_t outer,                    \
                             ptrdiff_t segments, ptrdiff_t inner, double *sums) {                  \
        for (ptrdiff_t item = 0; item < outer; item++, sums += segments * inner) {                 \
            ptrdiff_t held = 0; /* the segment whose first sum is `total`, not yet in `sums` */    \
            double total = sums[0];                                                                \
            for (ptrdiff_t i = 0; i < ids->count; i++, row += inner) {                             \
                ptrdiff_t id = index_of(ids, i);                                                   \
                id += id < 0 ? segments : 0;                                                       \
                if (id < 0 || id >= segments)                                                      \
                    return 0;                                                                      \
                if (id != held) {                                                                  \
                    sums[held * inner] = total;                                                    \
                    total = sums[(held = id) * inner];                                             \
                }                                                                                  \
                total += (double)row[0];                                                           \
                for (ptrdiff_t at = 1; at < inner; at++)                                           \
                    sums[id * inner + at] += (double)row[at];                                      \
            }                                                                                      \
            sums[held * inner] = total;                                                            \
        }                                                                                          \
        return 1;                                                                                  \
    }
ADD_SHORT(float)
ADD_SHORT(double)

static PyObject *added_short(PyObject *x, PyObject *start, const Indices *ids, ptrdiff_t outer,
                             ptrdiff_t segments, ptrdiff_t inner, int axes, const npy_intp *shape) {
    ptrdiff_t all = outer * segments * inner;
    double *sums = PyMem_Calloc((size_t)all, sizeof *sums);
    if (!sums)
        return PyErr_NoMemory();
    const float *begin = start ? data(start) : NULL;
    for (ptrdiff_t i = 0; begin && i < all; i++)
        sums[i] = (double)begin[i];
    int inside = add_short_float(data(x), ids, outer, segments, inner, sums);
    PyObject *y = inside ? new_array(axes, shape) : NULL;
    float *target = y ? data(y) : NULL;
    for (ptrdiff_t i = 0; y && i < all; i++)
        target[i] = (float)sums[i];
    PyMem_Free(sums);
    return y;
}

/* As `added_short`, of few rows, to `start` or to zeros, which are not touched: only the sums that
 * something is added to are computed in double, each at one of its positions, which `own` has for
 * its segment; all else is copied. */
static PyObject *added_few(const float *row, PyObject *start, const Indices *ids, ptrdiff_t outer,
                           ptrdiff_t segments, ptrdiff_t inner, int axes, const npy_intp *shape) {
    ptrdiff_t count = ids->count;
    /* What nothing is added to is neither written nor read. */
    ptrdiff_t *own = PyMem_Malloc((size_t)(segments + count) * sizeof *own);
    ptrdiff_t *place = own ? own + segments : NULL;
    double *sums = PyMem_Malloc((size_t)(count * inner) * sizeof *sums);
    int inside = own && sums;
    for (ptrdiff_t i = 0; inside && i < count; i++) {
        ptrdiff_t id = index_of(ids, i);
        place[i] = id += id < 0 ? segments : 0;
        inside = id >= 0 && id < segments;
        if (inside)
            own[id] = i;
    }
    PyObject *y = !own || !sums ? PyErr_NoMemory()
                : !inside       ? NULL
                : start         ? new_array(axes, shape)
                                : PyArray_ZEROS(axes, shape, NPY_FLOAT, 0);
    const float *begin = y ? data(start ? start : y) : NULL;
    float *target = y ? data(y) : NULL;
    if (y && start)
        memcpy(target, begin, (size_t)size(y) * sizeof *target);
    for (ptrdiff_t item = 0; y && item < outer; item++) {
        for (ptrdiff_t i = 0; i < count; i++)
            for (ptrdiff_t at = 0; at < inner; at++)
                sums[i * inner + at] = (double)begin[place[i] * inner + at];
        for (ptrdiff_t i = 0; i < count; i++, row += inner) {
            double *sum = sums + own[place[i]] * inner;
            for (ptrdiff_t at = 0; at < inner; at++)
                sum[at] += (double)row[at];
        }
        for (ptrdiff_t i = 0; i < count; i++) {
            const double *sum = sums + own[place[i]] * inner;
            for (ptrdiff_t at = 0; at < inner; at++)
                target[place[i] * inner + at] = (float)sum[at];
        }
        begin += segments * inner, target += segments * inner;
    }
    PyMem_Free(own);
    PyMem_Free(sums);
    return y;
}

/* True where more numbers than that go to one segment, or an index is out of range. */
static int has_crowds(const Indices *ids, ptrdiff_t segments) {
    if (ids->count <= FEW_SUMMANDS)
        return 0;
    unsigned char *counts = PyMem_Calloc((size_t)segments, 1);
    int any = !counts;
    for (ptrdiff_t i = 0; i < ids->count && !any; i++) {
        ptrdiff_t id = index_of(ids, i);
        id += id < 0 ? segments : 0;
        any = id < 0 || id >= segments || ++counts[id] > FEW_SUMMANDS;
    }
    PyMem_Free(counts);
    return any;
}

/* Adds rows of float64 as `add_short_double` does, and what each sum loses beside it. */
static int add_crowds(const double *row, const Indices *ids, ptrdiff_t outer, ptrdiff_t segments,
                      ptrdiff_t inner, double *sums, double *lost) {
    for (ptrdiff_t item = 0; item < outer; item++) {
        for (ptrdiff_t i = 0; i < ids->count; i++, row += inner) {
            ptrdiff_t id = index_of(ids, i);
            id += id < 0 ? segments : 0;
            if (id < 0 || id >= segments)
                return 0;
            for (ptrdiff_t at = id * inner; at < (id + 1) * inner; at++)
                add_exactly(sums + at, lost + at, row[at - id * inner]);
        }
        sums += segments * inner, lost += segments * inner;
    }
    return 1;
}

/* The same of float64. */
static PyObject *added_doubles(PyObject *x, PyObject *start, const Indices *ids, ptrdiff_t outer,
                               ptrdiff_t segments, ptrdiff_t inner, int axes,
                               const npy_intp *shape) {
    int crowds = has_crowds(ids, segments), inside = 1;
    PyObject *y = new_array_of(NPY_DOUBLE, sizeof(double), axes, shape);
    if (y && start)
        memcpy(data(y), data(start), (size_t)size(y) * sizeof(double));
    else if (y)
        memset(data(y), 0, (size_t)size(y) * sizeof(double));
    if (y && crowds) {
        double *lost = PyMem_Calloc((size_t)size(y), sizeof *lost);
        inside = lost && add_crowds(data(x), ids, outer, segments, inner, data(y), lost);
        if (inside)
            add_lost(data(y), lost, size(y));
        else if (!lost)
            PyErr_NoMemory();
        PyMem_Free(lost);
    } else if (y) {
        inside = add_short_double(data(x), ids, outer, segments, inner, data(y));
    }
    return unless(!inside, y);
}

/* True of an array of float32 or float64 whose rows can be added. */
static int is_addend(PyObject *x) {
    return PyArray_CheckExact(x) && size(x) && PyArray_ISBEHAVED_RO(as_array(x))
        && (PyArray_TYPE(as_array(x)) == NPY_FLOAT || PyArray_TYPE(as_array(x)) == NPY_DOUBLE);
}

/* Adds the rows of x at `indices` of `shape`, of `axes` axes, along `along`, to `start` or to
 * zeros; NULL without an error where NumPy has to do it. */
static PyObject *added(PyObject *x, PyObject *start, const Indices *ids, int along, int axes,
                       const npy_intp *shape) {
    ptrdiff_t segments = shape[along], outer = 1, inner = 1;
    for (int i = 0; i < axes; i++)
        *(i < along ? &outer : &inner) *= i == along ? 1 : shape[i];
    if (segments < 1 || outer * ids->count * inner != size(x))
        return NULL;
    /* The gradient of a sum repeats numbers: a copy of it is added faster than it. */
    PyObject *copy = plain_copy(x), *y = NULL;
    int wide = PyArray_TYPE(as_array(x)) == NPY_DOUBLE;
    int few = FEW_OF * ids->count < segments;
    if (!copy || inner < SHORT_ROW || few || wide) {
        y = !copy ? NULL
          : wide  ? added_doubles(copy, start, ids, outer, segments, inner, axes, shape)
          : few   ? added_few(data(copy), start, ids, outer, segments, inner, axes, shape)
                  : added_short(copy, start, ids, outer, segments, inner, axes, shape);
        Py_XDECREF(copy);
        return y;
    }
    ptrdiff_t *order = PyMem_Malloc((size_t)(ids->count + segments + 1) * sizeof *order);
    ptrdiff_t *begins = order ? order + ids->count : NULL;
    if (!order)
        PyErr_NoMemory();
    else if (order_positions(ids, segments, order, begins) && (y = new_array(axes, shape))) {
        SegmentSumArgs args = {.x = data(copy),
                               .start = start ? data(start) : NULL,
                               .order = order,
                               .begins = begins,
                               .y = data(y),
                               .positions = ids->count,
                               .segments = segments,
                               .inner = inner};
        double rows = 1 + (double)ids->count / (double)segments;
        ptrdiff_t grain = 1 + (ptrdiff_t)(PIECE / (rows * (double)inner));
        y = unless(run_segment_sum(&args, outer * segments, grain, 5 + 0.15 * rows * (double)inner),
                   y);
    }
    Py_XDECREF(copy);
    PyMem_Free(order);
    return y;
}

KERNEL(segment_sum) {
    (void)module;
    PyObject *number = attribute(x, count, names, "num_segments");
    PyObject *axis = attribute(x, count, names, "axis");
    Indices ids;
    if (count != 2 || !number || !axis || !as_indices(x[1], &ids) || !is_addend(x[0]))
        return NUMPY_FALLBACK(segment_sum);
    int ndim = PyArray_NDIM(as_array(x[0])), summed_axes = PyArray_NDIM(as_array(x[1]));
    int along = (int)PyLong_AsLong(axis), axes = 0;
    ptrdiff_t segments = PyLong_AsSsize_t(number);
    npy_intp shape[NPY_MAXDIMS];
    /* Where most segments are 0, NumPy's kernel does not touch them, and adds float64 as well. */
    int few = FEW_OF * ids.count < segments;
    if (along < 0 || along + summed_axes > ndim || ndim - summed_axes >= NPY_MAXDIMS || !ids.count
        || (few && PyArray_TYPE(as_array(x[0])) != NPY_FLOAT))
        return NUMPY_FALLBACK(segment_sum);
    for (int i = 0; i < along; i++)
        shape[axes++] = PyArray_DIM(as_array(x[0]), i);
    shape[axes++] = segments;
    for (int i = along + summed_axes; i < ndim; i++)
        shape[axes++] = PyArray_DIM(as_array(x[0]), i);
    PyObject *y = added(x[0], NULL, &ids, along, axes, shape);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(segment_sum);
}

KERNEL(scatter_add) {
    (void)module;
    if (count == 3 && PyArray_CheckExact(x[0]) && PyArray_ISINTEGER(as_array(x[0]))) {
        PyObject *sums = summed_integers(x, count, names);
        return sums || PyErr_Occurred() ? sums : NUMPY_FALLBACK(scatter_add);
    }
    PyObject *axis = attribute(x, count, names, "axis");
    Indices ids;
    if (count != 3 || !axis || !as_indices(x[1], &ids) || !is_addend(x[2])
        || !PyArray_CheckExact(x[0]) || !PyArray_ISBEHAVED_RO(as_array(x[0])) || !size(x[0])
        || PyArray_TYPE(as_array(x[0])) != PyArray_TYPE(as_array(x[2])) || !ids.count)
        return NUMPY_FALLBACK(scatter_add);
    int along = (int)PyLong_AsLong(axis), ndim = PyArray_NDIM(as_array(x[0]));
    PyObject *start = plain_copy(x[0]);
    PyObject *y = along < 0 || along >= ndim || !start
                    ? NULL
                    : added(x[2], start, &ids, along, ndim, PyArray_DIMS(as_array(x[0])));
    Py_XDECREF(start);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(scatter_add);
}
