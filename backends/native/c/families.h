/* Kernels by families of loops: what they compute of arrays of any dtype and layout. */
#ifndef PULLBACK_FAMILIES_H
#define PULLBACK_FAMILIES_H

#include "calls.h"

/* The families of loops, by what they compute in. */
#define OF_FLOATS(single, wide, cost)                                                              \
    (&(const Family){LOOP_##single, LOOP_##wide, NO_LOOP, NO_LOOP, cost})
#define OF_NUMBERS(name, double_loop, cost)                                                        \
    (&(const Family){LOOP_##name, LOOP_##double_loop, LOOP_##name##_int32, LOOP_##name##_int64,    \
                     cost})
/* The same with a loop of the bits of 16-bit floats. */
#define OF_SIGNS(name, cost)                                                                       \
    (&(const Family){LOOP_##name, LOOP_##name##_float64, LOOP_##name##_int32, LOOP_##name##_int64, \
                     cost, LOOP_##name##_half})
/* In double for all floats. */
#define IN_DOUBLE(name, cost) (&(const Family){NO_LOOP, LOOP_##name##_wide, NO_LOOP, NO_LOOP, cost})

/* The result of a loop, or of NumPy's kernel where there is no loop. */
#define ELSE_NUMPY(name, result)                                                                   \
    do {                                                                                           \
        PyObject *elsewhere = (result);                                                            \
        return elsewhere || PyErr_Occurred() ? elsewhere : NUMPY_FALLBACK(name);                   \
    } while (0)

/* A kernel of one array, or of two: arrays of any layout take the loops of the family. */
#define ELEMENTS(name, inputs, form, family)                                                       \
    KERNEL(name) {                                                                                 \
        (void)module;                                                                              \
        ELSE_NUMPY(name, count == inputs && !names ? elements(family, form, 0, x, inputs) : NULL); \
    }

#endif
