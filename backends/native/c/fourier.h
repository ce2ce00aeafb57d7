/* Fourier transforms: plans, and what their loops take. */
#ifndef PULLBACK_FOURIER_H
#define PULLBACK_FOURIER_H

#include "args.h"

/* The largest prime factor of a length: a butterfly of p numbers takes p * p products. */
#define MOST_RADIX 257
/* Passes of butterflies: 4 is the radix of all but one of the powers of two. */
#define MOST_PASSES 40
/* Lengths whose angles between columns and rows are kept in a table. */
#define MOST_TURNS 16384

/* Which side of a transform is real, and the stages of a single row that threads share. */
enum { WHOLE, FROM_REAL, TO_REAL };
enum { ALL_STAGES, BEFORE, OF_COLUMNS, OF_ROWS, AFTER };

/* A pass of butterflies. Of the `radix * rest` numbers that one transform still has, each takes
 * `radix` that are `rest` apart; `seen` transforms lie side by side. The numbers it returns are
 * turned by w^(p k), with w the root of unity of `radix * rest`: pairs (real, imaginary) for
 * k = 1 .. radix - 1 of each p below `rest`. `roots` has the cosine and sine of the angle
 * 2 pi j k / radix for j and k up to radix / 2, of those radices that are not written out. */
typedef struct {
    ptrdiff_t radix, rest, seen;
    const void *turns, *roots;
} FourierPass;

/* What transforms of n complex numbers need. A plan without columns transforms many rows at once,
 * one in each lane of a vector. One with columns is of a single row, which it takes as a matrix
 * with so many columns, after Bailey, "FFTs in external or hierarchical memory" (1990): the columns
 * are transformed, their numbers turned by w^(row * column), then the rows, and the result read
 * along the columns. Either step has rows or columns side by side, as many as lanes. */
typedef struct FourierPlan {
    ptrdiff_t n;
    int is_double, lanes;
    long references;
    int passes;
    FourierPass pass[MOST_PASSES];
    /* Transforms of the numbers of a column, and of those of a row. */
    struct FourierPlan *columns, *rows;
    /* Of a plan with columns: vectors of the turns for each block of columns, or, if there are too
     * many, for the first block alone. */
    const void *turns;
    /* The root of unity w of `roots_of` to all powers: coarse[k >> shift] * fine[k & mask], pairs
     * of double. roots_of is n, or 2 n where pairs of real numbers are transformed as complex ones.
     */
    ptrdiff_t roots_of, shift;
    const double *coarse, *fine;
    /* Of a plan without columns, with roots_of = 2 n: pairs w^k for k up to n / 2. */
    const void *halves;
    void *room; /* all the arrays above */
} FourierPlan;

/* Transforms of `rows` rows of n numbers, real ones on one side or on none (`kind`). Of x there are
 * `have` numbers, x_step bytes apart; the others are 0. The rows are those of `shape`, whose axes
 * have the steps. The imaginary parts of x, which are 0 if it is_real, are multiplied by x_sign,
 * the parts of y by the scales. A loop counts blocks of rows, as many as lanes, or single rows, by
 * the plan; where a single row is shared by threads, the blocks of a `stage`, with `room` for all
 * of them, which is else NULL. Where the steps of items are not 0 it counts items with so many rows
 * each, for which it does the transforms of `next`, too, while they are in the caches. */
typedef struct FourierArgs {
    const char *x;
    char *y, *room;
    const FourierPlan *plan;
    const struct FourierArgs *next;
    int32_t *status;
    ptrdiff_t kind, is_real, stage, n, have, x_step, y_step, rows, axes, x_item, y_item;
    ptrdiff_t shape[MOST_AXES], x_steps[MOST_AXES], y_steps[MOST_AXES];
    double x_sign, re_scale, im_scale;
} FourierArgs;

/* Bytes of what a single row takes beside its lanes: the blocks of columns, and a copy. */
static inline size_t fourier_room(const FourierPlan *plan) {
    ptrdiff_t blocks = (plan->columns->n + plan->lanes - 1) / plan->lanes;
    return (size_t)(blocks * plan->lanes * plan->rows->n + plan->n) * 2
         * (plan->is_double ? sizeof(double) : sizeof(float));
}

/* The cosine and sine of -2 pi k / roots_of. */
static inline void root_of(const FourierPlan *plan, ptrdiff_t k, double *re, double *im) {
    const double *a = plan->coarse + 2 * (k >> plan->shift),
                 *b = plan->fine + 2 * (k & (((ptrdiff_t)1 << plan->shift) - 1));
    *re = a[0] * b[0] - a[1] * b[1];
    *im = a[0] * b[1] + a[1] * b[0];
}

/* Vector operations for a row of a length that is transformed here: of one among many, and of a
 * single one, which is -1 where its length has no factors. */
typedef struct {
    ptrdiff_t n;
    int is_double, lanes;
    double many, single;
} FourierCosts;

/* Returns false for other lengths. */
int fourier_costs(ptrdiff_t n, int is_double, int lanes, FourierCosts *costs);

/* The plan of n complex numbers, which are `pairs` of real ones or not, of so many lanes, for a
 * `single` row or for many; a new reference, or NULL without an error if there is no memory. */
FourierPlan *fourier_plan(ptrdiff_t n, int pairs, int is_double, int lanes, int single);
void fourier_done(FourierPlan *plan);

#endif
