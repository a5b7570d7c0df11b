/* Faults of an OpenCL driver, put before the machine's own by LD_PRELOAD.
 *
 * It exists ONLY to test what gpumap makes of a driver that fails; whatever is not a fault is the
 * real driver's. No figure may ever come from it.
 *
 *   GPUMAP_STUB_OPENCL   FAULT@CALL, where CALL is probe (clGetPlatformIDs) or open (clCreateContext)
 *
 *   abort     it ends the process by SIGABRT
 *   hang      it never returns, and Python's lock is held
 *   print     it prints on stdout, at the end of the process too
 *   leave     it leaves a process behind, in a session of its own, that writes its number to the
 *             file GPUMAP_STUB_LEFT
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say(void) { (void)!write(1, "\033[2Jthe driver\n", 15); }

static void leave(void) {
    if (fork()) return;
    setsid();
    if (fork()) _exit(0);
    FILE *file = fopen(getenv("GPUMAP_STUB_LEFT"), "a");
    fprintf(file, "%d\n", getpid());
    fclose(file);
    for (;;) pause();
}

static void fault(const char *call) {
    const char *wanted = getenv("GPUMAP_STUB_OPENCL"), *at = wanted ? strchr(wanted, '@') : NULL;
    if (!at || strcmp(at + 1, call)) return;
    if (!strncmp(wanted, "abort", 5)) abort();
    if (!strncmp(wanted, "leave", 5)) leave();
    if (!strncmp(wanted, "print", 5)) say(), atexit(say);
    while (!strncmp(wanted, "hang", 4)) pause();
}

static int find(struct dl_phdr_info *info, size_t size, void *found) {
    (void)size;
    if (strstr(info->dlpi_name, "libOpenCL")) *(const char **)found = info->dlpi_name;
    return 0;
}

static void *real(const char *name) {
    const char *path = NULL;
    dl_iterate_phdr(find, &path);
    void *library = path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    return library ? dlsym(library, name) : NULL;
}

int clGetPlatformIDs(unsigned room, void **platforms, unsigned *count) {
    int (*call)(unsigned, void **, unsigned *) = real("clGetPlatformIDs");
    fault("probe");
    return call(room, platforms, count);
}

void *clCreateContext(const long *properties, unsigned count, void *const *devices,
                      void (*notify)(const char *, const void *, size_t, void *), void *data,
                      int *status) {
    void *(*call)(const long *, unsigned, void *const *, void *, void *, int *) =
        real("clCreateContext");
    fault("open");
    return call(properties, count, devices, notify, data, status);
}
