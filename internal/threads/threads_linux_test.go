package threads_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/threads"
)

// stranger is a user who has no process.
const stranger = 54321

// TestMain reserves threads under a limit if it is started with one.
func TestMain(m *testing.M) {
	var limit uint64
	if _, err := fmt.Sscan(os.Getenv("WEFT_TEST_THREADS"), &limit); err != nil {
		os.Exit(m.Run())
	}
	err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: limit, Max: limit})
	if err == nil {
		err = threads.Reserve(12, 20)
	}
	tasks, _ := os.ReadDir("/proc/self/task")
	fmt.Println(len(tasks), err)
}

func TestReserve(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may start a program as another user")
	}
	for limit, want := range map[string]string{"20": "which needs 32", "100": "<nil>"} {
		c := exec.Command("/proc/self/exe")
		c.Env = []string{"WEFT_TEST_THREADS=" + limit}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
		out, err := c.CombinedOutput()
		if errors.Is(err, unix.EACCES) {
			t.Skip("another user may not start this program")
		}
		var tasks int
		_, wrong := fmt.Sscan(string(out), &tasks)
		if err != nil || wrong != nil || !strings.Contains(string(out), want) {
			t.Errorf("a limit of %s: %v: %.300s", limit, err, out)
		}
		if want == "<nil>" && tasks < 12 {
			t.Errorf("of 12 threads there are %d", tasks)
		}
	}
}
