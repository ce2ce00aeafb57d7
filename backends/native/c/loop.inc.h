/* What a file of templates begins with: how its loops are defined.
 *
 * Files that end in .inc.h are templates: they are compiled once for each set of instructions. */
#include "job.h"
#include "math32.h"

/* The loop of this name in the table TABLE. */
#define PASTED(table, name) table##_##name
#define NAMED(table, name) PASTED(table, name)
#define LOOP_NAME(name) NAMED(TABLE, name)

#define DECLARATION(name, Args)                                                                    \
    __attribute__((visibility("hidden"))) void LOOP_NAME(name)(ptrdiff_t from, ptrdiff_t to,       \
                                                               const void *args);
LOOPS(DECLARATION)
#undef DECLARATION

/* Defines a loop: `args` has the type that LOOPS names in job.h, or this does not compile. */
#define BODY(name, Args) INLINE void body_##name(ptrdiff_t from, ptrdiff_t to, const Args *args);
#define LOOP(name, Args)                                                                           \
    void LOOP_NAME(name)(ptrdiff_t from, ptrdiff_t to, const void *args) {                         \
        body_##name(from, to, args);                                                               \
    }                                                                                              \
    INLINE void body_##name(ptrdiff_t from, ptrdiff_t to, const Args *args)

/* Loops over contiguous arrays of T: of one array, of two, of an array and a number, which is the
 * `number` of the arguments; of two arrays and a number c. The expression is of x, or a and b. */
#define UNARY_LOOP(name, T, expression)                                                            \
    LOOP(name, UnaryArgs) {                                                                        \
        const T *restrict source = (const T *)args->x;                                             \
        T *restrict target = (T *)args->y;                                                         \
        _Pragma("omp simd")                                                                        \
        for (ptrdiff_t i = from; i < to; i++) {                                                    \
            T x = source[i];                                                                       \
            target[i] = (expression);                                                              \
        }                                                                                          \
    }
#define TWO_ARRAYS_LOOP(name, T, number, expression)                                               \
    LOOP(name, BinaryArgs) {                                                                       \
        const T *restrict first = (const T *)args->x1, *restrict second = (const T *)args->x2;     \
        T *restrict target = (T *)args->y;                                                         \
        number;                                                                                    \
        _Pragma("omp simd")                                                                        \
        for (ptrdiff_t i = from; i < to; i++) {                                                    \
            T a = first[i], b = second[i];                                                         \
            target[i] = (expression);                                                              \
        }                                                                                          \
    }
#define BINARY_LOOP(name, T, expression) TWO_ARRAYS_LOOP(name, T, , expression)
#define BINARY_NUMBER_LOOP(name, T, expression)                                                    \
    TWO_ARRAYS_LOOP(name, T, T c = (T)args->number, expression)
#define NUMBER_LOOP(name, T, number, expression)                                                   \
    LOOP(name, NumberArgs) {                                                                       \
        const T *restrict source = (const T *)args->x;                                             \
        T *restrict target = (T *)args->y;                                                         \
        T b = (T)(number);                                                                         \
        _Pragma("omp simd")                                                                        \
        for (ptrdiff_t i = from; i < to; i++) {                                                    \
            T a = source[i];                                                                       \
            target[i] = (expression);                                                              \
        }                                                                                          \
    }

/* Sets bits of a loop's status. Threads may do so at the same time. */
static inline void set_status(int32_t *status, int32_t bits) {
    __atomic_fetch_or(status, bits, __ATOMIC_RELAXED);
}

/* Some loops run others. */
extern const Loop TABLE[];
