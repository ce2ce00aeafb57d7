/* The long short-term memory and the gated recurrent unit, for the items `from` to `to` of a batch,
 * through all of time.
 *
 * Everything is (batch, time, ...), as the op's inputs and residuals are. What goes from step to step
 * is kept in arrays of (items, ...) of its own: rows of a step are a power of two apart in many nets,
 * and would fight for a few lines of the cache. The recurrent kernel is copied into strips once. The
 * last array of each loop takes what it says.
 * n: 0 time, 1 units, 2 whether time runs backwards. */

INLINE ptrdiff_t place_of(const Job *job, ptrdiff_t number) {
    return job->n[2] ? job->n[0] - 1 - number : number;
}

/* The recurrent kernel, turned round or not, and room for `width` numbers for each unit of an item. */
typedef struct {
    float *strips, *room;
} Recurrence;

static int open_recurrence(Recurrence *it, const float *kernel, ptrdiff_t units, ptrdiff_t gates, int turned,
                           ptrdiff_t items, ptrdiff_t width, void *failed) {
    ptrdiff_t wide = gates * units;
    it->strips = turned ? strips_of((Matrix){kernel, 1, wide}, wide, units)
                        : strips_of((Matrix){kernel, wide, 1}, units, wide);
    it->room = room_for(items * units * width);
    if (!it->strips || !it->room)
        __atomic_fetch_or((int32_t *)failed, NO_MEMORY, __ATOMIC_RELAXED);
    return it->strips && it->room;
}

static void close_recurrence(Recurrence *it) {
    free(it->strips);
    free(it->room);
}

INLINE float *copy_to(float *target, const float *source, ptrdiff_t count) {
    return memcpy(target, source, (size_t)count * sizeof(float));
}

/* p: 0 gates, which hold what the inputs give to them; 1 recurrent kernel; 2 h and 3 c before the
 * first step; out are 4 outputs, 5 cells, and the gates in place. */
LOOP(lstm_step) {
    ptrdiff_t time = job->n[0], units = job->n[1], items = to - from;
    Recurrence it;
    if (open_recurrence(&it, job->p[1], units, 4, 0, items, 6, job->p[6])) {
        float *h = copy_to(it.room, (const float *)job->p[2] + from * units, items * units);
        float *c = copy_to(h + items * units, (const float *)job->p[3] + from * units, items * units);
        float *product = c + items * units;
        for (ptrdiff_t number = 0; number < time; number++) {
            ptrdiff_t place = from * time + place_of(job, number);
            by_strips(items, 4 * units, units, h, units, it.strips, 0, product, 4 * units);
            for (ptrdiff_t item = 0; item < items; item++, place += time) {
                float *restrict i = (float *)job->p[0] + place * 4 * units, *restrict f = i + units;
                float *restrict g = f + units, *restrict o = g + units;
                float *restrict y = (float *)job->p[4] + place * units;
                float *restrict cell = (float *)job->p[5] + place * units;
                float *restrict state = h + item * units, *restrict memory = c + item * units;
                const float *restrict s = product + item * 4 * units;
                _Pragma("omp simd") for (ptrdiff_t u = 0; u < units; u++) {
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

/* p: 0 gates; 1 recurrent kernel; 2 c before the first step; 3 cells; 4 the cotangents of outputs;
 * 5 dh and 6 dc, of the last state at first and of the first in the end; out are 7, the slopes of
 * the gates before their nonlinearities. */
LOOP(lstm_step_gradient) {
    ptrdiff_t time = job->n[0], units = job->n[1], items = to - from;
    float *dh = (float *)job->p[5] + from * units, *dc = (float *)job->p[6] + from * units;
    Recurrence it;
    if (open_recurrence(&it, job->p[1], units, 4, 1, items, 4, job->p[8])) {
        for (ptrdiff_t number = time - 1; number >= 0; number--) {
            ptrdiff_t step = place_of(job, number), before = place_of(job, number - 1);
            for (ptrdiff_t item = 0; item < items; item++) {
                ptrdiff_t place = (from + item) * time + step, last = (from + item) * time + before;
                const float *restrict i = (const float *)job->p[0] + place * 4 * units, *restrict f = i + units;
                const float *restrict g = f + units, *restrict o = g + units;
                const float *restrict cell = (const float *)job->p[3] + place * units;
                const float *restrict old = number ? (const float *)job->p[3] + last * units
                                                   : (const float *)job->p[2] + (from + item) * units;
                const float *restrict given = (const float *)job->p[4] + place * units;
                float *restrict slopes = it.room + item * 4 * units;
                float *restrict h_slope = dh + item * units, *restrict c_slope = dc + item * units;
                _Pragma("omp simd") for (ptrdiff_t u = 0; u < units; u++) {
                    float t = tanh32(cell[u]), dy = h_slope[u] + given[u];
                    float slope = c_slope[u] + dy * o[u] * (1.0f - t * t);
                    slopes[u] = slope * g[u] * (i[u] * (1.0f - i[u]));
                    slopes[units + u] = slope * old[u] * (f[u] * (1.0f - f[u]));
                    slopes[2 * units + u] = slope * i[u] * (1.0f - g[u] * g[u]);
                    slopes[3 * units + u] = dy * t * (o[u] * (1.0f - o[u]));
                    c_slope[u] = slope * f[u];
                }
                copy_to((float *)job->p[7] + place * 4 * units, slopes, 4 * units);
            }
            by_strips(items, units, 4 * units, it.room, 4 * units, it.strips, 0, dh, units);
        }
    }
    close_recurrence(&it);
}

/* The gated recurrent unit. p: 0 gates z, r, n, which hold what the inputs give to them; 1 recurrent
 * kernel; 2 h before the first step; 5 the bias of the recurrence or NULL; out are 3 outputs, 4 what
 * the state gives to the candidates, and the gates in place. */
LOOP(gru_step) {
    ptrdiff_t time = job->n[0], units = job->n[1], items = to - from;
    const float *bias = job->p[5];
    Recurrence it;
    if (open_recurrence(&it, job->p[1], units, 3, 0, items, 4, job->p[6])) {
        float *h = copy_to(it.room, (const float *)job->p[2] + from * units, items * units);
        float *product = h + items * units;
        for (ptrdiff_t number = 0; number < time; number++) {
            ptrdiff_t place = from * time + place_of(job, number);
            for (ptrdiff_t item = 0; bias && item < items; item++)
                copy_to(product + item * 3 * units, bias, 3 * units);
            by_strips(items, 3 * units, units, h, units, it.strips, bias != NULL, product, 3 * units);
            for (ptrdiff_t item = 0; item < items; item++, place += time) {
                float *restrict z = (float *)job->p[0] + place * 3 * units, *restrict r = z + units;
                float *restrict n = r + units, *restrict y = (float *)job->p[3] + place * units;
                float *restrict candidate = (float *)job->p[4] + place * units;
                float *restrict state = h + item * units;
                const float *restrict s = product + item * 3 * units;
                _Pragma("omp simd") for (ptrdiff_t u = 0; u < units; u++) {
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

/* p: 0 gates; 1 recurrent kernel; 2 h before the first step; 3 outputs; 4 their cotangents; 5 what
 * the state gave to the candidates; 6 dh, of the last state at first and of the first in the end;
 * out are 7 and 8, the slopes of what inputs and states give to the gates. */
LOOP(gru_step_gradient) {
    ptrdiff_t time = job->n[0], units = job->n[1], items = to - from;
    float *dh = (float *)job->p[6] + from * units;
    Recurrence it;
    if (open_recurrence(&it, job->p[1], units, 3, 1, items, 3, job->p[9])) {
        for (ptrdiff_t number = time - 1; number >= 0; number--) {
            ptrdiff_t step = place_of(job, number), before = place_of(job, number - 1);
            for (ptrdiff_t item = 0; item < items; item++) {
                ptrdiff_t place = (from + item) * time + step, last = (from + item) * time + before;
                const float *restrict z = (const float *)job->p[0] + place * 3 * units, *restrict r = z + units;
                const float *restrict n = r + units;
                const float *restrict old = number ? (const float *)job->p[3] + last * units
                                                   : (const float *)job->p[2] + (from + item) * units;
                const float *restrict given = (const float *)job->p[4] + place * units;
                const float *restrict candidate = (const float *)job->p[5] + place * units;
                float *restrict by_input = (float *)job->p[7] + place * 3 * units;
                float *restrict by_state = it.room + item * 3 * units;
                float *restrict slope = dh + item * units;
                _Pragma("omp simd") for (ptrdiff_t u = 0; u < units; u++) {
                    float dy = slope[u] + given[u];
                    float dn = dy * (1.0f - z[u]) * (1.0f - n[u] * n[u]);
                    float dz = dy * (old[u] - n[u]) * (z[u] * (1.0f - z[u]));
                    float dr = dn * candidate[u] * (r[u] * (1.0f - r[u]));
                    by_input[u] = by_state[u] = dz;
                    by_input[units + u] = by_state[units + u] = dr;
                    by_input[2 * units + u] = dn;
                    by_state[2 * units + u] = dn * r[u];
                    slope[u] = dy * z[u];
                }
                copy_to((float *)job->p[8] + place * 3 * units, by_state, 3 * units);
            }
            by_strips(items, units, 3 * units, it.room, 3 * units, it.strips, 1, dh, units);
        }
    }
    close_recurrence(&it);
}
