/* Convolution over images, channels last, in blocks of rows of the output: the windows of a block are
 * gathered into a matrix that stays in the cache, and multiplied by BLAS.
 * n: 0 height, 1 width, 2 channels, 3 out height, 4 out width, 5 and 6 the window, 7 and 8 the
 * strides, 9 and 10 the padding before, 11 and 12 the dilation, 13 features, 14 rows of the output
 * in all, 15 rows of a block. */
#include <stdlib.h>
#include <string.h>

/* One row of windows, (out width, window * channels), of the image's rows from `top` on. */
INLINE void gather_row(const Job *job, const float *image, ptrdiff_t top, float *columns) {
    ptrdiff_t height = job->n[0], width = job->n[1], channels = job->n[2], taps = job->n[6];
    ptrdiff_t run = taps * channels, apart = job->n[5] * run;
    for (ptrdiff_t i = 0; i < job->n[5]; i++) {
        ptrdiff_t y = top + i * job->n[11];
        const float *line = image + y * width * channels;
        float *target = columns + i * run;
        for (ptrdiff_t column = 0; column < job->n[4]; column++, target += apart) {
            ptrdiff_t left = column * job->n[8] - job->n[10];
            if (y < 0 || y >= height) {
                memset(target, 0, (size_t)run * sizeof(float));
            } else if (job->n[12] == 1) {
                /* Taps from `begin` to `end` lie in the image. */
                ptrdiff_t begin = left < 0 ? -left : 0, end = width - left < taps ? width - left : taps;
                begin = begin < taps ? begin : taps;
                end = end > begin ? end : begin;
                if (begin)
                    memset(target, 0, (size_t)(begin * channels) * sizeof(float));
                if (begin < end)
                    memcpy(target + begin * channels, line + (left + begin) * channels,
                           (size_t)((end - begin) * channels) * sizeof(float));
                if (end < taps)
                    memset(target + end * channels, 0, (size_t)((taps - end) * channels) * sizeof(float));
            } else {
                for (ptrdiff_t j = 0; j < taps; j++) {
                    ptrdiff_t x = left + j * job->n[12];
                    if (x < 0 || x >= width)
                        memset(target + j * channels, 0, (size_t)channels * sizeof(float));
                    else
                        memcpy(target + j * channels, line + x * channels,
                               (size_t)channels * sizeof(float));
                }
            }
        }
    }
}

/* Gathers block number `block`; returns how many windows it has, and with `first` which is its first. */
INLINE ptrdiff_t gather(const Job *job, const float *x, ptrdiff_t block, float *columns,
                        ptrdiff_t *first) {
    ptrdiff_t inner = job->n[5] * job->n[6] * job->n[2], top = block * job->n[15];
    ptrdiff_t bottom = top + job->n[15] < job->n[14] ? top + job->n[15] : job->n[14];
    for (ptrdiff_t row = top; row < bottom; row++)
        gather_row(job, x + row / job->n[3] * job->n[0] * job->n[1] * job->n[2],
                   row % job->n[3] * job->n[7] - job->n[9],
                   columns + (row - top) * job->n[4] * inner);
    *first = top * job->n[4];
    return (bottom - top) * job->n[4];
}

INLINE float *room_for_block(const Job *job) {
    size_t bytes = (size_t)(job->n[15] * job->n[4] * job->n[5] * job->n[6] * job->n[2]) * sizeof(float);
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

/* x and the kernel in, y out; blocks are counted. p[3] becomes 1 where there is no memory. */
LOOP(conv) {
    ptrdiff_t inner = job->n[5] * job->n[6] * job->n[2], features = job->n[13], first;
    float *columns = room_for_block(job);
    if (!columns) {
        *(int32_t *)job->p[3] = 1;
        return;
    }
    for (ptrdiff_t block = from; block < to; block++) {
        ptrdiff_t rows = gather(job, job->p[0], block, columns, &first);
        gemm(0, 0, rows, features, inner, columns, inner, job->p[1], features, 0.0f,
             (float *)job->p[2] + first * features, features);
    }
    free(columns);
}

/* x and g in, c[0] sums of a share of the blocks each out; sums are counted. */
LOOP(conv_kernel_gradient) {
    ptrdiff_t inner = job->n[5] * job->n[6] * job->n[2], features = job->n[13], first;
    ptrdiff_t parts = (ptrdiff_t)job->c[0], blocks = (job->n[14] + job->n[15] - 1) / job->n[15];
    float *columns = room_for_block(job);
    if (!columns) {
        *(int32_t *)job->p[3] = 1;
        return;
    }
    for (ptrdiff_t part = from; part < to; part++) {
        ptrdiff_t begin = part * blocks / parts, end = (part + 1) * blocks / parts;
        for (ptrdiff_t block = begin; block < end; block++) {
            ptrdiff_t rows = gather(job, job->p[0], block, columns, &first);
            gemm(1, 0, inner, features, rows, columns, inner,
                 (const float *)job->p[1] + first * features, features, block > begin ? 1.0f : 0.0f,
                 (float *)job->p[2] + part * inner * features, features);
        }
    }
    free(columns);
}
