/* Making fused kernels: everything about one comes from Python, as tuples of numbers. */
#include "fused.h"

#include <structmember.h>

/* Reads a tuple of at most `most` integers; their number, or -1 with an error set. */
static int integers(PyObject *from, int *to, int most) {
    Py_ssize_t count = PyTuple_Check(from) ? PyTuple_GET_SIZE(from) : most + 1;
    if (count > most) {
        PyErr_Format(PyExc_ValueError, "expected at most %d integers in a tuple", most);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        to[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(from, i));
        if (to[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return (int)count;
}

static int sizes(PyObject *from, npy_intp *to) {
    Py_ssize_t count = PyTuple_Check(from) ? PyTuple_GET_SIZE(from) : NPY_MAXDIMS + 1;
    if (count > NPY_MAXDIMS) {
        PyErr_SetString(PyExc_ValueError, "expected a shape");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        to[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(from, i));
    return PyErr_Occurred() ? -1 : (int)count;
}

static int is_register(const Fused *fused, int i) {
    return i >= 0 && i < fused->arrays + fused->outputs + fused->buffers;
}

/* True if a register is of arrays as large as the region, or of blocks of them. */
static int is_written(const Fused *fused, int i) {
    int output = i - fused->arrays;
    return is_register(fused, i) && output >= 0
        && (output >= fused->outputs || fused->output_kinds[output] <= BOOLEANS);
}

/* True if a step names what is there. */
static int is_right(const Fused *fused, const Step *step) {
    static const int operands[] = {1, 2, 2, 2, 3, 2, 1, 0};
    int right = step->code >= 0 && step->code < CODES && step->loop >= 0 && step->loop < LOOP_COUNT
             && step->row_loop < LOOP_COUNT
             && (step->code == FACTORS || is_written(fused, step->out));
    for (int k = 0; right && k < operands[step->code]; k++)
        right =
            step->in[k] < 0 ? -1 - step->in[k] < fused->numbers : is_register(fused, step->in[k]);
    return right && (step->code < OVER_ROWS || is_right_over_rows(fused, step));
}

/* Each is (code, loop, row_loop, inputs, results, epsilon). */
static int take_steps(Fused *fused, PyObject *steps) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); i++) {
        Step *step = &fused->step[fused->steps++];
        PyObject *inputs, *results;
        int out[3] = {-1, -1, -1};
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(steps, i), "iiiOOi", &step->code, &step->loop,
                              &step->row_loop, &inputs, &results, &step->epsilon)
            || integers(inputs, step->in, 4) < 0 || integers(results, out, 3) < 0)
            return -1;
        step->out = out[0], step->aside[0] = out[1], step->aside[1] = out[2];
        if (!is_right(fused, step)) {
            PyErr_SetString(PyExc_ValueError, "a step of a fused kernel names what is not there");
            return -1;
        }
    }
    return 0;
}

/* Numbers are (input, negative, constant), sums (register, factor, shape). */
static int take_numbers_and_sums(Fused *fused, PyObject *numbers, PyObject *sums) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); i++) {
        Number *number = &fused->number[fused->numbers++];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(numbers, i), "iid", &number->input,
                              &number->negative, &number->constant))
            return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sums); i++) {
        Sum *sum = &fused->sum[fused->sums++];
        PyObject *shape;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(sums, i), "idO", &sum->of, &sum->factor, &shape)
            || (sum->ndim = sizes(shape, sum->shape)) < 0)
            return -1;
    }
    return 0;
}

/* True if results, sums and numbers are of what is there, and work has a size. */
static int is_complete(const Fused *fused) {
    int complete = fused->inputs >= 0 && fused->results > 0 && fused->unit > 0 && fused->block > 0
                && fused->dtype >= 0 && fused->dtype < DTYPES
                && (fused->dtype == OF_FLOAT32 || !fused->sums) && fused->rows > 0
                && fused->inner > 0 && fused->pieces > 0 && fused->width > 0;
    int has_rows = fused->ndim > 0 && fused->dtype == OF_FLOAT32
                && fused->shape[fused->ndim - 1] == fused->width;
    for (int i = 0; i < fused->outputs; i++) {
        int kind = fused->output_kinds[i];
        complete &= kind == FLOATS || kind == BOOLEANS
                 || (has_rows && (kind == ONE_ROW || kind == ROW_NUMBERS));
    }
    for (int i = 0; i < fused->results; i++)
        complete &= fused->order[i] >= 0 && fused->order[i] < fused->outputs + fused->sums;
    for (int i = 0; i < fused->sums; i++)
        complete &= is_register(fused, fused->sum[i].of);
    for (int i = 0; i < fused->numbers; i++)
        complete &= fused->number[i].input < fused->arrays;
    return complete && fused->wide >= 0 && fused->wide <= fused->buffers;
}

static PyTypeObject *fused_type;

/* fused(fallback, bound, shape, kinds, output_kinds, (wide, buffers, dtype), order, steps, numbers,
 * sums, (outer, rows, inner, piece_rows, pieces, unit, block, width), cost). */
static PyObject *make_fused(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *fallback, *bound, *shape, *kinds, *output_kinds, *order, *steps, *numbers, *sums;
    int wide, buffers;
    Fused *fused = PyObject_New(Fused, fused_type);
    if (!fused)
        return NULL;
    memset((char *)fused + sizeof(PyObject), 0, sizeof *fused - sizeof(PyObject));
    fused->call = fused_call;
    if (!PyArg_ParseTuple(args, "OO!OOO(iii)OO!O!O!(nnnnnnnn)d", &fallback, &PyTuple_Type, &bound,
                          &shape, &kinds, &output_kinds, &wide, &buffers, &fused->dtype, &order,
                          &PyTuple_Type, &steps, &PyTuple_Type, &numbers, &PyTuple_Type, &sums,
                          &fused->outer, &fused->rows, &fused->inner, &fused->piece_rows,
                          &fused->pieces, &fused->unit, &fused->block, &fused->width, &fused->cost))
        goto failed;
    fused->fallback = Py_NewRef(fallback);
    fused->bound = Py_NewRef(bound);
    fused->wide = wide, fused->buffers = buffers;
    if (PyTuple_GET_SIZE(steps) > MOST_STEPS || PyTuple_GET_SIZE(numbers) > MOST_NUMBERS
        || PyTuple_GET_SIZE(sums) > MOST_SUMS || buffers > MOST_BUFFERS) {
        PyErr_SetString(PyExc_ValueError, "too much for a fused kernel");
        goto failed;
    }
    if ((fused->ndim = sizes(shape, fused->shape)) < 0
        || (fused->arrays = integers(kinds, fused->kinds, MOST_ARRAYS)) < 0
        || (fused->outputs =
                integers(output_kinds, fused->output_kinds, MOST_ARRAYS - fused->arrays))
               < 0
        || (fused->results = integers(order, fused->order, MOST_ARRAYS + MOST_SUMS)) < 0
        || take_numbers_and_sums(fused, numbers, sums))
        goto failed;
    fused->total = 1;
    for (int i = 0; i < fused->ndim; i++)
        fused->total *= fused->shape[i];
    fused->inputs = fused->arrays - (int)PyTuple_GET_SIZE(bound);
    if (!is_complete(fused)) {
        PyErr_SetString(PyExc_ValueError, "a fused kernel names what is not there");
        goto failed;
    }
    if (take_steps(fused, steps))
        goto failed;
    fused->item = fused->dtype == OF_FLOAT64 || fused->dtype == OF_INT64 ? 8 : 4;
    return (PyObject *)fused;
failed:
    Py_DECREF(fused);
    return NULL;
}

static void forget_fused(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((Fused *)self)->fallback);
    Py_XDECREF(((Fused *)self)->bound);
    Py_XDECREF(((Fused *)self)->when_hot);
    Py_XDECREF(((Fused *)self)->reason);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* How it runs, for who reads the graph. */
static PyObject *explain(PyObject *self, PyObject *nothing) {
    (void)nothing;
    const Fused *fused = (Fused *)self;
    if (atomic_load(&fused->compiled) || atomic_load(&fused->near))
        return PyUnicode_FromString("compiled C");
    if (fused->reason)
        return PyUnicode_FromFormat("loops over blocks: %S", fused->reason);
    return PyUnicode_FromString("loops over blocks: run too seldom so far to be compiled");
}

static PyMethodDef own_methods[] = {{"explain", explain, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyMemberDef members[] = {
    {"reason", T_OBJECT, offsetof(Fused, reason), 0, NULL},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Fused, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, forget_fused},
                              {Py_tp_call, PyVectorcall_Call},
                              {Py_tp_members, members},
                              {Py_tp_methods, own_methods},
                              {0, NULL}};
static PyType_Spec spec = {
    "pullback_native._native.Fused", sizeof(Fused), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
/* when_hot(kernel, function): calls function(kernel) once, when the kernel has run often. */
static PyObject *when_hot(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *kernel, *function;
    if (!PyArg_ParseTuple(args, "O!O", fused_type, &kernel, &function))
        return NULL;
    Py_XSETREF(((Fused *)kernel)->when_hot, Py_NewRef(function));
    Py_RETURN_NONE;
}

/* adopt(kernel, block, near): the kernel runs the Blocks at these addresses from now on; its loops
 * where they are 0. */
static PyObject *adopt(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *kernel;
    Py_ssize_t compiled, near;
    if (!PyArg_ParseTuple(args, "O!nn", fused_type, &kernel, &compiled, &near))
        return NULL;
    Fused *fused = (Fused *)kernel;
    atomic_store_explicit(&fused->luck, 0, memory_order_relaxed);
    atomic_store_explicit(&fused->compiled, (uintptr_t)compiled, memory_order_release);
    atomic_store_explicit(&fused->near, (uintptr_t)near, memory_order_release);
    Py_RETURN_NONE;
}

/* block(kernel, address, arrays, numbers, from, count): runs one block, by the loops if the address
 * is 0, on one writable array of bytes for each register; true if the compiled one left it to the
 * loops. For holding the one against the other. */
static PyObject *block(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *kernel, *arrays, *numbers;
    Py_ssize_t address, from, count;
    if (!PyArg_ParseTuple(args, "O!nO!O!nn", fused_type, &kernel, &address, &PyTuple_Type, &arrays,
                          &PyTuple_Type, &numbers, &from, &count))
        return NULL;
    const Fused *fused = (Fused *)kernel;
    char *at[MOST_REGISTERS];
    double doubles[MOST_NUMBERS];
    float singles[MOST_NUMBERS];
    int registers = fused->arrays + fused->outputs + fused->buffers;
    int right =
        PyTuple_GET_SIZE(arrays) == registers && PyTuple_GET_SIZE(numbers) == fused->numbers;
    for (int i = 0; right && i < registers; i++) {
        PyObject *one = PyTuple_GET_ITEM(arrays, i);
        int output = i - fused->arrays;
        int kind = output < 0              ? fused->kinds[i]
                 : output < fused->outputs ? fused->output_kinds[output]
                                           : FLOATS;
        int row = kind == ONE_ROW;
        right = PyArray_CheckExact(one) && PyArray_ISCARRAY(as_array(one))
             && PyArray_NBYTES(as_array(one)) >= (row ? fused->width : count) * fused->item;
        at[i] = right ? data(one) : NULL;
    }
    for (int i = 0; right && i < fused->numbers; i++) {
        doubles[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(numbers, i));
        singles[i] = (float)doubles[i];
    }
    if (!right || count < 0 || from < 0) {
        PyErr_SetString(PyExc_ValueError, "a block takes an array for each register");
        return NULL;
    }
    if (PyErr_Occurred())
        return NULL;
    Numbers all = {fused, doubles, singles};
    return PyBool_FromLong(run_block((Block)(uintptr_t)address, &all, at, from, count));
}

static PyMethodDef methods[] = {{"fused", make_fused, METH_VARARGS, NULL},
                                {"when_hot", when_hot, METH_VARARGS, NULL},
                                {"adopt", adopt, METH_VARARGS, NULL},
                                {"block", block, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};

int add_fused(PyObject *module) {
    if (!fused_type && !(fused_type = (PyTypeObject *)PyType_FromSpec(&spec)))
        return -1;
    return PyModule_AddFunctions(module, methods);
}
