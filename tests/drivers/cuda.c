/* A stand-in for NVIDIA's driver, libcuda.so.1, and for libnvrtc.so beside it.
 *
 * It exists ONLY to test how gpumap asks a driver and what it says of one that is missing, old,
 * broken or hidden. It computes nothing and moves nothing; no figure may ever come from it.
 *
 *   GPUMAP_STUB_CUDA          what cuInit answers: a CUresult, 0 unless set
 *   GPUMAP_STUB_CUDA_VERSION  the CUDA version of the driver: 13020 unless set
 *   GPUMAP_STUB_CUDA_DEVICES  how many devices it shows: 0 unless set
 *
 * The statically linked runtime in CuPy takes it as far as the devices' names and attributes. Then
 * it has the driver prove, in the table d4082055-bde6-704b-8d34-ba123c66e1f2, that it is NVIDIA's.
 * This one does not, and must not: the runtime ends in status 103 (integrity checks failed).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_SUPPORTED = 801 };

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static int devices(void) { return number("GPUMAP_STUB_CUDA_DEVICES", 0); }

int cuDriverGetVersion(int *version) {
    *version = number("GPUMAP_STUB_CUDA_VERSION", 13020);
    return OK;
}

int cuInit(unsigned flags) { return (void)flags, number("GPUMAP_STUB_CUDA", OK); }

int cuDeviceGetCount(int *count) { return *count = devices(), OK; }

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal < devices() ? OK : INVALID_DEVICE;
}

/* Names are hostile, as a broken driver's may be: a terminal would be cleared. */
int cuDeviceGetName(char *name, int length, int device) {
    snprintf(name, length, "Stub \033[2J%d", device);
    return OK;
}

int cuDeviceGetPCIBusId(char *id, int length, int device) {
    snprintf(id, length, "0000:%02X:00.0", 9 + device);
    return OK;
}

int cuDeviceGetUuid(unsigned char *uuid, int device) { return memset(uuid, 0xa0 + device, 16), OK; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { return cuDeviceGetUuid(uuid, device); }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return (void)device, *bytes = 1 << 30, OK; }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    return (void)attribute, (void)device, *value = 1, OK;
}

int cuGetErrorName(int status, const char **text) { return (void)status, *text = "STUB", OK; }

int cuGetErrorString(int status, const char **text) {
    return (void)status, *text = "the stub says \033[2J", OK;
}

/* What libgpuarray looks for when it loads a driver and NVRTC; all of it is refused. */
#define REFUSED(name) int name(void) { return NOT_SUPPORTED; }
REFUSED(cuDevicePrimaryCtxGetState) REFUSED(cuDevicePrimaryCtxSetFlags)
REFUSED(cuDevicePrimaryCtxRelease) REFUSED(cuDevicePrimaryCtxRetain) REFUSED(cuCtxGetDevice)
REFUSED(cuCtxPushCurrent_v2) REFUSED(cuCtxPopCurrent_v2) REFUSED(cuLinkCreate)
REFUSED(cuLinkAddData) REFUSED(cuLinkComplete) REFUSED(cuLinkDestroy) REFUSED(cuModuleLoadData)
REFUSED(cuModuleLoadDataEx) REFUSED(cuModuleUnload) REFUSED(cuModuleGetFunction)
REFUSED(cuMemGetInfo_v2) REFUSED(cuMemAlloc_v2) REFUSED(cuMemFree_v2) REFUSED(cuMemAllocHost_v2)
REFUSED(cuMemAllocManaged) REFUSED(cuMemFreeHost) REFUSED(cuMemcpyHtoDAsync_v2)
REFUSED(cuMemcpyHtoD_v2) REFUSED(cuMemcpyDtoHAsync_v2) REFUSED(cuMemcpyDtoDAsync_v2)
REFUSED(cuMemcpyPeerAsync) REFUSED(cuMemsetD8Async) REFUSED(cuLaunchKernel)
REFUSED(cuFuncGetAttribute) REFUSED(cuEventCreate) REFUSED(cuEventRecord)
REFUSED(cuEventSynchronize) REFUSED(cuEventDestroy_v2) REFUSED(cuStreamCreate)
REFUSED(cuStreamWaitEvent) REFUSED(cuStreamSynchronize) REFUSED(cuStreamDestroy_v2)
REFUSED(cuIpcGetMemHandle) REFUSED(cuIpcOpenMemHandle) REFUSED(cuIpcCloseMemHandle)
REFUSED(nvrtcGetErrorString) REFUSED(nvrtcCreateProgram) REFUSED(nvrtcDestroyProgram)
REFUSED(nvrtcCompileProgram) REFUSED(nvrtcGetPTXSize) REFUSED(nvrtcGetPTX)
REFUSED(nvrtcGetProgramLogSize) REFUSED(nvrtcGetProgramLog)

/* What CUDA's runtime looks for: it takes any symbol as there, and asks for tables of functions.
 * Two functions of the tools' table give it room for callbacks, which nobody puts in. */
static int nothing(void) { return OK; }
static void *room[4096];

static int callbacks(void **start, size_t *size) {
    *start = room;
    *size = sizeof room / sizeof *room;
    return OK;
}

int cuGetExportTable(const void **table, const unsigned char *uuid) {
    static void *plain[64], *tools[64];
    for (int i = 1; i < 64; i++) plain[i] = tools[i] = (void *)nothing;
    tools[2] = tools[6] = (void *)callbacks;
    plain[0] = tools[0] = (void *)sizeof plain;
    *table = uuid[0] == 0xa0 ? tools : plain; /* a094798c-2e74-2e74-93f2-0800200c0a66 */
    return OK;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *how) {
    char newest[128];
    (void)version, (void)flags;
    snprintf(newest, sizeof newest, "%s_v2", name);
    *function = dlsym(RTLD_DEFAULT, newest);
    if (!*function) *function = dlsym(RTLD_DEFAULT, name);
    if (!*function) *function = (void *)nothing;
    if (how) *how = 0;
    return OK;
}

int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
