#include "capi.h"

#include <stdlib.h>
#include <string.h>

enum { FAIL = 1 };   // of OrtErrorCode
enum { UNDEFINED = 0, STRING = 8 }; // of ONNXTensorElementDataType

static uint32_t get_length(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_length(unsigned char *p, size_t n) {
    p[0] = (unsigned char)n;
    p[1] = (unsigned char)(n >> 8);
    p[2] = (unsigned char)(n >> 16);
    p[3] = (unsigned char)(n >> 24);
}

// make_strings copies length-prefixed strings, which may hold any byte, into a new string tensor.
static OrtStatus *make_strings(const weft_api *api, const weft_value *v, const int64_t *dims, OrtValue **value) {
    OrtStatus *status = api->CreateTensorAsOrtValue(api->allocator, dims, v->rank, v->dtype, value);
    const unsigned char *p = v->data;
    for (size_t i = 0; i < v->elements && status == NULL; i++) {
        size_t length = get_length(p);
        p += 4;
        char *room = NULL;
        status = api->GetResizedStringTensorElementBuffer(*value, i, length, &room);
        if (status == NULL && length > 0) memcpy(room, p, length);
        p += length;
    }
    return status;
}

// make_value wraps the caller's memory; strings are copied.
static OrtStatus *make_value(const weft_api *api, const weft_value *v, const int64_t *dims, OrtValue **value) {
    static char nothing[8]; // ONNX Runtime wants an address, also of no bytes
    if (v->dtype == STRING) return make_strings(api, v, dims, value);
    void *data = v->data != NULL ? v->data : nothing;
    return api->CreateTensorWithDataAsOrtValue(api->memory, data, v->size, dims, v->rank, v->dtype, value);
}

OrtStatus *weft_run(const weft_session *s, const OrtRunOptions *options, weft_value *values, size_t inputs, const int64_t *dims) {
    const weft_api *api = s->api;
    size_t count = inputs + s->outputs, given = 0;
    OrtValue **made = calloc(count, sizeof *made + sizeof(char *));
    if (made == NULL) return api->CreateStatus(FAIL, "out of memory");
    OrtValue **out = made + inputs;
    const char **names = (const char **)(made + count);
    OrtStatus *status = NULL;
    for (size_t i = 0; i < inputs && status == NULL; i++) {
        if (values[i].dtype == UNDEFINED) continue;
        names[given] = s->names[i];
        status = make_value(api, &values[i], dims + values[i].dims, &made[given++]);
    }
    values += inputs;
    for (size_t i = 0; i < s->outputs && status == NULL; i++)
        if (values[i].data != NULL) status = make_value(api, &values[i], dims + values[i].dims, &out[i]);
    if (status == NULL)
        status = api->Run(s->session, options != NULL ? options : s->options, names, (const OrtValue *const *)made, given,
            (const char *const *)s->names + s->inputs, s->outputs, out);
    for (size_t i = 0; i < s->outputs && status == NULL; i++) {
        if (values[i].data == NULL) {
            values[i].value = out[i];
            out[i] = NULL;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (made[i] != NULL) api->ReleaseValue(made[i]);
    free(made);
    return status;
}

OrtStatus *weft_measure(const weft_api *api, const OrtValue *value, int64_t *dims, size_t room, weft_extent *extent) {
    OrtTensorTypeAndShapeInfo *info = NULL;
    OrtStatus *status = api->GetTensorTypeAndShape(value, &info);
    if (status != NULL) return status;
    status = api->GetTensorElementType(info, &extent->dtype);
    if (status == NULL) status = api->GetDimensionsCount(info, &extent->rank);
    if (status == NULL && extent->rank > 0 && extent->rank <= room) status = api->GetDimensions(info, dims, extent->rank);
    api->ReleaseTensorTypeAndShapeInfo(info);
    if (status != NULL || extent->rank > room) return status;
    extent->elements = 1; // the value is in memory, so the product fits
    for (size_t i = 0; i < extent->rank; i++) extent->elements *= (size_t)dims[i];
    if (extent->dtype == STRING) return api->GetStringTensorDataLength(value, &extent->string_bytes);
    return NULL;
}

static OrtStatus *copy_strings(const weft_api *api, const OrtValue *value, const weft_extent *extent, unsigned char *dst) {
    size_t n = extent->elements, bytes = extent->string_bytes;
    char *content = malloc(bytes + 1);
    size_t *starts = malloc((n + 1) * sizeof *starts);
    OrtStatus *status;
    if (content == NULL || starts == NULL)
        status = api->CreateStatus(FAIL, "out of memory");
    else
        status = api->GetStringTensorContent(value, content, bytes, starts, n);
    if (status == NULL) {
        starts[n] = bytes;
        for (size_t i = 0; i < n; i++) {
            size_t length = starts[i + 1] - starts[i];
            put_length(dst, length);
            memcpy(dst + 4, content + starts[i], length);
            dst += 4 + length;
        }
    }
    free(content);
    free(starts);
    return status;
}

OrtStatus *weft_copy(const weft_api *api, OrtValue *value, const weft_extent *extent, void *dst, size_t size) {
    if (extent->elements == 0) return NULL;
    if (extent->dtype == STRING) return copy_strings(api, value, extent, dst);
    void *data = NULL;
    OrtStatus *status = api->GetTensorMutableData(value, &data);
    if (status == NULL) memcpy(dst, data, size);
    return status;
}

void weft_release(const weft_api *api, OrtValue *value) { api->ReleaseValue(value); }
