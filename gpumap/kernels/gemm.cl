// out = alpha a.b + beta out, row-major, for any size: a is `rows` x `inner`, b `inner` x `columns`,
// and a place of out is the sum of `inner` terms. OpenCL only: CUDA has cuBLAS. ELEMENT is a type of
// memory; terms are summed in W, which is float for half. Both factors are read through two strides,
// so that a transposed one is copied by nobody. backends/pyopencl_gemm.py chooses the constants in
// capitals, and cuts `out` into blocks.
//
// BLOCKED is for a processor, where a group is one work-item on one core and takes a block of out,
// `height` x `width`, after Goto and van de Geijn (ACM TOMS 34(3), 2008). What it works on lies in
// memory of its own: `packed_b`, DEPTH terms of all columns of the block, which stays in the second
// cache; `packed_a`, as many terms of ROWS of its rows, which stays in the first; and `sums`, the
// whole block, written to out when all terms are in. A tile, ROWS rows of VECTORS vectors of LANES
// columns, is summed in registers:
//
//     for every DEPTH terms: pack those of the block's columns of b
//         for every ROWS rows: pack those terms of these rows of a
//             for every COLUMNS columns: sum a tile, and add it to `sums`
//
// Where the block ends within a tile, 0 is packed for what is not there, and only what is there is
// written: no tile knows where the matrix ends. Packed rows keep the order that they come in (A_ROW
// is the step from row to row in `packed_a`, A_TERM from term to term): to turn them around would
// take as long as a tenth of the product. CACHED: the device has a cache, which is asked for what
// comes next. NARROW: OpenCL's functions are built for wider registers than this text, and are not
// inlined.
//
// The other way is for a GPU: SIDE x SIDE work-items share pieces of both factors, and each sums EACH
// x EACH places, SIDE apart, so that neighbours read and write neighbours.

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
typedef ELEMENT T;

// Places of first elements, and steps from row to row, term to term, column to column: in elements.
#define SIZES const uint rows, const uint columns, const uint inner
#define PLACES const ulong a_at, const ulong b_at, const ulong out_at, \
    const ulong a_row, const ulong a_k, const ulong b_k, const ulong b_column

static inline void write_out(__global T *out, const W sum, const T alpha, const T beta) {
    // beta 0 must not read out: it may hold NaN
    *out = (T)(beta == 0 ? sum * (W)alpha : sum * (W)alpha + (W)beta * (W)*out);
}

#ifdef BLOCKED
#define COLUMNS (VECTORS * LANES) // of a tile
typedef JOIN(W, LANES) V;
#ifdef NARROW // by the compiler's own means: OpenCL's functions it would call one by one
typedef JOIN(ELEMENT, LANES) ANYWHERE_T __attribute__((aligned(sizeof(T))));
typedef V ANYWHERE __attribute__((aligned(sizeof(W))));
#define READ(from) (*(__global const ANYWHERE_T *)(from))
#define LOAD(from) (*(__local const ANYWHERE *)(from))
#define STORE(vector, to) (*(__local ANYWHERE *)(to) = (vector))
#define WIDENED(vector) __builtin_convertvector(vector, V)
#undef fma
#define fma(a, b, c) ((a) * (b) + (c)) // which it contracts
#else
#define READ(from) JOIN(vload, LANES)(0, from)
#define LOAD(from) JOIN(vload, LANES)(0, from)
#define STORE(vector, to) JOIN(vstore, LANES)(vector, 0, to)
#define WIDENED(vector) JOIN(convert_, JOIN(W, LANES))(vector)
#endif
#ifdef __has_builtin
#if defined(CACHED) && __has_builtin(__builtin_prefetch)
#define FETCH(from) __builtin_prefetch((const void *)(size_t)(from), 0, 3)
#endif
#endif

// Pack `terms` terms of `there` columns of b: tile after tile, and in a tile term after term, COLUMNS
// numbers of each. Whole tiles of a b that is not transposed go in vectors, others number by number.
static inline void pack_columns(__global const T *b, __local W *to, const uint terms,
                                const uint there, const ulong b_k, const ulong b_column) {
    const uint whole = b_column == 1 ? there / COLUMNS * COLUMNS : 0;
    for (uint k = 0; k < terms; k++) // rows are read from end to end, as memory likes it
        for (uint j = 0; j < whole; j += COLUMNS)
            for (uint i = 0; i < COLUMNS; i += LANES)
                STORE(WIDENED(READ(b + k * b_k + j + i)), to + j * terms + k * COLUMNS + i);
    for (uint j = whole; j < there; j += COLUMNS)
        for (uint i = 0; i < COLUMNS; i++)
            for (uint k = 0; k < terms; k++)
                to[j * terms + k * COLUMNS + i] =
                    j + i < there ? (W)b[k * b_k + (j + i) * b_column] : (W)0;
}

// Pack `terms` terms of ROWS rows of a, of which `there` are there. `step` in a is from row to row, or
// where a is read transposed (A_TERM is not 1) from term to term.
static inline void pack_rows(__global const T *a, __local W *to, const uint terms,
                             const uint there, const ulong step) {
#if A_TERM == 1
    for (uint i = 0; i < there; i++) {
        uint k = 0;
        for (; k + LANES <= terms; k += LANES)
            STORE(WIDENED(READ(a + i * step + k)), to + i * A_ROW + k);
        for (; k < terms; k++) to[i * A_ROW + k] = (W)a[i * step + k];
    }
#else
    for (uint k = 0; k < terms; k++)
        for (uint i = 0; i < there; i++) to[i + k * A_TERM] = (W)a[i + k * step];
#endif
    for (uint i = there; i < ROWS; i++)
        for (uint k = 0; k < terms; k++) to[i * A_ROW + k * A_TERM] = 0;
}

// Ask for every `tiles`th of the `there` rows that are packed next, from `first` on, in lines of 64
// bytes: before each tile for a share of them. To fetch them when they are packed would take a tenth
// of the time.
static inline void fetch_rows(__global const T *a, const uint first, const uint tiles,
                              const uint there, const uint terms, const ulong step) {
#if A_TERM == 1 && defined(FETCH)
    for (uint i = first; i < there; i += tiles)
        for (uint k = 0; k < terms; k += 64 / sizeof(T)) FETCH(a + i * step + k);
#endif
}

// Add a tile, the product of packed rows and columns, to sums of which a row has `width` numbers.
static inline void add_tile(__local const W *a, __local const W *b, __local W *sums,
                            const uint terms, const uint width) {
    V sum[ROWS][VECTORS];
#pragma unroll
    for (uint i = 0; i < ROWS; i++)
#pragma unroll
        for (uint j = 0; j < VECTORS; j++) sum[i][j] = (V)0;
    for (uint k = 0; k < terms; k++, a += A_TERM, b += COLUMNS) {
        V line[VECTORS];
#pragma unroll
        for (uint j = 0; j < VECTORS; j++) line[j] = LOAD(b + j * LANES);
#pragma unroll
        for (uint i = 0; i < ROWS; i++)
#pragma unroll
            for (uint j = 0; j < VECTORS; j++) sum[i][j] = fma((V)a[i * A_ROW], line[j], sum[i][j]);
    }
#pragma unroll
    for (uint i = 0; i < ROWS; i++)
#pragma unroll
        for (uint j = 0; j < VECTORS; j++) {
            __local W *to = sums + i * width + j * LANES;
            STORE(LOAD(to) + sum[i][j], to);
        }
}

__kernel void gemm(__global const T *restrict a, __global const T *restrict b, __global T *out,
                   SIZES, PLACES, const T alpha, const T beta, const uint height, const uint width,
                   __local W *packed_a, __local W *packed_b, __local W *sums) {
    const uint row = get_group_id(1) * height, column = get_group_id(0) * width;
    const uint high = min(rows - row, height), wide = min(columns - column, width); // of this block
    const uint tall = (high + ROWS - 1) / ROWS * ROWS, // the same of sums, in whole tiles
        span = (wide + COLUMNS - 1) / COLUMNS * COLUMNS;
    a += a_at + row * a_row;
    b += b_at + column * b_column;
    out += out_at + (ulong)row * columns + column;

    for (uint i = 0; i < tall * span; i += LANES) STORE((V)0, sums + i);
    for (uint k = 0; k < inner; k += DEPTH) {
        const uint terms = min(inner - k, (uint)DEPTH);
        pack_columns(b + k * b_k, packed_b, terms, wide, b_k, b_column);
        for (uint i = 0; i < high; i += ROWS) {
            pack_rows(a + i * a_row + k * a_k, packed_a, terms, min(high - i, (uint)ROWS),
                      A_TERM == 1 ? a_row : a_k);
            const uint next = high - i > ROWS ? min(high - i - ROWS, (uint)ROWS) : 0;
            for (uint j = 0; j < wide; j += COLUMNS) {
                fetch_rows(a + (i + ROWS) * a_row + k * a_k, j / COLUMNS, span / COLUMNS, next,
                           terms, a_row);
                add_tile(packed_a, packed_b + j * terms, sums + i * span + j, terms, span);
            }
        }
    }
    for (uint i = 0; i < high; i++)
        for (uint j = 0; j < wide; j++)
            write_out(out + (ulong)i * columns + j, sums[i * span + j], alpha, beta);
}

#else
#define BLOCK (SIDE * EACH) // height and width of a block

// A piece of a factor: DEPTH terms of BLOCK lines (rows of a, columns of b), term after term. So many
// `lines` and `terms` are there; `line` and `term` are the steps in it. Neighbours read neighbours.
static inline void share(__global const T *from, __local W (*to)[BLOCK], const uint lines,
                         const uint terms, const ulong line, const ulong term) {
    for (uint n = get_local_id(1) * SIDE + get_local_id(0); n < BLOCK * DEPTH; n += SIDE * SIDE) {
        const uint i = term == 1 ? n / DEPTH : n % BLOCK, k = term == 1 ? n % DEPTH : n / BLOCK;
        to[k][i] = i < lines && k < terms ? (W)from[i * line + k * term] : (W)0;
    }
}

__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1)))
void gemm(__global const T *restrict a, __global const T *restrict b, __global T *out,
          SIZES, PLACES, const T alpha, const T beta) {
    __local W left[DEPTH][BLOCK], right[DEPTH][BLOCK];
    const uint row = get_group_id(1) * BLOCK, column = get_group_id(0) * BLOCK;
    const uint y = get_local_id(1), x = get_local_id(0);
    a += a_at + row * a_row;
    b += b_at + column * b_column;

    W sum[EACH][EACH];
    for (uint i = 0; i < EACH; i++)
        for (uint j = 0; j < EACH; j++) sum[i][j] = 0;
    for (uint k = 0; k < inner; k += DEPTH) {
        share(a + k * a_k, left, rows - row, inner - k, a_row, a_k);
        share(b + k * b_k, right, columns - column, inner - k, b_column, b_k);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint term = 0; term < DEPTH; term++)
            for (uint i = 0; i < EACH; i++)
                for (uint j = 0; j < EACH; j++)
                    sum[i][j] = fma(left[term][y + i * SIDE], right[term][x + j * SIDE], sum[i][j]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint i = 0; i < EACH; i++)
        for (uint j = 0; j < EACH; j++) {
            const uint to_row = row + y + i * SIDE, to_column = column + x + j * SIDE;
            if (to_row < rows && to_column < columns)
                write_out(out + out_at + (ulong)to_row * columns + to_column, sum[i][j], alpha, beta);
        }
}
#endif
