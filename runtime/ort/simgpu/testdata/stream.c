#define _GNU_SOURCE
#include "device.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct graph {
    struct work *first, **last;
};

struct stream {
    pthread_t thread;
    pthread_cond_t news;
    struct work *first, **last; // not yet done
    long pushed, done;
    bool ending;
    struct graph *capture; // not NULL while work is recorded
    struct stream *next;   // of all
};

// One lock for all: work is done without it.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *all;
static long now; // counts works pushed to any stream
static struct {
    struct stream *stream; // NULL: no capture
    pthread_t thread;
    bool spoiled;
} capturing;

static void be_late(void) {
    long long n = control->delay;
    struct timespec delay = {n / 1000000000, n % 1000000000};
    if (n > 0) nanosleep(&delay, NULL);
}

static void *serve(void *arg) {
    struct stream *s = arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (s->first == NULL && !s->ending) pthread_cond_wait(&s->news, &lock);
        struct work *w = s->first;
        if (w == NULL) break;
        pthread_mutex_unlock(&lock);
        be_late();
        if (!lost()) w->run(w);
        pthread_mutex_lock(&lock);
        s->first = w->next;
        if (s->first == NULL) s->last = &s->first;
        free(w);
        s->done++;
        pthread_cond_broadcast(&s->news);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

struct stream *stream_new(void) {
    struct stream *s = calloc(1, sizeof *s);
    s->last = &s->first;
    pthread_cond_init(&s->news, NULL);
    sigset_t every, before; // signals are for the program's own threads
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    int failed = pthread_create(&s->thread, NULL, serve, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) abort();
    pthread_mutex_lock(&lock);
    s->next = all;
    all = s;
    pthread_mutex_unlock(&lock);
    return s;
}

void stream_free(struct stream *s) {
    pthread_mutex_lock(&lock);
    s->ending = true;
    pthread_cond_broadcast(&s->news);
    pthread_mutex_unlock(&lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_lock(&lock);
    for (struct stream **at = &all; *at != NULL; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&s->news);
    free(s);
}

static struct work *copy_of(const struct work *w, size_t bytes) {
    struct work *c = malloc(bytes);
    memcpy(c, w, bytes);
    c->bytes = bytes;
    c->next = NULL;
    return c;
}

void stream_push(struct stream *s, const struct work *w, size_t bytes) {
    struct work *c = copy_of(w, bytes);
    pthread_mutex_lock(&lock);
    if (s->capture != NULL) {
        *s->capture->last = c;
        s->capture->last = &c->next;
    } else {
        c->pushed = ++now;
        *s->last = c;
        s->last = &c->next;
        s->pushed++;
        pthread_cond_broadcast(&s->news);
    }
    pthread_mutex_unlock(&lock);
}

long stream_count(struct stream *s) {
    pthread_mutex_lock(&lock);
    long n = s->pushed;
    pthread_mutex_unlock(&lock);
    return n;
}

void stream_wait_until(struct stream *s, long count) {
    pthread_mutex_lock(&lock);
    while (s->done < count) pthread_cond_wait(&s->news, &lock);
    pthread_mutex_unlock(&lock);
}

int stream_wait(struct stream *s) {
    int code = begin_exclusive(WAIT);
    stream_wait_until(s, stream_count(s)); // a lost device, too, has stopped touching the host's memory
    return code ? code : lost();
}

long moment(void) {
    pthread_mutex_lock(&lock);
    long m = now;
    pthread_mutex_unlock(&lock);
    return m;
}

bool done_before(long moment) {
    bool done = true;
    pthread_mutex_lock(&lock);
    for (struct stream *s = all; s != NULL && done; s = s->next) done = s->first == NULL || s->first->pushed > moment;
    pthread_mutex_unlock(&lock);
    return done;
}

// begin_exclusive begins a call that no capture endures: not one of another thread, nor the one it is made in.
int begin_exclusive(int call) {
    int code = begin_call(call);
    pthread_mutex_lock(&lock);
    if (capturing.stream != NULL) {
        capturing.spoiled = true;
        if (code == 0) code = CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

int capture_begin(struct stream *s) {
    int code = begin_call(CAPTURE);
    if (code != 0) return code;
    pthread_mutex_lock(&lock);
    if (capturing.stream != NULL) {
        capturing.spoiled = true;
        code = CAPTURE_UNSUPPORTED;
    } else {
        capturing.stream = s;
        capturing.spoiled = false;
        s->capture = calloc(1, sizeof *s->capture);
        s->capture->last = &s->capture->first;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

int capture_end(struct stream *s, struct graph **graph) {
    for (int i = 0; i < 10; i++) be_late(); // others may come in between
    pthread_mutex_lock(&lock);
    *graph = s->capture;
    s->capture = NULL;
    capturing.stream = NULL;
    bool spoiled = capturing.spoiled;
    pthread_mutex_unlock(&lock);
    if (!spoiled) return lost();
    graph_free(*graph);
    *graph = NULL;
    return CAPTURE_INVALIDATED;
}

int graph_replay(struct stream *s, const struct graph *g) {
    int code = begin_call(REPLAY);
    for (struct work *w = g->first; w != NULL && code == 0; w = w->next) stream_push(s, w, w->bytes);
    return code;
}

void graph_free(struct graph *g) {
    for (struct work *w = g->first; w != NULL;) {
        struct work *next = w->next;
        free(w);
        w = next;
    }
    free(g);
}

struct copy {
    struct work work;
    void *to;
    const void *from;
    size_t size;
};

static void copy(struct work *w) {
    struct copy *c = (struct copy *)w;
    memcpy(c->to, c->from, c->size);
}

int copy_later(struct stream *s, void *to, const void *from, size_t size, int kind) {
    int code = begin_call(kind == DEVICE_TO_HOST ? TO_HOST : TO_DEVICE);
    if (code != 0) return code;
    struct copy c = {{.run = copy}, to, from, size};
    void *device_to = reach(to, size), *device_from = reach(from, size);
    // An address on the other side is taken as it is: the copy faults if it is the device's.
    if (kind != DEVICE_TO_HOST && (c.to = device_to) == NULL) return INVALID_VALUE;
    if (kind != HOST_TO_DEVICE && (c.from = device_from) == NULL) return INVALID_VALUE;
    stream_push(s, &c.work, sizeof c);
    return 0;
}
