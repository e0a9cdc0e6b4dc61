#include "provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

OrtStatus *failed(int code, const char *call) {
    if (code == 0) return NULL;
    char text[256];
    snprintf(text, sizeof text, "CUDA failure %d: %s ; GPU=0 ; hostname=simulated ; file=provider.c ; line=1 ; expr=%s; ", code,
        error_text(code), call);
    return ort->CreateStatus(ORT_FAIL, text);
}

// captured is the graph of one thread and one number, as the CUDA provider keeps them.
struct captured {
    struct captured *next;
    pthread_t thread;
    int id;
    int runs; // without it, before the capture
    struct graph *graph;
};

// ep is the provider of one session. The last members of OrtEp are those of version 26 of ONNX Runtime's API; the
// header at hand ends before them. ONNX Runtime looks at no more than ort_version_supported says.
struct ep {
    OrtEp ep;
    OrtStatusPtr (*Sync)(OrtEp *);
    OrtStatusPtr (*CreateProfiler)(OrtEp *, void **);
    bool (*IsGraphCaptureEnabled)(const OrtEp *);
    bool (*IsGraphCaptured)(const OrtEp *, int id);
    OrtStatusPtr (*ReplayGraph)(OrtEp *, int id);
    int (*GetGraphCaptureNodeAssignmentPolicy)(const OrtEp *); // 0: all nodes on this provider
    void *later[8];

    struct stream *stream; // of the session with graphs; NULL: each run has one of its own
    long long limit;
    pthread_mutex_t lock;
    struct captured *graphs;
    struct captured *capturing;
};
enum { EP_VERSION = 26 };

static const char *ep_name(const OrtEp *ep) {
    (void)ep;
    return PROVIDER;
}

static OrtStatusPtr get_capability(OrtEp *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *info) {
    (void)ep;
    size_t count = 0;
    OrtStatus *status = ort->Graph_GetNumNodes(graph, &count);
    if (status != NULL || count == 0) return status;
    const OrtNode **nodes = calloc(count, sizeof *nodes);
    status = ort->Graph_GetNodes(graph, nodes, count);
    for (size_t i = 0; i < count && status == NULL; i++) {
        const OrtKernelDef *kernel = NULL;
        status = ep_api->EpGraphSupportInfo_LookUpKernel(info, nodes[i], &kernel);
        if (status == NULL && kernel != NULL) status = ep_api->EpGraphSupportInfo_AddSingleNode(info, nodes[i]);
    }
    free(nodes);
    return status;
}

static OrtStatusPtr get_registry(OrtEp *ep, const OrtKernelRegistry **out) {
    (void)ep;
    *out = registry;
    return NULL;
}

static OrtStatusPtr ep_allocator(OrtEp *ep, const OrtMemoryInfo *memory, OrtAllocator **out) {
    *out = arena_new(memory, ((struct ep *)ep)->limit);
    return NULL;
}

static OrtStatusPtr ep_stream(OrtEp *ep, const OrtMemoryDevice *device, OrtSyncStreamImpl **out) {
    (void)device;
    *out = sync_stream_new(((struct ep *)ep)->stream);
    return NULL;
}

static OrtStatusPtr concurrent(OrtEp *ep, bool *supported) {
    *supported = ((struct ep *)ep)->stream == NULL;
    return NULL;
}

// find_graph returns the calling thread's entry for a graph, or NULL.
static struct captured *find_graph(const OrtEp *ep, int id) {
    struct ep *e = (struct ep *)ep;
    pthread_mutex_lock(&e->lock);
    struct captured *c = e->graphs;
    while (c != NULL && (c->id != id || !pthread_equal(c->thread, pthread_self()))) c = c->next;
    pthread_mutex_unlock(&e->lock);
    return c;
}

static bool graphs_enabled(const OrtEp *ep) { return ((const struct ep *)ep)->stream != NULL; }

static bool is_captured(const OrtEp *ep, int id) {
    struct captured *c = find_graph(ep, id);
    return c != NULL && c->graph != NULL;
}

static OrtStatusPtr replay(OrtEp *ep, int id) {
    struct ep *e = (struct ep *)ep;
    int code = graph_replay(e->stream, find_graph(ep, id)->graph);
    if (code == 0) code = stream_wait(e->stream);
    return failed(code, "cudaGraphLaunch");
}

static int policy(const OrtEp *ep) {
    (void)ep;
    return 0;
}

// run_starts begins a capture in the second run with a graph's number: the first one takes memory.
static OrtStatusPtr run_starts(OrtEp *ep, const OrtRunOptions *options) {
    struct ep *e = (struct ep *)ep;
    if (lost()) return failed(lost(), "cudaSetDevice");
    const char *text = ort->GetRunConfigEntry(options, "gpu_graph_id");
    int id = text != NULL ? atoi(text) : 0;
    if (e->stream == NULL || id == -1) return NULL;
    struct captured *c = find_graph(ep, id);
    if (c == NULL) {
        c = calloc(1, sizeof *c);
        c->thread = pthread_self();
        c->id = id;
        pthread_mutex_lock(&e->lock);
        c->next = e->graphs;
        e->graphs = c;
        pthread_mutex_unlock(&e->lock);
    }
    if (c->graph != NULL || c->runs++ == 0) return NULL;
    int code = capture_begin(e->stream);
    if (code == 0) e->capturing = c;
    return failed(code, "cudaStreamBeginCapture");
}

static OrtStatusPtr run_ends(OrtEp *ep, const OrtRunOptions *options, bool sync) {
    (void)options;
    struct ep *e = (struct ep *)ep;
    int code = 0;
    if (e->capturing != NULL) {
        struct captured *c = e->capturing;
        e->capturing = NULL;
        code = capture_end(e->stream, &c->graph);
        if (code == 0) code = graph_replay(e->stream, c->graph); // nothing has been computed yet
    }
    if (code == 0 && sync && e->stream != NULL) code = stream_wait(e->stream);
    return failed(code, "cudaStreamEndCapture");
}

// config reads a provider option of a session.
static long long config(const OrtSessionOptions *options, const char *key) {
    char name[128], value[64];
    size_t size = sizeof value;
    snprintf(name, sizeof name, "ep.simulatedcuda.%s", key);
    int has = 0;
    OrtStatus *status = ort->HasSessionConfigEntry(options, name, &has);
    if (status == NULL && has) status = ort->GetSessionConfigEntry(options, name, value, &size);
    if (status != NULL) ort->ReleaseStatus(status);
    return status == NULL && has ? atoll(value) : 0;
}

OrtStatus *ep_new(const OrtSessionOptions *options, OrtEp **out) {
    if (config(options, "device_id") != 0) return failed(INVALID_DEVICE, "cudaSetDevice");
    if (lost()) return failed(lost(), "cudaSetDevice");
    struct ep *e = calloc(1, sizeof *e);
    e->ep.ort_version_supported = EP_VERSION;
    e->ep.GetName = ep_name;
    e->ep.GetCapability = get_capability;
    e->ep.OnRunStart = run_starts;
    e->ep.OnRunEnd = run_ends;
    e->ep.CreateAllocator = ep_allocator;
    e->ep.CreateSyncStreamForDevice = ep_stream;
    e->ep.GetKernelRegistry = get_registry;
    e->ep.IsConcurrentRunSupported = concurrent;
    e->IsGraphCaptureEnabled = graphs_enabled;
    e->IsGraphCaptured = is_captured;
    e->ReplayGraph = replay;
    e->GetGraphCaptureNodeAssignmentPolicy = policy;
    e->limit = config(options, "gpu_mem_limit");
    if (config(options, "enable_cuda_graph")) e->stream = stream_new();
    pthread_mutex_init(&e->lock, NULL);
    *out = &e->ep;
    return NULL;
}

void ep_free(OrtEp *ep) {
    struct ep *e = (struct ep *)ep;
    for (struct captured *c = e->graphs; c != NULL;) {
        struct captured *next = c->next;
        if (c->graph != NULL && lost()) {
            fprintf(stderr, "simulated GPU: a graph is destroyed on a lost device\n");
            abort();
        }
        if (c->graph != NULL) graph_free(c->graph);
        free(c);
        c = next;
    }
    if (e->stream != NULL) stream_free(e->stream);
    pthread_mutex_destroy(&e->lock);
    free(e);
}
