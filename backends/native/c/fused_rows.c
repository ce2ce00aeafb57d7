/* The steps of fused kernels that take rows as a whole: softmax and the normalizations, by the
 * loops of their kernels. */
#include "fused.h"

/* An operand that may be absent. */
static void *register_or_null(char *const *at, int i) { return i < 0 ? NULL : at[i]; }

void over_rows(const Fused *fused, const Step *step, char *const *at, const double *numbers,
               ptrdiff_t count) {
    ptrdiff_t width = fused->width, rows = count / width;
    const float *x = (float *)at[step->in[0]];
    float *y = (float *)at[step->out];
#define OPERAND(i) register_or_null(at, step->in[i])
#define ASIDE(i) register_or_null(at, step->aside[i])
    switch (step->loop) {
    case LOOP_layer_norm: {
        LayerNormArgs args = {.x = x,
                              .scale = OPERAND(1),
                              .offset = OPERAND(2),
                              .y = y,
                              .mean = ASIDE(0),
                              .spread = ASIDE(1),
                              .width = width,
                              .epsilon = numbers[step->epsilon]};
        loops[LOOP_layer_norm](0, rows, &args);
        break;
    }
    case LOOP_rms_norm: {
        RmsNormArgs args = {.x = x,
                            .scale = OPERAND(1),
                            .y = y,
                            .spread = ASIDE(0),
                            .width = width,
                            .epsilon = numbers[step->epsilon]};
        loops[LOOP_rms_norm](0, rows, &args);
        break;
    }
    case LOOP_channel_affine: {
        ChannelAffineArgs args = {.x = x,
                                  .mean = OPERAND(1),
                                  .factor = OPERAND(2),
                                  .offset = OPERAND(3),
                                  .y = y,
                                  .width = width};
        loops[LOOP_channel_affine](0, rows, &args);
        break;
    }
    default: {
        SoftmaxArgs args = {.x = x, .y = y, .width = width};
        loops[step->loop](0, rows, &args);
    }
    }
#undef OPERAND
#undef ASIDE
}

void make_factors(const Fused *fused, char *const *base, const double *numbers) {
    for (const Step *step = fused->step; step < fused->step + fused->steps; step++)
        if (step->code == FACTORS)
            channel_factors((float *)base[step->in[0]], (float *)base[step->in[1]],
                            numbers[step->epsilon], fused->width, (float *)base[step->out]);
}

/* True if an operand is a row: an input, or what FACTORS made. */
static int is_row(const Fused *fused, int i) {
    if (i < 0 || i >= fused->arrays + fused->outputs)
        return 0;
    int kind = i < fused->arrays ? fused->kinds[i] : fused->output_kinds[i - fused->arrays];
    return kind == ONE_ROW || (i < fused->arrays && kind == FLOATS && fused->total == fused->width);
}

/* True if a register has room for a number for each row of a block. */
static int has_row_numbers(const Fused *fused, int i) {
    int output = i - fused->arrays;
    return output >= 0 && i < fused->arrays + fused->outputs + fused->buffers
        && (output >= fused->outputs || fused->output_kinds[output] == ROW_NUMBERS);
}

int is_right_over_rows(const Fused *fused, const Step *step) {
    int makes_factors = step->code == FACTORS;
    int has_epsilon = step->loop == LOOP_layer_norm || step->loop == LOOP_rms_norm;
    if ((makes_factors || has_epsilon) && (step->epsilon < 0 || step->epsilon >= fused->numbers))
        return 0;
    if (makes_factors)
        return is_row(fused, step->in[0]) && is_row(fused, step->in[1]) && is_row(fused, step->out);
    /* What is at in[i] must be a row, may be absent, or does not exist. */
    int most = 0, least = 0, aside = 0;
    switch (step->loop) {
    case LOOP_softmax:
    case LOOP_log_softmax:
        break;
    case LOOP_layer_norm:
        most = 2, aside = 2;
        break;
    case LOOP_rms_norm:
        most = 1, aside = 1;
        break;
    case LOOP_channel_affine:
        most = least = 3;
        break;
    default:
        return 0;
    }
    int right = fused->dtype == OF_FLOAT32 && fused->block % fused->width == 0
             && fused->unit % fused->block == 0 && fused->total % fused->width == 0;
    for (int i = 1; i <= most; i++)
        right &= is_row(fused, step->in[i]) || (step->in[i] == -1 && i > least);
    for (int i = 0; i < aside; i++)
        right &= has_row_numbers(fused, step->aside[i]);
    return right;
}
