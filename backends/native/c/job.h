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

typedef void (*Loop)(ptrdiff_t from, ptrdiff_t to, const Job *job);

/* All loops, in the order of their tables. */
#define LOOPS(X)                                                                                  \
    X(exp) X(tanh) X(sigmoid) X(silu) X(softplus) X(log_sigmoid) X(relu) X(negative)              \
    X(gelu_exact) X(gelu_tanh) X(gelu_exact_gradient) X(gelu_tanh_gradient) X(relu_gradient)      \
    X(add) X(subtract) X(multiply) X(divide) X(add_row) X(multiply_row)                           \
    X(add_number) X(multiply_number) X(divide_number) X(subtract_from) X(divide_from)             \
    X(sgd) X(momentum) X(adam)                                                                    \
    X(softmax) X(log_softmax) X(cross_entropy) X(cross_entropy_gradient)                          \
    X(attention) X(attention_gradient)                                                            \
    X(layer_norm) X(layer_norm_gradient) X(rms_norm) X(rms_norm_gradient)                         \
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
