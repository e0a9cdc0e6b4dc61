package worker_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/worker/sandbox"
)

// sight is what a model finds in its process: variables, descriptors, and whether a file of the system can be read.
func sight() []string {
	found := os.Environ()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return append(found, err.Error())
	}
	for _, link := range all {
		if target, err := os.Readlink(link); err == nil {
			found = append(found, "descriptor of "+target)
		}
	}
	if _, err := os.ReadFile("/etc/passwd"); err != nil {
		found = append(found, "denied")
	}
	return found
}

// TestConfined: a model sees neither the server's secrets nor its files, by their paths or by descriptors that it
// inherited, and the log says so once.
func TestConfined(t *testing.T) {
	const secret = "WEFT_TEST_SECRET"
	t.Setenv(secret, "told")
	t.Setenv("CUDA_TEST_SETTING", "told")
	file, err := os.Create(filepath.Join(t.TempDir(), "inherited"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETFD, 0); err != nil { // as one that the server was started with
		t.Fatal(err)
	}
	p, log := newPool(t)
	for range 2 {
		o := openModel(t, p, onCPU, model{Opens: "looks"})
		seen := strings.Join(o.Notes, "\n")
		if strings.Contains(seen, secret) || strings.Contains(seen, "inherited") {
			t.Errorf("a model sees:\n%s", seen)
		}
		if !strings.Contains(seen, "CUDA_TEST_SETTING=told") {
			t.Errorf("a model misses settings of its libraries:\n%s", seen)
		}
		guarded := len(log.Lines("landlock=0")) == 0
		if slices.Contains(o.Notes, "denied") != guarded {
			t.Errorf("a file of the system; %v:\n%s", log.Lines("sandbox"), seen)
		}
	}
	told := len(log.Event("worker_sandboxed")) + len(log.Event("worker_sandbox_incomplete"))
	if told != 1 {
		t.Errorf("told %d times: %v", told, log.Lines("sandbox"))
	}
	if len(log.Event("worker_sandboxed")) == 0 {
		t.Skipf("this kernel cannot confine processes: %v", log.Lines("sandbox"))
	}
}

// TestUnconfined: without a policy a process may do what the server may.
func TestUnconfined(t *testing.T) {
	p, log := newPoolWith(t, nil, 0)
	o := openModel(t, p, onCPU, model{Opens: "looks"})
	if slices.Contains(o.Notes, "denied") || len(log.Lines("sandbox")) > 0 {
		t.Errorf("a file of the system cannot be read; %v", log.Lines("sandbox"))
	}
}

// testPolicy allows what tests have models open: the examples, and ONNX Runtime in the source tree.
func testPolicy(t testing.TB) *sandbox.Policy {
	t.Helper()
	p := &sandbox.Policy{}
	for _, folder := range []string{"../../examples", "../../.weft/onnxruntime", "../../go.mod"} {
		absolute, err := filepath.Abs(folder)
		if err != nil {
			t.Fatal(err)
		}
		p.Readable = append(p.Readable, absolute)
	}
	return p
}
