/* The long short-term memory and the gated recurrent unit, for the items `from` to `to` of a batch,
 * through all of time.
 *
 * Inputs and outputs are (batch, time, ...); what the gradient reads again is (time, batch, ...):
 * what a step reads and writes then lies together, where rows of a batch may be so far apart that
 * they compete for a few cache lines. So products write gates, and read their gradients, in place.
 * Kernels are copied into strips once.
 *
 * The inputs of a step are multiplied with its states, in rows [input, state], where there are
 * enough items for that; the gates of all steps, which no cache holds, are then written once. Their
 * gradients are multiplied by the kernel while they are in a cache. */

/* The position in time of step `number`. */
#define STEP_OF(args, number) ((args)->reverse ? (args)->time - 1 - (number) : (number))

/* Whether an item keeps its state in a step, by the number of both among all of the batch's. */
#define IS_ABSENT(args, number) ((args)->mask && !(args)->mask[number])

/* Asks for the cache lines of `count` numbers, which do not follow those read before. */
INLINE void ask_for(const float *x, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i += 16)
        __builtin_prefetch(x + i);
}

INLINE float *copy_to(float *target, const float *source, ptrdiff_t count) {
    return memcpy(target, source, (size_t)count * sizeof(float));
}

/* Strips of the transpose of a kernel (rows, wide); NULL if there is no memory. */
static float *transposed_strips(const float *kernel, ptrdiff_t rows, ptrdiff_t wide) {
    float *strips = room_for_strips(wide, rows);
    if (strips)
        fill_strips((Matrix){kernel, 1, wide}, 0, wide, wide, rows, strips);
    return strips;
}

LOOP(lstm_step, LstmArgs) {
    const ptrdiff_t time = args->time, units = args->units, items = to - from, wide = 4 * units;
    const ptrdiff_t inputs = args->x ? args->inputs : 0, inner = inputs + units;
    float *strips = room_for_strips(inner, wide);
    float *rows = room_for(items * (inner + units) + wide);
    if (strips && rows) {
        float *c = rows + items * inner, *bias = c + items * units;
        if (inputs)
            fill_strips((Matrix){args->kernel, wide, 1}, 0, inputs, inner, wide, strips);
        fill_strips((Matrix){args->recurrent_kernel, wide, 1}, inputs, units, inner, wide, strips);
        for (ptrdiff_t u = 0; u < wide; u++)
            bias[u] = args->bias ? args->bias[u] : 0.0f;
        for (ptrdiff_t item = 0; item < items; item++)
            copy_to(rows + item * inner + inputs, args->h + (from + item) * units, units);
        copy_to(c, args->c + from * units, items * units);
        for (ptrdiff_t number = 0; number < time; number++) {
            ptrdiff_t step = STEP_OF(args, number), first = step * args->batch + from;
            ptrdiff_t row = from * time + step;
            for (ptrdiff_t item = 0; inputs && item < items; item++)
                copy_to(rows + item * inner, args->x + (row + item * time) * inputs, inputs);
            by_strips(items, wide, inner, rows, inner, strips, !inputs, args->gates + first * wide,
                      wide);
            for (ptrdiff_t item = 0; item < items; item++, row += time) {
                float *restrict i = args->gates + (first + item) * wide, *restrict f = i + units;
                float *restrict g = f + units, *restrict o = g + units;
                float *restrict y = args->y + row * units;
                float *restrict cell = args->cells + (first + item) * units;
                float *restrict state = rows + item * inner + inputs;
                float *restrict memory = c + item * units;
                const int absent = IS_ABSENT(args, row);
                if (item + 1 < items) {
                    ask_for(y + time * units, units);
                    ask_for(i + wide, wide);
                    ask_for(cell + units, units);
                }
                _Pragma("omp simd")
                for (ptrdiff_t u = 0; u < units; u++) {
                    float in = gate32(bias[u] + i[u]), keep = gate32(bias[units + u] + f[u]);
                    float new = tanh32(bias[2 * units + u] + g[u]);
                    float out = gate32(bias[3 * units + u] + o[u]);
                    i[u] = in, f[u] = keep, g[u] = new, o[u] = out;
                    cell[u] = memory[u] = absent ? memory[u] : keep * memory[u] + in * new;
                }
                _Pragma("omp simd")
                for (ptrdiff_t u = 0; u < units; u++)
                    y[u] = state[u] = absent ? state[u] : o[u] * tanh32(memory[u]);
            }
        }
    } else {
        set_status(args->status, NO_MEMORY);
    }
    free(strips);
    free(rows);
}

LOOP(lstm_step_gradient, LstmGradientArgs) {
    const ptrdiff_t time = args->time, units = args->units, items = to - from, wide = 4 * units;
    const ptrdiff_t inputs = args->dx ? args->inputs : 0;
    float *dh = args->dh + from * units, *dc = args->dc + from * units;
    float *recurrent = transposed_strips(args->recurrent_kernel, units, wide);
    float *kernel = inputs ? transposed_strips(args->kernel, inputs, wide) : NULL;
    if (recurrent && (kernel || !inputs)) {
        for (ptrdiff_t number = time - 1; number >= 0; number--) {
            ptrdiff_t step = STEP_OF(args, number), first = step * args->batch + from;
            ptrdiff_t row = from * time + step;
            float *dgates = args->dgates + first * wide;
            const float *before =
                number ? args->cells + (STEP_OF(args, number - 1) * args->batch + from) * units
                       : args->c + from * units;
            for (ptrdiff_t item = 0; item < items; item++) {
                const float *restrict i = args->gates + (first + item) * wide;
                const float *restrict f = i + units, *restrict g = f + units;
                const float *restrict o = g + units;
                const float *restrict cell = args->cells + (first + item) * units;
                const float *restrict old = before + item * units;
                const float *restrict dy_above = args->g + (row + item * time) * units;
                float *restrict slopes = dgates + item * wide;
                float *restrict h_slope = dh + item * units, *restrict c_slope = dc + item * units;
                if (IS_ABSENT(args, row + item * time)) {
                    memset(slopes, 0, (size_t)wide * sizeof(float));
                    for (ptrdiff_t u = 0; u < units; u++)
                        h_slope[u] += dy_above[u];
                    continue;
                }
                if (item + 1 < items) {
                    ask_for(dy_above + time * units, units);
                    ask_for(i + wide, wide);
                    ask_for(slopes + wide, wide);
                    ask_for(cell + units, units);
                    ask_for(old + units, units);
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
                if (args->mask)
                    memset(h_slope, 0, (size_t)units * sizeof(float));
            }
            /* What an absent step hands on is there already. */
            by_strips(items, units, wide, dgates, wide, recurrent, args->mask != NULL, dh, units);
            if (inputs)
                by_strips(items, inputs, wide, dgates, wide, kernel, 0, args->dx + row * inputs,
                          time * inputs);
        }
    } else {
        set_status(args->status, NO_MEMORY);
    }
    free(recurrent);
    free(kernel);
}

/* The gates of an update and a reset add the states to what they hold, and the candidates keep that
 * part apart: a product for each. */
LOOP(gru_step, GruArgs) {
    const ptrdiff_t time = args->time, units = args->units, items = to - from, wide = 3 * units;
    float *gate_strips = room_for_strips(units, 2 * units);
    float *candidate_strips = room_for_strips(units, units);
    float *h = room_for(items * units + wide);
    if (gate_strips && candidate_strips && h) {
        const float *kernel = args->recurrent_kernel;
        fill_strips((Matrix){kernel, wide, 1}, 0, units, units, 2 * units, gate_strips);
        fill_strips((Matrix){kernel + 2 * units, wide, 1}, 0, units, units, units,
                    candidate_strips);
        float *bias = h + items * units;
        for (ptrdiff_t u = 0; u < wide; u++)
            bias[u] = args->bias ? args->bias[u] : 0.0f;
        copy_to(h, args->h + from * units, items * units);
        for (ptrdiff_t number = 0; number < time; number++) {
            ptrdiff_t step = STEP_OF(args, number), first = step * args->batch + from;
            ptrdiff_t row = from * time + step;
            float *gates = args->gates + first * wide;
            float *candidates = args->candidates + first * units;
            by_strips(items, 2 * units, units, h, units, gate_strips, 1, gates, wide);
            by_strips(items, units, units, h, units, candidate_strips, 0, candidates, units);
            for (ptrdiff_t item = 0; item < items; item++, row += time) {
                float *restrict z = gates + item * wide, *restrict r = z + units;
                float *restrict n = r + units, *restrict y = args->y + row * units;
                float *restrict candidate = candidates + item * units;
                float *restrict state = h + item * units;
                const int absent = IS_ABSENT(args, row);
                if (item + 1 < items)
                    ask_for(y + time * units, units);
                _Pragma("omp simd")
                for (ptrdiff_t u = 0; u < units; u++) {
                    z[u] = gate32(z[u] + bias[u]);
                    r[u] = gate32(r[u] + bias[units + u]);
                    candidate[u] += bias[2 * units + u];
                }
                _Pragma("omp simd")
                for (ptrdiff_t u = 0; u < units; u++) {
                    n[u] = tanh32(n[u] + r[u] * candidate[u]);
                    y[u] = state[u] = absent ? state[u] : n[u] + z[u] * (state[u] - n[u]);
                }
            }
        }
    } else {
        set_status(args->status, NO_MEMORY);
    }
    free(gate_strips);
    free(candidate_strips);
    free(h);
}

LOOP(gru_step_gradient, GruGradientArgs) {
    const ptrdiff_t time = args->time, units = args->units, items = to - from, wide = 3 * units;
    const ptrdiff_t inputs = args->dx ? args->inputs : 0;
    float *dh = args->dh + from * units;
    float *recurrent = transposed_strips(args->recurrent_kernel, units, wide);
    float *kernel = inputs ? transposed_strips(args->kernel, inputs, wide) : NULL;
    if (recurrent && (kernel || !inputs)) {
        for (ptrdiff_t number = time - 1; number >= 0; number--) {
            ptrdiff_t step = STEP_OF(args, number), first = step * args->batch + from;
            ptrdiff_t row = from * time + step;
            float *inputs_slopes = args->by_input + first * wide;
            float *states_slopes = args->by_state + first * wide;
            const float *before = number
                                    ? args->y + (from * time + STEP_OF(args, number - 1)) * units
                                    : args->h + from * units;
            ptrdiff_t apart = number ? time * units : units;
            for (ptrdiff_t item = 0; item < items; item++) {
                ptrdiff_t here = row + item * time;
                const float *restrict z = args->gates + (first + item) * wide;
                const float *restrict r = z + units, *restrict n = r + units;
                const float *restrict old = before + item * apart;
                const float *restrict dy_above = args->g + here * units;
                const float *restrict candidate = args->candidates + (first + item) * units;
                float *restrict by_input = inputs_slopes + item * wide;
                float *restrict by_state = states_slopes + item * wide;
                float *restrict slope = dh + item * units;
                if (IS_ABSENT(args, here)) {
                    memset(by_input, 0, (size_t)wide * sizeof(float));
                    memset(by_state, 0, (size_t)wide * sizeof(float));
                    for (ptrdiff_t u = 0; u < units; u++)
                        slope[u] += dy_above[u];
                    continue;
                }
                if (item + 1 < items) {
                    ask_for(dy_above + time * units, units);
                    ask_for(old + apart, units);
                }
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
            }
            by_strips(items, units, wide, states_slopes, wide, recurrent, 1, dh, units);
            if (inputs)
                by_strips(items, inputs, wide, inputs_slopes, wide, kernel, 0,
                          args->dx + row * inputs, time * inputs);
        }
    } else {
        set_status(args->status, NO_MEMORY);
    }
    free(recurrent);
    free(kernel);
}
