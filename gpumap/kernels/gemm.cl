// out = alpha a.b + beta out, row-major, for any size. OpenCL only: CUDA has cuBLAS.
//
// ELEMENT is a type; sums are of type W, and WV is sixteen of them: float for half. Each work-item
// computes ROWS rows of 16 columns in vector registers. a is read one scalar at a time through two
// strides, so a transposed a costs nothing; b is read as rows of 16, or gathered where it is
// transposed. Items at the right and lower edges read clamped and write guarded.

typedef ELEMENT T;

#define ROWS 8
#define COLUMNS 16

static inline WV load_row(__global const T *b, ulong k, uint column, uint columns,
                          ulong b_k, ulong b_column) {
    __global const T *from = b + k * b_k + column * b_column;
    if (b_column == 1 && column + COLUMNS <= columns) return WIDEN(vload16(0, from));
    T row[COLUMNS];
    for (uint j = 0; j < COLUMNS; j++)
        row[j] = column + j < columns ? from[j * b_column] : (T)0;
    return WIDEN(vload16(0, row));
}

__kernel void gemm(__global const T *restrict a, __global const T *restrict b, __global T *out,
                   const uint rows, const uint columns, const uint inner,
                   const ulong a_at, const ulong b_at, const ulong out_at,
                   const ulong a_row, const ulong a_k, const ulong b_k, const ulong b_column,
                   const T alpha, const T beta) {
    const uint column = get_global_id(0) * COLUMNS;
    const uint row = get_global_id(1) * ROWS;
    if (row >= rows || column >= columns) return;

    __global const T *from[ROWS];
    for (uint i = 0; i < ROWS; i++) from[i] = a + a_at + min(row + i, rows - 1) * a_row;
    WV sum[ROWS];
    for (uint i = 0; i < ROWS; i++) sum[i] = (WV)0;
    for (uint k = 0; k < inner; k++) {
        const WV line = load_row(b + b_at, k, column, columns, b_k, b_column);
        for (uint i = 0; i < ROWS; i++) sum[i] = fma((WV)((W)from[i][k * a_k]), line, sum[i]);
    }

    for (uint i = 0; i < ROWS && row + i < rows; i++) {
        __global T *to = out + out_at + (ulong)(row + i) * columns + column;
        W line[COLUMNS];
        vstore16(sum[i] * (W)alpha, 0, line);
        for (uint j = 0; j < COLUMNS && column + j < columns; j++)
            // beta 0 must not read out: it may hold NaN
            to[j] = (T)(beta == 0 ? line[j] : line[j] + (W)beta * (W)to[j]);
    }
}
