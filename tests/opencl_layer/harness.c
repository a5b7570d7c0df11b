/* A loader and a driver in one, to show the layer what no driver here does. Usage: LAYER MODE.

   The places in its table are those of Khronos' own header. Exits with 0 where the layer did right. */

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl_icd.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(what) \
    if (!(what)) fprintf(stderr, "line %d: not %s\n", __LINE__, #what), exit(1)

typedef cl_int init(cl_uint, const cl_icd_dispatch *, cl_uint *, const cl_icd_dispatch **);

struct object { int index; struct object *device; };

static struct object devices[80], queues[80], context, memory, event;
static const char *mode;
static const cl_icd_dispatch *cl; /* what the program calls */
static _Thread_local cl_command_queue_properties asked;

static cl_int answer(const void *value, size_t size, size_t room, void *to, size_t *length) {
    if (to && room < size) return CL_INVALID_VALUE;
    if (to) memcpy(to, value, size);
    if (length) *length = size;
    return CL_SUCCESS;
}
#define ANSWER(value) return answer(&(value), sizeof(value), room, to, length)

static cl_int device_info(cl_device_id of, cl_device_info what, size_t room, void *to, size_t *length) {
    struct object *device = (struct object *)of;
    cl_uint nvidia[] = {0x17, 5 << 3 | 2, 3}, khronos[] = {1, 0x81, 0x1f, 7};
    unsigned char amd[24] = {1, [21] = 0xc3, [22] = 4, [23] = 1};
    char name[200];
    memset(name, 'n', sizeof name), name[199] = '\0', name[0] = '\x1b';
    if (device->index == 0 && what == 0x4008) ANSWER(nvidia[0]);
    if (device->index == 0 && what == 0x4009) ANSWER(nvidia[1]);
    if (device->index == 0 && what == 0x400A) ANSWER(nvidia[2]);
    if (device->index == 1 && what == 0x4037) ANSWER(amd);
    if (device->index == 2 && what == 0x410F) ANSWER(khronos);
    if (what == CL_DEVICE_NAME) ANSWER(name);
    return CL_INVALID_VALUE;
}
static cl_int platforms(cl_uint room, cl_platform_id *to, cl_uint *count) {
    return (void)room, (void)to, *count = 0, CL_SUCCESS;
}
static cl_int all_devices(cl_platform_id of, cl_device_type type, cl_uint room, cl_device_id *to,
                          cl_uint *count) {
    return (void)of, (void)type, (void)room, (void)to, *count = 0, CL_SUCCESS;
}
static cl_int platform_info(cl_platform_id of, cl_platform_info what, size_t room, void *to,
                            size_t *length) {
    return (void)of, (void)what, (void)room, (void)to, (void)length, CL_INVALID_VALUE;
}
static cl_int context_info(cl_context of, cl_context_info what, size_t room, void *to,
                           size_t *length) {
    cl_device_id two[] = {(cl_device_id)&devices[0], (cl_device_id)&devices[1]};
    (void)of, (void)what;
    ANSWER(two);
}
static cl_int queue_info(cl_command_queue of, cl_command_queue_info what, size_t room, void *to,
                         size_t *length) {
    (void)what;
    ANSWER(((struct object *)of)->device);
}
static cl_int event_info(cl_event of, cl_event_info what, size_t room, void *to, size_t *length) {
    struct object *queue = &queues[0];
    (void)of, (void)what;
    ANSWER(queue);
}
static cl_int profiling(cl_event of, cl_profiling_info what, size_t room, void *to, size_t *length) {
    cl_ulong at = what == CL_PROFILING_COMMAND_END ? 150 : 100;
    if (of && strcmp(mode, "refuse") == 0) return CL_PROFILING_INFO_NOT_AVAILABLE;
    ANSWER(at);
}
static cl_int memory_info(cl_mem of, cl_mem_info what, size_t room, void *to, size_t *length) {
    size_t size = 640;
    (void)of, (void)what;
    ANSWER(size);
}
static cl_int image_info(cl_mem of, cl_image_info what, size_t room, void *to, size_t *length) {
    return (void)of, (void)what, (void)room, (void)to, (void)length, CL_INVALID_VALUE;
}
static cl_int event_ok(cl_event of) { return (void)of, CL_SUCCESS; }
static cl_int callback(cl_event of, cl_int status, void (*call)(cl_event, cl_int, void *), void *data) {
    if (strcmp(mode, "no callback") == 0) return CL_OUT_OF_HOST_MEMORY;
    return call(of, strcmp(mode, "failed") == 0 ? -5 : status, data), CL_SUCCESS;
}
static cl_command_queue make_queue(cl_context in, cl_device_id device,
                                   cl_command_queue_properties properties, cl_int *code) {
    (void)in;
    asked = properties;
    if (strcmp(mode, "refuse") == 0 && properties) return *code = CL_INVALID_QUEUE_PROPERTIES, NULL;
    struct object *queue = &queues[((struct object *)device)->index];
    return queue->device = (struct object *)device, *code = CL_SUCCESS, (cl_command_queue)queue;
}
static cl_command_queue make_with(cl_context in, cl_device_id device,
                                  const cl_queue_properties *list, cl_int *code) {
    cl_command_queue_properties found = 0;
    for (; list && *list; list += 2)
        if (*list == CL_QUEUE_PROPERTIES) found = list[1];
    return make_queue(in, device, found, code);
}
static cl_int queue_ok(cl_command_queue of) { return (void)of, CL_SUCCESS; }
static cl_int waits(cl_uint count, const cl_event *list) { return (void)count, (void)list, CL_SUCCESS; }
static cl_mem make_buffer(cl_context in, cl_mem_flags flags, size_t size, void *host, cl_int *code) {
    return (void)in, (void)flags, (void)size, (void)host, (void)code, (cl_mem)&memory;
}
static cl_int kernel(cl_command_queue in, cl_kernel of, cl_uint dimensions, const size_t *offset,
                     const size_t *global, const size_t *local, cl_uint count, const cl_event *list,
                     cl_event *to) {
    (void)in, (void)of, (void)dimensions, (void)offset, (void)global, (void)local, (void)count;
    if (to) *to = (cl_event)&event;
    return (void)list, CL_SUCCESS;
}
static cl_int read_image(cl_command_queue in, cl_mem image, cl_bool blocking, const size_t *origin,
                         const size_t *region, size_t row, size_t slice, void *to, cl_uint count,
                         const cl_event *list, cl_event *made) {
    (void)in, (void)image, (void)blocking, (void)origin, (void)region, (void)row, (void)slice;
    return (void)to, (void)count, (void)list, (void)made, CL_SUCCESS;
}
static void *extension(const char *name) { return strstr(name, "INTEL") ? &memory : NULL; }

static cl_icd_dispatch driver(void) {
    return (cl_icd_dispatch){
        .clGetPlatformIDs = platforms, .clGetPlatformInfo = platform_info,
        .clGetDeviceIDs = all_devices, .clGetDeviceInfo = device_info,
        .clGetContextInfo = context_info, .clGetCommandQueueInfo = queue_info,
        .clGetEventInfo = event_info, .clGetEventProfilingInfo = profiling,
        .clGetMemObjectInfo = memory_info, .clGetImageInfo = image_info,
        .clRetainEvent = event_ok, .clReleaseEvent = event_ok, .clSetEventCallback = callback,
        .clCreateCommandQueue = make_queue, .clCreateCommandQueueWithProperties = make_with,
        .clReleaseCommandQueue = queue_ok, .clFinish = queue_ok, .clWaitForEvents = waits,
        .clCreateBuffer = make_buffer, .clEnqueueNDRangeKernel = kernel,
        .clEnqueueReadImage = read_image, .clGetExtensionFunctionAddress = extension,
    };
}

static cl_command_queue queue_of(int device) {
    cl_int code = 1;
    cl_command_queue queue = cl->clCreateCommandQueue((cl_context)&context,
                                                      (cl_device_id)&devices[device], 0, &code);
    EXPECT(queue && code == CL_SUCCESS);
    return queue;
}

static void launch(cl_command_queue queue) {
    EXPECT(cl->clEnqueueNDRangeKernel(queue, NULL, 1, NULL, NULL, NULL, 0, NULL, NULL) == CL_SUCCESS);
}

#ifdef __SANITIZE_THREAD__
/* A child of fork cannot join the threads of its parent: those that ended before it are no leak. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "report_thread_leaks=0"; }
#endif

static void *hammer(void *number) {
    for (int at = 0; at < 2000; at++) {
        cl_command_queue queue = queue_of((int)(intptr_t)number * 5 + at % 5);
        launch(queue);
        EXPECT(cl->clFinish(queue) == CL_SUCCESS);
        EXPECT(cl->clReleaseCommandQueue(queue) == CL_SUCCESS);
    }
    return NULL;
}

int main(int count, char **words) {
    EXPECT(count == 3);
    mode = words[2];
    void *library = dlopen(words[1], RTLD_NOW);
    EXPECT(library);
    init *start = (init *)dlsym(library, "clInitLayer");
    cl_icd_dispatch target = driver();
    cl_uint entries = sizeof target / sizeof(void *), ours = 0;
    cl_int code = start(entries, &target, &ours, &cl);
    if (strcmp(mode, "no folder") == 0) return code == CL_SUCCESS; /* it must have refused */
    EXPECT(code == CL_SUCCESS && ours >= entries && !cl->clSetKernelArg);
    for (int at = 0; at < 80; at++) devices[at].index = at;
    if (strcmp(mode, "devices") == 0) {
        for (int at = 0; at < 80; at++) launch(queue_of(at));
    } else if (strcmp(mode, "threads") == 0) {
        pthread_t all[8];
        for (intptr_t at = 0; at < 8; at++) pthread_create(&all[at], NULL, hammer, (void *)at);
        if (fork() == 0) launch(queue_of(79)), _exit(0);
        for (int at = 0; at < 8; at++) pthread_join(all[at], NULL);
        wait(NULL);
    } else if (strcmp(mode, "loaders") == 0) {
        const cl_icd_dispatch *own = cl, *none = NULL;
        EXPECT(start(entries, own, &ours, &none) != CL_SUCCESS && !none);
        for (int at = 0; at < 3; at++) EXPECT(start(entries, &target, &ours, &cl) == CL_SUCCESS);
        launch(queue_of(0)); /* by the fourth loader's table */
        EXPECT(start(entries, &target, &ours, &none) != CL_SUCCESS && !none);
    } else if (strcmp(mode, "recycled") == 0) { /* a handle that another function gave anew */
        cl_command_queue queue = queue_of(0);
        launch(queue);
        cl->clReleaseCommandQueue(queue);
        queues[0].device = &devices[1];
        launch(queue);
    } else if (strcmp(mode, "unknown") == 0) {
        size_t region[] = {2, 2, 2};
        cl_command_queue queue = queue_of(0);
        cl->clEnqueueReadImage(queue, NULL, 0, region, region, 0, 0, NULL, 0, NULL, NULL);
        cl->clCreateBuffer((cl_context)&context, CL_MEM_COPY_HOST_PTR, 9, NULL, NULL);
        EXPECT(!cl->clGetExtensionFunctionAddress("clEnqueueNothing"));
        EXPECT(!cl->clGetExtensionFunctionAddress("clGetKernelSuggestedKHR"));
        EXPECT(cl->clGetExtensionFunctionAddress("clEnqueueMemcpyINTEL"));
        EXPECT(cl->clGetExtensionFunctionAddress("clEnqueueMemFillINTEL"));
        launch(NULL);
    } else { /* with times */
        cl_int failed = 1;
        cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_ON_DEVICE, 0};
        cl_event mine = NULL;
        launch(queue_of(0));
        EXPECT(strcmp(mode, "refuse") ? asked == CL_QUEUE_PROFILING_ENABLE : asked == 0);
        cl_command_queue queue = cl->clCreateCommandQueueWithProperties(
            (cl_context)&context, (cl_device_id)&devices[0], NULL, &failed);
        EXPECT(queue && failed == CL_SUCCESS);
        EXPECT(strcmp(mode, "refuse") ? asked == CL_QUEUE_PROFILING_ENABLE : asked == 0);
        cl->clEnqueueNDRangeKernel(queue, NULL, 1, NULL, NULL, NULL, 0, NULL, &mine);
        EXPECT(mine == (cl_event)&event);
        if (strcmp(mode, "refuse") == 0) return 0;
        cl->clCreateCommandQueueWithProperties((cl_context)&context, (cl_device_id)&devices[0],
                                               list, &failed);
        EXPECT(asked == CL_QUEUE_ON_DEVICE); /* of such a queue nothing is changed */
    }
    return 0;
}
