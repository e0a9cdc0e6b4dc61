#include "provider.h"

#include <stdio.h>
#include <stdlib.h>

// A block that was given back may still be in use by work that was pushed before; it is given out again after that.
struct block {
    struct block *next;
    void *at;
    size_t size;
    long freed; // the moment at which it was given back; in use: -1
};

struct arena {
    OrtAllocator allocator;
    const OrtMemoryInfo *info;
    pthread_mutex_t lock;
    struct block *blocks;
    long long limit, reserved, in_use, most;
};

static struct block *find(struct arena *a, size_t size) {
    for (struct block *b = a->blocks; b != NULL; b = b->next)
        if (b->freed >= 0 && b->size >= size && b->size <= 2 * size && done_before(b->freed)) return b;
    return NULL;
}

static void *allocate(OrtAllocator *allocator, size_t size) {
    struct arena *a = (struct arena *)allocator;
    if (size == 0) size = 1;
    pthread_mutex_lock(&a->lock);
    struct block *b = find(a, size);
    if (b == NULL && (a->limit == 0 || (long long)size <= a->limit - a->reserved) && begin_exclusive(ALLOCATE) == 0) {
        void *at = device_allocate(size);
        if (at != NULL) {
            b = calloc(1, sizeof *b);
            b->next = a->blocks;
            b->at = at;
            b->size = size;
            a->blocks = b;
            a->reserved += (long long)size;
        }
    }
    void *p = NULL;
    if (b != NULL) {
        b->freed = -1;
        a->in_use += (long long)b->size;
        if (a->in_use > a->most) a->most = a->in_use;
        p = b->at;
    }
    pthread_mutex_unlock(&a->lock);
    return p;
}

static void give_back(OrtAllocator *allocator, void *p) {
    struct arena *a = (struct arena *)allocator;
    long at = moment();
    pthread_mutex_lock(&a->lock);
    for (struct block *b = a->blocks; b != NULL; b = b->next)
        if (b->at == p) {
            b->freed = at;
            a->in_use -= (long long)b->size;
        }
    pthread_mutex_unlock(&a->lock);
}

static const OrtMemoryInfo *info(const OrtAllocator *allocator) { return ((const struct arena *)allocator)->info; }

OrtStatus *no_memory(size_t size) {
    if (lost()) return failed(lost(), "cudaMalloc");
    char text[96];
    snprintf(text, sizeof text, "Failed to allocate memory for requested buffer of size %zu", size);
    return ort->CreateStatus(ORT_FAIL, text);
}

static OrtStatusPtr stats(const OrtAllocator *allocator, OrtKeyValuePairs **out) {
    const struct arena *a = (const struct arena *)allocator;
    char text[32];
    ort->CreateKeyValuePairs(out);
    ort->AddKeyValuePair(*out, "NumAllocs", "1"); // with 0, ONNX Runtime leaves out the others
    snprintf(text, sizeof text, "%lld", a->reserved);
    ort->AddKeyValuePair(*out, "TotalAllocated", text);
    snprintf(text, sizeof text, "%lld", a->most);
    ort->AddKeyValuePair(*out, "MaxInUse", text);
    return NULL;
}

OrtAllocator *arena_new(const OrtMemoryInfo *memory, long long limit) {
    struct arena *a = calloc(1, sizeof *a);
    a->allocator.version = ORT_API_VERSION;
    a->allocator.Alloc = a->allocator.Reserve = allocate;
    a->allocator.Free = give_back;
    a->allocator.Info = info;
    a->allocator.GetStats = stats;
    a->info = memory;
    a->limit = limit;
    pthread_mutex_init(&a->lock, NULL);
    return &a->allocator;
}

void arena_free(OrtAllocator *allocator) {
    struct arena *a = (struct arena *)allocator;
    for (struct block *b = a->blocks; b != NULL;) {
        struct block *next = b->next;
        if (begin_exclusive(RELEASE) == 0) device_free(b->at);
        free(b);
        b = next;
    }
    pthread_mutex_destroy(&a->lock);
    free(a);
}
