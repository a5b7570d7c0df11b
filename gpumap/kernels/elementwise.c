// Kernels of one element after the other, in two dialects: opencl.h and cuda.h say what KERNEL,
// GLOBAL, ITEM and ulong are, and what a vector of LANES elements is; each.h what a SHARE is.

KERNEL fill(GLOBAL ELEMENT *out, const ulong out_at, const ELEMENT value, const ulong size) {
    SHARE;
    const ELEMENTS every = (ELEMENTS)(value);
    WHOLE PUT(every, out + out_at + i);
    REST out[out_at + i] = value;
}

#define BINARY(NAME, RESULT) \
    KERNEL NAME(GLOBAL const ELEMENT *a, const ulong a_at, GLOBAL const ELEMENT *b, \
                const ulong b_at, GLOBAL ELEMENT *out, const ulong out_at, const ulong size) { \
        SHARE; \
        WHOLE { \
            const VECTOR x = READ_AT(a + a_at + i), y = READ_AT(b + b_at + i); \
            WRITE(RESULT, out + out_at + i); \
        } \
        REST { \
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
        SHARE; \
        WHOLE { \
            const VECTOR x = READ_AT(a + a_at + i); \
            WRITE(RESULT, out + out_at + i); \
        } \
        REST { \
            const REAL x = READ(a, i); \
            out[out_at + i] = (ELEMENT)(RESULT); \
        } \
    }

BINARY(add, x + y)
BINARY(sub, x - y)
BINARY(mul, x * y)
BINARY(div, x / y)
BINARY(maximum, ((x > y) | (x != x)) ? x : y) // passes NaN on, as NumPy's does; of vectors too
UNARY(relu, x < 0 ? 0 : x) // passes NaN on
UNARY(exp_each, exp(x)) // a kernel may not be called as the function it calls
UNARY(log_each, log(x))
UNARY(tanh_each, tanh(x))

// Each group adds up its share of everything, with what rounding lost carried along (Kahan, CACM 8(1),
// 1965): one group leaves the sum, several a sum each. A processor's group is one work-item. A total
// that is infinite has lost nothing that is a number, and stays infinite: `rest` less itself is 0 only
// of numbers.
#define ADD_TO(TYPE, total, lost, TERM) { \
        const TYPE term = (TERM) - lost, next = total + term, rest = (next - total) - term; \
        lost = rest - rest == (TYPE)0 ? rest : (TYPE)0; \
        total = next; \
    }

KERNEL sum(GLOBAL const ELEMENT *a, const ulong a_at, GLOBAL ELEMENT *out, const ulong out_at,
           const ulong size) {
    const ulong share = (size + GROUPS - 1) / GROUPS, first = share * GROUP_ID;
    const ulong stop = first + share < size ? first + share : size;
#if LANES > 1
    VECTOR totals = (VECTOR)0, losses = (VECTOR)0;
    ulong i = first;
    WHOLE ADD_TO(VECTOR, totals, losses, READ_AT(a + a_at + i))
    REAL each[LANES], total = 0, lost = 0;
    UNPACK(totals, each);
    for (int lane = 0; lane < LANES; lane++) ADD_TO(REAL, total, lost, each[lane])
    REST ADD_TO(REAL, total, lost, READ(a, i))
    out[out_at + GROUP_ID] = (ELEMENT)total;
#else // each item its share, then the shares in pairs
    SHARED REAL parts[GROUP];
    REAL total = 0, lost = 0;
    for (ulong i = first + LANE; i < stop; i += GROUP) ADD_TO(REAL, total, lost, READ(a, i))
    parts[LANE] = total;
    BARRIER;
    for (int width = GROUP / 2; width > 0; width /= 2) {
        if (LANE < width) parts[LANE] += parts[LANE + width];
        BARRIER;
    }
    if (LANE == 0) out[out_at + GROUP_ID] = (ELEMENT)parts[0];
#endif
}
