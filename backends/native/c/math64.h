/* Elementary and special functions of one double without a branch, as those of math32.h are.
 *
 * Each is within 4 ulp over all doubles where its op promises that, subnormal results included;
 * infinities and NaN propagate. Functions of float32 and of 16-bit floats that have no form of
 * their own are these, rounded. */
#ifndef PULLBACK_MATH64_H
#define PULLBACK_MATH64_H

#include "series.h"

INLINE double as_double(uint64_t bits) {
    double x;
    __builtin_memcpy(&x, &bits, 8);
    return x;
}

INLINE uint64_t as_bits64(double x) {
    uint64_t bits;
    __builtin_memcpy(&bits, &x, 8);
    return bits;
}

INLINE double at_least64(double x, double least) { return x < least ? least : x; }
INLINE double at_most64(double x, double most) { return x > most ? most : x; }

/* Adding it rounds to an integer, which stands in the last bits. */
#define SHIFTER64 0x1.8p52

/* 2^n for an integer n from -1022 to 1023, which is given as n + SHIFTER64. */
INLINE double power_of_two(double shifted) {
    return as_double((as_bits64(shifted) - as_bits64(SHIFTER64) + 1023) << 52);
}

/* x = n ln 2 + r with |r| <= ln 2 / 2: returns r and sets n. Products of n and the first part of
 * ln 2 are exact. */
INLINE double reduced64(double x, double *n) {
    *n = (x * 0x1.71547652b82fep+0 + SHIFTER64) - SHIFTER64;
    double r = x - *n * 6.93147180369123816490e-01;
    return r - *n * 1.90821492927058770002e-10;
}

/* exp(r) - 1 for |r| <= ln 2 / 2, by its series: 4e-18 of it is left. */
INLINE double expm1_reduced64(double r) {
    double p = 1.6059043836821613e-10;
    p = p * r + 2.08767569878681e-09;
    p = p * r + 2.505210838544172e-08;
    p = p * r + 2.755731922398589e-07;
    p = p * r + 2.7557319223985893e-06;
    p = p * r + 2.48015873015873e-05;
    p = p * r + 0.0001984126984126984;
    p = p * r + 0.001388888888888889;
    p = p * r + 0.008333333333333333;
    p = p * r + 0.041666666666666664;
    p = p * r + 0.16666666666666666;
    p = p * r + 0.5;
    return r + (r * r) * p;
}

/* exp(x) is the product of what is returned, `low` and `high`: powers of 2 in two factors, since
 * one alone may be out of range. */
INLINE double exp64_parts(double x, double *low, double *high) {
    double n, r = reduced64(at_most64(at_least64(x, -1400.0), 1400.0), &n);
    double half = (n * 0.5 + SHIFTER64) - SHIFTER64;
    *low = power_of_two(half + SHIFTER64);
    *high = power_of_two((n - half) + SHIFTER64);
    return expm1_reduced64(r) + 1.0;
}

INLINE double exp64(double x) {
    double low, high, e = exp64_parts(x, &low, &high);
    /* 0 by a factor of 0, as in exp32. */
    return e * low * (x < -746.0 ? 0.0 : high);
}

/* exp(x) for x <= 0, where results below 2^-1022 may be 0. */
INLINE double exp64_falling(double x) {
    double n, r = reduced64(at_least64(x, -708.0), &n);
    double e = (expm1_reduced64(r) + 1.0) * power_of_two(n + SHIFTER64);
    return x < -708.0 ? 0.0 : e;
}

INLINE double expm1_64(double x) {
    double n, r = reduced64(at_most64(at_least64(x, -40.0), 709.8), &n);
    double half = power_of_two((n - 1.0) + SHIFTER64);
    return copysign(2.0 * (expm1_reduced64(r) * half + (half - 0.5)), x);
}

/* tanh(|x|) = e / (e + 2) with e = exp(2 |x|) - 1, which cancels nowhere. */
INLINE double tanh64(double x) {
    double n, r = reduced64(at_most64(fabs(x) * 2.0, 44.0), &n);
    double scale = power_of_two(n + SHIFTER64);
    double e = expm1_reduced64(r) * scale + (scale - 1.0);
    return copysign(e / (e + 2.0), x);
}

/* log(1 + f) + k log 2 for f from sqrt(1/2) - 1 to sqrt(2) - 1, and a small `rest` to add; the
 * series is that of fdlibm's log (Sun Microsystems, 1993). */
INLINE double log64_of(double f, double k, double rest) {
    double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    double t = 1.479819860511658591e-01;
    t = t * z + 1.531383769920937332e-01;
    t = t * z + 1.818357216161805012e-01;
    t = t * z + 2.222219843214978396e-01;
    t = t * z + 2.857142874366239149e-01;
    t = t * z + 3.999999999940941908e-01;
    t = t * z + 6.666666666666735130e-01;
    double small = s * (half + t * z) + (k * 1.90821492927058770002e-10 + rest);
    return k * 6.93147180369123816490e-01 - ((half - small) - f);
}

/* Of a normal number: x = 2^k (1 + f). */
INLINE double log64_parts(double x, double *k) {
    uint64_t bits = as_bits64(x) + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd);
    *k = as_double((bits >> 52) | 0x4330000000000000) - (0x1p52 + 1023.0);
    return as_double((bits & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd) - 1.0;
}

/* log(x) where it is not that of a normal number. */
INLINE double log64_limits(double x, double y) {
    y = x == 0.0 ? -HUGE_VAL : y;
    y = x < 0.0 ? as_double(0x7ff8000000000000) : y;
    return !(x < HUGE_VAL) ? x : y;
}

INLINE double log64(double x) {
    int tiny = x < 0x1p-1022;
    double k, f = log64_parts(tiny ? x * 0x1p54 : x, &k);
    return log64_limits(x, log64_of(f, tiny ? k - 54.0 : k, 0.0));
}

/* The rounding of 1 + x is the rest, relative to it. */
INLINE double log1p64(double x) {
    double u = 1.0 + x, lost = u > 2.0 ? 1.0 - (u - x) : x - (u - 1.0);
    double k, f = log64_parts(u, &k), y = log64_of(f, k, lost / u);
    /* Of a number whose sum with 1 is 1, all of it is the rest. */
    return u == 1.0 ? x : log64_limits(u, y);
}

/* log(1 + e) for 0 <= e <= 1. */
INLINE double log1p_unit64(double e) {
    double u = 1.0 + e, k, f = log64_parts(u, &k);
    return u == 1.0 ? e : log64_of(f, k, (e - (u - 1.0)) / u);
}

/* The sine and the cosine for |x| <= pi / 2, by their series. */
INLINE double sine_near(double x) {
    double z = x * x, p = 1.9572941063391263e-20;
    p = p * z - 8.22063524662433e-18;
    p = p * z + 2.8114572543455206e-15;
    p = p * z - 7.647163731819816e-13;
    p = p * z + 1.6059043836821613e-10;
    p = p * z - 2.505210838544172e-08;
    p = p * z + 2.7557319223985893e-06;
    p = p * z - 0.0001984126984126984;
    p = p * z + 0.008333333333333333;
    p = p * z - 0.16666666666666666;
    return x + x * z * p;
}

INLINE double cosine_near(double x) {
    double z = x * x, p = -8.896791392450574e-22;
    p = p * z + 4.110317623312165e-19;
    p = p * z - 1.5619206968586225e-16;
    p = p * z + 4.779477332387385e-14;
    p = p * z - 1.1470745597729725e-11;
    p = p * z + 2.08767569878681e-09;
    p = p * z - 2.755731922398589e-07;
    p = p * z + 2.48015873015873e-05;
    p = p * z - 0.001388888888888889;
    p = p * z + 0.041666666666666664;
    p = p * z - 0.5;
    return 1.0 + z * p;
}

/* log(cosh(a - b)): near 0 what is behind a logarithm of 1 + x, without terms that cancel. */
INLINE double log_cosh64(double a, double b) {
    double size = fabs(a - b), lost = expm1_64(-size);
    double rest = size < 1.0 ? lost * lost / (2.0 * (lost + 1.0)) : lost * (lost + 2.0) * 0.5;
    return (size < 1.0 ? 0.0 : size) + log1p64(rest);
}

/* The angles whose nearest multiple n of pi / 2 has less than 20 bits. */
#define MOST_ANGLE 0x1.8p20

/* x - n pi / 2 for the nearest n, as a sum of r, which is returned, and of a rest: pi / 2 in parts
 * of 33 bits, whose products with n are exact (the way of fdlibm, Sun Microsystems, 1993). */
INLINE double quarter_turn(double x, double *n, double *rest) {
    *n = (x * 0x1.45f306dc9c883p-1 + SHIFTER64) - SHIFTER64;
    double a = x - *n * 0x1.921fb544p+0;
    double second = *n * 0x1.0b4611a6p-34, b = a - second, part = a - b;
    double lost = (a - (b + part)) + (part - second);
    double third = *n * 0x1.3198a2ep-69, c = b - third;
    part = b - c;
    lost += ((b - (c + part)) + (part - third)) - *n * 0x1.b839a252049c1p-104;
    double r = c + lost;
    *rest = (c - r) + lost;
    return r;
}

/* The sine for |r| <= pi / 4 and a small rest, by the polynomials of fdlibm. */
INLINE double sine_of(double r, double rest) {
    double z = r * r, cube = z * r, p = 1.58969099521155010221e-10;
    p = p * z - 2.50507602534068634195e-08;
    p = p * z + 2.75573137070700676789e-06;
    p = p * z - 1.98412698298579493134e-04;
    p = p * z + 8.33333333332248946124e-03;
    return r - ((z * (0.5 * rest - cube * p) - rest) + cube * 1.66666666666666324348e-01);
}

INLINE double cosine_of(double r, double rest) {
    double z = r * r, p = -1.13596475577881948265e-11;
    p = p * z + 2.08757232129817482790e-09;
    p = p * z - 2.75573143513906633035e-07;
    p = p * z + 2.48015872894767294178e-05;
    p = p * z - 1.38888888888741095749e-03;
    p = p * z + 4.16666666666666019037e-02;
    double half = 0.5 * z, w = 1.0 - half;
    return w + (((1.0 - w) - half) + (z * z * p - r * rest));
}

/* The sine of x + quarters pi / 2 for |x| <= MOST_ANGLE. */
INLINE double sine64(double x, int64_t quarters) {
    double n, rest, r = quarter_turn(x, &n, &rest);
    int64_t turned = (int64_t)as_bits64(n + SHIFTER64) + quarters;
    double y = turned & 1 ? cosine_of(r, rest) : sine_of(r, rest);
    return as_double(as_bits64(y) ^ (uint64_t)(turned & 2) << 62);
}
INLINE double sin64(double x) { return x == 0.0 ? x : sine64(x, 0); }
INLINE double cos64(double x) { return sine64(x, 1); }

/* The same for float32, in double. */
INLINE float sine32(float x, int64_t quarters) {
    double n = ((double)x * 0x1.45f306dc9c883p-1 + SHIFTER64) - SHIFTER64;
    double r = (x - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34, z = r * r;
    double s = ((2.7183114939898219064e-06 * z - 1.98393348360966317347e-04) * z
                + 8.3333293858894631756e-03)
                 * z
             - 1.66666666416265235595e-01;
    double c = ((2.43904487962774090654e-05 * z - 1.38867637746099294692e-03) * z
                + 4.16666233237390631894e-02)
                 * z
             - 4.99999997251031003120e-01;
    int64_t turned = (int64_t)as_bits64(n + SHIFTER64) + quarters;
    double y = turned & 1 ? 1.0 + z * c : r + r * z * s;
    return (float)as_double(as_bits64(y) ^ (uint64_t)(turned & 2) << 62);
}
INLINE float sin32(float x) { return x == 0.0f ? x : sine32(x, 0); }
INLINE float cos32(float x) { return sine32(x, 1); }

/* x less the integer nearest to it; NaN of infinities. */
INLINE double fraction_near(double x) {
    double size = fabs(x), whole = (size + 0x1p52) - 0x1p52;
    double rest = size < 0x1p52 ? size - whole : size - size;
    return x < 0.0 ? -rest : rest;
}

/* 2^x is 2^n exp(r) with r = (x - n) ln 2. */
INLINE double exp2_64(double x) {
    double bounded = at_most64(at_least64(x, -1100.0), 1100.0);
    double n = (bounded + SHIFTER64) - SHIFTER64;
    double half = (n * 0.5 + SHIFTER64) - SHIFTER64;
    double e = expm1_reduced64((bounded - n) * M_LN2) + 1.0;
    return e * power_of_two(half + SHIFTER64) * power_of_two((n - half) + SHIFTER64);
}

/* Exact for powers of 2. */
INLINE double log2_64(double x) {
    int tiny = x < 0x1p-1022;
    double k, f = log64_parts(tiny ? x * 0x1p54 : x, &k);
    return log64_limits(x, (tiny ? k - 54.0 : k) + log64_of(f, 0.0, 0.0) * M_LOG2E);
}

INLINE double sinh64(double x) {
    double low, high, size = fabs(x), e = exp64_parts(size, &low, &high);
    double t = expm1_64(at_most64(size, 40.0)), near = 0.5 * (t + t / (t + 1.0));
    return copysign(size > 22.0 ? 0.5 * e * low * high : near, x);
}

INLINE double cosh64(double x) {
    double low, high, e = exp64_parts(fabs(x), &low, &high), whole = e * low * high;
    return fabs(x) > 22.0 ? 0.5 * e * low * high : 0.5 * (whole + 1.0 / whole);
}

/* Special functions: the formulas of pullback._numerics. --------------------------------------- */

INLINE double erf64_near(double size) {
    return size + size * erf_near(at_most64(size * size, 1.0));
}

INLINE double erfc64_scaled(double size) {
    return erfc_scaled((size - 3.75) / (size + 3.75)) / (1.0 + 2.0 * size);
}

INLINE double erf64(double x) {
    double size = at_most64(fabs(x), 6.0);
    double far = 1.0 - exp64_falling(-size * size) * erfc64_scaled(size);
    return copysign(size < 1.0 ? erf64_near(size) : far, x);
}

/* erfc(size) for size >= 0 is the product of what is returned, `low` and `high`. exp(-size^2) is
 * that of two parts, or the rounding of the square would be multiplied by it. */
INLINE double erfc64_parts(double size, double *low, double *high) {
    double head = (size * 256.0 + SHIFTER64 - SHIFTER64) * 0x1p-8;
    double e = exp64_parts(-head * head, low, high);
    return e * exp64_falling((head - size) * (head + size)) * erfc64_scaled(size);
}

INLINE double erfc64(double x) {
    double size = at_most64(fabs(x), 28.0), low, high;
    double far = erfc64_parts(size, &low, &high) * low * high;
    double upper = size < 0.5 ? 1.0 - erf64_near(size) : far;
    return x < 0.0 ? 2.0 - upper : upper;
}

INLINE double erfinv64(double x) {
    double size = fabs(x);
    double middle = size + size * erfinv_middle(0.7225 - size * size);
    double r = sqrt(-log64(0.5 * (1.0 - size)));
    double tail = r * 0.8125 + r * erfinv_tail(r - 1.6);
    double found = size <= 0.85 ? middle : tail;
    return copysign(size == 1.0 ? HUGE_VAL : found, x);
}

/* 1 - x below 0, 1 + x in [0, 1), x from 1 on: the interval of the approximations. */
INLINE double from_one(double x) { return x < 0.0 ? 1.0 - x : x < 1.0 ? 1.0 + x : x; }

INLINE double lgamma64(double x) {
    int negative = x < 0.0, fraction = x < 1.0 && !negative;
    double y = from_one(x), close = at_most64(y, 3.0), big = at_least64(y, 3.0);
    double above_1 = fraction ? x : y - 1.0, above_2 = fraction ? x - 1.0 : y - 2.0;
    double near = above_1 * above_2 * (0.4375 + lgamma_near(close - 1.0));
    double rest = lgamma_far(1.0 / big / big) / big;
    double far = (big - 0.5) * (log64(big) - 1.0) + (0.4189385332046727 + rest);
    double found = y < 3.0 ? near : far;
    double sine = fabs(sine_near(fraction_near(x) * M_PI));
    double shift = log64(negative ? sine / M_PI : fraction ? x : 1.0);
    found = negative ? -shift - found : found - shift;
    return fabs(x) == HUGE_VAL || (negative && sine == 0.0) ? HUGE_VAL : found;
}

INLINE double digamma64(double x) {
    int negative = x < 0.0, fraction = x < 1.0 && !negative;
    double y = from_one(x), close = at_most64(y, 3.0), big = at_least64(y, 3.0);
    double above_root =
        ((close - 1.4616321325302124) - 1.243815006546356e-08) + 1.2654465062537432e-16;
    double near = above_root * (0.75 + digamma_near(close - 1.0));
    double square = 1.0 / big / big;
    double far = log64(big) - (0.5 / big + digamma_far(square) * square);
    double found = y < 3.0 ? near : far;
    double angle = fraction_near(x) * M_PI;
    double turn = M_PI * cosine_near(angle) / sine_near(angle);
    found = negative ? found - (angle == 0.0 ? as_double(0x7ff8000000000000) : turn) : found;
    return fraction ? found - 1.0 / x : found;
}

/* base^n, for n of 1 to 4. */
INLINE double low_power64(double base, double n) {
    double square = base * base;
    return n < 2.0 ? base : n < 3.0 ? square : n < 4.0 ? square * base : square * square;
}

/* (a + k)^-(n + 1): what is lost in the sum is made up for. */
INLINE double zeta_term64(double a, double k, double n) {
    double base = a + k, added = base - a, lost = (a - (base - added)) + (k - added);
    double power = low_power64(base, n), term = 1.0 / (power * base);
    return (k == 0.0) | (a > 1e60) ? term : term - (n + 1.0) * lost * term * (term * power);
}

/* The sum of (a + k)^-(n + 1) over all k > 0, for a > -1: ten terms, and the others by Euler and
 * Maclaurin's summation (DLMF 25.11.5). */
INLINE double zeta_tail64(double a, double n) {
    double s = n + 1.0, end = a + 11.0, inverse = 1.0 / end, square = inverse * inverse;
    double c1 = s / 12.0, c2 = c1 * (s + 1.0) * (s + 2.0) / 60.0;
    double c3 = c2 * (s + 3.0) * (s + 4.0) / 42.0, c4 = c3 * (s + 5.0) * (s + 6.0) / 40.0;
    double c5 = c4 * (s + 7.0) * (s + 8.0) * 0.02525252525252525;
    double c6 = c5 * (s + 9.0) * (s + 10.0) * 0.02531135531135531;
    double c7 = c6 * (s + 11.0) * (s + 12.0) * 0.025325614694954;
    double series = c4 - square * (c5 - square * (c6 - square * c7));
    series = c1 - square * (c2 - square * (c3 - square * series));
    double added = end - a, lost = (a - (end - added)) + (11.0 - added);
    double rest = series * square + (0.5 * inverse + 1.0 / n);
    /* In two steps: the power of a large one is infinite where the quotient is a small number. */
    double half = n < 3.0 ? end : end * end;
    double total = rest / half;
    total = n < 2.0 ? total : total / (n == 3.0 ? end : half);
    total -= total * n * lost * inverse;
    for (int k = 10; k > 0; k--)
        total += zeta_term64(a, (double)k, n);
    return total;
}

/* The derivative of order n of digamma, for n of 1 to 4. Below 0 it is that of the fraction of x,
 * whose sum over all integers is known from both sides, without the integers above. */
INLINE double polygamma64(double x, double n, int below) {
    int even = n == 2.0 || n == 4.0, negative = below && x < 0.0;
    double sign = even ? -1.0 : 1.0, size = n < 2.0 ? 1.0 : n < 3.0 ? 2.0 : n < 4.0 ? 6.0 : 24.0;
    double fraction = x - rint(x), first = negative ? fraction : x;
    double total = zeta_term64(first, 0.0, n) + zeta_tail64(first, n);
    if (below) {
        double turned = zeta_tail64(negative ? -fraction : 0.0, n);
        turned -= zeta_tail64(negative ? -x : 0.0, n);
        total = negative ? (even ? total - turned : total + turned) : total;
    }
    double found = x == HUGE_VAL ? sign * 0.0 : sign * size * total;
    int pole = x <= 0.0 && fraction == 0.0;
    return pole ? (even ? as_double(0x7ff8000000000000) : HUGE_VAL) : found;
}

/* Modified Bessel functions I_n(x), or exp(-|x|) I_n(x) if `scaled`: `near` is that below 12, by
 * its series in y = size^2 / 4, and `far` sqrt(size) exp(-size) I_n(size) from there on. exp(x) is
 * in two factors, as it is infinite where I_n(x) is not. */
#define BESSEL64(n, near_of, far_of)                                                               \
    INLINE double bessel_i##n##_64(double x, double scaled) {                                      \
        double size = fabs(x), small = size < 12.0 ? size : 0.0, y = small * small * 0.25;         \
        double large = size < 12.0 ? 12.0 : size, place = 24.0 / large - 1.0;                      \
        double e = exp64(scaled != 0.0 ? -small : large * 0.5);                                    \
        double near = near_of, far = (far_of) / sqrt(large);                                       \
        near = scaled != 0.0 ? near * e : near;                                                    \
        far = scaled != 0.0 ? far : large == HUGE_VAL ? HUGE_VAL : e * far * e;                    \
        double found = size < 12.0 ? near : far;                                                   \
        return n % 2 && x < 0.0 ? -found : found;                                                  \
    }
BESSEL64(0, bessel_near_0(y), bessel_far_0(place))
BESSEL64(1, bessel_near_1(y) * (small * 0.5), bessel_far_1(place))
BESSEL64(2, bessel_near_2(y) * y, bessel_far_0(place) - 2.0 / large * bessel_far_1(place))

/* Activations. --------------------------------------------------------------------------------- */

INLINE double sigmoid64(double x) {
    double e = exp64(-fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/* As silu32: below 0 the last factor of the exponential comes last. */
INLINE double silu64(double x) {
    double low, high, size = at_most64(fabs(x), 1000.0), e = exp64_parts(-size, &low, &high);
    double y = (x < 0.0 ? -size * e * low : x) / (1.0 + e * low * high);
    return x < 0.0 ? y * high : y;
}

/* x tanh(log(1 + e)) = x n / (n + 2) with e = exp(x) and n = e (e + 2). */
INLINE double mish64(double x) {
    double low, high, bounded = at_most64(at_least64(x, -1000.0), 40.0);
    double e = exp64_parts(bounded, &low, &high), whole = e * low * high;
    double rest = whole + 2.0, below = whole * rest + 2.0;
    double left = bounded * (e * low) * (rest / below) * high;
    return x < 0.0 ? left : x * (whole * rest / below);
}

/* tanh(s) + x sigmoid(x) (1 - tanh(s)^2), s = log(1 + exp(x)). */
INLINE double mish64_slope(double x) {
    double bounded = at_most64(at_least64(x, -800.0), 40.0);
    double e = exp64(bounded), n = e * (e + 2.0), below = n + 2.0;
    return (n + bounded * (4.0 * e * (1.0 + e) / below)) / below;
}

/* x Phi(x) = x erfc(-x / sqrt 2) / 2. */
INLINE double gelu_exact64(double x) {
    double size = at_most64(fabs(x) * M_SQRT1_2, 28.0), low, high;
    double far = 0.5 * erfc64_parts(size, &low, &high), whole = far * low * high;
    double tail = size < 0.5 ? 0.5 - 0.5 * erf64_near(size) : whole;
    double bounded = at_least64(x, -50.0);
    double left = size < 0.5 ? x * tail : bounded * far * low * high;
    return x < 0.0 ? left : x * (1.0 - tail);
}

/* Phi(x) + x phi(x). */
INLINE double gelu_exact64_slope(double x) {
    double bounded = at_most64(at_least64(x, -50.0), 50.0), size = fabs(bounded) * M_SQRT1_2;
    double low, high, far = 0.5 * erfc64_parts(size, &low, &high) * low * high;
    double tail = size < 0.5 ? 0.5 - 0.5 * erf64_near(size) : far;
    double density = exp64(-0.5 * bounded * bounded) * 0.3989422804014327;
    return bounded * density + (x < 0.0 ? tail : 1.0 - tail);
}

/* 2 sqrt(2 / pi), and that times 0.044715. */
#define SLOPE64 1.5957691216057308
#define CUBIC64 0.07135481627260025

INLINE double gelu_tanh64(double x) {
    return at_least64(x, -1000.0) * sigmoid64(x * (SLOPE64 + CUBIC64 * x * x));
}

INLINE double gelu_tanh64_slope(double x) {
    double bounded = at_most64(at_least64(x, -100.0), 100.0), square = bounded * bounded;
    double s = sigmoid64(bounded * (SLOPE64 + CUBIC64 * square));
    return s + bounded * (SLOPE64 + 3.0 * CUBIC64 * square) * s * (1.0 - s);
}

/* s + x s (1 - s), with s and 1 - s of one exponential. */
INLINE double silu64_slope(double x) {
    double low, high, bounded = at_most64(at_least64(x, -1000.0), 1000.0);
    double e = exp64_parts(-fabs(bounded), &low, &high), whole = e * low * high;
    double near = 1.0 / (1.0 + whole);
    double slope = (1.0 + bounded * (x < 0.0 ? near : whole * near)) * near;
    return x < 0.0 ? slope * e * low * high : slope;
}

/* Of two numbers. ------------------------------------------------------------------------------ */

INLINE double hypot64(double a, double b) {
    double x = fabs(a), y = fabs(b), large = x < y ? y : x, small = x < y ? x : y;
    double r = small / large, far = large * sqrt(1.0 + r * r);
    double near = large == 0.0 ? small : far;
    return x == HUGE_VAL || y == HUGE_VAL ? HUGE_VAL : x != x || y != y ? x + y : near;
}

/* Within 1e-13, for narrower floats. Whether b is odd counts where a is negative. */
INLINE double pow64(double a, double b) {
    double size = fabs(b), y = exp64(b * log64(fabs(a)));
    int whole = size >= 0x1p53 || fraction_near(b) == 0.0;
    int odd = size < 0x1p53 && whole && fraction_near(b * 0.5) != 0.0;
    double signed_y = copysign(1.0, a) < 0.0 && odd ? -y : y;
    double found = a < 0.0 && a != -HUGE_VAL && !whole ? as_double(0x7ff8000000000000) : signed_y;
    found = a == -1.0 && size == HUGE_VAL ? 1.0 : found;
    return a == 1.0 || b == 0.0 ? 1.0 : found;
}

/* Equal infinities have no difference. */
INLINE double logaddexp64(double a, double b) {
    double large = a < b ? b : a, apart = a == b ? 0.0 : fabs(a - b);
    double y = large + log1p_unit64(exp64(-apart));
    return a != a || b != b ? a + b : y;
}

INLINE double logaddexp2_64(double a, double b) {
    double large = a < b ? b : a, apart = a == b ? 0.0 : fabs(a - b);
    double y = large + log1p_unit64(exp2_64(-apart)) * 1.4426950408889634;
    return a != a || b != b ? a + b : y;
}

#endif
