/* Fused kernels, as fused_make.c makes them and fused.c calls them. */
#ifndef PULLBACK_FUSED_H
#define PULLBACK_FUSED_H

#include "calls.h"

#include <stdatomic.h>

#define MOST_ARRAYS 32 /* given, bound and written */
#define MOST_BUFFERS 32
#define MOST_REGISTERS (MOST_ARRAYS + MOST_BUFFERS)
#define MOST_STEPS 64
#define MOST_NUMBERS 64
#define MOST_SUMS 8

/* What an input has to be: an array of the region's shape, a number, or a row of it. An output is
 * an array, a row for the steps to read, or has a number for each row. */
enum { FLOATS, BOOLEANS, ONE_NUMBER, ONE_ROW, ROW_NUMBERS };

/* The dtype of its numbers. Only kernels of float32 have sums, and are compiled. */
enum { OF_FLOAT32, OF_FLOAT64, OF_INT32, OF_INT64, DTYPES };

/* The loops of a step, by the struct of their arguments. An operand of SELECT and COMPARE is a
 * register, or a number: -1 - its index. OVER_ROWS are softmax and the normalizations; FACTORS,
 * once a call, are those of batch normalization. */
enum { UNARY, BINARY, WITH_NUMBER, WITH_ROW, SELECT, COMPARE, OVER_ROWS, FACTORS, CODES };

/* `loop` for rows is that for arrays, and `row_loop` that for whole rows, or -1. The last two codes
 * have operands that may be absent, -1; the index of a number, `epsilon`; and registers, `aside`,
 * for results of one number a row. */
typedef struct {
    int code, loop, row_loop, in[4], out, epsilon, aside[2];
} Step;

/* The value of an input, or a constant where `input` is -1. */
typedef struct {
    int input, negative;
    double constant;
} Number;

/* The sum of a register, times `factor`. */
typedef struct {
    int of, ndim;
    double factor;
    npy_intp shape[NPY_MAXDIMS];
} Sum;

/* Runs step number `step`, which is OVER_ROWS, of what a compiled block belongs to. */
typedef void (*OverRows)(const void *launch, int step, char *const *at, ptrdiff_t count);

/* The steps of a kernel for one block, compiled into loops (compiled/source.py): `at` has the
 * registers where the block begins. True if it has numbers that are not for it: then the loops of
 * the steps run. `nothing` is 0, which the compiler must not know. */
typedef int (*Block)(char *const *at, const float *numbers, ptrdiff_t from, ptrdiff_t count,
                     ptrdiff_t width, int32_t nothing, OverRows over_rows, const void *launch);

/* Registers are inputs, then bound arrays, then outputs, then buffers: first those that hold a
 * whole unit, for sums, then those that hold a block. */
typedef struct {
    PyObject_HEAD vectorcallfunc call;
    PyObject *fallback, *bound;
    int dtype, ndim, inputs, arrays, outputs, wide, buffers, steps, numbers, sums, results;
    npy_intp shape[NPY_MAXDIMS];
    int kinds[MOST_ARRAYS], output_kinds[MOST_ARRAYS], order[MOST_ARRAYS + MOST_SUMS];
    Step step[MOST_STEPS];
    Number number[MOST_NUMBERS];
    Sum sum[MOST_SUMS];
    /* The iteration space, as (outer, rows, inner) around the summed axes. Work is split into
     * units, which are whole pieces of every sum, and these into blocks. */
    ptrdiff_t item, total, outer, rows, inner, piece_rows, pieces, unit, block, width;
    double cost;
    /* Blocks, or 0 as long as there are none: one for all numbers, and a faster one that leaves the
     * rare ones. It is given up where they are not rare: `luck` counts. */
    atomic_uintptr_t compiled, near;
    atomic_int luck;
    /* What is called, once, when the kernel has run often; NULL before and after. */
    PyObject *when_hot;
    double spent; /* nanoseconds, estimated */
    int calls;
    PyObject *reason; /* why it is not compiled, as a text; NULL as long as it has not been tried */
} Fused;

/* The numbers of a call, as doubles and as floats. */
typedef struct {
    const Fused *fused;
    const double *doubles;
    const float *singles;
} Numbers;

/* Runs a compiled block; true if it leaves it to the loops. */
int run_compiled(Block compiled, const Numbers *numbers, char *const *at, ptrdiff_t from,
                 ptrdiff_t count);

/* Runs the steps for a block by the compiled one, or by the loops where there is none or it leaves
 * it to them; true if it did. */
int run_block(Block compiled, const Numbers *numbers, char *const *at, ptrdiff_t from,
              ptrdiff_t count);

/* Runs a step OVER_ROWS for a block of whole rows. */
void over_rows(const Fused *fused, const Step *step, char *const *at, const double *numbers,
               ptrdiff_t count);

/* Runs the steps FACTORS, on whole arrays. */
void make_factors(const Fused *fused, char *const *base, const double *numbers);

/* True if such a step names what is there, and blocks are whole rows. */
int is_right_over_rows(const Fused *fused, const Step *step);

PyObject *fused_call(PyObject *self, PyObject *const *x, size_t flags, PyObject *names);

#endif
