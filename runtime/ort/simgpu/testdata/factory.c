#include "provider.h"

#include <stdlib.h>

const OrtEpApi *ep_api;
OrtKernelRegistry *registry;

static OrtStatusPtr create_ep(OrtEpFactory *factory, const OrtHardwareDevice *const *devices, const OrtKeyValuePairs *const *metadata,
    size_t count, const OrtSessionOptions *options, const OrtLogger *logger, OrtEp **out) {
    (void)factory, (void)devices, (void)metadata, (void)count, (void)logger;
    return ep_new(options, out);
}

static void release_ep(OrtEpFactory *factory, OrtEp *ep) {
    (void)factory;
    ep_free(ep);
}

static const char *factory_name(const OrtEpFactory *f) {
    (void)f;
    return PROVIDER;
}

static const char *factory_vendor(const OrtEpFactory *f) {
    (void)f;
    return "Weft's tests";
}

static uint32_t factory_vendor_id(const OrtEpFactory *f) {
    (void)f;
    return 0x10de; // NVIDIA's: ONNX Runtime takes memory called Cuda for that vendor's
}

static const char *factory_version(const OrtEpFactory *f) {
    (void)f;
    return "1.0.0";
}

static OrtStatusPtr supported(OrtEpFactory *factory, const OrtHardwareDevice *const *devices, size_t count, OrtEpDevice **out,
    size_t room, size_t *found) {
    *found = 0;
    OrtStatus *status = NULL;
    for (size_t i = 0; i < count && room > 0 && status == NULL; i++) {
        if (ort->HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
        status = ep_api->CreateEpDevice(factory, devices[i], NULL, NULL, out);
        OrtMemoryInfo *memory = NULL; // ONNX Runtime refers to it for as long as the library is registered
        if (status == NULL)
            status = ort->CreateMemoryInfo_V2("Cuda", OrtMemoryInfoDeviceType_GPU, 0x10de, 0, OrtDeviceMemoryType_DEFAULT, 0,
                OrtDeviceAllocator, &memory);
        if (status == NULL) status = ep_api->EpDevice_AddAllocatorInfo(*out, memory);
        *found = 1;
        break;
    }
    return status;
}

static OrtStatusPtr factory_allocator(OrtEpFactory *f, const OrtMemoryInfo *memory, const OrtKeyValuePairs *options, OrtAllocator **out) {
    (void)f, (void)options;
    *out = arena_new(memory, 0);
    return NULL;
}

static void factory_release_allocator(OrtEpFactory *f, OrtAllocator *a) {
    (void)f;
    arena_free(a);
}

static OrtStatusPtr factory_transfer(OrtEpFactory *f, OrtDataTransferImpl **out) {
    (void)f;
    *out = transfer_new();
    return NULL;
}

static bool stream_aware(const OrtEpFactory *f) {
    (void)f;
    return true;
}

static OrtStatusPtr factory_stream(OrtEpFactory *f, const OrtMemoryDevice *device, const OrtKeyValuePairs *options, OrtSyncStreamImpl **out) {
    (void)f, (void)device, (void)options;
    *out = sync_stream_new(NULL);
    return NULL;
}

OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger, OrtEpFactory **factories, size_t room,
    size_t *count) {
    (void)name, (void)base, (void)logger, (void)room;
    ep_api = ort->GetEpApi();
    OrtStatus *status = ep_api->CreateKernelRegistry(&registry);
    if (status == NULL) status = kernels_register(registry);
    if (status != NULL) return status;
    OrtEpFactory *f = calloc(1, sizeof *f + 16 * sizeof(void *)); // with room for members that the header does not know
    f->ort_version_supported = ORT_API_VERSION;
    f->GetName = factory_name;
    f->GetVendor = factory_vendor;
    f->GetVendorId = factory_vendor_id;
    f->GetVersion = factory_version;
    f->GetSupportedDevices = supported;
    f->CreateEp = create_ep;
    f->ReleaseEp = release_ep;
    f->CreateAllocator = factory_allocator;
    f->ReleaseAllocator = factory_release_allocator;
    f->CreateDataTransfer = factory_transfer;
    f->IsStreamAware = stream_aware;
    f->CreateSyncStreamForDevice = factory_stream;
    factories[0] = f;
    *count = 1;
    return NULL;
}

OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
    ep_api->ReleaseKernelRegistry(registry);
    free(factory);
    return NULL;
}
