package ort

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelAction is the kernel's struct sigaction on amd64 and arm64.
type kernelAction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// sigaction goes past the Go runtime, as a C library does.
func sigaction(t *testing.T, action, old *kernelAction) {
	t.Helper()
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGUSR1),
		uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(old)), unsafe.Sizeof(kernelAction{}.mask), 0, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
}

func TestKeepSignals(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGUSR1)
	defer signal.Stop(caught)
	var before, after kernelAction
	sigaction(t, nil, &before)

	fault := errors.New("no CUDA here")
	got, err := keepSignals(func() (int, error) {
		sigaction(t, &kernelAction{handler: 1}, nil) // SIG_IGN
		return 7, fault
	})
	if got != 7 || !errors.Is(err, fault) {
		t.Errorf("got %v, %v, want what the function returned", got, err)
	}
	if sigaction(t, nil, &after); before != after {
		t.Fatalf("handler: got %+v, want %+v", after, before)
	}
	if err := syscall.Kill(syscall.Getpid(), unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	<-caught
}
