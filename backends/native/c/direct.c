/* Calls of captured functions whose program is a few kernels, without Python between them.
 *
 * What a call depends on is compared here. Where anything is not what it was when the program was
 * made, or a kernel raises, the program's own code does the call from its beginning: such programs
 * change nothing, so that nobody sees that some of it has been done before. */
#include "calls.h"

#include <stddef.h>
#include <structmember.h>

#define MOST 24 /* arrays of a program, inputs of a call, arguments */
#define MOST_AXES 8
/* Calls in turn whose kernels ran in vain: the program's code runs them again, and later ones. */
#define MOST_LOST 8

/* An argument of the call: a tensor, the same object as an earlier one, or an object. */
typedef struct {
    enum { TENSOR, SAME, OBJECT } kind;
    int place; /* of its array, or of the earlier argument */
    int axes;
    npy_intp shape[MOST_AXES];
    PyObject *value, *dtype; /* the device, or the object; the dtype */
} Expected;

/* Something outside that is to be the same object as it was. */
typedef struct {
    enum { CODE, ITEM, ATTRIBUTE, ABSENT } kind;
    PyObject *owner, *key, *value;
} Outside;

/* A variable or a tensor outside whose array is read. */
typedef struct {
    int place;
    PyObject *owner;
} State;

typedef struct {
    PyObject *kernel, *names;
    int positional, count, results, first, releases;
    int listed;                         /* so many operands are a list, the only input; or -1 */
    int operands[MOST], released[MOST]; /* places of arrays; below 0 those of constants */
} Step;

typedef struct {
    PyObject_HEAD vectorcallfunc call;
    PyObject *run;   /* the program's own code */
    PyObject *known; /* the settings that it is made for */
    PyObject *parts; /* keeps alive all that the rest refers to */
    PyObject *device, *constants;
    int arguments, outsides, states, steps, places, results, lost;
    enum { ONE, TUPLE, CONSTANT } kind; /* of the result */
    int *result;                        /* the places of the results */
    Expected *expected;
    Outside *outside;
    State *state;
    Step *step;
} Direct;

static PyTypeObject *direct_type, *tensor_type;
/* Of the framework: what counts tapes, the settings, and the node of results while tapes record. */
static PyObject *recording, *settings, *recorded_node, *zero;
static Py_ssize_t array_at, device_at, base_at, node_at, count_at, now_at, known_now_at;

static PyObject **slot(PyObject *object, Py_ssize_t offset) {
    return (PyObject **)((char *)object + offset);
}

static int is_quiet(void) {
    return *slot(recording, count_at) == zero; /* small numbers are one object each */
}

/* False, maybe with an error set, if something outside is another object. */
static int is_as_before(const Outside *outside) {
    PyObject *now;
    switch (outside->kind) {
    case CODE:
        return PyFunction_GET_CODE(outside->owner) == outside->value;
    case ITEM:
        return PyDict_GetItemWithError(outside->owner, outside->key) == outside->value;
    case ABSENT:
        return PyDict_Contains(outside->owner, outside->key) == 0;
    default:
        now = PyObject_GetAttr(outside->owner, outside->key);
        Py_XDECREF(now);
        return now == outside->value;
    }
}

/* Takes the array of an argument; false if the program is not for this one. */
static int take(const Expected *expected, PyObject *const *x, int i, PyObject **arrays) {
    if (expected->kind != TENSOR)
        return x[i] == (expected->kind == SAME ? x[expected->place] : expected->value);
    if (Py_TYPE(x[i]) != tensor_type || *slot(x[i], device_at) != expected->value)
        return 0;
    PyObject *array = *slot(x[i], array_at);
    if (!array || !PyArray_CheckExact(array) || PyArray_NDIM(as_array(array)) != expected->axes
        || (PyObject *)PyArray_DESCR(as_array(array)) != expected->dtype)
        return 0;
    for (int axis = 0; axis < expected->axes; axis++)
        if (PyArray_DIM(as_array(array), axis) != expected->shape[axis])
            return 0;
    for (int j = 0; j < i; j++) /* two tensors of the program are not one */
        if (x[j] == x[i])
            return 0;
    arrays[expected->place] = Py_NewRef(array);
    return 1;
}

static PyObject *array_in(const Direct *direct, PyObject **arrays, int place) {
    return place < 0 ? PyTuple_GET_ITEM(direct->constants, -1 - place) : arrays[place];
}

/* A call from Python has references of its own up to Python 3.13, which kept.c counts: an array of
 * which there is one more is somebody else's too. */
#if PY_VERSION_HEX >= 0x030E0000
#define hold(x, count) (void)0
#define unhold(x, count) (void)0
#else
static void hold(PyObject *const *x, int count) {
    for (int i = 0; i < count; i++)
        Py_INCREF(x[i]);
}

static void unhold(PyObject *const *x, int count) {
    for (int i = 0; i < count; i++)
        Py_DECREF(x[i]);
}
#endif

/* Calls a kernel; there is room before its operands. */
static PyObject *call(const Step *step, PyObject **x) {
    if (step->listed < 0)
        return PyObject_Vectorcall(step->kernel, x,
                                   (size_t)step->positional | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                   step->names);
    PyObject *list = PyList_New(step->listed);
    if (!list)
        return NULL;
    for (int i = 0; i < step->listed; i++)
        PyList_SET_ITEM(list, i, Py_NewRef(x[i]));
    PyObject **from = x + step->listed - 1, *before = *from;
    *from = list;
    PyObject *y = PyObject_Vectorcall(step->kernel, from, 1, step->names);
    *from = before;
    Py_DECREF(list);
    return y;
}

/* Makes a call of a kernel; false if it raises, or gives something else than arrays. */
static int make(const Direct *direct, const Step *step, PyObject **arrays) {
    PyObject *operands[MOST + 1] = {NULL};
    for (int i = 0; i < step->count; i++)
        if (!(operands[i + 1] = array_in(direct, arrays, step->operands[i])))
            return 0;
    hold(operands + 1, step->count);
    PyObject *y = call(step, operands + 1);
    unhold(operands + 1, step->count);
    if (!y)
        return 0;
    if (step->results == 1) {
        arrays[step->first] = y;
    } else {
        int fits = PyTuple_CheckExact(y) && PyTuple_GET_SIZE(y) == step->results;
        for (int i = 0; fits && i < step->results; i++)
            arrays[step->first + i] = Py_NewRef(PyTuple_GET_ITEM(y, i));
        Py_DECREF(y);
        if (!fits)
            return 0;
    }
    for (int i = 0; i < step->releases; i++)
        Py_CLEAR(arrays[step->released[i]]);
    return 1;
}

static PyObject *tensor_of(const Direct *direct, PyObject *array) {
    PyObject *tensor = array ? tensor_type->tp_alloc(tensor_type, 0) : NULL;
    if (!tensor)
        return NULL;
    *slot(tensor, array_at) = Py_NewRef(array);
    *slot(tensor, device_at) = Py_NewRef(direct->device);
    *slot(tensor, base_at) = Py_NewRef(Py_None);
    *slot(tensor, node_at) = Py_NewRef(is_quiet() ? Py_None : recorded_node);
    return tensor;
}

static PyObject *result_of(const Direct *direct, PyObject **arrays) {
    if (direct->kind == CONSTANT)
        return Py_NewRef(array_in(direct, arrays, direct->result[0]));
    if (direct->kind == ONE)
        return tensor_of(direct, array_in(direct, arrays, direct->result[0]));
    PyObject *all = PyTuple_New(direct->results);
    for (int i = 0; all && i < direct->results; i++) {
        PyObject *one = tensor_of(direct, array_in(direct, arrays, direct->result[i]));
        if (!one) {
            Py_CLEAR(all);
            break;
        }
        PyTuple_SET_ITEM(all, i, one);
    }
    return all;
}

/* The result; NULL without an error for a call that the program's own code is to do. */
static PyObject *attempt(Direct *direct, PyObject *const *x, PyObject **arrays) {
    if (!is_quiet() || *slot(settings, now_at) != *slot(direct->known, known_now_at))
        return NULL;
    for (int i = 0; i < direct->arguments; i++)
        if (!take(direct->expected + i, x, i, arrays))
            return NULL;
    for (int i = 0; i < direct->outsides; i++)
        if (!is_as_before(direct->outside + i))
            return NULL;
    for (int i = 0; i < direct->states; i++) {
        const State *state = direct->state + i;
        arrays[state->place] = PyObject_GetAttr(state->owner, array_name);
        if (!arrays[state->place])
            return NULL;
    }
    direct->lost += direct->steps > 0;
    for (int i = 0; i < direct->steps; i++)
        if (!make(direct, direct->step + i, arrays))
            return NULL;
    PyObject *y = result_of(direct, arrays);
    direct->lost = y ? 0 : direct->lost;
    return y;
}

static PyObject *direct_call(PyObject *self, PyObject *const *x, size_t flags, PyObject *names) {
    Direct *direct = (Direct *)self;
    PyObject *arrays[MOST] = {NULL}, *y = NULL;
    Py_INCREF(self); /* while a kernel runs, the function may get something else to call */
    if (!names && PyVectorcall_NARGS(flags) == direct->arguments && direct->lost < MOST_LOST) {
        y = attempt(direct, x, arrays);
        for (int i = 0; i < direct->places; i++)
            Py_XDECREF(arrays[i]);
    }
    if (!direct->run)
        PyErr_SetString(PyExc_RuntimeError, "the function has been collected");
    else if (!y && (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception))) {
        PyErr_Clear();
        y = PyObject_Vectorcall(direct->run, x, flags, names);
    }
    Py_DECREF(self);
    return y;
}

/* Making one ------------------------------------------------------------------------------------
 */

static int read_expected(Expected *expected, PyObject *from) {
    PyObject *shape;
    if (!PyArg_ParseTuple(from, "iiOO!O", &expected->kind, &expected->place, &expected->value,
                          &PyTuple_Type, &shape, &expected->dtype))
        return 0;
    expected->axes = (int)PyTuple_GET_SIZE(shape);
    for (int i = 0; i < expected->axes; i++)
        expected->shape[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
    return !PyErr_Occurred();
}

static int read_outside(Outside *outside, PyObject *from) {
    return PyArg_ParseTuple(from, "iOOO", &outside->kind, &outside->owner, &outside->key,
                            &outside->value);
}

static int read_state(State *state, PyObject *from) {
    return PyArg_ParseTuple(from, "iO", &state->place, &state->owner);
}

static int read_places(int *places, PyObject *from) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(from); i++)
        places[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(from, i));
    return !PyErr_Occurred();
}

static int read_step(Step *step, PyObject *from) {
    PyObject *operands, *released;
    if (!PyArg_ParseTuple(from, "OO!OiiO!i", &step->kernel, &PyTuple_Type, &operands, &step->names,
                          &step->first, &step->results, &PyTuple_Type, &released, &step->listed))
        return 0;
    step->count = (int)PyTuple_GET_SIZE(operands);
    step->releases = (int)PyTuple_GET_SIZE(released);
    step->positional = step->count;
    if (step->names == Py_None)
        step->names = NULL;
    else
        step->positional -= (int)PyTuple_GET_SIZE(step->names);
    return read_places(step->operands, operands) && read_places(step->released, released);
}

/* Where an object has the attribute of a slot; -1 with an error set. */
static Py_ssize_t offset_of(PyTypeObject *type, const char *name) {
    PyObject *found = PyObject_GetAttrString((PyObject *)type, name);
    Py_ssize_t offset = -1;
    if (found && Py_TYPE(found) == &PyMemberDescr_Type)
        offset = ((PyMemberDescrObject *)found)->d_member->offset;
    else if (found)
        PyErr_Format(PyExc_TypeError, "'%s' of %R is not a slot", name, type);
    Py_XDECREF(found);
    return offset;
}

/* Takes what the framework has once in a process. */
static int know(PyTypeObject *tensor, PyObject *counts, PyObject *sets, PyObject *node,
                PyObject *known) {
    if (tensor == tensor_type)
        return 1;
    array_at = offset_of(tensor, "_array");
    device_at = offset_of(tensor, "_device");
    base_at = offset_of(tensor, "_base");
    node_at = offset_of(tensor, "_node");
    count_at = offset_of(Py_TYPE(counts), "count");
    now_at = offset_of(Py_TYPE(sets), "now");
    known_now_at = offset_of(Py_TYPE(known), "now");
    if (PyErr_Occurred())
        return 0;
    recording = Py_NewRef(counts);
    settings = Py_NewRef(sets);
    recorded_node = Py_NewRef(node);
    tensor_type = (PyTypeObject *)Py_NewRef(tensor);
    return 1;
}

/* Reads a table whose items are tuples; its length, or -1 with an error set. */
#define READ_TABLE(Type, name)                                                                     \
    static int name##_table(Type **table, PyObject *from) {                                        \
        Py_ssize_t count = PyTuple_GET_SIZE(from);                                                 \
        *table = PyMem_Calloc((size_t)count + 1, sizeof(Type));                                    \
        if (!*table)                                                                               \
            return PyErr_NoMemory(), -1;                                                           \
        for (Py_ssize_t i = 0; i < count; i++)                                                     \
            if (!name(*table + i, PyTuple_GET_ITEM(from, i)))                                      \
                return -1;                                                                         \
        return (int)count;                                                                         \
    }
READ_TABLE(Expected, read_expected)
READ_TABLE(Outside, read_outside)
READ_TABLE(State, read_state)
READ_TABLE(Step, read_step)

/* direct(program): a `DirectProgram` as something to call. */
static PyObject *make_direct(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *run, *known, *device, *constants, *expected, *outside, *states, *steps, *results;
    PyObject *counts, *sets, *node;
    PyTypeObject *tensor;
    int places, kind;
    if (!PyArg_ParseTuple(args, "O(O!OOO)OOO!iO!O!O!O!O!i", &run, &PyType_Type, &tensor, &counts,
                          &sets, &node, &known, &device, &PyTuple_Type, &constants, &places,
                          &PyTuple_Type, &expected, &PyTuple_Type, &outside, &PyTuple_Type, &states,
                          &PyTuple_Type, &steps, &PyTuple_Type, &results, &kind)
        || !know(tensor, counts, sets, node, known))
        return NULL;
    Direct *direct = (Direct *)direct_type->tp_alloc(direct_type, 0);
    if (!direct)
        return NULL;
    direct->call = direct_call;
    direct->run = Py_NewRef(run);
    direct->known = Py_NewRef(known);
    direct->parts = Py_NewRef(args);
    direct->device = device;
    direct->constants = constants;
    direct->places = places;
    direct->kind = kind;
    direct->results = (int)PyTuple_GET_SIZE(results);
    direct->result = PyMem_Calloc((size_t)direct->results + 1, sizeof(int));
    direct->arguments = read_expected_table(&direct->expected, expected);
    if (direct->arguments >= 0)
        direct->outsides = read_outside_table(&direct->outside, outside);
    if (direct->outsides >= 0)
        direct->states = read_state_table(&direct->state, states);
    if (direct->states >= 0)
        direct->steps = read_step_table(&direct->step, steps);
    if (!PyErr_Occurred() && !direct->result)
        PyErr_NoMemory();
    if (PyErr_Occurred() || !read_places(direct->result, results))
        Py_CLEAR(direct);
    return (PyObject *)direct;
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
    Direct *direct = (Direct *)self;
    Py_VISIT(direct->run);
    Py_VISIT(direct->known);
    Py_VISIT(direct->parts);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int clear(PyObject *self) {
    Direct *direct = (Direct *)self;
    /* What remains after it has no arguments that it would fit. */
    direct->arguments = -1;
    Py_CLEAR(direct->run);
    Py_CLEAR(direct->known);
    Py_CLEAR(direct->parts);
    return 0;
}

static void drop(PyObject *self) {
    Direct *direct = (Direct *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear(self);
    PyMem_Free(direct->result);
    PyMem_Free(direct->expected);
    PyMem_Free(direct->outside);
    PyMem_Free(direct->state);
    PyMem_Free(direct->step);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Direct, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, drop},      {Py_tp_call, PyVectorcall_Call},
                              {Py_tp_traverse, traverse}, {Py_tp_clear, clear},
                              {Py_tp_members, members},   {0, NULL}};
static PyType_Spec spec = {"pullback_native._native.Direct", sizeof(Direct), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC
                               | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};
static PyMethodDef methods[] = {{"direct", make_direct, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

int add_direct(PyObject *module) {
    if (!zero && !(zero = PyLong_FromLong(0)))
        return -1;
    if (!direct_type && !(direct_type = (PyTypeObject *)PyType_FromSpec(&spec)))
        return -1;
    return PyModule_AddFunctions(module, methods);
}
