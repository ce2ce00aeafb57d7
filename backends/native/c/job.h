/* What every loop gets: pointers to its arrays, sizes and constants.
 *
 * A loop does the elements (or rows, steps, images: whatever it counts) from `from` up to `to`. It
 * must give the same whatever the bounds are, so that results do not depend on the threads. */
#ifndef PULLBACK_JOB_H
#define PULLBACK_JOB_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    void *p[12];
    ptrdiff_t n[16];
    double c[8];
} Job;

/* What loops that may fail say in an array of one int32_t, bit by bit: that there was no memory, and
 * that there are infinities or NaN. Then terms that are 0 count, for 0 * inf is NaN: zeros beyond an
 * edge, weights of what a mask hides. The caller leaves such arrays to NumPy's kernel, so that all
 * kernels agree on them. */
enum { NO_MEMORY = 1, NOT_FINITE = 2 };

/* Products with so few rows read a where it is, where each of its rows lies in a run. */
#define FEW_ROWS 240

typedef void (*Loop)(ptrdiff_t from, ptrdiff_t to, const Job *job);

/* All loops, in the order of their tables. */
#define LOOPS(X)                                                                                  \
    X(exp) X(tanh) X(sigmoid) X(silu) X(softplus) X(log_sigmoid) X(relu) X(negative)              \
    X(gelu_exact) X(gelu_tanh) X(gelu_exact_gradient) X(gelu_tanh_gradient) X(relu_gradient)      \
    X(tanh_gradient) X(sigmoid_gradient) X(silu_gradient) X(abs) X(square) X(sqrt) X(where)       \
    X(maximum) X(minimum) X(maximum_number) X(minimum_number) X(expm1) X(leaky_relu) X(elu)       \
    X(add) X(subtract) X(multiply) X(divide) X(add_row) X(multiply_row)                           \
    X(add_number) X(multiply_number) X(divide_number) X(subtract_from) X(divide_from)             \
    X(sgd) X(momentum) X(adam)                                                                    \
    X(softmax) X(log_softmax) X(softmax_gradient) X(log_softmax_gradient)                         \
    X(cross_entropy) X(cross_entropy_gradient)                                                    \
    X(attention) X(attention_gradient)                                                            \
    X(layer_norm) X(layer_norm_gradient) X(rms_norm) X(rms_norm_gradient)                         \
    X(sum) X(segment_sum) X(take) X(gather_runs) X(place_runs)                                     \
    X(channel_moments) X(channel_slopes) X(channel_affine) X(channel_combine)                     \
    X(lstm_step) X(lstm_step_gradient) X(gru_step) X(gru_step_gradient)                           \
    X(max_pool) X(max_pool_gradient) X(product) X(conv) X(conv_kernel_gradient)

#define NUMBER(name) LOOP_##name,
enum { LOOPS(NUMBER) LOOP_COUNT };
#undef NUMBER

extern const Loop loops_base[];
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define PULLBACK_VARIANTS 1
extern const Loop loops_avx2[];
extern const Loop loops_avx512[];
#endif

#endif
