package ort_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weftserve/weft/runtime/ort"
)

// fakeCUDA is a CUDA runtime whose device memory is the host's. Its calls are counted in a file, by name.
const fakeCUDA = `
#include <stdio.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *env(const char *name) { const char *v = getenv(name); return v ? v : ""; }
static void note(const char *call) {
    FILE *f = fopen(env("FAKE_CUDA_LOG"), "a");
    if (f) { fprintf(f, "%s\n", call); fclose(f); }
}
static int fails(const char *call) {
    char text[80];
    snprintf(text, sizeof text, "%s=", call);
    const char *at = strstr(env("FAKE_CUDA_FAIL"), text);
    return at ? atoi(at + strlen(text)) : 0;
}
static void hang(const char *call) { // until the pipe is closed that the test has opened
    if (strcmp(env("FAKE_CUDA_HANG"), call) != 0) return;
    int pipe = open(env("FAKE_CUDA_PIPE"), O_RDONLY);
    char c;
    while (pipe >= 0 && read(pipe, &c, 1) > 0) {}
    close(pipe);
}
static int last;
#define CALL(name) note(name); hang(name); int code = fails(name); if (code) { last = code; return code; }

const char *cudaGetErrorString(int code) { return code == 2 ? "out of memory" : "some error"; }
int cudaGetLastError(void) { int was = last; last = 0; return was; }
int cudaSetDevice(int device) {
	char t[40];
	snprintf(t, sizeof t, "cudaSetDevice %d", device);
	note(t);
	return fails("cudaSetDevice");
}
int cudaMemGetInfo(size_t *available, size_t *total) { CALL("cudaMemGetInfo") *available = *total = 1 << 30; return 0; }
int cudaDeviceGetAttribute(int *value, int attribute, int device) {
    CALL("cudaDeviceGetAttribute")
    int capability = atoi(env("FAKE_CUDA_CAPABILITY"));
    *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : -1;
    return 0;
}
int cudaHostRegister(void *p, size_t n, unsigned flags) {
    char t[80]; snprintf(t, sizeof t, "cudaHostRegister %zu %u", n, flags); note(t);
    return last = fails("cudaHostRegister");
}
int cudaHostUnregister(void *p) { CALL("cudaHostUnregister") return 0; }
int cudaMalloc(void **p, size_t n) { CALL("cudaMalloc") *p = aligned_alloc(64, (n + 63) / 64 * 64); return 0; }
int cudaFree(void *p) { CALL("cudaFree") free(p); return 0; }
int cudaStreamCreateWithFlags(void **s, unsigned flags) { CALL("cudaStreamCreateWithFlags") *s = malloc(1); return 0; }
int cudaStreamDestroy(void *s) { CALL("cudaStreamDestroy") free(s); return 0; }
int cudaStreamSynchronize(void *s) { CALL("cudaStreamSynchronize") return 0; }
int cudaMemcpyAsync(void *to, const void *from, size_t n, int kind, void *stream) {
    if (kind == 1) { CALL("to device") }
    if (kind == 2) { CALL("to host") }
    if (kind == 1 && strcmp(env("FAKE_CUDA_STALE"), "1") == 0) { // the graph sees what it saw first
        static char seen[1 << 16]; static size_t have;
        if (have == 0 && n <= sizeof seen) { memcpy(seen, from, n); have = n; }
        if (have == n) from = seen;
    }
    memcpy(to, from, n);
    return 0;
}
`

// cudaLog holds the calls of a fake CUDA runtime.
type cudaLog struct{ file string }

// useFakeCUDA makes the package load a fake CUDA runtime until the test ends.
func useFakeCUDA(t *testing.T) cudaLog {
	t.Helper()
	log := cudaLog{filepath.Join(t.TempDir(), "log")}
	t.Setenv("FAKE_CUDA_LOG", log.file)
	t.Setenv("FAKE_CUDA_FAIL", "")
	t.Setenv("FAKE_CUDA_STALE", "")
	t.Setenv("FAKE_CUDA_HANG", "")
	ort.UseCUDARuntime(t, shared(t, fakeCUDA))
	return log
}

// hangCUDA makes a call of the fake CUDA runtime hang. The function that it returns waits until one does, and returns a
// function that ends that.
func hangCUDA(t *testing.T, call string) (hanging func() (end func())) {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKE_CUDA_PIPE", pipe)
	t.Setenv("FAKE_CUDA_HANG", call)
	return func() func() {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("FAKE_CUDA_HANG", "") // one is enough
		return sync.OnceFunc(func() { f.Close() })
	}
}

// count returns how many calls begin with a word.
func (l cudaLog) count(t *testing.T, call string) int {
	t.Helper()
	text, err := os.ReadFile(l.file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, call) {
			n++
		}
	}
	return n
}
