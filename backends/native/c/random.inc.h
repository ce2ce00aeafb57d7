/* Loops of random numbers: Philox 4x64-10 (Salmon et al., 2011), and what is made of its words. */

/* The upper half of a product of 128 bits. */
INLINE uint64_t upper_of(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
    return (uint64_t)((unsigned __int128)a * b >> 64);
#else
    uint64_t low = (uint32_t)a * (uint64_t)(uint32_t)b, mask = 0xffffffff;
    uint64_t first = (uint32_t)a * (b >> 32), second = (a >> 32) * (uint32_t)b;
    uint64_t middle = (low >> 32) + (first & mask) + (second & mask);
    return (a >> 32) * (b >> 32) + (first >> 32) + (second >> 32) + (middle >> 32);
#endif
}

/* The words of a block: those of the counter and `block` + 1. */
INLINE void draw(const Drawing *drawing, ptrdiff_t block, uint64_t *words) {
    const uint64_t *counter = drawing->counter;
    uint64_t a = counter[0] + (uint64_t)block + 1, carry = a <= (uint64_t)block;
    uint64_t b = counter[1] + carry;
    carry = carry && !b;
    uint64_t c = counter[2] + carry;
    carry = carry && !c;
    uint64_t d = counter[3] + carry, left = drawing->key[0], right = drawing->key[1];
    for (int i = 0; i < 10; i++) {
        uint64_t first = a * 0xD2E7470EE14C6C93u, second = c * 0xCA5A826395121157u;
        uint64_t upper = upper_of(a, 0xD2E7470EE14C6C93u);
        a = upper_of(c, 0xCA5A826395121157u) ^ b ^ left;
        b = second;
        c = upper ^ d ^ right;
        d = first;
        left += 0x9E3779B97F4A7C15u;
        right += 0xBB67AE8584CAA73Bu;
    }
    words[0] = a, words[1] = b, words[2] = c, words[3] = d;
}

/* Number i of the 32-bit numbers of some words, the low half of a word first. */
INLINE uint32_t half_of(const uint64_t *words, ptrdiff_t i) {
    return (uint32_t)(words[i / 2] >> (i % 2 * 32));
}
INLINE float uniform32(uint32_t bits) { return (float)(int32_t)(bits >> 8) * 0x1p-24f; }

/* Blocks are drawn so many at a time. */
#define DRAWN 16

#define DRAW(name, T, number, each)                                                                \
    LOOP(name, DrawArgs) {                                                                         \
        uint64_t words[4 * DRAWN];                                                                 \
        for (ptrdiff_t block = from; block < to; block += DRAWN) {                                 \
            ptrdiff_t many = to - block < DRAWN ? to - block : DRAWN;                              \
            for (ptrdiff_t i = 0; i < many; i++)                                                   \
                draw(&args->drawing, block + i, words + 4 * i);                                    \
            T *restrict y = (T *)args->y + each * block;                                           \
            ptrdiff_t rest = args->size - each * block;                                            \
            rest = rest < each * many ? rest : each * many;                                        \
            for (ptrdiff_t i = 0; i < rest; i++)                                                   \
                y[i] = (number);                                                                   \
        }                                                                                          \
    }
DRAW(draw_bits32, uint32_t, half_of(words, i), 8)
DRAW(draw_bits64, uint64_t, words[i], 4)
DRAW(draw_float32, float, uniform32(half_of(words, i)), 8)
DRAW(draw_float64, double, (double)(int64_t)(words[i] >> 11) * 0x1p-53, 4)

/* Elements of x times a factor where a number is `rate` at least, else 0. */
LOOP(drop, DropArgs) {
    uint64_t words[4 * DRAWN];
    for (ptrdiff_t block = from; block < to; block += DRAWN) {
        ptrdiff_t many = to - block < DRAWN ? to - block : DRAWN;
        for (ptrdiff_t i = 0; i < many; i++)
            draw(&args->drawing, block + i, words + 4 * i);
        const float *restrict x = args->x + 8 * block;
        float *restrict y = args->y + 8 * block, rate = (float)args->rate;
        float factor = (float)args->factor;
        unsigned char *restrict kept = args->kept + 8 * block;
        ptrdiff_t rest = args->size - 8 * block;
        rest = rest < 8 * many ? rest : 8 * many;
        for (ptrdiff_t i = 0; i < rest; i++) {
            int stays = uniform32(half_of(words, i)) >= rate;
            kept[i] = (unsigned char)stays;
            y[i] = stays ? x[i] * factor : 0.0f;
        }
    }
}

/* Pairs of normal numbers, of pairs of uniform ones, in their place (Box and Muller, 1958): in
 * double, and rounded once. The angle is rounded to a float, as the op has it. */
LOOP(normal_pairs, NormalArgs) {
    float *restrict sizes = args->first, *restrict turns = args->second;
    _Pragma("omp simd")
    for (ptrdiff_t i = from; i < to; i++) {
        double k, f = log64_parts(1.0 - (double)sizes[i], &k);
        double size = sqrt(fabs(2.0 * log64_of(f, k, 0.0)));
        double angle = (double)(turns[i] * 6.2831855f);
        double quarters = rint(angle * 0.6366197723675814);
        double x = angle - quarters * 1.5707963267948966, z = x * x;
        int32_t quarter = (int32_t)quarters;
        double sine = 2.7557319223985893e-06 * z - 0.0001984126984126984;
        sine = sine * z + 0.008333333333333333;
        sine = sine * z - 0.16666666666666666;
        sine = x + x * z * sine;
        double cosine = -2.755731922398589e-07 * z + 2.48015873015873e-05;
        cosine = cosine * z - 0.001388888888888889;
        cosine = cosine * z + 0.041666666666666664;
        cosine = cosine * z - 0.5;
        cosine = 1.0 + z * cosine;
        double along = quarter & 1 ? sine : cosine, across = quarter & 1 ? cosine : sine;
        along = (quarter + 1) & 2 ? -along : along;
        across = quarter & 2 ? -across : across;
        sizes[i] = (float)(size * along);
        turns[i] = (float)(size * across);
    }
}
