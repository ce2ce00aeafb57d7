/* Kernels that move elements. */
#include "calls.h"

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
    for (ptrdiff_t i = 0; i < ids.count; i++) {
        ptrdiff_t id = index_of(&ids, i);
        if (id < -rows || id >= rows)
            return NUMPY_FALLBACK(take);
    }
    for (int i = 0; i < along; i++)
        outer *= shape[axes++] = PyArray_DIM(as_array(x[0]), i);
    for (int i = 0; i < more; i++)
        shape[axes++] = PyArray_DIM(as_array(x[1]), i);
    for (int i = along + 1; i < ndim; i++)
        inner *= shape[axes++] = PyArray_DIM(as_array(x[0]), i);
    PyObject *y = new_array(axes, shape);
    if (y) {
        TakeArgs args = {.x = data(x[0]),
                         .indices = ids.at,
                         .y = data(y),
                         .positions = ids.count,
                         .rows = rows,
                         .inner = inner,
                         .wide = ids.wide};
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

KERNEL(concat) {
    (void)module;
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

KERNEL(reshape) {
    (void)module;
    PyObject *shape = attribute(x, count, names, "shape");
    if (count != 1 || !shape || !PyTuple_CheckExact(shape) || !PyArray_CheckExact(x[0])
        || PyTuple_GET_SIZE(shape) > NPY_MAXDIMS)
        return NUMPY_FALLBACK(reshape);
    PyObject *source = NULL;
    if (!PyArray_IS_C_CONTIGUOUS(as_array(x[0]))) {
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
