/* `run`, by which kernels written in Python run a loop: its arguments are named. */
#include "calls.h"

/* What a member of an args struct takes: arrays that are read or written, and numbers. */
enum {
    READ_FLOATS,
    WRITE_FLOATS,
    READ_INT32,
    WRITE_INT32,
    READ_OFFSETS,
    READ_ANY,
    INTEGER,
    REAL,
    STATUS
};

typedef struct {
    const char *name;
    size_t offset;
    int kind, strided;
    PyObject *interned; /* the name, as Python has it in its code */
} Field;

/* Kinds follow from the types in args.h. */
#define KIND(x)                                                                                    \
    _Generic((x),                                                                                  \
        const float *: READ_FLOATS,                                                                \
        float *: WRITE_FLOATS,                                                                     \
        const int32_t *: READ_INT32,                                                               \
        int32_t *: WRITE_INT32,                                                                    \
        const ptrdiff_t *: READ_OFFSETS,                                                           \
        const void *: READ_ANY,                                                                    \
        ptrdiff_t: INTEGER,                                                                        \
        double: REAL)
#define ENTRY(Args, part, member, strided)                                                         \
    {#member, offsetof(Args, part member), KIND(((Args *)0)->part member), strided, NULL},
#define F(Args, member) ENTRY(Args, , member, 0)
#define SIZE(Args, part, member) ENTRY(Args, part, member, 0)
/* Of an array whose rows may be apart: the caller passes the steps. */
#define ROWS(Args, member) ENTRY(Args, , member, 1)
/* `run` passes the status itself, and returns it. */
#define RESULT(Args) {"status", offsetof(Args, status), STATUS, 0, NULL},

/* clang-format off */
#define ATTENTION_SIZES(Args)                                                                     \
    SIZE(Args, sizes., offsets) SIZE(Args, sizes., keys) SIZE(Args, sizes., is_causal)            \
    SIZE(Args, sizes., queries) SIZE(Args, sizes., depth) SIZE(Args, sizes., value_depth)         \
    SIZE(Args, sizes., query_step) SIZE(Args, sizes., key_step) SIZE(Args, sizes., value_step)    \
    SIZE(Args, sizes., mask_row_step) SIZE(Args, sizes., mask_column_step)                        \
    SIZE(Args, sizes., mask_is_boolean) SIZE(Args, sizes., items)                                 \
    SIZE(Args, sizes., block_queries) SIZE(Args, sizes., heads) SIZE(Args, sizes., scale)
#define WINDOWS(Args, part)                                                                       \
    SIZE(Args, part, height) SIZE(Args, part, width) SIZE(Args, part, channels)                   \
    SIZE(Args, part, out_height) SIZE(Args, part, out_width)                                      \
    SIZE(Args, part, window_height) SIZE(Args, part, window_width)                                \
    SIZE(Args, part, stride_height) SIZE(Args, part, stride_width)                                \
    SIZE(Args, part, pad_top) SIZE(Args, part, pad_left)
#define CONV_SIZES(Args)                                                                          \
    WINDOWS(Args, sizes.windows.)                                                                 \
    SIZE(Args, sizes., dilation_height) SIZE(Args, sizes., dilation_width)                        \
    SIZE(Args, sizes., features) SIZE(Args, sizes., rows) SIZE(Args, sizes., block_rows)
#define STEPS(Args)                                                                               \
    F(Args, mask) F(Args, batch) F(Args, time) F(Args, units) F(Args, reverse)

static Field attention[] = {
    ROWS(AttentionArgs, query) ROWS(AttentionArgs, key) ROWS(AttentionArgs, value)
    F(AttentionArgs, mask) F(AttentionArgs, y) F(AttentionArgs, normalizers) RESULT(AttentionArgs)
    ATTENTION_SIZES(AttentionArgs)};
static Field attention_gradient[] = {
    ROWS(AttentionGradientArgs, query) ROWS(AttentionGradientArgs, key)
    ROWS(AttentionGradientArgs, value) F(AttentionGradientArgs, mask) F(AttentionGradientArgs, y)
    F(AttentionGradientArgs, normalizers) F(AttentionGradientArgs, g)
    F(AttentionGradientArgs, dquery) F(AttentionGradientArgs, dkey)
    F(AttentionGradientArgs, dvalue) RESULT(AttentionGradientArgs)
    ATTENTION_SIZES(AttentionGradientArgs)};
static Field lstm_step[] = {
    F(LstmArgs, gates) F(LstmArgs, x) F(LstmArgs, kernel) F(LstmArgs, bias)
    F(LstmArgs, recurrent_kernel) F(LstmArgs, h) F(LstmArgs, c)
    F(LstmArgs, y) F(LstmArgs, cells) RESULT(LstmArgs) F(LstmArgs, inputs) STEPS(LstmArgs)};
static Field lstm_step_gradient[] = {
    F(LstmGradientArgs, gates) F(LstmGradientArgs, kernel) F(LstmGradientArgs, recurrent_kernel)
    F(LstmGradientArgs, c) F(LstmGradientArgs, cells) F(LstmGradientArgs, g)
    F(LstmGradientArgs, dh) F(LstmGradientArgs, dc) F(LstmGradientArgs, dgates)
    F(LstmGradientArgs, dx) RESULT(LstmGradientArgs) F(LstmGradientArgs, inputs)
    STEPS(LstmGradientArgs)};
static Field gru_step[] = {
    F(GruArgs, gates) F(GruArgs, recurrent_kernel) F(GruArgs, h) F(GruArgs, bias)
    F(GruArgs, y) F(GruArgs, candidates) RESULT(GruArgs) STEPS(GruArgs)};
static Field gru_step_gradient[] = {
    F(GruGradientArgs, gates) F(GruGradientArgs, kernel) F(GruGradientArgs, recurrent_kernel)
    F(GruGradientArgs, h) F(GruGradientArgs, y) F(GruGradientArgs, g)
    F(GruGradientArgs, candidates) F(GruGradientArgs, dh) F(GruGradientArgs, by_input)
    F(GruGradientArgs, by_state) F(GruGradientArgs, dx) RESULT(GruGradientArgs)
    F(GruGradientArgs, inputs) STEPS(GruGradientArgs)};
static Field max_pool[] = {
    F(MaxPoolArgs, x) F(MaxPoolArgs, y) F(MaxPoolArgs, indices) WINDOWS(MaxPoolArgs, windows.)};
static Field avg_pool[] = {
    F(AvgPoolArgs, x) F(AvgPoolArgs, y) F(AvgPoolArgs, counts_padding)
    WINDOWS(AvgPoolArgs, windows.)};
static Field max_pool_gradient[] = {
    F(MaxPoolGradientArgs, g) F(MaxPoolGradientArgs, indices) F(MaxPoolGradientArgs, dx)
    WINDOWS(MaxPoolGradientArgs, windows.) F(MaxPoolGradientArgs, tiled)};
#define RESAMPLE(name)                                                                             \
    static Field name[] = {F(ResampleArgs, x) F(ResampleArgs, y) F(ResampleArgs, begins)           \
                               F(ResampleArgs, sources) F(ResampleArgs, shares)                    \
                                   F(ResampleArgs, rows) F(ResampleArgs, count)                    \
                                       F(ResampleArgs, inner)};
RESAMPLE(resample)
RESAMPLE(resample_float64)
static Field conv[] = {
    F(ConvArgs, x) F(ConvArgs, kernel) F(ConvArgs, strips) F(ConvArgs, y) RESULT(ConvArgs)
    CONV_SIZES(ConvArgs)};
static Field conv_kernel_gradient[] = {
    F(ConvKernelGradientArgs, x) F(ConvKernelGradientArgs, g) F(ConvKernelGradientArgs, sums)
    RESULT(ConvKernelGradientArgs) F(ConvKernelGradientArgs, parts)
    CONV_SIZES(ConvKernelGradientArgs)};
#define DEPTHWISE(name)                                                                            \
    static Field name[] = {                                                                        \
        F(DepthwiseArgs, first) F(DepthwiseArgs, second) F(DepthwiseArgs, y)                       \
        F(DepthwiseArgs, images) F(DepthwiseArgs, multiplier) WINDOWS(DepthwiseArgs, windows.)     \
        F(DepthwiseArgs, dilation_height) F(DepthwiseArgs, dilation_width)};
DEPTHWISE(depthwise)
DEPTHWISE(depthwise_input_gradient)
DEPTHWISE(depthwise_kernel_gradient)

/* The loops that Python may run. */
#define FROM_PYTHON(X)                                                                            \
    X(attention, AttentionArgs) X(attention_gradient, AttentionGradientArgs)                      \
    X(lstm_step, LstmArgs) X(lstm_step_gradient, LstmGradientArgs)                                \
    X(gru_step, GruArgs) X(gru_step_gradient, GruGradientArgs)                                    \
    X(max_pool, MaxPoolArgs) X(max_pool_gradient, MaxPoolGradientArgs) X(avg_pool, AvgPoolArgs)   \
    X(resample, ResampleArgs) X(resample_float64, ResampleArgs) X(depthwise, DepthwiseArgs)       \
    X(depthwise_input_gradient, DepthwiseArgs) X(depthwise_kernel_gradient, DepthwiseArgs)        \
    X(conv, ConvArgs) X(conv_kernel_gradient, ConvKernelGradientArgs)
/* clang-format on */

#if UINTPTR_MAX > UINT32_MAX
#define COMPLETE(name, Args)                                                                       \
    _Static_assert(sizeof name / sizeof *name == sizeof(Args) / 8,                                 \
                   "a member of " #Args " lacks a name");
FROM_PYTHON(COMPLETE)
#endif

typedef struct {
    Field *fields;
    int count;
} Fields;

#define TABLE_ENTRY(name, Args) [LOOP_##name] = {name, (int)(sizeof name / sizeof *name)},
static const Fields tables[LOOP_COUNT] = {FROM_PYTHON(TABLE_ENTRY)};

/* Stores an array for a field; false with an error set. */
static int store_array(const Field *field, PyObject *x, void *target) {
    static const int types[] = {[READ_FLOATS] = NPY_FLOAT,
                                [WRITE_FLOATS] = NPY_FLOAT,
                                [READ_INT32] = NPY_INT32,
                                [WRITE_INT32] = NPY_INT32,
                                [READ_OFFSETS] = NPY_INTP};
    static const char *const names[] = {[READ_FLOATS] = "float32",
                                        [WRITE_FLOATS] = "float32",
                                        [READ_INT32] = "int32",
                                        [WRITE_INT32] = "int32",
                                        [READ_OFFSETS] = "intp"};
    if (x == Py_None) {
        *(void **)target = NULL;
        return 1;
    }
    if (!PyArray_Check(x)) {
        PyErr_Format(PyExc_TypeError, "'%s' must be an array or None, got %R", field->name,
                     Py_TYPE(x));
        return 0;
    }
    if (field->kind != READ_ANY
        && !PyArray_EquivTypenums(PyArray_TYPE(as_array(x)), types[field->kind])) {
        PyErr_Format(PyExc_TypeError, "'%s' must be an array of %s, got %R", field->name,
                     names[field->kind], PyArray_DESCR(as_array(x)));
        return 0;
    }
    if (field->strided ? !PyArray_ISBEHAVED_RO(as_array(x)) : !PyArray_ISCARRAY_RO(as_array(x))) {
        PyErr_Format(PyExc_TypeError, "'%s' is not contiguous; pass a copy in C order",
                     field->name);
        return 0;
    }
    if ((field->kind == WRITE_FLOATS || field->kind == WRITE_INT32)
        && !PyArray_ISWRITEABLE(as_array(x))) {
        PyErr_Format(PyExc_TypeError, "'%s' is written, so it must not be read-only", field->name);
        return 0;
    }
    *(void **)target = data(x);
    return 1;
}

static int store(const Field *field, PyObject *x, char *args) {
    void *target = args + field->offset;
    if (field->kind == INTEGER) {
        ptrdiff_t value = *(ptrdiff_t *)target = PyLong_AsSsize_t(x);
        return !(value == -1 && PyErr_Occurred());
    }
    if (field->kind == REAL) {
        double value = *(double *)target = PyFloat_AsDouble(x);
        return !(value == -1.0 && PyErr_Occurred());
    }
    return store_array(field, x, target);
}

/* The number of the field with this name; -1 with an error set where there is none. Names mostly
 * come in the order of the fields, so the search begins at `first`. */
static int field_of(const Fields *table, PyObject *name, int first) {
    for (int i = 0, at = first; i < table->count; i++, at++) {
        at = at == table->count ? 0 : at;
        if (table->fields[at].interned == name && table->fields[at].kind != STATUS)
            return at;
    }
    for (int at = 0; PyUnicode_Check(name) && at < table->count; at++)
        if (table->fields[at].kind != STATUS
            && !PyUnicode_CompareWithASCIIString(name, table->fields[at].name))
            return at;
    PyErr_Format(PyExc_TypeError, "this loop has no argument %R; _native.FIELDS lists them", name);
    return -1;
}

/* The arguments of a call in the making. */
typedef struct {
    const Fields *table;
    char *args;
    uint64_t set; /* a bit for each field */
    int next;
} Filling;

static int fill(Filling *it, PyObject *name, PyObject *value) {
    int at = field_of(it->table, name, it->next);
    if (at < 0)
        return 0;
    if (it->set >> at & 1) {
        PyErr_Format(PyExc_TypeError, "%R is passed twice", name);
        return 0;
    }
    it->set |= (uint64_t)1 << at;
    it->next = at + 1;
    return store(&it->table->fields[at], value, it->args);
}

/* Stores the status, and checks that all fields have a value. */
static int finish(Filling *it, int32_t *status) {
    for (int i = 0; i < it->table->count; i++) {
        const Field *field = &it->table->fields[i];
        if (field->kind == STATUS) {
            *(int32_t **)(it->args + field->offset) = status;
        } else if (!(it->set >> i & 1)) {
            PyErr_Format(PyExc_TypeError, "the argument '%s' is missing", field->name);
            return 0;
        }
    }
    return 1;
}

/* run(loop, count, grain, cost[, numbers], **arguments): runs a loop over `count` things that take
 * about `cost` nanoseconds each, in pieces of `grain`. Its arguments are keywords, or items of the
 * dict `numbers`; FIELDS lists them. Returns the bits of the loop's status. */
PyObject *run_by_name(PyObject *module, PyObject *const *x, Py_ssize_t given, PyObject *names) {
    (void)module;
#define MEMBER(name, Args) Args name;
    union {
        LOOPS(MEMBER)
    } args;
    if (given < 4 || given > 5 || (given == 5 && !PyDict_CheckExact(x[4]))) {
        PyErr_SetString(PyExc_TypeError, "run(loop, count, grain, cost[, numbers], **arguments)");
        return NULL;
    }
    long loop = PyLong_AsLong(x[0]);
    ptrdiff_t count = PyLong_AsSsize_t(x[1]), grain = PyLong_AsSsize_t(x[2]);
    double cost = PyFloat_AsDouble(x[3]);
    if (PyErr_Occurred())
        return NULL;
    if (loop < 0 || loop >= LOOP_COUNT || !tables[loop].count || grain < 1) {
        PyErr_SetString(PyExc_ValueError,
                        "run takes a loop that FIELDS lists, and a grain of 1 or more");
        return NULL;
    }
    int32_t status = 0;
    Filling it = {.table = &tables[loop], .args = (char *)&args};
    PyObject *name, *value;
    for (Py_ssize_t at = 0; given == 5 && PyDict_Next(x[4], &at, &name, &value);)
        if (!fill(&it, name, value))
            return NULL;
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++)
        if (!fill(&it, PyTuple_GET_ITEM(names, i), x[given + i]))
            return NULL;
    if (!finish(&it, &status) || run_loop((int)loop, &args, count, grain, cost))
        return NULL;
    return PyLong_FromLong(status);
}

/* Interns the names of a table, and returns them as a tuple. */
static PyObject *names_of(const Fields *table) {
    PyObject *names = PyList_New(0);
    for (int i = 0; names && i < table->count; i++) {
        Field *field = &table->fields[i];
        field->interned = PyUnicode_InternFromString(field->name);
        if (!field->interned || (field->kind != STATUS && PyList_Append(names, field->interned)))
            Py_CLEAR(names);
    }
    PyObject *tuple = names ? PyList_AsTuple(names) : NULL;
    Py_XDECREF(names);
    return tuple;
}

/* Adds FIELDS, the names of the arguments of each loop that `run` takes; -1 with an error set. */
int add_fields(PyObject *module) {
    PyObject *all = PyDict_New(), *names = NULL;
#define ADD(loop, Args)                                                                            \
    Py_XSETREF(names, all ? names_of(&tables[LOOP_##loop]) : NULL);                                \
    if (!names || PyDict_SetItemString(all, #loop, names))                                         \
        Py_CLEAR(all);
    FROM_PYTHON(ADD)
    Py_XDECREF(names);
    return all ? PyModule_AddObject(module, "FIELDS", all) : -1;
}
