// What training a network takes beside products and sums, element by element: opencl.h and cuda.h
// say what KERNEL is, each.h what READ is.

#define OUT(p, i) (p)[p##_at + (i)]

KERNEL sigmoid(GLOBAL const ELEMENT *a, const ulong a_at, GLOBAL ELEMENT *out, const ulong out_at,
               const ulong size) {
    for EACH(i) OUT(out, i) = (ELEMENT)((REAL)1 / ((REAL)1 + exp(-READ(a, i))));
}

KERNEL relu_back(GLOBAL const ELEMENT *a, const ulong a_at, GLOBAL const ELEMENT *d,
                 const ulong d_at, GLOBAL ELEMENT *out, const ulong out_at, const ulong size) {
    for EACH(i) OUT(out, i) = READ(a, i) > 0 ? (ELEMENT)READ(d, i) : (ELEMENT)0;
}

KERNEL tanh_back(GLOBAL const ELEMENT *a, const ulong a_at, GLOBAL const ELEMENT *d,
                 const ulong d_at, GLOBAL ELEMENT *out, const ulong out_at, const ulong size) {
    for EACH(i) OUT(out, i) = (ELEMENT)(READ(d, i) * ((REAL)1 - READ(a, i) * READ(a, i)));
}

KERNEL residual(GLOBAL const ELEMENT *a, const ulong a_at, GLOBAL const ELEMENT *b,
                const ulong b_at, const ELEMENT scale, GLOBAL ELEMENT *out, const ulong out_at,
                const ulong size) {
    for EACH(i) OUT(out, i) = (ELEMENT)((READ(a, i) - READ(b, i)) * (REAL)scale);
}

KERNEL sgd(GLOBAL ELEMENT *w, const ulong w_at, GLOBAL const ELEMENT *g, const ulong g_at,
           const ELEMENT rate, const ulong size) {
    for EACH(i) OUT(w, i) = (ELEMENT)(READ(w, i) - (REAL)rate * READ(g, i));
}

// first and second are what the means move by: 1 - beta of the paper.
KERNEL adam(GLOBAL ELEMENT *w, const ulong w_at, GLOBAL ELEMENT *m, const ulong m_at,
            GLOBAL ELEMENT *v, const ulong v_at, GLOBAL const ELEMENT *g, const ulong g_at,
            const ELEMENT rate, const ELEMENT first, const ELEMENT second, const ELEMENT epsilon,
            const ulong size) {
    for EACH(i) {
        const REAL x = READ(g, i);
        const REAL mean = READ(m, i) + (REAL)first * (x - READ(m, i));
        const REAL square = READ(v, i) + (REAL)second * (x * x - READ(v, i));
        OUT(m, i) = (ELEMENT)mean;
        OUT(v, i) = (ELEMENT)square;
        OUT(w, i) = (ELEMENT)(READ(w, i) - (REAL)rate * mean / (sqrt(square) + (REAL)epsilon));
    }
}
