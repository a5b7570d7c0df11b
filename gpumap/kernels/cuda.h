// The CUDA C++ dialect of the kernels in .c files.

#define KERNEL extern "C" __global__ void
#define FUNCTION static __device__ __forceinline__
#define GLOBAL
#define ITEM ((ulong)blockIdx.x * blockDim.x + threadIdx.x)
#define ulong unsigned long long
#define SHARED __shared__
#define LANE threadIdx.x
#define GROUP_ID (ulong)blockIdx.x
#define GROUPS (ulong)gridDim.x
#define BARRIER __syncthreads()

// Neighbouring threads are the vector.
#define LANES 1
#define ELEMENTS ELEMENT
#define TAKE(from) (from)[0]
#define PUT(vector, to) ((to)[0] = (vector))
#define VECTOR REAL
#define READ_AT(from) ((REAL)(from)[0])
#define WRITE(vector, to) ((to)[0] = (ELEMENT)(vector))
#define PACK(each) (each)[0]
#define UNPACK(vector, each) ((each)[0] = (vector))
#define RELU(vector) ((vector) < 0 ? (REAL)0 : (vector)) // passes NaN on
#define WIDE_VECTOR(n) REAL
#define WIDE_LOAD(n, from) (from)[0]
#define WIDE_STORE(n, vector, to) ((to)[0] = (vector))
