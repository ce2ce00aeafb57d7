/* Conversions between float32 and bfloat16, and elements of bfloat16. */
#include "families.h"

/* Nanoseconds for an element. */
#define COST 0.15

static PyObject *new_narrow_like(PyObject *x) {
    return new_array_of(bfloat16, sizeof(Bfloat16), PyArray_NDIM(as_array(x)),
                        PyArray_DIMS(as_array(x)));
}

PyObject *widened(PyObject *x) {
    ElementsArgs args = {.y_type = FLOAT32,
                         .type = FLOAT32,
                         .loop = -1,
                         .operands = 1,
                         .x[0] = {.at = data(x), .type = type_numbered(PyArray_TYPE(as_array(x)))}};
    PyObject *y = PyArray_ISALIGNED(as_array(x)) ? filled(&args, &x, COST) : NULL;
    return y || PyErr_Occurred()
             ? y
             : PyArray_CastToType(as_array(x), PyArray_DescrFromType(NPY_FLOAT), 0);
}

PyObject *narrowed_to(PyObject *x, int type) {
    if (!x || type_numbered(type) == FLOAT32)
        return x;
    ElementsArgs args = {.y_type = type_numbered(type),
                         .type = FLOAT32,
                         .loop = -1,
                         .operands = 1,
                         .x[0] = {.at = data(x), .type = FLOAT32}};
    PyObject *y = filled(&args, &x, COST);
    Py_DECREF(x);
    return y;
}

PyObject *narrowed(PyObject *x) {
    PyObject *y = new_narrow_like(x);
    if (y) {
        NarrowArgs args = {.x = data(x), .y = data(y)};
        return unless(run_narrow(&args, size(x), PIECE, COST), y);
    }
    return y;
}

/* A part of a contiguous array, as a vector. */
static PyObject *part_of(PyObject *x, ptrdiff_t begin, npy_intp count) {
    PyArray_Descr *dtype = PyArray_DESCR(as_array(x));
    Py_INCREF(dtype);
    PyObject *part = PyArray_NewFromDescr(&PyArray_Type, dtype, 1, &count, NULL,
                                          (char *)data(x) + begin * PyArray_ITEMSIZE(as_array(x)),
                                          NPY_ARRAY_WRITEABLE, NULL);
    if (part && PyArray_SetBaseObject(as_array(part), Py_NewRef(x)))
        Py_CLEAR(part);
    return part;
}

/* A new array of `dtype` with the numbers of a contiguous array of 16-bit floats, which are widened
 * in pieces that stay in the cache. */
static PyObject *piece_by_piece(PyObject *x, PyObject *dtype) {
    Py_INCREF(dtype);
    PyObject *y =
        PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)dtype, PyArray_NDIM(as_array(x)),
                             PyArray_DIMS(as_array(x)), NULL, NULL, 0, NULL);
    for (ptrdiff_t begin = 0; y && begin < size(x); begin += PIECE) {
        npy_intp count = size(x) - begin < PIECE ? size(x) - begin : PIECE;
        PyObject *source = part_of(x, begin, count), *target = part_of(y, begin, count);
        PyObject *wide = source && target ? widened(source) : NULL;
        if (!wide || PyArray_CopyInto(as_array(target), as_array(wide)))
            Py_CLEAR(y);
        Py_XDECREF(source);
        Py_XDECREF(target);
        Py_XDECREF(wide);
    }
    return y;
}

/* NumPy's kernel of 16-bit floats to other types than floats, as float32: it converts these as
 * vectors. */
static PyObject *by_float32(PyObject *const *x, PyObject *names) {
    PyObject *given[4] = {NULL};
    Py_ssize_t others = PyTuple_GET_SIZE(names);
    if (others > 3)
        return numpy_fallback(KERNEL_astype, x, 1, names);
    for (Py_ssize_t i = 0; i < others; i++)
        given[i + 1] = x[i + 1];
    if (size(x[0]) >= 2 * PIECE && PyArray_IS_C_CONTIGUOUS(as_array(x[0])))
        return piece_by_piece(x[0], attribute(x, 1, names, "dtype"));
    given[0] = widened(x[0]);
    PyObject *y = given[0] ? numpy_fallback(KERNEL_astype, given, 1, names) : NULL;
    Py_XDECREF(given[0]);
    return y;
}

/* Numbers that are not 0, from so many on: NumPy has no vectors for them. */
#define MANY_TRUTHS 1024
PyObject *truth(PyObject *x) {
    PyArray_Descr *dtype = PyArray_DESCR(as_array(x));
    Py_INCREF(dtype);
    PyObject *zero = PyArray_Zeros(0, NULL, dtype, 0);
    PyObject *y = zero ? elements(OF_NUMBERS(not_equal, not_equal_float64, 0.25), COMPARED, 0,
                                  (PyObject *const[]){x, zero}, 2)
                       : NULL;
    Py_XDECREF(zero);
    return y;
}

/* Conversions to floats, of floats, booleans and integers: through float32 or float64. */
KERNEL(astype) {
    (void)module;
    PyObject *dtype = count == 1 ? attribute(x, count, names, "dtype") : NULL;
    int to = dtype && PyArray_DescrCheck(dtype) && PyDataType_ISNOTSWAPPED((PyArray_Descr *)dtype)
               ? type_numbered(((PyArray_Descr *)dtype)->type_num)
               : -1;
    if (!dtype || !PyArray_CheckExact(x[0]) || !PyArray_ISALIGNED(as_array(x[0]))
        || !PyArray_ISNOTSWAPPED(as_array(x[0])))
        return NUMPY_FALLBACK(astype);
    int from = type_numbered(PyArray_TYPE(as_array(x[0])));
    if (to == BOOLEAN && from > BOOLEAN && size(x[0]) >= MANY_TRUTHS) {
        PyObject *y = truth(x[0]);
        return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(astype);
    }
    if ((from == FLOAT16 || from == BFLOAT16) && (to < FLOAT16 || to > FLOAT64))
        return by_float32(x, names);
    int narrow = to == FLOAT16 || to == BFLOAT16;
    if (to < FLOAT16 || to > FLOAT64 || from < 0 || (from == INT64 && !narrow) || from == to)
        return NUMPY_FALLBACK(astype);
    int wide = from == FLOAT64 || from == INT64 || (from == INT32 && !narrow) || to == FLOAT64;
    ElementsArgs args = {.y_type = to,
                         .type = wide ? FLOAT64 : FLOAT32,
                         .loop = -1,
                         .operands = 1,
                         .x[0] = {.at = data(x[0]), .type = from}};
    PyObject *y = filled(&args, x, COST);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(astype);
}
