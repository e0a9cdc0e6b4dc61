#ifndef WEFT_GRAPH_H
#define WEFT_GRAPH_H

#include "capi.h"
#include "cudart.h"

enum { WEFT_ON_CPU = 0, WEFT_ON_GPU = 1 }; // of OrtMemoryInfoDeviceType

// weft_find_elsewhere looks for an input, or an output, that the session has in other memory than that of a device of the type. An index
// of -1: there is none.
OrtStatus *weft_find_elsewhere(const weft_api *api, const OrtSession *session, OrtMemoryInfoDeviceType type, bool output, int *index);

// weft_graph is one shape of a session's inputs with device memory that does not move, which a CUDA graph needs: it reads and writes
// where it did when it was captured.
typedef struct {
    const weft_session *session;
    const weft_cuda *cuda;
    int device;
    void *stream; // of the copies
    OrtRunOptions *options;
    OrtMemoryInfo *info;
    OrtValue **values; // inputs, then outputs, over memory
    void **memory;
} weft_graph;

// weft_graph_new makes one of values, inputs then outputs, all of known size. id names its CUDA graph within the session; device is
// ONNX Runtime's word for where the memory lies. Nothing is left to free when it fails.
OrtStatus *weft_graph_new(const weft_session *s, const weft_cuda *cuda, const char *device, int number, int id,
    const weft_value *values, const int64_t *dims, weft_graph **graph);
// weft_graph_run copies the inputs to the device, runs, and copies the outputs back. The first run of a graph captures it, later ones
// replay it. Only one thread may call it, always the same for all graphs of a session.
OrtStatus *weft_graph_run(const weft_graph *g, const weft_value *values);
// weft_graph_free returns CUDA's status of that: a device that was lost meanwhile shows there.
OrtStatus *weft_graph_free(weft_graph *g);

#endif
