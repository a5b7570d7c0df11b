// Time OpenCL calls: the CPU nanoseconds of a kernel's launch, a read and a clFinish, those of the
// calling thread and those of all threads, each the median of short batches.

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCHES 501
#define CALLS 20
#define MUST(code) if ((code) != CL_SUCCESS) return 1

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(void) {
    const char *source = "__kernel void one(__global int *x) { x[get_global_id(0)] = 1; }";
    static const clockid_t clocks[] = {CLOCK_THREAD_CPUTIME_ID, CLOCK_PROCESS_CPUTIME_ID};
    static double each[2][BATCHES];
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
            double start[] = {now(clocks[0]), now(clocks[1])};
            for (int at = 0; at < CALLS && kind == 0; at++)
                MUST(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL));
            for (int at = 0; at < CALLS && kind == 1; at++)
                MUST(clEnqueueReadBuffer(queue, buffer, 0, 0, sizeof data, &data, 0, NULL, NULL));
            for (int at = 0; at < CALLS && kind == 2; at++) MUST(clFinish(queue));
            for (int at = 0; at < 2 && batch >= 0; at++)
                each[at][batch] = (now(clocks[at]) - start[at]) / CALLS;
            MUST(clFinish(queue));
        }
        for (int at = 0; at < 2; at++) {
            qsort(each[at], BATCHES, sizeof *each[at], by_size);
            printf("%.1f ", each[at][BATCHES / 2]);
        }
    }
    return 0;
}
