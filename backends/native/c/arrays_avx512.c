/* Loops of reductions and movement for x86-64 with AVX-512. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "job.h"
#ifdef PULLBACK_VARIANTS
#pragma GCC target(                                                                                \
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2,prefer-vector-width=512")
#define TABLE loops_avx512
#include "arrays.inc.h"
#endif
