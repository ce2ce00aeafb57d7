/* Fused kernels, as fused_make.c makes them and fused.c calls them. */
#ifndef PULLBACK_FUSED_H
#define PULLBACK_FUSED_H

#include "calls.h"
#define MOST_ARRAYS 32 /* given, bound and written */
#define MOST_BUFFERS 32
#define MOST_REGISTERS (MOST_ARRAYS + MOST_BUFFERS)
#define MOST_STEPS 64
#define MOST_NUMBERS 64
#define MOST_SUMS 8

/* What an input has to be: an array of the region's shape, a number, or a row of it. */
enum { FLOATS, BOOLEANS, ONE_NUMBER, ONE_ROW };

/* The loops of a step, by the struct of their arguments. An operand of the last two is a register,
 * or a number: -1 - its index. */
enum { UNARY, BINARY, WITH_NUMBER, WITH_ROW, SELECT, COMPARE, CODES };

/* `loop` for rows is that for arrays, and `row_loop` that for whole rows, or -1. */
typedef struct {
    int code, loop, row_loop, in[3], out;
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

/* Registers are inputs, then bound arrays, then outputs, then buffers: first those that hold a
 * whole unit, for sums, then those that hold a block. */
typedef struct {
    PyObject_HEAD vectorcallfunc call;
    PyObject *fallback, *bound;
    int ndim, inputs, arrays, outputs, wide, buffers, steps, numbers, sums, results;
    npy_intp shape[NPY_MAXDIMS];
    int kinds[MOST_ARRAYS], booleans[MOST_ARRAYS], order[MOST_ARRAYS + MOST_SUMS];
    Step step[MOST_STEPS];
    Number number[MOST_NUMBERS];
    Sum sum[MOST_SUMS];
    /* The iteration space, as (outer, rows, inner) around the summed axes. Work is split into
     * units, which are whole pieces of every sum, and these into blocks. */
    ptrdiff_t total, outer, rows, inner, piece_rows, pieces, unit, block, width;
    double cost;
} Fused;

PyObject *fused_call(PyObject *self, PyObject *const *x, size_t flags, PyObject *names);

#endif
