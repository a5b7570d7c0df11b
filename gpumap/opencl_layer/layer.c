/* Count what an unmodified OpenCL program does, per device, into a file of the process.

   A layer for OpenCL's ICD loaders (cl_loader_layers 1.0: OPENCL_LAYERS names this library). The
   declarations are its own, so that it builds where no OpenCL headers are.

   The file is mapped and shared: what was counted is whole when the program crashes, is killed or
   becomes another program. A fork starts a file of its own at its first call. Counters grow by
   relaxed atomic additions, so any thread may call, and a reader may read at any time.

   What is counted are calls that succeeded. records.py reads the file: change both together. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The file. */

enum { VERSION = 1, DEVICES = 64, UNPLACED = DEVICES, COUNTERS = 32 };

enum counter {
    CONTEXTS, QUEUES, KERNELS,
    WRITES, WRITE_BYTES, READS, READ_BYTES,
    MAPS, MAP_WRITE_BYTES, MAP_READ_BYTES, UNMAPS,
    COPIES, COPY_BYTES, FILLS, FILL_BYTES, INITS, INIT_BYTES, UNKNOWNS, UNKNOWN_BYTES,
    FINISHES, EVENT_WAITS, BLOCKING_CALLS, WAIT_NS, FIRST_NS, LAST_NS,
    KERNEL_NS, COPY_NS, TIMED, UNTIMED
};

struct identity {
    int32_t platform, device, part; /* indexes as the loader lists them; -1: none or unknown */
    uint32_t type, vendor_id, units, has_pci, has_uuid;
    uint32_t pci[4]; /* domain, bus, device, function */
    uint8_t uuid[16];
    char name[96], vendor[48], platform_name[48];
};

struct slot {
    _Atomic uint64_t counts[COUNTERS];
    struct identity identity;
};

struct file {
    char magic[8]; /* written last */
    uint32_t version, bytes, slot_bytes, slots;
    int32_t pid, parent;
    uint32_t times;
    _Atomic uint32_t used;
    uint64_t opened_ns;
    _Atomic uint64_t extensions, refused; /* functions handed out uncounted; loaders, forks, too */
    char extension[64], program[384];
    struct slot slot[DEVICES + 1]; /* the last one: of no known device */
};

_Static_assert(sizeof(struct identity) == 256, "a gap that records.py does not expect");
_Static_assert(offsetof(struct file, slot) == 512, "a gap that records.py does not expect");

/* OpenCL: where functions are in a loader's table (the order of cl_icd_dispatch), and constants. */

typedef void (*function)(void);
typedef const size_t *sizes;

enum { TABLE = 256, LOADERS = 4, LISTED = 256, REMEMBERED = 1024 };

#define COUNTED(X) \
    X(clCreateContext, 4) X(clCreateContextFromType, 5) X(clCreateCommandQueue, 9) \
    X(clReleaseCommandQueue, 11) X(clCreateBuffer, 14) X(clCreateImage2D, 15) \
    X(clCreateImage3D, 16) X(clWaitForEvents, 41) X(clFinish, 47) X(clEnqueueReadBuffer, 48) \
    X(clEnqueueWriteBuffer, 49) X(clEnqueueCopyBuffer, 50) X(clEnqueueReadImage, 51) \
    X(clEnqueueWriteImage, 52) X(clEnqueueCopyImage, 53) X(clEnqueueCopyImageToBuffer, 54) \
    X(clEnqueueCopyBufferToImage, 55) X(clEnqueueMapBuffer, 56) X(clEnqueueMapImage, 57) \
    X(clEnqueueUnmapMemObject, 58) X(clEnqueueNDRangeKernel, 59) X(clEnqueueTask, 60) \
    X(clGetExtensionFunctionAddress, 65) X(clEnqueueReadBufferRect, 86) \
    X(clEnqueueWriteBufferRect, 87) X(clEnqueueCopyBufferRect, 88) X(clCreateSubDevices, 93) \
    X(clCreateImage, 96) X(clEnqueueFillBuffer, 102) X(clEnqueueFillImage, 103) \
    X(clEnqueueMigrateMemObjects, 104) X(clGetExtensionFunctionAddressForPlatform, 107) \
    X(clCreateCommandQueueWithProperties, 123) X(clEnqueueSVMMemcpy, 129) \
    X(clEnqueueSVMMemFill, 130) X(clEnqueueSVMMap, 131) X(clEnqueueSVMUnmap, 132) \
    X(clEnqueueSVMMigrateMem, 139) X(clCreateBufferWithProperties, 146) \
    X(clCreateImageWithProperties, 147)

#define USED(X) \
    X(clGetPlatformIDs, 0) X(clGetPlatformInfo, 1) X(clGetDeviceIDs, 2) X(clGetDeviceInfo, 3) \
    X(clGetContextInfo, 8) X(clGetCommandQueueInfo, 12) X(clGetMemObjectInfo, 20) \
    X(clGetImageInfo, 21) X(clGetEventInfo, 42) X(clRetainEvent, 43) X(clReleaseEvent, 44) \
    X(clGetEventProfilingInfo, 45) X(clSetEventCallback, 81)

#define PLACE(name, number) AT_##name = number,
enum { COUNTED(PLACE) USED(PLACE) };

enum {
    SUCCESS = 0, INVALID_VALUE = -30, INVALID_OPERATION = -59,
    DEVICE_TYPE = 0x1000, DEVICE_VENDOR_ID = 0x1001, DEVICE_UNITS = 0x1002, DEVICE_NAME = 0x102B,
    DEVICE_VENDOR = 0x102C, DEVICE_PLATFORM = 0x1031, DEVICE_PARENT = 0x1042, DEVICE_UUID = 0x106A,
    DEVICE_PCI = 0x410F, NVIDIA_BUS = 0x4008, NVIDIA_SLOT = 0x4009, NVIDIA_DOMAIN = 0x400A,
    AMD_TOPOLOGY = 0x4037, PLATFORM_NAME = 0x0902, CONTEXT_DEVICES = 0x1081,
    QUEUE_DEVICE = 0x1091, QUEUE_PROPERTIES = 0x1093, QUEUE_PROFILING = 2, QUEUE_ON_DEVICE = 4,
    EVENT_QUEUE = 0x11D0, EVENT_START = 0x1282, EVENT_END = 0x1283,
    MEM_SIZE = 0x1102, MEM_USE_HOST = 1 << 3, MEM_COPY_HOST = 1 << 5, IMAGE_ELEMENT = 0x1111,
    MAP_READ = 1, MAP_WRITE = 2, MAP_WRITE_INVALIDATE = 4,
    LAYER_API_VERSION = 0x4240, API_1 = 100
};

/* What the layer uses itself, beside what it counts. */
typedef int32_t get_info(void *, uint32_t, size_t, void *, size_t *);
typedef int32_t list_platforms(uint32_t, void **, uint32_t *);
typedef int32_t list_devices(void *, uint64_t, uint32_t, void **, uint32_t *);
typedef int32_t of_event(void *);
typedef int32_t set_callback(void *, int32_t, void (*)(void *, int32_t, void *), void *);

static function next[TABLE]; /* what the loader, or another layer, does with a call */

#define INFO(name) ((get_info *)next[AT_##name])
#define NEXT(name) ((__typeof__(&name))next[AT_##name]) /* of one that has a function below */

/* State of the process. */

static _Atomic(struct file *) file; /* NULL after a fork, until the first call */
static struct file lost;            /* counts of a fork that can open no file */
static struct file *above;          /* in a fork without a file: that of who forked it */
static bool times;
static uint32_t used;
static char folder[3072];

static atomic_flag busy = ATOMIC_FLAG_INIT; /* of all that follows */
static struct identity identities[DEVICES];
static struct numbered { void *handle; uint32_t number; } known[REMEMBERED], parts[REMEMBERED];
static uint32_t known_count, parts_count;

/* The slots of queues and contexts: the handle and, in the low byte, the slot. */
static _Atomic uint64_t slots[256];

static void lock(void) {
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) sched_yield();
}

static void unlock(void) { atomic_flag_clear_explicit(&busy, memory_order_release); }

static uint64_t nanoseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Open the file of this process; NULL where that fails: then it stays empty, which says so.
   Called with the lock, or alone. */
static struct file *open_file(void) {
    char path[sizeof folder + 64];
    int descriptor = -1;
    for (int number = 0; descriptor < 0 && number < 1000; number++) {
        snprintf(path, sizeof path, "%s/%ld-%d.opencl", folder, (long)getpid(), number);
        descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    if (descriptor < 0) return NULL;
    /* room is taken now: a hole of a full disk would be a SIGBUS later */
    void *memory = MAP_FAILED;
    struct rlimit most; /* to write beyond it would end the program by SIGXFSZ */
    bool allowed = getrlimit(RLIMIT_FSIZE, &most) || most.rlim_cur >= sizeof(struct file);
    if (allowed && posix_fallocate(descriptor, 0, sizeof(struct file)) == 0)
        memory = mmap(NULL, sizeof(struct file), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED && ftruncate(descriptor, 0)) unlink(path);
    close(descriptor);
    if (memory == MAP_FAILED) return NULL;
    struct file *made = memory;
    made->version = VERSION, made->bytes = sizeof *made;
    made->slot_bytes = sizeof made->slot[0], made->slots = DEVICES;
    made->pid = getpid(), made->parent = getppid(), made->times = times;
    made->opened_ns = nanoseconds(CLOCK_MONOTONIC);
    if (readlink("/proc/self/exe", made->program, sizeof made->program - 1) < 0)
        made->program[0] = '\0';
    for (uint32_t at = 0; at < used; at++) made->slot[at].identity = identities[at];
    atomic_store(&made->used, used);
    atomic_thread_fence(memory_order_seq_cst);
    memcpy(made->magic, "gpumapCL", sizeof made->magic);
    return made;
}

static struct file *opened(void) {
    struct file *now = atomic_load_explicit(&file, memory_order_acquire);
    if (now) return now;
    lock();
    now = atomic_load_explicit(&file, memory_order_acquire);
    if (!now && !(now = open_file())) {
        now = &lost;
        if (above) atomic_fetch_add(&above->refused, 1);
    }
    atomic_store_explicit(&file, now, memory_order_release);
    unlock();
    return now;
}

static void forked(void) { /* in the child, which has one thread */
    struct file *parents = atomic_exchange(&file, NULL);
    if (parents && parents != &lost) above = parents;
    unlock(); /* taken before the fork, so that no table is half written here */
}

static void add(uint32_t slot, enum counter counter, uint64_t by) {
    if (by)
        atomic_fetch_add_explicit(&opened()->slot[slot].counts[counter], by, memory_order_relaxed);
}

/* Which device. */

static void text(get_info *get, void *of, uint32_t what, char *into, size_t room) {
    char all[1024] = "";
    get(of, what, sizeof all - 1, all, NULL);
    snprintf(into, room, "%s", all);
}

static void *pointer(get_info *get, void *of, uint32_t what) {
    void *value = NULL;
    return get(of, what, sizeof value, &value, NULL) == SUCCESS ? value : NULL;
}

static bool find_pci(void *device, uint32_t *pci) {
    get_info *get = INFO(clGetDeviceInfo);
    uint32_t bus, slot;
    uint8_t amd[24] = {0};
    if (get(device, DEVICE_PCI, 4 * sizeof *pci, pci, NULL) == SUCCESS) return true;
    memset(pci, 0, 4 * sizeof *pci);
    if (get(device, NVIDIA_BUS, sizeof bus, &bus, NULL) == SUCCESS
        && get(device, NVIDIA_SLOT, sizeof slot, &slot, NULL) == SUCCESS) {
        get(device, NVIDIA_DOMAIN, sizeof pci[0], &pci[0], NULL); /* an old driver has none: 0 */
        pci[1] = bus, pci[2] = slot >> 3, pci[3] = slot & 7;
        return true;
    }
    bool known_bus = get(device, AMD_TOPOLOGY, sizeof amd, amd, NULL) == SUCCESS && amd[0] == 1;
    for (int at = 1; at < 4 && known_bus; at++) pci[at] = amd[20 + at];
    return known_bus;
}

static int32_t index_in(void **list, uint32_t count, void *wanted) {
    int32_t at = (int32_t)(count < LISTED ? count : LISTED) - 1;
    while (at >= 0 && list[at] != wanted) at--;
    return at;
}

/* Return how deep in sub-devices a device is: 0, not at all. */
static int describe(void *device, struct identity *to) {
    get_info *get = INFO(clGetDeviceInfo);
    void *list[LISTED];
    uint64_t type = 0;
    uint32_t count = 0;
    int depth = 0;
    memset(to, 0, sizeof *to);
    void *root = device;
    for (void *above; (above = pointer(get, root, DEVICE_PARENT)) && depth < 8; depth++)
        root = above;
    void *platform = pointer(get, device, DEVICE_PLATFORM);
    to->platform = to->device = -1;
    if (((list_platforms *)next[AT_clGetPlatformIDs])(LISTED, list, &count) == SUCCESS)
        to->platform = index_in(list, count, platform);
    if (((list_devices *)next[AT_clGetDeviceIDs])(platform, ~0u, LISTED, list, &count) == SUCCESS)
        to->device = index_in(list, count, root);
    if (get(device, DEVICE_TYPE, sizeof type, &type, NULL) == SUCCESS) to->type = (uint32_t)type;
    get(device, DEVICE_VENDOR_ID, sizeof to->vendor_id, &to->vendor_id, NULL);
    get(device, DEVICE_UNITS, sizeof to->units, &to->units, NULL);
    to->has_uuid = get(device, DEVICE_UUID, sizeof to->uuid, to->uuid, NULL) == SUCCESS;
    to->has_pci = find_pci(device, to->pci);
    text(get, device, DEVICE_NAME, to->name, sizeof to->name);
    text(get, device, DEVICE_VENDOR, to->vendor, sizeof to->vendor);
    text(INFO(clGetPlatformInfo), platform, PLATFORM_NAME, to->platform_name,
         sizeof to->platform_name);
    return depth;
}

/* Return the slot of what was described; with the lock. Two handles of one part share it. */
static uint32_t place(void *device, struct identity *found, int depth) {
    found->part = -1;
    uint32_t oldest = parts_count > REMEMBERED ? parts_count - REMEMBERED : 0;
    for (uint32_t at = oldest; depth == 1 && at < parts_count; at++) /* the newest counts */
        if (parts[at % REMEMBERED].handle == device)
            found->part = (int32_t)parts[at % REMEMBERED].number;
    bool certain = found->platform >= 0 && found->device >= 0 && (depth == 0 || found->part >= 0);
    uint32_t slot = 0;
    while (slot < used && !(certain && memcmp(&identities[slot], found, sizeof *found) == 0))
        slot++;
    if (slot == used && used < DEVICES) {
        identities[used++] = *found;
        struct file *now = atomic_load_explicit(&file, memory_order_acquire);
        if (now) now->slot[slot].identity = *found; /* otherwise it will open with this one */
        if (now) atomic_store_explicit(&now->used, used, memory_order_release);
    }
    if (known_count < REMEMBERED) known[known_count++] = (struct numbered){device, slot};
    return slot;
}

static uint32_t slot_of_device(void *device) {
    struct identity found;
    int depth = -1; /* not described yet: the driver is asked without the lock */
    for (;;) {
        lock();
        uint32_t at = 0;
        while (at < known_count && known[at].handle != device) at++;
        bool is_known = at < known_count, described = depth >= 0;
        uint32_t slot = is_known ? known[at].number : UNPLACED;
        if (!is_known && described) slot = place(device, &found, depth);
        unlock();
        if (is_known || described || !device) return slot;
        depth = describe(device, &found);
    }
}

static _Atomic uint64_t *entry_of(void *handle) {
    uintptr_t bits = (uintptr_t)handle;
    return &slots[(bits >> 4 ^ bits >> 12) & 255];
}

static void remember(void *handle, uint32_t slot) {
    atomic_store(entry_of(handle), (uint64_t)(uintptr_t)handle << 8 | slot);
}

static bool remembered(void *handle, uint32_t *slot) {
    uint64_t entry = atomic_load_explicit(entry_of(handle), memory_order_relaxed);
    *slot = handle ? entry & 255 : UNPLACED;
    return !handle || entry >> 8 == (uint64_t)(uintptr_t)handle << 8 >> 8;
}

static uint32_t slot_of_queue(void *queue) {
    uint32_t slot;
    if (remembered(queue, &slot)) return slot;
    slot = slot_of_device(pointer(INFO(clGetCommandQueueInfo), queue, QUEUE_DEVICE));
    return remember(queue, slot), slot;
}

/* One command of a queue: from before the call to what is counted of it. */

struct command {
    void *queue, **event, *own; /* the event that the call gets, and ours if the program has none */
    bool blocking;
    uint64_t start;
};

static void take_times(void *event, uint32_t slot, enum counter total) {
    get_info *get = INFO(clGetEventProfilingInfo);
    uint64_t start = 0, end = 0;
    bool known_times = get(event, EVENT_START, sizeof start, &start, NULL) == SUCCESS
                       && get(event, EVENT_END, sizeof end, &end, NULL) == SUCCESS && end >= start;
    add(slot, known_times ? TIMED : UNTIMED, 1);
    if (known_times) add(slot, total, end - start);
}

static void completed(void *event, int32_t status, void *tag) {
    uint32_t slot = (uintptr_t)tag >> 8;
    if (status == 0) take_times(event, slot, (uintptr_t)tag & 255);
    else add(slot, UNTIMED, 1);
    ((of_event *)next[AT_clReleaseEvent])(event);
}

static void time_it(struct command *of, uint32_t slot, enum counter total) {
    void *event = *of->event;
    void *tag = (void *)(uintptr_t)(slot << 8 | total);
    set_callback *set = (set_callback *)next[AT_clSetEventCallback];
    if (!of->own) ((of_event *)next[AT_clRetainEvent])(event);
    if (of->blocking) completed(event, 0, tag);
    else if (!set || set(event, 0, completed, tag) != SUCCESS) completed(event, -1, tag);
}

/* Count a command that succeeded. The bytes of a kind of call follow it in the list. */
static int32_t end(struct command *of, enum counter calls, uint64_t bytes) {
    uint32_t slot = slot_of_queue(of->queue);
    _Atomic uint64_t *counts = opened()->slot[slot].counts;
    uint64_t now = nanoseconds(CLOCK_MONOTONIC_COARSE), none = 0;
    add(slot, calls, 1), add(slot, calls + 1, bytes);
    add(slot, BLOCKING_CALLS, of->blocking);
    if (of->blocking) add(slot, WAIT_NS, nanoseconds(CLOCK_MONOTONIC) - of->start);
    if (!atomic_load_explicit(&counts[FIRST_NS], memory_order_relaxed))
        atomic_compare_exchange_strong(&counts[FIRST_NS], &none, now);
    atomic_store_explicit(&counts[LAST_NS], now, memory_order_relaxed);
    if (times && of->event && *of->event) time_it(of, slot, calls == KERNELS ? KERNEL_NS : COPY_NS);
    return SUCCESS;
}

static uint64_t volume(sizes region) { return region[0] * region[1] * region[2]; }

/* The bytes of a command of an image: known where the driver tells the size of an element. */
static uint64_t image_bytes(void *queue, void *image, sizes region) {
    size_t element = 0;
    if (INFO(clGetImageInfo)(image, IMAGE_ELEMENT, sizeof element, &element, NULL) != SUCCESS)
        add(slot_of_queue(queue), UNKNOWNS, 1);
    return volume(region) * element;
}

/* Count the bytes of a map by its direction: here, as an unmap does not tell them. */
static uint64_t map_bytes(void *queue, uint64_t flags, uint64_t bytes) {
    uint32_t slot = slot_of_queue(queue);
    add(slot, MAP_WRITE_BYTES, flags & (MAP_WRITE | MAP_WRITE_INVALIDATE) ? bytes : 0);
    add(slot, MAP_READ_BYTES, flags & MAP_READ ? bytes : 0);
    return 0;
}

/* The functions that are counted, with the parameters of the specification. */

#define EVENTS uint32_t count, void *const *list, void **event
#define PASSED count, list, command.event
#define RECT \
    sizes origin, sizes host, sizes region, size_t row, size_t slice, size_t row_2, size_t slice_2
#define RECT_PASSED origin, host, region, row, slice, row_2, slice_2

#define BEGIN(blocks) \
    struct command command = {queue, NULL, NULL, blocks, 0}; \
    command.event = event || !times ? event : &command.own; \
    if (command.blocking) command.start = nanoseconds(CLOCK_MONOTONIC);

#define COMMAND(name, blocks, calls, bytes, parameters, arguments) \
    static int32_t name parameters { \
        BEGIN(blocks) \
        int32_t code = NEXT(name) arguments; \
        return code == SUCCESS ? end(&command, calls, bytes) : code; \
    }

/* A map returns the memory, and its code where the program wants it. */
#define MAPPING(name, bytes, parameters, arguments) \
    static void *name parameters { \
        BEGIN(blocking) \
        int32_t own_code; \
        code = code ? code : &own_code; \
        void *mapped = NEXT(name) arguments; \
        if (*code == SUCCESS) end(&command, MAPS, map_bytes(queue, flags, bytes)); \
        return mapped; \
    }

COMMAND(clEnqueueNDRangeKernel, 0, KERNELS, 0, (void *queue, void *kernel, uint32_t dimensions,
        sizes offset, sizes global, sizes local, EVENTS), (queue, kernel, dimensions, offset,
        global, local, PASSED))
COMMAND(clEnqueueTask, 0, KERNELS, 0, (void *queue, void *kernel, EVENTS), (queue, kernel, PASSED))
COMMAND(clEnqueueReadBuffer, blocking, READS, size, (void *queue, void *buffer, uint32_t blocking,
        size_t offset, size_t size, void *to, EVENTS), (queue, buffer, blocking, offset, size, to,
        PASSED))
COMMAND(clEnqueueWriteBuffer, blocking, WRITES, size, (void *queue, void *buffer, uint32_t blocking,
        size_t offset, size_t size, const void *from, EVENTS), (queue, buffer, blocking, offset,
        size, from, PASSED))
COMMAND(clEnqueueReadBufferRect, blocking, READS, volume(region), (void *queue, void *buffer,
        uint32_t blocking, RECT, void *to, EVENTS), (queue, buffer, blocking, RECT_PASSED, to,
        PASSED))
COMMAND(clEnqueueWriteBufferRect, blocking, WRITES, volume(region), (void *queue, void *buffer,
        uint32_t blocking, RECT, const void *from, EVENTS), (queue, buffer, blocking, RECT_PASSED,
        from, PASSED))
COMMAND(clEnqueueCopyBuffer, 0, COPIES, size, (void *queue, void *from, void *to, size_t from_at,
        size_t to_at, size_t size, EVENTS), (queue, from, to, from_at, to_at, size, PASSED))
COMMAND(clEnqueueCopyBufferRect, 0, COPIES, volume(region), (void *queue, void *from, void *to,
        RECT, EVENTS), (queue, from, to, RECT_PASSED, PASSED))
COMMAND(clEnqueueFillBuffer, 0, FILLS, size, (void *queue, void *buffer, const void *pattern,
        size_t width, size_t offset, size_t size, EVENTS), (queue, buffer, pattern, width, offset,
        size, PASSED))
COMMAND(clEnqueueReadImage, blocking, READS, image_bytes(queue, image, region), (void *queue,
        void *image, uint32_t blocking, sizes origin, sizes region, size_t row, size_t slice,
        void *to, EVENTS), (queue, image, blocking, origin, region, row, slice, to, PASSED))
COMMAND(clEnqueueWriteImage, blocking, WRITES, image_bytes(queue, image, region), (void *queue,
        void *image, uint32_t blocking, sizes origin, sizes region, size_t row, size_t slice,
        const void *from, EVENTS), (queue, image, blocking, origin, region, row, slice, from,
        PASSED))
COMMAND(clEnqueueCopyImage, 0, COPIES, image_bytes(queue, from, region), (void *queue, void *from,
        void *to, sizes from_at, sizes to_at, sizes region, EVENTS), (queue, from, to, from_at,
        to_at, region, PASSED))
COMMAND(clEnqueueCopyImageToBuffer, 0, COPIES, image_bytes(queue, image, region), (void *queue,
        void *image, void *buffer, sizes origin, sizes region, size_t offset, EVENTS), (queue,
        image, buffer, origin, region, offset, PASSED))
COMMAND(clEnqueueCopyBufferToImage, 0, COPIES, image_bytes(queue, image, region), (void *queue,
        void *buffer, void *image, size_t offset, sizes origin, sizes region, EVENTS), (queue,
        buffer, image, offset, origin, region, PASSED))
COMMAND(clEnqueueFillImage, 0, FILLS, image_bytes(queue, image, region), (void *queue, void *image,
        const void *color, sizes origin, sizes region, EVENTS), (queue, image, color, origin,
        region, PASSED))
COMMAND(clEnqueueUnmapMemObject, 0, UNMAPS, 0, (void *queue, void *memory, void *mapped, EVENTS),
        (queue, memory, mapped, PASSED))
COMMAND(clEnqueueMigrateMemObjects, 0, UNKNOWNS, 0, (void *queue, uint32_t objects,
        void *const *memories, uint64_t flags, EVENTS), (queue, objects, memories, flags, PASSED))
COMMAND(clEnqueueSVMMemcpy, blocking, UNKNOWNS, size, (void *queue, uint32_t blocking, void *to,
        const void *from, size_t size, EVENTS), (queue, blocking, to, from, size, PASSED))
COMMAND(clEnqueueSVMMemFill, 0, FILLS, size, (void *queue, void *to, const void *pattern,
        size_t width, size_t size, EVENTS), (queue, to, pattern, width, size, PASSED))
COMMAND(clEnqueueSVMMap, blocking, MAPS, map_bytes(queue, flags, size), (void *queue,
        uint32_t blocking, uint64_t flags, void *memory, size_t size, EVENTS), (queue, blocking,
        flags, memory, size, PASSED))
COMMAND(clEnqueueSVMUnmap, 0, UNMAPS, 0, (void *queue, void *memory, EVENTS), (queue, memory,
        PASSED))
COMMAND(clEnqueueSVMMigrateMem, 0, UNKNOWNS, 0, (void *queue, uint32_t pointers,
        const void **memories, sizes lengths, uint64_t flags, EVENTS), (queue, pointers, memories,
        lengths, flags, PASSED))
MAPPING(clEnqueueMapBuffer, size, (void *queue, void *buffer, uint32_t blocking, uint64_t flags,
        size_t offset, size_t size, EVENTS, int32_t *code), (queue, buffer, blocking, flags, offset,
        size, PASSED, code))
MAPPING(clEnqueueMapImage, image_bytes(queue, image, region), (void *queue, void *image,
        uint32_t blocking, uint64_t flags, sizes origin, sizes region, size_t *row, size_t *slice,
        EVENTS, int32_t *code), (queue, image, blocking, flags, origin, region, row, slice, PASSED,
        code))

static int32_t clFinish(void *queue) {
    uint64_t start = nanoseconds(CLOCK_MONOTONIC);
    int32_t code = NEXT(clFinish)(queue);
    if (code == SUCCESS) {
        uint32_t slot = slot_of_queue(queue);
        add(slot, FINISHES, 1), add(slot, WAIT_NS, nanoseconds(CLOCK_MONOTONIC) - start);
    }
    return code;
}

static int32_t clWaitForEvents(uint32_t count, void *const *list) {
    uint64_t start = nanoseconds(CLOCK_MONOTONIC);
    int32_t code = NEXT(clWaitForEvents)(count, list);
    uint64_t waited = nanoseconds(CLOCK_MONOTONIC) - start, seen[DEVICES + 1] = {0};
    for (uint32_t at = 0; code == SUCCESS && at < count && at < 16; at++) {
        uint32_t slot = slot_of_queue(pointer(INFO(clGetEventInfo), list[at], EVENT_QUEUE));
        if (seen[slot]++) continue; /* one wait for events of two devices is a wait for each */
        add(slot, EVENT_WAITS, 1), add(slot, WAIT_NS, waited);
    }
    return code;
}

/* What is created: devices come into sight, queues get profiling, host data are copied. */

static uint32_t devices_of(void *context, void **devices, uint32_t room) {
    size_t bytes = 0;
    if (INFO(clGetContextInfo)(context, CONTEXT_DEVICES, 0, NULL, &bytes) != SUCCESS
        || bytes > room * sizeof *devices
        || INFO(clGetContextInfo)(context, CONTEXT_DEVICES, bytes, devices, NULL) != SUCCESS)
        return 0;
    return (uint32_t)(bytes / sizeof *devices);
}

/* Count the devices of a new context as the program named them: PoCL lists a part as its whole. */
static void *opened_context(void *context, uint32_t count, void *const *devices) {
    for (uint32_t at = 0; at < count && context; at++)
        add(slot_of_device(devices[at]), CONTEXTS, 1);
    if (context) remember(context, count == 1 ? slot_of_device(devices[0]) : UNPLACED);
    return context;
}

static void *clCreateContext(const intptr_t *properties, uint32_t count, void *const *devices,
                             function notify, void *data, int32_t *code) {
    void *context = NEXT(clCreateContext)(properties, count, devices, notify, data, code);
    return opened_context(context, count, devices);
}

static void *clCreateContextFromType(const intptr_t *properties, uint64_t type, function notify,
                                     void *data, int32_t *code) {
    void *devices[LISTED], *context;
    context = NEXT(clCreateContextFromType)(properties, type, notify, data, code);
    return opened_context(context, context ? devices_of(context, devices, LISTED) : 0, devices);
}

static void *opened_queue(void *queue, void *device) {
    if (queue) {
        uint32_t slot = slot_of_device(device);
        remember(queue, slot); /* its handle may have been another queue's */
        add(slot, QUEUES, 1);
    }
    return queue;
}

static void *clCreateCommandQueue(void *context, void *device, uint64_t properties, int32_t *code) {
    void *queue = NULL;
    if (times && !(properties & QUEUE_PROFILING))
        queue = NEXT(clCreateCommandQueue)(context, device, properties | QUEUE_PROFILING, code);
    if (!queue) /* a driver that refuses profiling gets what the program asked for */
        queue = NEXT(clCreateCommandQueue)(context, device, properties, code);
    return opened_queue(queue, device);
}

/* Write a list of properties with profiling; return whether it fits and needs it. */
static bool profiled(const uint64_t *given, uint64_t *to, size_t room) {
    size_t at = 0;
    uint64_t *properties = NULL;
    for (; given && given[at]; at += 2) {
        if (at + 5 > room) return false;
        to[at] = given[at], to[at + 1] = given[at + 1];
        if (given[at] == QUEUE_PROPERTIES) properties = &to[at + 1];
    }
    if (properties && *properties & (QUEUE_ON_DEVICE | QUEUE_PROFILING)) return false;
    if (!properties) to[at] = QUEUE_PROPERTIES, to[at + 1] = 0, properties = &to[at + 1], at += 2;
    *properties |= QUEUE_PROFILING;
    to[at] = 0;
    return true;
}

static void *clCreateCommandQueueWithProperties(void *context, void *device,
                                                const uint64_t *properties, int32_t *code) {
    uint64_t list[64];
    void *queue = NULL;
    if (times && profiled(properties, list, 64))
        queue = NEXT(clCreateCommandQueueWithProperties)(context, device, list, code);
    if (!queue) queue = NEXT(clCreateCommandQueueWithProperties)(context, device, properties, code);
    return opened_queue(queue, device);
}

static int32_t clReleaseCommandQueue(void *queue) {
    atomic_store_explicit(entry_of(queue), 0, memory_order_relaxed); /* a handle can come again */
    return NEXT(clReleaseCommandQueue)(queue);
}

static void *created(void *memory, void *context, uint64_t flags) {
    void *device;
    uint32_t slot;
    size_t size = 0;
    if (!memory || !(flags & (MEM_COPY_HOST | MEM_USE_HOST))) return memory;
    if (!remembered(context, &slot))
        slot = devices_of(context, &device, 1) ? slot_of_device(device) : UNPLACED;
    if (flags & MEM_COPY_HOST
        && INFO(clGetMemObjectInfo)(memory, MEM_SIZE, sizeof size, &size, NULL) == SUCCESS)
        add(slot, INITS, 1), add(slot, INIT_BYTES, size);
    else /* memory of the host: the driver copies it when it wants, or never */
        add(slot, UNKNOWNS, 1);
    return memory;
}

#define MEMORY(name, parameters, arguments) \
    static void *name parameters { return created(NEXT(name) arguments, context, flags); }

MEMORY(clCreateBuffer, (void *context, uint64_t flags, size_t size, void *host, int32_t *code),
        (context, flags, size, host, code))
MEMORY(clCreateBufferWithProperties, (void *context, const uint64_t *properties, uint64_t flags,
        size_t size, void *host, int32_t *code), (context, properties, flags, size, host, code))
MEMORY(clCreateImage, (void *context, uint64_t flags, const void *format, const void *shape,
        void *host, int32_t *code), (context, flags, format, shape, host, code))
MEMORY(clCreateImageWithProperties, (void *context, const uint64_t *properties, uint64_t flags,
        const void *format, const void *shape, void *host, int32_t *code), (context, properties,
        flags, format, shape, host, code))
MEMORY(clCreateImage2D, (void *context, uint64_t flags, const void *format, size_t width,
        size_t height, size_t row, void *host, int32_t *code), (context, flags, format, width,
        height, row, host, code))
MEMORY(clCreateImage3D, (void *context, uint64_t flags, const void *format, size_t width,
        size_t height, size_t depth, size_t row, size_t slice, void *host, int32_t *code), (context,
        flags, format, width, height, depth, row, slice, host, code))

static int32_t clCreateSubDevices(void *device, const intptr_t *properties, uint32_t room,
                                  void **made, uint32_t *made_count) {
    uint32_t own = 0;
    made_count = made_count ? made_count : &own;
    int32_t code = NEXT(clCreateSubDevices)(device, properties, room, made, made_count);
    lock();
    for (uint32_t part = 0; code == SUCCESS && made && part < *made_count && part < room; part++) {
        for (uint32_t at = 0; at < known_count; at++) /* its handle may have been another's */
            if (known[at].handle == made[part]) known[at] = known[--known_count];
        parts[parts_count++ % REMEMBERED] = (struct numbered){made[part], part};
    }
    unlock();
    return code;
}

/* What passes by: functions that the program gets from the driver itself. */

static void *handed_out(void *found, const char *name) {
    if (found && name && (strstr(name, "clEnqueue") || strstr(name, "clCreateCommandQueue"))) {
        struct file *now = opened();
        lock();
        if (!atomic_fetch_add(&now->extensions, 1))
            snprintf(now->extension, sizeof now->extension, "%s", name);
        unlock();
    }
    return found;
}

static void *clGetExtensionFunctionAddress(const char *name) {
    return handed_out(NEXT(clGetExtensionFunctionAddress)(name), name);
}

static void *clGetExtensionFunctionAddressForPlatform(void *platform, const char *name) {
    return handed_out(NEXT(clGetExtensionFunctionAddressForPlatform)(platform, name), name);
}

/* The layer. */

#define OURS(name, number) [number] = (function)name,
static const function ours[TABLE] = {COUNTED(OURS)};

int32_t clGetLayerInfo(uint32_t what, size_t room, void *value, size_t *length) {
    if (what != LAYER_API_VERSION || (value && room < sizeof(uint32_t))) return INVALID_VALUE;
    if (value) *(uint32_t *)value = API_1;
    if (length) *length = sizeof(uint32_t);
    return SUCCESS;
}

/* Open the first file. Not for a program with more rights than its user: secure_getenv. */
static bool start(void) {
    const char *where = secure_getenv("GPUMAP_LAYER_FOLDER");
    const char *timed = secure_getenv("GPUMAP_LAYER_TIMES");
    if (!where || where[0] != '/' || strlen(where) >= sizeof folder) return false;
    strcpy(folder, where);
    times = timed && strcmp(timed, "1") == 0;
    struct file *first = open_file();
    if (!first || pthread_atfork(lock, unlock, forked) != 0) return false;
    atomic_store_explicit(&file, first, memory_order_release);
    Dl_info own; /* it stays from here on; one that does not count is gone with its loader's call */
    if (dladdr((void *)start, &own)) dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    return true;
}

/* Join a loader's chain. A process may have several loaders, each with a table of its own. */
int32_t clInitLayer(uint32_t entries, const function *target, uint32_t *our_entries,
                    const function **our_table) {
    static function tables[LOADERS][TABLE];
    static uint32_t loaders;
    if (!target || !our_entries || !our_table || entries <= AT_clEnqueueTask) return INVALID_VALUE;
    entries = entries < TABLE ? entries : TABLE;
    bool twice = target[AT_clFinish] == ours[AT_clFinish]; /* this layer is in the chain already */
    lock();
    bool joins = !twice && loaders < LOADERS && (loaders || start());
    function *table = tables[joins ? loaders++ : 0];
    for (uint32_t at = 0; joins && at < entries; at++) {
        table[at] = target[at] && ours[at] ? ours[at] : target[at];
        if (!next[at]) next[at] = target[at];
    }
    unlock();
    if (!joins && !twice && atomic_load(&file)) atomic_fetch_add(&opened()->refused, 1);
    if (!joins) return INVALID_OPERATION;
    return *our_entries = entries, *our_table = table, SUCCESS;
}

/* Newer loaders ask for these. There is nothing to undo: the file is whole at every moment. */
int32_t clInitLayerWithProperties(uint32_t entries, const function *target, uint32_t *our_entries,
                                  const function **our_table, const intptr_t *properties) {
    return (void)properties, clInitLayer(entries, target, our_entries, our_table);
}

int32_t clDeinitLayer(void) { return SUCCESS; }
