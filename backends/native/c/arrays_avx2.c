/* Loops of reductions and movement for x86-64 with AVX2 and FMA. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "job.h"
#ifdef PULLBACK_VARIANTS
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#define TABLE loops_avx2
#include "arrays.inc.h"
#endif
