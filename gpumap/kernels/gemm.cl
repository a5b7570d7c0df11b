// out = alpha a.b + beta out, row-major, for any size: a is `rows` x `inner`, b `inner` x `columns`,
// and a place of out is the sum of `inner` terms. OpenCL only: CUDA has cuBLAS. ELEMENT is a type of
// memory; terms are summed in W, which is float for half. Both factors are read through two strides,
// so that a transposed one is copied by nobody. backends/pyopencl/launch.py chooses the constants in
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
// The other way is for a GPU: SIDE x SIDE work-items sum a block, HIGH x WIDE places each in registers,
// by fours: a work-item has four neighbouring rows and columns, and the next four SIDE fours away. They
// share pieces of both factors, DEPTH terms of the block's rows and columns, in local memory. There are
// two of each: while one is worked on, every work-item reads its part of the next piece into registers,
// and then puts it down in the other. So there is one barrier for a piece. SKEW numbers lie between two
// terms, so that work-items which put down 8 terms of a row meet different banks, and of 16 two a bank.

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
#define ITEMS (SIDE * SIDE)
#define ROWS (SIDE * HIGH) // of a block
#define COLUMNS (SIDE * WIDE)
typedef JOIN(W, 4) FOUR;
typedef W LEFT[DEPTH][ROWS + SKEW];
typedef W RIGHT[DEPTH][COLUMNS + SKEW];

// What a work-item reads of a piece, DEPTH terms of `block` lines (rows of a, columns of b): from its
// first number on every so many lines and terms, so that neighbours read neighbours.
typedef struct { uint line, term, lines, terms; } Part;
static inline Part part_of(const uint id, const uint block, const bool along) {
    const Part terms_first = {id / DEPTH, id % DEPTH, ITEMS / DEPTH, 0};
    const Part lines_first = {id % block, id / block, 0, ITEMS / block};
    return along ? terms_first : lines_first;
}

// The `s`th of them, `step` after `step` from the first one: 0 where the matrix has no such line or
// term.
static inline W number(__global const T *first, const Part part, const uint s, const ulong step,
                       const uint lines, const uint terms) {
    const bool there = part.line + s * part.lines < lines && part.term + s * part.terms < terms;
    return there ? (W)first[s * step] : (W)0;
}

static inline void add_row(FOUR *sum, const W left, const FOUR *right) {
#pragma unroll
    for (uint j = 0; j < WIDE / 4; j++) sum[j] = fma((FOUR)(left), right[j], sum[j]);
}

// Add the products of a piece's terms to what a work-item sums.
static inline void add_piece(__local LEFT *a, __local RIGHT *b, FOUR sum[HIGH][WIDE / 4],
                             const uint y, const uint x) {
#pragma unroll
    for (uint k = 0; k < DEPTH; k++) {
        FOUR right[WIDE / 4];
#pragma unroll
        for (uint j = 0; j < WIDE / 4; j++)
            right[j] = *(__local const FOUR *)&(*b)[k][4 * (x + j * SIDE)];
#pragma unroll
        for (uint i = 0; i < HIGH; i += 4) {
            const FOUR left = *(__local const FOUR *)&(*a)[k][4 * y + i * SIDE];
            add_row(sum[i], left.x, right);
            add_row(sum[i + 1], left.y, right);
            add_row(sum[i + 2], left.z, right);
            add_row(sum[i + 3], left.w, right);
        }
    }
}

// Write as many of four neighbouring places as there are.
static inline void write_four(__global T *out, const FOUR sum, const uint there, const T alpha,
                              const T beta) {
    if (there > 0) write_out(out, sum.x, alpha, beta);
    if (there > 1) write_out(out + 1, sum.y, alpha, beta);
    if (there > 2) write_out(out + 2, sum.z, alpha, beta);
    if (there > 3) write_out(out + 3, sum.w, alpha, beta);
}

__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1)))
void gemm(__global const T *restrict a, __global const T *restrict b, __global T *out,
          SIZES, PLACES, const T alpha, const T beta) {
    __local LEFT left[2] __attribute__((aligned(sizeof(FOUR))));
    __local RIGHT right[2] __attribute__((aligned(sizeof(FOUR))));
    const uint row = get_group_id(1) * ROWS, column = get_group_id(0) * COLUMNS;
    const uint y = get_local_id(1), x = get_local_id(0), id = y * SIDE + x;
    const Part of_a = part_of(id, ROWS, a_k == 1), of_b = part_of(id, COLUMNS, b_k == 1);
    const ulong a_step = of_a.lines * a_row + of_a.terms * a_k,
        b_step = of_b.lines * b_column + of_b.terms * b_k;
    W next_left[ROWS * DEPTH / ITEMS], next_right[COLUMNS * DEPTH / ITEMS];
    FOUR sum[HIGH][WIDE / 4];
    a += a_at + (row + of_a.line) * a_row + of_a.term * a_k;
    b += b_at + (column + of_b.line) * b_column + of_b.term * b_k;
    out += out_at;

#pragma unroll
    for (uint i = 0; i < HIGH; i++)
#pragma unroll
        for (uint j = 0; j < WIDE / 4; j++) sum[i][j] = (FOUR)0;
    // piece after piece: it is read, then the one before is worked on, then it is put down
    const uint pieces = (inner + DEPTH - 1) / DEPTH;
    for (uint piece = 0; piece <= pieces; piece++, a += DEPTH * a_k, b += DEPTH * b_k) {
        const uint terms = inner - piece * DEPTH, side = piece % 2;
        if (piece < pieces) {
#pragma unroll
            for (uint s = 0; s < ROWS * DEPTH / ITEMS; s++)
                next_left[s] = number(a, of_a, s, a_step, rows - row, terms);
#pragma unroll
            for (uint s = 0; s < COLUMNS * DEPTH / ITEMS; s++)
                next_right[s] = number(b, of_b, s, b_step, columns - column, terms);
        }
        if (piece > 0) add_piece(&left[!side], &right[!side], sum, y, x);
        if (piece < pieces) {
#pragma unroll
            for (uint s = 0; s < ROWS * DEPTH / ITEMS; s++)
                left[side][of_a.term + s * of_a.terms][of_a.line + s * of_a.lines] = next_left[s];
#pragma unroll
            for (uint s = 0; s < COLUMNS * DEPTH / ITEMS; s++)
                right[side][of_b.term + s * of_b.terms][of_b.line + s * of_b.lines] = next_right[s];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#pragma unroll
    for (uint i = 0; i < HIGH; i++)
#pragma unroll
        for (uint j = 0; j < WIDE / 4; j++) {
            const uint to_row = row + 4 * y + i / 4 * 4 * SIDE + i % 4,
                to_column = column + 4 * (x + j * SIDE);
            if (to_row < rows && to_column < columns)
                write_four(out + (ulong)to_row * columns + to_column, sum[i][j], columns - to_column,
                           alpha, beta);
        }
}
#endif
