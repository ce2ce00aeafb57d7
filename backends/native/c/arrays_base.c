/* Loops of reductions and movement for any processor. Where there are others for the processors of
 * today, these are made half as large, and are as fast. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "job.h"
#ifdef PULLBACK_VARIANTS
#pragma GCC optimize("O2")
#endif
#define TABLE loops_base
#include "arrays.inc.h"
