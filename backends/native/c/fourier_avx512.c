/* Loops of Fourier transforms for x86-64 with AVX-512. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "job.h"
#ifdef PULLBACK_VARIANTS
#pragma GCC target(                                                                                \
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2,prefer-vector-width=512")
#pragma GCC optimize("Os")
#define TABLE loops_avx512
#include "fourier.inc.h"
#endif
