/* The loops of Fourier transforms, for the type T of lanes.inc.h. */

/* Rows of so many numbers are asked for before they are read or written. */
#define AHEAD_OF_TIME 256

/* The rows from `first` on that fill the lanes: where they begin in x and in y. The lanes beyond
 * the last row have what the last one has. */
ONCE static void OF(find_rows)(const FourierArgs *args, ptrdiff_t first, Rows *x, Rows *y) {
    ptrdiff_t at[MOST_AXES], axes = args->axes, count = args->rows - first;
    ptrdiff_t x_at = 0, y_at = 0;
    for (ptrdiff_t axis = axes - 1, rest = first; axis >= 0; axis--) {
        at[axis] = rest % args->shape[axis];
        rest /= args->shape[axis];
        x_at += at[axis] * args->x_steps[axis];
        y_at += at[axis] * args->y_steps[axis];
    }
    x->x = args->x, y->x = args->y;
    int is_short = args->n <= AHEAD_OF_TIME && count >= 2 * LANES;
    x->ahead = is_short && axes ? LANES * args->x_steps[axes - 1] : 0;
    x->count = y->count = count < LANES ? count : LANES;
    if (axes && at[axes - 1] + LANES <= args->shape[axes - 1]) {
        for (ptrdiff_t lane = 0; lane < LANES; lane++) {
            x->at[lane] = x_at + lane * args->x_steps[axes - 1];
            y->at[lane] = y_at + lane * args->y_steps[axes - 1];
        }
        return;
    }
    for (ptrdiff_t lane = 0; lane < LANES; lane++) {
        x->at[lane] = x_at, y->at[lane] = y_at;
        if (lane + 1 >= count)
            continue;
        for (ptrdiff_t axis = axes - 1; axis >= 0; axis--) {
            x_at += args->x_steps[axis], y_at += args->y_steps[axis];
            if (++at[axis] < args->shape[axis])
                break;
            x_at -= at[axis] * args->x_steps[axis], y_at -= at[axis] * args->y_steps[axis];
            at[axis] = 0;
        }
    }
}

/* Infinities and NaN spread as in NumPy's kernel, which does the call again: the first number of a
 * result, a sum of all, shows them. */
INLINE void OF(check)(const Complex *z, ptrdiff_t count, int32_t *status) {
    Vec lost = (z->re - z->re) + (z->im - z->im);
    for (ptrdiff_t lane = 0; lane < count; lane++)
        if (lost[lane] != 0)
            set_status(status, NOT_FINITE);
}

/* Numbers i of complex rows, `step` bytes apart. */
INLINE void OF(complex_steps)(Rows *rows, ptrdiff_t step) {
    rows->pair_step = step, rows->odd_step = sizeof(T);
}

/* Numbers i of real rows. */
INLINE void OF(real_steps)(Rows *rows, ptrdiff_t step) {
    rows->pair_step = 2 * step, rows->odd_step = step;
}

/* Zeros, with imaginary parts of this sign. */
INLINE void OF(clear)(Complex *z, ptrdiff_t count, T sign) {
    for (ptrdiff_t k = 0; k < count; k++)
        z[k] = (Complex){(Vec){0}, (Vec){0} * sign};
}

/* A block of rows. */
ONCE static void OF(transform_rows)(const FourierArgs *args, ptrdiff_t block, Complex *a,
                                    Complex *b) {
    Rows x, y;
    const FourierPlan *plan = args->plan;
    ptrdiff_t n = args->n, m = plan->n, have = args->have, is_pairs = m != n;
    T sign = (T)args->x_sign, re = (T)args->re_scale, im = (T)args->im_scale;
    OF(find_rows)(args, block * LANES, &x, &y);
    if (args->kind == FROM_REAL) {
        OF(real_steps)(&x, args->x_step);
        OF(complex_steps)(&y, args->y_step);
        ptrdiff_t step = is_pairs ? 1 : 2;
        if (have < n || !is_pairs)
            OF(clear)(a, m, 0);
        OF(load)((Vec *)a, step, &x, have, 1);
    } else if (args->is_real) {
        OF(real_steps)(&x, args->x_step);
        OF(complex_steps)(&y, args->y_step);
        OF(clear)(a, n, 0);
        OF(clear)(a, have, sign);
        OF(load)((Vec *)a, 2, &x, have, 1);
    } else {
        OF(complex_steps)(&x, args->x_step);
        if (args->kind == TO_REAL)
            OF(real_steps)(&y, args->y_step);
        else
            OF(complex_steps)(&y, args->y_step);
        if (have < (args->kind == TO_REAL ? n / 2 + 1 : n))
            OF(clear)(a, m + 1, 0);
        OF(load)((Vec *)a, 1, &x, 2 * have, sign);
        if (args->kind == TO_REAL && is_pairs)
            OF(join_all)(a, m, plan->halves);
        else if (args->kind == TO_REAL) {
            a[0].im = (Vec){0};
            for (ptrdiff_t k = 1; 2 * k < n; k++) {
                a[n - k] = a[k];
                a[k].im = -a[k].im;
            }
        }
    }
    Complex *z = OF(transform)(plan, a, b);
    OF(check)(z, x.count, args->status);
    if (args->kind == TO_REAL)
        OF(store)((const Vec *)z, is_pairs ? 1 : 2, &y, n, re, is_pairs ? -re : re);
    else if (args->kind == FROM_REAL) {
        if (is_pairs)
            OF(split_all)(z, m, plan->halves);
        OF(store)((const Vec *)z, 1, &y, 2 * (n / 2 + 1), re, im);
    } else
        OF(store)((const Vec *)z, 1, &y, 2 * n, re, im);
}

/* A single row. -------------------------------------------------------------------------------- */

/* What there is of a row: its numbers as complex ones, `step` bytes apart, the imaginary part `odd`
 * bytes from the real one, if they are not `real`. */
typedef struct {
    char *at;
    ptrdiff_t real, step, odd;
    T re, im; /* factors */
} OF(Line);
#define Line OF(Line)

/* The memory of a row: the blocks of what is between columns and rows, and a copy. */
INLINE Complex *OF(middle)(char *room) { return (Complex *)room; }
INLINE T *OF(copy_of)(const FourierPlan *plan, char *room) {
    ptrdiff_t blocks = (plan->columns->n + LANES - 1) / LANES;
    return (T *)(OF(middle)(room) + blocks * plan->rows->n);
}

/* Where the row is read, and where it is written, by plan. `room` has a copy of the rows that are
 * padded or made first. */
static Line OF(source)(const FourierArgs *args, ptrdiff_t x_at, char *room) {
    const FourierPlan *plan = args->plan;
    char *x = (char *)args->x + x_at;
    ptrdiff_t n = args->n, step = args->x_step;
    T sign = (T)args->x_sign;
    if (args->kind == TO_REAL || args->have < n)
        return (Line){(char *)OF(copy_of)(plan, room), 0, 2 * sizeof(T), sizeof(T), 1, 1};
    if (args->kind == FROM_REAL)
        return plan->n == n ? (Line){x, 1, step, 0, 1, 1} : (Line){x, 0, 2 * step, step, 1, 1};
    return args->is_real ? (Line){x, 1, step, 0, 1, sign} : (Line){x, 0, step, sizeof(T), 1, sign};
}

static Line OF(target)(const FourierArgs *args, ptrdiff_t y_at, char *room) {
    const FourierPlan *plan = args->plan;
    char *y = args->y + y_at;
    ptrdiff_t step = args->y_step, is_pairs = plan->n != args->n;
    T re = (T)args->re_scale, im = (T)args->im_scale;
    if (args->kind == TO_REAL)
        return is_pairs ? (Line){y, 0, 2 * step, step, re, -re} : (Line){y, 1, step, 0, re, re};
    if (args->kind == FROM_REAL && !is_pairs)
        return (Line){(char *)OF(copy_of)(plan, room), 0, 2 * sizeof(T), sizeof(T), re, im};
    return (Line){y, 0, step, sizeof(T), is_pairs ? 1 : re, is_pairs ? 1 : im};
}

/* Fills the copy of a row, if it has one. */
ONCE static void OF(prepare)(const FourierArgs *args, ptrdiff_t x_at, char *room) {
    const FourierPlan *plan = args->plan;
    const char *x = args->x + x_at;
    ptrdiff_t n = args->n, m = plan->n, have = args->have, step = args->x_step;
    T *copy = OF(copy_of)(plan, room), sign = (T)args->x_sign;
#define RE(k) *(const T *)(x + (k) * step)
#define IM(k) (*(const T *)(x + (k) * step + (ptrdiff_t)sizeof(T)) * sign)
    if (args->kind == FROM_REAL && have < n) {
        ptrdiff_t apart = m == n ? 2 : 1;
        memset(copy, 0, 2 * (size_t)m * sizeof(T));
        for (ptrdiff_t k = 0; k < have; k++)
            copy[k * apart] = RE(k);
    } else if (args->kind == WHOLE && have < n) {
        for (ptrdiff_t k = 0; k < n; k++) {
            copy[2 * k] = k < have ? RE(k) : 0;
            copy[2 * k + 1] = k >= have ? 0 : args->is_real ? 0 * sign : IM(k);
        }
    } else if (args->kind == TO_REAL && m == n) {
        for (ptrdiff_t k = 0; 2 * k < n; k++) {
            T re = k < have ? RE(k) : 0, im = k && k < have ? IM(k) : 0;
            copy[2 * k] = re, copy[2 * k + 1] = -im;
            if (k)
                copy[2 * (n - k)] = re, copy[2 * (n - k) + 1] = im;
        }
    } else if (args->kind == TO_REAL) {
        T first = RE(0), last = m < have ? RE(m) : 0;
        copy[0] = first + last, copy[1] = last - first;
        int contiguous = step == 2 * sizeof(T) && have > m;
        ptrdiff_t k = contiguous ? OF(pairs_of_row)(plan, (const T *)x, copy, 1, 1, sign) : 1;
        for (; 2 * k <= m; k++) {
            ptrdiff_t j = m - k;
            double c, s;
            root_of(plan, k, &c, &s);
            T are = k < have ? RE(k) : 0, aim = k < have ? IM(k) : 0;
            T bre = j < have ? RE(j) : 0, bim = j < have ? IM(j) : 0;
            T even_re = are + bre, even_im = aim - bim, re = are - bre, im = aim + bim;
            T odd_re = re * (T)c + im * (T)s, odd_im = im * (T)c - re * (T)s;
            copy[2 * k] = even_re - odd_im, copy[2 * k + 1] = -even_im - odd_re;
            copy[2 * j] = even_re + odd_im, copy[2 * j + 1] = even_im - odd_re;
        }
    }
#undef RE
#undef IM
}

/* What is left when a row is transformed: the pairs of a real one become its spectrum. */
ONCE static void OF(finish)(const FourierArgs *args, ptrdiff_t y_at, char *room) {
    const FourierPlan *plan = args->plan;
    if (args->kind != FROM_REAL)
        return;
    char *y = args->y + y_at;
    ptrdiff_t n = args->n, m = plan->n, step = args->y_step;
    T scale_re = (T)args->re_scale, scale_im = (T)args->im_scale;
#define RE(k) ((T *)(y + (k) * step))[0]
#define IM(k) ((T *)(y + (k) * step))[1]
    if (m == n) {
        const T *copy = OF(copy_of)(plan, room);
        for (ptrdiff_t k = 0; 2 * k < n; k++)
            RE(k) = copy[2 * k], IM(k) = copy[2 * k + 1];
        return;
    }
    T first_re = RE(0), first_im = IM(0);
    RE(0) = (first_re + first_im) * scale_re, IM(0) = 0;
    RE(m) = (first_re - first_im) * scale_re, IM(m) = 0;
    int contiguous = step == 2 * sizeof(T);
    ptrdiff_t k = contiguous ? OF(pairs_of_row)(plan, (T *)y, (T *)y, 0, scale_re, scale_im) : 1;
    scale_re *= (T)0.5, scale_im *= (T)0.5;
    for (; 2 * k <= m; k++) {
        ptrdiff_t j = m - k;
        double c, s;
        root_of(plan, k, &c, &s);
        T are = RE(k), aim = IM(k), bre = RE(j), bim = IM(j);
        T even_re = are + bre, even_im = aim - bim, re = aim + bim, im = bre - are;
        T odd_re = re * (T)c - im * (T)s, odd_im = re * (T)s + im * (T)c;
        RE(k) = (even_re + odd_re) * scale_re, IM(k) = (even_im + odd_im) * scale_im;
        RE(j) = (even_re - odd_re) * scale_re, IM(j) = (odd_im - even_im) * scale_im;
    }
#undef RE
#undef IM
}

/* Transforms a block of the columns of a row, and turns them. */
ONCE static void OF(first_step)(const FourierArgs *args, const Line *x, ptrdiff_t block, char *room,
                                Complex *a, Complex *b) {
    const FourierPlan *plan = args->plan;
    ptrdiff_t inside = plan->columns->n, columns = plan->rows->n, first = block * LANES;
    ptrdiff_t step = plan->roots_of / plan->n, count = columns - first;
    Rows rows = {.x = x->at + first * x->step, .count = count < LANES ? count : LANES};
    for (ptrdiff_t lane = 0; lane < LANES; lane++)
        rows.at[lane] = (lane < rows.count ? lane : rows.count - 1) * x->step;
    if (!x->real) {
        rows.pair_step = columns * x->step, rows.odd_step = x->odd;
        OF(load)((Vec *)a, 1, &rows, 2 * inside, x->im);
    } else {
        OF(real_steps)(&rows, columns * x->step);
        OF(clear)(a, inside, x->im);
        OF(load)((Vec *)a, 2, &rows, inside, 1);
    }
    Complex *z = OF(transform)(plan->columns, a, b), *middle = OF(middle)(room);
    int all = plan->n <= MOST_TURNS;
    const Complex *turns = (const Complex *)plan->turns + (all ? block * inside : 0);
    for (ptrdiff_t k0 = 0; k0 < inside; k0 += LANES) {
        Vec re[LANES], im[LANES];
        for (ptrdiff_t i = 0; i < LANES; i++) {
            ptrdiff_t k = k0 + i < inside ? k0 + i : inside - 1;
            Complex turn = turns[k];
            if (!all && block) {
                double c, s;
                root_of(plan, k * first * step, &c, &s);
                turn = OF(turned)(turn, (T[]){(T)c, (T)s});
            }
            turn = OF(product)(z[k], turn);
            re[i] = turn.re, im[i] = turn.im;
        }
        OF(transpose)(re);
        OF(transpose)(im);
        Complex *to = middle + k0 / LANES * columns + first;
        _Pragma("GCC unroll 16")
        for (ptrdiff_t j = 0; j < LANES; j++)
            if (j < rows.count)
                to[j] = (Complex){re[j], im[j]};
    }
}

/* Transforms a block of the rows. */
ONCE static void OF(second_step)(const FourierArgs *args, const Line *y, ptrdiff_t block,
                                 char *room, Complex *b) {
    const FourierPlan *plan = args->plan;
    ptrdiff_t inside = plan->columns->n, columns = plan->rows->n, first = block * LANES;
    ptrdiff_t count = inside - first;
    Rows rows = {.x = y->at + first * y->step, .count = count < LANES ? count : LANES};
    for (ptrdiff_t lane = 0; lane < LANES; lane++)
        rows.at[lane] = lane * y->step;
    Complex *z = OF(transform)(plan->rows, OF(middle)(room) + block * columns, b);
    if (!block)
        OF(check)(z, 1, args->status);
    if (!y->real) {
        rows.pair_step = inside * y->step, rows.odd_step = y->odd;
        OF(store)((const Vec *)z, 1, &rows, 2 * columns, y->re, y->im);
    } else {
        OF(real_steps)(&rows, inside * y->step);
        OF(store)((const Vec *)z, 2, &rows, columns, y->re, y->re);
    }
}

static void OF(single_row)(const FourierArgs *args, ptrdiff_t row, Complex *a, Complex *b,
                           char *room) {
    const FourierPlan *plan = args->plan;
    ptrdiff_t x_at = 0, y_at = 0;
    for (ptrdiff_t axis = args->axes - 1, rest = row; axis >= 0; axis--) {
        ptrdiff_t at = rest % args->shape[axis];
        rest /= args->shape[axis];
        x_at += at * args->x_steps[axis];
        y_at += at * args->y_steps[axis];
    }
    Line x = OF(source)(args, x_at, room), y = OF(target)(args, y_at, room);
    OF(prepare)(args, x_at, room);
    for (ptrdiff_t block = 0; block * LANES < plan->rows->n; block++)
        OF(first_step)(args, &x, block, room, a, b);
    for (ptrdiff_t block = 0; block * LANES < plan->columns->n; block++)
        OF(second_step)(args, &y, block, room, b);
    OF(finish)(args, y_at, room);
}

/* All transforms of an item. */
static void OF(transform_item)(const FourierArgs *args, ptrdiff_t item, Complex *a, Complex *b) {
    for (; args; args = args->next) {
        FourierArgs own = *args;
        own.x += item * own.x_item, own.y += item * own.y_item;
        for (ptrdiff_t block = 0; block * LANES < own.rows; block++)
            OF(transform_rows)(&own, block, a, b);
    }
}

/* Runs what the loop counts. */
static void OF(run)(const FourierArgs *args, ptrdiff_t from, ptrdiff_t to) {
    const FourierPlan *plan = args->plan;
    int is_single = plan->columns != NULL;
    ptrdiff_t most = plan->n;
    if (is_single)
        most = plan->rows->n > plan->columns->n ? plan->rows->n : plan->columns->n;
    for (const FourierArgs *more = args->next; more; more = more->next)
        most = more->plan->n > most ? more->plan->n : most;
    size_t lanes = (size_t)(most + 1) * sizeof(Complex), own = 0;
    if (is_single && !args->room)
        own = fourier_room(plan);
    char *block = malloc(2 * lanes + own + 64);
    if (!block) {
        set_status(args->status, NO_MEMORY);
        return;
    }
    char *at = (char *)(((uintptr_t)block + 63) / 64 * 64);
    Complex *a = (Complex *)at, *b = (Complex *)(at + lanes);
    char *room = args->room ? args->room : at + 2 * lanes;
    Line x, y;
    if (args->stage == OF_COLUMNS)
        x = OF(source)(args, 0, room);
    if (args->stage == OF_ROWS)
        y = OF(target)(args, 0, room);
    for (ptrdiff_t i = from; i < to; i++)
        switch (args->stage) {
        case ALL_STAGES:
            if (args->x_item)
                OF(transform_item)(args, i, a, b);
            else if (is_single)
                OF(single_row)(args, i, a, b, room);
            else
                OF(transform_rows)(args, i, a, b);
            break;
        case BEFORE:
            OF(prepare)(args, 0, room);
            break;
        case OF_COLUMNS:
            OF(first_step)(args, &x, i, room, a, b);
            break;
        case OF_ROWS:
            OF(second_step)(args, &y, i, room, b);
            break;
        default:
            OF(finish)(args, 0, room);
        }
    free(block);
}
#undef Vec
#undef Loose
#undef LANES
#undef Complex
#undef Rows
#undef Line
