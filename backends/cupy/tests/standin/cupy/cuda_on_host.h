// CUDA C++ for the host's compiler: a kernel is a function, its threads take turns.
//
// Each thread of a block is a context of its own. It runs until it waits for others (at
// __syncthreads, or to read another lane's value) and then lets the next one run, so that kernels
// are executed as written, barriers and all, with one order of threads out of many.

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __shared__ static

using std::abs;
using std::acos;
using std::acosh;
using std::asin;
using std::asinh;
using std::atan;
using std::atan2;
using std::atanh;
using std::ceil;
using std::copysign;
using std::cos;
using std::cosh;
using std::erf;
using std::erfc;
using std::exp;
using std::expm1;
using std::fabs;
using std::floor;
using std::fmod;
using std::hypot;
using std::isfinite;
using std::isinf;
using std::isnan;
using std::log;
using std::log10;
using std::log1p;
using std::log2;
using std::rint;
using std::signbit;
using std::sin;
using std::sinh;
using std::sqrt;
using std::tan;
using std::tanh;
using std::trunc;

inline float max(float a, float b) { return fmaxf(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }

// 16-bit floats -------------------------------------------------------------------------------

inline float float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
inline uint32_t bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
inline float __int_as_float(int bits) { return float_of_bits(uint32_t(bits)); }

struct __half {
    uint16_t bits;
    __half() = default;
    template <class X> explicit __half(X x) : __half(float(x)) {}
    explicit __half(double x) {
        _Float16 y = _Float16(x);
        memcpy(&bits, &y, 2);
    }
    __half(float x) {
        _Float16 y = _Float16(x);
        memcpy(&bits, &y, 2);
    }
    operator float() const {
        _Float16 y;
        memcpy(&y, &bits, 2);
        return float(y);
    }
};

struct __nv_bfloat16 {
    uint16_t bits;
    __nv_bfloat16() = default;
    template <class X> explicit __nv_bfloat16(X x) : __nv_bfloat16(float(x)) {}
    __nv_bfloat16(float x) {
        const uint32_t all = bits_of_float(x);
        bits = x != x ? 0x7fc0 | (all >> 16) : uint16_t((all + 0x7fff + (all >> 16 & 1)) >> 16);
    }
    operator float() const { return float_of_bits(uint32_t(bits) << 16); }
};

typedef __half float16;
typedef __nv_bfloat16 bfloat16;
typedef float float32;
typedef double float64;
typedef signed char int8;
typedef short int16;
typedef int int32;
typedef long long int64;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;

// Grid, block and thread ----------------------------------------------------------------------

struct Index {
    int x = 0, y = 0, z = 0;
};
static Index gridDim, blockDim, blockIdx, threadIdx;

struct Thread {
    ucontext_t start;
    jmp_buf at;
    char stack[32768];
    bool begun, done;
    Index index;
    unsigned char value[16];
};

static std::vector<Thread *> threads;
static jmp_buf scheduler;
static ucontext_t home;
static Thread *running;
static void (*block_body)(void *);
static void *block_data;

inline void let_others_run() {
    if (!_setjmp(running->at))
        _longjmp(scheduler, 1);
}

static void run_thread() {
    block_body(block_data);
    running->done = true;
    _longjmp(scheduler, 1);
}

/// Runs all threads of a block, in turn, each from one wait to the next.
static void run_block() {
    const int count = blockDim.x * blockDim.y;
    while (int(threads.size()) < count)
        threads.push_back(new Thread);
    for (int i = 0; i < count; ++i) {
        Thread *thread = threads[i];
        thread->begun = thread->done = false;
        thread->index.x = i % blockDim.x;
        thread->index.y = i / blockDim.x;
        getcontext(&thread->start);
        thread->start.uc_stack.ss_sp = thread->stack;
        thread->start.uc_stack.ss_size = sizeof thread->stack;
        thread->start.uc_link = &home;
        makecontext(&thread->start, run_thread, 0);
    }
    for (volatile int left = count; left > 0;) {
        for (volatile int i = 0; i < count; ++i) {
            running = threads[i];
            if (running->done)
                continue;
            threadIdx = running->index;
            if (!_setjmp(scheduler)) {
                if (running->begun)
                    _longjmp(running->at, 1);
                running->begun = true;
                setcontext(&running->start);
            }
            if (running->done)
                left = left - 1;
        }
    }
}

inline void __syncthreads() { let_others_run(); }

template <class V> V __shfl_xor_sync(unsigned, V value, int mask) {
    memcpy(running->value, &value, sizeof value);
    let_others_run();
    const int lane = threadIdx.y * blockDim.x + threadIdx.x;
    memcpy(&value, threads[lane ^ mask]->value, sizeof value);
    let_others_run();
    return value;
}

inline int atomicAdd(int *at, int value) {
    int old = *at;
    *at += value;
    return old;
}
inline int atomicMax(int *at, int value) {
    int old = *at;
    *at = std::max(old, value);
    return old;
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}

/// Calls a kernel with arguments of its own types, of which `given` has the addresses.
template <class... P, size_t... I>
void call(void (*kernel)(P...), void **given, std::index_sequence<I...>) {
    kernel(*(std::decay_t<P> *)given[I]...);
}

template <class... P> struct Launch {
    void (*kernel)(P...);
    void **given;
};

template <class... P>
void launch(void (*kernel)(P...), void **given, int blocks, int x, int y, bool waits) {
    Launch<P...> what{kernel, given};
    gridDim = Index(), blockDim = Index(), blockIdx = Index(), threadIdx = Index();
    gridDim.x = blocks, blockDim.x = x, blockDim.y = y;
    block_data = &what;
    block_body = [](void *data) {
        auto *what = (Launch<P...> *)data;
        call(what->kernel, what->given, std::index_sequence_for<P...>());
    };
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        if (waits) {
            run_block();
            continue;
        }
        for (threadIdx.y = 0; threadIdx.y < y; ++threadIdx.y) {
            for (threadIdx.x = 0; threadIdx.x < x; ++threadIdx.x)
                block_body(block_data);
        }
    }
}
