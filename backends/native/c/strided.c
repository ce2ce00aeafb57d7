/* Elementwise calls of any dtype and layout: their operands, as the loop `elements` takes them. */
#include "calls.h"

/* Nanoseconds for an element that is gathered or converted. */
#define COST 0.15

int type_numbered(int number) {
    switch (number) {
    case NPY_FLOAT:
        return FLOAT32;
    case NPY_DOUBLE:
        return FLOAT64;
    case NPY_HALF:
        return FLOAT16;
    case NPY_BOOL:
        return BOOLEAN;
    case NPY_INT32:
        return INT32;
    case NPY_INT64:
        return INT64;
    default:
        return number == bfloat16 ? BFLOAT16 : -1;
    }
}

/* A type of args.h; -1 for others, and for the other byte order. */
static int type_of(PyObject *x) {
    if (!PyArray_CheckExact(x) || !PyArray_ISALIGNED(as_array(x))
        || !PyArray_ISNOTSWAPPED(as_array(x)))
        return -1;
    return type_numbered(PyArray_TYPE(as_array(x)));
}

static PyObject *new_of_type(int type, int ndim, const npy_intp *shape) {
    const int numbers[] = {NPY_BOOL,   NPY_HALF,  bfloat16, NPY_FLOAT,
                           NPY_DOUBLE, NPY_INT32, NPY_INT64};
    return new_array_of(numbers[type], SIZE_OF(type), ndim, shape);
}

/* Operands in the making: axes of the result, the steps of each operand along them, and the order
 * of the axes in memory. */
typedef struct {
    int ndim, operands;
    npy_intp shape[NPY_MAXDIMS];
    ptrdiff_t steps[MOST_OPERANDS][NPY_MAXDIMS];
    int order[NPY_MAXDIMS];
} Layout;

/* Broadcasts the operands; false for shapes that do not fit, or for too many axes. */
static int broadcast(Layout *layout, PyObject *const *x, int operands) {
    int ndim = 0;
    for (int k = 0; k < operands; k++)
        ndim = PyArray_NDIM(as_array(x[k])) > ndim ? PyArray_NDIM(as_array(x[k])) : ndim;
    layout->ndim = ndim;
    layout->operands = operands;
    for (int axis = 0; axis < ndim; axis++) {
        npy_intp size = 1;
        for (int k = 0; k < operands; k++) {
            int own = axis - ndim + PyArray_NDIM(as_array(x[k]));
            npy_intp wide = own < 0 ? 1 : PyArray_DIM(as_array(x[k]), own);
            if (wide != 1 && size != 1 && wide != size)
                return 0;
            size = wide != 1 ? wide : size;
            layout->steps[k][axis] = own < 0 || wide == 1 ? 0 : PyArray_STRIDE(as_array(x[k]), own);
        }
        layout->shape[axis] = size;
    }
    return 1;
}

/* As NumPy orders the axes of a result: 1 if all operands that have steps along both axes have axis
 * `outer` inside `inner`, 0 if one of them has not, -1 if there is none. */
static int belong_swapped(const Layout *layout, int outer, int inner) {
    int verdict = -1;
    for (int k = 0; k < layout->operands && verdict; k++) {
        ptrdiff_t out = layout->steps[k][outer], in = layout->steps[k][inner];
        if (out && in)
            verdict = (out < 0 ? -out : out) < (in < 0 ? -in : in);
    }
    return verdict;
}

/* Sorts the axes, the outermost first. */
static void sort_axes(Layout *layout) {
    for (int axis = 0; axis < layout->ndim; axis++) {
        int place = axis, verdict = -1;
        for (int i = axis - 1; i >= 0 && verdict; i--) {
            verdict = belong_swapped(layout, layout->order[i], axis);
            place = verdict == 1 ? i : place;
        }
        for (int i = axis; i > place; i--)
            layout->order[i] = layout->order[i - 1];
        layout->order[place] = axis;
    }
}

/* Stores the axes in their order in memory, as few as there can be; false if they are too many. */
static int merge_axes(const Layout *layout, ElementsArgs *args) {
    ptrdiff_t axes = 0;
    for (int i = 0; i < layout->ndim; i++) {
        int axis = layout->order[i], merges = axes > 0;
        npy_intp size = layout->shape[axis];
        if (size == 1)
            continue;
        for (int k = 0; merges && k < layout->operands; k++)
            merges = args->x[k].steps[axes - 1] == layout->steps[k][axis] * size;
        if (!merges && axes == MOST_AXES)
            return 0;
        axes += !merges;
        args->shape[axes - 1] = merges ? args->shape[axes - 1] * size : size;
        for (int k = 0; k < layout->operands; k++)
            args->x[k].steps[axes - 1] = layout->steps[k][axis];
    }
    if (!axes) {
        args->shape[axes++] = 1;
        for (int k = 0; k < layout->operands; k++)
            args->x[k].steps[0] = 0;
    }
    args->axes = axes;
    return 1;
}

/* The result, whose axes lie in memory in the order of the layout. */
static PyObject *new_result(const Layout *layout, int type) {
    npy_intp sizes[NPY_MAXDIMS];
    int in_order = 1;
    for (int i = 0; i < layout->ndim; i++) {
        sizes[i] = layout->shape[layout->order[i]];
        in_order = in_order && layout->order[i] == i;
    }
    PyObject *y = new_of_type(type, layout->ndim, sizes);
    if (!y || in_order)
        return y;
    npy_intp steps[NPY_MAXDIMS];
    memcpy(steps, PyArray_STRIDES(as_array(y)), (size_t)layout->ndim * sizeof *steps);
    for (int i = 0; i < layout->ndim; i++) {
        PyArray_DIMS(as_array(y))[layout->order[i]] = sizes[i];
        PyArray_STRIDES(as_array(y))[layout->order[i]] = steps[i];
    }
    PyArray_UpdateFlags(as_array(y), NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS);
    return y;
}

PyObject *elements(const Family *family, int form, double number, PyObject *const *x,
                   Py_ssize_t operands) {
    ElementsArgs args = {.number = number, .form = form, .operands = operands};
    int first = form == SELECTED, type = -1;
    for (int k = 0; k < operands; k++) {
        int own = type_of(x[k]);
        if (own < 0 || (k < first ? own != BOOLEAN : own == BOOLEAN || (k > first && own != type)))
            return NULL;
        type = own;
        args.x[k].type = own;
        args.x[k].at = data(x[k]);
    }
    args.y_type = form == COMPARED ? BOOLEAN : type;
    args.type = type == FLOAT64 || type >= INT32 ? type : family->single >= 0 ? FLOAT32 : FLOAT64;
    args.loop = args.type == FLOAT32 ? family->single
              : args.type == INT32   ? family->int32
              : args.type == INT64   ? family->int64
                                     : family->wide;
    if (family->bits && (type == FLOAT16 || type == BFLOAT16))
        args.type = type, args.loop = family->bits;
    if (args.loop < 0)
        return NULL;
    return filled(&args, x, family->cost);
}

/* An array of this shape whose elements are all the one of `y`, which is released. */
static PyObject *repeated(PyObject *y, const Layout *layout) {
    npy_intp steps[NPY_MAXDIMS] = {0};
    PyArray_Descr *dtype = PyArray_DESCR(as_array(y));
    Py_INCREF(dtype);
    PyObject *view = PyArray_NewFromDescr(&PyArray_Type, dtype, layout->ndim, layout->shape, steps,
                                          data(y), 0, NULL);
    if (!view)
        Py_DECREF(y);
    else if (PyArray_SetBaseObject((PyArrayObject *)view, y))
        Py_CLEAR(view);
    return view;
}

PyObject *filled(ElementsArgs *args, PyObject *const *x, double cost) {
    Layout layout;
    if (!broadcast(&layout, x, (int)args->operands))
        return NULL;
    sort_axes(&layout);
    if (!merge_axes(&layout, args))
        return NULL;
    int all_repeated = layout.ndim > 0;
    for (int k = 0; k < args->operands; k++) {
        Operand *operand = &args->x[k];
        int is_repeated = 1, is_plain = 1;
        ptrdiff_t step = SIZE_OF(operand->type);
        for (ptrdiff_t axis = args->axes - 1; axis >= 0; axis--) {
            is_repeated = is_repeated && (!operand->steps[axis] || !args->shape[axis]);
            is_plain = is_plain && (operand->steps[axis] == step || args->shape[axis] == 1);
            step *= args->shape[axis];
        }
        operand->is_repeated = is_repeated;
        operand->is_plain = is_plain;
        all_repeated = all_repeated && is_repeated;
        cost += operand->is_plain && operand->type == args->type ? 0 : COST;
    }
    /* As in the gradient of a sum, where there is one number to compute. */
    all_repeated = all_repeated && (args->axes > 1 || args->shape[0] > 1);
    if (all_repeated)
        args->axes = args->shape[0] = 1;
    PyObject *y = all_repeated ? new_of_type((int)args->y_type, 0, NULL)
                               : new_result(&layout, (int)args->y_type);
    if (!y)
        return NULL;
    args->y = data(y);
    y = unless(run_loop(LOOP_elements, args, size(y), PIECE, cost), y);
    return y && all_repeated ? repeated(y, &layout) : y;
}
