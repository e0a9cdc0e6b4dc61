#include "cudart.h"

#include <dlfcn.h>
#include <string.h>

enum { PORTABLE = 1 };          // cudaHostRegisterPortable: locked for every device
enum { MAJOR = 75, MINOR = 76 }; // of cudaDeviceAttr

const char *weft_cuda_open(weft_cuda *cuda, const char *name, bool present) {
    void *handle = dlopen(name, RTLD_LAZY | (present ? RTLD_NOLOAD : 0));
    if (handle == NULL) return present ? "it is not loaded" : dlerror();
    memset(cuda, 0, sizeof *cuda);
    cuda->cudaGetErrorString = (const char *(*)(int))dlsym(handle, "cudaGetErrorString");
    bool whole = cuda->cudaGetErrorString != NULL;
#define CALL(function, parameters)                                     \
    cuda->function = (int(*) parameters)dlsym(handle, #function); \
    whole = whole && cuda->function != NULL;
    WEFT_CUDA_CALLS(CALL)
#undef CALL
    if (!whole) {
        dlclose(handle);
        return "it lacks functions of the CUDA runtime";
    }
    cuda->handle = handle;
    return NULL;
}

int weft_cuda_state(const weft_cuda *cuda, int device) {
    size_t available, total;
    int code = cuda->cudaSetDevice(device);
    // It neither waits for the device nor disturbs a capture, and reports faults of work that was queued before.
    if (code == 0) code = cuda->cudaMemGetInfo(&available, &total);
    if (code != 0) (void)cuda->cudaGetLastError();
    return code;
}

int weft_cuda_capability(const weft_cuda *cuda, int device) {
    int major = 0, minor = 0;
    int code = cuda->cudaDeviceGetAttribute(&major, MAJOR, device);
    if (code == 0) code = cuda->cudaDeviceGetAttribute(&minor, MINOR, device);
    if (code != 0) (void)cuda->cudaGetLastError();
    return code == 0 ? 10 * major + minor : 0;
}

int weft_cuda_pin(const weft_cuda *cuda, int device, void *memory, size_t size) {
    int code = cuda->cudaSetDevice(device);
    if (code == 0) code = cuda->cudaHostRegister(memory, size, PORTABLE);
    // The runtime keeps an error for the next caller that asks, and ONNX Runtime would take it for its own.
    if (code != 0) (void)cuda->cudaGetLastError();
    return code;
}

int weft_cuda_unpin(const weft_cuda *cuda, int device, void *memory) {
    int code = cuda->cudaSetDevice(device);
    if (code == 0) code = cuda->cudaHostUnregister(memory);
    if (code != 0) (void)cuda->cudaGetLastError();
    return code;
}
