// Kernels of one element after the other, in two dialects: opencl.h and cuda.h say what KERNEL,
// GLOBAL, ITEM, ADD and ulong are, and what a vector of LANES elements is; each.h what EACH is.

KERNEL fill(GLOBAL ELEMENT *out, const ulong out_at, const ELEMENT value, const ulong size) {
    for EACH(i) out[out_at + i] = value;
}

KERNEL shift(GLOBAL ELEMENT *out, const ulong out_at, GLOBAL const ELEMENT *from,
             const ulong from_at, const ELEMENT value, const ulong size) {
    for EACH(i) out[out_at + i] = from[from_at + i] + value;
}

KERNEL differ(GLOBAL const ELEMENT *a, const ulong a_at, GLOBAL const ELEMENT *b,
              const ulong b_at, GLOBAL unsigned int *counter, const ulong counter_at,
              const ulong size) {
    unsigned int found = 0;
    for EACH(i) found += a[a_at + i] != b[b_at + i];
    if (found) ADD(counter + counter_at, found);
}

// What only numbers with a fraction can do.
#ifdef REAL
#define BINARY(NAME, RESULT) \
    KERNEL NAME(GLOBAL const ELEMENT *a, const ulong a_at, GLOBAL const ELEMENT *b, \
                const ulong b_at, GLOBAL ELEMENT *out, const ulong out_at, const ulong size) { \
        for EACH(i) { \
            const REAL x = READ(a, i), y = READ(b, i); \
            out[out_at + i] = (ELEMENT)(RESULT); \
        } \
    } \
    KERNEL NAME##_cyclic(GLOBAL const ELEMENT *a, const ulong a_at, const ulong a_count, \
                         GLOBAL const ELEMENT *b, const ulong b_at, const ulong b_count, \
                         GLOBAL ELEMENT *out, const ulong out_at, const ulong size) { \
        ulong j = (ulong)ITEM * GRAIN % a_count, k = (ulong)ITEM * GRAIN % b_count; \
        for EACH(i) { /* dividing for each element would take longer than all the rest */ \
            const REAL x = READ(a, j), y = READ(b, k); \
            out[out_at + i] = (ELEMENT)(RESULT); \
            j = j + 1 < a_count ? j + 1 : 0; \
            k = k + 1 < b_count ? k + 1 : 0; \
        } \
    }

#define UNARY(NAME, RESULT) \
    KERNEL NAME(GLOBAL const ELEMENT *a, const ulong a_at, GLOBAL ELEMENT *out, \
                const ulong out_at, const ulong size) { \
        for EACH(i) { \
            const REAL x = READ(a, i); \
            out[out_at + i] = (ELEMENT)(RESULT); \
        } \
    }

// A call, in whole vectors as far as they go: no processor's compiler makes them of it (PoCL 3.1).
#define CALL(NAME, FUNCTION_OF) \
    KERNEL NAME(GLOBAL const ELEMENT *a, const ulong a_at, GLOBAL ELEMENT *out, \
                const ulong out_at, const ulong size) { \
        ulong i = (ulong)ITEM * GRAIN; \
        const ulong stop = i + GRAIN < size ? i + GRAIN : size; \
        for (; i + LANES <= stop; i += LANES) \
            WRITE(FUNCTION_OF(READ_AT(a + a_at + i)), out + out_at + i); \
        for (; i < stop; i++) out[out_at + i] = (ELEMENT)FUNCTION_OF(READ(a, i)); \
    }

BINARY(add, x + y)
BINARY(sub, x - y)
BINARY(mul, x * y)
BINARY(div, x / y)
BINARY(maximum, x > y || x != x ? x : y) // passes NaN on, as NumPy's does
UNARY(relu, x > 0 || x != x ? x : 0)
CALL(exp_each, exp) // a kernel may not be called as the function it calls
CALL(log_each, log)
CALL(tanh_each, tanh)

// One group adds up everything: each item its share, with what rounding lost carried along (Kahan,
// CACM 8(1), 1965), then the shares in pairs.
KERNEL sum(GLOBAL const ELEMENT *a, const ulong a_at, GLOBAL ELEMENT *out, const ulong out_at,
           const ulong size) {
    SHARED REAL parts[GROUP];
    REAL total = 0, lost = 0;
    for (ulong i = LANE; i < size; i += GROUP) {
        const REAL term = READ(a, i) - lost, next = total + term;
        lost = (next - total) - term;
        total = next;
    }
    parts[LANE] = total;
    BARRIER;
    for (int width = GROUP / 2; width > 0; width /= 2) {
        if (LANE < width) parts[LANE] += parts[LANE + width];
        BARRIER;
    }
    if (LANE == 0) out[out_at] = (ELEMENT)parts[0];
}
#endif
