/* The long short-term memory, for the items `from` to `to` of a batch, through all of time.
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
