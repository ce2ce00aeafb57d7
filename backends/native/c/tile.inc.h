/* Tiles of matrix products. All products are made of them, also in convolutions and recurrent
 * networks.
 *
 * As in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), a tile
 * of c stays in registers while rows of a and columns of b stream by. But a is read in place
 * wherever that is as fast as reading a copy: the windows of a convolution are overlapping rows of
 * a. BLAS spends half of its time on copies if b has few columns, and has no overlapping rows. */
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
#define WIDTH 16
#define VECTORS 2
#define TILE_ROWS 12
#elif defined(__AVX2__)
#define WIDTH 8
#define VECTORS 2
#define TILE_ROWS 6
#elif defined(__aarch64__)
#define WIDTH 4
#define VECTORS 3
#define TILE_ROWS 8
#else
#define WIDTH 4
#define VECTORS 3
#define TILE_ROWS 4
#endif
#define TILE_COLUMNS (WIDTH * VECTORS)
/* Floats between what a row of b is asked for ahead: a line of the cache where a tile is one line
 * wide, which brings the next strip's too. */
#define AHEAD (TILE_COLUMNS == 16 ? 16 : WIDTH)

/* Terms that are added before c is written: a strip of b of this many rows, as wide as a tile,
 * takes at most 32 KiB of the first-level cache, and 24 KiB where that cache has only 32. */
#if defined(__AVX2__) && !defined(__AVX512F__)
#define DEPTH 384
#else
#define DEPTH 256
#endif

typedef float Vec __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

/* The terms of a tile: `groups` groups of `runs` runs of `length`. Row i of a begins at line[i];
 * its groups are `leap` apart, its runs `skip`, and its elements 1. Where `transposed`, rows are 1
 * apart instead, and elements `step`. Rows of b follow each other, `step_b` apart, through all of
 * it. */
typedef struct {
    const float *line[TILE_ROWS];
    ptrdiff_t length, runs, skip, groups, leap, step;
    const float *b;
    ptrdiff_t step_b;
    float *keep;       /* receives a copy of b as it is read, rows TILE_COLUMNS apart; or NULL */
    const float *bias; /* a row that is added in place of what c holds, where c is added; or NULL */
} Terms;

/* Writes the first columns of a tile, or their sums with `base`. Not inlined: it is the greater
 * part of a tile's code, and the rarer one. */
__attribute__((noinline)) static void write_part(const float *held, ptrdiff_t rows, float *c,
                                                 ptrdiff_t step_c, ptrdiff_t columns,
                                                 const float *base, ptrdiff_t step_base) {
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t j = 0; j < columns; j++) {
            float own = held[i * TILE_COLUMNS + j];
            c[i * step_c + j] = base ? base[i * step_base + j] + own : own;
        }
}

/* Writes or adds a tile of `rows` rows and `columns` columns, held in `vectors` vectors, to c.
 * The first four are constants wherever this is called. */
INLINE void tile(const int rows, const int vectors, const int transposed, const int keeps,
                 const Terms *terms, float *c, ptrdiff_t step_c, ptrdiff_t columns, int add) {
    Vec sum[TILE_ROWS][VECTORS];
    const float *line[TILE_ROWS], *b = terms->b;
    const ptrdiff_t length = terms->length, step = terms->step, step_b = terms->step_b;
    float *keep = terms->keep;
    _Pragma("GCC unroll 16")
    for (int i = 0; i < rows; i++) {
        line[i] = terms->line[i];
        __builtin_prefetch(c + i * step_c, 1);
        __builtin_prefetch(c + i * step_c + columns - 1, 1);
        _Pragma("GCC unroll 4")
        for (int v = 0; v < vectors; v++)
            sum[i][v] = (Vec){0};
    }
    for (ptrdiff_t run = 0, left_of_group = terms->runs; run < terms->runs * terms->groups; run++) {
        const float *a = line[0];
        for (ptrdiff_t k = 0; k < length; k++) {
            Vec right[VECTORS];
            _Pragma("GCC unroll 4")
            for (int v = 0; v < vectors; v++) {
                right[v] = *(const Vec *)(b + v * WIDTH);
                if (keeps) {
                    *(Vec *)(keep + v * WIDTH) = right[v];
                    __builtin_prefetch(b + v * AHEAD + 12 * step_b);
                }
            }
            _Pragma("GCC unroll 16")
            for (int i = 0; i < rows; i++) {
                float left = transposed ? a[i] : line[i][k];
                _Pragma("GCC unroll 4")
                for (int v = 0; v < vectors; v++)
                    sum[i][v] += left * right[v];
            }
            b += step_b;
            keep += keeps ? TILE_COLUMNS : 0;
            a += transposed ? step : 0;
        }
        ptrdiff_t further =
            --left_of_group ? terms->skip : terms->leap - (terms->runs - 1) * terms->skip;
        left_of_group = left_of_group ? left_of_group : terms->runs;
        _Pragma("GCC unroll 16")
        for (int i = 0; i < rows; i++)
            line[i] += further;
    }
    const float *base = terms->bias ? terms->bias : c;
    const ptrdiff_t step_base = terms->bias ? 0 : step_c;
    if (columns == vectors * WIDTH) {
        _Pragma("GCC unroll 16")
        for (int i = 0; i < rows; i++) {
            _Pragma("GCC unroll 4")
            for (int v = 0; v < vectors; v++) {
                Vec *target = (Vec *)(c + i * step_c + v * WIDTH);
                if (add)
                    sum[i][v] += *(const Vec *)(base + i * step_base + v * WIDTH);
                *target = sum[i][v];
            }
        }
    } else {
        Vec held[TILE_ROWS][VECTORS];
        _Pragma("GCC unroll 16")
        for (int i = 0; i < rows; i++) {
            _Pragma("GCC unroll 4")
            for (int v = 0; v < vectors; v++)
                held[i][v] = sum[i][v];
        }
        write_part((const float *)held, rows, c, step_c, columns, add ? base : NULL, step_base);
    }
}

#define TILE_ARGUMENTS const Terms *terms, float *c, ptrdiff_t step_c, ptrdiff_t columns, int add
/* clang-format off */
#define TILE_CASE(n)                                                                              \
    case n:                                                                                       \
        tile(n, vectors, transposed, 0, terms, c, step_c, columns, add);                          \
        break;

INLINE void tile_of(const int vectors, const int transposed, int rows, TILE_ARGUMENTS) {
    switch (rows) {
        TILE_CASE(1) TILE_CASE(2) TILE_CASE(3)
#if TILE_ROWS > 4
        TILE_CASE(4) TILE_CASE(5)
#endif
#if TILE_ROWS > 6
        TILE_CASE(6) TILE_CASE(7)
#endif
#if TILE_ROWS > 8
        TILE_CASE(8) TILE_CASE(9) TILE_CASE(10) TILE_CASE(11)
#endif
    default:
        if (terms->keep && vectors == VECTORS)
            tile(TILE_ROWS, vectors, transposed, 1, terms, c, step_c, columns, add);
        else
            tile(TILE_ROWS, vectors, transposed, 0, terms, c, step_c, columns, add);
    }
}
/* clang-format on */

#define TILE_FUNCTION(name, vectors, transposed)                                                   \
    __attribute__((noinline)) static void name(int rows, TILE_ARGUMENTS) {                         \
        tile_of(vectors, transposed, rows, terms, c, step_c, columns, add);                        \
    }
TILE_FUNCTION(tile_1, 1, 0)
TILE_FUNCTION(tile_1_transposed, 1, 1)
TILE_FUNCTION(tile_2, 2, 0)
TILE_FUNCTION(tile_2_transposed, 2, 1)
#if VECTORS > 2
TILE_FUNCTION(tile_3, 3, 0)
TILE_FUNCTION(tile_3_transposed, 3, 1)
#endif

/* True if a tile of this size uses `terms->keep`: only full tiles do. */
static inline int keeps(ptrdiff_t rows, ptrdiff_t columns) {
    return rows >= TILE_ROWS && columns == TILE_COLUMNS;
}

/* A tile of any size. */
static inline void any_tile(int transposed, ptrdiff_t rows, TILE_ARGUMENTS) {
    void (*function)(int, TILE_ARGUMENTS) = transposed ? tile_2_transposed : tile_2;
    if (columns <= WIDTH)
        function = transposed ? tile_1_transposed : tile_1;
#if VECTORS > 2
    if (columns > 2 * WIDTH)
        function = transposed ? tile_3_transposed : tile_3;
#endif
    function((int)rows, terms, c, step_c, columns, add);
}

/* True if x has neither infinities nor NaN. Not inlined: the loops around tiles need their
 * registers. */
__attribute__((noinline)) static int are_finite(const float *x, ptrdiff_t count) {
    float nothing = 0.0f;
    _Pragma("omp simd reduction(+ : nothing)")
    for (ptrdiff_t i = 0; i < count; i++)
        nothing += x[i] * 0.0f;
    return nothing == 0.0f;
}

static inline ptrdiff_t least(ptrdiff_t x, ptrdiff_t y) { return x < y ? x : y; }

/* Memory for `count` numbers that begins at a cache line, for a vector in two lines costs two
 * reads. NULL if there is no memory. */
#define ON_A_LINE __attribute__((aligned(64)))
static inline float *room_for(ptrdiff_t count) {
    return aligned_alloc(64, ((size_t)count * sizeof(float) + 127) / 64 * 64);
}

/* Copies. ----------------------------------------------------------------------------------- */

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
#if defined(__clang__) || __GNUC__ >= 12
#define MIX(x, y, a, b, c, d) __builtin_shufflevector(x, y, a, b, c, d)
#define MIX_EIGHT(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
typedef int Places __attribute__((vector_size(16)));
#define MIX(x, y, a, b, c, d) __builtin_shuffle(x, y, (Places){a, b, c, d})
typedef int EightPlaces __attribute__((vector_size(32)));
#define MIX_EIGHT(x, y, ...) __builtin_shuffle(x, y, (EightPlaces){__VA_ARGS__})
#endif

/* out[k * wide + i] = in[i * step + k] for 4 rows i and 4 columns k. */
static inline void transpose_4(const float *in, ptrdiff_t step, float *out, ptrdiff_t wide) {
    Four a = *(const Four *)in, b = *(const Four *)(in + step);
    Four c = *(const Four *)(in + 2 * step), d = *(const Four *)(in + 3 * step);
    Four ab = MIX(a, b, 0, 4, 1, 5), cd = MIX(c, d, 0, 4, 1, 5);
    *(Four *)out = MIX(ab, cd, 0, 1, 4, 5);
    *(Four *)(out + wide) = MIX(ab, cd, 2, 3, 6, 7);
    ab = MIX(a, b, 2, 6, 3, 7), cd = MIX(c, d, 2, 6, 3, 7);
    *(Four *)(out + 2 * wide) = MIX(ab, cd, 0, 1, 4, 5);
    *(Four *)(out + 3 * wide) = MIX(ab, cd, 2, 3, 6, 7);
}

#if WIDTH >= 8
typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));

/* out[k * wide + i] = in[i * step + k] for 8 rows i and 8 columns k: pairs of rows are interleaved,
 * then pairs of pairs, then halves. */
static inline void transpose_8(const float *in, ptrdiff_t step, float *out, ptrdiff_t wide) {
    Eight x[8], y[8];
    _Pragma("GCC unroll 8")
    for (int i = 0; i < 8; i++)
        x[i] = *(const Eight *)(in + i * step);
    _Pragma("GCC unroll 8")
    for (int i = 0; i < 8; i += 2) {
        y[i] = MIX_EIGHT(x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        y[i + 1] = MIX_EIGHT(x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    _Pragma("GCC unroll 8")
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            x[i + 2 * j] = MIX_EIGHT(y[i + j], y[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            x[i + 2 * j + 1] = MIX_EIGHT(y[i + j], y[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    _Pragma("GCC unroll 8")
    for (int k = 0; k < 4; k++) {
        *(Eight *)(out + k * wide) = MIX_EIGHT(x[k], x[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(Eight *)(out + (k + 4) * wide) = MIX_EIGHT(x[k], x[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
#endif

/* out[k * wide + i] = x[i * row + k] for `count` i and `inner` k, in blocks of n rows. */
#define TRANSPOSE_BY(n)                                                                            \
    static void transpose_by_##n(const float *x, ptrdiff_t row, ptrdiff_t count, ptrdiff_t inner,  \
                                 ptrdiff_t wide, float *out) {                                     \
        for (ptrdiff_t i = 0; i < count; i += n) {                                                 \
            ptrdiff_t k = 0;                                                                       \
            i = least(i, count - n); /* the last block may overlap the one before */               \
            for (; k + n <= inner; k += n)                                                         \
                transpose_##n(x + i * row + k, row, out + k * wide + i, wide);                     \
            for (ptrdiff_t j = i; j < i + n; j += 4) {                                             \
                ptrdiff_t l = k;                                                                   \
                for (; l + 4 <= inner; l += 4)                                                     \
                    transpose_4(x + j * row + l, row, out + l * wide + j, wide);                   \
                for (; l < inner; l++)                                                             \
                    for (ptrdiff_t m = j; m < j + 4; m++)                                          \
                        out[l * wide + m] = x[m * row + l];                                        \
            }                                                                                      \
        }                                                                                          \
    }
TRANSPOSE_BY(4)
#if WIDTH >= 8
TRANSPOSE_BY(8)
#endif

/* out[k * wide + i] = x[i * row + k * column] for `count` i and `inner` k. */
static void copy_panel(const float *x, ptrdiff_t row, ptrdiff_t column, ptrdiff_t count,
                       ptrdiff_t inner, ptrdiff_t wide, float *out) {
    ptrdiff_t i = 0;
    if (row == 1 && count < 4 * WIDTH) {
        /* A call of memcpy would take longer than such a copy. */
        const ptrdiff_t fours = count / 4 * 4;
        for (ptrdiff_t k = 0; k < inner; k++) {
            const float *from = x + k * column;
            float *to = out + k * wide;
            for (i = 0; i < fours; i += 4)
                *(Four *)(to + i) = *(const Four *)(from + i);
            for (; i < count; i++)
                to[i] = from[i];
        }
        i = count;
    } else if (row == 1) {
        for (ptrdiff_t k = 0; k < inner; k++)
            memcpy(out + k * wide, x + k * column, (size_t)count * sizeof(float));
        i = count;
#if WIDTH >= 8
    } else if (column == 1 && count >= 8) {
        transpose_by_8(x, row, i = count, inner, wide, out);
#endif
    } else if (column == 1 && count >= 4) {
        transpose_by_4(x, row, i = count, inner, wide, out);
    }
    for (; i < count; i++)
        for (ptrdiff_t k = 0; k < inner; k++)
            out[k * wide + i] = x[i * row + k * column];
}

/* The i from `count` up to `wide` are 0, for `inner` k. */
static void clear_panel(ptrdiff_t count, ptrdiff_t inner, ptrdiff_t wide, float *out) {
    for (ptrdiff_t k = 0; count < wide && k < inner; k++)
        for (ptrdiff_t i = count; i < wide; i++)
            out[k * wide + i] = 0.0f;
}

/* Both. */
static void pack_panel(const float *x, ptrdiff_t row, ptrdiff_t column, ptrdiff_t count,
                       ptrdiff_t inner, ptrdiff_t wide, float *out) {
    copy_panel(x, row, column, count, inner, wide, out);
    clear_panel(count, inner, wide, out);
}

/* The tiles of x of (rows, inner), one after the other; in each the elements (i, k) at k *
 * TILE_ROWS + i. */
static void pack_tiles(const float *x, ptrdiff_t row, ptrdiff_t column, ptrdiff_t rows,
                       ptrdiff_t inner, float *out) {
    ptrdiff_t first = 0;
    if (row == 1) {
        first = rows - rows % TILE_ROWS;
        for (ptrdiff_t k = 0; k < inner; k++)
            for (ptrdiff_t i = 0; i < first; i += TILE_ROWS)
                memcpy(out + i * inner + k * TILE_ROWS, x + i + k * column,
                       TILE_ROWS * sizeof(float));
    }
    for (ptrdiff_t i = first; i < rows; i += TILE_ROWS)
        pack_panel(x + i * row, row, column, least(TILE_ROWS, rows - i), inner, TILE_ROWS,
                   out + i * inner);
}
