/* Elementwise loops over arrays of any strides, and of 16-bit floats.
 *
 * A block of elements that stays in the first-level cache is gathered, widened where it is stored
 * in less than it is computed in, computed by the loop of contiguous arrays, and narrowed. */
#include "halves.inc.h"

INLINE uint16_t narrowed_half(float x) {
    uint32_t bits = (uint32_t)as_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    uint32_t special = size > 0x7f800000 ? 0x7e00 | (size >> 13 & 0x3ff) : 0x7c00;
    /* To the nearest, ties to even: of normal numbers in integers, of subnormal ones by a sum in
     * which their last bit is that of the mantissa. */
    uint32_t normal = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    uint32_t small = (uint32_t)as_bits(as_float((int32_t)size) + 0.5f) - 0x3f000000;
    uint32_t finite = size < 0x38800000 ? small : normal;
    return (uint16_t)(sign | (size >= 0x47800000 ? special : finite));
}

INLINE void narrow_halves(const float *restrict x, ptrdiff_t count, uint16_t *restrict y) {
    ptrdiff_t i = 0;
#ifdef __AVX512F__
    for (; i + 16 <= count; i += 16)
        _mm256_storeu_si256((__m256i *)(y + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#endif
#ifdef __F16C__
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(y + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    _Pragma("omp simd")
    for (ptrdiff_t j = i; j < count; j++)
        y[j] = narrowed_half(x[j]);
}

INLINE void widen_booleans(const uint8_t *restrict x, ptrdiff_t count, float *restrict y) {
    _Pragma("omp simd")
    for (ptrdiff_t i = 0; i < count; i++)
        y[i] = x[i] ? 1.0f : 0.0f;
}

INLINE void widen_integers(const int32_t *restrict x, ptrdiff_t count, double *restrict y) {
    _Pragma("omp simd")
    for (ptrdiff_t i = 0; i < count; i++)
        y[i] = x[i];
}

/* As floats: of more than 24 bits those that are lost are gathered in one that is kept, so that
 * what is rounded to 16 bits afterwards is as if it were rounded once. */
INLINE void odd_floats(const int32_t *restrict x, ptrdiff_t count, float *restrict y) {
    _Pragma("omp simd")
    for (ptrdiff_t i = 0; i < count; i++) {
        int32_t odd = (x[i] & ~0xff) | (x[i] & 0xff ? 0x100 : 0);
        y[i] = (float)((x[i] < 0x1000000) & (x[i] > -0x1000000) ? x[i] : odd);
    }
}

/* As doubles, in the same way. */
INLINE void odd_doubles(const int64_t *restrict x, ptrdiff_t count, double *restrict y) {
    const int64_t most = (int64_t)1 << 53;
    _Pragma("omp simd")
    for (ptrdiff_t i = 0; i < count; i++) {
        int64_t odd = (x[i] & ~(int64_t)0x7ff) | (x[i] & 0x7ff ? 0x800 : 0);
        y[i] = (double)((x[i] < most) & (x[i] > -most) ? x[i] : odd);
    }
}

INLINE void widen_floats(const float *restrict x, ptrdiff_t count, double *restrict y) {
    _Pragma("omp simd")
    for (ptrdiff_t i = 0; i < count; i++)
        y[i] = x[i];
}

INLINE void narrow_doubles(const double *restrict x, ptrdiff_t count, float *restrict y) {
    _Pragma("omp simd")
    for (ptrdiff_t i = 0; i < count; i++)
        y[i] = (float)x[i];
}

/* To odd: rounded towards 0, and the last bit set where that loses something. What is rounded to 16
 * bits afterwards is as if it were rounded once. */
INLINE void narrow_to_odd(const double *restrict x, ptrdiff_t count, float *restrict y) {
    _Pragma("omp simd")
    for (ptrdiff_t i = 0; i < count; i++) {
        float nearest = (float)x[i];
        double rounded = nearest;
        int32_t bits = as_bits(nearest) - (fabs(rounded) > fabs(x[i]));
        y[i] = x[i] == rounded || x[i] != x[i] ? nearest : as_float(bits | 1);
    }
}

/* `count` elements that are `step` bytes apart. One that is repeated is written in whole vectors,
 * behind the end too. */
#define BEHIND 64
#define GATHER(T)                                                                                  \
    static void gather_##T(const char *x, ptrdiff_t step, ptrdiff_t count, T *restrict y) {        \
        const T one = *(const T *)x;                                                               \
        if (step == sizeof(T))                                                                     \
            memcpy(y, x, (size_t)count * sizeof(T));                                               \
        else if (!step)                                                                            \
            for (ptrdiff_t i = 0; i < count; i += BEHIND / (ptrdiff_t)sizeof(T))                   \
                for (ptrdiff_t k = 0; k < BEHIND / (ptrdiff_t)sizeof(T); k++)                      \
                    y[i + k] = one;                                                                \
        else if (step == 2 * sizeof(T))                                                            \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                y[i] = ((const T *)x)[2 * i];                                                      \
        else                                                                                       \
            for (ptrdiff_t i = 0; i < count; i++)                                                  \
                y[i] = *(const T *)(x + i * step);                                                 \
    }
GATHER(uint8_t)
GATHER(uint16_t)
GATHER(uint32_t)
GATHER(uint64_t)

static void gather(ptrdiff_t size, const char *x, ptrdiff_t step, ptrdiff_t count, char *y) {
    if (size == 1)
        gather_uint8_t(x, step, count, (uint8_t *)y);
    else if (size == 2)
        gather_uint16_t(x, step, count, (uint16_t *)y);
    else if (size == 4)
        gather_uint32_t(x, step, count, (uint32_t *)y);
    else
        gather_uint64_t(x, step, count, (uint64_t *)y);
}

/* Rows of `bytes` bytes that are `step` apart: so few that a call of memcpy would take longer. */
#define FEW_BYTES 32
INLINE void gather_rows(const char *x, ptrdiff_t step, ptrdiff_t rows, ptrdiff_t bytes, char *y) {
    for (ptrdiff_t i = 0; i < rows; i++)
        memcpy(y + i * bytes, x + i * step, (size_t)bytes);
}

/* The same where the compiler knows how many; false for other numbers. */
static int gather_short_rows(const char *x, ptrdiff_t step, ptrdiff_t rows, ptrdiff_t bytes,
                             char *y) {
#define ROWS_OF(n)                                                                                 \
    case n:                                                                                        \
        gather_rows(x, step, rows, n, y);                                                          \
        return 1;
    switch (bytes) {
        ROWS_OF(2)
        ROWS_OF(4)
        ROWS_OF(6)
        ROWS_OF(8)
        ROWS_OF(12)
        ROWS_OF(16)
        ROWS_OF(20)
        ROWS_OF(24)
        ROWS_OF(28)
        ROWS_OF(FEW_BYTES)
    }
#undef ROWS_OF
    return 0;
}

/* Where the element `first` of an operand is, and its index. */
INLINE const char *place_of(const ElementsArgs *args, const Operand *operand, ptrdiff_t first,
                            ptrdiff_t *index) {
    const char *x = operand->at;
    for (ptrdiff_t axis = args->axes - 1; axis >= 0; axis--) {
        index[axis] = first % args->shape[axis];
        first /= args->shape[axis];
        x += index[axis] * operand->steps[axis];
    }
    return x;
}

/* The elements of an operand from `first` on, in the order of the result; `y` has room BEHIND
 * them. */
static void gather_block(const ElementsArgs *args, const Operand *operand, ptrdiff_t first,
                         ptrdiff_t count, char *y) {
    const ptrdiff_t *shape = args->shape, *steps = operand->steps, last = args->axes - 1;
    ptrdiff_t index[MOST_AXES], size = SIZE_OF(operand->type);
    const char *x = place_of(args, operand, first, index);
    const int in_rows = last && steps[last] == size && shape[last] * size <= FEW_BYTES;
    while (1) {
        /* Whole rows, up to the end of the axis before. */
        ptrdiff_t rows = in_rows && !index[last]
                           ? least(count / shape[last], shape[last - 1] - index[last - 1])
                           : 0;
        if (rows > 1 && gather_short_rows(x, steps[last - 1], rows, shape[last] * size, y)) {
            ptrdiff_t many = rows * shape[last];
            count -= many;
            if (!count)
                return;
            y += many * size;
            x += rows * steps[last - 1];
            index[last - 1] += rows;
            for (ptrdiff_t axis = last - 1; axis > 0 && index[axis] == shape[axis]; axis--) {
                x += steps[axis - 1] - shape[axis] * steps[axis];
                index[axis] = 0;
                index[axis - 1]++;
            }
            continue;
        }
        ptrdiff_t run = least(count, shape[last] - index[last]);
        gather(size, x, steps[last], run, y);
        count -= run;
        if (!count)
            return;
        y += run * size;
        x += run * steps[last];
        index[last] += run;
        for (ptrdiff_t axis = last; axis > 0 && index[axis] == shape[axis]; axis--) {
            x += steps[axis - 1] - shape[axis] * steps[axis];
            index[axis] = 0;
            index[axis - 1]++;
        }
    }
}

/* Bytes of a block, and room for it. */
#define STRIDED_BLOCK 4096
typedef struct {
    char bytes[STRIDED_BLOCK + BEHIND] ON_A_LINE;
} Room;

/* Widens a block of `from` to `to`, whose types differ; `between` has room for floats. */
static const void *widen_block(const void *from, ptrdiff_t type, ptrdiff_t count, ptrdiff_t to_type,
                               Room *between, void *to) {
    float *floats = to_type == FLOAT64 ? (float *)between->bytes : to;
    if (type == BFLOAT16)
        widen_row(from, count, floats);
    else if (type == FLOAT16)
        widen_halves(from, count, floats);
    else if (type == BOOLEAN)
        widen_booleans(from, count, floats);
    if (type == INT32 && to_type == FLOAT32)
        odd_floats(from, count, to);
    else if (type == INT32)
        widen_integers(from, count, to);
    else if (type == INT64)
        odd_doubles(from, count, to);
    else if (to_type == FLOAT64)
        widen_floats(type == FLOAT32 ? from : floats, count, to);
    return to;
}

static void narrow_block(const void *from, ptrdiff_t type, ptrdiff_t count, ptrdiff_t to_type,
                         Room *between, void *to) {
    const float *floats = from;
    if (type == FLOAT64 && to_type == FLOAT32) {
        narrow_doubles(from, count, to);
    } else if (type == FLOAT64) {
        narrow_to_odd(from, count, (float *)between->bytes);
        floats = (const float *)between->bytes;
    }
    if (to_type == BFLOAT16)
        narrow_sums(floats, NULL, count, to);
    else if (to_type == FLOAT16)
        narrow_halves(floats, count, to);
}

/* What a loop computes of contiguous operands. */
static void run_on(const ElementsArgs *args, const void *const *x, void *y, ptrdiff_t count) {
    union {
        UnaryArgs one;
        BinaryArgs two;
        NumberArgs number;
        CompareArgs compare;
        WhereArgs where;
        ClipArgs clip;
    } with;
    switch (args->form) {
    case OF_ONE:
        with.one = (UnaryArgs){.x = x[0], .y = y};
        break;
    case OF_TWO:
        with.two = (BinaryArgs){.x1 = x[0], .x2 = x[1], .y = y, .number = args->number};
        break;
    case OF_NUMBER:
        with.number = (NumberArgs){.x = x[0], .y = y, .number = args->number};
        break;
    case COMPARED:
        with.compare = (CompareArgs){.x1 = x[0], .x2 = x[1], .y = y};
        break;
    case CLIPPED:
        with.clip = (ClipArgs){.x = x[0], .least = x[1], .most = x[2], .y = y};
        break;
    default:
        with.where = (WhereArgs){.condition = x[0], .x1 = x[1], .x2 = x[2], .y = y};
    }
    TABLE[args->loop](0, count, &with);
}

/* The loop of an array and a number that does the same where one operand is a number, or -1;
 * differences are sums with its negative. */
INLINE ptrdiff_t loop_with_number(ptrdiff_t loop, int on_right) {
    switch (loop) {
    case LOOP_add:
        return LOOP_add_number;
    case LOOP_multiply:
        return LOOP_multiply_number;
    case LOOP_subtract:
        return on_right ? LOOP_add_number : LOOP_subtract_from;
    case LOOP_divide:
        return on_right ? LOOP_divide_number : LOOP_divide_from;
    default:
        return -1;
    }
}

/* The operand of two that repeats a number along each row, or -1. */
INLINE ptrdiff_t row_number(const ElementsArgs *args) {
    for (ptrdiff_t k = 0; args->form == OF_TWO && args->type == FLOAT32 && k < 2; k++)
        if (!args->x[k].is_repeated && !args->x[k].steps[args->axes - 1])
            return k;
    return -1;
}

/* A float of 32 or 16 bits. */
INLINE float number_at(const void *x, ptrdiff_t type) {
    uint16_t half = type == FLOAT32 ? 0 : *(const uint16_t *)x;
    return type == FLOAT32  ? *(const float *)x
         : type == BFLOAT16 ? widened(half)
                            : widened_half(half);
}

/* Rows of this size are taken one by one, and read where they are. Blocks of shorter ones are whole
 * rows, so that a row that is repeated is gathered once. */
#define LONG_ROW 256

LOOP(elements, ElementsArgs) {
    Room rooms[MOST_OPERANDS], raw, between, result;
    const void *x[MOST_OPERANDS] = {NULL};
    const ptrdiff_t type = args->type, stored = args->y_type, converts = args->loop < 0;
    const ptrdiff_t last = args->axes - 1, row = args->shape[last];
    const ptrdiff_t room = STRIDED_BLOCK / SIZE_OF(type);
    const int by_rows = last && row >= LONG_ROW, whole = last == 1 && row < LONG_ROW && row;
    int in_place = !converts && (stored == type || stored == BOOLEAN);
    for (ptrdiff_t k = 0; k < args->operands; k++)
        in_place = in_place && args->x[k].is_plain && args->x[k].type == type;
    /* Where nothing is gathered or converted, one block is all. */
    const ptrdiff_t most = in_place ? to - from : whole ? room - room % row : room;
    const ptrdiff_t repeating = by_rows ? row_number(args) : -1;
    const ptrdiff_t by_number = repeating < 0 ? -1 : loop_with_number(args->loop, repeating == 1);
    for (ptrdiff_t first = from, count; first < to; first += count) {
        count = least(whole && first % row ? row - first % row : most, to - first);
        if (by_rows)
            count = least(count, row - first % row);
        char *y = args->y + first * SIZE_OF(stored);
        for (ptrdiff_t k = 0; k < args->operands; k++) {
            const Operand *operand = &args->x[k];
            int is_number = by_number >= 0 && k == repeating;
            int widens =
                operand->type != type && (converts || operand->type != BOOLEAN) && !is_number;
            /* The first block may be shorter than those after it. */
            ptrdiff_t some = operand->is_repeated ? least(most, to - first) : count;
            /* As it was in the block before, which began with a row, too. */
            int repeats = whole && !converts && !operand->steps[0] && first - from >= row;
            if ((operand->is_repeated && first != from) || repeats)
                continue;
            if (operand->is_plain) {
                x[k] = operand->at + first * SIZE_OF(operand->type);
            } else if (by_rows && (operand->steps[last] == SIZE_OF(operand->type) || is_number)) {
                ptrdiff_t index[MOST_AXES];
                x[k] = place_of(args, operand, first, index);
            } else {
                char *gathered = (widens ? &raw : &rooms[k])->bytes;
                gather_block(args, operand, first, some, gathered);
                x[k] = gathered;
            }
            if (widens)
                x[k] = widen_block(x[k], operand->type, some, type, &between,
                                   converts && stored == type ? y : rooms[k].bytes);
        }
        int narrows = stored != type && stored != BOOLEAN;
        if (by_number >= 0) {
            float number = number_at(x[repeating], args->x[repeating].type);
            number = args->loop == LOOP_subtract && repeating == 1 ? -number : number;
            void *target = narrows ? result.bytes : y;
            NumberArgs with = {.x = x[1 - repeating], .y = target, .number = number};
            TABLE[by_number](0, count, &with);
        } else if (!converts)
            run_on(args, x, narrows ? result.bytes : y, count);
        if (narrows)
            narrow_block(converts ? x[0] : result.bytes, type, count, stored, &between, y);
    }
}
