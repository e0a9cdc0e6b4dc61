// The functions of the CUDA runtime that Weft calls.
#include "device.h"

#include <stdlib.h>

static __thread int last;

static int note(int code) {
    if (code != 0) last = code;
    return code;
}

const char *cudaGetErrorString(int code) { return error_text(code); }

int cudaGetLastError(void) {
    int was = last;
    last = 0;
    return was;
}

int cudaSetDevice(int device) { return note(device == 0 ? lost() : INVALID_DEVICE); }

int cudaMemGetInfo(size_t *available, size_t *total) {
    *total = (size_t)1 << 30;
    *available = *total - (size_t)control->reserved;
    return note(lost());
}

int cudaDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 9 : 0; // of compute capability 9.0
    return note(device == 0 ? 0 : INVALID_DEVICE);
}

int cudaHostRegister(void *p, size_t size, unsigned flags) {
    (void)p, (void)size, (void)flags;
    return note(begin_exclusive(WAIT));
}

int cudaHostUnregister(void *p) {
    (void)p;
    return note(begin_exclusive(WAIT));
}

int cudaMalloc(void **p, size_t size) {
    int code = begin_exclusive(ALLOCATE);
    if (code == 0 && (*p = device_allocate(size)) == NULL) code = OUT_OF_MEMORY;
    return note(code);
}

int cudaFree(void *p) {
    int code = begin_exclusive(RELEASE);
    if (code == 0) device_free(p);
    return note(code);
}

int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
    return note(copy_later(stream, to, from, size, kind));
}

int cudaStreamCreateWithFlags(void **stream, unsigned flags) {
    (void)flags;
    if (lost()) return note(lost());
    *stream = stream_new();
    return 0;
}

int cudaStreamSynchronize(void *stream) {
    if (control->unwaited) return note(begin_call(WAIT));
    return note(stream_wait(stream));
}

int cudaStreamDestroy(void *stream) {
    stream_free(stream);
    return note(lost());
}
