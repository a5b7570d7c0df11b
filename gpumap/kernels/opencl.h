// The OpenCL C dialect of the kernels in .c files. REAL is what elements are computed in, WV sixteen
// of them.

#define KERNEL __kernel void
#define FUNCTION static inline
#define GLOBAL __global
#define ITEM get_global_id(0)
#define ADD(counter, n) atomic_add(counter, n)
#define SHARED __local
#define LANE get_local_id(0)
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)

// A vector is LANES numbers: what compiles to the widest registers that a processor has; on a GPU
// neighbouring work-items are the vector.
#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#if defined(GRAIN) && GRAIN > 1
#define LANES 16
#define VECTOR WV
#define READ_AT(from) JOIN(convert_, WV)(vload16(0, from))
#define WRITE(vector, to) vstore16(JOIN(convert_, JOIN(ELEMENT, 16))(vector), 0, to)
#define PACK(each) vload16(0, each)
#define UNPACK(vector, each) vstore16(vector, 0, each)
#define RELU(vector) select(vector, (WV)0, (vector) < (WV)0) // passes NaN on
#define WIDE_VECTOR(n) JOIN(REAL, n)
#define WIDE_LOAD(n, from) JOIN(vload, n)(0, from)
#define WIDE_STORE(n, vector, to) JOIN(vstore, n)(vector, 0, to)
#else
#define LANES 1
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
