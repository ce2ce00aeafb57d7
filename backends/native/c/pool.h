/* A pool of threads. OpenMP's threads hang in a process that was forked while they ran, and data
 * pipelines fork; these are started anew there. */
#ifndef PULLBACK_POOL_H
#define PULLBACK_POOL_H

#include "job.h"

/* The largest number of threads. */
#define POOL_MOST 64

/* Calls loop(from, to, args) for pieces of `grain` that make up 0..count, on `threads` threads, the
 * calling one among them. Where the pieces begin does not depend on the threads. */
void pool_run(Loop loop, const void *args, ptrdiff_t count, ptrdiff_t grain, int threads);

/* True if a thread looks for work now, so that it need not be woken. */
int pool_awake(void);

#endif
