/* Kernels of sums and means, and of sums over segments. */
#include "calls.h"

/* Stores the sizes of x as (outer, n, inner) around the summed axes; false if these are not
 * neighbours, or there are none. Axes of size 1 do not count. */
static int around(PyObject *x, PyObject *axis, ptrdiff_t sizes[3]) {
    int ndim = PyArray_NDIM(as_array(x)), part = 0;
    Py_ssize_t next = 0, many = axis == Py_None ? 0 : PyTuple_GET_SIZE(axis);
    sizes[0] = sizes[1] = sizes[2] = 1;
    if (axis == Py_None) {
        sizes[1] = size(x);
        return 1;
    }
    for (int i = 0; i < ndim; i++) {
        ptrdiff_t along = PyArray_DIM(as_array(x), i);
        int summed = next < many && PyLong_AsLong(PyTuple_GET_ITEM(axis, next)) == i;
        next += summed;
        if (along == 1)
            continue;
        if (summed != (part == 1) && ++part > 2)
            return 0;
        sizes[part] *= along;
    }
    return next == many && part > 0;
}

/* A new array without the axes that are summed, or with size 1 there. */
static PyObject *new_reduced(PyObject *x, PyObject *axis, int keep) {
    npy_intp shape[NPY_MAXDIMS];
    int ndim = PyArray_NDIM(as_array(x)), axes = 0;
    Py_ssize_t next = 0, many = axis == Py_None ? 0 : PyTuple_GET_SIZE(axis);
    for (int i = 0; i < ndim; i++) {
        int summed = axis == Py_None
                  || (next < many && PyLong_AsLong(PyTuple_GET_ITEM(axis, next)) == i && ++next);
        if (!summed || keep)
            shape[axes++] = summed ? 1 : PyArray_DIM(as_array(x), i);
    }
    return new_array(axes, shape);
}

void add_sums(const double *partial, ptrdiff_t outer, ptrdiff_t pieces, ptrdiff_t inner,
              double factor, float *result) {
    for (ptrdiff_t item = 0; item < outer; item++, partial += pieces * inner)
        for (ptrdiff_t i = 0; i < inner; i++) {
            double total = partial[i];
            for (ptrdiff_t piece = 1; piece < pieces; piece++)
                total += partial[piece * inner + i];
            *result++ = (float)(total * factor);
        }
}

/* The sum of x over `axis`, or the mean; NULL without an error where NumPy has to do it. */
static PyObject *reduced(PyObject *x, PyObject *axis, PyObject *keep, int mean) {
    ptrdiff_t sizes[3];
    if (is_plain_bfloat16(x)) {
        PyObject *wide = widened(x), *sums = wide ? reduced(wide, axis, keep, mean) : NULL;
        PyObject *y = sums ? narrowed(sums) : NULL;
        Py_XDECREF(wide);
        Py_XDECREF(sums);
        return y;
    }
    if (!axis || !keep || !is_plain(x) || !size(x) || !(axis == Py_None || PyTuple_CheckExact(axis))
        || !around(x, axis, sizes))
        return NULL;
    ptrdiff_t rows = sizes[1], inner = sizes[2], width = inner < 1024 ? inner : 1024;
    ptrdiff_t grain = PIECE / width < 64 ? 64 : PIECE / width;
    ptrdiff_t pieces = (rows + grain - 1) / grain, blocks = (inner + 1023) / 1024;
    SumArgs args = {.x = data(x),
                    .rows = rows,
                    .inner = inner,
                    .piece_rows = grain,
                    .pieces = pieces,
                    .blocks = blocks,
                    .factor = mean ? 1.0 / (double)rows : 1.0};
    double *partial = NULL;
    if (pieces > 1) {
        partial = PyMem_Malloc((size_t)(sizes[0] * pieces * inner) * sizeof(double));
        if (!partial)
            return PyErr_NoMemory();
        args.partial = partial;
    }
    PyObject *y = new_reduced(x, axis, keep == Py_True);
    if (y) {
        ptrdiff_t unit = (rows < grain ? rows : grain) * width;
        args.y = data(y);
        y = unless(
            run_sum(&args, sizes[0] * pieces * blocks, 1 + PIECE / unit, 5 + 0.15 * (double)unit),
            y);
        if (y && partial)
            add_sums(partial, sizes[0], pieces, inner, args.factor, data(y));
    }
    PyMem_Free(partial);
    return y;
}

KERNEL(sum) {
    (void)module;
    if (count == 1 && attribute(x, count, names, "dtype") == Py_None) {
        PyObject *y = reduced(x[0], attribute(x, count, names, "axis"),
                              attribute(x, count, names, "keepdims"), 0);
        if (y || PyErr_Occurred())
            return y;
    }
    return NUMPY_FALLBACK(sum);
}

KERNEL(mean) {
    (void)module;
    if (count == 1) {
        PyObject *y = reduced(x[0], attribute(x, count, names, "axis"),
                              attribute(x, count, names, "keepdims"), 1);
        if (y || PyErr_Occurred())
            return y;
    }
    return NUMPY_FALLBACK(mean);
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

KERNEL(segment_sum) {
    (void)module;
    PyObject *number = attribute(x, count, names, "num_segments");
    PyObject *axis = attribute(x, count, names, "axis");
    Indices ids;
    if (count != 2 || !number || !axis || !is_plain(x[0]) || !size(x[0]) || !as_indices(x[1], &ids))
        return NUMPY_FALLBACK(segment_sum);
    int ndim = PyArray_NDIM(as_array(x[0])), summed_axes = PyArray_NDIM(as_array(x[1]));
    int along = (int)PyLong_AsLong(axis), axes = 0;
    ptrdiff_t segments = PyLong_AsSsize_t(number), outer = 1, inner = 1;
    npy_intp shape[NPY_MAXDIMS];
    if (segments < 1 || along < 0 || along + summed_axes > ndim
        || ndim - summed_axes >= NPY_MAXDIMS)
        return NUMPY_FALLBACK(segment_sum);
    if (8 * ids.count < segments) /* most segments are 0, and NumPy's kernel does not touch them */
        return NUMPY_FALLBACK(segment_sum);
    for (int i = 0; i < along; i++)
        outer *= shape[axes++] = PyArray_DIM(as_array(x[0]), i);
    shape[axes++] = segments;
    for (int i = along + summed_axes; i < ndim; i++)
        inner *= shape[axes++] = PyArray_DIM(as_array(x[0]), i);
    if (outer * ids.count * inner != size(x[0]))
        return NUMPY_FALLBACK(segment_sum);
    ptrdiff_t *order = PyMem_Malloc((size_t)(ids.count + segments + 1) * sizeof *order);
    if (!order)
        return PyErr_NoMemory();
    ptrdiff_t *begins = order + ids.count;
    PyObject *y = NULL;
    int inside = order_positions(&ids, segments, order, begins);
    if (inside && (y = new_array(axes, shape))) {
        SegmentSumArgs args = {.x = data(x[0]),
                               .order = order,
                               .begins = begins,
                               .y = data(y),
                               .positions = ids.count,
                               .segments = segments,
                               .inner = inner};
        double rows = 1 + (double)ids.count / (double)segments;
        ptrdiff_t grain = 1 + (ptrdiff_t)(PIECE / (rows * (double)inner));
        y = unless(run_segment_sum(&args, outer * segments, grain, 5 + 0.15 * rows * (double)inner),
                   y);
    }
    PyMem_Free(order);
    return inside ? y : NUMPY_FALLBACK(segment_sum);
}
