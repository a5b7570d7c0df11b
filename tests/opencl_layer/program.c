/* An OpenCL program that counts what it does itself, and prints it as JSON: it knows of no layer. */

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 4096u
#define THREADS 4
#define EACH 500

static struct {
    long contexts, queues, kernels, writes, write_bytes, reads, read_bytes, maps, map_write_bytes,
        map_read_bytes, unmaps, copies, copy_bytes, fills, fill_bytes, inits, init_bytes, unknowns,
        unknown_bytes, finishes, event_waits, blocking_calls;
} done;

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static cl_kernel kernel;
static cl_mem buffer, other;
static char host[4 * SIZE];

static void must(cl_int code, const char *what) {
    if (code != CL_SUCCESS) {
        fprintf(stderr, "%s: %d\n", what, code);
        exit(3);
    }
}
#define MUST(call) must(call, #call)

static void print(void) {
#define SHOW(name) printf("\"%s\": %ld, ", #name, done.name)
    printf("{");
    SHOW(contexts); SHOW(queues); SHOW(kernels); SHOW(writes); SHOW(write_bytes); SHOW(reads);
    SHOW(read_bytes); SHOW(maps); SHOW(map_write_bytes); SHOW(map_read_bytes); SHOW(unmaps);
    SHOW(copies); SHOW(copy_bytes); SHOW(fills); SHOW(fill_bytes); SHOW(inits); SHOW(init_bytes);
    SHOW(unknowns); SHOW(unknown_bytes); SHOW(finishes); SHOW(event_waits);
    printf("\"blocking_calls\": %ld}\n", done.blocking_calls);
    fflush(stdout);
}

static void start(void) {
    static const char *source = "__kernel void one(__global char *x) { x[get_global_id(0)] += 1; }";
    cl_platform_id platform;
    cl_int code;
    MUST(clGetPlatformIDs(1, &platform, NULL));
    MUST(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code), must(code, "context");
    done.contexts++;
    queue = clCreateCommandQueue(context, device, 0, &code), must(code, "queue");
    done.queues++;
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    MUST(clBuildProgram(program, 1, &device, "", NULL, NULL));
    kernel = clCreateKernel(program, "one", &code), must(code, "kernel");
    buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, SIZE, host, &code), must(code, "buffer");
    done.inits++, done.init_bytes += SIZE;
    other = clCreateBuffer(context, 0, SIZE, NULL, &code), must(code, "other");
    MUST(clSetKernelArg(kernel, 0, sizeof buffer, &buffer));
}

static void finish(void) {
    MUST(clFinish(queue));
    done.finishes++;
}

static void launch(cl_event *event) {
    size_t global = SIZE;
    MUST(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, event));
    done.kernels++;
}

static void buffers(void) {
    size_t zero[3] = {0}, region[3] = {16, 4, 2};
    cl_event event;
    MUST(clEnqueueTask(queue, kernel, 0, NULL, NULL)), done.kernels++;
    MUST(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, 100, host, 0, NULL, NULL));
    done.writes++, done.write_bytes += 100, done.blocking_calls++;
    MUST(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, 300, host, 0, NULL, &event));
    done.reads++, done.read_bytes += 300;
    MUST(clWaitForEvents(1, &event)), done.event_waits++;
    MUST(clReleaseEvent(event));
    MUST(clEnqueueReadBufferRect(queue, buffer, CL_TRUE, zero, zero, region, 0, 0, 0, 0, host, 0,
                                 NULL, NULL));
    done.reads++, done.read_bytes += 128, done.blocking_calls++;
    MUST(clEnqueueWriteBufferRect(queue, buffer, CL_FALSE, zero, zero, region, 0, 0, 0, 0, host, 0,
                                  NULL, NULL));
    done.writes++, done.write_bytes += 128;
    MUST(clEnqueueCopyBuffer(queue, buffer, other, 0, 0, 700, 0, NULL, NULL));
    done.copies++, done.copy_bytes += 700;
    MUST(clEnqueueCopyBufferRect(queue, buffer, other, zero, zero, region, 0, 0, 0, 0, 0, NULL, NULL));
    done.copies++, done.copy_bytes += 128;
    MUST(clEnqueueFillBuffer(queue, buffer, "x", 1, 0, 900, 0, NULL, NULL));
    done.fills++, done.fill_bytes += 900;
    cl_int code;
    for (int write = 0; write < 3; write++) {
        cl_map_flags flags[] = {CL_MAP_READ, CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION};
        void *mapped = clEnqueueMapBuffer(queue, buffer, CL_TRUE, flags[write], 0, 500 + write, 0,
                                          NULL, NULL, write ? &code : NULL);
        done.maps++, done.blocking_calls++;
        *(write ? &done.map_write_bytes : &done.map_read_bytes) += 500 + write;
        MUST(clEnqueueUnmapMemObject(queue, buffer, mapped, 0, NULL, NULL));
        done.unmaps++;
    }
    MUST(clEnqueueMigrateMemObjects(queue, 1, &buffer, 0, 0, NULL, NULL)), done.unknowns++;
    cl_mem shared = clCreateBuffer(context, CL_MEM_USE_HOST_PTR, SIZE, host + SIZE, &code);
    done.unknowns++;
    MUST(clReleaseMemObject(shared));
    /* what fails is not counted */
    if (clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, 2 * SIZE, host, 0, NULL, NULL) == CL_SUCCESS
        || clEnqueueNDRangeKernel(queue, kernel, 0, NULL, NULL, NULL, 0, NULL, NULL) == CL_SUCCESS)
        exit(4);
}

static void images(void) {
    cl_bool can = CL_FALSE;
    MUST(clGetDeviceInfo(device, CL_DEVICE_IMAGE_SUPPORT, sizeof can, &can, NULL));
    if (!can) return;
    cl_int code;
    size_t zero[3] = {0}, region[3] = {8, 4, 1}, row = 0, bytes = 8 * 4 * 4 * sizeof(float);
    cl_image_format format = {CL_RGBA, CL_FLOAT};
    cl_image_desc shape = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 8, .image_height = 4};
    cl_mem image = clCreateImage(context, 0, &format, &shape, NULL, &code);
    must(code, "image");
    MUST(clEnqueueWriteImage(queue, image, CL_TRUE, zero, region, 0, 0, host, 0, NULL, NULL));
    done.writes++, done.write_bytes += bytes, done.blocking_calls++;
    MUST(clEnqueueReadImage(queue, image, CL_TRUE, zero, region, 0, 0, host, 0, NULL, NULL));
    done.reads++, done.read_bytes += bytes, done.blocking_calls++;
    MUST(clEnqueueCopyImageToBuffer(queue, image, other, zero, region, 0, 0, NULL, NULL));
    MUST(clEnqueueCopyBufferToImage(queue, other, image, 0, zero, region, 0, NULL, NULL));
    done.copies += 2, done.copy_bytes += 2 * bytes;
    void *mapped = clEnqueueMapImage(queue, image, CL_TRUE, CL_MAP_READ, zero, region, &row, NULL, 0,
                                     NULL, NULL, &code);
    done.maps++, done.map_read_bytes += bytes, done.blocking_calls++;
    MUST(clEnqueueUnmapMemObject(queue, image, mapped, 0, NULL, NULL)), done.unmaps++;
    finish();
    MUST(clReleaseMemObject(image));
}

static void shared_memory(void) {
    cl_device_svm_capabilities can = 0;
    if (clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof can, &can, NULL) != CL_SUCCESS
        || !can)
        return;
    char *memory = clSVMAlloc(context, CL_MEM_READ_WRITE, SIZE, 0);
    if (!memory) exit(5);
    MUST(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_WRITE, memory, 800, 0, NULL, NULL));
    done.maps++, done.map_write_bytes += 800, done.blocking_calls++;
    MUST(clEnqueueSVMUnmap(queue, memory, 0, NULL, NULL)), done.unmaps++;
    MUST(clEnqueueSVMMemcpy(queue, CL_TRUE, host, memory, 60, 0, NULL, NULL));
    done.unknowns++, done.unknown_bytes += 60, done.blocking_calls++;
    MUST(clEnqueueSVMMemFill(queue, memory, "x", 1, 64, 0, NULL, NULL));
    done.fills++, done.fill_bytes += 64;
    finish();
    clSVMFree(context, memory);
}

static void queues(void) { /* whose handles can come again */
    cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
    cl_command_queue first = queue;
    for (int at = 0; at < 20; at++) {
        cl_int code;
        queue = clCreateCommandQueueWithProperties(context, device, at % 2 ? NULL : list, &code);
        must(code, "queue with properties");
        done.queues++;
        launch(NULL);
        finish();
        MUST(clReleaseCommandQueue(queue));
    }
    queue = first;
}

static void *thread(void *unused) {
    cl_command_queue own = clCreateCommandQueue(context, device, 0, NULL);
    for (int at = 0; at < EACH; at++) {
        MUST(clEnqueueFillBuffer(own, other, "x", 1, 0, SIZE, 0, NULL, NULL));
        if (at % 50 == 0) MUST(clFinish(own));
    }
    MUST(clFinish(own));
    return unused;
}

static void threads(void) {
    pthread_t all[THREADS];
    for (int at = 0; at < THREADS; at++) pthread_create(&all[at], NULL, thread, NULL);
    for (int at = 0; at < THREADS; at++) pthread_join(all[at], NULL);
    done.queues += THREADS, done.fills += THREADS * EACH;
    done.fill_bytes += THREADS * EACH * SIZE, done.finishes += THREADS * (EACH / 50 + 1);
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "all";
    if (strcmp(mode, "look") == 0) return clGetPlatformIDs(0, NULL, NULL) != CL_SUCCESS;
    if (strcmp(mode, "nothing") == 0) {
        printf("ready\n"), fflush(stdout);
        return (int)pause();
    }
    start();
    launch(NULL);
    finish();
    if (strcmp(mode, "all") == 0) {
        buffers(), images(), shared_memory(), queues();
        finish();
    } else if (strcmp(mode, "threads") == 0) {
        threads();
    } else if (strcmp(mode, "fork") == 0 || strcmp(mode, "lost") == 0) {
        if (fork() == 0) {
            struct rlimit none = {0, 0};
            if (strcmp(mode, "lost") == 0) setrlimit(RLIMIT_FSIZE, &none);
            memset(&done, 0, sizeof done);
            launch(NULL), launch(NULL), finish(), print();
            _exit(0);
        }
        wait(NULL);
        launch(NULL), finish();
    }
    print();
    if (strcmp(mode, "exec") == 0) return execl(words[0], words[0], "all", (char *)NULL);
    if (strcmp(mode, "crash") == 0) raise(SIGSEGV);
    if (strcmp(mode, "kill") == 0) raise(SIGKILL);
    if (strcmp(mode, "leave") == 0) _exit(7);
    if (strcmp(mode, "wait") == 0) pause();
    return 0;
}
