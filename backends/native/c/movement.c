/* Kernels that move elements. */
#include "calls.h"
#include "pool.h"

/* Numbers at positions along the last axis, which are checked as they are read. */
typedef struct {
    TakeArgs take;
    int beyond;
} TakeNumbersArgs;

#define TAKE_NUMBERS(index)                                                                        \
    for (ptrdiff_t k = from; k < to;) {                                                            \
        ptrdiff_t row = k / positions,                                                             \
                  end = (row + 1) * positions < to ? (row + 1) * positions : to;                   \
        const index *ids = (const index *)args->indices - row * positions;                         \
        const float *x = args->x + row * rows;                                                     \
        for (; k < end; k++) {                                                                     \
            ptrdiff_t id = (ptrdiff_t)ids[k];                                                      \
            id += id < 0 ? rows : 0;                                                               \
            if ((size_t)id >= (size_t)rows)                                                        \
                return 1;                                                                          \
            y[k] = x[id];                                                                          \
        }                                                                                          \
    }

static int numbers_taken(ptrdiff_t from, ptrdiff_t to, const TakeArgs *args) {
    ptrdiff_t positions = args->positions, rows = args->rows;
    float *restrict y = args->y;
    if (args->wide) {
        TAKE_NUMBERS(int64_t)
    } else {
        TAKE_NUMBERS(int32_t)
    }
    return 0;
}

static void take_numbers(ptrdiff_t from, ptrdiff_t to, const void *args) {
    TakeNumbersArgs *given = (TakeNumbersArgs *)args;
    if (numbers_taken(from, to, &given->take))
        __atomic_store_n(&given->beyond, 1, __ATOMIC_RELAXED);
}

/* As run_loop does; 1 where a position is beyond the axis. */
static int run_take_numbers(const TakeArgs *args, ptrdiff_t count) {
    TakeNumbersArgs all = {*args, 0};
    double time = 1.5 * (double)count;
    int threads = time < WORTH_THE_LOCK ? 0 : threads_for(time);
    if (threads < 0)
        return -1;
    if (!threads) {
        take_numbers(0, count, &all);
    } else {
        Py_BEGIN_ALLOW_THREADS pool_run(take_numbers, &all, count, PIECE, threads);
        Py_END_ALLOW_THREADS
    }
    return all.beyond;
}

KERNEL(take) {
    (void)module;
    PyObject *axis = attribute(x, count, names, "axis");
    Indices ids;
    if (count != 2 || !axis || !is_plain(x[0]) || !size(x[0]) || !as_indices(x[1], &ids)
        || !ids.count)
        return NUMPY_FALLBACK(take);
    int ndim = PyArray_NDIM(as_array(x[0])), more = PyArray_NDIM(as_array(x[1]));
    int along = (int)PyLong_AsLong(axis), axes = 0;
    npy_intp shape[NPY_MAXDIMS];
    if (along < 0 || along >= ndim || ndim + more > NPY_MAXDIMS)
        return NUMPY_FALLBACK(take);
    ptrdiff_t rows = PyArray_DIM(as_array(x[0]), along), outer = 1, inner = 1;
    for (int i = 0; i < along; i++)
        outer *= shape[axes++] = PyArray_DIM(as_array(x[0]), i);
    for (int i = 0; i < more; i++)
        shape[axes++] = PyArray_DIM(as_array(x[1]), i);
    for (int i = along + 1; i < ndim; i++)
        inner *= shape[axes++] = PyArray_DIM(as_array(x[0]), i);
    int beyond = 0;
    for (ptrdiff_t i = 0; inner != 1 && i < ids.count; i++) {
        ptrdiff_t id = index_of(&ids, i);
        beyond |= (id < -rows) | (id >= rows);
    }
    if (beyond)
        return NUMPY_FALLBACK(take);
    PyObject *y = new_array(axes, shape);
    if (y) {
        TakeArgs args = {.x = data(x[0]),
                         .indices = ids.at,
                         .y = data(y),
                         .positions = ids.count,
                         .rows = rows,
                         .inner = inner,
                         .wide = ids.wide};
        if (inner == 1) {
            int failed = run_take_numbers(&args, outer * ids.count);
            y = unless(failed, y);
            return failed > 0 ? NUMPY_FALLBACK(take) : y;
        }
        return unless(
            run_take(&args, outer * ids.count, 1 + PIECE / inner, 5 + 0.3 * (double)inner), y);
    }
    return y;
}

/* Writes an array into every step-th run of another array. A single long run is cut into pieces. */
static int write_runs(const float *source, float *target, ptrdiff_t run, ptrdiff_t step,
                      ptrdiff_t all) {
    if (run == all)
        run = step = 1024;
    PlaceRunsArgs args = {.x = source, .y = target, .run = run, .step = step, .count = all};
    return run_place_runs(&args, (all + run - 1) / run, 1 + PIECE / run, 4 + 0.3 * (double)run);
}

/* True for an array in C order whose elements can be copied as bytes. */
static int is_bytes(PyObject *x) {
    return PyArray_CheckExact(x) && PyArray_ISCARRAY_RO(as_array(x))
        && !PyDataType_REFCHK(PyArray_DESCR(as_array(x)));
}

/* Bytes of a run, and runs, from which on NumPy's loops over strides are faster. */
#define SHORT_RUN 64
#define MANY_RUNS 4096

/* Parts joined along an axis, or a new one; NULL without an error where NumPy has to do it. */
static PyObject *joined(PyObject *parts, int axis, int is_new) {
    Py_ssize_t many = PyList_GET_SIZE(parts);
    PyObject *head = PyList_GET_ITEM(parts, 0);
    if (!is_bytes(head))
        return NULL;
    PyArrayObject *first = as_array(head);
    int ndim = PyArray_NDIM(first), type = PyArray_TYPE(first), axes = 0;
    if (axis < 0 || axis > ndim - !is_new || ndim + is_new > NPY_MAXDIMS)
        return NULL;
    npy_intp shape[NPY_MAXDIMS + 1];
    ptrdiff_t along = 0, outer = 1, inner = PyArray_ITEMSIZE(first);
    for (Py_ssize_t i = 0; i < many; i++) {
        PyObject *part = PyList_GET_ITEM(parts, i);
        if (!is_bytes(part) || PyArray_TYPE(as_array(part)) != type
            || PyArray_NDIM(as_array(part)) != ndim)
            return NULL;
        for (int other = 0; other < ndim; other++)
            if ((is_new || other != axis)
                && PyArray_DIM(as_array(part), other) != PyArray_DIM(first, other))
                return NULL;
        along += is_new ? 1 : PyArray_DIM(as_array(part), axis);
    }
    for (int i = 0; i < axis; i++)
        outer *= shape[axes++] = PyArray_DIM(first, i);
    shape[axes++] = along;
    for (int i = axis + !is_new; i < ndim; i++)
        inner *= shape[axes++] = PyArray_DIM(first, i);
    if (inner < SHORT_RUN && outer * along > MANY_RUNS)
        return NULL;
    PyObject *y = new_array_of(type, PyArray_ITEMSIZE(first), axes, shape);
    if (!y)
        return NULL;
    char *target = data(y);
    double bytes = (double)outer * (double)along * (double)inner;
    PyThreadState *held = bytes > 1e5 ? PyEval_SaveThread() : NULL;
    for (Py_ssize_t i = 0; i < many; i++) {
        PyArrayObject *part = as_array(PyList_GET_ITEM(parts, i));
        ptrdiff_t run = (is_new ? 1 : PyArray_DIM(part, axis)) * inner;
        const char *source = PyArray_DATA(part);
        for (ptrdiff_t row = 0; row < outer; row++)
            memcpy(target + row * along * inner, source + row * run, (size_t)run);
        target += run;
    }
    if (held)
        PyEval_RestoreThread(held);
    return y;
}

KERNEL(stack) {
    (void)module;
    PyObject *axis = attribute(x, count, names, "axis"), *y = NULL;
    if (count == 1 && axis && PyLong_Check(axis) && PyList_CheckExact(x[0])
        && PyList_GET_SIZE(x[0]))
        y = joined(x[0], (int)PyLong_AsLong(axis), 1);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(stack);
}

/* The element of an axis that is at place i of the padded one, as `PAD_SOURCES` has it. */
enum { EDGE, REFLECT, SYMMETRIC, WRAP };
static ptrdiff_t rest_of(ptrdiff_t i, ptrdiff_t n) { return (i % n + n) % n; }
static ptrdiff_t source_of(int mode, ptrdiff_t i, ptrdiff_t n) {
    if (mode == EDGE)
        return i < 0 ? 0 : i < n ? i : n - 1;
    if (mode == WRAP)
        return rest_of(i, n);
    if (mode == REFLECT) {
        ptrdiff_t far = rest_of(i, n > 1 ? 2 * (n - 1) : 1) - (n - 1);
        return n - 1 - (far < 0 ? -far : far);
    }
    ptrdiff_t there = rest_of(i, 2 * n), back = rest_of(-(i + 1), 2 * n);
    return there < back ? there : back;
}

/* Elements of the result from which on NumPy's slices take less time, and the most axes. */
#define MANY_PADDED 65536
#define PAD_AXES 8

KERNEL(pad) {
    (void)module;
    static const char *const modes[] = {"edge", "reflect", "symmetric", "wrap"};
    PyObject *widths = attribute(x, count, names, "pad_width");
    PyObject *word = attribute(x, count, names, "mode");
    int mode = -1, ndim = count == 1 && is_bytes(x[0]) ? PyArray_NDIM(as_array(x[0])) : 0;
    for (int i = 0; i < 4 && word && PyUnicode_Check(word); i++)
        mode = PyUnicode_CompareWithASCIIString(word, modes[i]) ? mode : i;
    if (mode < 0 || !ndim || ndim > PAD_AXES || !size(x[0]) || !widths
        || !PyTuple_CheckExact(widths) || PyTuple_GET_SIZE(widths) != ndim)
        return NUMPY_FALLBACK(pad);
    npy_intp shape[PAD_AXES];
    ptrdiff_t before[PAD_AXES], places = 0;
    double all = 1;
    for (int axis = 0; axis < ndim; axis++) {
        PyObject *both = PyTuple_GET_ITEM(widths, axis);
        if (!PyTuple_CheckExact(both) || PyTuple_GET_SIZE(both) != 2)
            return NUMPY_FALLBACK(pad);
        ptrdiff_t after = PyLong_AsSsize_t(PyTuple_GET_ITEM(both, 1));
        before[axis] = PyLong_AsSsize_t(PyTuple_GET_ITEM(both, 0));
        if (before[axis] < 0 || after < 0 || before[axis] > MANY_PADDED || after > MANY_PADDED) {
            PyErr_Clear();
            return NUMPY_FALLBACK(pad);
        }
        all *= (double)(shape[axis] = before[axis] + PyArray_DIM(as_array(x[0]), axis) + after);
        places += shape[axis];
    }
    if (all > MANY_PADDED)
        return NUMPY_FALLBACK(pad);
    ptrdiff_t item = PyArray_ITEMSIZE(as_array(x[0]));
    ptrdiff_t *offsets = PyMem_Malloc((size_t)places * sizeof *offsets);
    if (!offsets)
        return PyErr_NoMemory();
    PyObject *y = new_array_of(PyArray_TYPE(as_array(x[0])), item, ndim, shape);
    if (y) {
        /* The offset in x of each place along each axis, in bytes. */
        ptrdiff_t *axes[PAD_AXES], at[PAD_AXES] = {0}, *next = offsets;
        for (int axis = 0; axis < ndim; axis++) {
            axes[axis] = next;
            for (ptrdiff_t i = 0; i < shape[axis]; i++)
                *next++ = source_of(mode, i - before[axis], PyArray_DIM(as_array(x[0]), axis))
                        * PyArray_STRIDE(as_array(x[0]), axis);
        }
        char *target = data(y);
        ptrdiff_t columns = shape[ndim - 1], rows = size(y) / columns;
        const ptrdiff_t *along = axes[ndim - 1];
        for (ptrdiff_t row = 0; row < rows; row++) {
            const char *source = data(x[0]);
            for (int axis = 0; axis < ndim - 1; axis++)
                source += axes[axis][at[axis]];
            switch (item) {
            case 4:
                for (ptrdiff_t i = 0; i < columns; i++)
                    memcpy(target + 4 * i, source + along[i], 4);
                break;
            case 8:
                for (ptrdiff_t i = 0; i < columns; i++)
                    memcpy(target + 8 * i, source + along[i], 8);
                break;
            default:
                for (ptrdiff_t i = 0; i < columns; i++)
                    memcpy(target + item * i, source + along[i], (size_t)item);
            }
            target += columns * item;
            for (int axis = ndim - 2; axis >= 0 && ++at[axis] == shape[axis]; axis--)
                at[axis] = 0;
        }
    }
    PyMem_Free(offsets);
    return y;
}

KERNEL(concat) {
    (void)module;
    if (count == 1 && PyList_CheckExact(x[0]) && PyList_GET_SIZE(x[0])
        && !is_float32(PyList_GET_ITEM(x[0], 0))) {
        PyObject *along = attribute(x, count, names, "axis"), *y = NULL;
        if (along && PyLong_Check(along))
            y = joined(x[0], (int)PyLong_AsLong(along), 0);
        return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(concat);
    }
    PyObject *attribute_axis = attribute(x, count, names, "axis");
    if (count != 1 || !attribute_axis || attribute_axis == Py_None || !PyList_CheckExact(x[0])
        || !PyList_GET_SIZE(x[0]))
        return NUMPY_FALLBACK(concat);
    Py_ssize_t many = PyList_GET_SIZE(x[0]);
    PyObject *head = PyList_GET_ITEM(x[0], 0);
    int axis = (int)PyLong_AsLong(attribute_axis),
        ndim = is_plain(head) ? PyArray_NDIM(as_array(head)) : 0;
    if (axis < 0 || axis >= ndim)
        return NUMPY_FALLBACK(concat);
    npy_intp shape[NPY_MAXDIMS];
    ptrdiff_t along = 0, inner = 1;
    for (int i = 0; i < ndim; i++)
        shape[i] = PyArray_DIM(as_array(head), i);
    for (Py_ssize_t i = 0; i < many; i++) {
        PyObject *part = PyList_GET_ITEM(x[0], i);
        if (!is_plain(part) || PyArray_NDIM(as_array(part)) != ndim)
            return NUMPY_FALLBACK(concat);
        for (int other = 0; other < ndim; other++)
            if (other != axis && PyArray_DIM(as_array(part), other) != shape[other])
                return NUMPY_FALLBACK(concat);
        along += PyArray_DIM(as_array(part), axis);
    }
    shape[axis] = along;
    for (int i = axis + 1; i < ndim; i++)
        inner *= shape[i];
    PyObject *y = new_array(ndim, shape);
    float *target = y ? data(y) : NULL;
    for (Py_ssize_t i = 0; y && i < many; i++) {
        PyObject *part = PyList_GET_ITEM(x[0], i);
        ptrdiff_t run = PyArray_DIM(as_array(part), axis) * inner;
        if (size(part) && write_runs(data(part), target, run, along * inner, size(part)))
            Py_CLEAR(y);
        target += run;
    }
    return y;
}

/* From this many elements on, a copy here is faster than NumPy's. */
#define WORTH_A_COPY 16384

/* A copy of x in C order; NULL without an error where NumPy has to do it: the elements of the last
 * axis are not neighbours, or there are too many axes. */
static PyObject *in_order(PyObject *x) {
    PyArrayObject *array = as_array(x);
    int axis = PyArray_NDIM(array) - 1, axes = 0;
    ptrdiff_t run = 1, sizes[RUN_AXES], strides[RUN_AXES];
    for (; axis >= 0 && PyArray_STRIDE(array, axis) == run * (ptrdiff_t)sizeof(float); axis--)
        run *= PyArray_DIM(array, axis);
    if (run < 8)
        return NULL;
    for (; axis >= 0; axis--) {
        ptrdiff_t along = PyArray_DIM(array, axis), stride = PyArray_STRIDE(array, axis);
        if (stride % (ptrdiff_t)sizeof(float))
            return NULL;
        stride /= (ptrdiff_t)sizeof(float);
        if (along == 1)
            continue;
        if (axes && stride == sizes[axes - 1] * strides[axes - 1]) {
            sizes[axes - 1] *= along;
            continue;
        }
        if (axes == RUN_AXES)
            return NULL;
        sizes[axes] = along, strides[axes++] = stride;
    }
    PyObject *y = new_like(x);
    if (!y)
        return NULL;
    GatherRunsArgs args = {.x = data(x), .y = data(y), .run = run, .axes = axes};
    for (int i = 0; i < axes; i++)
        args.sizes[i] = sizes[axes - 1 - i], args.strides[i] = strides[axes - 1 - i];
    return unless(run_gather_runs(&args, size(x) / run, 1 + PIECE / run, 4 + 0.3 * (double)run), y);
}

/* A view of x in this shape; NULL without an error if only a copy has it. */
static PyObject *viewed(PyObject *x, PyObject *shape) {
    static PyObject *reshape, *names;
    if (!reshape)
        reshape = PyUnicode_InternFromString("reshape");
    if (!names)
        names = Py_BuildValue("(s)", "copy");
    if (!reshape || !names)
        return NULL;
    PyObject *arguments[] = {x, shape, Py_False};
    PyObject *y = PyObject_VectorcallMethod(reshape, arguments, 2, names);
    if (!y && PyErr_ExceptionMatches(PyExc_ValueError))
        PyErr_Clear();
    return y;
}

/* Elements that are repeated one by one, up to which NumPy's loops take longer than these. */
#define FEW_REPEATED 16384

/* True for an array of few elements with an axis that repeats them, and fewer axes in the result:
 * NumPy would copy it in many short runs. */
static int is_repeated(PyObject *x, PyObject *shape) {
    PyArrayObject *array = as_array(x);
    int repeats = 0;
    for (int axis = 0; axis < PyArray_NDIM(array); axis++)
        repeats |= !PyArray_STRIDE(array, axis) && PyArray_DIM(array, axis) > 1;
    return repeats && size(x) <= FEW_REPEATED && PyTuple_GET_SIZE(shape) < PyArray_NDIM(array)
        && PyArray_ISBEHAVED_RO(array) && !PyDataType_REFCHK(PyArray_DESCR(array));
}

/* Copies the elements of x from an axis on in C order; returns where the next ones go. */
static char *copied(PyArrayObject *x, int axis, const char *from, char *to) {
    ptrdiff_t along = PyArray_DIM(x, axis), stride = PyArray_STRIDE(x, axis);
    ptrdiff_t item = PyArray_ITEMSIZE(x);
    if (axis < PyArray_NDIM(x) - 1) {
        for (ptrdiff_t i = 0; i < along; i++, from += stride)
            to = copied(x, axis + 1, from, to);
        return to;
    }
    switch (item) {
    case 2:
        for (ptrdiff_t i = 0; i < along; i++)
            memcpy(to + 2 * i, from + stride * i, 2);
        break;
    case 4:
        for (ptrdiff_t i = 0; i < along; i++)
            memcpy(to + 4 * i, from + stride * i, 4);
        break;
    case 8:
        for (ptrdiff_t i = 0; i < along; i++)
            memcpy(to + 8 * i, from + stride * i, 8);
        break;
    default:
        for (ptrdiff_t i = 0; i < along; i++)
            memcpy(to + item * i, from + stride * i, (size_t)item);
    }
    return to + item * along;
}

/* A copy of x in this shape; NULL without an error for a shape of another number of elements. */
static PyObject *spread_out(PyObject *x, PyObject *shape) {
    npy_intp sizes[NPY_MAXDIMS];
    int axes = (int)PyTuple_GET_SIZE(shape);
    ptrdiff_t all = 1;
    for (int i = 0; i < axes; i++) {
        sizes[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
        if (sizes[i] < 0 || sizes[i] > FEW_REPEATED) {
            PyErr_Clear();
            return NULL;
        }
        all *= all > FEW_REPEATED ? 1 : sizes[i];
    }
    if (all != size(x))
        return NULL;
    PyObject *y =
        new_array_of(PyArray_TYPE(as_array(x)), PyArray_ITEMSIZE(as_array(x)), axes, sizes);
    if (y && all)
        copied(as_array(x), 0, data(x), data(y));
    return y;
}

KERNEL(reshape) {
    (void)module;
    PyObject *shape = attribute(x, count, names, "shape");
    if (count != 1 || !shape || !PyTuple_CheckExact(shape) || !PyArray_CheckExact(x[0])
        || PyTuple_GET_SIZE(shape) > NPY_MAXDIMS)
        return NUMPY_FALLBACK(reshape);
    PyObject *source = NULL;
    if (!PyArray_IS_C_CONTIGUOUS(as_array(x[0]))) {
        PyObject *spread = is_repeated(x[0], shape) ? spread_out(x[0], shape) : NULL;
        if (spread || PyErr_Occurred())
            return spread;
        if (PyArray_TYPE(as_array(x[0])) != NPY_FLOAT || size(x[0]) < WORTH_A_COPY
            || !PyArray_ISBEHAVED_RO(as_array(x[0])))
            return NUMPY_FALLBACK(reshape);
        PyObject *y = viewed(x[0], shape);
        if (y || PyErr_Occurred())
            return y;
        source = in_order(x[0]);
        if (!source)
            return PyErr_Occurred() ? NULL : NUMPY_FALLBACK(reshape);
    }
    npy_intp sizes[NPY_MAXDIMS];
    PyArray_Dims all = {sizes, (int)PyTuple_GET_SIZE(shape)};
    for (int i = 0; i < all.len; i++)
        sizes[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
    PyArrayObject *from = as_array(source ? source : x[0]);
    PyObject *y = PyErr_Occurred() ? NULL : PyArray_Newshape(from, &all, NPY_CORDER);
    Py_XDECREF(source);
    return y;
}
