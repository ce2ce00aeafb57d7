/* Kernels of random numbers: functions of a key and a counter. */
#include "calls.h"

/* The words of an integer of `many` times 64 bits, the lowest first; 0 where it is no such int. */
static int words_of(PyObject *number, int many, uint64_t *words) {
    int overflow = 1;
    long long small =
        number && PyLong_CheckExact(number) ? PyLong_AsLongLongAndOverflow(number, &overflow) : -1;
    memset(words, 0, (size_t)many * sizeof *words);
    if (!overflow) {
        words[0] = (uint64_t)small;
        return small >= 0;
    }
    if (!number || !PyLong_CheckExact(number) || overflow < 0)
        return 0;
    PyObject *width = PyLong_FromLong(64), *rest = Py_NewRef(number);
    for (int i = 0; i < many && width && rest; i++) {
        words[i] = PyLong_AsUnsignedLongLongMask(rest);
        Py_SETREF(rest, PyNumber_Rshift(rest, width));
    }
    Py_XDECREF(width);
    Py_XDECREF(rest);
    return !PyErr_Occurred();
}

static int as_drawing(PyObject *const *x, Py_ssize_t count, PyObject *names, Drawing *drawing) {
    int whole = words_of(attribute(x, count, names, "key"), 2, drawing->key)
             && words_of(attribute(x, count, names, "counter"), 4, drawing->counter);
    PyErr_Clear();
    return whole;
}

/* The attribute `shape`: the number of its axes, or -1. */
static int as_shape(PyObject *sizes, npy_intp *shape, ptrdiff_t *all) {
    if (!sizes || !PyTuple_CheckExact(sizes) || PyTuple_GET_SIZE(sizes) > NPY_MAXDIMS)
        return -1;
    int axes = (int)PyTuple_GET_SIZE(sizes);
    *all = 1;
    for (int i = 0; i < axes; i++) {
        shape[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(sizes, i));
        if (shape[i] < 0 || (shape[i] && *all > NPY_MAX_INTP / 8 / shape[i])) {
            PyErr_Clear();
            return -1;
        }
        *all *= shape[i];
    }
    return axes;
}

static int dtype_of(PyObject *const *x, Py_ssize_t count, PyObject *names) {
    PyObject *dtype = attribute(x, count, names, "dtype");
    int known =
        dtype && PyArray_DescrCheck(dtype) && PyArray_ISNBO(((PyArray_Descr *)dtype)->byteorder);
    return known ? ((PyArray_Descr *)dtype)->type_num : -1;
}

/* Nanoseconds of a block. */
#define BLOCK_COST 14.0

/* A new array filled by a loop that takes so many elements of a block; NULL without an error where
 * NumPy has to do it. */
static PyObject *drawn(int loop, int type, ptrdiff_t item, ptrdiff_t each, PyObject *const *x,
                       Py_ssize_t count, PyObject *names) {
    npy_intp shape[NPY_MAXDIMS];
    DrawArgs args;
    int axes = as_shape(attribute(x, count, names, "shape"), shape, &args.size);
    if (count || axes < 0 || !as_drawing(x, count, names, &args.drawing))
        return NULL;
    PyObject *y = new_array_of(type, item, axes, shape);
    if (!y || !args.size)
        return y;
    args.y = data(y);
    return unless(run_loop(loop, &args, (args.size + each - 1) / each, PIECE / each, BLOCK_COST),
                  y);
}
#define DRAWN(loop, type, item) drawn(LOOP_##loop, type, item, 32 / (item), x, count, names)

KERNEL(random_bits) {
    (void)module;
    int type = dtype_of(x, count, names);
    PyObject *y = type == NPY_UINT32 ? DRAWN(draw_bits32, type, 4)
                : type == NPY_UINT64 ? DRAWN(draw_bits64, type, 8)
                                     : NULL;
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(random_bits);
}

KERNEL(random_uniform) {
    (void)module;
    int type = dtype_of(x, count, names);
    PyObject *y = type == NPY_FLOAT  ? DRAWN(draw_float32, type, 4)
                : type == NPY_DOUBLE ? DRAWN(draw_float64, type, 8)
                                     : NULL;
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(random_uniform);
}

/* Of n elements half are cosines, the others sines; of an odd n there is one sine too many. */
KERNEL(random_normal) {
    (void)module;
    int type = dtype_of(x, count, names);
    npy_intp shape[NPY_MAXDIMS];
    DrawArgs args;
    int axes = as_shape(attribute(x, count, names, "shape"), shape, &args.size);
    int narrow = type == NPY_HALF || (type >= 0 && type == bfloat16);
    if (count || axes < 0 || !args.size || (type != NPY_FLOAT && !narrow)
        || !as_drawing(x, count, names, &args.drawing))
        return NUMPY_FALLBACK(random_normal);
    ptrdiff_t size = args.size, half = (size + 1) / 2;
    npy_intp even[] = {2 * half};
    PyObject *all = new_array(1, even);
    if (!all)
        return NULL;
    args.y = data(all);
    args.size = 2 * half;
    NormalArgs pairs = {.first = data(all), .second = (float *)data(all) + half};
    if (run_draw_float32(&args, (2 * half + 7) / 8, PIECE / 8, BLOCK_COST)
        || run_normal_pairs(&pairs, half, PIECE, 5)) {
        Py_DECREF(all);
        return NULL;
    }
    PyArray_Descr *dtype = PyArray_DESCR(as_array(all));
    Py_INCREF(dtype);
    PyObject *y = PyArray_NewFromDescr(&PyArray_Type, dtype, axes, shape, NULL, data(all),
                                       NPY_ARRAY_CARRAY, NULL);
    if (!y) {
        Py_DECREF(all);
        return NULL;
    }
    if (PyArray_SetBaseObject(as_array(y), all)) {
        Py_DECREF(y);
        return NULL;
    }
    if (!narrow)
        return y;
    PyArray_Descr *own = (PyArray_Descr *)attribute(x, count, names, "dtype");
    Py_INCREF(own);
    PyObject *rounded = PyArray_CastToType(as_array(y), own, 0);
    Py_DECREF(y);
    return rounded;
}

static int is_shape_of(PyObject *sizes, PyObject *x) {
    npy_intp shape[NPY_MAXDIMS];
    ptrdiff_t all;
    int axes = as_shape(sizes, shape, &all);
    return axes == PyArray_NDIM(as_array(x))
        && PyArray_CompareLists(shape, PyArray_DIMS(as_array(x)), axes);
}

KERNEL(dropout) {
    (void)module;
    DropArgs args;
    PyObject *rate = attribute(x, count, names, "rate");
    args.rate = rate && PyFloat_CheckExact(rate) ? PyFloat_AS_DOUBLE(rate) : 0;
    if (count != 1 || !(args.rate > 0) || !is_plain(x[0]) || !size(x[0])
        || !is_shape_of(attribute(x, count, names, "noise_shape"), x[0])
        || !as_drawing(x, count, names, &args.drawing))
        return NUMPY_FALLBACK(dropout);
    PyObject *y = new_like(x[0]);
    PyObject *kept =
        y ? new_array_of(NPY_BOOL, 1, PyArray_NDIM(as_array(x[0])), PyArray_DIMS(as_array(x[0])))
          : NULL;
    if (kept) {
        args.x = data(x[0]);
        args.y = data(y);
        args.kept = data(kept);
        args.size = size(x[0]);
        args.factor = args.rate < 1 ? 1 / (1 - args.rate) : 0;
        y = unless(run_drop(&args, (args.size + 7) / 8, PIECE / 8, BLOCK_COST + 4), y);
    }
    return pair(y, kept);
}
