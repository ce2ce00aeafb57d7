/* The loops for any processor. */
#define TABLE loops_base
#include "loops.inc.h"
