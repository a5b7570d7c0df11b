// The OpenCL C dialect of elementwise.c.

#define KERNEL __kernel void
#define GLOBAL __global
#define ITEM get_global_id(0)
