//go:build linux

// Package sandboxtest makes system calls as the native code of an engine does, to see which of them a sandbox refuses.
package sandboxtest

/*
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
	sem_t ask, answer;
	long number, arguments[6], result;
	int error, foreign;
} native_thread;

// native_foreign makes a system call as programs for another architecture do, which this processor can run too.
static long native_foreign(long number) {
#ifdef __x86_64__
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(0), "c"(0), "d"(0)
		: "memory", "r8", "r9", "r10", "r11");
	return result;
#else
	return -ENOSYS;
#endif
}

static void *native_serve(void *p) {
	native_thread *t = p;
	for (;;) {
		while (sem_wait(&t->ask) != 0) {}
		long *a = t->arguments;
		if (t->foreign) {
			long result = native_foreign(t->number);
			t->result = result < 0 ? -1 : result;
			t->error = result < 0 ? -result : 0;
		} else {
			t->result = syscall(t->number, a[0], a[1], a[2], a[3], a[4], a[5]);
			t->error = t->result == -1 ? errno : 0;
		}
		if (t->result == 0 && (t->number == SYS_clone || t->number == SYS_clone3
#ifdef SYS_fork
			|| t->number == SYS_fork
#endif
			)) {
			_exit(0); // this is the other process
		}
		sem_post(&t->answer);
	}
	return NULL;
}

static native_thread *native_start(int *error) {
	native_thread *t = calloc(1, sizeof *t);
	pthread_t id;
	sem_init(&t->ask, 0, 0);
	sem_init(&t->answer, 0, 0);
	*error = pthread_create(&id, NULL, native_serve, t);
	return t;
}

static void native_call(native_thread *t) {
	sem_post(&t->ask);
	while (sem_wait(&t->answer) != 0) {}
}
*/
import "C"

import (
	"syscall"
	"unsafe"
)

// Thread is a thread that Go does not know. It lasts as long as the process. Not safe for concurrent use.
type Thread struct{ native *C.native_thread }

// Start starts a thread. The error is that of pthread_create.
func Start() (*Thread, error) {
	var failed C.int
	t := C.native_start(&failed)
	if failed != 0 {
		return nil, syscall.Errno(failed)
	}
	return &Thread{t}, nil
}

// Call makes a system call, and returns its result; the error is a syscall.Errno.
func (t *Thread) Call(number uintptr, arguments ...uintptr) (int, error) {
	return t.call(0, number, arguments)
}

// CallForeign makes a system call without arguments by the number that it has for 32-bit programs. A kernel that cannot
// run those ends the process with SIGSEGV.
func (t *Thread) CallForeign(number uintptr) (int, error) { return t.call(1, number, nil) }

func (t *Thread) call(foreign C.int, number uintptr, arguments []uintptr) (int, error) {
	t.native.foreign, t.native.number = foreign, C.long(number)
	t.native.arguments = [6]C.long{}
	for i, a := range arguments {
		t.native.arguments[i] = C.long(a)
	}
	C.native_call(t.native)
	if t.native.error != 0 {
		return 0, syscall.Errno(t.native.error)
	}
	return int(t.native.result), nil
}

// Text returns the address of a C string, which is never freed.
func Text(s string) uintptr { return uintptr(unsafe.Pointer(C.CString(s))) }

// Bytes returns the address of a copy, which is never freed.
func Bytes(b []byte) uintptr { return uintptr(C.CBytes(b)) }
