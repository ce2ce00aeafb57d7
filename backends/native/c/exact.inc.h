/* Elementwise loops of other dtypes than float32, for fused kernels: those whose results any loop
 * rounds alike, NumPy's too. Integers wrap around, which unsigned ones do in C.
 *
 * Arguments are those of the loops of float32; their arrays have elements of the dtype. */

#define EXACT_UNARY(name, type, T, expression) UNARY_LOOP(name##_##type, T, expression)
#define EXACT_BINARY(name, type, T, expression) BINARY_LOOP(name##_##type, T, expression)
/* A negative number of 32 bits may be out of their range: it wraps around. */
#define NUMBER_float64 args->number
#define NUMBER_int32 (int32_t)(int64_t)args->number
#define NUMBER_int64 (int64_t)args->number
#define EXACT_WITH_NUMBER(name, type, T, expression)                                               \
    NUMBER_LOOP(name##_##type, T, NUMBER_##type, expression)
/* An operand is an array, or a number. */
#define EXACT_COMPARE(name, type, T, operator)                                                     \
    LOOP(name##_##type, CompareArgs) {                                                             \
        const T *restrict first = (const T *)args->x1, *restrict second = (const T *)args->x2;     \
        unsigned char *restrict target = args->y;                                                  \
        ptrdiff_t step1 = !args->x1_is_number, step2 = !args->x2_is_number;                        \
        if (step1 && step2)                                                                        \
            for (ptrdiff_t i = from; i < to; i++)                                                  \
                target[i] = first[i] operator second[i];                                           \
        else                                                                                       \
            for (ptrdiff_t i = from; i < to; i++)                                                  \
                target[i] = first[i * step1] operator second[i *step2];                            \
    }
#define EXACT_WHERE(type, T)                                                                       \
    LOOP(where_##type, WhereArgs) {                                                                \
        const unsigned char *restrict condition = args->condition;                                 \
        const T *restrict first = (const T *)args->x1, *restrict second = (const T *)args->x2;     \
        T *restrict target = (T *)args->y;                                                         \
        ptrdiff_t step1 = !args->x1_is_number, step2 = !args->x2_is_number;                        \
        if (step1 && step2)                                                                        \
            for (ptrdiff_t i = from; i < to; i++)                                                  \
                target[i] = condition[i] ? first[i] : second[i];                                   \
        else                                                                                       \
            for (ptrdiff_t i = from; i < to; i++)                                                  \
                target[i] = condition[i] ? first[i * step1] : second[i * step2];                   \
    }

/* `U` is what is computed in. */
#define EXACT(type, T, U)                                                                          \
    EXACT_UNARY(negative, type, T, (T)(-(U)x))                                                     \
    EXACT_UNARY(square, type, T, (T)((U)x * (U)x))                                                 \
    EXACT_BINARY(add, type, T, (T)((U)a + (U)b))                                                   \
    EXACT_BINARY(subtract, type, T, (T)((U)a - (U)b))                                              \
    EXACT_BINARY(multiply, type, T, (T)((U)a * (U)b))                                              \
    EXACT_WITH_NUMBER(add_number, type, T, (T)((U)a + (U)b))                                       \
    EXACT_WITH_NUMBER(multiply_number, type, T, (T)((U)a * (U)b))                                  \
    EXACT_WITH_NUMBER(subtract_from, type, T, (T)((U)b - (U)a))                                    \
    EXACT_COMPARE(less, type, T, <)                                                                \
    EXACT_COMPARE(less_equal, type, T, <=)                                                         \
    EXACT_COMPARE(greater, type, T, >)                                                             \
    EXACT_COMPARE(greater_equal, type, T, >=)                                                      \
    EXACT_COMPARE(equal, type, T, ==)                                                              \
    EXACT_COMPARE(not_equal, type, T, !=)                                                          \
    EXACT_WHERE(type, T)
#define EXACT_INTEGERS(type, T, U)                                                                 \
    EXACT(type, T, U)                                                                              \
    EXACT_UNARY(abs, type, T, x < 0 ? (T)(-(U)x) : x)                                              \
    EXACT_BINARY(maximum, type, T, a < b ? b : a)                                                  \
    EXACT_BINARY(minimum, type, T, b < a ? b : a)                                                  \
    EXACT_WITH_NUMBER(maximum_number, type, T, a < b ? b : a)                                      \
    EXACT_WITH_NUMBER(minimum_number, type, T, b < a ? b : a)

/* Signs of 16-bit floats are bits. */
EXACT_UNARY(negative, half, uint16_t, x ^ 0x8000)
EXACT_UNARY(abs, half, uint16_t, x & 0x7fff)
EXACT(float64, double, double)
EXACT_UNARY(abs, float64, double, fabs(x))
EXACT_UNARY(sqrt, float64, double, sqrt(x))
EXACT_BINARY(divide, float64, double, a / b)
EXACT_WITH_NUMBER(divide_number, float64, double, a / b)
EXACT_WITH_NUMBER(divide_from, float64, double, b / a)
EXACT_INTEGERS(int32, int32_t, uint32_t)
EXACT_INTEGERS(int64, int64_t, uint64_t)
