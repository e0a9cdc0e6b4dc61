// The entries of ONNX Runtime's function table (struct OrtApi of its C API) that this package calls itself:
//
//   CALL(position in the table, name, result, parameters)
//
// ONNX Runtime only ever appends to the table, so a position holds for every later release. TestCallsMatchHeader has the
// C compiler compare each line, position and prototype, with the header that the Go binding ships.

CALL(210, AddExternalInitializers, OrtStatus *, (OrtSessionOptions *, const char *const *, const OrtValue *const *, size_t))
CALL(279, AddExternalInitializersFromFilesInMemory, OrtStatus *, (OrtSessionOptions *, const char *const *, char *const *,
    const size_t *, size_t))

CALL(26, CreateCustomOpDomain, OrtStatus *, (const char *, OrtCustomOpDomain **))
CALL(28, AddCustomOpDomain, OrtStatus *, (OrtSessionOptions *, OrtCustomOpDomain *))
CALL(101, ReleaseCustomOpDomain, void, (OrtCustomOpDomain *))
CALL(228, RegisterCustomOpsLibrary_V2, OrtStatus *, (OrtSessionOptions *, const char *))

CALL(0, CreateStatus, OrtStatus *, (OrtErrorCode, const char *))
CALL(1, GetErrorCode, OrtErrorCode, (const OrtStatus *))
CALL(2, GetErrorMessage, const char *, (const OrtStatus *))
CALL(93, ReleaseStatus, void, (OrtStatus *))

CALL(9, Run, OrtStatus *, (OrtSession *, const OrtRunOptions *, const char *const *, const OrtValue *const *, size_t,
    const char *const *, size_t, OrtValue **))
CALL(39, CreateRunOptions, OrtStatus *, (OrtRunOptions **))
CALL(46, RunOptionsSetTerminate, OrtStatus *, (OrtRunOptions *))
CALL(165, AddRunConfigEntry, OrtStatus *, (OrtRunOptions *, const char *, const char *))
CALL(97, ReleaseRunOptions, void, (OrtRunOptions *))

CALL(30, SessionGetInputCount, OrtStatus *, (const OrtSession *, size_t *))
CALL(31, SessionGetOutputCount, OrtStatus *, (const OrtSession *, size_t *))
CALL(32, SessionGetOverridableInitializerCount, OrtStatus *, (const OrtSession *, size_t *))
CALL(33, SessionGetInputTypeInfo, OrtStatus *, (const OrtSession *, size_t, OrtTypeInfo **))
CALL(34, SessionGetOutputTypeInfo, OrtStatus *, (const OrtSession *, size_t, OrtTypeInfo **))
CALL(35, SessionGetOverridableInitializerTypeInfo, OrtStatus *, (const OrtSession *, size_t, OrtTypeInfo **))
CALL(36, SessionGetInputName, OrtStatus *, (const OrtSession *, size_t, OrtAllocator *, char **))
CALL(37, SessionGetOutputName, OrtStatus *, (const OrtSession *, size_t, OrtAllocator *, char **))
CALL(38, SessionGetOverridableInitializerName, OrtStatus *, (const OrtSession *, size_t, OrtAllocator *, char **))
CALL(55, CastTypeInfoToTensorInfo, OrtStatus *, (const OrtTypeInfo *, const OrtTensorTypeAndShapeInfo **))
CALL(56, GetOnnxTypeFromTypeInfo, OrtStatus *, (const OrtTypeInfo *, ONNXType *))
CALL(98, ReleaseTypeInfo, void, (OrtTypeInfo *))

CALL(60, GetTensorElementType, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, ONNXTensorElementDataType *))
CALL(61, GetDimensionsCount, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, size_t *))
CALL(62, GetDimensions, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, int64_t *, size_t))
CALL(63, GetSymbolicDimensions, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, const char **, size_t))
CALL(390, TensorTypeAndShape_HasShape, bool, (const OrtTensorTypeAndShapeInfo *))
CALL(99, ReleaseTensorTypeAndShapeInfo, void, (OrtTensorTypeAndShapeInfo *))

CALL(48, CreateTensorAsOrtValue, OrtStatus *, (OrtAllocator *, const int64_t *, size_t, ONNXTensorElementDataType,
    OrtValue **))
CALL(49, CreateTensorWithDataAsOrtValue, OrtStatus *, (const OrtMemoryInfo *, void *, size_t, const int64_t *, size_t,
    ONNXTensorElementDataType, OrtValue **))
CALL(51, GetTensorMutableData, OrtStatus *, (OrtValue *, void **))
CALL(53, GetStringTensorDataLength, OrtStatus *, (const OrtValue *, size_t *))
CALL(54, GetStringTensorContent, OrtStatus *, (const OrtValue *, void *, size_t, size_t *, size_t))
CALL(65, GetTensorTypeAndShape, OrtStatus *, (const OrtValue *, OrtTensorTypeAndShapeInfo **))
CALL(252, GetResizedStringTensorElementBuffer, OrtStatus *, (OrtValue *, size_t, size_t, char **))
CALL(96, ReleaseValue, void, (OrtValue *))

CALL(125, GetAvailableProviders, OrtStatus *, (char ***, int *))
CALL(126, ReleaseAvailableProviders, OrtStatus *, (char **, int))

CALL(68, CreateMemoryInfo, OrtStatus *, (const char *, OrtAllocatorType, int, OrtMemType, OrtMemoryInfo **))
CALL(69, CreateCpuMemoryInfo, OrtStatus *, (OrtAllocatorType, OrtMemType, OrtMemoryInfo **))
CALL(94, ReleaseMemoryInfo, void, (OrtMemoryInfo *))
CALL(225, MemoryInfoGetDeviceType, void, (const OrtMemoryInfo *, OrtMemoryInfoDeviceType *))
CALL(321, MemoryInfoGetDeviceMemType, OrtDeviceMemoryType, (const OrtMemoryInfo *))
CALL(380, SessionGetMemoryInfoForInputs, OrtStatus *, (const OrtSession *, const OrtMemoryInfo **, size_t))
CALL(381, SessionGetMemoryInfoForOutputs, OrtStatus *, (const OrtSession *, const OrtMemoryInfo **, size_t))
CALL(407, Session_GetEpGraphAssignmentInfo, OrtStatus *, (const OrtSession *, const OrtEpAssignedSubgraph *const **,
    size_t *))
CALL(408, EpAssignedSubgraph_GetEpName, OrtStatus *, (const OrtEpAssignedSubgraph *, const char **))
CALL(409, EpAssignedSubgraph_GetNodes, OrtStatus *, (const OrtEpAssignedSubgraph *, const OrtEpAssignedNode *const **,
    size_t *))
CALL(412, EpAssignedNode_GetOperatorType, OrtStatus *, (const OrtEpAssignedNode *, const char **))
CALL(76, AllocatorFree, OrtStatus *, (OrtAllocator *, void *))
CALL(78, GetAllocatorWithDefaultOptions, OrtStatus *, (OrtAllocator **))
CALL(131, CreateAllocator, OrtStatus *, (const OrtSession *, const OrtMemoryInfo *, OrtAllocator **))
CALL(132, ReleaseAllocator, void, (OrtAllocator *))
CALL(319, AllocatorGetStats, OrtStatus *, (const OrtAllocator *, OrtKeyValuePairs **))
CALL(297, GetKeyValue, const char *, (const OrtKeyValuePairs *, const char *))
CALL(300, ReleaseKeyValuePairs, void, (OrtKeyValuePairs *))
