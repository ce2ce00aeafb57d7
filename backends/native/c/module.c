/* The module: the kernels in C, and loops for kernels written in Python. */
#define PULLBACK_MODULE
#include "calls.h"
#include "pool.h"

const Loop *loops = loops_base;
int bfloat16 = -1;
PyObject *array_name;

static PyObject *fallbacks[KERNEL_COUNT];
static PyObject *thread_count;

PyObject *numpy_fallback(int kernel, PyObject *const *x, Py_ssize_t count, PyObject *names) {
    if (!fallbacks[kernel]) {
        PyErr_SetString(
            PyExc_RuntimeError,
            "pullback_native has no kernels of NumPy to fall back to; call _native.prepare");
        return NULL;
    }
    return PyObject_Vectorcall(fallbacks[kernel], x, (size_t)count, names);
}

/* NULL without an error if all arrays are contiguous. */
static PyObject *plain_again(KernelFunction kernel, PyObject *const *x, Py_ssize_t count,
                             PyObject *names) {
    PyObject *plain[12];
    Py_ssize_t all = count + (names ? PyTuple_GET_SIZE(names) : 0);
    int any = 0;
    if (all > 12)
        return NULL;
    for (Py_ssize_t i = 0; i < all; i++) {
        int is_odd = i < count && PyArray_CheckExact(x[i])
                  && (PyArray_TYPE(as_array(x[i])) == NPY_FLOAT
                      || PyArray_TYPE(as_array(x[i])) == NPY_DOUBLE)
                  && !PyArray_ISCARRAY_RO(as_array(x[i]));
        any |= is_odd;
        plain[i] = is_odd ? PyArray_NewCopy(as_array(x[i]), NPY_CORDER) : Py_NewRef(x[i]);
        if (!plain[i]) {
            while (i--)
                Py_DECREF(plain[i]);
            return NULL;
        }
    }
    PyObject *y = any ? kernel(NULL, plain, count, names) : NULL;
    for (Py_ssize_t i = 0; i < all; i++)
        Py_DECREF(plain[i]);
    return y;
}

PyObject *plain_or_numpy(KernelFunction kernel, int number, PyObject *const *x, Py_ssize_t count,
                         PyObject *names) {
    PyObject *y = plain_again(kernel, x, count, names);
    return y || PyErr_Occurred() ? y : numpy_fallback(number, x, count, names);
}

PyObject *attribute(PyObject *const *x, Py_ssize_t count, PyObject *names, const char *name) {
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++)
        if (!PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), name))
            return x[count + i];
    return NULL;
}

/* The number of threads that NumPy's kernels would use here: 1 inside work that is already split;
 * -1 with an error set. */
static int threads_here(void) {
    PyObject *answer = thread_count ? PyObject_CallNoArgs(thread_count) : PyLong_FromLong(1);
    int overflow, failed = !answer;
    long threads = answer ? PyLong_AsLongAndOverflow(answer, &overflow) : 1;
    failed = failed || (threads == -1 && PyErr_Occurred());
    Py_XDECREF(answer);
    if (failed)
        return -1;
    return threads < 1 ? 1 : threads > POOL_MOST ? POOL_MOST : (int)threads;
}

/* Nanoseconds of work from which on it pays to wake a second thread, and to use a thread that is
 * awake. */
#define WORTH_A_THREAD 6e4
#define WORTH_AN_AWAKE_ONE 1.5e4

int threads_for(double cost) {
    return cost < (pool_awake() ? WORTH_AN_AWAKE_ONE : WORTH_A_THREAD) ? 1 : threads_here();
}

int run_loop(int loop, const void *args, ptrdiff_t count, ptrdiff_t grain, double cost) {
    double time = (double)count * cost;
    if (time < WORTH_THE_LOCK && count <= grain) {
        loops[loop](0, count, args);
        return 0;
    }
    int threads = threads_for(time);
    if (threads < 0)
        return -1;
    Py_BEGIN_ALLOW_THREADS pool_run(loops[loop], args, count, grain, threads);
    Py_END_ALLOW_THREADS return 0;
}

/* In run.c, fused_make.c, kept.c, direct.c and chosen.c. */
PyObject *run_by_name(PyObject *module, PyObject *const *x, Py_ssize_t given, PyObject *names);
int add_fields(PyObject *module);
int add_fused(PyObject *module);
int add_kept(PyObject *module);
int add_direct(PyObject *module);
int add_chosen(PyObject *module);

/* empty(shape): a new array of float32, for kernels written in Python. */
static PyObject *empty(PyObject *module, PyObject *shape) {
    (void)module;
    npy_intp sizes[NPY_MAXDIMS];
    if (!PyTuple_CheckExact(shape) || PyTuple_GET_SIZE(shape) > NPY_MAXDIMS) {
        PyErr_SetString(PyExc_TypeError, "empty(shape) takes a tuple of sizes");
        return NULL;
    }
    for (Py_ssize_t axis = 0; axis < PyTuple_GET_SIZE(shape); axis++)
        sizes[axis] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, axis));
    return PyErr_Occurred() ? NULL : new_array((int)PyTuple_GET_SIZE(shape), sizes);
}

/* prepare(NumPy's kernels, function that returns the number of threads[, dtype of bfloat16]). */
static PyObject *prepare(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *kernels, *threads, *dtype = NULL;
    if (!PyArg_ParseTuple(args, "O!O|O!", &PyDict_Type, &kernels, &threads, &PyArrayDescr_Type,
                          &dtype))
        return NULL;
    bfloat16 = dtype ? ((PyArray_Descr *)dtype)->type_num : bfloat16;
#define TAKE(name)                                                                                 \
    Py_XSETREF(fallbacks[KERNEL_##name], Py_XNewRef(PyDict_GetItemString(kernels, #name)));
    KERNELS(TAKE)
    Py_XSETREF(thread_count, Py_NewRef(threads));
    Py_RETURN_NONE;
}

/* use([name]): takes the loops of an instruction set; by default the best of this processor. */
static PyObject *use(PyObject *module, PyObject *args) {
    (void)module;
    const char *name = "";
    if (!PyArg_ParseTuple(args, "|s", &name))
        return NULL;
    const char *chosen = "base";
    const Loop *table = loops_base;
    int any = !*name;
#ifdef PULLBACK_VARIANTS
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
              && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512 && (any || !strcmp(name, "avx512")))
        chosen = "avx512", table = loops_avx512;
    else if (avx2 && (any || !strcmp(name, "avx2")))
        chosen = "avx2", table = loops_avx2;
#endif
    if (!any && strcmp(name, chosen)) {
        PyErr_Format(PyExc_ValueError,
                     "unknown instruction set '%s', or this processor or build lacks it", name);
        return NULL;
    }
    loops = table;
    return PyUnicode_FromString(chosen);
}

/* In updates.c. */
#define DECLARE(name)                                                                              \
    PyObject *name##_in_place(PyObject *module, PyObject *const *x, Py_ssize_t count,              \
                              PyObject *names);
UPDATES(DECLARE)

/* In matmul.c: the kernels with the strips of x[1] before their inputs. */
PyObject *matmul_by_strips(PyObject *module, PyObject *const *x, Py_ssize_t count, PyObject *names);
PyObject *linear_by_strips(PyObject *module, PyObject *const *x, Py_ssize_t count, PyObject *names);

/* In writing.c. */
PyObject *write_part(PyObject *module, PyObject *const *x, Py_ssize_t count);
PyObject *write_rows(PyObject *module, PyObject *const *x, Py_ssize_t count);

#define IN_PLACE(name)                                                                             \
    {#name "_in_place", (PyCFunction)(void (*)(void))name##_in_place,                              \
     METH_FASTCALL | METH_KEYWORDS, NULL},
#define BY_STRIPS(name)                                                                            \
    {#name "_by_strips", (PyCFunction)(void (*)(void))name##_by_strips,                            \
     METH_FASTCALL | METH_KEYWORDS, NULL},
#define METHOD(name)                                                                               \
    {#name, (PyCFunction)(void (*)(void))kernel_##name, METH_FASTCALL | METH_KEYWORDS, NULL},
static PyMethodDef methods[] = {
    KERNELS(METHOD) UPDATES(IN_PLACE) BY_STRIPS(matmul) BY_STRIPS(linear){
        "run", (PyCFunction)(void (*)(void))run_by_name, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"write_part", (PyCFunction)(void (*)(void))write_part, METH_FASTCALL, NULL},
    {"write_rows", (PyCFunction)(void (*)(void))write_rows, METH_FASTCALL, NULL},
    {"empty", empty, METH_O, NULL},
    {"prepare", prepare, METH_VARARGS, NULL},
    {"use", use, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int add_loops(PyObject *module) {
    PyObject *numbers = PyDict_New();
    if (!numbers)
        return -1;
#define ADD(name, Args)                                                                            \
    do {                                                                                           \
        PyObject *number = PyLong_FromLong(LOOP_##name);                                           \
        if (!number || PyDict_SetItemString(numbers, #name, number))                               \
            return -1;                                                                             \
        Py_DECREF(number);                                                                         \
    } while (0);
    LOOPS(ADD)
    return PyModule_AddObject(module, "LOOPS", numbers);
}

static int add_kernels(PyObject *module) {
    PyObject *names = PyList_New(0);
    if (!names)
        return -1;
#define APPEND(name)                                                                               \
    do {                                                                                           \
        PyObject *text = PyUnicode_FromString(#name);                                              \
        if (!text || PyList_Append(names, text))                                                   \
            return -1;                                                                             \
        Py_DECREF(text);                                                                           \
    } while (0);
    KERNELS(APPEND)
    return PyModule_AddObject(module, "KERNELS", names);
}

static int fill(PyObject *module) {
    /* A process has one table of kernels and one pool of threads, and NumPy's arrays belong to one
     * interpreter. */
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(
            PyExc_ImportError,
            "pullback_native works in the main interpreter only: import it there, or use "
            "a process in place of the subinterpreter");
        return -1;
    }
    import_array1(-1);
    if (!array_name && !(array_name = PyUnicode_InternFromString("_array")))
        return -1;
    return add_loops(module) || add_fields(module) || add_kernels(module) || add_fused(module)
                || add_kept(module) || add_direct(module) || add_chosen(module)
             ? -1
             : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, fill},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "pullback_native._native",
                                        .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
