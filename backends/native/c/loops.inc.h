/* Loops of elements, rows and products, for the instruction set of the file that includes this. It
 * names the table of all loops TABLE, which is in arrays.inc.h. */
#include "loop.inc.h"
#include "math64.h"

ELEMENT_LOOPS(BODY)

#include "tile.inc.h"
#include "few.inc.h"
#include "product.inc.h"
#include "bfloat16.inc.h"
#include "elementwise.inc.h"
#include "exact.inc.h"
#include "elements64.inc.h"
#include "strided.inc.h"
#include "rows.inc.h"
#include "columns.inc.h"
#include "attention.inc.h"
#include "channels.inc.h"
#include "recurrent.inc.h"
#include "pooling.inc.h"
#include "resample.inc.h"
RESAMPLE(resample, float)
#include "random.inc.h"
#include "rowwise.inc.h"
#include "convolution.inc.h"
#include "depthwise.inc.h"
