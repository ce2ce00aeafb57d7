/* The bounds of math32.h, in a file of their own: a compiler that saw the values would use them. */
#define BOUND(name, value)                                                                         \
    extern const float name;                                                                       \
    const float name = value;
#include "math32.h"
