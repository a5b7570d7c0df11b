/* A stand-in for NVIDIA's libnvidia-ml.so.1, to test what gpumap says of a driver.
 *
 * It exists ONLY for probing and error paths; no figure may ever come from it.
 *
 *   GPUMAP_STUB_NVML          what nvmlInit answers: an nvmlReturn_t, 0 unless set
 *   GPUMAP_STUB_NVML_DEVICES  how many GPUs there are: 0 unless set
 *
 * GPU n is the device n of cuda.c: UUID GPU-a0a0a0a0-..., address 0000:09:00.0.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_ARGUMENT = 2 };

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static int devices(void) { return number("GPUMAP_STUB_NVML_DEVICES", 0); }

int nvmlInitWithFlags(unsigned flags) { return (void)flags, number("GPUMAP_STUB_NVML", OK); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int status) { return (void)status, "the stub says so"; }

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    snprintf(text, length, "580.0 stub");
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) { return *count = devices(), OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, intptr_t *handle) {
    *handle = index + 1; /* a handle of zero is none */
    return (int)index < devices() ? OK : INVALID_ARGUMENT;
}

int nvmlDeviceGetUUID(intptr_t handle, char *text, unsigned length) {
    int n = 0xa0 + (int)handle - 1;
    snprintf(text, length, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n);
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *text, intptr_t *handle) {
    unsigned byte = 0;
    sscanf(text, "GPU-%2x", &byte);
    *handle = (intptr_t)byte - 0xa0 + 1;
    return *handle > 0 && *handle <= devices() ? OK : INVALID_ARGUMENT;
}

/* What a device says of itself while it works: nothing that holds it back. */
int nvmlDeviceGetMaxClockInfo(intptr_t handle, int clock, unsigned *megahertz) {
    return (void)handle, (void)clock, *megahertz = 1980, OK;
}
int nvmlDeviceGetClockInfo(intptr_t handle, int clock, unsigned *megahertz) {
    return (void)handle, (void)clock, *megahertz = 345, OK;
}
int nvmlDeviceGetPowerUsage(intptr_t handle, unsigned *milliwatts) {
    return (void)handle, *milliwatts = 75000, OK;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(intptr_t handle, unsigned long long *bits) {
    return (void)handle, *bits = 0, OK;
}
