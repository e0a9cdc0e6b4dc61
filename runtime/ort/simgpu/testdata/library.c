// ONNX Runtime's own library under another name, where the provider CUDA is the simulated one.
#define _GNU_SOURCE
#include "provider.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define REGISTERED "simulated"

const OrtApi *ort;
static OrtApi table; // of the real library, with the functions below
static const OrtApiBase *real;

// The options of the provider: their names and values, as the caller gave them.
struct options {
    size_t count;
    char *keys[32], *values[32];
};

static OrtStatusPtr create_options(OrtCUDAProviderOptionsV2 **out) {
    *out = calloc(1, sizeof(struct options));
    return NULL;
}

static OrtStatusPtr update_options(OrtCUDAProviderOptionsV2 *to, const char *const *keys, const char *const *values, size_t count) {
    struct options *o = (struct options *)to;
    for (size_t i = 0; i < count && o->count < 32; i++, o->count++) {
        o->keys[o->count] = strdup(keys[i]);
        o->values[o->count] = strdup(values[i]);
    }
    return NULL;
}

static void release_options(OrtCUDAProviderOptionsV2 *given) {
    struct options *o = (struct options *)given;
    for (size_t i = 0; o != NULL && i < o->count; i++) {
        free(o->keys[i]);
        free(o->values[i]);
    }
    free(o);
}

// append registers this library as a plugin when it is first needed.
static OrtStatusPtr append(OrtSessionOptions *session, const OrtCUDAProviderOptionsV2 *given) {
    const struct options *o = (const struct options *)given;
    OrtEnv *env = NULL; // the one that exists
    OrtStatus *status = ort->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "", &env);
    if (status != NULL) return status;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    const OrtEpDevice *const *devices = NULL, *found = NULL;
    size_t count = 0;
    for (int round = 0; round < 2 && status == NULL && found == NULL; round++) {
        Dl_info self;
        if (round == 1 && dladdr((void *)append, &self))
            status = ort->RegisterExecutionProviderLibrary(env, REGISTERED, self.dli_fname);
        if (status == NULL) status = ort->GetEpDevices(env, &devices, &count);
        for (size_t i = 0; i < count && status == NULL; i++)
            if (strcmp(ort->EpDevice_EpName(devices[i]), PROVIDER) == 0) found = devices[i];
    }
    if (status == NULL && found == NULL) status = ort->CreateStatus(ORT_FAIL, "the simulated GPU was not registered");
    if (status == NULL)
        status = ort->SessionOptionsAppendExecutionProvider_V2(session, env, &found, 1, (const char *const *)o->keys,
            (const char *const *)o->values, o->count);
    pthread_mutex_unlock(&lock);
    ort->ReleaseEnv(env);
    return status;
}

static OrtStatusPtr create_memory_info(const char *name, enum OrtAllocatorType type, int id, enum OrtMemType memory, OrtMemoryInfo **out) {
    return ort->CreateMemoryInfo(control->misbound && strcmp(name, "Cuda") == 0 ? "Cpu" : name, type, id, memory, out);
}

static const OrtApi *get_api(uint32_t version) {
    const OrtApi *api = real->GetApi(version);
    if (api == NULL) return NULL;
    ort = real->GetApi(ORT_API_VERSION);
    table = *ort;
    table.CreateCUDAProviderOptions = create_options;
    table.UpdateCUDAProviderOptions = update_options;
    table.ReleaseCUDAProviderOptions = release_options;
    table.CreateMemoryInfo = create_memory_info;
    table.SessionOptionsAppendExecutionProvider_CUDA_V2 = append;
    return version <= ORT_API_VERSION ? &table : api;
}

static const char *get_version(void) { return real->GetVersionString(); }

const OrtApiBase *OrtGetApiBase(void) {
    static const OrtApiBase base = {get_api, get_version};
    if (real == NULL) {
        void *library = dlopen(ONNXRUNTIME, RTLD_NOW | RTLD_LOCAL);
        const OrtApiBase *(*get)(void) = library != NULL ? (const OrtApiBase *(*)(void))dlsym(library, "OrtGetApiBase") : NULL;
        if (get == NULL) abort();
        real = get();
    }
    return &base;
}
