/* All loops, for the instruction set of the file that includes this: it names the table TABLE.
 *
 * Files that end in .inc.h are templates: they are compiled once for each set of instructions. */
#include "job.h"
#include "math32.h"

/* Defines a loop: `args` has the type that LOOPS names in job.h, or this does not compile. */
#define DECLARATION(name, Args)                                                                    \
    INLINE void body_##name(ptrdiff_t from, ptrdiff_t to, const Args *args);                       \
    static void loop_##name(ptrdiff_t from, ptrdiff_t to, const void *args);
LOOPS(DECLARATION)
#undef DECLARATION
#define LOOP(name, Args)                                                                           \
    static void loop_##name(ptrdiff_t from, ptrdiff_t to, const void *args) {                      \
        body_##name(from, to, args);                                                               \
    }                                                                                              \
    INLINE void body_##name(ptrdiff_t from, ptrdiff_t to, const Args *args)

/* Some loops run others. */
extern const Loop TABLE[];

#include "tile.inc.h"
#include "few.inc.h"
#include "product.inc.h"
#include "bfloat16.inc.h"
#include "elementwise.inc.h"
#include "exact.inc.h"
#include "rows.inc.h"
#include "attention.inc.h"
#include "channels.inc.h"
#include "reductions.inc.h"
#include "movement.inc.h"
#include "recurrent.inc.h"
#include "pooling.inc.h"
#include "convolution.inc.h"

#define ENTRY(name, Args) loop_##name,
const Loop TABLE[] = {LOOPS(ENTRY)};
