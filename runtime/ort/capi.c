#include "capi.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { FAIL = 1 };            // of OrtErrorCode
enum { TENSOR = 1 };          // of ONNXType
enum { ARENA_ALLOCATOR = 1 }; // of OrtAllocatorType
enum { MEM_DEFAULT = 0 };     // of OrtMemType

// struct OrtApiBase of the C API.
typedef struct {
    const void *const *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
} api_base;

const char *weft_open(weft_api *api, const char *path, const char **version) {
    api->handle = dlopen(path, RTLD_LAZY);
    if (api->handle == NULL) return dlerror();
    const api_base *(*get_base)(void) = (const api_base *(*)(void))dlsym(api->handle, "OrtGetApiBase");
    if (get_base == NULL) return "it does not export OrtGetApiBase, so it is not an ONNX Runtime library";
    const api_base *base = get_base();
    api->base = base;
    *version = base->GetVersionString();
    return NULL;
}

bool weft_bind(weft_api *api, uint32_t api_version) {
    const void *const *table = ((const api_base *)api->base)->GetApi(api_version);
    if (table == NULL) return false;
#define CALL(position, name, result, parameters) api->name = (result(*) parameters)table[position];
#include "calls.h"
#undef CALL
    return true;
}

OrtStatus *weft_prepare(weft_api *api) {
    OrtStatus *status = api->CreateCpuMemoryInfo(ARENA_ALLOCATOR, MEM_DEFAULT, &api->memory);
    if (status != NULL) return status;
    return api->GetAllocatorWithDefaultOptions(&api->allocator);
}

void weft_unload(weft_api *api) {
    if (api->memory != NULL) api->ReleaseMemoryInfo(api->memory);
    if (api->handle != NULL) dlclose(api->handle);
    memset(api, 0, sizeof *api);
}

OrtErrorCode weft_status(const weft_api *api, OrtStatus *status, char *message, size_t room) {
    OrtErrorCode code = api->GetErrorCode(status);
    strncpy(message, api->GetErrorMessage(status), room - 1);
    message[room - 1] = 0;
    api->ReleaseStatus(status);
    return code;
}

OrtStatus *weft_give_files(const weft_api *api, OrtSessionOptions *options, char **names, char **files, const size_t *sizes, size_t count) {
    return api->AddExternalInitializersFromFilesInMemory(options, (const char *const *)names, (char *const *)files, sizes, count);
}

OrtStatus *weft_give_value(const weft_api *api, OrtSessionOptions *options, const char *name, ONNXTensorElementDataType dtype,
    const int64_t *dims, size_t rank, void *data, size_t size) {
    OrtValue *value = NULL;
    OrtStatus *status = api->CreateTensorWithDataAsOrtValue(api->memory, data, size, dims, rank, dtype, &value);
    if (status == NULL) status = api->AddExternalInitializers(options, &name, (const OrtValue *const *)&value, 1);
    if (value != NULL) api->ReleaseValue(value);
    return status;
}

const char *weft_load_operators(const char *path) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) return dlerror();
    bool registers = dlsym(handle, "RegisterCustomOps") != NULL;
    dlclose(handle); // it stays loaded, by RTLD_NODELETE
    return registers ? NULL : "it does not export RegisterCustomOps";
}

OrtStatus *weft_register_operators(const weft_api *api, OrtSessionOptions *options, const char *path) {
    return api->RegisterCustomOpsLibrary_V2(options, path);
}

OrtStatus *weft_claim_domain(const weft_api *api, OrtSessionOptions *options, const char *name, OrtCustomOpDomain **domain) {
    OrtStatus *status = api->CreateCustomOpDomain(name, domain);
    return status != NULL ? status : api->AddCustomOpDomain(options, *domain);
}

void weft_release_domain(const weft_api *api, OrtCustomOpDomain *domain) {
    if (domain != NULL) api->ReleaseCustomOpDomain(domain);
}

OrtStatus *weft_providers(const weft_api *api, char ***names, int *count) { return api->GetAvailableProviders(names, count); }

void weft_providers_free(const weft_api *api, char **names, int count) {
    OrtStatus *status = api->ReleaseAvailableProviders(names, count);
    if (status != NULL) api->ReleaseStatus(status); // documented never to fail
}

static int64_t number(const weft_api *api, const OrtKeyValuePairs *pairs, const char *key) {
    const char *text = api->GetKeyValue(pairs, key);
    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

OrtStatus *weft_measure_memory(const weft_api *api, const OrtSession *session, const char *device, int id, weft_memory *memory) {
    OrtMemoryInfo *info = NULL;
    OrtAllocator *allocator = NULL;
    OrtKeyValuePairs *pairs = NULL;
    OrtStatus *status = api->CreateMemoryInfo(device, ARENA_ALLOCATOR, id, MEM_DEFAULT, &info);
    if (status == NULL) status = api->CreateAllocator(session, info, &allocator);
    if (status == NULL) status = api->AllocatorGetStats(allocator, &pairs);
    if (status == NULL) {
        memory->reserved = number(api, pairs, "TotalAllocated");
        memory->peak = number(api, pairs, "MaxInUse");
    }
    if (pairs != NULL) api->ReleaseKeyValuePairs(pairs);
    if (allocator != NULL) api->ReleaseAllocator(allocator);
    if (info != NULL) api->ReleaseMemoryInfo(info);
    return status;
}

static OrtStatus *out_of_memory(const weft_api *api) { return api->CreateStatus(FAIL, "out of memory"); }

OrtStatus *weft_count(const weft_api *api, const OrtSession *session, size_t counts[WEFT_SIDES]) {
    OrtStatus *status = api->SessionGetInputCount(session, &counts[WEFT_INPUT]);
    if (status == NULL) status = api->SessionGetOverridableInitializerCount(session, &counts[WEFT_DEFAULT]);
    if (status == NULL) status = api->SessionGetOutputCount(session, &counts[WEFT_OUTPUT]);
    return status;
}

static OrtStatus *describe_shape(const weft_api *api, const OrtTensorTypeAndShapeInfo *tensor, weft_spec *spec) {
    OrtStatus *status = api->GetTensorElementType(tensor, &spec->dtype);
    if (status != NULL) return status;
    spec->ranked = api->TensorTypeAndShape_HasShape(tensor);
    status = api->GetDimensionsCount(tensor, &spec->rank);
    if (status != NULL || spec->rank == 0) return status;
    spec->dims = calloc(spec->rank, sizeof *spec->dims);
    spec->symbols = calloc(spec->rank, sizeof *spec->symbols);
    if (spec->dims == NULL || spec->symbols == NULL) return out_of_memory(api);
    status = api->GetDimensions(tensor, spec->dims, spec->rank);
    if (status != NULL) return status;
    return api->GetSymbolicDimensions(tensor, spec->symbols, spec->rank);
}

OrtStatus *weft_describe(const weft_api *api, const OrtSession *session, weft_side side, size_t index, weft_spec *spec) {
    OrtStatus *status;
    switch (side) {
    case WEFT_INPUT:
        status = api->SessionGetInputName(session, index, api->allocator, &spec->name);
        if (status == NULL) status = api->SessionGetInputTypeInfo(session, index, &spec->info);
        break;
    case WEFT_DEFAULT:
        status = api->SessionGetOverridableInitializerName(session, index, api->allocator, &spec->name);
        if (status == NULL) status = api->SessionGetOverridableInitializerTypeInfo(session, index, &spec->info);
        break;
    default:
        status = api->SessionGetOutputName(session, index, api->allocator, &spec->name);
        if (status == NULL) status = api->SessionGetOutputTypeInfo(session, index, &spec->info);
    }
    if (status != NULL) return status;
    status = api->GetOnnxTypeFromTypeInfo(spec->info, &spec->kind);
    if (status != NULL || spec->kind != TENSOR) return status;
    const OrtTensorTypeAndShapeInfo *tensor = NULL; // belongs to spec->info
    status = api->CastTypeInfoToTensorInfo(spec->info, &tensor);
    if (status != NULL) return status;
    if (tensor == NULL) return api->CreateStatus(FAIL, "a tensor without type information");
    return describe_shape(api, tensor, spec);
}

void weft_spec_free(const weft_api *api, weft_spec *spec) {
    if (spec->name != NULL) {
        OrtStatus *status = api->AllocatorFree(api->allocator, spec->name);
        if (status != NULL) api->ReleaseStatus(status); // nothing to be done about memory that cannot be freed
    }
    if (spec->info != NULL) api->ReleaseTypeInfo(spec->info);
    free(spec->dims);
    free(spec->symbols);
    memset(spec, 0, sizeof *spec);
}

OrtStatus *weft_placements(const weft_api *api, const OrtSession *session, weft_placement **list, size_t *count) {
    const OrtEpAssignedSubgraph *const *graphs = NULL;
    size_t graph_count = 0, room = 0;
    OrtStatus *status = api->Session_GetEpGraphAssignmentInfo(session, &graphs, &graph_count);
    *list = NULL;
    *count = 0;
    for (size_t g = 0; g < graph_count && status == NULL; g++) {
        const char *provider = NULL;
        const OrtEpAssignedNode *const *nodes = NULL;
        size_t node_count = 0;
        status = api->EpAssignedSubgraph_GetEpName(graphs[g], &provider);
        if (status == NULL) status = api->EpAssignedSubgraph_GetNodes(graphs[g], &nodes, &node_count);
        for (size_t n = 0; n < node_count && status == NULL; n++) {
            if (*count == room) {
                room = 2 * room + 64;
                weft_placement *more = realloc(*list, room * sizeof **list);
                if (more == NULL) return out_of_memory(api);
                *list = more;
            }
            (*list)[*count].provider = provider;
            status = api->EpAssignedNode_GetOperatorType(nodes[n], &(*list)[*count].op);
            ++*count;
        }
    }
    return status;
}

weft_session *weft_session_new(const weft_api *api, OrtSession *session, size_t inputs, size_t outputs) {
    weft_session *s = calloc(1, sizeof *s + (inputs + outputs) * sizeof *s->names);
    if (s == NULL) return NULL;
    s->names = (char **)(s + 1);
    s->api = api;
    s->session = session;
    s->inputs = inputs;
    s->outputs = outputs;
    OrtStatus *status = api->CreateRunOptions(&s->options);
    if (status != NULL) {
        api->ReleaseStatus(status);
        free(s);
        return NULL;
    }
    return s;
}

void weft_session_free(weft_session *s) {
    s->api->ReleaseRunOptions(s->options);
    for (size_t i = 0; i < s->inputs + s->outputs; i++) free(s->names[i]);
    free(s);
}

OrtStatus *weft_session_eager(weft_session *s) { return s->api->AddRunConfigEntry(s->options, "gpu_graph_id", "-1"); }

void weft_session_terminate(weft_session *s) {
    weft_options_terminate(s->api, s->options);
}

OrtStatus *weft_options_new(const weft_api *api, OrtRunOptions **options) { return api->CreateRunOptions(options); }

void weft_options_terminate(const weft_api *api, OrtRunOptions *options) {
    OrtStatus *status = api->RunOptionsSetTerminate(options);
    if (status != NULL) api->ReleaseStatus(status); // the runs then end by themselves
}

void weft_options_free(const weft_api *api, OrtRunOptions *options) { api->ReleaseRunOptions(options); }
