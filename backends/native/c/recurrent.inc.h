/* The long short-term memory and the gated recurrent unit, for the items `from` to `to` of a batch,
 * through all of time.
 *
 * Arrays are (batch, time, ...), as the op's inputs and residuals. The state is kept in arrays of
 * its own, (items, ...): in many networks the rows of a step are a power of two apart, and would
 * compete for a few cache lines. The recurrent kernel is copied into strips once.
 *
 * The inputs of a step are multiplied with its states, in rows [input, state], where there are
 * enough items for that; the gates of all steps, which no cache holds, are then written once. */

/* The position in time of step `number`. */
#define STEP_OF(args, number) ((args)->reverse ? (args)->time - 1 - (number) : (number))

/* The recurrent kernel, transposed or not, below room for a kernel of `inputs` rows; and `width`
 * numbers for each unit of an item, with room for its input, and for a bias. */
typedef struct {
    float *strips, *room;
} Recurrence;

static int open_recurrence(Recurrence *it, const float *kernel, ptrdiff_t inputs, ptrdiff_t units,
                           ptrdiff_t gates, int transposed, ptrdiff_t items, ptrdiff_t width,
                           int32_t *status) {
    ptrdiff_t wide = gates * units, inner = transposed ? wide : inputs + units;
    ptrdiff_t columns = transposed ? units : wide;
    it->strips = room_for_strips(inner, columns);
    it->room = room_for(items * units * width + items * inputs + wide);
    if (!it->strips || !it->room) {
        set_status(status, NO_MEMORY);
        return 0;
    }
    fill_strips(transposed ? (Matrix){kernel, 1, wide} : (Matrix){kernel, wide, 1}, inputs,
                inner - inputs, inner, columns, it->strips);
    return 1;
}

static void close_recurrence(Recurrence *it) {
    free(it->strips);
    free(it->room);
}

/* Asks for the cache lines of `count` numbers, which do not follow those read before. */
INLINE void ask_for(const float *x, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i += 16)
        __builtin_prefetch(x + i);
}

INLINE float *copy_to(float *target, const float *source, ptrdiff_t count) {
    return memcpy(target, source, (size_t)count * sizeof(float));
}

LOOP(lstm_step, LstmArgs) {
    const ptrdiff_t time = args->time, units = args->units, items = to - from, wide = 4 * units;
    const ptrdiff_t inputs = args->x ? args->inputs : 0, inner = inputs + units;
    Recurrence it;
    if (open_recurrence(&it, args->recurrent_kernel, inputs, units, 4, 0, items, 6, args->status)) {
        float *rows = it.room, *c = rows + items * inner, *product = c + items * units;
        float *bias = product + items * wide;
        if (inputs)
            fill_strips((Matrix){args->kernel, wide, 1}, 0, inputs, inner, wide, it.strips);
        for (ptrdiff_t u = 0; u < wide; u++)
            bias[u] = args->bias ? args->bias[u] : 0.0f;
        for (ptrdiff_t item = 0; item < items; item++)
            copy_to(rows + item * inner + inputs, args->h + (from + item) * units, units);
        copy_to(c, args->c + from * units, items * units);
        for (ptrdiff_t number = 0; number < time; number++) {
            ptrdiff_t row = from * time + STEP_OF(args, number);
            for (ptrdiff_t item = 0; inputs && item < items; item++)
                copy_to(rows + item * inner, args->x + (row + item * time) * inputs, inputs);
            by_strips(items, wide, inner, rows, inner, it.strips, 0, product, wide);
            for (ptrdiff_t item = 0; item < items; item++, row += time) {
                float *i = args->gates + row * wide, *f = i + units;
                float *g = f + units, *o = g + units;
                float *restrict y = args->y + row * units;
                float *restrict cell = args->cells + row * units;
                float *restrict state = rows + item * inner + inputs;
                float *restrict memory = c + item * units;
                const float *restrict s = product + item * wide, *base = inputs ? bias : i;
                if (item + 1 < items) {
                    ask_for(i + time * wide, wide);
                    ask_for(y + time * units, units);
                    ask_for(cell + time * units, units);
                }
                _Pragma("omp simd")
                for (ptrdiff_t u = 0; u < units; u++) {
                    float in = gate32(base[u] + s[u]);
                    float keep = gate32(base[units + u] + s[units + u]);
                    float new = tanh32(base[2 * units + u] + s[2 * units + u]);
                    float out = gate32(base[3 * units + u] + s[3 * units + u]);
                    i[u] = in, f[u] = keep, g[u] = new, o[u] = out;
                    cell[u] = memory[u] = keep * memory[u] + in * new;
                    y[u] = state[u] = out * tanh32(memory[u]);
                }
            }
        }
    }
    close_recurrence(&it);
}

LOOP(lstm_step_gradient, LstmGradientArgs) {
    ptrdiff_t time = args->time, units = args->units, items = to - from;
    float *dh = args->dh + from * units, *dc = args->dc + from * units;
    Recurrence it;
    if (open_recurrence(&it, args->recurrent_kernel, 0, units, 4, 1, items, 4, args->status)) {
        for (ptrdiff_t number = time - 1; number >= 0; number--) {
            ptrdiff_t step = STEP_OF(args, number), before = STEP_OF(args, number - 1);
            for (ptrdiff_t item = 0; item < items; item++) {
                ptrdiff_t row = (from + item) * time + step;
                ptrdiff_t row_before = (from + item) * time + before;
                const float *restrict i = args->gates + row * 4 * units, *restrict f = i + units;
                const float *restrict g = f + units, *restrict o = g + units;
                const float *restrict cell = args->cells + row * units;
                const float *restrict old =
                    number ? args->cells + row_before * units : args->c + (from + item) * units;
                const float *restrict dy_above = args->g + row * units;
                float *restrict slopes = it.room + item * 4 * units;
                float *restrict h_slope = dh + item * units, *restrict c_slope = dc + item * units;
                if (item + 1 < items) {
                    ask_for(i + time * 4 * units, 4 * units);
                    ask_for(cell + time * units, units);
                    ask_for(old + (number ? time : 1) * units, units);
                    ask_for(dy_above + time * units, units);
                    ask_for(args->dgates + (row + time) * 4 * units, 4 * units);
                }
                _Pragma("omp simd")
                for (ptrdiff_t u = 0; u < units; u++) {
                    float t = tanh32(cell[u]), dy = h_slope[u] + dy_above[u];
                    float slope = c_slope[u] + dy * o[u] * (1.0f - t * t);
                    slopes[u] = slope * g[u] * (i[u] * (1.0f - i[u]));
                    slopes[units + u] = slope * old[u] * (f[u] * (1.0f - f[u]));
                    slopes[2 * units + u] = slope * i[u] * (1.0f - g[u] * g[u]);
                    slopes[3 * units + u] = dy * t * (o[u] * (1.0f - o[u]));
                    c_slope[u] = slope * f[u];
                }
                copy_to(args->dgates + row * 4 * units, slopes, 4 * units);
            }
            by_strips(items, units, 4 * units, it.room, 4 * units, it.strips, 0, dh, units);
        }
    }
    close_recurrence(&it);
}

LOOP(gru_step, GruArgs) {
    ptrdiff_t time = args->time, units = args->units, items = to - from;
    const float *bias = args->bias;
    Recurrence it;
    if (open_recurrence(&it, args->recurrent_kernel, 0, units, 3, 0, items, 4, args->status)) {
        float *h = copy_to(it.room, args->h + from * units, items * units);
        float *product = h + items * units;
        for (ptrdiff_t number = 0; number < time; number++) {
            ptrdiff_t row = from * time + STEP_OF(args, number);
            for (ptrdiff_t item = 0; bias && item < items; item++)
                copy_to(product + item * 3 * units, bias, 3 * units);
            by_strips(items, 3 * units, units, h, units, it.strips, bias != NULL, product,
                      3 * units);
            for (ptrdiff_t item = 0; item < items; item++, row += time) {
                float *restrict z = args->gates + row * 3 * units, *restrict r = z + units;
                float *restrict n = r + units, *restrict y = args->y + row * units;
                float *restrict candidate = args->candidates + row * units;
                float *restrict state = h + item * units;
                const float *restrict s = product + item * 3 * units;
                _Pragma("omp simd")
                for (ptrdiff_t u = 0; u < units; u++) {
                    z[u] = gate32(z[u] + s[u]);
                    r[u] = gate32(r[u] + s[units + u]);
                    candidate[u] = s[2 * units + u];
                    n[u] = tanh32(n[u] + r[u] * s[2 * units + u]);
                    y[u] = state[u] = n[u] + z[u] * (state[u] - n[u]);
                }
            }
        }
    }
    close_recurrence(&it);
}

LOOP(gru_step_gradient, GruGradientArgs) {
    ptrdiff_t time = args->time, units = args->units, items = to - from;
    float *dh = args->dh + from * units;
    Recurrence it;
    if (open_recurrence(&it, args->recurrent_kernel, 0, units, 3, 1, items, 3, args->status)) {
        for (ptrdiff_t number = time - 1; number >= 0; number--) {
            ptrdiff_t step = STEP_OF(args, number), before = STEP_OF(args, number - 1);
            for (ptrdiff_t item = 0; item < items; item++) {
                ptrdiff_t row = (from + item) * time + step;
                ptrdiff_t row_before = (from + item) * time + before;
                const float *restrict z = args->gates + row * 3 * units, *restrict r = z + units;
                const float *restrict n = r + units;
                const float *restrict old =
                    number ? args->y + row_before * units : args->h + (from + item) * units;
                const float *restrict dy_above = args->g + row * units;
                const float *restrict candidate = args->candidates + row * units;
                float *restrict by_input = args->by_input + row * 3 * units;
                float *restrict by_state = it.room + item * 3 * units;
                float *restrict slope = dh + item * units;
                _Pragma("omp simd")
                for (ptrdiff_t u = 0; u < units; u++) {
                    float dy = slope[u] + dy_above[u];
                    float dn = dy * (1.0f - z[u]) * (1.0f - n[u] * n[u]);
                    float dz = dy * (old[u] - n[u]) * (z[u] * (1.0f - z[u]));
                    float dr = dn * candidate[u] * (r[u] * (1.0f - r[u]));
                    by_input[u] = by_state[u] = dz;
                    by_input[units + u] = by_state[units + u] = dr;
                    by_input[2 * units + u] = dn;
                    by_state[2 * units + u] = dn * r[u];
                    slope[u] = dy * z[u];
                }
                copy_to(args->by_state + row * 3 * units, by_state, 3 * units);
            }
            by_strips(items, units, 3 * units, it.room, 3 * units, it.strips, 1, dh, units);
        }
    }
    close_recurrence(&it);
}
