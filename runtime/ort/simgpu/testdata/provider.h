// The execution provider of the simulated GPU.
#ifndef SIMGPU_PROVIDER_H
#define SIMGPU_PROVIDER_H

#include "device.h"
#include "onnxruntime_c_api.h"

#define PROVIDER "SimulatedCUDA"

extern const OrtApi *ort;
extern const OrtEpApi *ep_api;
extern OrtKernelRegistry *registry;

// failed turns an error of the device into a status in the words of ONNX Runtime's CUDA provider; NULL for none.
OrtStatus *failed(int code, const char *call);
// no_memory is a status in the words of that provider's arena. ONNX Runtime passes on a NULL that a plugin's allocator
// gives.
OrtStatus *no_memory(size_t size);

// The provider of one session. ep_free ends the process, as the CUDA provider does, if a captured graph cannot be
// destroyed.
OrtStatus *ep_new(const OrtSessionOptions *options, OrtEp **out);
void ep_free(OrtEp *);

// The memory of one session. It takes blocks from the device and keeps them until it ends.
struct arena;
OrtAllocator *arena_new(const OrtMemoryInfo *info, long long limit);
void arena_free(OrtAllocator *);

// What ONNX Runtime asks for to copy, and to wait.
OrtDataTransferImpl *transfer_new(void);
OrtSyncStreamImpl *sync_stream_new(struct stream *shared); // NULL: one of its own

OrtStatus *kernels_register(OrtKernelRegistry *);

#endif
