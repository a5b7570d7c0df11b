// One element per work-item, in two dialects: opencl.h and cuda.h say what KERNEL, GLOBAL, ITEM and
// ulong are. ELEMENT is a type, set when the text is built (a macro called T would break the
// templates of NVRTC's own header). Each buffer comes with the place of its first element: OpenCL
// sub-buffers would have to be aligned.

KERNEL fill(GLOBAL ELEMENT *out, const ulong out_at, const ELEMENT value, const ulong size) {
    const ulong i = ITEM;
    if (i < size) out[out_at + i] = value;
}
