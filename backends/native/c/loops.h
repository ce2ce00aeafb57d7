/* All loops, for the instruction set of the file that includes this: it names the table TABLE. */
#include "job.h"
#include "math32.h"

#define LOOP(name) static void loop_##name(ptrdiff_t from, ptrdiff_t to, const Job *job)

#include "tile.h"
#include "product.h"
#include "elementwise.h"
#include "rows.h"
#include "attention.h"
#include "channels.h"
#include "reductions.h"
#include "movement.h"
#include "recurrent.h"
#include "pooling.h"
#include "convolution.h"

#define ENTRY(name) loop_##name,
const Loop TABLE[] = {LOOPS(ENTRY)};
