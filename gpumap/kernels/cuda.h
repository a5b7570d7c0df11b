// The CUDA C++ dialect of elementwise.c.

#ifdef HALF
#include <cuda_fp16.h>
#endif

#define KERNEL extern "C" __global__ void
#define GLOBAL
#define ITEM ((ulong)blockIdx.x * blockDim.x + threadIdx.x)
#define ADD(counter, n) atomicAdd(counter, n)
#define ulong unsigned long long
#define SHARED __shared__
#define LANE threadIdx.x
#define BARRIER __syncthreads()
