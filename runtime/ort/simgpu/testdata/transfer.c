#include "provider.h"

#include <stdlib.h>

static void transfer_release(OrtDataTransferImpl *t) { free(t); }

static bool on_device(const OrtMemoryDevice *d) { return ep_api->MemoryDevice_GetDeviceType(d) == OrtMemoryInfoDeviceType_GPU; }

static bool can_copy(const OrtDataTransferImpl *t, const OrtMemoryDevice *from, const OrtMemoryDevice *to) {
    (void)t;
    return on_device(from) || on_device(to);
}

// copy_tensors copies on the streams that ONNX Runtime gives. Without one it waits, as cudaMemcpy does.
static OrtStatusPtr copy_tensors(OrtDataTransferImpl *t, const OrtValue **from, OrtValue **to, OrtSyncStream **streams, size_t count) {
    (void)t;
    OrtStatus *status = NULL;
    for (size_t i = 0; i < count && status == NULL; i++) {
        const void *source = NULL;
        void *target = NULL;
        size_t size = 0;
        status = ort->GetTensorSizeInBytes(from[i], &size);
        if (status == NULL) status = ort->GetTensorData(from[i], &source);
        if (status == NULL) status = ort->GetTensorMutableData(to[i], &target);
        if (status == NULL && target == NULL && size > 0) status = no_memory(size);
        if (status != NULL || size == 0) continue;
        int kind = (on_device(ep_api->Value_GetMemoryDevice(from[i])) ? DEVICE_TO_HOST : 0) |
                   (on_device(ep_api->Value_GetMemoryDevice(to[i])) ? HOST_TO_DEVICE : 0);
        struct stream *s = streams != NULL && streams[i] != NULL ? ort->SyncStream_GetHandle(streams[i]) : NULL;
        struct stream *own = s == NULL ? stream_new() : NULL;
        int code = copy_later(s != NULL ? s : own, target, source, size, kind);
        if (own != NULL) {
            int waited = stream_wait(own);
            if (code == 0) code = waited;
            stream_free(own);
        }
        status = failed(code, "cudaMemcpyAsync");
    }
    return status;
}

OrtDataTransferImpl *transfer_new(void) {
    OrtDataTransferImpl *t = calloc(1, sizeof *t);
    t->ort_version_supported = ORT_API_VERSION;
    t->Release = transfer_release;
    t->CanCopy = can_copy;
    t->CopyTensors = copy_tensors;
    return t;
}

struct sync_stream {
    OrtSyncStreamImpl impl;
    struct stream *stream;
    bool own;
};

struct notification {
    OrtSyncNotificationImpl impl;
    struct stream *of;
    long count; // of its works when it was activated
};

struct waiting {
    struct work work;
    struct stream *of;
    long count;
};

static void notification_release(OrtSyncNotificationImpl *n) { free(n); }

static OrtStatusPtr activate(OrtSyncNotificationImpl *impl) {
    struct notification *n = (struct notification *)impl;
    n->count = stream_count(n->of);
    return NULL;
}

static void wait_for(struct work *w) {
    struct waiting *v = (struct waiting *)w;
    stream_wait_until(v->of, v->count);
}

static OrtStatusPtr wait_on_device(OrtSyncNotificationImpl *impl, OrtSyncStream *consumer) {
    struct notification *n = (struct notification *)impl;
    struct waiting w = {{.run = wait_for}, n->of, n->count};
    stream_push(ort->SyncStream_GetHandle(consumer), &w.work, sizeof w);
    return NULL;
}

static OrtStatusPtr wait_on_host(OrtSyncNotificationImpl *impl) {
    struct notification *n = (struct notification *)impl;
    stream_wait_until(n->of, n->count);
    return failed(lost(), "cudaEventSynchronize");
}

static OrtStatusPtr create_notification(OrtSyncStreamImpl *impl, OrtSyncNotificationImpl **out) {
    struct notification *n = calloc(1, sizeof *n);
    n->impl.ort_version_supported = ORT_API_VERSION;
    n->impl.Release = notification_release;
    n->impl.Activate = activate;
    n->impl.WaitOnDevice = wait_on_device;
    n->impl.WaitOnHost = wait_on_host;
    n->of = ((struct sync_stream *)impl)->stream;
    *out = &n->impl;
    return NULL;
}

static void *handle(OrtSyncStreamImpl *impl) { return ((struct sync_stream *)impl)->stream; }

// flush leaves a stream alone that is the session's: it may be capturing, and OnRunEnd waits for it.
static OrtStatusPtr flush(OrtSyncStreamImpl *impl) {
    struct sync_stream *s = (struct sync_stream *)impl;
    return s->own ? failed(stream_wait(s->stream), "cudaStreamSynchronize") : NULL;
}

static OrtStatusPtr run_ended(OrtSyncStreamImpl *impl) {
    (void)impl;
    return NULL;
}

static void sync_stream_release(OrtSyncStreamImpl *impl) {
    struct sync_stream *s = (struct sync_stream *)impl;
    if (s->own) stream_free(s->stream);
    free(s);
}

OrtSyncStreamImpl *sync_stream_new(struct stream *shared) {
    struct sync_stream *s = calloc(1, sizeof *s);
    s->impl.ort_version_supported = ORT_API_VERSION;
    s->impl.Release = sync_stream_release;
    s->impl.GetHandle = handle;
    s->impl.CreateNotification = create_notification;
    s->impl.Flush = flush;
    s->impl.OnSessionRunEnd = run_ended;
    s->own = shared == NULL;
    s->stream = s->own ? stream_new() : shared;
    return &s->impl;
}
