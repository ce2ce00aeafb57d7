/* Loops that move elements: rows by index, and arrays into C order. */

INLINE void copy_run(float *restrict target, const float *restrict source, ptrdiff_t size) {
    _Pragma("omp simd")
    for (ptrdiff_t i = 0; i < size; i++)
        target[i] = source[i];
}

INLINE ptrdiff_t index_at(const void *indices, ptrdiff_t wide, ptrdiff_t i) {
    return wide ? (ptrdiff_t)((const int64_t *)indices)[i]
                : (ptrdiff_t)((const int32_t *)indices)[i];
}

/* Single numbers: nothing but the index and the number is read in between. */
#define TAKE_NUMBERS(T)                                                                            \
    do {                                                                                           \
        const T *indices = args->indices;                                                          \
        for (ptrdiff_t unit = from; unit < to; unit++) {                                           \
            ptrdiff_t row = (ptrdiff_t)indices[unit];                                              \
            args->y[unit] = args->x[row < 0 ? row + rows : row];                                   \
        }                                                                                          \
    } while (0)

LOOP(take, TakeArgs) {
    ptrdiff_t positions = args->positions, rows = args->rows, inner = args->inner;
    if (inner == 1 && to <= positions) {
        if (args->wide)
            TAKE_NUMBERS(int64_t);
        else
            TAKE_NUMBERS(int32_t);
        return;
    }
    ptrdiff_t at = from % positions;
    const float *x = args->x + from / positions * rows * inner;
    for (ptrdiff_t unit = from; unit < to; unit++) {
        ptrdiff_t row = index_at(args->indices, args->wide, at);
        row += row < 0 ? rows : 0;
        if (inner == 1)
            args->y[unit] = x[row];
        else
            copy_run(args->y + unit * inner, x + row * inner, inner);
        if (++at == positions)
            at = 0, x += rows * inner;
    }
}

LOOP(gather_runs, GatherRunsArgs) {
    ptrdiff_t run = args->run, axes = args->axes, at[RUN_AXES], offset = 0;
    const ptrdiff_t *sizes = args->sizes, *strides = args->strides;
    for (ptrdiff_t axis = axes - 1, rest = from; axis >= 0; axis--) {
        at[axis] = rest % sizes[axis];
        rest /= sizes[axis];
        offset += at[axis] * strides[axis];
    }
    for (ptrdiff_t unit = from; unit < to; unit++) {
        copy_run(args->y + unit * run, args->x + offset, run);
        for (ptrdiff_t axis = axes - 1; axis >= 0; axis--) {
            offset += strides[axis];
            if (++at[axis] < sizes[axis])
                break;
            offset -= sizes[axis] * strides[axis];
            at[axis] = 0;
        }
    }
}

LOOP(place_runs, PlaceRunsArgs) {
    ptrdiff_t run = args->run, step = args->step, count = args->count;
    for (ptrdiff_t unit = from; unit < to; unit++) {
        ptrdiff_t first = unit * run, some = count - first < run ? count - first : run;
        copy_run(args->y + unit * step, args->x + first, some);
    }
}
