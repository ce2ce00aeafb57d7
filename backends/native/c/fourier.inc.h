/* Loops of Fourier transforms, for the instruction set of the file that includes this: it names the
 * table of all loops TABLE. */
#include "loop.inc.h"

FOURIER_LOOPS(BODY)

/* The larger functions are there once, not anew for each call. */
#if defined(__clang__)
#define ONCE __attribute__((noinline))
#else
#define ONCE __attribute__((noinline, noclone))
#endif

/* Bytes of a vector, and the mixtures of two of them. */
#if defined(__AVX512F__)
#define VECTOR 64
#elif defined(__AVX2__)
#define VECTOR 32
#else
#define VECTOR 16
#endif
#if defined(__clang__) || __GNUC__ >= 12
#define MIXTURE(Places, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t Places_float __attribute__((vector_size(VECTOR)));
typedef int64_t Places_double __attribute__((vector_size(VECTOR)));
#define MIXTURE(Places, a, b, ...) __builtin_shuffle(a, b, (Places){__VA_ARGS__})
#endif
#define LOW_4(P, a, b) MIXTURE(P, a, b, 0, 4, 1, 5)
#define HIGH_4(P, a, b) MIXTURE(P, a, b, 2, 6, 3, 7)
#define EVEN_4(P, a, b) MIXTURE(P, a, b, 0, 2, 4, 6)
#define ODD_4(P, a, b) MIXTURE(P, a, b, 1, 3, 5, 7)
#define LOW_8(P, a, b) MIXTURE(P, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_8(P, a, b) MIXTURE(P, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define EVEN_8(P, a, b) MIXTURE(P, a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD_8(P, a, b) MIXTURE(P, a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOW_16(P, a, b) MIXTURE(P, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_16(P, a, b)                                                                           \
    MIXTURE(P, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define EVEN_16(P, a, b) MIXTURE(P, a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD_16(P, a, b) MIXTURE(P, a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define REVERSE_4(P, a) MIXTURE(P, a, a, 3, 2, 1, 0)
#define REVERSE_8(P, a) MIXTURE(P, a, a, 7, 6, 5, 4, 3, 2, 1, 0)
#define REVERSE_16(P, a) MIXTURE(P, a, a, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define JOINED(name, count) name##_##count
#define MIX_OF(name, count, ...) JOINED(name, count)(__VA_ARGS__)
#define PLACES NAMED(Places, T)
#define LOW(a, b) MIX_OF(LOW, COUNT, PLACES, a, b)
#define HIGH(a, b) MIX_OF(HIGH, COUNT, PLACES, a, b)
#define EVEN(a, b) MIX_OF(EVEN, COUNT, PLACES, a, b)
#define ODD(a, b) MIX_OF(ODD, COUNT, PLACES, a, b)
#define REVERSE(a) MIX_OF(REVERSE, COUNT, PLACES, a)
#define OF(name) NAMED(name, T)

#define T float
#if VECTOR == 64
#define COUNT 16
#elif VECTOR == 32
#define COUNT 8
#else
#define COUNT 4
#endif
#include "lanes.inc.h"
#include "fourier_rows.inc.h"
LOOP(fourier_float32, FourierArgs) { OF(run)(args, from, to); }
#undef T
#undef COUNT

#define T double
#if VECTOR == 64
#define COUNT 8
#else
#define COUNT 4
#endif
/* Two lanes are slower than NumPy's transforms: the kernels never ask for them. */
#if VECTOR == 16
LOOP(fourier_float64, FourierArgs) { (void)from, (void)to, (void)args; }
#else
#include "lanes.inc.h"
#include "fourier_rows.inc.h"
LOOP(fourier_float64, FourierArgs) { OF(run)(args, from, to); }
#endif
