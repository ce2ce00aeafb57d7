/* Kernels that choose one of two functions by their first array. They are in C because a function
 * in Python that does so takes as long as a small call, and have the mark that they may decline,
 * which functions in C cannot be given. */
#include "calls.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD vectorcallfunc call;
    PyObject *few, *many;
    Py_ssize_t least; /* of fewer elements it is `few` */
    char plain;       /* or of all arrays without gaps */
    char may_decline;
} Chosen;

static PyTypeObject *chosen_type;

static PyObject *choose(PyObject *self, PyObject *const *x, size_t given, PyObject *names) {
    const Chosen *chosen = (const Chosen *)self;
    PyObject *function = chosen->many;
    if (chosen->few && PyVectorcall_NARGS(given) && PyArray_Check(x[0])) {
        PyArrayObject *first = as_array(x[0]);
        if (PyArray_SIZE(first) < chosen->least || (chosen->plain && PyArray_ISONESEGMENT(first)))
            function = chosen->few;
    }
    return PyObject_Vectorcall(function, x, given, names);
}

/* chosen(many, few, least, plain, may_decline) */
static PyObject *make_chosen(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *many, *few;
    Py_ssize_t least;
    int plain, may_decline;
    if (!PyArg_ParseTuple(arguments, "OOnpp", &many, &few, &least, &plain, &may_decline))
        return NULL;
    Chosen *chosen = PyObject_GC_New(Chosen, chosen_type);
    if (!chosen)
        return NULL;
    chosen->call = choose;
    chosen->many = Py_NewRef(many);
    chosen->few = few == Py_None ? NULL : Py_NewRef(few);
    chosen->least = least;
    chosen->plain = (char)plain;
    chosen->may_decline = (char)may_decline;
    PyObject_GC_Track((PyObject *)chosen);
    return (PyObject *)chosen;
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
    Chosen *chosen = (Chosen *)self;
    Py_VISIT(chosen->few);
    Py_VISIT(chosen->many);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void drop(PyObject *self) {
    Chosen *chosen = (Chosen *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(chosen->few);
    Py_XDECREF(chosen->many);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Chosen, call), READONLY, NULL},
    {"may_decline", T_BOOL, offsetof(Chosen, may_decline), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, drop},
                              {Py_tp_call, PyVectorcall_Call},
                              {Py_tp_traverse, traverse},
                              {Py_tp_members, members},
                              {0, NULL}};
static PyType_Spec spec = {"pullback_native._native.Chosen", sizeof(Chosen), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC
                               | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};
static PyMethodDef methods[] = {{"chosen", make_chosen, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

int add_chosen(PyObject *module) {
    if (!chosen_type && !(chosen_type = (PyTypeObject *)PyType_FromSpec(&spec)))
        return -1;
    return PyModule_AddFunctions(module, methods);
}
