// The OpenCL C dialect of the kernels in .c files. REAL is what elements are computed in, WV LANES of
// them.

#define KERNEL __kernel void
#define FUNCTION static inline
#define GLOBAL __global
#define ITEM get_global_id(0)
#define SHARED __local
#define LANE get_local_id(0)
#define GROUP_ID get_group_id(0)
#define GROUPS get_num_groups(0)
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)

// A vector is LANES numbers: what compiles to the widest registers that a processor has; on a GPU
// neighbouring work-items are the vector.
#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#if defined(GRAIN) && GRAIN > 1
#ifndef LANES
#define LANES 16
#endif
#define ELEMENTS JOIN(ELEMENT, LANES)
#ifdef NARROW // as in gemm.cl
typedef ELEMENTS ANYWHERE __attribute__((aligned(sizeof(ELEMENT))));
typedef WV ANYWHERE_W __attribute__((aligned(sizeof(W))));
#define TAKE(from) (*(GLOBAL const ANYWHERE *)(from))
#define WIDENED(vector) __builtin_convertvector(vector, WV)
#define NARROWED(vector) __builtin_convertvector(vector, ELEMENTS)
#define PACK(each) (*(const ANYWHERE_W *)(each))
#define UNPACK(vector, each) (*(ANYWHERE_W *)(each) = (vector))
#undef fma
#define fma(a, b, c) ((a) * (b) + (c))
#else
#define TAKE(from) JOIN(vload, LANES)(0, from)
#define WIDENED(vector) JOIN(convert_, WV)(vector)
#define NARROWED(vector) JOIN(convert_, ELEMENTS)(vector)
#define PACK(each) JOIN(vload, LANES)(0, each)
#define UNPACK(vector, each) JOIN(vstore, LANES)(vector, 0, each)
#endif
// STREAM: more than the caches hold is written, all of it at whole vectors' places. Past the caches it
// is not read before, which is half of what a fill moves.
#ifdef __has_builtin
#if defined(STREAM) && __has_builtin(__builtin_nontemporal_store)
#define PUT(vector, to) __builtin_nontemporal_store(vector, (GLOBAL ELEMENTS *)(to))
#endif
#endif
#ifndef PUT
#ifdef NARROW
#define PUT(vector, to) (*(GLOBAL ANYWHERE *)(to) = (vector))
#else
#define PUT(vector, to) JOIN(vstore, LANES)(vector, 0, to)
#endif
#endif
#define VECTOR WV
#define READ_AT(from) WIDENED(TAKE(from))
#define WRITE(vector, to) PUT(NARROWED(vector), to)
#define RELU(vector) select(vector, (WV)0, (vector) < (WV)0) // passes NaN on
#define WIDE_VECTOR(n) JOIN(REAL, n)
#define WIDE_LOAD(n, from) JOIN(vload, n)(0, from)
#define WIDE_STORE(n, vector, to) JOIN(vstore, n)(vector, 0, to)
#else
#define LANES 1
#define ELEMENTS ELEMENT
#define TAKE(from) (from)[0]
#define PUT(vector, to) ((to)[0] = (vector))
#define VECTOR REAL
#define READ_AT(from) ((REAL)(from)[0])
#define WRITE(vector, to) ((to)[0] = (ELEMENT)(vector))
#define PACK(each) (each)[0]
#define UNPACK(vector, each) ((each)[0] = (vector))
#define RELU(vector) ((vector) < 0 ? (REAL)0 : (vector))
#define WIDE_VECTOR(n) REAL
#define WIDE_LOAD(n, from) (from)[0]
#define WIDE_STORE(n, vector, to) ((to)[0] = (vector))
#endif
