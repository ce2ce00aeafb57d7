/* Transforms of as many rows as a vector has lanes: every number is a vector, every pass of
 * butterflies is plain vector arithmetic. Included once for each type T, with OF(name) its name
 * and SHORT true where a vector has LANES numbers of it.
 *
 * The passes are Stockham's: each writes its numbers where the next one reads them in order, so
 * that none has to be sorted. */

typedef T OF(Vec) __attribute__((vector_size(VECTOR)));
typedef T OF(Loose) __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias));
#define Vec OF(Vec)
#define Loose OF(Loose)
#define LANES (VECTOR / (int)sizeof(T))

typedef struct {
    Vec re, im;
} OF(Complex);
#define Complex OF(Complex)

/* Between memory and lanes. -------------------------------------------------------------------- */

/* LANES rows of as many numbers, transposed: each round interleaves the first half of the vectors
 * with the second. */
INLINE void OF(transpose)(Vec *v) {
    _Pragma("GCC unroll 4")
    for (int size = LANES; size > 1; size /= 2) {
        Vec old[LANES];
        _Pragma("GCC unroll 16")
        for (int i = 0; i < LANES; i++)
            old[i] = v[i];
        _Pragma("GCC unroll 8")
        for (int i = 0; i < LANES / 2; i++) {
            v[2 * i] = LOW(old[i], old[i + LANES / 2]);
            v[2 * i + 1] = HIGH(old[i], old[i + LANES / 2]);
        }
    }
}

/* Numbers of `count` rows. Row l begins at[l] bytes from x; of its numbers, two and two are
 * pair_step apart, and the second of a pair odd_step from the first. What is `ahead` by so many
 * bytes is read next: rows side by side are not what processors expect. */
typedef struct {
    const char *x;
    ptrdiff_t at[LANES], count, pair_step, odd_step, ahead;
} OF(Rows);
#define Rows OF(Rows)

/* True if all rows are `step` bytes apart, or those of the first and of the second half of the
 * lanes if `halves` are asked for. */
INLINE int OF(are_apart)(const Rows *rows, ptrdiff_t step, int halves) {
    int so = rows->count > 1 && !(halves && rows->count > LANES / 2 && rows->count < LANES);
    for (ptrdiff_t lane = 1; lane < rows->count; lane++)
        so &= rows->at[lane] - rows->at[lane - 1] == step || (halves && lane == LANES / 2);
    return so;
}

INLINE int OF(are_contiguous)(const Rows *rows, ptrdiff_t numbers) {
    return rows->odd_step == sizeof(T) && rows->pair_step == 2 * sizeof(T) && numbers >= LANES;
}

INLINE ptrdiff_t OF(place)(const Rows *rows, ptrdiff_t i) {
    return (i >> 1) * rows->pair_step + (i & 1) * rows->odd_step;
}

/* v[i * step] of number i of all rows; those at odd places times `odd`. */
ONCE static void OF(load)(Vec *v, ptrdiff_t step, const Rows *rows, ptrdiff_t numbers, T odd) {
    ptrdiff_t count = rows->count, ahead = rows->ahead;
    if (OF(are_contiguous)(rows, numbers)) {
        for (ptrdiff_t i = 0; i < numbers; i += LANES) {
            Vec tile[LANES];
            ptrdiff_t from = i + LANES > numbers ? numbers - LANES : i;
            _Pragma("GCC unroll 16")
            for (int lane = 0; lane < LANES; lane++) {
                const char *at = rows->x + rows->at[lane] + from * (ptrdiff_t)sizeof(T);
                tile[lane] = *(const Loose *)at;
                if (ahead)
                    __builtin_prefetch(at + ahead);
            }
            OF(transpose)(tile);
            _Pragma("GCC unroll 16")
            for (int k = 0; k < LANES; k++)
                v[(from + k) * step] = k & 1 ? tile[k] * odd : tile[k];
        }
        return;
    }
    const char *x = rows->x + rows->at[0];
    T part[2 * LANES] = {0};
    if (OF(are_apart)(rows, sizeof(T), 0)) {
        for (ptrdiff_t i = 0; i < numbers; i++) {
            const char *from = x + OF(place)(rows, i);
            if (count < LANES)
                from = memcpy(part, from, (size_t)count * sizeof(T));
            Vec found = *(const Loose *)from;
            v[i * step] = i & 1 ? found * odd : found;
        }
        return;
    }
    int is_complex = rows->odd_step == sizeof(T) && !(numbers & 1);
    if (is_complex && OF(are_apart)(rows, 2 * sizeof(T), 1)) {
        ptrdiff_t second = count < LANES ? 0 : rows->at[LANES / 2] - rows->at[0];
        for (ptrdiff_t i = 0; i < numbers; i += 2) {
            const char *from = x + (i >> 1) * rows->pair_step, *rest = from + second;
            if (ahead) {
                __builtin_prefetch(from + ahead);
                __builtin_prefetch(rest + ahead);
            }
            if (count < LANES) {
                from = memcpy(part, from, 2 * (size_t)count * sizeof(T));
                rest = from + VECTOR;
            }
            Vec a = *(const Loose *)from, b = *(const Loose *)rest;
            v[i * step] = EVEN(a, b);
            v[(i + 1) * step] = ODD(a, b) * odd;
        }
        return;
    }
    if (is_complex) {
        for (ptrdiff_t i = 0; i < numbers; i += 2) {
            const char *from = rows->x + (i >> 1) * rows->pair_step;
            for (ptrdiff_t lane = 0; lane < LANES; lane++)
                memcpy(part + 2 * lane, from + rows->at[lane], 2 * sizeof(T));
            Vec a = *(const Loose *)part, b = *(const Loose *)(part + LANES);
            v[i * step] = EVEN(a, b);
            v[(i + 1) * step] = ODD(a, b) * odd;
        }
        return;
    }
    for (ptrdiff_t i = 0; i < numbers; i++) {
        const char *from = rows->x + OF(place)(rows, i);
        for (ptrdiff_t lane = 0; lane < LANES; lane++)
            part[lane] = *(const T *)(from + rows->at[lane]);
        v[i * step] = *(const Loose *)part * (i & 1 ? odd : 1);
    }
}

/* The way back: those at even places times `even`. */
ONCE static void OF(store)(const Vec *v, ptrdiff_t step, const Rows *rows, ptrdiff_t numbers,
                           T even, T odd) {
    ptrdiff_t count = rows->count;
    char *y = (char *)rows->x;
    if (OF(are_contiguous)(rows, numbers)) {
        for (ptrdiff_t i = 0; i < numbers; i += LANES) {
            Vec tile[LANES];
            ptrdiff_t from = i + LANES > numbers ? numbers - LANES : i;
            _Pragma("GCC unroll 16")
            for (int k = 0; k < LANES; k++)
                tile[k] = v[(from + k) * step] * ((from + k) & 1 ? odd : even);
            OF(transpose)(tile);
            _Pragma("GCC unroll 16")
            for (int lane = 0; lane < LANES; lane++)
                if (lane < count)
                    *(Loose *)(y + rows->at[lane] + from * (ptrdiff_t)sizeof(T)) = tile[lane];
        }
        return;
    }
    y += rows->at[0];
    T part[2 * LANES];
    if (OF(are_apart)(rows, sizeof(T), 0)) {
        for (ptrdiff_t i = 0; i < numbers; i++) {
            char *to = y + OF(place)(rows, i);
            Vec found = v[i * step] * (i & 1 ? odd : even);
            *(Loose *)(count < LANES ? (char *)part : to) = found;
            if (count < LANES)
                memcpy(to, part, (size_t)count * sizeof(T));
        }
        return;
    }
    if (rows->odd_step == sizeof(T) && !(numbers & 1)) {
        int halves = OF(are_apart)(rows, 2 * sizeof(T), 1);
        ptrdiff_t second = count < LANES ? 0 : rows->at[LANES / 2] - rows->at[0];
        for (ptrdiff_t i = 0; i < numbers; i += 2) {
            char *to = y + (i >> 1) * rows->pair_step;
            Vec a = v[i * step] * even, b = v[(i + 1) * step] * odd;
            if (halves && count == LANES) {
                *(Loose *)to = LOW(a, b);
                *(Loose *)(to + second) = HIGH(a, b);
                continue;
            }
            *(Loose *)part = LOW(a, b);
            *(Loose *)(part + LANES) = HIGH(a, b);
            if (halves)
                memcpy(to, part, 2 * (size_t)count * sizeof(T));
            else
                for (ptrdiff_t lane = 0; lane < count; lane++)
                    memcpy(to + rows->at[lane] - rows->at[0], part + 2 * lane, 2 * sizeof(T));
        }
        return;
    }
    for (ptrdiff_t i = 0; i < numbers; i++) {
        *(Loose *)part = v[i * step] * (i & 1 ? odd : even);
        char *to = (char *)rows->x + OF(place)(rows, i);
        for (ptrdiff_t lane = 0; lane < count; lane++)
            *(T *)(to + rows->at[lane]) = part[lane];
    }
}

/* Butterflies. --------------------------------------------------------------------------------- */

INLINE Complex OF(plus)(Complex a, Complex b) { return (Complex){a.re + b.re, a.im + b.im}; }
INLINE Complex OF(minus)(Complex a, Complex b) { return (Complex){a.re - b.re, a.im - b.im}; }
/* a - i b and a + i b. */
INLINE Complex OF(back)(Complex a, Complex b) { return (Complex){a.re + b.im, a.im - b.re}; }
INLINE Complex OF(ahead)(Complex a, Complex b) { return (Complex){a.re - b.im, a.im + b.re}; }
INLINE Complex OF(scaled)(Complex a, T by) { return (Complex){a.re * by, a.im * by}; }
/* a times the number at w. */
INLINE Complex OF(turned)(Complex a, const T *w) {
    return (Complex){a.re * w[0] - a.im * w[1], a.re * w[1] + a.im * w[0]};
}
INLINE Complex OF(product)(Complex a, Complex b) {
    return (Complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
#define PLUS OF(plus)
#define MINUS OF(minus)
#define BACK OF(back)
#define AHEAD_BY OF(ahead)
#define SCALED OF(scaled)
/* Writes number k. Those of the first of the transforms that remain are not turned. */
#define PUT(k, value) y[(k) * seen] = turns ? OF(turned)(value, turns + 2 * (k) - 2) : (value)

/* The butterflies of `seen` transforms that are side by side: x[j * step] is number j of the first
 * of them. */
#define BUTTERFLIES(radix)                                                                         \
    INLINE void OF(butterflies_##radix)(const Complex *restrict x, ptrdiff_t step,                 \
                                        Complex *restrict y, ptrdiff_t seen, const T *turns)

BUTTERFLIES(2) {
    for (ptrdiff_t q = 0; q < seen; q++, x++, y++) {
        Complex a = x[0], b = x[step];
        y[0] = PLUS(a, b);
        PUT(1, MINUS(a, b));
    }
}

BUTTERFLIES(3) {
    for (ptrdiff_t q = 0; q < seen; q++, x++, y++) {
        Complex a = x[0], b = x[step], c = x[2 * step];
        Complex sum = PLUS(b, c), difference = SCALED(MINUS(b, c), (T)0.86602540378443864676);
        Complex middle = MINUS(a, SCALED(sum, (T)0.5));
        y[0] = PLUS(a, sum);
        PUT(1, BACK(middle, difference));
        PUT(2, AHEAD_BY(middle, difference));
    }
}

BUTTERFLIES(4) {
    for (ptrdiff_t q = 0; q < seen; q++, x++, y++) {
        Complex a = x[0], b = x[step], c = x[2 * step], d = x[3 * step];
        Complex ac = PLUS(a, c), bd = PLUS(b, d), a_c = MINUS(a, c), b_d = MINUS(b, d);
        y[0] = PLUS(ac, bd);
        PUT(1, BACK(a_c, b_d));
        PUT(2, MINUS(ac, bd));
        PUT(3, AHEAD_BY(a_c, b_d));
    }
}

#if VECTOR == 64
/* Fewer passes over the numbers, where there are registers for it. */
BUTTERFLIES(8) {
    for (ptrdiff_t q = 0; q < seen; q++, x++, y++) {
        const T diagonal = (T)0.70710678118654752440;
        Complex a = PLUS(x[0], x[4 * step]), a_ = MINUS(x[0], x[4 * step]);
        Complex b = PLUS(x[step], x[5 * step]), b_ = MINUS(x[step], x[5 * step]);
        Complex c = PLUS(x[2 * step], x[6 * step]), c_ = MINUS(x[2 * step], x[6 * step]);
        Complex d = PLUS(x[3 * step], x[7 * step]), d_ = MINUS(x[3 * step], x[7 * step]);
        Complex ac = PLUS(a, c), bd = PLUS(b, d), a_c = MINUS(a, c), b_d = MINUS(b, d);
        y[0] = PLUS(ac, bd);
        PUT(2, BACK(a_c, b_d));
        PUT(4, MINUS(ac, bd));
        PUT(6, AHEAD_BY(a_c, b_d));
        Complex e = SCALED(((Complex){b_.re + b_.im, b_.im - b_.re}), diagonal);
        Complex f = SCALED(((Complex){d_.im - d_.re, -d_.im - d_.re}), diagonal);
        Complex near = BACK(a_, c_), far = AHEAD_BY(a_, c_), ef = PLUS(e, f), e_f = MINUS(e, f);
        PUT(1, PLUS(near, ef));
        PUT(3, BACK(far, e_f));
        PUT(5, MINUS(near, ef));
        PUT(7, AHEAD_BY(far, e_f));
    }
}
#endif

BUTTERFLIES(5) {
    const T cos1 = (T)0.30901699437494742410, cos2 = (T)-0.80901699437494742410,
            sin1 = (T)0.95105651629515357212, sin2 = (T)0.58778525229247312917;
    for (ptrdiff_t q = 0; q < seen; q++, x++, y++) {
        Complex a = x[0], b = x[step], c = x[2 * step], d = x[3 * step], e = x[4 * step];
        Complex be = PLUS(b, e), cd = PLUS(c, d), b_e = MINUS(b, e), c_d = MINUS(c, d);
        Complex near = PLUS(a, PLUS(SCALED(be, cos1), SCALED(cd, cos2)));
        Complex far = PLUS(a, PLUS(SCALED(be, cos2), SCALED(cd, cos1)));
        Complex near_side = PLUS(SCALED(b_e, sin1), SCALED(c_d, sin2));
        Complex far_side = MINUS(SCALED(b_e, sin2), SCALED(c_d, sin1));
        y[0] = PLUS(a, PLUS(be, cd));
        PUT(1, BACK(near, near_side));
        PUT(2, BACK(far, far_side));
        PUT(3, AHEAD_BY(far, far_side));
        PUT(4, AHEAD_BY(near, near_side));
    }
}

/* An odd radix r by its cosines and sines, for two pairs of results k and r - k at a time. */
static void OF(butterflies_odd)(const Complex *restrict x, ptrdiff_t step, Complex *restrict y,
                                ptrdiff_t seen, const T *turns, ptrdiff_t radix, const T *roots) {
    ptrdiff_t half = radix / 2;
    Complex sums[MOST_RADIX / 2], differences[MOST_RADIX / 2];
    for (ptrdiff_t q = 0; q < seen; q++, x++, y++) {
        Complex first = x[0], total = first;
        for (ptrdiff_t j = 1; j <= half; j++) {
            Complex a = x[j * step], b = x[(radix - j) * step];
            sums[j - 1] = PLUS(a, b);
            differences[j - 1] = MINUS(a, b);
            total = PLUS(total, sums[j - 1]);
        }
        y[0] = total;
        for (ptrdiff_t k = 1; k <= half; k += 2) {
            /* The last of an odd number is computed twice. */
            ptrdiff_t other = k < half ? k + 1 : k;
            const T *c = roots + 2 * (k - 1) * half, *d = roots + 2 * (other - 1) * half;
            Complex even1 = first, even2 = first, odd1 = {(Vec){0}, (Vec){0}}, odd2 = odd1;
            for (ptrdiff_t j = 0; j < half; j++, c += 2, d += 2) {
                even1 = PLUS(even1, SCALED(sums[j], c[0]));
                odd1 = PLUS(odd1, SCALED(differences[j], c[1]));
                even2 = PLUS(even2, SCALED(sums[j], d[0]));
                odd2 = PLUS(odd2, SCALED(differences[j], d[1]));
            }
            PUT(k, BACK(even1, odd1));
            PUT(radix - k, AHEAD_BY(even1, odd1));
            PUT(other, BACK(even2, odd2));
            PUT(radix - other, AHEAD_BY(even2, odd2));
        }
    }
}

/* The transforms of all lanes, from a with the help of b; returns which of them has the results. */
static Complex *OF(transform)(const FourierPlan *plan, Complex *a, Complex *b) {
#define PASSES(radix)                                                                              \
    case radix:                                                                                    \
        OF(butterflies_##radix)(a, step, b, seen, NULL);                                           \
        for (ptrdiff_t p = 1; p < rest; p++)                                                       \
            OF(butterflies_##radix)(a + p * seen, step, b + p * seen * radix, seen,                \
                                    turns + p * 2 * (radix - 1));                                  \
        break;
    for (int i = 0; i < plan->passes; i++) {
        const FourierPass *pass = plan->pass + i;
        ptrdiff_t r = pass->radix, rest = pass->rest, seen = pass->seen, step = rest * seen;
        const T *turns = pass->turns;
        switch (r) {
            PASSES(2)
            PASSES(3)
            PASSES(4)
            PASSES(5)
#if VECTOR == 64
            PASSES(8)
#endif
        default:
            for (ptrdiff_t p = 0; p < rest; p++)
                OF(butterflies_odd)(a + p * seen, step, b + p * seen * r, seen,
                                    p ? turns + p * 2 * (r - 1) : NULL, r, pass->roots);
        }
        Complex *other = a;
        a = b, b = other;
    }
    return a;
#undef PASSES
}

/* Pairs of real numbers. ----------------------------------------------------------------------- */

/* Numbers k and m - k, a and b, of the transform of m pairs become those of the 2 m numbers; w is
 * the root of unity to the power k. */
INLINE void OF(split)(Complex *a, Complex *b, Complex w) {
    Complex even = SCALED(((Complex){a->re + b->re, a->im - b->im}), (T)0.5);
    Complex odd = SCALED(((Complex){a->im + b->im, b->re - a->re}), (T)0.5);
    odd = OF(product)(odd, w);
    *a = PLUS(even, odd);
    *b = (Complex){even.re - odd.re, odd.im - even.im};
}

/* The way back, to the conjugates of the transform of the pairs, twice as large. */
INLINE void OF(join)(Complex *a, Complex *b, Complex w) {
    Complex even = {a->re + b->re, a->im - b->im};
    Complex odd = OF(product)((Complex){a->re - b->re, a->im + b->im}, (Complex){w.re, -w.im});
    *a = (Complex){even.re - odd.im, -even.im - odd.re};
    *b = (Complex){even.re + odd.im, even.im - odd.re};
}

INLINE Complex OF(everywhere)(T re, T im) { return (Complex){(Vec){0} + re, (Vec){0} + im}; }

/* Both for all numbers of the rows of all lanes. */
ONCE static void OF(split_all)(Complex *z, ptrdiff_t m, const T *halves) {
    Complex first = z[0];
    z[0] = (Complex){first.re + first.im, (Vec){0}};
    z[m] = (Complex){first.re - first.im, (Vec){0}};
    for (ptrdiff_t k = 1; 2 * k <= m; k++) {
        Complex a = z[k], b = z[m - k];
        OF(split)(&a, &b, OF(everywhere)(halves[2 * k], halves[2 * k + 1]));
        z[k] = a, z[m - k] = b;
    }
}

ONCE static void OF(join_all)(Complex *z, ptrdiff_t m, const T *halves) {
    Vec first = z[0].re, last = z[m].re;
    z[0] = (Complex){first + last, last - first};
    for (ptrdiff_t k = 1; 2 * k <= m; k++) {
        Complex a = z[k], b = z[m - k];
        OF(join)(&a, &b, OF(everywhere)(halves[2 * k], halves[2 * k + 1]));
        z[k] = a, z[m - k] = b;
    }
}

/* As many numbers of a contiguous row as lanes, in order, or backwards. */
INLINE Complex OF(read)(const T *x, int backwards) {
    Vec a = *(const Loose *)x, b = *(const Loose *)(x + LANES);
    Complex z = {EVEN(a, b), ODD(a, b)};
    return backwards ? (Complex){REVERSE(z.re), REVERSE(z.im)} : z;
}

INLINE void OF(write)(T *y, Complex z, int backwards) {
    if (backwards)
        z = (Complex){REVERSE(z.re), REVERSE(z.im)};
    *(Loose *)y = LOW(z.re, z.im);
    *(Loose *)(y + LANES) = HIGH(z.re, z.im);
}

/* Both for the numbers k and m - k of a contiguous row x, from k = 1 on, as long as they fill two
 * vectors; `joins` or splits, and multiplies the parts that are read or written. Returns the first
 * k that is left. */
ONCE static ptrdiff_t OF(pairs_of_row)(const FourierPlan *plan, const T *x, T *y, int joins, T re,
                                       T im) {
    ptrdiff_t m = plan->n, k = 1;
    double c, s;
    Complex lanes;
    for (int lane = 0; lane < LANES; lane++) {
        root_of(plan, lane % plan->roots_of, &c, &s);
        lanes.re[lane] = (T)c, lanes.im[lane] = (T)s;
    }
    for (; 2 * (k + LANES - 1) < m; k += LANES) {
        ptrdiff_t far = m - k - LANES + 1;
        root_of(plan, k, &c, &s);
        Complex a = OF(read)(x + 2 * k, 0), b = OF(read)(x + 2 * far, 1);
        Complex w = OF(product)(lanes, OF(everywhere)((T)c, (T)s));
        if (joins) {
            a.im *= im, b.im *= im;
            OF(join)(&a, &b, w);
        } else {
            OF(split)(&a, &b, w);
            a.re *= re, a.im *= im, b.re *= re, b.im *= im;
        }
        OF(write)(y + 2 * k, a, 0);
        OF(write)(y + 2 * far, b, 1);
    }
    return k;
}
