/* Conversions between float32 and bfloat16, and elements of bfloat16. */
#include "calls.h"

/* Nanoseconds for an element. */
#define COST 0.15

static PyObject *new_narrow_like(PyObject *x) {
    return new_array_of(bfloat16, sizeof(Bfloat16), PyArray_NDIM(as_array(x)),
                        PyArray_DIMS(as_array(x)));
}

PyObject *widened(PyObject *x) {
    PyObject *y = new_like(x);
    if (y) {
        WidenArgs args = {.x = data(x), .y = data(y)};
        return unless(run_widen(&args, size(x), PIECE, COST), y);
    }
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

/* Conversions between floats: through float32, or from float64. */
KERNEL(astype) {
    (void)module;
    PyObject *dtype = count == 1 ? attribute(x, count, names, "dtype") : NULL;
    int to = dtype && PyArray_DescrCheck(dtype) && PyDataType_ISNOTSWAPPED((PyArray_Descr *)dtype)
               ? type_numbered(((PyArray_Descr *)dtype)->type_num)
               : -1;
    if (to < FLOAT16 || to > FLOAT64 || !PyArray_CheckExact(x[0])
        || !PyArray_ISALIGNED(as_array(x[0])) || !PyArray_ISNOTSWAPPED(as_array(x[0])))
        return NUMPY_FALLBACK(astype);
    int from = type_numbered(PyArray_TYPE(as_array(x[0])));
    if (from < FLOAT16 || from > FLOAT64 || from == to)
        return NUMPY_FALLBACK(astype);
    ElementsArgs args = {.y_type = to,
                         .type = from == FLOAT64 || to == FLOAT64 ? FLOAT64 : FLOAT32,
                         .loop = -1,
                         .operands = 1,
                         .x[0] = {.at = data(x[0]), .type = from}};
    PyObject *y = filled(&args, x, COST);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(astype);
}
