// Time OpenCL calls: the nanoseconds of a kernel's launch, a read and a clFinish, each the median of
// short batches, so that one that was interrupted does not count.

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCHES 501
#define CALLS 20
#define MUST(code) if ((code) != CL_SUCCESS) return 1

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(void) {
    const char *source = "__kernel void one(__global int *x) { x[get_global_id(0)] = 1; }";
    static double each[BATCHES];
    int data = 0;
    size_t one = 1;
    cl_platform_id platform;
    cl_device_id device;
    MUST(clGetPlatformIDs(1, &platform, NULL));
    MUST(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);
    MUST(clBuildProgram(program, 1, &device, "", NULL, NULL));
    cl_kernel kernel = clCreateKernel(program, "one", NULL);
    cl_mem buffer = clCreateBuffer(context, 0, sizeof data, NULL, NULL);
    MUST(clSetKernelArg(kernel, 0, sizeof buffer, &buffer));
    for (int kind = 0; kind < 3; kind++) {
        for (int batch = -50; batch < BATCHES; batch++) { // some to warm up
            double start = now();
            for (int at = 0; at < CALLS && kind == 0; at++)
                MUST(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL));
            for (int at = 0; at < CALLS && kind == 1; at++)
                MUST(clEnqueueReadBuffer(queue, buffer, 0, 0, sizeof data, &data, 0, NULL, NULL));
            for (int at = 0; at < CALLS && kind == 2; at++) MUST(clFinish(queue));
            if (batch >= 0) each[batch] = (now() - start) / CALLS;
            MUST(clFinish(queue));
        }
        qsort(each, BATCHES, sizeof *each, by_size);
        printf("%.1f ", each[BATCHES / 2]);
    }
    return 0;
}
