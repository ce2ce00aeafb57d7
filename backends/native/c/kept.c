/* Strips of the weights of a program that reads them only, kept from one call to the next.
 *
 * They are of an array by its identity, and nobody may write into that array unseen:
 * - It is a variable's, and at the moment of the copy nobody else has a reference to it. What the
 *   variable hands out later is read-only.
 * - As long as there are strips, there is a reference to it: so its address is not that of another
 *   array, and no update in place by others writes into it.
 * - The updates in place of this pack (updates.c) drop the strips of what they write. */
#include "calls.h"

#include <stddef.h>
#include <structmember.h>

/* Strips are made when an array has been seen so often, for it may change all the time. */
#define OFTEN 3
/* The references to the array of a variable while a kernel is called with it: those of the
 * variable, of the program, and, up to Python 3.13, of the call. */
#if PY_VERSION_HEX >= 0x030E0000
#define OWN_REFERENCES 2
#else
#define OWN_REFERENCES 3
#endif
#define MOST_INPUTS 16

/* A kernel of a call whose x[1] is the array of `owner`. */
typedef struct Kept {
    PyObject_HEAD vectorcallfunc call;
    PyObject *kernel, *by_strips, *owner;
    PyObject *seen; /* a weak reference to the array of the last calls, or NULL */
    int calls;
    PyObject *strips, *array; /* the strips and what they are of, or NULL */
    const Loop *loops;        /* that made the strips */
    struct Kept *previous, *next;
} Kept;

/* All there are. The GIL guards them. */
static Kept *first;

static int refers_to(PyObject *weak, PyObject *array) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *target = NULL;
    int same = weak && PyWeakref_GetRef(weak, &target) == 1 && target == array;
    Py_XDECREF(target);
    return same;
#else
    return weak && PyWeakref_GetObject(weak) == array;
#endif
}

static void forget(Kept *kept) {
    kept->calls = 0;
    Py_CLEAR(kept->strips);
    Py_CLEAR(kept->array);
}

void forget_strips(PyObject *array) {
    for (Kept *kept = first; kept; kept = kept->next)
        if (refers_to(kept->seen, array))
            forget(kept);
}

/* True if nobody but the owner, the program and these strips has the array. */
static int has_its_own(const Kept *kept, PyObject *array) {
    PyObject *now = PyObject_GetAttr(kept->owner, array_name);
    int same = now == array;
    PyErr_Clear();
    Py_XDECREF(now);
    return same && is_owners_alone(array, OWN_REFERENCES);
}

/* Copies an array, its last axis as columns; without memory there are no strips. */
static void make_strips(Kept *kept, PyObject *array) {
    npy_intp columns = PyArray_DIM(as_array(array), PyArray_NDIM(as_array(array)) - 1);
    npy_intp inner = size(array) / columns, room = STRIPS_ROOM(inner, columns);
    kept->strips = new_array(1, &room);
    if (!kept->strips) {
        PyErr_Clear();
        return;
    }
    kept->array = Py_NewRef(array);
    kept->loops = loops;
    PackStripsArgs args = {
        .b = data(array), .strips = data(kept->strips), .inner = inner, .columns = columns};
    loops[LOOP_pack_strips](0, columns, &args);
}

/* Takes the strips that another call of a program, or another program, has of the array. */
static void share_strips(Kept *kept, PyObject *array) {
    for (const Kept *other = first; other && !kept->strips; other = other->next)
        if (other->array == array && other->loops == loops) {
            kept->strips = Py_NewRef(other->strips);
            kept->array = Py_NewRef(array);
            kept->loops = loops;
        }
}

/* The strips of an array, which the caller owns; NULL if there are none. */
static PyObject *strips_of(Kept *kept, PyObject *array) {
    if (!refers_to(kept->seen, array) || (kept->strips && kept->loops != loops)) {
        forget(kept);
        Py_XSETREF(kept->seen, PyWeakref_NewRef(array, NULL));
        PyErr_Clear();
    }
    if (!kept->strips && ++kept->calls >= OFTEN && is_plain(array) && size(array)) {
        kept->calls = OFTEN;
        share_strips(kept, array);
        if (!kept->strips && has_its_own(kept, array))
            make_strips(kept, array);
    }
    return Py_XNewRef(kept->strips);
}

static PyObject *kept_call(PyObject *self, PyObject *const *x, size_t flags, PyObject *names) {
    Kept *kept = (Kept *)self;
    Py_ssize_t count = PyVectorcall_NARGS(flags),
               all = count + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject *strips = count > 1 && all < MOST_INPUTS ? strips_of(kept, x[1]) : NULL;
    if (!strips)
        return PyObject_Vectorcall(kept->kernel, x, flags, names);
    PyObject *with_strips[MOST_INPUTS] = {strips};
    memcpy(with_strips + 1, x, (size_t)all * sizeof *x);
    PyObject *y = PyObject_Vectorcall(kept->by_strips, with_strips, (size_t)count + 1, names);
    Py_DECREF(strips);
    return y;
}

static PyTypeObject *kept_type;

/* kept(kernel, by_strips, owner). */
static PyObject *make_kept(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *kernel, *by_strips, *owner;
    if (!PyArg_ParseTuple(args, "OOO", &kernel, &by_strips, &owner))
        return NULL;
    Kept *kept = PyObject_New(Kept, kept_type);
    if (!kept)
        return NULL;
    memset((char *)kept + sizeof(PyObject), 0, sizeof *kept - sizeof(PyObject));
    kept->call = kept_call;
    kept->kernel = Py_NewRef(kernel);
    kept->by_strips = Py_NewRef(by_strips);
    kept->owner = Py_NewRef(owner);
    kept->next = first;
    if (first)
        first->previous = kept;
    first = kept;
    return (PyObject *)kept;
}

static void drop_kept(PyObject *self) {
    Kept *kept = (Kept *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (kept->next)
        kept->next->previous = kept->previous;
    if (kept->previous)
        kept->previous->next = kept->next;
    else
        first = kept->next;
    Py_XDECREF(kept->kernel);
    Py_XDECREF(kept->by_strips);
    Py_XDECREF(kept->owner);
    Py_XDECREF(kept->seen);
    forget(kept);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* kept_strips(): a list of all strips that are kept. */
static PyObject *kept_strips(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    PyObject *all = PyList_New(0);
    for (const Kept *kept = first; all && kept; kept = kept->next)
        if (kept->strips && PyList_Append(all, kept->strips))
            Py_CLEAR(all);
    return all;
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Kept, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, drop_kept},
                              {Py_tp_call, PyVectorcall_Call},
                              {Py_tp_members, members},
                              {0, NULL}};
static PyType_Spec spec = {
    "pullback_native._native.Kept", sizeof(Kept), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
static PyMethodDef methods[] = {{"kept", make_kept, METH_VARARGS, NULL},
                                {"kept_strips", kept_strips, METH_NOARGS, NULL},
                                {NULL, NULL, 0, NULL}};

int add_kept(PyObject *module) {
    if (!kept_type && !(kept_type = (PyTypeObject *)PyType_FromSpec(&spec)))
        return -1;
    return PyModule_AddFunctions(module, methods);
}
