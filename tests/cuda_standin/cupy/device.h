// CUDA C++ as C++: a thread of a block is a call; one that waits at a barrier is a fiber.
#include <ucontext.h>
#define VISIBLE __attribute__((visibility("default")))
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __syncthreads() standin::barrier()
struct standin_dim { unsigned x, y, z; };
static standin_dim threadIdx, blockIdx, blockDim, gridDim;
#define MATH(NAME) \
    static inline float NAME(float x) { return __builtin_##NAME##f(x); } \
    static inline double NAME(double x) { return __builtin_##NAME(x); }
MATH(exp) MATH(log) MATH(tanh) MATH(sqrt)
static inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline unsigned atomicAdd(unsigned *at, unsigned n) { unsigned old = *at; *at += n; return old; }

namespace standin {
enum { MOST = 1024, STACK = 1 << 15 };
static ucontext_t home, fibers[MOST];
static char stacks[MOST][STACK];
static bool ended[MOST];
static unsigned now;
static void (*body)(void **);
static void **given;

static void barrier() { swapcontext(&fibers[now], &home); }
static void enter() { body(given); ended[now] = true; }

static void resume(unsigned thread, bool first) {
    now = threadIdx.x = thread;
    if (first) {
        ended[thread] = false;
        getcontext(&fibers[thread]);
        fibers[thread].uc_stack = {stacks[thread], 0, STACK};
        fibers[thread].uc_link = &home;
        makecontext(&fibers[thread], enter, 0);
    }
    swapcontext(&home, &fibers[thread]);
}

// A kernel whose first thread meets no barrier has none: then the others are plain calls.
static int launch(void (*call)(void **), unsigned grid, unsigned block, void **a) {
    body = call, given = a, blockDim = {block, 1, 1}, gridDim = {grid, 1, 1};
    for (unsigned b = 0; b < grid; b++) {
        blockIdx = {b, 0, 0}, threadIdx = {0, 0, 0};
        resume(0, true);
        if (ended[0]) {
            for (threadIdx.x = 1; threadIdx.x < block; threadIdx.x++) call(a);
            continue;
        }
        for (unsigned t = 1; t < block; t++) resume(t, true);
        while (!ended[0]) {
            for (unsigned t = 1; t < block; t++) if (ended[t]) return 1;
            for (unsigned t = 0; t < block; t++) resume(t, false);
        }
        for (unsigned t = 1; t < block; t++) if (!ended[t]) return 1;
    }
    return 0;
}

template <class T> struct kind_of { static const int value = sizeof(T); };
template <class T> struct kind_of<T *> { static const int value = 0; };
template <> struct kind_of<float> { static const int value = 64 + 4; };
template <> struct kind_of<double> { static const int value = 64 + 8; };
template <> struct kind_of<_Float16> { static const int value = 64 + 2; };
template <class T> struct plain { typedef T type; };
template <class T> struct plain<const T> { typedef T type; };
template <class... A> int kind(void (*)(A...), int n) {
    const int all[] = {kind_of<typename plain<A>::type>::value..., -1};
    return all[n];
}
template <int... I> struct list {};
template <int N, int... I> struct count : count<N - 1, N - 1, I...> {};
template <int... I> struct count<0, I...> { typedef list<I...> type; };
template <class... A, int... I> void apply(void (*k)(A...), void **a, list<I...>) {
    k(*(A *)a[I]...);
}
template <class... A> void call(void (*k)(A...), void **a) {
    apply(k, a, typename count<sizeof...(A)>::type());
}
}
static const int standin_ends_here = 0;
