package sandbox_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/worker/sandbox"
	"github.com/weftserve/weft/runtime/worker/sandbox/sandboxtest"
)

// The test binary is its own victim: it performs the acts if it is started so.
const (
	free     = "act-free"
	confined = "act-confined"
)

func TestMain(m *testing.M) {
	if len(os.Args) != 3 || os.Args[1] != free && os.Args[1] != confined {
		os.Exit(m.Run())
	}
	var w world
	if err := json.Unmarshal([]byte(os.Args[2]), &w); err != nil {
		panic(err)
	}
	prepare()
	before := start()
	if os.Args[1] == free {
		perform(before, free, &w)
		return
	}
	report, err := json.Marshal((&sandbox.Policy{Readable: []string{w.Allowed}, GPU: w.GPU}).Apply())
	if err != nil {
		panic(err)
	}
	fmt.Println("report", string(report))
	fmt.Println("threads", unconfinedThreads())
	perform(before, "before", &w)
	perform(start(), "after", &w)
	runtime.GC() // Go's own signals and timers
}

func start() *sandboxtest.Thread {
	t, err := sandboxtest.Start()
	if err != nil {
		panic(err)
	}
	return t
}

// unconfinedThreads counts the threads of this process that lack a filter or could gain rights.
func unconfinedThreads() (n int) {
	all, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(all) < 2 {
		return -1
	}
	for _, file := range all {
		status, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(status, []byte("\nSeccomp:\t2\n")) ||
			!bytes.Contains(status, []byte("\nNoNewPrivs:\t1\n")) {
			n++
		}
	}
	return n
}

func makeWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Allowed: t.TempDir(), Other: t.TempDir()}
	for _, file := range []string{w.Allowed + "/file", w.Allowed + "/removed", w.Other + "/file"} {
		if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.Socket = filepath.Join(w.Other, "socket")
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": w.Socket} {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if tcp, is := l.Addr().(*net.TCPAddr); is {
			w.Port = tcp.Port
		}
	}
	abstract, err := net.Listen("unix", "@"+w.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { abstract.Close() })
	return w
}

// outcome is what a victim said.
type outcome struct {
	acts    map[string]syscall.Errno // by thread and act
	report  sandbox.Report
	threads string
	ended   *os.ProcessState
	stderr  string
}

// try has a victim perform the acts in a world of its own.
func try(t *testing.T, as string, gpu bool) outcome {
	t.Helper()
	w := makeWorld(t)
	w.GPU = gpu
	encoded, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.CommandContext(t.Context(), "/proc/self/exe", as, string(encoded))
	victim.Args[0] = os.Args[0]
	var stderr strings.Builder
	victim.Stderr = &stderr
	said, _ := victim.Output() // that it was ended is seen below
	o := outcome{acts: map[string]syscall.Errno{}, ended: victim.ProcessState, stderr: stderr.String()}
	lines := bufio.NewScanner(bytes.NewReader(said))
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "report":
			if err := json.Unmarshal([]byte(rest), &o.report); err != nil {
				t.Fatal(err)
			}
		case "threads":
			o.threads = rest
		default:
			at := strings.LastIndex(rest, " ")
			errno, err := strconv.Atoi(rest[at+1:])
			if err != nil {
				t.Fatal(err)
			}
			o.acts[word+" "+rest[:at]] = syscall.Errno(errno)
		}
	}
	return o
}

// of returns how an act of a thread ended. One that said nothing went all too well.
func (o *outcome) of(thread, act string) syscall.Errno { return o.acts[thread+" "+strconv.Quote(act)] }

func refused(err syscall.Errno) bool {
	return err == unix.EPERM || err == unix.EACCES || err == unix.ENOSYS
}

// TestActs tries each act from native code, on threads that were there before the sandbox and after. Without a sandbox
// each must be possible, or else its refusal proves nothing.
func TestActs(t *testing.T) {
	unbound, bound := try(t, free, false), try(t, confined, false)
	if bound.stderr != "" {
		t.Errorf("the confined process said:\n%s", bound.stderr)
	}
	if bound.report.Landlock > 0 && len(bound.report.Missing) == 0 && bound.threads != "0" {
		t.Errorf("%s threads are not confined", bound.threads)
	}
	if !bound.ended.Success() {
		t.Errorf("the confined process ended with %v", bound.ended)
	}
	for _, a := range acts() {
		t.Run(a.name, func(t *testing.T) {
			skipUnless(t, a.by, &bound.report)
			if s, _ := unbound.ended.Sys().(syscall.WaitStatus); a.name == "a call of a 32-bit program" && s.Signaled() {
				t.Skip("this kernel runs no 32-bit programs")
			}
			if err := unbound.of(free, a.name); refused(err) {
				t.Logf("it proves little here: without a sandbox it is refused too, with %v", err)
			}
			for _, thread := range []string{"before", "after"} {
				if err := bound.of(thread, a.name); refused(err) != (a.by != "") {
					t.Errorf("on a thread from %s the sandbox: %v", thread, err)
				}
			}
		})
	}
}

func skipUnless(t *testing.T, by string, r *sandbox.Report) {
	t.Helper()
	if by == "landlock" && r.Landlock == 0 || by == "seccomp" && strings.Contains(strings.Join(r.Missing, ""), "network") {
		t.Skipf("this kernel cannot refuse it: %s", strings.Join(r.Missing, "; "))
	}
}

// TestGPU: what the driver needs is possible, and nothing else.
func TestGPU(t *testing.T) {
	bound := try(t, confined, true)
	for _, a := range acts() {
		skipUnless(t, a.by, &bound.report)
		for _, thread := range []string{"before", "after"} {
			if err := bound.of(thread, a.name); refused(err) != (a.by != "" && a.name != naming) {
				t.Errorf("%s on a thread from %s the sandbox: %v", a.name, thread, err)
			}
		}
	}
}
