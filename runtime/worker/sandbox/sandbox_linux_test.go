package sandbox_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
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

// world is what a process may not reach, which the test made.
type world struct {
	Allowed string // a folder that it may read, with a file named file
	Other   string // one that it may not
	Port    int    // of a listener on 127.0.0.1
	Socket  string // a Unix socket by its path, which is its abstract name too
	GPU     bool
}

// act is something that native code tries.
type act struct {
	name string
	by   string // what refuses it, landlock or seccomp; "": it must be possible
	do   func(t *sandboxtest.Thread, w *world) error
}

// prepared are descriptors that were opened before the sandbox.
var prepared struct{ tcp, abstract, path, pipe int }

func prepare() {
	prepared.tcp, _ = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	prepared.abstract, _ = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	prepared.path, _ = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	var pipe [2]int
	_ = unix.Pipe(pipe[:])
	prepared.pipe = pipe[0]
}

// call makes acts of one system call.
func call(number uintptr, arguments ...uintptr) func(*sandboxtest.Thread, *world) error {
	return func(t *sandboxtest.Thread, _ *world) error {
		_, err := t.Call(number, arguments...)
		return err
	}
}

// open makes acts that open a file, whose path is made of the world's.
func open(flags uintptr, path func(*world) string) func(*sandboxtest.Thread, *world) error {
	return func(t *sandboxtest.Thread, w *world) error {
		here := unix.AT_FDCWD
		_, err := t.Call(unix.SYS_OPENAT, uintptr(here), sandboxtest.Text(path(w)), flags, 0o600)
		return err
	}
}

func always(path string) func(*world) string { return func(*world) string { return path } }

func other(w *world) string { return filepath.Join(w.Other, "file") }

func allowed(w *world) string { return filepath.Join(w.Allowed, "file") }

func ofParent(name string) func(*world) string {
	return always(fmt.Sprintf("/proc/%d/%s", os.Getppid(), name))
}

// connectTo makes acts that connect a descriptor.
func connectTo(file *int, address func(*world) []byte) func(*sandboxtest.Thread, *world) error {
	return func(t *sandboxtest.Thread, w *world) error {
		a := address(w)
		_, err := t.Call(unix.SYS_CONNECT, uintptr(*file), sandboxtest.Bytes(a), uintptr(len(a)))
		if err == unix.EISCONN { //nolint:errorlint // of another thread
			return nil
		}
		return err
	}
}

func tcpAddress(w *world) []byte {
	a := make([]byte, unix.SizeofSockaddrInet4)
	binary.NativeEndian.PutUint16(a, unix.AF_INET)
	binary.BigEndian.PutUint16(a[2:], uint16(w.Port))
	copy(a[4:], net.IPv4(127, 0, 0, 1).To4())
	return a
}

func unixAddress(prefix string) func(*world) []byte {
	return func(w *world) []byte {
		a := binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX)
		return append(a, prefix+w.Socket...)
	}
}

// naming is the one act that a GPU's driver needs and that others are refused.
const naming = "name a thread as the GPU's driver does"

// acts lists what is tried, in this order. The last end the process if they are possible.
func acts() []act {
	parent := uintptr(os.Getppid())
	self := uintptr(os.Getpid())
	empty := sandboxtest.Text("")
	room, none := sandboxtest.Bytes(make([]byte, 16)), sandboxtest.Bytes(make([]byte, 16)) // for answers; an empty list
	// Requests to fcntl have 32 bits.
	const upper = 7 << 32
	return []act{
		{"socket of IPv4", "seccomp", call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0)},
		{"socket of IPv6", "seccomp", call(unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_DGRAM, 0)},
		{"socket of the kernel", "seccomp", call(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, 0)},
		{"datagram socket", "seccomp", call(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_DGRAM, 0)},
		{"pair of datagram sockets", "seccomp", call(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_DGRAM, 0, room)},
		{"pair of raw sockets", "seccomp", call(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_RAW, 0, room)},
		{"connection by TCP", "seccomp", connectTo(&prepared.tcp, tcpAddress)},
		{"connection to an abstract socket", "seccomp", connectTo(&prepared.abstract, unixAddress("\x00"))},
		{"connection to a socket's path", "seccomp", connectTo(&prepared.path, unixAddress(""))},

		{"read a system file", "landlock", open(unix.O_RDONLY, always("/etc/passwd"))},
		{"read another folder", "landlock", open(unix.O_RDONLY, other)},
		{"list another folder", "landlock", open(unix.O_DIRECTORY, func(w *world) string { return w.Other })},
		{"write another folder", "landlock", open(unix.O_WRONLY, other)},
		{
			"create in another folder", "landlock",
			open(unix.O_WRONLY|unix.O_CREAT, func(w *world) string { return w.Other + "/new" }),
		},
		{"write a readable folder", "landlock", open(unix.O_RDWR, allowed)},
		{
			"create in a readable folder", "landlock",
			open(unix.O_WRONLY|unix.O_CREAT, func(w *world) string { return w.Allowed + "/new" }),
		},
		{"cut a readable file by opening it", "landlock", open(unix.O_RDONLY|unix.O_TRUNC, allowed)},
		{"remove a readable file", "landlock", func(t *sandboxtest.Thread, w *world) error {
			here := unix.AT_FDCWD
			_, err := t.Call(unix.SYS_UNLINKAT, uintptr(here), sandboxtest.Text(w.Allowed+"/removed"), 0)
			if err == unix.ENOENT { //nolint:errorlint // another thread was there first
				return nil
			}
			return err
		}},
		{"read the server's environment", "landlock", open(unix.O_RDONLY, ofParent("environ"))},
		{"read the server's memory", "landlock", open(unix.O_RDWR, ofParent("mem"))},
		{"read the server's command line", "landlock", open(unix.O_RDONLY, ofParent("cmdline"))},
		{"list the devices", "landlock", open(unix.O_RDONLY, always("/dev"))},
		{naming, "landlock", open(unix.O_WRONLY|unix.O_TRUNC, always("/proc/thread-self/comm"))},
		{"cut a readable file", "seccomp", func(t *sandboxtest.Thread, w *world) error {
			_, err := t.Call(unix.SYS_TRUNCATE, sandboxtest.Text(allowed(w)), 0)
			return err
		}},
		{"change a mode", "seccomp", func(t *sandboxtest.Thread, w *world) error {
			here := unix.AT_FDCWD
			_, err := t.Call(unix.SYS_FCHMODAT, uintptr(here), sandboxtest.Text(other(w)), 0o600)
			return err
		}},

		{"attach to the server", "seccomp", call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, parent, 0, 0)},
		{"read the server's memory by a call", "seccomp", call(unix.SYS_PROCESS_VM_READV, parent, none, 0, none, 0, 0)},
		{"signal the server", "seccomp", call(unix.SYS_KILL, parent, 0)},
		{"signal every process", "seccomp", call(unix.SYS_KILL, ^uintptr(0), 0)},
		{"signal a thread of the server", "seccomp", call(unix.SYS_TGKILL, parent, parent, 0)},
		{"signal a thread", "seccomp", call(unix.SYS_TKILL, parent, 0)},
		{"signal the server by a descriptor", "seccomp", func(t *sandboxtest.Thread, _ *world) error {
			file, err := t.Call(unix.SYS_PIDFD_OPEN, parent, 0)
			if err == nil {
				_, err = t.Call(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(file), 0, 0, 0)
			}
			return err
		}},
		{"have the server signalled", "seccomp", func(t *sandboxtest.Thread, _ *world) error {
			_, err := t.Call(unix.SYS_FCNTL, uintptr(prepared.pipe), unix.F_SETOWN, parent)
			return err
		}},
		{"have the server signalled, in 64 bits", "seccomp", func(t *sandboxtest.Thread, _ *world) error {
			_, err := t.Call(unix.SYS_FCNTL, uintptr(prepared.pipe), unix.F_SETOWN|upper, parent)
			return err
		}},
		{"have the server signalled by a socket", "seccomp", func(t *sandboxtest.Thread, _ *world) error {
			_, err := t.Call(unix.SYS_IOCTL, uintptr(prepared.path), unix.SIOCSPGRP|upper,
				sandboxtest.Bytes(binary.NativeEndian.AppendUint32(nil, uint32(parent))))
			return err
		}},
		{"limit the server", "seccomp", call(unix.SYS_PRLIMIT64, parent, unix.RLIMIT_CORE, 0, 0)},
		{"share memory by a key", "seccomp", call(unix.SYS_SHMGET, unix.IPC_PRIVATE, 4096, 0o600)},

		{"mount", "seccomp", call(unix.SYS_MOUNT, 0, 0, 0, 0, 0)},
		{"another namespace", "seccomp", call(unix.SYS_UNSHARE, unix.CLONE_NEWUTS)},
		{"io_uring", "seccomp", call(unix.SYS_IO_URING_SETUP, 1, 0)},
		{"programs for the kernel", "seccomp", call(unix.SYS_BPF, 0, 0, 0)},
		{"a call that nobody knows", "seccomp", call(9999)},

		{"another process by clone", "seccomp", call(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0)},
		{"another process by clone3", "seccomp", func(t *sandboxtest.Thread, _ *world) error {
			flags := make([]byte, 64) // struct clone_args
			binary.NativeEndian.PutUint64(flags[32:], uint64(unix.SIGCHLD))
			_, err := t.Call(unix.SYS_CLONE3, sandboxtest.Bytes(flags), uintptr(len(flags)))
			return err
		}},
		{"a program in memory", "seccomp", func(t *sandboxtest.Thread, _ *world) error {
			file, err := t.Call(unix.SYS_MEMFD_CREATE, empty, 0)
			if err != nil {
				return fmt.Errorf("there is no file in memory: %w", err) // which says nothing of the act
			}
			_, err = t.Call(unix.SYS_EXECVEAT, uintptr(file), empty, none, none, unix.AT_EMPTY_PATH)
			if err == unix.ENOEXEC { //nolint:errorlint // it is empty
				return nil
			}
			return err
		}},

		{"another thread", "", func(*sandboxtest.Thread, *world) error {
			_, err := sandboxtest.Start()
			return err
		}},
		{"read what is allowed", "", open(unix.O_RDONLY, allowed)},
		{"list what is allowed", "", open(unix.O_DIRECTORY, func(w *world) string { return w.Allowed })},
		{"its own memory map", "", open(unix.O_RDONLY, always("/proc/self/maps"))},
		{"the processors", "", open(unix.O_RDONLY, always("/sys/devices/system/cpu/possible"))},
		{"list its descriptors", "", open(unix.O_DIRECTORY, always("/proc/self/fd"))},
		{"list the processors", "", open(unix.O_DIRECTORY, always("/sys/devices/system/cpu"))},
		{"random numbers", "", open(unix.O_RDONLY, always("/dev/urandom"))},
		{"a descriptor for nothing", "", open(unix.O_WRONLY, always("/dev/null"))},
		{"memory by a descriptor", "", call(unix.SYS_MEMFD_CREATE, empty, 0)},
		{"signal itself", "", call(unix.SYS_KILL, self, 0)},
		{"its own limits", "", call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, room)},
		{"flags of a descriptor", "", call(unix.SYS_FCNTL, 0, unix.F_GETFL, 0)},
		{"pair of stream sockets", "", call(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM, 0, room)},

		{"a call of a 32-bit program", "seccomp", func(t *sandboxtest.Thread, _ *world) error {
			const getpid = 20
			_, err := t.CallForeign(getpid)
			return err
		}},
		{"a program", "seccomp", call(unix.SYS_EXECVE, sandboxtest.Text("/bin/true"), none, none)},
	}
}

// perform tries every act on a thread, and says how each ended before the next one.
func perform(t *sandboxtest.Thread, as string, w *world) {
	for _, a := range acts() {
		err := a.do(t, w)
		fmt.Println(as, strconv.Quote(a.name), int(errnoOf(err)))
	}
}

func errnoOf(err error) syscall.Errno {
	errno, _ := err.(syscall.Errno) //nolint:errorlint // nobody wraps it
	return errno
}
