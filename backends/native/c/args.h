/* The arguments of every loop: one struct for each family of loops.
 *
 * `const` arrays are read, others are written. Arrays that may be NULL say so. A loop that may fail
 * has `status`, where it sets bits (see job.h). Every member has 8 bytes, so that module.c can
 * check at compile time that its tables of names are complete. */
#ifndef PULLBACK_ARGS_H
#define PULLBACK_ARGS_H

#include <stddef.h>
#include <stdint.h>

/* Elementwise. --------------------------------------------------------------------------------- */

typedef struct {
    const float *x;
    float *y;
} UnaryArgs;

/* `number` is an attribute of some. */
typedef struct {
    const float *x1, *x2;
    float *y;
    double number;
} BinaryArgs;

/* An array and a number. */
typedef struct {
    const float *x;
    float *y;
    double number;
} NumberArgs;

/* x limited to the interval from `least` to `most`. */
typedef struct {
    const float *x, *least, *most;
    float *y;
} ClipArgs;

/* An array and a row of `width` elements, which meets each row of the array. */
typedef struct {
    const float *x, *row;
    float *y;
    ptrdiff_t width;
} RowArgs;

/* `x1` where the bytes of `condition` are not 0, else `x2`; either may be a single number. */
typedef struct {
    const unsigned char *condition;
    const float *x1, *x2;
    float *y;
    ptrdiff_t x1_is_number, x2_is_number;
} WhereArgs;

/* Comparisons; either operand may be a single number. */
typedef struct {
    const float *x1, *x2;
    unsigned char *y;
    ptrdiff_t x1_is_number, x2_is_number;
} CompareArgs;

/* Types of elements, in memory and in loops. */
enum { BOOLEAN, FLOAT16, BFLOAT16, FLOAT32, FLOAT64, INT32, INT64 };
#define SIZE_OF(type) ((ptrdiff_t[]){1, 2, 2, 4, 8, 4, 8}[type])

/* Which of the structs above a loop takes. */
enum { OF_ONE, OF_TWO, OF_NUMBER, COMPARED, SELECTED, CLIPPED };

#define MOST_OPERANDS 3
#define MOST_AXES 8

/* An array whose elements are `steps` bytes apart along each axis of the result. Those of a plain
 * one lie as the result's do; all those of a repeated one are the same. */
typedef struct {
    const char *at;
    ptrdiff_t type, is_plain, is_repeated, steps[MOST_AXES];
} Operand;

/* A loop over contiguous arrays of `type`, for operands of any strides that may be narrower: `loop`
 * is -1 for their conversion. The result y, of `shape`, is contiguous. */
typedef struct {
    char *y;
    double number;
    ptrdiff_t y_type, type, loop, form, operands, axes, shape[MOST_AXES];
    Operand x[MOST_OPERANDS];
} ElementsArgs;

/* Optimizers: a parameter p, its gradient g and its slots, then the new values. */

typedef struct {
    const float *p, *g;
    float *new_p;
    double rate, weight_decay;
} SgdArgs;

/* With velocities v; `nesterov` is a boolean. */
typedef struct {
    const float *p, *g, *v;
    float *new_p, *new_v;
    double rate, weight_decay, momentum;
    ptrdiff_t nesterov;
} MomentumArgs;

/* With moments m and v. `share1` and `share2` are 1 - beta1 and 1 - beta2; `scale` and `epsilon`
 * include the corrections of bias; `step_decay` is the weight decay times the rate. */
typedef struct {
    const float *p, *g, *m, *v;
    float *new_p, *new_m, *new_v;
    double share1, share2, scale, epsilon, weight_decay, step_decay;
} AdamArgs;

/* Rows of `width` elements. -------------------------------------------------------------------- */

typedef struct {
    const float *x;
    float *y;
    ptrdiff_t width;
} SoftmaxArgs;

/* The output y of the forward pass and its gradient g; the gradient of the input is dx. */
typedef struct {
    const float *g, *y;
    float *dx;
    ptrdiff_t width;
} SoftmaxGradientArgs;

/* The class of each row: int64_t where `wide`, else int32_t. Rows of class `ignored` do not count
 * where `has_ignored`. */
typedef struct {
    const void *at;
    ptrdiff_t wide, has_ignored, ignored;
} Labels;

/* `normalizers` are log(sum(exp(logits))), for each row. */
typedef struct {
    const float *logits;
    float *losses, *normalizers;
    ptrdiff_t width;
    Labels labels;
} CrossEntropyArgs;

/* The same for a probability of each class: of those given `kept`, and `spread` for each. */
typedef struct {
    const float *logits, *labels;
    float *losses, *normalizers;
    ptrdiff_t width;
    float kept, spread;
} DenseCrossEntropyArgs;

typedef struct {
    const float *logits, *normalizers, *g;
    float *dlogits;
    ptrdiff_t width;
    Labels labels;
} CrossEntropyGradientArgs;

/* `scale` and `offset` may be NULL. `spread` is 1 / the standard deviation, for each row. */
typedef struct {
    const float *x, *scale, *offset;
    float *y, *mean, *spread;
    ptrdiff_t width;
    double epsilon;
} LayerNormArgs;

/* `sums` has two rows for each piece of `piece_rows` rows: the sums of g * y and of g. */
typedef struct {
    const float *x, *scale, *mean, *spread, *g;
    float *dx, *sums;
    ptrdiff_t width, piece_rows;
} LayerNormGradientArgs;

/* `scale` may be NULL. `spread` is 1 / the root of the mean square, for each row. */
typedef struct {
    const float *x, *scale;
    float *y, *spread;
    ptrdiff_t width;
    double epsilon;
} RmsNormArgs;

/* `sums` has a row for each piece of `piece_rows` rows: the sums of g * y. */
typedef struct {
    const float *x, *scale, *spread, *g;
    float *dx, *sums;
    ptrdiff_t width, piece_rows;
} RmsNormGradientArgs;

/* Channels: pixels of `width` channels. -------------------------------------------------------- */

/* `sums` has two rows for each piece of `piece_rows` pixels: the means, and the sums of the squared
 * distances from them. */
typedef struct {
    const float *x;
    float *sums;
    ptrdiff_t width, piece_rows;
} ChannelMomentsArgs;

/* `sums` has two rows for each piece of `piece_rows` pixels: sums of g and of g * (x - mean). */
typedef struct {
    const float *x, *mean, *g;
    float *sums;
    ptrdiff_t width, piece_rows;
} ChannelSlopesArgs;

typedef struct {
    const float *x, *mean, *factor, *offset;
    float *y;
    ptrdiff_t width;
} ChannelAffineArgs;

typedef struct {
    const float *x, *mean, *g, *by_x, *factor, *constant;
    float *dx;
    ptrdiff_t width;
} ChannelCombineArgs;

/* One of these loops, by its number, over 16-bit floats: x, g where it has one, and what it writes,
 * y, where it is no sum. The members of `part` with these names are not read. */
typedef struct {
    union {
        ChannelMomentsArgs moments;
        ChannelSlopesArgs slopes;
        ChannelAffineArgs affine;
        ChannelCombineArgs combine;
    } part;
    const uint16_t *x, *g;
    uint16_t *y;
    int32_t *status;
    ptrdiff_t loop, width, is_bfloat16;
} ChannelHalvesArgs;

/* Reductions and movement. --------------------------------------------------------------------- */

/* x is (outer, rows, inner), and rows are reduced, in `pieces` pieces of `piece_rows` rows; columns
 * are taken in `blocks` blocks. With several pieces their results go to `partial`, (outer, pieces,
 * inner), in the dtype in which they are taken; otherwise `partial` is NULL, and what is made of
 * them goes to y: sums of float32 times `factor`, those of float64 divided by `count`. Of x the
 * first `skipped` elements may be missing, where they are not reduced. */
typedef struct {
    const void *x;
    void *partial, *y;
    ptrdiff_t rows, inner, piece_rows, pieces, blocks, skipped;
    double factor, count;
} FoldArgs;

/* A fold, by its loop of float32, of an array of bfloat16 or float16; `item` is the size of its
 * partial results. */
typedef struct {
    FoldArgs fold;
    ptrdiff_t loop, item, is_bfloat16;
} HalfFoldArgs;

/* x is (outer, n, inner), and y too, with `initial` rows more along n, 0 or 1. Columns are taken in
 * `blocks` blocks. `reverse`: n is run along from its end. */
typedef struct {
    const void *x;
    void *y;
    ptrdiff_t n, inner, blocks, initial, reverse;
} ScanArgs;

/* Matrices x of m rows and n columns, whose factors take their place, and the pivots of each. */
typedef struct {
    void *x;
    int32_t *pivots;
    ptrdiff_t m, n;
} FactorsArgs;

/* Triangles x1 of n rows, so many elements apart, and right sides y of n rows and some columns,
 * whose solutions take their place. `upper`: the upper triangle is read; `unit`: it has ones on the
 * diagonal; `are_factors`: the lower triangle is solved with first, then the upper one. */
typedef struct {
    const void *x1;
    void *y;
    ptrdiff_t n, columns, matrix_step, upper, unit, are_factors;
} SystemsArgs;

/* y_ij is the distance of row i of a from row j of b, where rows have `size` elements. Items of
 * `rows` rows of a and `columns` rows of b follow each other. */
typedef struct {
    const void *a, *b;
    void *y;
    int32_t *status;
    ptrdiff_t rows, columns, size;
} DistancesArgs;

/* Row i of y is the sum over j of weights_ij (a_i - b_j); weights lie as the steps say. */
typedef struct {
    const void *a, *b, *weights;
    void *y;
    ptrdiff_t rows, columns, size, row_step, column_step;
} DifferencesArgs;

/* y_i = b_i + a_i y_{i-1}, or b_i + a_{i+1} y_{i+1} in reverse; all are (outer, n, inner). */
typedef struct {
    const void *a, *b;
    void *y;
    ptrdiff_t n, inner, blocks, reverse;
} RecurrenceArgs;

/* Rows of n elements, of which the k largest, or smallest, are selected. */
enum { MOST_SELECTED = 128 };
typedef struct {
    const void *x;
    void *values;
    int64_t *indices;
    ptrdiff_t n, k, largest;
} TopArgs;

/* Softmax along n of (outer, n, inner), in blocks of columns: of a, or of the gradient a and the
 * result b. */
typedef struct {
    const void *a, *b;
    void *y;
    ptrdiff_t n, inner, blocks;
} ColumnsArgs;

/* x is (outer, positions, inner), y (outer, segments, inner). `order` has the positions in the
 * order of their segments, and `begins` where each segment begins in `order`, and its end. Sums
 * begin with those of `start`, of the shape of y, or with 0 where it is NULL. */
typedef struct {
    const float *x, *start;
    const ptrdiff_t *order, *begins;
    float *y;
    ptrdiff_t positions, segments, inner;
} SegmentSumArgs;

/* x is (outer, rows, inner), y (outer, positions, inner). `indices` are int64_t where `wide`, else
 * int32_t. */
typedef struct {
    const float *x;
    const void *indices;
    float *y;
    ptrdiff_t positions, rows, inner, wide;
} TakeArgs;

/* Runs of `run` neighbours, collected in C order over `axes` axes. */
enum { RUN_AXES = 6 };
typedef struct {
    const float *x;
    float *y;
    ptrdiff_t run, axes, sizes[RUN_AXES], strides[RUN_AXES];
} GatherRunsArgs;

/* `count` elements, put down in runs of `run` that begin `step` apart. */
typedef struct {
    const float *x;
    float *y;
    ptrdiff_t run, step, count;
} PlaceRunsArgs;

/* Products. ------------------------------------------------------------------------------------ */

/* Stacks of c = a @ b. a is (rows, inner), b (inner, columns). Steps are in elements: those of an
 * item are from matrix to matrix of a stack. A piece of the work has `piece_rows` rows and
 * `piece_columns` columns. */
typedef struct {
    ptrdiff_t rows, columns, inner;
    ptrdiff_t a_row_step, a_column_step, b_row_step, b_column_step, c_row_step;
    ptrdiff_t piece_rows, piece_columns;
    ptrdiff_t a_item_step, b_item_step, c_item_step;
} ProductSizes;

/* The row `bias` is added unless it is NULL. `strips` is b as pack_strips copies it, or NULL; with
 * it, there is one item. */
typedef struct {
    const float *a, *b, *strips, *bias;
    float *c;
    int32_t *status;
    ProductSizes sizes;
} ProductArgs;

/* Copies b of (inner, columns), in rows, into strips as wide as a tile, one after the other. */
typedef struct {
    const float *b;
    float *strips;
    ptrdiff_t inner, columns;
} PackStripsArgs;

/* Floats that have room for the strips of any instruction set. */
#define STRIPS_ROOM(inner, columns) ((inner) * ((columns) + 32))

/* bfloat16: the upper half of the bits of a float. --------------------------------------------- */

typedef uint16_t Bfloat16;

typedef struct {
    const float *x;
    Bfloat16 *y;
} NarrowArgs;

/* As ProductArgs. */
typedef struct {
    const Bfloat16 *a, *b, *bias;
    Bfloat16 *c;
    int32_t *status;
    ProductSizes sizes;
} Bfloat16ProductArgs;

/* Attention. ----------------------------------------------------------------------------------- */

/* Rows of each array are a step apart, in elements, and elements of a row are neighbours, but for
 * the mask. `offsets` says where each of `items` items begins: in query, key, value and mask, one
 * list after the other. A block has `block_queries` queries; `heads` query heads share a key. */
typedef struct {
    const ptrdiff_t *offsets;
    ptrdiff_t keys, is_causal, queries, depth, value_depth;
    ptrdiff_t query_step, key_step, value_step, mask_row_step, mask_column_step;
    ptrdiff_t mask_is_boolean, items, block_queries, heads;
    double scale;
} AttentionSizes;

/* `mask` may be NULL. y is (items, queries, value_depth). */
typedef struct {
    const float *query, *key, *value;
    const void *mask;
    float *y, *normalizers;
    int32_t *status;
    AttentionSizes sizes;
} AttentionArgs;

/* The output y and its gradient g; the three gradients are in C order. */
typedef struct {
    const float *query, *key, *value;
    const void *mask;
    const float *y, *normalizers, *g;
    float *dquery, *dkey, *dvalue;
    int32_t *status;
    AttentionSizes sizes;
} AttentionGradientArgs;

/* Recurrent networks. -------------------------------------------------------------------------- */

/* x, y, `g` and dx are (batch, time, ...); gates, cells, candidates and gradients of gates are
 * (time, batch, ...). `gates` get the values of the gates; where `x` is NULL, so are `kernel` and
 * `bias`, and `gates` hold the part of the inputs. `h` and `c` are the states before the first
 * step; `inputs` are the features of x; `reverse` is a boolean. `mask` is (batch, time), 0 for
 * steps that keep the state, or NULL. */
typedef struct {
    float *gates;
    const float *x, *kernel, *bias, *recurrent_kernel, *h, *c;
    float *y, *cells;
    int32_t *status;
    const int32_t *mask;
    ptrdiff_t batch, time, units, inputs, reverse;
} LstmArgs;

/* `dh` and `dc` are the gradients of the last state, and become those of the first one. `dgates`
 * are the gradients of the gates before their nonlinearities. The kernel is NULL where dx is, and
 * the caller computes that. */
typedef struct {
    const float *gates, *kernel, *recurrent_kernel, *c, *cells, *g;
    float *dh, *dc, *dgates, *dx;
    int32_t *status;
    const int32_t *mask;
    ptrdiff_t batch, time, units, inputs, reverse;
} LstmGradientArgs;

/* `gates` hold the part of the inputs. `bias` is that of the recurrence, or NULL; `candidates` are
 * the part of the state in the candidates for the new state. */
typedef struct {
    float *gates;
    const float *recurrent_kernel, *h, *bias;
    float *y, *candidates;
    int32_t *status;
    const int32_t *mask;
    ptrdiff_t batch, time, units, reverse;
} GruArgs;

/* `by_input` and `by_state` are the gradients of the parts of inputs and states in the gates. */
typedef struct {
    const float *gates, *kernel, *recurrent_kernel, *h, *y, *g, *candidates;
    float *dh, *by_input, *by_state, *dx;
    int32_t *status;
    const int32_t *mask;
    ptrdiff_t batch, time, units, inputs, reverse;
} GruGradientArgs;

/* Images, channels last. ----------------------------------------------------------------------- */

/* An image, the output, and the windows that lead from one to the other. */
typedef struct {
    ptrdiff_t height, width, channels, out_height, out_width;
    ptrdiff_t window_height, window_width, stride_height, stride_width, pad_top, pad_left;
} Windows;

/* `indices` are the positions of the maxima in their windows. */
typedef struct {
    const float *x;
    float *y;
    int32_t *indices;
    Windows windows;
} MaxPoolArgs;

/* `counts_padding` is true for a mean of whole windows, with zeros outside of the image. */
typedef struct {
    const float *x;
    float *y;
    ptrdiff_t counts_padding;
    Windows windows;
} AvgPoolArgs;

/* `tiled`: windows cover the image without gap or overlap. */
typedef struct {
    const float *g;
    const int32_t *indices;
    float *dx;
    Windows windows;
    ptrdiff_t tiled;
} MaxPoolGradientArgs;

/* Along an axis of `rows` elements, with `inner` after it: one of the `count` of the result is the
 * sum of those at `sources`, by their shares, from the first of its `begins` to the next. */
typedef struct {
    const void *x;
    float *y; /* of float64, too */
    const ptrdiff_t *begins, *sources;
    const void *shares;
    ptrdiff_t rows, count, inner;
} ResampleArgs;

/* `rows` are the rows of the output in all images, `block_rows` those of a block. */
typedef struct {
    Windows windows;
    ptrdiff_t dilation_height, dilation_width, features, rows, block_rows;
} ConvSizes;

/* `strips` is the kernel as pack_strips copies it, features as columns; or NULL. */
typedef struct {
    const float *x, *kernel, *strips;
    float *y;
    int32_t *status;
    ConvSizes sizes;
} ConvArgs;

/* `sums` has a gradient for each of `parts` parts of the blocks. */
typedef struct {
    const float *x, *g;
    float *sums;
    int32_t *status;
    ptrdiff_t parts;
    ConvSizes sizes;
} ConvKernelGradientArgs;

/* Of each channel `multiplier` features are made. `images` is their number. */
typedef struct {
    const float *first, *second;
    float *y;
    ptrdiff_t images, multiplier;
    Windows windows;
    ptrdiff_t dilation_height, dilation_width;
} DepthwiseArgs;

/* The key and the counter of Philox. */
typedef struct {
    uint64_t key[2], counter[4];
} Drawing;

typedef struct {
    Drawing drawing;
    void *y;
    ptrdiff_t size;
} DrawArgs;

/* `kept` says which elements of x are. */
typedef struct {
    Drawing drawing;
    const float *x;
    float *y;
    unsigned char *kept;
    ptrdiff_t size;
    double rate, factor;
} DropArgs;

typedef struct {
    float *first, *second;
} NormalArgs;

/* `left` is what a sum of squares is divided by; `root` for the root of the quotient. */
typedef struct {
    const void *x;
    void *y;
    ptrdiff_t width, root;
    double left;
} RowwiseArgs;

/* `groups` of neighbouring channels of items of so many pixels; scale and offset may be NULL. */
typedef struct {
    const void *x, *scale, *offset;
    void *y;
    ptrdiff_t pixels, channels, groups;
    double epsilon;
} GroupNormArgs;

/* `sums` has two rows for each item: those of g and of g * (x - mean) / deviation, by channels. */
typedef struct {
    const void *x, *scale, *g;
    void *dx;
    double *sums;
    ptrdiff_t pixels, channels, groups;
    double epsilon;
} GroupNormGradientArgs;

/* Logits of (items, frames, classes); `about` has the frames, the number of labels and `length`
 * labels of each item. One of losses and dx is NULL, and g where dx is. */
typedef struct {
    const void *logits;
    const int64_t *about;
    const double *g;
    void *losses, *dx;
    int32_t *status;
    ptrdiff_t frames, classes, length, blank;
} CtcArgs;
/* Numbers that an item takes: of frames and one more, of six rows of states and those of each frame
 * where there is a gradient, and of classes. */
#define CTC_ROOM(args)                                                                             \
    ((args)->frames + 1 + (2 * (args)->length + 5) * ((args)->dx ? (args)->frames + 7 : 6)         \
     + (args)->classes)

#endif
