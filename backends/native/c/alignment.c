/* The kernels of the CTC loss and its gradient. */
#include "calls.h"

/* Nanoseconds of a class and of a state in a frame. */
#define OF_CLASS 2.0
#define OF_STATE 40.0

/* For each item the number of its frames, that of its labels, and the labels; NULL where NumPy has
 * to do it, with an error set if there is no memory. */
static int64_t *about_items(PyObject *const *x, ptrdiff_t items, ptrdiff_t classes,
                            ptrdiff_t *length) {
    Indices labels, frames, counts;
    if (!as_indices(x[1], &labels) || !as_indices(x[2], &frames) || !as_indices(x[3], &counts)
        || PyArray_NDIM(as_array(x[1])) != 2 || PyArray_DIM(as_array(x[1]), 0) != items
        || frames.count != items || counts.count != items)
        return NULL;
    *length = PyArray_DIM(as_array(x[1]), 1);
    int64_t *about = PyMem_Malloc((size_t)(items * (*length + 2)) * sizeof *about), *at = about;
    if (!about)
        PyErr_NoMemory();
    for (ptrdiff_t item = 0; about && item < items; item++) {
        *at++ = index_of(&frames, item);
        *at++ = index_of(&counts, item);
        for (ptrdiff_t i = 0; i < *length; i++) {
            *at = index_of(&labels, item * *length + i);
            if (*at < 0 || *at >= classes) {
                PyMem_Free(about);
                return NULL;
            }
            at++;
        }
    }
    return about;
}

/* The losses, or where `with_slopes` their gradients; NULL without an error where NumPy has to do
 * it. */
static PyObject *aligned(int with_slopes, PyObject *const *x, Py_ssize_t count, PyObject *names) {
    if (count != (with_slopes ? 5 : 4) || !PyArray_CheckExact(x[0])
        || PyArray_NDIM(as_array(x[0])) != 3 || !PyArray_ISCARRAY_RO(as_array(x[0])) || !size(x[0]))
        return NULL;
    int type = PyArray_TYPE(as_array(x[0]));
    ptrdiff_t items = PyArray_DIM(as_array(x[0]), 0), length;
    CtcArgs args = {.logits = data(x[0]),
                    .frames = PyArray_DIM(as_array(x[0]), 1),
                    .classes = PyArray_DIM(as_array(x[0]), 2)};
    args.blank = (ptrdiff_t)ATTRIBUTE(blank);
    if (PyErr_Occurred() || args.blank < 0 || args.blank >= args.classes
        || (type != NPY_FLOAT && type != NPY_DOUBLE)
        || (with_slopes
            && (!PyArray_CheckExact(x[4]) || PyArray_TYPE(as_array(x[4])) != type
                || !PyArray_ISBEHAVED_RO(as_array(x[4])) || PyArray_NDIM(as_array(x[4])) != 1
                || size(x[4]) != items)))
        return NULL;
    int64_t *about = about_items(x, items, args.classes, &length);
    double *g = about && with_slopes ? PyMem_Malloc((size_t)items * sizeof *g) : NULL;
    PyObject *y = NULL;
    if (about && with_slopes && !g)
        PyErr_NoMemory();
    for (ptrdiff_t i = 0; g && i < items; i++) {
        const void *at = PyArray_GETPTR1(as_array(x[4]), i);
        g[i] = type == NPY_DOUBLE ? *(const double *)at : (double)*(const float *)at;
    }
    if (about && (g || !with_slopes))
        y = new_array_of(type, PyArray_ITEMSIZE(as_array(x[0])), with_slopes ? 3 : 1,
                         PyArray_DIMS(as_array(x[0])));
    if (y) {
        int32_t status = 0;
        args.about = about, args.g = g, args.length = length, args.status = &status;
        args.losses = with_slopes ? NULL : data(y), args.dx = with_slopes ? data(y) : NULL;
        double cost = (double)args.frames * (with_slopes ? 2 : 1)
                    * (OF_CLASS * (double)args.classes + OF_STATE * (double)(2 * length + 1));
        int failed = run_loop(type == NPY_DOUBLE ? LOOP_ctc_float64 : LOOP_ctc_float32, &args,
                              items, 1 + (ptrdiff_t)(1e4 / cost), 50 + cost);
        if (status)
            PyErr_NoMemory();
        y = unless(failed || status, y);
    }
    PyMem_Free(about);
    PyMem_Free(g);
    return y;
}

KERNEL(ctc_loss) {
    (void)module;
    PyObject *y = aligned(0, x, count, names);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(ctc_loss);
}

KERNEL(ctc_loss_gradient) {
    (void)module;
    PyObject *y = aligned(1, x, count, names);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(ctc_loss_gradient);
}
