/* Kernels of one number for each row, of the last axes of contiguous arrays; and of groups of
 * channels. */
#include <math.h>

#include "calls.h"

/* Elements of a row: longer ones are NumPy's kernel's, which splits them over threads. */
#define MOST_SUMMED 32768

/* The elements of a row if `axis` names the last axes of x, or all; 0 where NumPy has to do it. */
static ptrdiff_t row_width(PyObject *x, PyObject *axis, int *others) {
    if (!axis || !PyArray_CheckExact(x) || !PyArray_ISCARRAY_RO(as_array(x)) || !size(x)
        || (PyArray_TYPE(as_array(x)) != NPY_FLOAT && PyArray_TYPE(as_array(x)) != NPY_DOUBLE))
        return 0;
    int ndim = PyArray_NDIM(as_array(x)), many = ndim;
    if (axis != Py_None) {
        if (!PyTuple_CheckExact(axis))
            return 0;
        many = (int)PyTuple_GET_SIZE(axis);
        for (int i = 0; i < many; i++)
            if (PyLong_AsLong(PyTuple_GET_ITEM(axis, i)) != ndim - many + i)
                return 0;
    }
    ptrdiff_t width = 1;
    for (int i = ndim - many; i < ndim; i++)
        width *= PyArray_DIM(as_array(x), i);
    *others = ndim - many;
    return width <= MOST_SUMMED ? width : 0;
}

/* Elements of arrays that are copied so that the axes of their rows are the last ones. */
#define MOST_TURNED 4096

/* The same kernel for such a copy of x; NULL without an error where NumPy has to do it. */
static PyObject *of_turned(KernelFunction kernel, PyObject *const *x, Py_ssize_t count,
                           PyObject *names) {
    PyObject *axis = attribute(x, count, names, "axis");
    PyObject *keep = attribute(x, count, names, "keepdims"), *all[4];
    Py_ssize_t many = names ? PyTuple_GET_SIZE(names) : 0;
    if (count != 1 || !axis || !keep || many > 3 || !PyArray_CheckExact(x[0])
        || !PyArray_ISNOTSWAPPED(as_array(x[0])) || !size(x[0]) || size(x[0]) > MOST_TURNED
        || (PyArray_TYPE(as_array(x[0])) != NPY_FLOAT && PyArray_TYPE(as_array(x[0])) != NPY_DOUBLE)
        || !(axis == Py_None || PyTuple_CheckExact(axis)))
        return NULL;
    int ndim = PyArray_NDIM(as_array(x[0])), place = 0, reduced[NPY_MAXDIMS] = {0};
    npy_intp order[NPY_MAXDIMS], shape[NPY_MAXDIMS];
    Py_ssize_t along = axis == Py_None ? ndim : PyTuple_GET_SIZE(axis);
    for (Py_ssize_t i = 0; i < along; i++) {
        long one = axis == Py_None ? (long)i : PyLong_AsLong(PyTuple_GET_ITEM(axis, i));
        if (one < 0 || one >= ndim || reduced[one])
            return NULL;
        reduced[one] = 1;
    }
    if (!along)
        return NULL;
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < ndim; i++)
            if (reduced[i] == last)
                order[place++] = i;
    for (int i = 0; i < ndim; i++)
        shape[i] = reduced[i] ? 1 : PyArray_DIM(as_array(x[0]), i);
    PyArray_Dims to = {order, ndim}, kept = {shape, ndim};
    PyObject *turned = PyArray_Transpose(as_array(x[0]), &to), *axes = PyTuple_New(along);
    all[0] = turned ? PyArray_NewCopy(as_array(turned), NPY_CORDER) : NULL;
    int failed = !all[0] || !axes;
    for (Py_ssize_t i = 0; axes && i < along; i++) {
        PyObject *one = PyLong_FromSsize_t(ndim - along + i);
        failed |= !one;
        PyTuple_SET_ITEM(axes, i, one);
    }
    for (Py_ssize_t i = 0; i < many; i++)
        all[1 + i] = x[1 + i] == axis ? axes : x[1 + i] == keep ? Py_False : x[1 + i];
    PyObject *y = failed ? NULL : kernel(NULL, all, 1, names);
    if (y && keep == Py_True && PyArray_Check(y)) {
        PyObject *flat = y;
        y = PyArray_Newshape(as_array(flat), &kept, NPY_CORDER);
        Py_DECREF(flat);
    }
    Py_XDECREF(turned);
    Py_XDECREF(all[0]);
    Py_XDECREF(axes);
    return y;
}

/* True for many short rows. */
static int has_short_rows(PyObject *const *x, Py_ssize_t count, PyObject *names) {
    int others;
    ptrdiff_t width = count == 1 ? row_width(x[0], attribute(x, 1, names, "axis"), &others) : 0;
    return width && is_short(x[0], width);
}

/* What a loop has of each row; NULL without an error where NumPy has to do it. */
static PyObject *rowwise(int loop32, int loop64, RowwiseArgs *args, double cost, PyObject *const *x,
                         Py_ssize_t count, PyObject *names) {
    int others;
    PyObject *keep = attribute(x, count, names, "keepdims");
    ptrdiff_t width =
        count == 1 && keep ? row_width(x[0], attribute(x, 1, names, "axis"), &others) : 0;
    if (!width)
        return NULL;
    npy_intp shape[NPY_MAXDIMS];
    int ndim = PyArray_NDIM(as_array(x[0])), wide = PyArray_TYPE(as_array(x[0])) == NPY_DOUBLE;
    for (int i = 0; i < ndim; i++)
        shape[i] = i < others ? PyArray_DIM(as_array(x[0]), i) : 1;
    PyObject *y = new_array_of(wide ? NPY_DOUBLE : NPY_FLOAT, wide ? 8 : 4,
                               keep == Py_True ? ndim : others, shape);
    if (!y)
        return NULL;
    args->x = data(x[0]);
    args->y = data(y);
    args->width = width;
    return unless(run_loop(wide ? loop64 : loop32, args, size(x[0]) / width, 1 + PIECE / width,
                           15 + cost * (double)width),
                  y);
}

static PyObject *variance(int root, PyObject *const *x, Py_ssize_t count, PyObject *names) {
    int others;
    double correction = ATTRIBUTE(correction);
    ptrdiff_t width = count == 1 && !PyErr_Occurred()
                        ? row_width(x[0], attribute(x, 1, names, "axis"), &others)
                        : 0;
    PyErr_Clear();
    double left = (double)width - correction;
    RowwiseArgs args = {.left = left > 0 ? left : 0, .root = root};
    return width
             ? rowwise(LOOP_variance_float32, LOOP_variance_float64, &args, 0.6, x, count, names)
             : NULL;
}

#define VARIANCE(name, root)                                                                       \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        if (has_short_rows(x, count, names))                                                       \
            return NUMPY_FALLBACK(name);                                                           \
        PyObject *y = variance(root, x, count, names);                                             \
        if (!y && !PyErr_Occurred())                                                               \
            y = of_turned(kernel_##name, x, count, names);                                         \
        return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(name);                                   \
    }
VARIANCE(var, 0)
VARIANCE(std, 1)

KERNEL(logsumexp) {
    (void)module;
    if (has_short_rows(x, count, names))
        return NUMPY_FALLBACK(logsumexp);
    RowwiseArgs args = {0};
    PyObject *y =
        rowwise(LOOP_logsumexp_float32, LOOP_logsumexp_float64, &args, 1.0, x, count, names);
    if (!y && !PyErr_Occurred())
        y = of_turned(kernel_logsumexp, x, count, names);
    return y || PyErr_Occurred() ? y : NUMPY_FALLBACK(logsumexp);
}

/* True of None, and of an array of x's dtype with a number for each channel. */
static int is_for_channels(PyObject *parameter, PyObject *x, ptrdiff_t channels) {
    return parameter == Py_None
        || (PyArray_CheckExact(parameter) && PyArray_ISCARRAY_RO(as_array(parameter))
            && PyArray_TYPE(as_array(parameter)) == PyArray_TYPE(as_array(x))
            && size(parameter) == channels);
}

/* What both kernels of groups of channels ask for: items, channels, groups and epsilon. */
typedef struct {
    ptrdiff_t items, channels, groups;
    double epsilon;
} Groups;

/* 0 where NumPy has to do it, and with an error set. */
static int are_groups(PyObject *const *x, Py_ssize_t count, PyObject *names, Groups *found) {
    PyObject *wanted = attribute(x, count, names, "groups");
    PyObject *axis = attribute(x, count, names, "axis");
    if (count != 3 || !wanted || !axis || !PyArray_CheckExact(x[0])
        || !PyArray_ISCARRAY_RO(as_array(x[0])) || PyArray_NDIM(as_array(x[0])) < 2 || !size(x[0])
        || (PyArray_TYPE(as_array(x[0])) != NPY_FLOAT
            && PyArray_TYPE(as_array(x[0])) != NPY_DOUBLE))
        return 0;
    int ndim = PyArray_NDIM(as_array(x[0]));
    found->items = PyArray_DIM(as_array(x[0]), 0);
    found->channels = PyArray_DIM(as_array(x[0]), ndim - 1);
    found->groups = PyLong_AsSsize_t(wanted);
    found->epsilon = ATTRIBUTE(epsilon);
    return !PyErr_Occurred() && PyLong_AsLong(axis) == ndim - 1 && found->channels <= MOST_CHANNELS
        && found->groups >= 1 && found->channels % found->groups == 0
        && is_for_channels(x[1], x[0], found->channels);
}

static PyObject *like(PyObject *x) {
    return new_array_of(PyArray_TYPE(as_array(x)), PyArray_ITEMSIZE(as_array(x)),
                        PyArray_NDIM(as_array(x)), PyArray_DIMS(as_array(x)));
}

KERNEL(group_norm) {
    (void)module;
    Groups of;
    int fits = are_groups(x, count, names, &of) && is_for_channels(x[2], x[0], of.channels);
    if (!fits)
        return PyErr_Occurred() ? NULL : NUMPY_FALLBACK(group_norm);
    PyObject *y = like(x[0]);
    if (!y)
        return NULL;
    ptrdiff_t each = size(x[0]) / of.items;
    GroupNormArgs args = {.x = data(x[0]),
                          .scale = x[1] == Py_None ? NULL : data(x[1]),
                          .offset = x[2] == Py_None ? NULL : data(x[2]),
                          .y = data(y),
                          .pixels = each / of.channels,
                          .channels = of.channels,
                          .groups = of.groups,
                          .epsilon = of.epsilon};
    int wide = PyArray_TYPE(as_array(x[0])) == NPY_DOUBLE;
    return unless(run_loop(wide ? LOOP_group_norm_float64 : LOOP_group_norm_float32, &args,
                           of.items, 1 + PIECE / each, 30 + 0.8 * (double)each),
                  y);
}

/* The sums over items: of one row of `sums` of each. */
static PyObject *over_items(PyObject *x, const Groups *of, const double *sums) {
    npy_intp shape[] = {of->channels};
    int wide = PyArray_TYPE(as_array(x)) == NPY_DOUBLE;
    PyObject *totals =
        new_array_of(PyArray_TYPE(as_array(x)), PyArray_ITEMSIZE(as_array(x)), 1, shape);
    for (ptrdiff_t c = 0; totals && c < of->channels; c++) {
        double total = 0.0;
        for (ptrdiff_t item = 0; item < of->items; item++)
            total += sums[2 * item * of->channels + c];
        if (wide)
            ((double *)data(totals))[c] = total;
        else
            ((float *)data(totals))[c] = (float)total;
    }
    return totals;
}

KERNEL(group_norm_gradient) {
    (void)module;
    Groups of;
    int fits = are_groups(x, count, names, &of) && PyArray_CheckExact(x[2])
            && PyArray_ISCARRAY_RO(as_array(x[2]))
            && PyArray_TYPE(as_array(x[2])) == PyArray_TYPE(as_array(x[0]))
            && same_shape(x[2], x[0]);
    if (!fits)
        return PyErr_Occurred() ? NULL : NUMPY_FALLBACK(group_norm_gradient);
    PyObject *dx = like(x[0]), *dscale = NULL, *doffset = NULL;
    double *sums = dx ? PyMem_Malloc((size_t)(2 * of.items * of.channels) * sizeof *sums) : NULL;
    if (sums) {
        ptrdiff_t each = size(x[0]) / of.items;
        GroupNormGradientArgs args = {.x = data(x[0]),
                                      .scale = x[1] == Py_None ? NULL : data(x[1]),
                                      .g = data(x[2]),
                                      .dx = data(dx),
                                      .sums = sums,
                                      .pixels = each / of.channels,
                                      .channels = of.channels,
                                      .groups = of.groups,
                                      .epsilon = of.epsilon};
        int wide = PyArray_TYPE(as_array(x[0])) == NPY_DOUBLE;
        if (!run_loop(wide ? LOOP_group_norm_gradient_float64 : LOOP_group_norm_gradient_float32,
                      &args, of.items, 1 + PIECE / each, 40 + 1.5 * (double)each)) {
            dscale = over_items(x[0], &of, sums + of.channels);
            doffset = over_items(x[0], &of, sums);
        }
    } else if (dx) {
        PyErr_NoMemory();
    }
    PyMem_Free(sums);
    return triple(dx, dscale, doffset);
}
