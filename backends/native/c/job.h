/* The loops: their numbers, their types, and the table of each set of instructions.
 *
 * A loop does the elements (or rows, steps, images: whatever it counts) from `from` up to `to`. Its
 * results must not depend on these bounds, so that they do not depend on the number of threads. */
#ifndef PULLBACK_JOB_H
#define PULLBACK_JOB_H

#include "args.h"
#include "fourier.h"

/* The bits that loops set in their `status`: there was no memory; there are infinities or NaN. The
 * latter matters where terms are 0, for 0 * inf is NaN: zeros beyond an edge, weights of what a
 * mask hides. The caller leaves such arrays to NumPy's kernel, so that all kernels agree. */
enum { NO_MEMORY = 1, NOT_FINITE = 2 };

/* Products with so few rows read a where it is, where the elements of a row are neighbours. */
#define FEW_ROWS 240
/* Products with so few rows read b once, where it is, for so many rows at once. */
#define FEWEST_ROWS 16
#define MOST_FEW 8
/* Pieces of other products in bfloat16 are at most so large: their copies fit into a second-level
 * cache. */
#define MOST_ROWS 264
#define MOST_COLUMNS 512
/* Channels whose groups are normalized: the sums of so many fit into the first-level cache. */
#define MOST_CHANNELS 1024

/* Elements of 16 bits that are widened at a time before they are reduced. */
#define WIDENED_PIECE 16384
/* So many columns of them are added in place of that. */
#define WIDE_COLUMNS 128

/* A loop with its arguments, without their type. */
typedef void (*Loop)(ptrdiff_t from, ptrdiff_t to, const void *args);

/* The loops of exact.inc.h for a dtype: of all, and of integers beside them. */
/* clang-format off */
#define EXACT_LOOPS(X, type)                                                                      \
    X(negative_##type, UnaryArgs) X(square_##type, UnaryArgs) X(abs_##type, UnaryArgs)            \
    X(add_##type, BinaryArgs) X(subtract_##type, BinaryArgs) X(multiply_##type, BinaryArgs)       \
    X(add_number_##type, NumberArgs) X(multiply_number_##type, NumberArgs)                        \
    X(subtract_from_##type, NumberArgs) X(where_##type, WhereArgs) X(less_##type, CompareArgs)    \
    X(less_equal_##type, CompareArgs) X(greater_##type, CompareArgs)                              \
    X(greater_equal_##type, CompareArgs) X(equal_##type, CompareArgs)                             \
    X(not_equal_##type, CompareArgs)
#define INTEGER_LOOPS(X, type)                                                                    \
    EXACT_LOOPS(X, type) X(maximum_##type, BinaryArgs) X(minimum_##type, BinaryArgs)              \
    X(maximum_number_##type, NumberArgs) X(minimum_number_##type, NumberArgs)

/* Those of float32 that are there in double, too: `wide` is nothing, or _wide. */
#define FLOAT_LOOPS(X, wide)                                                                      \
    X(exp##wide, UnaryArgs) X(expm1##wide, UnaryArgs) X(tanh##wide, UnaryArgs)                    \
    X(erf##wide, UnaryArgs) X(sigmoid##wide, UnaryArgs) X(silu##wide, UnaryArgs)                  \
    X(sin##wide, UnaryArgs) X(cos##wide, UnaryArgs)                                               \
    X(softplus##wide, UnaryArgs) X(log_sigmoid##wide, UnaryArgs) X(selu##wide, UnaryArgs)         \
    X(gelu_exact##wide, UnaryArgs) X(gelu_tanh##wide, UnaryArgs) X(relu##wide, UnaryArgs)         \
    X(bell##wide, UnaryArgs) X(sign##wide, UnaryArgs) X(relu6##wide, UnaryArgs)                   \
    X(hard_tanh##wide, UnaryArgs) X(hard_sigmoid##wide, UnaryArgs)                                \
    X(hard_silu##wide, UnaryArgs) X(softsign##wide, UnaryArgs) X(power_3##wide, UnaryArgs)        \
    X(power_4##wide, UnaryArgs) X(power_5##wide, UnaryArgs) X(power_minus_2##wide, UnaryArgs)     \
    X(power_half##wide, UnaryArgs) X(power_minus_half##wide, UnaryArgs)                           \
    X(squared_error##wide, BinaryArgs) X(nextafter##wide, BinaryArgs)                             \
    X(sigmoid_cross_entropy##wide, BinaryArgs) X(prelu##wide, BinaryArgs)                         \
    X(slope_quotient##wide, BinaryArgs)                                                           \
    X(threshold##wide, BinaryArgs) X(reciprocal##wide, UnaryArgs) X(huber_loss##wide, BinaryArgs) X(leaky_relu_gradient##wide, BinaryArgs)                      \
    X(elu_gradient##wide, BinaryArgs) X(gelu_exact_gradient##wide, BinaryArgs)                    \
    X(gelu_tanh_gradient##wide, BinaryArgs) X(relu_gradient##wide, BinaryArgs)                    \
    X(tanh_gradient##wide, BinaryArgs) X(sigmoid_gradient##wide, BinaryArgs)                      \
    X(silu_gradient##wide, BinaryArgs) X(maximum##wide, BinaryArgs)                               \
    X(minimum##wide, BinaryArgs) X(leaky_relu##wide, NumberArgs) X(elu##wide, NumberArgs)         \
    X(clip##wide, ClipArgs) X(rsqrt##wide, UnaryArgs) X(soft_shrink##wide, NumberArgs)            \
    X(hard_shrink##wide, NumberArgs) X(celu##wide, NumberArgs)
/* Those of elements64.inc.h. */
#define WIDE_LOOPS(X)                                                                             \
    FLOAT_LOOPS(X, _wide) X(exp2_wide, UnaryArgs) X(log_wide, UnaryArgs)                          \
    X(log1p_wide, UnaryArgs) X(log2_wide, UnaryArgs) X(log10_wide, UnaryArgs)                     \
    X(sinh_wide, UnaryArgs) X(cosh_wide, UnaryArgs) X(erfc_wide, UnaryArgs)                       \
    X(erfinv_wide, UnaryArgs) X(lgamma_wide, UnaryArgs) X(digamma_wide, UnaryArgs)                \
    X(mish_wide, UnaryArgs) X(log_cosh_loss_wide, BinaryArgs) X(hypot_wide, BinaryArgs) X(logaddexp_wide, BinaryArgs)               \
    X(mish_gradient_wide, BinaryArgs) X(pow_wide, BinaryArgs) X(floor_divide_wide, BinaryArgs)    \
    X(remainder_wide, BinaryArgs) X(fmod_wide, BinaryArgs) X(xlogy_wide, BinaryArgs)         \
    X(bessel_i0_wide, NumberArgs) X(bessel_i1_wide, NumberArgs) X(bessel_i2_wide, NumberArgs)  \
    X(polygamma_wide, NumberArgs) X(gamma_density_wide, BinaryArgs) X(logaddexp2_wide, BinaryArgs) X(regularized_gamma_wide, BinaryArgs)
/* Of integers, beside those of exact.inc.h. */
#define QUOTIENT_LOOPS(X)                                                                         \
    X(sign_int32, UnaryArgs) X(sign_int64, UnaryArgs) X(clip_int32, ClipArgs)                     \
    X(clip_int64, ClipArgs) X(floor_divide_int32, BinaryArgs)             \
    X(floor_divide_int64, BinaryArgs) X(remainder_int32, BinaryArgs)                              \
    X(remainder_int64, BinaryArgs)

/* The loops of reductions.inc.h for a dtype. */
#define FOLD_LOOPS(X, type)                                                                       \
    X(sum_##type, FoldArgs) X(prod_##type, FoldArgs) X(max_##type, FoldArgs)                      \
    X(min_##type, FoldArgs) X(norm_##type, FoldArgs)

/* The loops of arrays.inc.h. */
#define ARRAY_LOOPS(X)                                                                            \
    FOLD_LOOPS(X, float32) FOLD_LOOPS(X, float64) X(sum_halves, FoldArgs) X(fold_halves, HalfFoldArgs)                    \
    X(running_sum_float32, ScanArgs) X(running_sum_float64, ScanArgs) X(running_sum_int64, ScanArgs)                             \
    X(running_prod_float32, ScanArgs) X(running_prod_float64, ScanArgs)                           \
    X(top_float32, TopArgs) X(top_float64, TopArgs) X(top_int32, TopArgs) X(top_int64, TopArgs)   \
    X(running_max_float32, ScanArgs) X(running_max_float64, ScanArgs)                             \
    X(running_min_float32, ScanArgs) X(running_min_float64, ScanArgs)                             \
    X(running_max_int64, ScanArgs) X(running_min_int64, ScanArgs)                                 \
    X(recurrence_float32, RecurrenceArgs) X(recurrence_float64, RecurrenceArgs)                   \
    X(distances_float32, DistancesArgs) X(distances_float64, DistancesArgs)                       \
    X(weighted_differences_float32, DifferencesArgs)                                              \
    X(weighted_differences_float64, DifferencesArgs)                                              \
    X(ctc_float32, CtcArgs) X(ctc_float64, CtcArgs)                                               \
    X(segment_sum, SegmentSumArgs) X(take, TakeArgs)                                              \
    X(gather_runs, GatherRunsArgs) X(place_runs, PlaceRunsArgs)                                  \
    X(lu_float32, FactorsArgs) X(lu_float64, FactorsArgs)                                         \
    X(systems_float32, SystemsArgs) X(systems_float64, SystemsArgs)                               \
    X(resample_float64, ResampleArgs)

/* Those of columns.inc.h. */
#define COLUMN_LOOPS(X, type)                                                                     \
    X(softmax_columns_##type, ColumnsArgs) X(log_softmax_columns_##type, ColumnsArgs)             \
    X(softmax_gradient_columns_##type, ColumnsArgs)                                               \
    X(log_softmax_gradient_columns_##type, ColumnsArgs)

/* Those of loops.inc.h. */
#define ELEMENT_LOOPS(X)                                                                          \
    FLOAT_LOOPS(X, ) X(erfc, UnaryArgs) X(erfinv, UnaryArgs) X(negative_half, UnaryArgs) X(abs_half, UnaryArgs) X(negative, UnaryArgs) X(abs, UnaryArgs) X(square, UnaryArgs)                \
    X(sqrt, UnaryArgs) X(floor, UnaryArgs) X(ceil, UnaryArgs) X(trunc, UnaryArgs)                 \
    X(round, UnaryArgs) X(add, BinaryArgs) X(subtract, BinaryArgs) X(multiply, BinaryArgs)         \
    X(divide, BinaryArgs) X(maximum_number, NumberArgs) X(minimum_number, NumberArgs)             \
    X(add_number, NumberArgs) X(multiply_number, NumberArgs) X(divide_number, NumberArgs)         \
    X(subtract_from, NumberArgs) X(divide_from, NumberArgs) X(add_row, RowArgs)                   \
    X(multiply_row, RowArgs) X(where, WhereArgs) X(less, CompareArgs)                             \
    X(less_equal, CompareArgs) X(greater, CompareArgs) X(greater_equal, CompareArgs)              \
    X(equal, CompareArgs) X(not_equal, CompareArgs) QUOTIENT_LOOPS(X)                             \
    EXACT_LOOPS(X, float64) X(sqrt_float64, UnaryArgs) X(divide_float64, BinaryArgs)              \
    X(divide_number_float64, NumberArgs) X(divide_from_float64, NumberArgs)                       \
    INTEGER_LOOPS(X, int32) INTEGER_LOOPS(X, int64) WIDE_LOOPS(X)                                         \
    X(sgd, SgdArgs) X(momentum, MomentumArgs) X(adam, AdamArgs)                                   \
    COLUMN_LOOPS(X, float32) COLUMN_LOOPS(X, float64)                                             \
    X(softmax, SoftmaxArgs) X(log_softmax, SoftmaxArgs)                                           \
    X(softmax_gradient, SoftmaxGradientArgs) X(log_softmax_gradient, SoftmaxGradientArgs)         \
    X(cross_entropy, CrossEntropyArgs) X(cross_entropy_gradient, CrossEntropyGradientArgs)        \
    X(dense_cross_entropy, DenseCrossEntropyArgs)                                                 \
    X(attention, AttentionArgs) X(attention_gradient, AttentionGradientArgs)                      \
    X(layer_norm, LayerNormArgs) X(layer_norm_gradient, LayerNormGradientArgs)                    \
    X(layer_norm_wide, LayerNormArgs) X(layer_norm_gradient_wide, LayerNormGradientArgs)          \
    X(rms_norm, RmsNormArgs) X(rms_norm_gradient, RmsNormGradientArgs)                            \
    X(channel_moments, ChannelMomentsArgs) X(channel_slopes, ChannelSlopesArgs)                   \
    X(channel_affine, ChannelAffineArgs) X(channel_combine, ChannelCombineArgs)                   \
    X(channel_halves, ChannelHalvesArgs)                                                          \
    X(lstm_step, LstmArgs) X(lstm_step_gradient, LstmGradientArgs)                                \
    X(gru_step, GruArgs) X(gru_step_gradient, GruGradientArgs)                                    \
    X(max_pool, MaxPoolArgs) X(max_pool_gradient, MaxPoolGradientArgs) X(avg_pool, AvgPoolArgs)   \
    X(resample, ResampleArgs) X(depthwise, DepthwiseArgs)                                         \
    X(depthwise_input_gradient, DepthwiseArgs) X(depthwise_kernel_gradient, DepthwiseArgs)        \
    X(product, ProductArgs) X(pack_strips, PackStripsArgs)                                        \
    X(conv, ConvArgs) X(conv_kernel_gradient, ConvKernelGradientArgs)                             \
    X(narrow, NarrowArgs) X(elements, ElementsArgs)                                               \
    X(group_norm_float32, GroupNormArgs) X(group_norm_float64, GroupNormArgs)                     \
    X(group_norm_gradient_float32, GroupNormGradientArgs)                                         \
    X(group_norm_gradient_float64, GroupNormGradientArgs)                                         \
    X(variance_float32, RowwiseArgs) X(variance_float64, RowwiseArgs)                             \
    X(logsumexp_float32, RowwiseArgs) X(logsumexp_float64, RowwiseArgs)                           \
    X(draw_bits32, DrawArgs) X(draw_bits64, DrawArgs) X(draw_float32, DrawArgs)                   \
    X(draw_float64, DrawArgs) X(drop, DropArgs) X(normal_pairs, NormalArgs)                       \
    X(product_bfloat16, Bfloat16ProductArgs) X(few_rows_bfloat16, Bfloat16ProductArgs)

/* Those of fourier.inc.h. */
#define FOURIER_LOOPS(X) X(fourier_float32, FourierArgs) X(fourier_float64, FourierArgs)

/* All loops with the type of their arguments, in the order of their tables. */
#define LOOPS(X) ELEMENT_LOOPS(X) ARRAY_LOOPS(X) FOURIER_LOOPS(X)
/* clang-format on */

#define NUMBER(name, Args) LOOP_##name,
enum { LOOPS(NUMBER) LOOP_COUNT };
#undef NUMBER

extern const Loop loops_base[];
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define PULLBACK_VARIANTS 1
extern const Loop loops_avx2[];
extern const Loop loops_avx512[];
#endif

#endif
