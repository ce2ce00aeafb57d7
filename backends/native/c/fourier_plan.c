/* Plans of Fourier transforms, and the few that are kept. */
#include "fourier.h"
#include "calls.h"

#include <math.h>
#include <stdlib.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

/* So many plans are kept, the last used first. The GIL guards them: kernels hold it while they look
 * for a plan and when they return it. */
#define KEPT 24
static FourierPlan *kept[KEPT];

void fourier_done(FourierPlan *plan) {
    if (!plan || --plan->references)
        return;
    fourier_done(plan->columns);
    fourier_done(plan->rows);
    free(plan->room);
    free(plan);
}

/* Arrays that follow each other in one block, each from a cache line on. */
typedef struct {
    char *at;
} Room;

#define LINE 64

static void *take(Room *room, size_t bytes) {
    void *at = room->at;
    room->at += (bytes + LINE - 1) / LINE * LINE;
    return at;
}

/* Vector operations of a butterfly for each of its numbers, about. */
static double effort(ptrdiff_t radix) {
    return radix == 8 ? 13 : radix == 4 ? 10 : radix < 6 ? 9 : 8 + (double)radix;
}

/* The radices of a length, large ones first: the last passes have the fewest factors between
 * butterflies. Those of 8 are for vectors of 64 bytes, if they are `wide`. Returns their number, or
 * -1 if one is too large. */
static int factor(ptrdiff_t n, int wide, ptrdiff_t *radices) {
    ptrdiff_t found[MOST_PASSES];
    int count = 0, twos = 0, all = 0;
    for (; n % 2 == 0; n /= 2)
        twos++;
    int eights = wide ? twos % 3 == 1 && twos > 1 ? twos / 3 - 1 : twos / 3 : 0;
    twos -= 3 * eights;
    for (ptrdiff_t p = 3; n > 1; p += 2) {
        if (p > MOST_RADIX)
            return -1;
        for (; n % p == 0; n /= p)
            found[count++] = p;
    }
    while (count--)
        radices[all++] = found[count];
    if (twos % 2)
        radices[all++] = 2;
    for (; twos > 1; twos -= 2)
        radices[all++] = 4;
    for (; eights; eights--)
        radices[all++] = 8;
    return all;
}

/* Vector operations of all lanes together, with those that move the numbers; -1 for a length that
 * has a radix too large. */
static double cost_of(ptrdiff_t n, int wide) {
    ptrdiff_t radices[MOST_PASSES];
    double each = 12;
    int count = factor(n, wide, radices);
    for (int i = 0; i < count; i++)
        each += effort(radices[i]);
    return count < 0 ? -1 : (double)n * each;
}

static int is_written_out(ptrdiff_t radix) { return radix < 6 || radix == 8; }

static void put(const FourierPlan *plan, void *array, ptrdiff_t i, double number) {
    if (plan->is_double)
        ((double *)array)[i] = number;
    else
        ((float *)array)[i] = (float)number;
}

/* cos and sin of -2 pi k / n, for 0 <= k < n: by the eighth of the circle, so that the argument is
 * small and symmetric angles have equal numbers. */
static void root(ptrdiff_t k, ptrdiff_t n, double *re, double *im) {
    ptrdiff_t eighths = 8 * k / n, part = 8 * k - eighths * n; /* of n * 8 */
    double c, s, step = 0.78539816339744830962 / (double)n;
    int swapped = eighths & 1;
    double angle = step * (double)(swapped ? n - part : part);
    c = cos(angle), s = sin(angle);
    if (swapped) {
        double other = c;
        c = s, s = other;
    }
    switch (eighths >> 1) {
    case 0:
        *re = c, *im = -s;
        break;
    case 1:
        *re = -s, *im = -c;
        break;
    case 2:
        *re = -c, *im = s;
        break;
    default:
        *re = s, *im = c;
    }
}

/* Makes the table of roots. */
static void fill_roots(FourierPlan *plan, double *coarse, double *fine) {
    ptrdiff_t n = plan->roots_of, some = (ptrdiff_t)1 << plan->shift;
    for (ptrdiff_t i = 0; i < some; i++)
        root(i % n, n, fine + 2 * i, fine + 2 * i + 1);
    for (ptrdiff_t i = 0; i << plan->shift < n; i++)
        root(i << plan->shift, n, coarse + 2 * i, coarse + 2 * i + 1);
    plan->coarse = coarse, plan->fine = fine;
}

static ptrdiff_t blocks(ptrdiff_t count, ptrdiff_t lanes) { return (count + lanes - 1) / lanes; }

/* The number of columns for a single row, or 0: that which wastes the fewest lanes. */
static ptrdiff_t best_columns(ptrdiff_t n, ptrdiff_t lanes, int wide, double *cost) {
    ptrdiff_t best = 0;
    for (ptrdiff_t n1 = 2; n1 * n1 <= n; n1++) {
        if (n % n1)
            continue;
        for (int turned = 0; turned < 2; turned++) {
            ptrdiff_t inside = turned ? n / n1 : n1, columns = n / inside;
            double tried = (double)blocks(columns, lanes) * cost_of(inside, wide)
                         + (double)blocks(inside, lanes) * cost_of(columns, wide);
            /* Buffers of many numbers leave the caches. */
            tried *= inside > 2048 || columns > 2048 ? 1.5 : 1;
            if (!best || tried < *cost)
                *cost = tried, best = columns;
        }
    }
    return best;
}

static FourierPlan *made(ptrdiff_t n, int pairs, int is_double, int lanes, int single) {
    FourierPlan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    size_t item = is_double ? sizeof(double) : sizeof(float);
    plan->references = 1;
    plan->n = n, plan->is_double = is_double, plan->lanes = lanes;
    plan->roots_of = pairs ? 2 * n : n;
    while ((ptrdiff_t)1 << (2 * plan->shift) < plan->roots_of)
        plan->shift++;
    size_t fine = (size_t)2 << plan->shift,
           coarse = 2 * (size_t)((plan->roots_of >> plan->shift) + 1);
    size_t bytes = (fine + coarse) * sizeof(double) + 8 * LINE;
    int wide = lanes * (int)item == 64;
    double cost;
    ptrdiff_t columns = single ? best_columns(n, lanes, wide, &cost) : 0, radices[MOST_PASSES];
    ptrdiff_t inside = columns ? n / columns : 0, turned = 0;
    if (columns) {
        plan->columns = fourier_plan(inside, 0, is_double, lanes, 0);
        plan->rows = fourier_plan(columns, 0, is_double, lanes, 0);
        turned = n <= MOST_TURNS ? blocks(columns, lanes) : 1;
        bytes += (size_t)(2 * turned * lanes * inside) * item;
    } else {
        plan->passes = factor(n, wide, radices);
        ptrdiff_t rest = n, seen = 1;
        for (int i = 0; i < plan->passes; i++) {
            FourierPass *pass = plan->pass + i;
            ptrdiff_t r = radices[i], half = r / 2;
            rest /= r;
            *pass = (FourierPass){.radix = r, .rest = rest, .seen = seen};
            seen *= r;
            bytes += (size_t)(2 * rest * (r - 1)) * item + LINE;
            bytes += is_written_out(r) ? 0 : (size_t)(2 * half * half) * item + LINE;
        }
        bytes += pairs ? (size_t)(n + 2) * item + LINE : 0;
    }
    char *block = plan->room = calloc(1, bytes + LINE);
    if (!block || (columns && (!plan->columns || !plan->rows))) {
        fourier_done(plan);
        return NULL;
    }
    Room room = {(char *)(((uintptr_t)block + LINE - 1) / LINE * LINE)};
    double *first = take(&room, coarse * sizeof(double));
    fill_roots(plan, first, take(&room, fine * sizeof(double)));
    double re, im;
    ptrdiff_t step = plan->roots_of / n;
    if (columns) {
        void *turns = take(&room, (size_t)(2 * turned * lanes * inside) * item);
        for (ptrdiff_t part = 0, at = 0; part < turned; part++)
            for (ptrdiff_t k = 0; k < inside; k++, at += 2 * lanes)
                for (ptrdiff_t lane = 0; lane < lanes; lane++) {
                    ptrdiff_t j = part * lanes + lane;
                    root_of(plan, j < columns ? j * k * step : 0, &re, &im);
                    put(plan, turns, at + lane, re);
                    put(plan, turns, at + lanes + lane, im);
                }
        plan->turns = turns;
        return plan;
    }
    for (int i = 0; i < plan->passes; i++) {
        FourierPass *pass = plan->pass + i;
        ptrdiff_t r = pass->radix, half = r / 2, at = 0;
        void *turns = take(&room, (size_t)(2 * pass->rest * (r - 1)) * item);
        for (ptrdiff_t p = 0; p < pass->rest; p++)
            for (ptrdiff_t k = 1; k < r; k++, at += 2) {
                root_of(plan, p * k * pass->seen * step, &re, &im);
                put(plan, turns, at, re);
                put(plan, turns, at + 1, im);
            }
        pass->turns = turns;
        if (is_written_out(r))
            continue;
        void *roots = take(&room, (size_t)(2 * half * half) * item);
        at = 0;
        for (ptrdiff_t k = 1; k <= half; k++)
            for (ptrdiff_t j = 1; j <= half; j++, at += 2) {
                root(j * k % r, r, &re, &im);
                put(plan, roots, at, re);
                put(plan, roots, at + 1, -im);
            }
        pass->roots = roots;
    }
    if (pairs) {
        void *halves = take(&room, (size_t)(n + 2) * item);
        for (ptrdiff_t k = 0; 2 * k <= n; k++) {
            root_of(plan, k, &re, &im);
            put(plan, halves, 2 * k, re);
            put(plan, halves, 2 * k + 1, im);
        }
        plan->halves = halves;
    }
    return plan;
}

FourierPlan *fourier_plan(ptrdiff_t n, int pairs, int is_double, int lanes, int single) {
    for (int i = 0; i < KEPT; i++) {
        FourierPlan *plan = kept[i];
        if (plan && plan->n == n && plan->is_double == is_double && plan->lanes == lanes
            && (plan->roots_of != n) == pairs && (plan->columns != NULL) == single) {
            memmove(kept + 1, kept, (size_t)i * sizeof *kept);
            kept[0] = plan;
            plan->references++;
            return plan;
        }
    }
    FourierPlan *plan = made(n, pairs, is_double, lanes, single);
    if (!plan)
        return NULL;
    fourier_done(kept[KEPT - 1]);
    memmove(kept + 1, kept, (KEPT - 1) * sizeof *kept);
    kept[0] = plan;
    plan->references++;
    return plan;
}

/* The costs of the last lengths. */
#define KNOWN 64
static FourierCosts known[KNOWN];

int fourier_costs(ptrdiff_t n, int is_double, int lanes, FourierCosts *costs) {
    int wide = lanes * (is_double ? 8 : 4) == 64;
    FourierCosts *here = known + n % KNOWN;
    if (here->n != n || here->lanes != lanes || here->is_double != is_double) {
        double many = cost_of(n, wide), single = -1;
        if (many >= 0 && !best_columns(n, lanes, wide, &single))
            single = -1;
        *here = (FourierCosts){n, is_double, lanes, many / (double)lanes, single};
    }
    *costs = *here;
    return costs->many >= 0;
}
