/* Loops of Fourier transforms for x86-64 with AVX2 and FMA. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "job.h"
#ifdef PULLBACK_VARIANTS
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#pragma GCC optimize("Os")
#define TABLE loops_avx2
#include "fourier.inc.h"
#endif
