#include "provider.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 8, INPUTS = 3 };

// shape is of a tensor of floats, or of one that is only copied.
struct shape {
    size_t rank;
    int64_t dims[RANK];
};

struct kernel {
    OrtKernelImpl impl;
    const struct op *op;
    float alpha, beta;
    int64_t trans_a, trans_b;
};

// launch is one kernel on its way: addresses as the processor has them, and shapes.
struct launch {
    struct work work;
    struct kernel kernel; // as it was
    size_t count;         // of inputs
    const void *in[INPUTS];
    struct shape shapes[INPUTS], result;
    void *out;
};

struct op {
    const char *name;
    // infer gives the shape of the result, or false where this provider does not compute such shapes.
    bool (*infer)(struct launch *);
    void (*compute)(const struct launch *, const float *const *in, float *out);
    float (*unary)(float x, float alpha);
    float (*binary)(float a, float b);
    bool shaped; // its second input is a shape, on the host, and read when the kernel is launched
};

static int64_t elements(const struct shape *s) {
    int64_t n = 1;
    for (size_t i = 0; i < s->rank; i++) n *= s->dims[i];
    return n;
}

static float op_relu(float x, float a) { return (void)a, x > 0 ? x : 0; }
static float op_neg(float x, float a) { return (void)a, -x; }
static float op_tanh(float x, float a) { return (void)a, tanhf(x); }
static float op_sigmoid(float x, float a) { return (void)a, 1 / (1 + expf(-x)); }
static float op_elu(float x, float a) { return x > 0 ? x : a * expm1f(x); }
static float op_softplus(float x, float a) { return (void)a, x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x)); }
static float op_add(float a, float b) { return a + b; }
static float op_sub(float a, float b) { return a - b; }
static float op_mul(float a, float b) { return a * b; }

static bool infer_unary(struct launch *l) { return l->result = l->shapes[0], true; }

static void compute_unary(const struct launch *l, const float *const *in, float *out) {
    for (int64_t i = 0, n = elements(&l->result); i < n; i++) out[i] = l->kernel.op->unary(in[0][i], l->kernel.alpha);
}

// dim is a dimension counted from the last one; 1 where there is none.
static int64_t dim(const struct shape *s, size_t from_end) { return from_end < s->rank ? s->dims[s->rank - 1 - from_end] : 1; }

static bool infer_binary(struct launch *l) {
    const struct shape *a = &l->shapes[0], *b = &l->shapes[1];
    size_t rank = l->result.rank = a->rank > b->rank ? a->rank : b->rank;
    for (size_t i = 0; i < rank; i++) {
        int64_t x = dim(a, i), y = dim(b, i);
        if (x != y && x != 1 && y != 1) return false;
        l->result.dims[rank - 1 - i] = x == 1 ? y : x;
    }
    return true;
}

// broadcast is the index in a tensor of the element at an index of the result.
static int64_t broadcast(const struct shape *s, const struct shape *result, int64_t at) {
    int64_t index = 0, stride = 1;
    for (size_t i = 0; i < s->rank; i++) {
        if (dim(s, i) > 1) index += at % dim(result, i) * stride;
        at /= dim(result, i);
        stride *= dim(s, i);
    }
    return index;
}

static void compute_binary(const struct launch *l, const float *const *in, float *out) {
    for (int64_t i = 0, n = elements(&l->result); i < n; i++)
        out[i] = l->kernel.op->binary(in[0][broadcast(&l->shapes[0], &l->result, i)], in[1][broadcast(&l->shapes[1], &l->result, i)]);
}

static void compute_expand(const struct launch *l, const float *const *in, float *out) {
    for (int64_t i = 0, n = elements(&l->result); i < n; i++) out[i] = in[0][broadcast(&l->shapes[0], &l->result, i)];
}

// The second factor of a product has two dimensions; the first may have more in front.
static bool infer_product(struct launch *l) {
    const struct shape *a = &l->shapes[0], *b = &l->shapes[1];
    if (a->rank < 2 || b->rank != 2 || (l->kernel.trans_a && a->rank != 2)) return false;
    l->result = *a;
    l->result.dims[a->rank - 2] = dim(a, l->kernel.trans_a ? 0 : 1);
    l->result.dims[a->rank - 1] = dim(b, l->kernel.trans_b ? 1 : 0);
    return dim(a, l->kernel.trans_a ? 1 : 0) == dim(b, l->kernel.trans_b ? 0 : 1);
}

static void compute_product(const struct launch *l, const float *const *in, float *out) {
    const struct kernel *k = &l->kernel;
    int64_t columns = dim(&l->result, 0), depth = dim(&l->shapes[0], k->trans_a ? 1 : 0);
    int64_t rows = columns > 0 ? elements(&l->result) / columns : 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            float sum = 0;
            for (int64_t i = 0; i < depth; i++)
                sum += in[0][k->trans_a ? i * rows + r : r * depth + i] * in[1][k->trans_b ? c * depth + i : i * columns + c];
            int64_t at = r * columns + c;
            out[at] = k->alpha * sum + (l->count > 2 ? k->beta * in[2][broadcast(&l->shapes[2], &l->result, at)] : 0);
        }
}

static const struct op ops[] = {
    {"Relu", infer_unary, compute_unary, op_relu, NULL, false},
    {"Neg", infer_unary, compute_unary, op_neg, NULL, false},
    {"Tanh", infer_unary, compute_unary, op_tanh, NULL, false},
    {"Sigmoid", infer_unary, compute_unary, op_sigmoid, NULL, false},
    {"Elu", infer_unary, compute_unary, op_elu, NULL, false},
    {"Softplus", infer_unary, compute_unary, op_softplus, NULL, false},
    {"Add", infer_binary, compute_binary, NULL, op_add, false},
    {"Sub", infer_binary, compute_binary, NULL, op_sub, false},
    {"Mul", infer_binary, compute_binary, NULL, op_mul, false},
    {"Expand", infer_binary, compute_expand, NULL, NULL, true},
    {"MatMul", infer_product, compute_product, NULL, NULL, false},
    {"Gemm", infer_product, compute_product, NULL, NULL, false},
};

// run computes on the device. What a kernel reads and writes must be the device's.
static void run(struct work *w) {
    const struct launch *l = (const struct launch *)w;
    const float *in[INPUTS];
    float *out = reach(l->out, (size_t)elements(&l->result) * sizeof(float));
    bool reached = out != NULL;
    for (size_t i = 0; i < l->count; i++) {
        in[i] = reach(l->in[i], (size_t)elements(&l->shapes[i]) * sizeof(float));
        reached = reached && in[i] != NULL;
    }
    if (begin_call(KERNEL) != 0) return;
    if (reached)
        l->kernel.op->compute(l, in, out);
    else
        fault(ILLEGAL_ADDRESS);
}

static OrtStatus *shape_of(const OrtValue *value, struct shape *s) {
    OrtTensorTypeAndShapeInfo *info = NULL;
    OrtStatus *status = ort->GetTensorTypeAndShape(value, &info);
    if (status == NULL) status = ort->GetDimensionsCount(info, &s->rank);
    if (status == NULL && s->rank > RANK) status = ort->CreateStatus(ORT_FAIL, "too many dimensions");
    if (status == NULL) status = ort->GetDimensions(info, s->dims, s->rank);
    if (info != NULL) ort->ReleaseTensorTypeAndShapeInfo(info);
    return status;
}

static OrtStatusPtr compute(OrtKernelImpl *impl, OrtKernelContext *context) {
    struct kernel *k = (struct kernel *)impl;
    struct launch l = {.work = {.run = run}, .kernel = *k};
    void *stream = NULL;
    OrtValue *result = NULL;
    OrtStatus *status = failed(lost(), "cudaLaunchKernel");
    if (status == NULL) status = ort->KernelContext_GetInputCount(context, &l.count);
    for (size_t i = 0; i < l.count && status == NULL; i++) {
        const OrtValue *value = NULL;
        status = ort->KernelContext_GetInput(context, i, &value);
        if (status == NULL) status = shape_of(value, &l.shapes[i]);
        if (status == NULL) status = ort->GetTensorData(value, &l.in[i]);
    }
    if (status == NULL && k->op->shaped) {
        l.shapes[1].rank = (size_t)elements(&l.shapes[1]);
        memcpy(l.shapes[1].dims, l.in[1], l.shapes[1].rank <= RANK ? l.shapes[1].rank * sizeof(int64_t) : 0);
        l.count = 1;
    }
    if (status == NULL && !k->op->infer(&l)) status = ort->CreateStatus(ORT_NOT_IMPLEMENTED, "the simulated GPU lacks such shapes");
    if (status == NULL) status = ort->KernelContext_GetOutput(context, 0, l.result.dims, l.result.rank, &result);
    if (status == NULL) status = ort->GetTensorMutableData(result, &l.out);
    if (status == NULL && l.out == NULL) status = no_memory((size_t)elements(&l.result) * sizeof(float));
    if (status == NULL) status = ort->KernelContext_GetGPUComputeStream(context, &stream);
    if (status == NULL && elements(&l.result) > 0) stream_push(stream, &l.work, sizeof l);
    return status;
}

// copy_kernel moves a tensor between the processor's nodes and the device's.
static OrtStatusPtr copy_kernel(OrtKernelImpl *impl, OrtKernelContext *context) {
    (void)impl;
    const OrtValue *from = NULL;
    OrtValue *to = NULL;
    const void *source = NULL;
    void *target = NULL, *stream = NULL;
    size_t size = 0;
    struct shape s;
    OrtStatus *status = ort->KernelContext_GetInput(context, 0, &from);
    if (status == NULL) status = shape_of(from, &s);
    if (status == NULL) status = ort->KernelContext_GetOutput(context, 0, s.dims, s.rank, &to);
    if (status == NULL) status = ort->GetTensorData(from, &source);
    if (status == NULL) status = ort->GetTensorMutableData(to, &target);
    if (status == NULL) status = ort->GetTensorSizeInBytes(from, &size);
    if (status == NULL) status = ort->KernelContext_GetGPUComputeStream(context, &stream);
    if (status != NULL || size == 0) return status;
    if (target == NULL) return no_memory(size);
    int kind = reach(source, size) != NULL ? DEVICE_TO_HOST : HOST_TO_DEVICE;
    return failed(copy_later(stream, target, source, size, kind), "cudaMemcpyAsync");
}

static void release(OrtKernelImpl *impl) { free(impl); }

static struct kernel *kernel_new(OrtStatusPtr (*function)(OrtKernelImpl *, OrtKernelContext *)) {
    struct kernel *k = calloc(1, sizeof *k + 16 * sizeof(void *)); // as of the factory
    k->impl.ort_version_supported = ORT_API_VERSION;
    k->impl.Compute = function;
    k->impl.Release = release;
    return k;
}

static void attribute(OrtStatus *status) {
    if (status != NULL) ort->ReleaseStatus(status); // it has its default
}

static OrtStatusPtr create(void *state, const OrtKernelInfo *info, OrtKernelImpl **out) {
    struct kernel *k = kernel_new(compute);
    k->op = state;
    k->alpha = k->beta = 1;
    attribute(ort->KernelInfoGetAttribute_float(info, "alpha", &k->alpha));
    attribute(ort->KernelInfoGetAttribute_float(info, "beta", &k->beta));
    attribute(ort->KernelInfoGetAttribute_int64(info, "transA", &k->trans_a));
    attribute(ort->KernelInfoGetAttribute_int64(info, "transB", &k->trans_b));
    *out = &k->impl;
    return NULL;
}

static OrtStatusPtr create_copy(void *state, const OrtKernelInfo *info, OrtKernelImpl **out) {
    (void)state, (void)info;
    *out = &kernel_new(copy_kernel)->impl;
    return NULL;
}

// add registers a kernel for all versions of an operator. One input and one output may be on the host; -1: none is.
static OrtStatus *add(OrtKernelRegistry *to, const char *name, int host_input, int host_output,
    const ONNXTensorElementDataType *types, size_t count, OrtKernelCreateFunc function, const void *state) {
    OrtKernelDefBuilder *b = NULL;
    OrtKernelDef *def = NULL;
    const OrtDataType *found[16];
    OrtStatus *status = ep_api->CreateKernelDefBuilder(&b);
    for (size_t i = 0; i < count && status == NULL; i++) status = ep_api->GetTensorDataType(types[i], &found[i]);
    if (status == NULL) status = ep_api->KernelDefBuilder_SetOperatorType(b, name);
    if (status == NULL) status = ep_api->KernelDefBuilder_SetDomain(b, "");
    if (status == NULL) status = ep_api->KernelDefBuilder_SetSinceVersion(b, 1, 1000);
    if (status == NULL) status = ep_api->KernelDefBuilder_SetExecutionProvider(b, PROVIDER);
    if (status == NULL) status = ep_api->KernelDefBuilder_AddTypeConstraint(b, "T", found, count);
    if (status == NULL && host_input >= 0)
        status = ep_api->KernelDefBuilder_SetInputMemType(b, (size_t)host_input, OrtMemTypeCPUInput);
    if (status == NULL && host_output >= 0)
        status = ep_api->KernelDefBuilder_SetOutputMemType(b, (size_t)host_output, OrtMemTypeCPUOutput);
    if (status == NULL) status = ep_api->KernelDefBuilder_Build(b, &def);
    if (status == NULL) status = ep_api->KernelRegistry_AddKernel(to, def, function, (void *)state);
    if (b != NULL) ep_api->ReleaseKernelDefBuilder(b);
    if (def != NULL) ep_api->ReleaseKernelDef(def);
    return status;
}

OrtStatus *kernels_register(OrtKernelRegistry *to) {
    static const ONNXTensorElementDataType floats[] = {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT},
                                           all[] = {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
                                               ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16,
                                               ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,
                                               ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL,
                                               ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,
                                               ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64};
    OrtStatus *status = add(to, "MemcpyFromHost", 0, -1, all, 12, create_copy, NULL);
    if (status == NULL) status = add(to, "MemcpyToHost", -1, 0, all, 12, create_copy, NULL);
    for (size_t i = 0; i < sizeof ops / sizeof *ops && status == NULL; i++)
        status = add(to, ops[i].name, ops[i].shaped ? 1 : -1, -1, floats, 1, create, &ops[i]);
    return status;
}
