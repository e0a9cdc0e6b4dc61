#ifndef WEFT_CUDART_H
#define WEFT_CUDART_H

// The CUDA runtime that ONNX Runtime's provider brings along, found when it is needed and never linked.

#include <stdbool.h>
#include <stddef.h>

// The functions that this package calls: name and parameters. Each returns a cudaError_t, which is an int; a stream is a pointer.
#define WEFT_CUDA_CALLS(CALL)                                      \
    CALL(cudaSetDevice, (int))                                     \
    CALL(cudaGetLastError, (void))                                 \
    CALL(cudaMemGetInfo, (size_t *, size_t *))                     \
    CALL(cudaDeviceGetAttribute, (int *, int, int))                \
    CALL(cudaHostRegister, (void *, size_t, unsigned))             \
    CALL(cudaHostUnregister, (void *))                             \
    CALL(cudaMalloc, (void **, size_t))                            \
    CALL(cudaFree, (void *))                                       \
    CALL(cudaMemcpyAsync, (void *, const void *, size_t, int, void *)) \
    CALL(cudaStreamCreateWithFlags, (void **, unsigned))           \
    CALL(cudaStreamSynchronize, (void *))                          \
    CALL(cudaStreamDestroy, (void *))

typedef struct {
    void *handle;
    const char *(*cudaGetErrorString)(int);
#define CALL(name, parameters) int(*name) parameters;
    WEFT_CUDA_CALLS(CALL)
#undef CALL
} weft_cuda;

// weft_cuda_open fills cuda from the library of that name, which stays loaded for good. present: only if the process has it already.
// It returns NULL, or the fault in words, which is valid until the thread's next call of this kind.
const char *weft_cuda_open(weft_cuda *cuda, const char *name, bool present);

// weft_cuda_state returns the CUDA error that a call on a device gives now; 0: the device can be used.
int weft_cuda_state(const weft_cuda *cuda, int device);

// weft_cuda_capability returns the compute capability of a device, such as 90 for 9.0; 0: it is not known.
int weft_cuda_capability(const weft_cuda *cuda, int device);

// weft_cuda_pin page-locks memory for copies to and from a device, and weft_cuda_unpin undoes it. They return 0 or a CUDA error.
int weft_cuda_pin(const weft_cuda *cuda, int device, void *memory, size_t size);
int weft_cuda_unpin(const weft_cuda *cuda, int device, void *memory);

#endif
