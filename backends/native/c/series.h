/* Polynomials and rational functions of the special functions, by Horner's rule.
 *
 * Their coefficients are those of pullback._numerics, which says where they come from and how near
 * they are; a test holds them to it. */
#ifndef PULLBACK_SERIES_H
#define PULLBACK_SERIES_H

#include "math32.h"

/* erf(x) / x - 1 in x^2 on [0, 1]. */
INLINE double erf_near_above(double x) {
    double y = 2.62004511684393e-07;
    y = y * x - 1.0151741106790253e-05;
    y = y * x + 6.035267934113398e-05;
    y = y * x - 0.005916695838767964;
    y = y * x - 0.02017972049498644;
    y = y * x - 0.32819034466682256;
    y = y * x + 0.12837916709551256;
    return y;
}

INLINE double erf_near_below(double x) {
    double y = 0.00014676798902935455;
    y = y * x + 0.004460317865522437;
    y = y * x + 0.057842704915404664;
    y = y * x + 0.373394262087327;
    y = y * x + 1.0;
    return y;
}

INLINE double erf_near(double x) { return erf_near_above(x) / erf_near_below(x); }

/* (1 + 2x) exp(x^2) erfc(x) in (x - 3.75) / (x + 3.75), for all x >= 0. */
INLINE double erfc_scaled(double x) {
    double y = 3.2052623379289157e-10;
    y = y * x - 2.618520156503145e-09;
    y = y * x - 3.798189797736207e-09;
    y = y * x + 3.195398612057818e-08;
    y = y * x + 2.3398534313040898e-08;
    y = y * x - 2.4851108650210706e-07;
    y = y * x - 5.741076073013916e-08;
    y = y * x + 1.7419011945194367e-06;
    y = y * x - 9.733875167494142e-07;
    y = y * x - 1.1437980374495534e-05;
    y = y * x + 2.2384138525656757e-05;
    y = y * x + 5.164649341002877e-05;
    y = y * x - 0.00029015404203352704;
    y = y * x + 0.000293714390578856;
    y = y * x + 0.001755625843431864;
    y = y * x - 0.00974657968596217;
    y = y * x + 0.028362277420377335;
    y = y * x - 0.05869339857631061;
    y = y * x + 0.09230432116025894;
    y = y * x - 0.10880393014246645;
    y = y * x + 0.08227673849014977;
    y = y * x + 0.003585415485479575;
    y = y * x - 0.14024059858554702;
    y = y * x + 1.2375126308378275;
    return y;
}

/* erfinv(x) / x - 1 in 0.7225 - x^2 on [0, 0.85]. */
INLINE double erfinv_middle_above(double x) {
    double y = -0.12233167601556243;
    y = y * x - 2.817275718496782;
    y = y * x - 15.778549692687132;
    y = y * x - 32.952462447744466;
    y = y * x - 28.66207254784748;
    y = y * x - 8.287641349257543;
    y = y * x + 1.8531027643173492;
    y = y * x + 1.4174981167906953;
    y = y * x + 0.19753231156709125;
    return y;
}

INLINE double erfinv_middle_below(double x) {
    double y = 0.14340918757944626;
    y = y * x + 4.415447845022331;
    y = y * x + 34.27168633694469;
    y = y * x + 106.68428276815251;
    y = y * x + 160.82024089026783;
    y = y * x + 127.7637240724386;
    y = y * x + 54.455243379012416;
    y = y * x + 11.730846723805138;
    y = y * x + 1.0;
    return y;
}

INLINE double erfinv_middle(double x) { return erfinv_middle_above(x) / erfinv_middle_below(x); }

/* erfinv(x) / r - 0.8125 in r - 1.6, r = sqrt(-log((1 - x) / 2)). */
INLINE double erfinv_tail_above(double x) {
    double y = -5.138155862723431e-12;
    y = y * x + 3.026392077972123e-06;
    y = y * x + 0.00015059020419338527;
    y = y * x + 0.0025880777435462617;
    y = y * x + 0.020915502364911184;
    y = y * x + 0.08773863273716868;
    y = y * x + 0.18618428287762775;
    y = y * x + 0.14074765044206328;
    y = y * x - 0.11468875247458635;
    y = y * x - 0.18342372899769518;
    return y;
}

INLINE double erfinv_tail_below(double x) {
    double y = 1.6136432049313507e-05;
    y = y * x + 0.0008037247818550463;
    y = y * x + 0.0140572481249262;
    y = y * x + 0.12058757548741654;
    y = y * x + 0.5821265879011405;
    y = y * x + 1.668883764547003;
    y = y * x + 2.8220422500783133;
    y = y * x + 2.596400748901827;
    y = y * x + 1.0;
    return y;
}

INLINE double erfinv_tail(double x) { return erfinv_tail_above(x) / erfinv_tail_below(x); }

/* lgamma(x) / ((x - 1)(x - 2)) - 0.4375 in x - 1 on [1, 3]. */
INLINE double lgamma_near_above(double x) {
    double y = -0.00014484773296223998;
    y = y * x - 0.004654502916770021;
    y = y * x - 0.044656348491962816;
    y = y * x - 0.1717196790794042;
    y = y * x - 0.26315010448104464;
    y = y * x - 0.05464229883366511;
    y = y * x + 0.21517593129200396;
    y = y * x + 0.13971566490153284;
    return y;
}

INLINE double lgamma_near_below(double x) {
    double y = -8.00006940626896e-08;
    y = y * x + 0.0003421314143034865;
    y = y * x + 0.013389528687126595;
    y = y * x + 0.16888503461765253;
    y = y * x + 0.9602898005686245;
    y = y * x + 2.7893749317259906;
    y = y * x + 4.281118806581698;
    y = y * x + 3.295459389890682;
    y = y * x + 1.0;
    return y;
}

INLINE double lgamma_near(double x) { return lgamma_near_above(x) / lgamma_near_below(x); }

/* x times what Stirling's formula without its series lacks, in 1 / x^2 on [3, inf]. */
INLINE double lgamma_far_above(double x) {
    double y = 0.047949044061082816;
    y = y * x + 0.7401533079759969;
    y = y * x + 1.4475495319750598;
    y = y * x + 0.6998240164053198;
    y = y * x + 0.08333333333333326;
    return y;
}

INLINE double lgamma_far_below(double x) {
    double y = 0.7707173798157785;
    y = y * x + 9.39675554873276;
    y = y * x + 17.642111292169787;
    y = y * x + 8.431221530195907;
    y = y * x + 1.0;
    return y;
}

INLINE double lgamma_far(double x) { return lgamma_far_above(x) / lgamma_far_below(x); }

/* digamma(x) / (x - root) - 0.75 in x - 1 on [1, 3]. */
INLINE double digamma_near_above(double x) {
    double y = -0.00013119741915497668;
    y = y * x - 0.004841353696563387;
    y = y * x - 0.05311001149539819;
    y = y * x - 0.21940953197797022;
    y = y * x - 0.27132865237860687;
    y = y * x + 0.2475156214100499;
    y = y * x + 0.5003801375034054;
    return y;
}

INLINE double digamma_near_below(double x) {
    double y = -2.1266001426464142e-08;
    y = y * x + 0.0001781237084712316;
    y = y * x + 0.007541528072930127;
    y = y * x + 0.10253791613508487;
    y = y * x + 0.6088725387510459;
    y = y * x + 1.7164412849668507;
    y = y * x + 2.2027432733665075;
    y = y * x + 1.0;
    return y;
}

INLINE double digamma_near(double x) { return digamma_near_above(x) / digamma_near_below(x); }

/* x^2 (log(x) - 1 / 2x - digamma(x)) in 1 / x^2 on [3, inf]. */
INLINE double digamma_far_above(double x) {
    double y = 0.10147359097496221;
    y = y * x + 1.2645919998876947;
    y = y * x + 2.0028200146930577;
    y = y * x + 0.8118758582576218;
    y = y * x + 0.08333333333333244;
    return y;
}

INLINE double digamma_far_below(double x) {
    double y = 2.1551983302786035;
    y = y * x + 17.253459834818653;
    y = y * x + 24.970472162605237;
    y = y * x + 9.842510299075757;
    y = y * x + 1.0;
    return y;
}

INLINE double digamma_far(double x) { return digamma_far_above(x) / digamma_far_below(x); }

/* erf(x) / x - 1 in x^2 on [0, 1], for float32. */
INLINE float erf_near32(float x) {
    float y = 7.875875062685488e-05f;
    y = y * x - 0.000801686428716587f;
    y = y * x + 0.005189087423433974f;
    y = y * x - 0.026854212010626412f;
    y = y * x + 0.11283594715160218f;
    y = y * x - 0.37612626666720334f;
    y = y * x + 0.12837916584835093f;
    return y;
}

/* exp(x^2) erfc(x) in x - 2.5 on [1, 3.93], for float32. */
INLINE float erf_far32(float x) {
    float y = 1.7518249007077212e-06f;
    y = y * x - 6.2686173428546825e-06f;
    y = y * x + 1.4002158304025986e-05f;
    y = y * x - 5.409429357298008e-05f;
    y = y * x + 0.00021348729408234157f;
    y = y * x - 0.0007382731106649787f;
    y = y * x + 0.002465697522493005f;
    y = y * x - 0.007999721621320875f;
    y = y * x + 0.02493825091703929f;
    y = y * x - 0.07434754939229762f;
    y = y * x + 0.21080635674009615f;
    return y;
}

#endif
