#define _GNU_SOURCE
#include "device.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { UNIT = 256, CLASSES = 40 };
static const size_t REGION = (size_t)1 << 30;

struct control *control;
static char *front, *back;                              // the processor's mapping and the device's, of the same memory
static size_t used;                                     // of the region
static struct { void *free[CLASSES]; } blocks;          // by the power of two of their size
static unsigned char class_of[(size_t)1 << 22];         // of the block that begins at a unit, plus 1
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int fatal;                                // the error that the device was lost by

static void die(const char *why) {
    fprintf(stderr, "simulated GPU: %s\n", why);
    abort();
}

__attribute__((constructor)) static void load(void) {
    Dl_info self;
    char path[4096];
    if (!dladdr((void *)load, &self)) die("it does not find itself");
    snprintf(path, sizeof path, "%.*s/control", (int)(strrchr(self.dli_fname, '/') - self.dli_fname), self.dli_fname);
    int file = open(path, O_RDWR | O_CLOEXEC);
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || control == MAP_FAILED || control->size != sizeof *control) die("its control page is not gpu_linux.go's");
    close(file);
    back = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (back == MAP_FAILED) die("no memory");
    front = mremap(back, 0, REGION, MREMAP_MAYMOVE); // the same pages once more
    if (front == MAP_FAILED || mprotect(front, REGION, PROT_NONE) != 0) die("its memory cannot be mapped twice");
}

const char *error_text(int code) {
    switch (code) {
    case INVALID_VALUE: return "invalid argument";
    case OUT_OF_MEMORY: return "out of memory";
    case ILLEGAL_ADDRESS: return "an illegal memory access was encountered";
    case 714: return "hardware stack error";
    case 719: return "unspecified launch failure";
    case CAPTURE_UNSUPPORTED: return "operation not permitted when stream is capturing";
    case CAPTURE_INVALIDATED: return "operation failed due to a previous error during capture";
    default: return "unknown error";
    }
}

void fault(int code) {
    int none = 0;
    atomic_compare_exchange_strong(&fatal, &none, code);
}

int lost(void) { return fatal; }

int begin_call(int call) {
    if (fatal) return fatal;
    if (control->fail_call == call && control->fail_after >= 0 && atomic_fetch_sub(&control->fail_after, 1) == 0) {
        int code = (int)control->fail_code;
        if (code > OUT_OF_MEMORY && (code < CAPTURE_UNSUPPORTED || code == UNKNOWN)) fault(code);
        return code;
    }
    control->made[call]++;
    return 0;
}

static int class_for(size_t size) {
    int class = 0;
    while (((size_t)UNIT << class) < size) class++;
    return class;
}

void *device_allocate(size_t size) {
    if (size > REGION) return NULL;
    int class = class_for(size);
    size_t bytes = (size_t)UNIT << class;
    pthread_mutex_lock(&lock);
    char *p = blocks.free[class];
    if (p != NULL) {
        blocks.free[class] = *(void **)(p - front + back);
    } else if (used + bytes <= REGION) {
        p = front + used;
        used += bytes;
    }
    if (p != NULL) {
        class_of[(p - front) / UNIT] = (unsigned char)(class + 1);
        memset(p - front + back, 0xff, bytes < 1 << 16 ? bytes : 1 << 16); // numbers that nobody wrote are no numbers
        control->reserved += (long long)bytes;
    }
    pthread_mutex_unlock(&lock);
    return p;
}

void device_free(void *p) {
    size_t unit = (size_t)((char *)p - front) / UNIT;
    pthread_mutex_lock(&lock);
    if ((char *)p < front || unit >= sizeof class_of || class_of[unit] == 0) die("memory is freed that is not the device's");
    int class = class_of[unit] - 1;
    class_of[unit] = 0;
    *(void **)((char *)p - front + back) = blocks.free[class];
    blocks.free[class] = p;
    control->reserved -= (long long)((size_t)UNIT << class);
    pthread_mutex_unlock(&lock);
}

void *reach(const void *p, size_t size) {
    const char *at = p;
    if (at < front || at >= front + REGION || size > (size_t)(front + REGION - at)) return NULL;
    return (char *)(at - front + back);
}
