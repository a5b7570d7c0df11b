// One element per work-item; T is the element type, set when the text is built. Each buffer comes
// with the place of its first element: OpenCL sub-buffers would have to be aligned.

__kernel void fill(__global T *out, const ulong out_at, const T value, const ulong size) {
    const ulong i = get_global_id(0);
    if (i < size) out[out_at + i] = value;
}
