/* Elements moved: rows taken by number, and arrays brought into C order. */

INLINE void copy_run(float *restrict target, const float *restrict source, ptrdiff_t size) {
    _Pragma("omp simd") for (ptrdiff_t i = 0; i < size; i++) target[i] = source[i];
}

INLINE ptrdiff_t index_at(const void *indices, ptrdiff_t wide, ptrdiff_t i) {
    return wide ? (ptrdiff_t)((const int64_t *)indices)[i]
                : (ptrdiff_t)((const int32_t *)indices)[i];
}

/* x (outer, size, inner) and indices (n[3]: of 64 bits) in; (outer, places, inner) out. */
LOOP(take) {
    ptrdiff_t places = job->n[0], rows = job->n[1], inner = job->n[2];
    for (ptrdiff_t unit = from; unit < to; unit++) {
        ptrdiff_t row = index_at(job->p[1], job->n[3], unit % places);
        row += unit / places * rows + (row < 0 ? rows : 0);
        copy_run((float *)job->p[2] + unit * inner, (const float *)job->p[0] + row * inner, inner);
    }
}

/* Runs of n[0] neighbours in C order, gathered over n[1] axes: sizes n[2...], strides n[8...]. */
LOOP(gather_runs) {
    ptrdiff_t run = job->n[0], axes = job->n[1], at[6], place = 0;
    const ptrdiff_t *sizes = job->n + 2, *strides = job->n + 8;
    for (ptrdiff_t axis = axes - 1, rest = from; axis >= 0; axis--) {
        at[axis] = rest % sizes[axis];
        rest /= sizes[axis];
        place += at[axis] * strides[axis];
    }
    for (ptrdiff_t unit = from; unit < to; unit++) {
        copy_run((float *)job->p[1] + unit * run, (const float *)job->p[0] + place, run);
        for (ptrdiff_t axis = axes - 1; axis >= 0; axis--) {
            place += strides[axis];
            if (++at[axis] < sizes[axis])
                break;
            place -= sizes[axis] * strides[axis];
            at[axis] = 0;
        }
    }
}

/* Runs of n[0] neighbours put at every n[1]-th place, n[2] of them in all. */
LOOP(place_runs) {
    ptrdiff_t run = job->n[0], step = job->n[1], all = job->n[2];
    for (ptrdiff_t unit = from; unit < to; unit++) {
        ptrdiff_t first = unit * run, some = all - first < run ? all - first : run;
        copy_run((float *)job->p[1] + unit * step, (const float *)job->p[0] + first, some);
    }
}
