#ifndef WEFT_CAPI_H
#define WEFT_CAPI_H

// The thin C layer next to the Go binding. The package comment says what it is for.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct OrtAllocator OrtAllocator;
typedef struct OrtCustomOpDomain OrtCustomOpDomain;
typedef struct OrtEpAssignedNode OrtEpAssignedNode;
typedef struct OrtEpAssignedSubgraph OrtEpAssignedSubgraph;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtStatus OrtStatus;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtTypeInfo OrtTypeInfo;
typedef struct OrtValue OrtValue;

// Enumerations of the C API; the same test checks that they are as wide as int.
typedef int32_t ONNXTensorElementDataType;
typedef int32_t ONNXType;
typedef int32_t OrtAllocatorType;
typedef int32_t OrtDeviceMemoryType;
typedef int32_t OrtErrorCode;
typedef int32_t OrtMemoryInfoDeviceType;
typedef int32_t OrtMemType;

// weft_api is one loaded library.
typedef struct {
    void *handle;
    const void *base;
    OrtMemoryInfo *memory;
    OrtAllocator *allocator;
#define CALL(position, name, result, parameters) result(*name) parameters;
#include "calls.h"
#undef CALL
} weft_api;

// weft_open loads the library and returns NULL and its version, or the fault in words, which is valid until the thread's next call of
// this kind.
const char *weft_open(weft_api *api, const char *path, const char **version);
// weft_bind fills the function table as of that API version. False: the library is older.
bool weft_bind(weft_api *api, uint32_t api_version);
// weft_prepare makes the objects that runs share. The environment must exist.
OrtStatus *weft_prepare(weft_api *api);
// weft_unload releases everything. The library stays loaded while the binding holds it.
void weft_unload(weft_api *api);

// weft_heap_bound has large pieces of memory go back to the system when they are freed. It is called before the library is loaded.
void weft_heap_bound(void);
// weft_heap_trim gives back to the system what is free among the small ones.
void weft_heap_trim(void);

// weft_status copies code and message (at most room bytes) out of status and releases it.
OrtErrorCode weft_status(const weft_api *api, OrtStatus *status, char *message, size_t room);

// weft_providers gives the names of the execution providers that the library was built with, and how many. They are valid until
// weft_providers_free.
OrtStatus *weft_providers(const weft_api *api, char ***names, int *count);
void weft_providers_free(const weft_api *api, char **names, int count);

// weft_give_files says where in memory files of external data are, by name. It keeps no name. The memory must stay until the session is made.
OrtStatus *weft_give_files(const weft_api *api, OrtSessionOptions *options, char **names, char **files, const size_t *sizes, size_t count);

// weft_give_value says where in memory an initializer is that lies in a file of external data. The memory must stay until the session is made.
OrtStatus *weft_give_value(const weft_api *api, OrtSessionOptions *options, const char *name, ONNXTensorElementDataType dtype,
    const int64_t *dims, size_t rank, void *data, size_t size);

// weft_load_operators loads a library of custom operators, for as long as the process lives. It returns NULL, or the fault in words, which
// is valid until the thread's next call of this kind.
const char *weft_load_operators(const char *path);
// weft_register_operators has sessions of the options know the operators of a library.
OrtStatus *weft_register_operators(const weft_api *api, OrtSessionOptions *options, const char *path);
// weft_claim_domain has sessions of the options fail if a library has operators of the domain. The domain is released after the session.
OrtStatus *weft_claim_domain(const weft_api *api, OrtSessionOptions *options, const char *name, OrtCustomOpDomain **domain);
void weft_release_domain(const weft_api *api, OrtCustomOpDomain *domain);

// weft_memory is the state of a session's arena, in bytes.
typedef struct {
    int64_t reserved, peak;
} weft_memory;

// weft_measure_memory reads the arena of the named device, such as Cuda, that the session uses.
OrtStatus *weft_measure_memory(const weft_api *api, const OrtSession *session, const char *device, int id, weft_memory *memory);

// weft_side is a list of a model's tensors: inputs, inputs that have a default, or outputs.
typedef enum { WEFT_INPUT, WEFT_DEFAULT, WEFT_OUTPUT, WEFT_SIDES } weft_side;

// weft_spec describes an input or output of a model. It is valid until weft_spec_free.
typedef struct {
    char *name;
    ONNXType kind;
    ONNXTensorElementDataType dtype; // of a tensor, as are the rest
    bool ranked;                     // false: the model does not say how many dimensions there are
    size_t rank;
    int64_t *dims;        // -1: unknown
    const char **symbols; // "": none
    OrtTypeInfo *info;
} weft_spec;

// weft_count gives how many there are on each side.
OrtStatus *weft_count(const weft_api *api, const OrtSession *session, size_t counts[WEFT_SIDES]);
OrtStatus *weft_describe(const weft_api *api, const OrtSession *session, weft_side side, size_t index, weft_spec *spec);
void weft_spec_free(const weft_api *api, weft_spec *spec);

// weft_placement is the execution provider of a node, and the node's operator. Both strings are the session's.
typedef struct {
    const char *provider, *op;
} weft_placement;

// weft_placements gives where the nodes of a session run, and how many there are. The session must have been made to record that. The
// caller frees the list.
OrtStatus *weft_placements(const weft_api *api, const OrtSession *session, weft_placement **list, size_t *count);

// weft_session is the part of a session that a run needs.
typedef struct {
    const weft_api *api;
    OrtSession *session;
    OrtRunOptions *options;
    size_t inputs, outputs; // inputs with those that have a default
    char **names; // inputs, then outputs; owned
} weft_session;

weft_session *weft_session_new(const weft_api *api, OrtSession *session, size_t inputs, size_t outputs);
void weft_session_free(weft_session *s);
// weft_session_eager makes weft_run neither capture nor replay a CUDA graph.
OrtStatus *weft_session_eager(weft_session *s);
// weft_session_terminate makes each run of the session fail before its next node, for good.
void weft_session_terminate(weft_session *s);

// weft_value is one input or output of a run. Its memory is as large as dtype and dims demand: checked by the caller. An input without
// dtype has its default.
typedef struct {
    void *data;      // the caller's memory; NULL for an output: ONNX Runtime allocates
    size_t size;     // bytes at data
    size_t elements; // of a string input
    size_t dims;     // where its dimensions begin in the array given to weft_run
    size_t rank;
    ONNXTensorElementDataType dtype;
    OrtValue *value; // set by weft_run for an output without data: the caller releases it
} weft_value;

// weft_options_new makes options for one run, by which weft_options_terminate makes it fail before its next node.
OrtStatus *weft_options_new(const weft_api *api, OrtRunOptions **options);
void weft_options_terminate(const weft_api *api, OrtRunOptions *options);
void weft_options_free(const weft_api *api, OrtRunOptions *options);

// weft_run runs the model once on values: so many inputs, the first ones of the session, then the outputs. options are the run's own, or
// NULL: then those of the session hold. Nothing is left to release when it fails.
OrtStatus *weft_run(const weft_session *s, const OrtRunOptions *options, weft_value *values, size_t inputs, const int64_t *dims);

// weft_extent is the shape of a value and the memory it needs.
typedef struct {
    ONNXTensorElementDataType dtype;
    size_t rank;     // dims are only filled where rank <= room
    size_t elements;
    size_t string_bytes; // of a string tensor, without length prefixes
} weft_extent;

OrtStatus *weft_measure(const weft_api *api, const OrtValue *value, int64_t *dims, size_t room, weft_extent *extent);
// weft_copy writes the elements to dst; strings each after their length (uint32, little-endian).
OrtStatus *weft_copy(const weft_api *api, OrtValue *value, const weft_extent *extent, void *dst, size_t size);
void weft_release(const weft_api *api, OrtValue *value);

#endif
