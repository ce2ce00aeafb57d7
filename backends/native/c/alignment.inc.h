/* The CTC loss of an item and its gradient: log probabilities, in double, of the states of a
 * lattice. A path runs through blank, label, blank, label, ..., blank; two states that no path
 * reaches are in front of them, and behind them on the way back. */
#include "math64.h"

/* The logarithm of probability 0: finite, so that the difference of two of them is 0. */
#define NEVER (-1e30)

INLINE double log_sum_of_3(double a, double b, double c) {
    double most = a < b ? b : a;
    most = most < c ? c : most;
    return most
         + log64(exp64_falling(a - most) + exp64_falling(b - most) + exp64_falling(c - most));
}

/* new = the sum of the three ways into each state, plus what it emits. */
static void step_states(ptrdiff_t states, const double *old, const double *skip,
                        const double *emitted, double *restrict new) {
    _Pragma("omp simd")
    for (ptrdiff_t s = 0; s < states; s++)
        new[s] = log_sum_of_3(old[s], old[s - 1], old[s - 2] + skip[s]) + emitted[s];
}

/* The same from behind: of all ways out of each state. */
static void step_back(ptrdiff_t states, const double *after, const double *skip,
                      double *restrict new) {
    _Pragma("omp simd")
    for (ptrdiff_t s = 0; s < states; s++)
        new[s] = log_sum_of_3(after[s], after[s + 1], after[s + 2] + skip[s + 2]);
}

/* The loss of an item, and where `dx` is not NULL its gradient times g. The shape of the logits is
 * (frames, classes); `room` has CTC_ROOM numbers. */
#define CTC(type, T, EXP)                                                                          \
    static double item_##type(const CtcArgs *args, ptrdiff_t item, double *room, T *dx) {          \
        const ptrdiff_t classes = args->classes, all = args->frames;                               \
        const int64_t *about = args->about + item * (args->length + 2), *labels = about + 2;       \
        const ptrdiff_t frames = about[0] < 0 ? 0 : about[0] < all ? about[0] : all;               \
        const ptrdiff_t count = about[1], states = 2 * count + 1, wide = states + 4;               \
        const T *x = (const T *)args->logits + item * all * classes;                               \
        if (count < 0 || count > args->length)                                                     \
            return HUGE_VAL;                                                                       \
        double *norms = room, *skip = norms + all + 1, *emitted = skip + wide;                     \
        double *states_at = emitted + wide; /* of each frame where there is a gradient */          \
        const ptrdiff_t apart = dx ? wide : 0;                                                     \
        for (ptrdiff_t s = 0; s < wide; s++)                                                       \
            skip[s] = NEVER;                                                                       \
        for (ptrdiff_t i = 0; i < count; i++)                                                      \
            if (labels[i] != (i ? labels[i - 1] : args->blank))                                    \
                skip[2 * i + 1] = 0.0;                                                             \
        double *other = states_at + (dx ? frames + 1 : 1) * wide, *old = states_at + 2;            \
        for (ptrdiff_t s = -2; s < states + 2; s++)                                                \
            old[s] = other[2 + s] = NEVER;                                                         \
        old[0] = 0.0;                                                                              \
        for (ptrdiff_t frame = 0; frame < frames; frame++) {                                       \
            const T *row = x + frame * classes;                                                    \
            T most = row[0];                                                                       \
            double total = 0.0;                                                                    \
            _Pragma("omp simd reduction(max : most)")                                              \
            for (ptrdiff_t k = 0; k < classes; k++)                                                \
                most = row[k] > most ? row[k] : most;                                              \
            _Pragma("omp simd reduction(+ : total)")                                               \
            for (ptrdiff_t k = 0; k < classes; k++)                                                \
                total += (double)EXP(row[k] - most);                                               \
            norms[frame] = (double)most + log64(total);                                            \
            for (ptrdiff_t s = 0; s < states; s++) {                                               \
                double e = (double)row[s % 2 ? labels[s / 2] : args->blank] - norms[frame];        \
                emitted[s] = e < NEVER ? NEVER : e;                                                \
            }                                                                                      \
            double *new = dx ? old + apart : other + 2;                                            \
            for (ptrdiff_t s = -2; dx && s < states + 2; s++)                                      \
                new[s] = NEVER;                                                                    \
            step_states(states, old, skip, emitted, new);                                          \
            if (!dx)                                                                               \
                other = old - 2;                                                                   \
            old = new;                                                                             \
        }                                                                                          \
        double end = old[states - 1], before = count ? old[states - 2] : NEVER;                    \
        double log_p = log_sum_of_3(end, before, NEVER);                                           \
        if (!(-log_p < -NEVER / 2))                                                                \
            return HUGE_VAL;                                                                       \
        if (!dx)                                                                                   \
            return -log_p;                                                                         \
        double g = args->g[item], *beta = other + 2, *after = beta + wide;                         \
        for (ptrdiff_t s = 0; s < states + 2; s++)                                                 \
            beta[s] = after[s] = NEVER;                                                            \
        beta[states - 1] = 0.0;                                                                    \
        if (count)                                                                                 \
            beta[states - 2] = 0.0;                                                                \
        double *slopes = after + wide;                                                             \
        for (ptrdiff_t frame = frames - 1; frame >= 0; frame--, old -= apart) {                    \
            const T *row = x + frame * classes;                                                    \
            _Pragma("omp simd")                                                                    \
            for (ptrdiff_t k = 0; k < classes; k++)                                                \
                slopes[k] = exp64_falling((double)row[k] - norms[frame]);                          \
            for (ptrdiff_t s = 0; s < states; s++)                                                 \
                slopes[s % 2 ? labels[s / 2] : args->blank] -=                                     \
                    exp64_falling(old[s] + beta[s] - log_p);                                       \
            for (ptrdiff_t k = 0; k < classes; k++)                                                \
                dx[frame * classes + k] = (T)(slopes[k] * g);                                      \
            for (ptrdiff_t s = 0; s < states; s++) {                                               \
                double e = (double)row[s % 2 ? labels[s / 2] : args->blank] - norms[frame];        \
                after[s] = beta[s] + (e < NEVER ? NEVER : e);                                      \
            }                                                                                      \
            step_back(states, after, skip, beta);                                                  \
        }                                                                                          \
        return -log_p;                                                                             \
    }                                                                                              \
    LOOP(ctc_##type, CtcArgs) {                                                                    \
        double *room = malloc((size_t)CTC_ROOM(args) * sizeof *room);                              \
        if (!room) {                                                                               \
            __atomic_fetch_or(args->status, NO_MEMORY, __ATOMIC_RELAXED);                          \
            return;                                                                                \
        }                                                                                          \
        for (ptrdiff_t item = from; item < to; item++) {                                           \
            ptrdiff_t each = args->frames * args->classes;                                         \
            T *dx = args->dx ? (T *)args->dx + item * each : NULL;                                 \
            for (ptrdiff_t i = 0; dx && i < each; i++)                                             \
                dx[i] = (T)0;                                                                      \
            double loss = item_##type(args, item, room, dx);                                       \
            if (args->losses)                                                                      \
                ((T *)args->losses)[item] = (T)loss;                                               \
        }                                                                                          \
        free(room);                                                                                \
    }
CTC(float32, float, exp32)
CTC(float64, double, exp64)
