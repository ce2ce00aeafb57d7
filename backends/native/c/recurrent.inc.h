/* The long short-term memory and the gated recurrent unit, for the items `from` to `to` of a batch,
 * through all of time.
 *
 * Arrays are (batch, time, ...), as the op's inputs and residuals. The state is kept in arrays of
 * its own, (items, ...): in many networks the rows of a step are a power of two apart, and would
 * compete for a few cache lines. The recurrent kernel is copied into strips once. */

/* The position in time of step `number`. */
#define STEP_OF(args, number) ((args)->reverse ? (args)->time - 1 - (number) : (number))

/* The recurrent kernel, transposed or not, and `width` numbers for each unit of an item. */
typedef struct {
    float *strips, *room;
} Recurrence;

static int open_recurrence(Recurrence *it, const float *kernel, ptrdiff_t units, ptrdiff_t gates,
                           int transposed, ptrdiff_t items, ptrdiff_t width, int32_t *status) {
    ptrdiff_t wide = gates * units;
    it->strips = transposed ? strips_of((Matrix){kernel, 1, wide}, wide, units)
                            : strips_of((Matrix){kernel, wide, 1}, units, wide);
    it->room = room_for(items * units * width);
    if (!it->strips || !it->room)
        set_status(status, NO_MEMORY);
    return it->strips && it->room;
}

static void close_recurrence(Recurrence *it) {
    free(it->strips);
    free(it->room);
}

INLINE float *copy_to(float *target, const float *source, ptrdiff_t count) {
    return memcpy(target, source, (size_t)count * sizeof(float));
}

LOOP(lstm_step, LstmArgs) {
    ptrdiff_t time = args->time, units = args->units, items = to - from;
    Recurrence it;
    if (open_recurrence(&it, args->recurrent_kernel, units, 4, 0, items, 6, args->status)) {
        float *h = copy_to(it.room, args->h + from * units, items * units);
        float *c = copy_to(h + items * units, args->c + from * units, items * units);
        float *product = c + items * units;
        for (ptrdiff_t number = 0; number < time; number++) {
            ptrdiff_t row = from * time + STEP_OF(args, number);
            by_strips(items, 4 * units, units, h, units, it.strips, 0, product, 4 * units);
            for (ptrdiff_t item = 0; item < items; item++, row += time) {
                float *restrict i = args->gates + row * 4 * units, *restrict f = i + units;
                float *restrict g = f + units, *restrict o = g + units;
                float *restrict y = args->y + row * units;
                float *restrict cell = args->cells + row * units;
                float *restrict state = h + item * units, *restrict memory = c + item * units;
                const float *restrict s = product + item * 4 * units;
                _Pragma("omp simd")
                for (ptrdiff_t u = 0; u < units; u++) {
                    i[u] = gate32(i[u] + s[u]);
                    f[u] = gate32(f[u] + s[units + u]);
                    g[u] = tanh32(g[u] + s[2 * units + u]);
                    o[u] = gate32(o[u] + s[3 * units + u]);
                    cell[u] = memory[u] = f[u] * memory[u] + i[u] * g[u];
                    y[u] = state[u] = o[u] * tanh32(memory[u]);
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
    if (open_recurrence(&it, args->recurrent_kernel, units, 4, 1, items, 4, args->status)) {
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
    if (open_recurrence(&it, args->recurrent_kernel, units, 3, 0, items, 4, args->status)) {
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
    if (open_recurrence(&it, args->recurrent_kernel, units, 3, 1, items, 3, args->status)) {
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
