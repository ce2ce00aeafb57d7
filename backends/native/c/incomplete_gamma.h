/* Incomplete gamma functions in double, one number at a time: each takes one way of several.
 *
 * The ways, and where they come from, are those of pullback._numerics.incomplete_gamma; the
 * continued fraction is evaluated forwards (Cephes), so that it ends where it has converged. */
#ifndef PULLBACK_INCOMPLETE_GAMMA_H
#define PULLBACK_INCOMPLETE_GAMMA_H

#include "math64.h"

#define GAMMA_LARGE 20.0

/* log(1 + u) - u. */
INLINE double log1p_rest64(double u) {
    double r = u / (2.0 + u);
    return fabs(u) < 0.4 ? r * (2.0 * r * r * atanh_rest(r * r) - u) : log1p64(u) - u;
}

/* log(gamma(1 + a)) for a from 0 to 1. */
INLINE double log_gamma_of_next(double a) {
    return a * (1.0 - 0.5772156649015329) - log1p64(a) + a * a * gamma_near_one(a);
}

/* log(x^a exp(-x) / gamma(a + 1)). */
static double log_power(double a, double x) {
    if (a >= GAMMA_LARGE) {
        double rest = stirling(1.0 / (a * a)) / a;
        /* Where x is far below a, x / a - 1 has lost the digits of x. */
        double power = x < 0.5 * a ? a * log64(x / a) - (x - a) : a * log1p_rest64((x - a) / a);
        return power - rest - 0.5 * log64(2.0 * M_PI * a);
    }
    double gamma = a <= 1.0 ? log_gamma_of_next(a) : lgamma64(a + 1.0);
    return a * log64(x) - x - gamma;
}

/* gamma(a, x) x^-a exp(x), for x from about a + 1 on. */
static double fraction_of_gamma(double a, double x) {
    double y = 1.0 - a, z = x + y + 1.0, c = 0.0, found = 0.0;
    double p2 = 1.0, q2 = x, p1 = x + 1.0, q1 = z * x;
    for (int i = 0; i < 1000; i++) {
        c += 1.0, y += 1.0, z += 2.0;
        double p = p1 * z - p2 * (y * c), q = q1 * z - q2 * (y * c), before = found;
        p2 = p1, q2 = q1, p1 = p, q1 = q, found = p / q;
        if (fabs(found - before) <= 1e-16 * fabs(found))
            break;
        if (fabs(p) > 0x1p52)
            p2 *= 0x1p-52, q2 *= 0x1p-52, p1 *= 0x1p-52, q1 *= 0x1p-52;
    }
    return found;
}

/* P and Q for large a near x (Temme). */
static double gamma_uniform(double a, double x, int upper) {
    double away = (x - a) / a, half = -log1p_rest64(away);
    double eta = copysign(sqrt(2.0 * (half > 0.0 ? half : 0.0)), away), total = temme_8(eta);
    total = total / a + temme_7(eta);
    total = total / a + temme_6(eta);
    total = total / a + temme_5(eta);
    total = total / a + temme_4(eta);
    total = total / a + temme_3(eta);
    total = total / a + temme_2(eta);
    total = total / a + temme_1(eta);
    total = total / a + temme_0(eta);
    double rest = exp64(-a * half) / sqrt(2.0 * M_PI * a) * total, place = eta * sqrt(a * 0.5);
    return upper ? 0.5 * erfc64(place) + rest : 0.5 * erfc64(-place) - rest;
}

/* Q for a below 1 and small x, where 1 - P would lose its digits. */
static double gamma_difference(double a, double x) {
    double term = 1.0, others = 0.0;
    for (int n = 1; n < 25; n++) {
        term *= x * (-1.0 / n);
        others += term / (a + n);
    }
    double head = a * log64(x) - log_gamma_of_next(a);
    return -expm1_64(head) - exp64(head) * a * others;
}

static double regularized_gamma64(double a, double x, double upper) {
    if (!(x > 0.0 && x < HUGE_VAL && a > 0.0 && a < HUGE_VAL)) {
        int known = a >= 0.0 && x >= 0.0, rises = known && (a == 0.0 || x == HUGE_VAL);
        int falls = known && (x == 0.0 || a == HUGE_VAL);
        double one = upper != 0.0 ? falls : rises;
        return rises == falls ? as_double(0x7ff8000000000000) : one;
    }
    if (a >= GAMMA_LARGE && fabs(x - a) < 0.5 * a)
        return gamma_uniform(a, x, upper != 0.0);
    int near = x < a + 1.0 || x < 1.5;
    if (near && a < 1.0 && upper != 0.0)
        return gamma_difference(a, x);
    double power = exp64(log_power(a, x)), found;
    if (near) {
        double term = 1.0, total = 1.0;
        for (int n = 1; n < 80 && term > total * 1e-17; n++) {
            term *= x / (a + n);
            total += term;
        }
        found = power * total;
    } else {
        /* Where the power is 0, the terms of the fraction may be beyond the largest number. */
        found = power > 0.0 ? power * a * fraction_of_gamma(a, x) : 0.0;
    }
    return near == (upper != 0.0) ? 1.0 - found : found;
}

/* x^(a - 1) exp(-x) / gamma(a). */
static double gamma_density64(double a, double x) {
    if (x > 0.0 && x < HUGE_VAL && a > 0.0 && a < HUGE_VAL) {
        /* In two factors: the power is below every number sooner than its quotient with x. */
        double half = exp64(log_power(a, x) * 0.5);
        return half * a / x * half;
    }
    if (!(a > 0.0 && x >= 0.0) || (a == HUGE_VAL && x == HUGE_VAL))
        return as_double(0x7ff8000000000000);
    return x > 0.0 ? 0.0 : a < 1.0 ? HUGE_VAL : a == 1.0 ? 1.0 : 0.0;
}

#endif
