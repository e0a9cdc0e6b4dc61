#include "graph.h"

#include <stdio.h>
#include <stdlib.h>

enum { FAIL = 1 };                         // of OrtErrorCode
enum { DEVICE_ALLOCATOR = 0 };             // of OrtAllocatorType
enum { DEVICE_MEMORY = 0 };                // of OrtDeviceMemoryType
enum { MEM_DEFAULT = 0 };                  // of OrtMemType
enum { TO_DEVICE = 1, TO_HOST = 2 };       // of cudaMemcpyKind
enum { NON_BLOCKING = 1 };                 // cudaStreamNonBlocking

// check turns a CUDA error into a status in the words that error.go knows.
static OrtStatus *check(const weft_graph *g, int code, const char *what) {
    if (code == 0) return NULL;
    (void)g->cuda->cudaGetLastError();
    char message[256];
    snprintf(message, sizeof message, "CUDA error %d: %s (%s)", code, g->cuda->cudaGetErrorString(code), what);
    return g->session->api->CreateStatus(FAIL, message);
}

OrtStatus *weft_find_elsewhere(const weft_api *api, const OrtSession *session, OrtMemoryInfoDeviceType type, bool output, int *index) {
    size_t counts[WEFT_SIDES];
    OrtStatus *status = weft_count(api, session, counts);
    if (status != NULL) return status;
    size_t count = output ? counts[WEFT_OUTPUT] : counts[WEFT_INPUT];
    const OrtMemoryInfo **infos = calloc(count + 1, sizeof *infos);
    if (infos == NULL) return api->CreateStatus(FAIL, "out of memory");
    status = output ? api->SessionGetMemoryInfoForOutputs(session, infos, count) : api->SessionGetMemoryInfoForInputs(session, infos, count);
    *index = -1;
    for (size_t i = 0; status == NULL && i < count && *index < 0; i++) {
        OrtMemoryInfoDeviceType got;
        api->MemoryInfoGetDeviceType(infos[i], &got);
        if (got != type || api->MemoryInfoGetDeviceMemType(infos[i]) != DEVICE_MEMORY) *index = (int)i;
    }
    free(infos);
    return status;
}

static OrtStatus *fill(weft_graph *g, const char *device, int id, const weft_value *values, const int64_t *dims) {
    const weft_api *api = g->session->api;
    size_t count = g->session->inputs + g->session->outputs;
    char name[16];
    snprintf(name, sizeof name, "%d", id);
    OrtStatus *status = api->CreateRunOptions(&g->options);
    if (status == NULL) status = api->AddRunConfigEntry(g->options, "gpu_graph_id", name);
    if (status == NULL) status = api->CreateMemoryInfo(device, DEVICE_ALLOCATOR, g->device, MEM_DEFAULT, &g->info);
    if (status == NULL) status = check(g, g->cuda->cudaSetDevice(g->device), "cudaSetDevice");
    if (status == NULL) status = check(g, g->cuda->cudaStreamCreateWithFlags(&g->stream, NON_BLOCKING), "cudaStreamCreateWithFlags");
    for (size_t i = 0; i < count && status == NULL; i++) {
        const weft_value *v = &values[i];
        status = check(g, g->cuda->cudaMalloc(&g->memory[i], v->size > 0 ? v->size : 1), "cudaMalloc");
        if (status == NULL)
            status = api->CreateTensorWithDataAsOrtValue(g->info, g->memory[i], v->size, dims + v->dims, v->rank, v->dtype, &g->values[i]);
    }
    return status;
}

OrtStatus *weft_graph_new(const weft_session *s, const weft_cuda *cuda, const char *device, int number, int id,
    const weft_value *values, const int64_t *dims, weft_graph **graph) {
    size_t count = s->inputs + s->outputs;
    weft_graph *g = calloc(1, sizeof *g + count * (sizeof *g->values + sizeof *g->memory));
    if (g == NULL) return s->api->CreateStatus(FAIL, "out of memory");
    g->values = (OrtValue **)(g + 1);
    g->memory = (void **)(g->values + count);
    g->session = s;
    g->cuda = cuda;
    g->device = number;
    OrtStatus *status = fill(g, device, id, values, dims);
    if (status != NULL) {
        OrtStatus *freed = weft_graph_free(g);
        if (freed != NULL) s->api->ReleaseStatus(freed);
        return status;
    }
    *graph = g;
    return NULL;
}

// copy moves values [first, end) and waits. A copy from memory that is not page-locked may still be under way when the call for it has
// returned, and ONNX Runtime's stream would not wait for it.
static OrtStatus *copy(const weft_graph *g, const weft_value *values, size_t first, size_t end, int kind) {
    OrtStatus *status = NULL;
    for (size_t i = first; i < end && status == NULL; i++) {
        const weft_value *v = &values[i];
        if (v->size == 0) continue;
        void *to = kind == TO_DEVICE ? g->memory[i] : v->data;
        const void *from = kind == TO_DEVICE ? v->data : g->memory[i];
        status = check(g, g->cuda->cudaMemcpyAsync(to, from, v->size, kind, g->stream), "cudaMemcpyAsync");
    }
    OrtStatus *synced = check(g, g->cuda->cudaStreamSynchronize(g->stream), "cudaStreamSynchronize");
    if (status == NULL) return synced;
    if (synced != NULL) g->session->api->ReleaseStatus(synced);
    return status;
}

OrtStatus *weft_graph_run(const weft_graph *g, const weft_value *values) {
    const weft_session *s = g->session;
    // ONNX Runtime does not choose the device of a thread that only replays.
    OrtStatus *status = check(g, g->cuda->cudaSetDevice(g->device), "cudaSetDevice");
    if (status == NULL) status = copy(g, values, 0, s->inputs, TO_DEVICE);
    if (status == NULL)
        status = s->api->Run(s->session, g->options, (const char *const *)s->names, (const OrtValue *const *)g->values, s->inputs,
            (const char *const *)s->names + s->inputs, s->outputs, g->values + s->inputs);
    if (status == NULL) status = copy(g, values, s->inputs, s->inputs + s->outputs, TO_HOST);
    return status;
}

OrtStatus *weft_graph_free(weft_graph *g) {
    const weft_api *api = g->session->api;
    size_t count = g->session->inputs + g->session->outputs;
    // Nothing can be done about memory that cannot be freed; its device is lost.
    int code = g->cuda->cudaSetDevice(g->device);
    for (size_t i = 0; i < count; i++) {
        if (g->values[i] != NULL) api->ReleaseValue(g->values[i]);
        int freed = g->memory[i] != NULL ? g->cuda->cudaFree(g->memory[i]) : 0;
        if (code == 0) code = freed;
    }
    int destroyed = g->stream != NULL ? g->cuda->cudaStreamDestroy(g->stream) : 0;
    if (code == 0) code = destroyed;
    if (g->options != NULL) api->ReleaseRunOptions(g->options);
    if (g->info != NULL) api->ReleaseMemoryInfo(g->info);
    OrtStatus *status = check(g, code, "giving memory back");
    free(g);
    return status;
}
