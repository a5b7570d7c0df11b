// The CUDA C++ dialect of elementwise.c.

#ifdef HALF
#include <cuda_fp16.h>
#endif

#define KERNEL extern "C" __global__ void
#define GLOBAL
#define ITEM ((ulong)blockIdx.x * blockDim.x + threadIdx.x)
#define ulong unsigned long long
