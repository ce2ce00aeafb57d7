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

PyObject *narrow_elements(int loop, double cost, PyObject *const *x, Py_ssize_t count) {
    if (!is_plain_bfloat16(x[0])
        || (count == 2 && !(is_plain_bfloat16(x[1]) && same_shape(x[0], x[1]))))
        return NULL;
    PyObject *y = new_narrow_like(x[0]);
    if (y) {
        NarrowElementsArgs args = {
            .x1 = data(x[0]), .x2 = count == 2 ? data(x[1]) : NULL, .y = data(y), .loop = loop};
        return unless(run_narrow_elements(&args, size(y), PIECE, cost + COST), y);
    }
    return y;
}

KERNEL(astype) {
    (void)module;
    PyObject *dtype = count == 1 ? attribute(x, count, names, "dtype") : NULL;
    if (dtype && PyArray_DescrCheck(dtype) && PyDataType_ISNOTSWAPPED((PyArray_Descr *)dtype)) {
        int type = ((PyArray_Descr *)dtype)->type_num;
        if (type == bfloat16 && is_plain(x[0]))
            return narrowed(x[0]);
        if (type == NPY_FLOAT && is_plain_bfloat16(x[0]))
            return widened(x[0]);
    }
    return NUMPY_FALLBACK(astype);
}
