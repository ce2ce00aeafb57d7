/* What a file of templates begins with: how its loops are defined.
 *
 * Files that end in .inc.h are templates: they are compiled once for each set of instructions. */
#include "job.h"
#include "math32.h"

/* The loop of this name in the table TABLE. */
#define PASTED(table, name) table##_##name
#define NAMED(table, name) PASTED(table, name)
#define LOOP_NAME(name) NAMED(TABLE, name)

#define DECLARATION(name, Args)                                                                    \
    __attribute__((visibility("hidden"))) void LOOP_NAME(name)(ptrdiff_t from, ptrdiff_t to,       \
                                                               const void *args);
LOOPS(DECLARATION)
#undef DECLARATION

/* Defines a loop: `args` has the type that LOOPS names in job.h, or this does not compile. */
#define BODY(name, Args) INLINE void body_##name(ptrdiff_t from, ptrdiff_t to, const Args *args);
#define LOOP(name, Args)                                                                           \
    void LOOP_NAME(name)(ptrdiff_t from, ptrdiff_t to, const void *args) {                         \
        body_##name(from, to, args);                                                               \
    }                                                                                              \
    INLINE void body_##name(ptrdiff_t from, ptrdiff_t to, const Args *args)

/* Some loops run others. */
extern const Loop TABLE[];
