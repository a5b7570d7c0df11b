// out = log(exp(relu(x.w + b))) in one pass, x of `size` rows, in two dialects: opencl.h and cuda.h.
// INNER and COLUMNS are set when the text is built, so that the weights stay in registers.
//
// A GPU takes a row for each work-item. A processor takes LANES of them: the product of a row has
// its columns side by side, WIDE of them, and leaves them in the order of memory; exp and log then go
// over all rows in whole vectors, since a last one of 5 columns would idle. Of single numbers exp and
// log would take PoCL longer than one kernel for each operation.

#if LANES == 1
#define WIDE 1
#elif COLUMNS <= 4 || LANES <= 4
#define WIDE 4
#elif COLUMNS <= 8 || LANES <= 8
#define WIDE 8
#else
#define WIDE 16
#endif
#define PARTS ((COLUMNS + WIDE - 1) / WIDE) // of a row

FUNCTION void rows_of(GLOBAL const ELEMENT *x, const WIDE_VECTOR(WIDE) *weights,
                      const WIDE_VECTOR(WIDE) *bias, GLOBAL ELEMENT *out, const int count) {
    REAL every[LANES * COLUMNS + WIDE];
    for (int lane = 0; lane < LANES; lane++) {
        // behind the last row it is read once more, and not written
        GLOBAL const ELEMENT *row = x + (lane < count ? lane : count - 1) * INNER;
        for (int part = 0; part < PARTS; part++) {
            WIDE_VECTOR(WIDE) y = bias[part];
            for (int k = 0; k < INNER; k++)
                y = fma((WIDE_VECTOR(WIDE))((REAL)row[k]), weights[k * PARTS + part], y);
            // what is behind the last column, the next row overwrites
            WIDE_STORE(WIDE, y, every + lane * COLUMNS + part * WIDE);
        }
    }
    for (int i = 0; i < COLUMNS; i++) {
        const VECTOR y = log(exp(RELU(PACK(every + i * LANES))));
        if (count == LANES) WRITE(y, out + i * LANES);
        else UNPACK(y, every + i * LANES);
    }
    if (count < LANES)
        for (int i = 0; i < count * COLUMNS; i++) out[i] = (ELEMENT)every[i];
}

KERNEL chain(GLOBAL const ELEMENT *x, const ulong x_at, GLOBAL const ELEMENT *w, const ulong w_at,
             GLOBAL const ELEMENT *b, const ulong b_at, GLOBAL ELEMENT *out, const ulong out_at,
             const ulong size) {
    WIDE_VECTOR(WIDE) weights[INNER * PARTS], bias[PARTS];
    for (int part = 0; part < PARTS; part++) {
        REAL line[WIDE];
        for (int k = 0; k < INNER; k++) {
            for (int i = 0; i < WIDE; i++)
                line[i] = part * WIDE + i < COLUMNS ? (REAL)w[w_at + k * COLUMNS + part * WIDE + i]
                                                    : (REAL)0;
            weights[k * PARTS + part] = WIDE_LOAD(WIDE, line);
        }
        for (int i = 0; i < WIDE; i++)
            line[i] = part * WIDE + i < COLUMNS ? (REAL)b[b_at + part * WIDE + i] : (REAL)0;
        bias[part] = WIDE_LOAD(WIDE, line);
    }

    const ulong first = (ulong)ITEM * GRAIN, stop = first + GRAIN < size ? first + GRAIN : size;
    ulong row = first;
    for (; row + LANES <= stop; row += LANES)
        rows_of(x + x_at + row * INNER, weights, bias, out + out_at + row * COLUMNS, LANES);
    if (row < stop)
        rows_of(x + x_at + row * INNER, weights, bias, out + out_at + row * COLUMNS, stop - row);
}
