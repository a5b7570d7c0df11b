// Element by element, in both dialects; behind opencl.h or cuda.h.
//
// ELEMENT is a type, set when the text is built (a macro called T would break the templates of
// NVRTC's own header); REAL is what they are computed in. Each
// buffer comes with the place of its first element: OpenCL sub-buffers would have to be aligned.
//
// A work-item takes GRAIN in a row of a kernel's `size` elements: one on a GPU, where neighbours read
// neighbours; many on a processor, whose compiler makes vectors of them.

#ifndef GRAIN
#define GRAIN 1
#endif
#define EACH(i) \
    (ulong i = (ulong)ITEM * GRAIN, stop = i + GRAIN < size ? i + GRAIN : size; i < stop; i++)
#define READ(p, i) ((REAL)(p)[p##_at + (i)])

// The same in vectors: behind SHARE, which begins a kernel, WHOLE goes over the whole vectors of LANES
// elements, and REST over the elements behind the last of them.
#define SHARE \
    ulong i = (ulong)ITEM * GRAIN; \
    const ulong stop = i + GRAIN < size ? i + GRAIN : size
#define WHOLE for (; i + LANES <= stop; i += LANES)
#define REST for (; i < stop; i++)
