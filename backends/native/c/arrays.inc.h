/* Loops of reductions and movement, and the table of all loops, for the instruction set of the file
 * that includes this: it names the table TABLE. */
#include "loop.inc.h"

ARRAY_LOOPS(BODY)

#include "halves.inc.h"
#include "reductions.inc.h"
#include "scans.inc.h"
#include "distances.inc.h"
#include "selection.inc.h"
#include "movement.inc.h"
#include "resample.inc.h"
RESAMPLE(resample_float64, double)
#include "alignment.inc.h"
#include "factors.inc.h"

#define ENTRY(name, Args) LOOP_NAME(name),
const Loop TABLE[] = {LOOPS(ENTRY)};
