/* The k largest or smallest elements of rows, in order, with their positions.
 *
 * Elements are compared by keys, unsigned numbers in the order of the elements: both zeros have
 * one, and NaN the largest. Equal elements keep their order. */

#define KEY_BLOCK 64

INLINE uint32_t key_float32(float x) {
    uint32_t bits = (uint32_t)as_bits(x), sign = 0x80000000u;
    uint32_t key = bits & sign ? ~bits : bits | sign;
    key = x == 0.0f ? sign : key;
    return x != x ? UINT32_MAX : key;
}

INLINE uint64_t key_float64(double x) {
    uint64_t bits, sign = (uint64_t)1 << 63;
    __builtin_memcpy(&bits, &x, 8);
    uint64_t key = bits & sign ? ~bits : bits | sign;
    key = x == 0.0 ? sign : key;
    return x != x ? UINT64_MAX : key;
}

INLINE uint32_t key_int32(int32_t x) { return (uint32_t)x ^ 0x80000000u; }
INLINE uint64_t key_int64(int64_t x) { return (uint64_t)x ^ (uint64_t)1 << 63; }

#define TOP(type, T, Key)                                                                          \
    LOOP(top_##type, TopArgs) {                                                                    \
        ptrdiff_t n = args->n, k = args->k;                                                        \
        /* Of the smallest, the complement of a key is the largest. */                             \
        Key keys[MOST_SELECTED], turn = args->largest ? 0 : (Key) - 1;                             \
        for (ptrdiff_t row = from; row < to; row++) {                                              \
            const T *x = (const T *)args->x + row * n;                                             \
            T *values = (T *)args->values + row * k;                                               \
            int64_t *places = args->indices + row * k;                                             \
            ptrdiff_t held = 0;                                                                    \
            for (ptrdiff_t begin = 0; begin < n; begin += KEY_BLOCK) {                             \
                ptrdiff_t end = n - begin < KEY_BLOCK ? n : begin + KEY_BLOCK;                     \
                if (held == k && end - begin == KEY_BLOCK) {                                       \
                    Key least = keys[k - 1], any = 0;                                              \
                    _Pragma("omp simd reduction(| : any)")                                         \
                    for (ptrdiff_t at = 0; at < KEY_BLOCK; at++)                                   \
                        any |= (Key)((key_##type(x[begin + at]) ^ turn) > least);                  \
                    if (!any)                                                                      \
                        continue;                                                                  \
                }                                                                                  \
                for (ptrdiff_t at = begin; at < end; at++) {                                       \
                    Key key = key_##type(x[at]) ^ turn;                                            \
                    if (held == k && key <= keys[k - 1])                                           \
                        continue;                                                                  \
                    ptrdiff_t place = held < k ? held++ : k - 1;                                   \
                    for (; place && keys[place - 1] < key; place--) {                              \
                        keys[place] = keys[place - 1];                                             \
                        places[place] = places[place - 1];                                         \
                    }                                                                              \
                    keys[place] = key;                                                             \
                    places[place] = at;                                                            \
                }                                                                                  \
            }                                                                                      \
            for (ptrdiff_t at = 0; at < k; at++)                                                   \
                values[at] = x[places[at]];                                                        \
        }                                                                                          \
    }

TOP(float32, float, uint32_t)
TOP(float64, double, uint64_t)
TOP(int32, int32_t, uint32_t)
TOP(int64, int64_t, uint64_t)
