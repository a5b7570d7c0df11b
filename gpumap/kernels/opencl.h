// The OpenCL C dialect of elementwise.c.

#define KERNEL __kernel void
#define GLOBAL __global
#define ITEM get_global_id(0)
#define ADD(counter, n) atomic_add(counter, n)
#define SHARED __local
#define LANE get_local_id(0)
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
