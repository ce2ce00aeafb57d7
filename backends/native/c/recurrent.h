/* The long short-term memory and the gated recurrent unit, for the items `from` to `to` of a batch, through all of time.
 *
 * Everything is (batch, time, ...), as the op's inputs and residuals are: rows of a step are apart in
 * memory, which BLAS takes as it is, so nothing is ever transposed.
 * n: 0 time, 1 units, 2 whether time runs backwards. */

INLINE ptrdiff_t place_of(const Job *job, ptrdiff_t number) {
    return job->n[2] ? job->n[0] - 1 - number : number;
}

/* p: 0 gates, which hold what the inputs give to them; 1 recurrent kernel; 2 h and 3 c before the
 * first step; out are 4 outputs, 5 cells, and the gates in place. */
LOOP(lstm_step) {
    ptrdiff_t time = job->n[0], units = job->n[1], items = to - from;
    for (ptrdiff_t number = 0; number < time; number++) {
        ptrdiff_t step = place_of(job, number), before = place_of(job, number - 1);
        float *z = (float *)job->p[0] + (from * time + step) * 4 * units;
        float *out = (float *)job->p[4] + (from * time + step) * units;
        float *cells = (float *)job->p[5] + (from * time + step) * units;
        const float *h = (const float *)job->p[2] + from * units;
        const float *c = (const float *)job->p[3] + from * units;
        ptrdiff_t apart = units;
        if (number) {
            h = (const float *)job->p[4] + (from * time + before) * units;
            c = (const float *)job->p[5] + (from * time + before) * units;
            apart = time * units;
        }
        if (items == 1)
            gemv(0, units, 4 * units, job->p[1], h, 1.0f, z);
        else
            gemm(0, 0, items, 4 * units, units, h, apart, job->p[1], 4 * units, 1.0f, z,
                 time * 4 * units);
        for (ptrdiff_t item = 0; item < items; item++) {
            float *restrict i = z + item * time * 4 * units, *restrict f = i + units;
            float *restrict g = f + units, *restrict o = g + units;
            float *restrict cell = cells + item * time * units;
            float *restrict y = out + item * time * units;
            const float *restrict old = c + item * apart;
            _Pragma("omp simd") for (ptrdiff_t u = 0; u < units; u++) {
                i[u] = gate32(i[u]);
                f[u] = gate32(f[u]);
                g[u] = tanh32(g[u]);
                o[u] = gate32(o[u]);
                cell[u] = f[u] * old[u] + i[u] * g[u];
                y[u] = o[u] * tanh32(cell[u]);
            }
        }
    }
}

/* p: 0 gates; 1 recurrent kernel; 2 c before the first step; 3 cells; 4 the cotangents of outputs;
 * 5 dh and 6 dc, of the last state at first and of the first in the end; out are 7, the slopes of
 * the gates before their nonlinearities. */
LOOP(lstm_step_gradient) {
    ptrdiff_t time = job->n[0], units = job->n[1], items = to - from;
    for (ptrdiff_t number = time - 1; number >= 0; number--) {
        ptrdiff_t step = place_of(job, number), before = place_of(job, number - 1);
        const float *gates = (const float *)job->p[0] + (from * time + step) * 4 * units;
        const float *cells = (const float *)job->p[3] + (from * time + step) * units;
        const float *grads = (const float *)job->p[4] + (from * time + step) * units;
        const float *c = (const float *)job->p[2] + from * units;
        float *dz = (float *)job->p[7] + (from * time + step) * 4 * units;
        float *dh = (float *)job->p[5] + from * units, *dc = (float *)job->p[6] + from * units;
        ptrdiff_t apart = units;
        if (number) {
            c = (const float *)job->p[3] + (from * time + before) * units;
            apart = time * units;
        }
        for (ptrdiff_t item = 0; item < items; item++) {
            const float *restrict i = gates + item * time * 4 * units, *restrict f = i + units;
            const float *restrict g = f + units, *restrict o = g + units;
            const float *restrict cell = cells + item * time * units, *restrict old = c + item * apart;
            const float *restrict given = grads + item * time * units;
            float *restrict di = dz + item * time * 4 * units, *restrict df = di + units;
            float *restrict dg = df + units, *restrict d_o = dg + units;
            float *restrict h_slope = dh + item * units, *restrict c_slope = dc + item * units;
            _Pragma("omp simd") for (ptrdiff_t u = 0; u < units; u++) {
                float t = tanh32(cell[u]), dy = h_slope[u] + given[u];
                float slope = c_slope[u] + dy * o[u] * (1.0f - t * t);
                di[u] = slope * g[u] * (i[u] * (1.0f - i[u]));
                df[u] = slope * old[u] * (f[u] * (1.0f - f[u]));
                dg[u] = slope * i[u] * (1.0f - g[u] * g[u]);
                d_o[u] = dy * t * (o[u] * (1.0f - o[u]));
                c_slope[u] = slope * f[u];
            }
        }
        if (items == 1)
            gemv(1, units, 4 * units, job->p[1], dz, 0.0f, dh);
        else
            gemm(0, 1, items, units, 4 * units, dz, time * 4 * units, job->p[1], 4 * units, 0.0f, dh,
                 units);
    }
}

/* The gated recurrent unit. p: 0 gates z, r, n, which hold what the inputs give to them; 1 recurrent
 * kernel; 2 h before the first step; 3 room for (batch, 3 * units); 6 the bias of the recurrence or
 * NULL; out are 4 outputs, 5 what the state gives to the candidates, and the gates in place. */
LOOP(gru_step) {
    ptrdiff_t time = job->n[0], units = job->n[1], items = to - from;
    const float *bias = job->p[6];
    float *product = (float *)job->p[3] + from * 3 * units;
    for (ptrdiff_t number = 0; number < time; number++) {
        ptrdiff_t step = place_of(job, number), before = place_of(job, number - 1);
        float *gates = (float *)job->p[0] + (from * time + step) * 3 * units;
        float *out = (float *)job->p[4] + (from * time + step) * units;
        float *candidates = (float *)job->p[5] + (from * time + step) * units;
        const float *h = (const float *)job->p[2] + from * units;
        ptrdiff_t apart = units;
        if (number) {
            h = (const float *)job->p[4] + (from * time + before) * units;
            apart = time * units;
        }
        for (ptrdiff_t k = 0; k < items * 3 * units; k++)
            product[k] = bias ? bias[k % (3 * units)] : 0.0f;
        if (items == 1)
            gemv(0, units, 3 * units, job->p[1], h, 1.0f, product);
        else
            gemm(0, 0, items, 3 * units, units, h, apart, job->p[1], 3 * units, 1.0f, product,
                 3 * units);
        for (ptrdiff_t item = 0; item < items; item++) {
            float *restrict z = gates + item * time * 3 * units, *restrict r = z + units;
            float *restrict n = r + units, *restrict y = out + item * time * units;
            float *restrict candidate = candidates + item * time * units;
            const float *restrict state = product + item * 3 * units;
            const float *restrict old = h + item * apart;
            _Pragma("omp simd") for (ptrdiff_t u = 0; u < units; u++) {
                z[u] = gate32(z[u] + state[u]);
                r[u] = gate32(r[u] + state[units + u]);
                candidate[u] = state[2 * units + u];
                n[u] = tanh32(n[u] + r[u] * candidate[u]);
                y[u] = n[u] + z[u] * (old[u] - n[u]);
            }
        }
    }
}

/* p: 0 gates; 1 recurrent kernel; 2 h before the first step; 3 outputs; 4 their cotangents; 5 what
 * the state gave to the candidates; 6 dh, of the last state at first and of the first in the end;
 * out are 7 and 8, the slopes of what inputs and states give to the gates. */
LOOP(gru_step_gradient) {
    ptrdiff_t time = job->n[0], units = job->n[1], items = to - from;
    float *dh = (float *)job->p[6] + from * units;
    for (ptrdiff_t number = time - 1; number >= 0; number--) {
        ptrdiff_t step = place_of(job, number), before = place_of(job, number - 1);
        ptrdiff_t place = from * time + step, apart = units;
        const float *gates = (const float *)job->p[0] + place * 3 * units;
        const float *h = (const float *)job->p[2] + from * units;
        float *by_input = (float *)job->p[7] + place * 3 * units;
        float *by_state = (float *)job->p[8] + place * 3 * units;
        if (number) {
            h = (const float *)job->p[3] + (from * time + before) * units;
            apart = time * units;
        }
        for (ptrdiff_t item = 0; item < items; item++) {
            const float *restrict z = gates + item * time * 3 * units, *restrict r = z + units;
            const float *restrict n = r + units, *restrict old = h + item * apart;
            const float *restrict given = (const float *)job->p[4] + (place + item * time) * units;
            const float *restrict candidate = (const float *)job->p[5] + (place + item * time) * units;
            float *restrict da = by_input + item * time * 3 * units;
            float *restrict db = by_state + item * time * 3 * units;
            float *restrict slope = dh + item * units;
            _Pragma("omp simd") for (ptrdiff_t u = 0; u < units; u++) {
                float dy = slope[u] + given[u];
                float dn = dy * (1.0f - z[u]) * (1.0f - n[u] * n[u]);
                float dz = dy * (old[u] - n[u]) * (z[u] * (1.0f - z[u]));
                float dr = dn * candidate[u] * (r[u] * (1.0f - r[u]));
                da[u] = db[u] = dz;
                da[units + u] = db[units + u] = dr;
                da[2 * units + u] = dn;
                db[2 * units + u] = dn * r[u];
                slope[u] = dy * z[u];
            }
        }
        if (items == 1)
            gemv(1, units, 3 * units, job->p[1], by_state, 1.0f, dh);
        else
            gemm(0, 1, items, units, 3 * units, by_state, time * 3 * units, job->p[1], 3 * units, 1.0f,
                 dh, units);
    }
}
