/* Loops of Fourier transforms for any processor. They are vector arithmetic as it is written, which
 * the compiler makes no faster where it makes them larger. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "job.h"
#ifdef PULLBACK_VARIANTS
#pragma GCC optimize("Os")
#endif
#define TABLE loops_base
#include "fourier.inc.h"
