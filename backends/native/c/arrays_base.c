/* Loops of reductions and movement for any processor. */
#define TABLE loops_base
#include "arrays.inc.h"
