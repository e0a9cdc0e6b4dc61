#include "capi.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

// glibc takes memory of MMAP_THRESHOLD bytes or more from the system, and gives it back when it is freed; anything smaller comes from
// heaps, which shrink at their end only. It raises the threshold to the largest piece that was ever freed, up to 32 MiB: from the first
// model that is unloaded on, weights of the next ones lie in heaps, among small pieces that live longer, and stay there for good. A
// threshold that is set is not raised. This is the default one.
enum { MMAP_THRESHOLD = 128 << 10 };

void weft_heap_bound(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
#endif
}

void weft_heap_trim(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
