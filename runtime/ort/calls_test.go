package ort_test

import (
	"os"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
)

// The C compiler compares the declarations of capi.h and calls.h with the header that the binding ships: each entry's
// position and prototype, the width of each enumeration, and the numbers that capi.c uses.
const headerCheck = `
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "onnxruntime_c_api.h"

#define CALL(position, name, result, parameters)                                                                    \
    _Static_assert(offsetof(OrtApi, name) == (position) * sizeof(void *), #name " is elsewhere in the table");      \
    _Static_assert(__builtin_types_compatible_p(__typeof__(((OrtApi *)0)->name), result(*) parameters),             \
        #name " has another prototype");
#include "calls.h"

_Static_assert(offsetof(OrtApiBase, GetApi) == 0, "");
_Static_assert(offsetof(OrtApiBase, GetVersionString) == sizeof(void *), "");
_Static_assert(sizeof(ONNXTensorElementDataType) == sizeof(int32_t), "");
_Static_assert(sizeof(ONNXType) == sizeof(int32_t), "");
_Static_assert(sizeof(OrtAllocatorType) == sizeof(int32_t), "");
_Static_assert(sizeof(OrtErrorCode) == sizeof(int32_t), "");
_Static_assert(sizeof(OrtMemType) == sizeof(int32_t), "");
_Static_assert(sizeof(OrtDeviceMemoryType) == sizeof(int32_t), "");
_Static_assert(sizeof(OrtMemoryInfoDeviceType) == sizeof(int32_t), "");
_Static_assert(OrtMemoryInfoDeviceType_CPU == 0 && OrtMemoryInfoDeviceType_GPU == 1 &&
	OrtDeviceMemoryType_DEFAULT == 0, "");
_Static_assert(ORT_FAIL == 1 && ORT_INVALID_ARGUMENT == 2, "");
_Static_assert(ONNX_TYPE_TENSOR == 1, "");
_Static_assert(ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED == 0 && ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING == 8, "");
_Static_assert(OrtArenaAllocator == 1 && OrtDeviceAllocator == 0 && OrtMemTypeDefault == 0, "");
_Static_assert(ORT_API_VERSION == 24, "library.go asks for another version than the binding");
`

func TestCallsMatchHeader(t *testing.T) {
	source := weftest.WriteFile(t, t.TempDir(), "check.c", []byte(headerCheck))
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	binding := goCommand(t, "list", "-m", "-f", "{{.Dir}}", "github.com/yalue/onnxruntime_go")
	compile(t, "-fsyntax-only", "-I"+binding, "-I"+here, source)
}
