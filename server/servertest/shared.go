package servertest

import (
	"os"
	"path/filepath"
	"testing"
)

// SharedMemory returns POSIX shared memory of so many bytes, and its key. It is gone at the end of the test.
func SharedMemory(t testing.TB, bytes int64) (key string, memory *os.File) {
	t.Helper()
	const folder = "/dev/shm"
	if _, err := os.Stat(folder); err != nil {
		t.Skip(err)
	}
	memory, err := os.CreateTemp(folder, "weft-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = memory.Close()
		_ = os.Remove(memory.Name())
	})
	if err := memory.Truncate(bytes); err != nil {
		t.Fatal(err)
	}
	return "/" + filepath.Base(memory.Name()), memory
}
