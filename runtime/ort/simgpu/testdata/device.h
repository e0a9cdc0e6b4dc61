// The simulated GPU: memory that only its own threads reach, streams whose work comes later, and faults.
#ifndef SIMGPU_DEVICE_H
#define SIMGPU_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Values of cudaError_t that the simulator itself gives.
enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    ILLEGAL_ADDRESS = 700,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    UNKNOWN = 999,
};

// Calls that can be made to fail, and are counted.
enum { KERNEL, TO_DEVICE, TO_HOST, ALLOCATE, RELEASE, WAIT, CAPTURE, REPLAY, CALLS };

// The page that a test and all processes with this library share; gpu_linux.go has the same fields in the same order.
struct control {
    atomic_llong size;        // bytes of this structure
    atomic_llong delay;       // nanoseconds before each piece of work of a stream, and ten times that before the end of a capture
    atomic_llong unwaited;    // 1: cudaStreamSynchronize does not wait
    atomic_llong misbound;    // 1: memory that Weft says is the device's is bound as the processor's
    atomic_llong fail_call;   // one of the calls above
    atomic_llong fail_after;  // it fails when so many more have been made; negative: never
    atomic_llong fail_code;   // with this cudaError_t
    atomic_llong reserved;    // bytes of device memory that sessions and graphs hold now
    atomic_llong made[CALLS]; // calls that did not fail
};
extern struct control *control;

// Every call of a device begins here: the error that it must return, or 0. A fault of a device is for good.
int begin_call(int call);
// begin_exclusive is begin_call for calls that no capture endures, whoever makes them.
int begin_exclusive(int call);
const char *error_text(int code);

// Device memory. An address that the processor sees has no access rights; reach gives the one for the device's own
// work, or NULL for memory that is not the device's.
void *device_allocate(size_t size);
void device_free(void *p);
void *reach(const void *p, size_t size);

struct work {
    void (*run)(struct work *);
    struct work *next;
    size_t bytes; // of the structure that it begins
    long pushed;  // the moment at which it was
};
struct stream;

struct stream *stream_new(void);
void stream_free(struct stream *);
// stream_push takes a copy of the structure of so many bytes that work begins.
void stream_push(struct stream *, const struct work *, size_t bytes);
int stream_wait(struct stream *);
// stream_count is the number of works pushed so far; stream_wait_until waits until that many have been done.
long stream_count(struct stream *);
void stream_wait_until(struct stream *, long count);
// done_before reports whether all work that had been pushed to any stream at a moment has been done.
long moment(void);
bool done_before(long moment);

// A capture records the work of one stream instead of doing it. Meanwhile calls of other threads that allocate or wait
// fail, and so does the capture.
struct graph;
int capture_begin(struct stream *);
int capture_end(struct stream *, struct graph **);
int graph_replay(struct stream *, const struct graph *);
void graph_free(struct graph *);

// copy_later pushes a copy between host and device, by kind.
enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2, DEVICE_TO_DEVICE = 3 };
int copy_later(struct stream *, void *to, const void *from, size_t size, int kind);

void fault(int code); // loses the device for this process
int lost(void);

#endif
