/* Fused kernels: a list of loops that run one after the other over blocks of a few thousand
 * elements, so that what they hand to each other stays in the first-level cache.
 *
 * The loops are those of the kernels, and sums are added in the same pieces, so that the results
 * have the bits that the kernels give one by one. Arrays that the loops do not take, such as
 * transposed ones, go to `fallback`, which calls the kernels. */
#include "fused.h"
#include "pool.h"

/* A kernel is compiled that has been called this often, for so many nanoseconds in all. */
#define HOT_CALLS 16
#define HOT_TIME 3e7

/* What a block that is left costs in luck, and the luck at which no more is tried. */
#define UNLUCKY 8
#define NO_LUCK (-256)

/* A call. */
typedef struct {
    Fused *fused;
    Block compiled, near;
    char *base[MOST_ARRAYS];
    ptrdiff_t item[MOST_ARRAYS], row_item[MOST_ARRAYS]; /* bytes for an element, and for a row */
    double number[MOST_NUMBERS];
    float single[MOST_NUMBERS];
    double *partial[MOST_SUMS];
    float *summed[MOST_SUMS];
    char *buffers;
    size_t buffers_size; /* of one thread */
    atomic_ullong taken; /* whose are in use, by bits */
} Launch;

/* Buffers begin at a cache line. */
static size_t in_lines(ptrdiff_t bytes) { return (size_t)(bytes + 63) / 64 * 64; }

static size_t block_size(const Fused *fused) { return in_lines(fused->block * fused->item); }

static size_t wide_size(const Fused *fused) { return in_lines(fused->unit * fused->item); }

/* A row of fewer elements is repeated up to so many, for a loop takes some nanoseconds to begin. */
#define NARROW_ROW 128
/* The same where a loop of its own takes row after row. */
#define NARROWEST_ROW 16
#define REPEATED 512

/* As row_step, for a narrow row. */
static void narrow_row_step(const Fused *fused, const Step *step, char *const *at, ptrdiff_t from,
                            ptrdiff_t count) {
    const ptrdiff_t width = fused->width, item = fused->item, whole = REPEATED / width * width;
    const ptrdiff_t many = whole < count ? whole : count;
    const int row_side = step->in[2];
    const char *x = at[step->in[1 - row_side]], *row = at[step->in[row_side]];
    char repeated[REPEATED * sizeof(int64_t)] __attribute__((aligned(64)));
    const ptrdiff_t column = from % width;
    memcpy(repeated, row + column * item, (size_t)((width - column) * item));
    memcpy(repeated + (width - column) * item, row, (size_t)(column * item));
    for (ptrdiff_t held = width, more; held < many; held += more) {
        more = held < many - held ? held : many - held;
        memcpy(repeated + held * item, repeated, (size_t)(more * item));
    }
    for (ptrdiff_t done = 0, some; done < count; done += some) {
        some = many < count - done ? many : count - done;
        const void *part = x + done * item;
        BinaryArgs args = {.x1 = row_side ? part : (const void *)repeated,
                           .x2 = row_side ? (const void *)repeated : part,
                           .y = (float *)(at[step->out] + done * item)};
        loops[step->loop](0, some, &args);
    }
}

/* x1 or x2 is the row; the elements are those from `from` on. */
static void row_step(const Fused *fused, const Step *step, char *const *at, ptrdiff_t from,
                     ptrdiff_t count) {
    ptrdiff_t width = fused->width, item = fused->item;
    int row_side = step->in[2];
    const char *x = at[step->in[1 - row_side]], *row = at[step->in[row_side]];
    char *y = at[step->out];
    for (ptrdiff_t done = 0; done < count;) {
        ptrdiff_t column = (from + done) % width, some = width - column, left = count - done;
        if (!column && left >= width && step->row_loop >= 0) {
            some = left / width * width;
            RowArgs args = {.x = (float *)(x + done * item),
                            .row = (float *)row,
                            .y = (float *)(y + done * item),
                            .width = width};
            loops[step->row_loop](0, left / width, &args);
        } else {
            some = some < left ? some : left;
            const char *whole = x + done * item, *part = row + column * item;
            BinaryArgs args = {.x1 = (float *)(row_side ? whole : part),
                               .x2 = (float *)(row_side ? part : whole),
                               .y = (float *)(y + done * item)};
            loops[step->loop](0, some, &args);
        }
        done += some;
    }
}

/* A number in the kernel's dtype. */
typedef union {
    float float32;
    double float64;
    int32_t int32;
    int64_t int64;
} Cell;

static Cell as_cell(int dtype, double number) {
    switch (dtype) {
    case OF_FLOAT64:
        return (Cell){.float64 = number};
    case OF_INT32:
        return (Cell){.int32 = (int32_t)(int64_t)number};
    case OF_INT64:
        return (Cell){.int64 = (int64_t)number};
    default:
        return (Cell){.float32 = (float)number};
    }
}

/* The operand of a step: an array, or a number that is put into `cell`. */
static const float *operand(const Fused *fused, int in, char *const *at, const double *numbers,
                            Cell *cell) {
    if (in >= 0)
        return (float *)at[in];
    *cell = as_cell(fused->dtype, numbers[-1 - in]);
    return (float *)cell;
}

static void block_steps(const Fused *fused, char *const *at, const double *numbers, ptrdiff_t from,
                        ptrdiff_t count) {
    Cell cells[3];
    for (const Step *step = fused->step; step < fused->step + fused->steps; step++) {
        const int *in = step->in;
        char *y = at[step->out];
#define OPERAND(i) operand(fused, in[i], at, numbers, &cells[i])
        switch (step->code) {
        case UNARY: {
            UnaryArgs args = {.x = (float *)at[in[0]], .y = (float *)y};
            loops[step->loop](0, count, &args);
            break;
        }
        case BINARY: {
            BinaryArgs args = {.x1 = (float *)at[in[0]], .x2 = (float *)at[in[1]], .y = (float *)y};
            loops[step->loop](0, count, &args);
            break;
        }
        case WITH_NUMBER: {
            NumberArgs args = {
                .x = (float *)at[in[0]], .y = (float *)y, .number = numbers[-1 - in[1]]};
            loops[step->loop](0, count, &args);
            break;
        }
        case WITH_ROW:
            if (fused->width < (step->row_loop < 0 ? NARROW_ROW : NARROWEST_ROW))
                narrow_row_step(fused, step, at, from, count);
            else
                row_step(fused, step, at, from, count);
            break;
        case SELECT: {
            WhereArgs args = {.condition = (unsigned char *)at[in[0]],
                              .x1 = OPERAND(1),
                              .x2 = OPERAND(2),
                              .y = (float *)y,
                              .x1_is_number = in[1] < 0,
                              .x2_is_number = in[2] < 0};
            loops[step->loop](0, count, &args);
            break;
        }
        case OVER_ROWS:
            over_rows(fused, step, at, numbers, count);
            break;
        case FACTORS:
            break;
        default: {
            CompareArgs args = {.x1 = OPERAND(0),
                                .x2 = OPERAND(1),
                                .y = (unsigned char *)y,
                                .x1_is_number = in[0] < 0,
                                .x2_is_number = in[1] < 0};
            loops[step->loop](0, count, &args);
        }
        }
#undef OPERAND
    }
}

/* As an OverRows. */
static void run_over_rows(const void *launch, int step, char *const *at, ptrdiff_t count) {
    const Numbers *numbers = launch;
    const Fused *fused = numbers->fused;
    over_rows(fused, &fused->step[step], at, numbers->doubles, count);
}

int run_compiled(Block compiled, const Numbers *numbers, char *const *at, ptrdiff_t from,
                 ptrdiff_t count) {
    return compiled(at, numbers->singles, from, count, numbers->fused->width, 0, run_over_rows,
                    numbers);
}

int run_block(Block compiled, const Numbers *numbers, char *const *at, ptrdiff_t from,
              ptrdiff_t count) {
    int left = !compiled || run_compiled(compiled, numbers, at, from, count);
    if (left)
        block_steps(numbers->fused, at, numbers->doubles, from, count);
    return left;
}

/* Adds up what a unit has of the sums: rows of their own, or a piece of the rows. */
static void unit_sums(const Launch *launch, char *const *wide, ptrdiff_t unit, ptrdiff_t begin,
                      ptrdiff_t end) {
    const Fused *fused = launch->fused;
    for (int i = 0; i < fused->sums; i++) {
        const Sum *sum = &fused->sum[i];
        int in_wide = sum->of >= fused->arrays + fused->outputs;
        char *x = in_wide ? wide[sum->of - fused->arrays - fused->outputs] : launch->base[sum->of];
        FoldArgs args = {.x = x,
                         .partial = launch->partial[i],
                         .y = launch->summed[i],
                         .rows = fused->rows,
                         .inner = fused->inner,
                         .piece_rows = fused->piece_rows,
                         .pieces = fused->pieces,
                         .blocks = 1,
                         .skipped = in_wide ? begin : 0,
                         .factor = sum->factor};
        if (fused->outer > 1)
            loops[LOOP_sum_float32](begin / fused->rows, end / fused->rows, &args);
        else
            loops[LOOP_sum_float32](unit, unit + 1, &args);
    }
}

static int take_buffers(Launch *launch) {
    unsigned long long taken = atomic_load(&launch->taken);
    for (;;) {
        int free = 0;
        while (taken >> free & 1)
            free++;
        if (atomic_compare_exchange_weak(&launch->taken, &taken, taken | 1ull << free))
            return free;
    }
}

/* Runs a block by the compiled one for numbers that are near; false if it left it. */
static int is_near(Launch *launch, const Numbers *numbers, char *const *at, ptrdiff_t from,
                   ptrdiff_t count) {
    Fused *fused = launch->fused;
    int left = run_compiled(launch->near, numbers, at, from, count);
    int luck = atomic_load_explicit(&fused->luck, memory_order_relaxed);
    if (left || luck < 0)
        atomic_store_explicit(&fused->luck, left ? luck - UNLUCKY : luck + 1, memory_order_relaxed);
    if (left && luck < NO_LUCK)
        atomic_store_explicit(&fused->near, 0, memory_order_relaxed);
    return !left;
}

/* As a loop over units, for the pool. */
static void run_units(ptrdiff_t from, ptrdiff_t to, const void *args) {
    Launch *launch = (Launch *)args;
    const Fused *fused = launch->fused;
    Numbers numbers = {fused, launch->number, launch->single};
    int arrays = fused->arrays + fused->outputs, mine = take_buffers(launch);
    char *buffers = launch->buffers + (size_t)mine * launch->buffers_size;
    char *at[MOST_REGISTERS], *wide[MOST_BUFFERS];
    for (int i = 0; i < fused->buffers; i++) {
        int is_wide = i < fused->wide;
        at[arrays + i] = wide[i] = buffers;
        buffers += is_wide ? wide_size(fused) : block_size(fused);
    }
    for (ptrdiff_t unit = from; unit < to; unit++) {
        ptrdiff_t begin = unit * fused->unit;
        ptrdiff_t end = fused->total - begin < fused->unit ? fused->total : begin + fused->unit;
        for (ptrdiff_t block = begin; block < end; block += fused->block) {
            ptrdiff_t row = block / fused->width;
            for (int i = 0; i < arrays; i++)
                at[i] = launch->base[i] + block * launch->item[i] + row * launch->row_item[i];
            for (int i = 0; i < fused->wide; i++)
                at[arrays + i] = wide[i] + (block - begin) * fused->item;
            ptrdiff_t left = end - block, count = left < fused->block ? left : fused->block;
            if (!launch->near || !is_near(launch, &numbers, at, block, count))
                run_block(launch->compiled, &numbers, at, block, count);
        }
        unit_sums(launch, wide, unit, begin, end);
    }
    atomic_fetch_and(&launch->taken, ~(1ull << mine));
}

static const int types[DTYPES] = {[OF_FLOAT32] = NPY_FLOAT,
                                  [OF_FLOAT64] = NPY_DOUBLE,
                                  [OF_INT32] = NPY_INT32,
                                  [OF_INT64] = NPY_INT64};

static int fits(const Fused *fused, int kind, PyObject *x) {
    if (!PyArray_CheckExact(x) || !PyArray_ISCARRAY_RO(as_array(x))
        || !PyArray_EquivTypenums(PyArray_TYPE(as_array(x)),
                                  kind == BOOLEANS ? NPY_BOOL : types[fused->dtype]))
        return 0;
    int ndim = PyArray_NDIM(as_array(x));
    if (kind == ONE_NUMBER)
        return ndim == 0;
    if (kind == ONE_ROW)
        return ndim == 1 && size(x) == fused->width;
    return ndim == fused->ndim
        && PyArray_CompareLists(PyArray_DIMS(as_array(x)), fused->shape, ndim);
}

static void take_input(Launch *launch, int i, PyObject *x) {
    int kind = launch->fused->kinds[i];
    launch->base[i] = data(x);
    launch->item[i] = kind == FLOATS ? launch->fused->item : kind == BOOLEANS;
    launch->row_item[i] = 0;
    /* A row begins where the array's row does: `row_step` looks for the column. */
}

static double number_at(int dtype, const char *at) {
    return dtype == OF_FLOAT64 ? *(const double *)at
         : dtype == OF_INT32   ? *(const int32_t *)at
         : dtype == OF_INT64   ? (double)*(const int64_t *)at
                               : *(const float *)at;
}

static int run_launch(Launch *launch) {
    const Fused *fused = launch->fused;
    ptrdiff_t units = (fused->total + fused->unit - 1) / fused->unit;
    double time = fused->cost * (double)fused->total;
    _Alignas(64) char few[16384];
    launch->buffers_size = (size_t)fused->wide * wide_size(fused)
                         + (size_t)(fused->buffers - fused->wide) * block_size(fused);
    int here = time < WORTH_THE_LOCK, threads = here ? 1 : threads_for(time);
    if (threads < 0)
        return -1;
    if (threads > units)
        threads = (int)units;
    void *memory = NULL;
    launch->buffers = few;
    size_t size = (size_t)threads * launch->buffers_size;
    if (size > sizeof few) {
        memory = PyMem_RawMalloc(size + 64);
        if (!memory) {
            PyErr_NoMemory();
            return -1;
        }
        launch->buffers = (char *)(((uintptr_t)memory + 63) / 64 * 64);
    }
    ptrdiff_t grain = fused->unit < PIECE ? PIECE / fused->unit : 1;
    if (here) {
        run_units(0, units, launch);
    } else {
        Py_BEGIN_ALLOW_THREADS pool_run(run_units, launch, units, grain, threads);
        Py_END_ALLOW_THREADS
    }
    PyMem_RawFree(memory);
    return 0;
}

static PyObject *new_output(const Fused *fused, int kind) {
    npy_intp shape[NPY_MAXDIMS];
    for (int i = 0; i < fused->ndim; i++)
        shape[i] = fused->shape[i];
    if (kind == ROW_NUMBERS)
        shape[fused->ndim - 1] = 1;
    if (kind == ONE_ROW)
        return new_array(1, shape + fused->ndim - 1);
    if (kind == BOOLEANS || fused->dtype != OF_FLOAT32)
        return PyArray_SimpleNew(fused->ndim, shape,
                                 kind == BOOLEANS ? NPY_BOOL : types[fused->dtype]);
    return new_array(fused->ndim, shape);
}

/* Fills `made` with new arrays for the outputs and sums; false with an error set. */
static int make_results(Launch *launch, PyObject **made) {
    const Fused *fused = launch->fused;
    for (int i = 0; i < fused->outputs + fused->sums; i++)
        made[i] = NULL;
    for (int i = 0; i < fused->outputs; i++) {
        int kind = fused->output_kinds[i], at = fused->arrays + i;
        if (!(made[i] = new_output(fused, kind)))
            return 0;
        launch->base[at] = data(made[i]);
        launch->item[at] = kind == FLOATS ? fused->item : kind == BOOLEANS;
        launch->row_item[at] = kind == ROW_NUMBERS ? fused->item : 0;
    }
    size_t partials = fused->pieces > 1 ? (size_t)(fused->pieces * fused->inner) : 0;
    for (int i = 0; i < fused->sums; i++) {
        PyObject *y = new_array(fused->sum[i].ndim, fused->sum[i].shape);
        if (!(made[fused->outputs + i] = y))
            return 0;
        launch->summed[i] = data(y);
        launch->partial[i] = partials ? PyMem_Malloc(partials * sizeof(double)) : NULL;
        if (partials && !launch->partial[i]) {
            PyErr_NoMemory();
            return 0;
        }
    }
    return 1;
}

static PyObject *as_result(const Fused *fused, PyObject **made) {
    if (fused->results == 1)
        return Py_NewRef(made[fused->order[0]]);
    PyObject *all = PyTuple_New(fused->results);
    for (int i = 0; all && i < fused->results; i++)
        PyTuple_SET_ITEM(all, i, Py_NewRef(made[fused->order[i]]));
    return all;
}

/* Says that a kernel has run often: that is where compiling it pays. */
static void count_call(Fused *fused) {
    fused->calls++;
    fused->spent += fused->cost * (double)fused->total;
    if (fused->calls < HOT_CALLS || fused->spent < HOT_TIME)
        return;
    PyObject *when_hot = fused->when_hot;
    fused->when_hot = NULL;
    PyObject *answer = PyObject_CallOneArg(when_hot, (PyObject *)fused);
    if (!answer)
        PyErr_WriteUnraisable(when_hot);
    Py_XDECREF(answer);
    Py_DECREF(when_hot);
}

PyObject *fused_call(PyObject *self, PyObject *const *x, size_t flags, PyObject *names) {
    Fused *fused = (Fused *)self;
    int fit = PyVectorcall_NARGS(flags) == fused->inputs && !names;
    for (int i = 0; fit && i < fused->inputs; i++)
        fit = fits(fused, fused->kinds[i], x[i]);
    if (!fit)
        return PyObject_Vectorcall(fused->fallback, x, flags, names);
    Launch launch;
    launch.fused = fused;
    launch.compiled = (Block)atomic_load_explicit(&fused->compiled, memory_order_acquire);
    launch.near = (Block)atomic_load_explicit(&fused->near, memory_order_acquire);
    atomic_init(&launch.taken, 0);
    for (int i = 0; i < fused->arrays; i++)
        take_input(&launch, i,
                   i < fused->inputs ? x[i] : PyTuple_GET_ITEM(fused->bound, i - fused->inputs));
    for (int i = 0; i < fused->numbers; i++) {
        const Number *number = &fused->number[i];
        double value = number->input < 0 ? number->constant
                                         : number_at(fused->dtype, launch.base[number->input]);
        launch.number[i] = number->negative ? -value : value;
        launch.single[i] = (float)launch.number[i];
    }
    for (int i = 0; i < fused->sums; i++)
        launch.partial[i] = NULL;
    PyObject *made[MOST_ARRAYS + MOST_SUMS], *result = NULL;
    int ready = make_results(&launch, made);
    if (ready)
        make_factors(fused, launch.base, launch.number);
    if (ready && !run_launch(&launch)) {
        for (int i = 0; i < fused->sums; i++)
            if (launch.partial[i])
                add_sums(launch.partial[i], 1, fused->pieces, fused->inner, fused->sum[i].factor,
                         launch.summed[i]);
        result = as_result(fused, made);
    }
    for (int i = 0; i < fused->sums; i++)
        PyMem_Free(launch.partial[i]);
    for (int i = 0; i < fused->outputs + fused->sums; i++)
        Py_XDECREF(made[i]);
    if (result && fused->when_hot)
        count_call(fused);
    return result;
}
