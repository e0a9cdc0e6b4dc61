// A library of custom operators, of the domain weft.test: Twice doubles each element, Total adds to each the sum of all, so that rows meet.
// DOMAIN is another domain, and TOTAL another name. With NEEDS_PYTHON a symbol of Python's is missing, with NO_ENTRY the function that
// ONNX Runtime calls.

#include <stddef.h>
#include <string.h>

#include "onnxruntime_c_api.h"

#ifndef DOMAIN
#define DOMAIN "weft.test"
#endif
#ifndef TOTAL
#define TOTAL "Total"
#endif

static const OrtApi *api;

static const char *name_of(const OrtCustomOp *op);

static OrtStatus *create(const OrtCustomOp *op, const OrtApi *its, const OrtKernelInfo *info, void **kernel) {
    *kernel = (void *)op;
    return NULL;
}

static void destroy(void *kernel) {}

static OrtStatus *compute(void *kernel, OrtKernelContext *context) {
    const OrtValue *in = NULL;
    OrtValue *out = NULL;
    OrtTensorTypeAndShapeInfo *info = NULL;
    int64_t dims[8];
    size_t rank = 0, n = 0;
    float *x = NULL, *y = NULL, sum = 0;
    OrtStatus *status = api->KernelContext_GetInput(context, 0, &in);
    if (status == NULL) status = api->GetTensorTypeAndShape(in, &info);
    if (status == NULL) status = api->GetDimensionsCount(info, &rank);
    if (status == NULL) status = api->GetDimensions(info, dims, rank < 8 ? rank : 8);
    if (status == NULL) status = api->GetTensorShapeElementCount(info, &n);
    if (status == NULL) status = api->KernelContext_GetOutput(context, 0, dims, rank, &out);
    if (status == NULL) status = api->GetTensorMutableData((OrtValue *)in, (void **)&x);
    if (status == NULL) status = api->GetTensorMutableData(out, (void **)&y);
    if (info != NULL) api->ReleaseTensorTypeAndShapeInfo(info);
    if (status != NULL) return status;
    for (size_t i = 0; i < n; i++) sum += x[i];
    bool twice = strcmp(name_of(kernel), "Twice") == 0;
    for (size_t i = 0; i < n; i++) y[i] = x[i] + (twice ? x[i] : sum);
    return NULL;
}

static const char *on_cpu(const OrtCustomOp *op) { return NULL; }
static size_t one(const OrtCustomOp *op) { return 1; }
static int none(const OrtCustomOp *op) { return 0; }
static ONNXTensorElementDataType floats(const OrtCustomOp *op, size_t index) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
static OrtCustomOpInputOutputCharacteristic required(const OrtCustomOp *op, size_t index) { return INPUT_OUTPUT_REQUIRED; }
static OrtMemType usual(const OrtCustomOp *op, size_t index) { return OrtMemTypeDefault; }

// The two differ by their addresses.
static const OrtCustomOp all[2] = {
    [0 ... 1] =
        {
            .version = ORT_API_VERSION,
            .GetName = name_of,
            .GetExecutionProviderType = on_cpu,
            .GetInputType = floats,
            .GetInputTypeCount = one,
            .GetInputCharacteristic = required,
            .GetInputMemoryType = usual,
            .GetOutputType = floats,
            .GetOutputTypeCount = one,
            .GetOutputCharacteristic = required,
            .GetVariadicInputMinArity = none,
            .GetVariadicInputHomogeneity = none,
            .GetVariadicOutputMinArity = none,
            .GetVariadicOutputHomogeneity = none,
            .CreateKernelV2 = create,
            .KernelComputeV2 = compute,
            .KernelDestroy = destroy,
        },
};

static const char *name_of(const OrtCustomOp *op) { return op == &all[0] ? "Twice" : TOTAL; }

#ifdef NEEDS_PYTHON
extern char PyInstanceMethod_Type;
char *python = &PyInstanceMethod_Type;
#endif

#ifdef NO_ENTRY
#define RegisterCustomOps another
#endif

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    OrtCustomOpDomain *domain = NULL; // as long as the process lives
    api = base->GetApi(ORT_API_VERSION);
    OrtStatus *status = api->CreateCustomOpDomain(DOMAIN, &domain);
    for (size_t i = 0; i < 2 && status == NULL; i++) status = api->CustomOpDomain_Add(domain, &all[i]);
    return status != NULL ? status : api->AddCustomOpDomain(options, domain);
}
