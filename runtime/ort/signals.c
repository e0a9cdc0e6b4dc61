#include "signals.h"

#include <string.h>

// Calls of sigaction that fail are for signals that nobody can handle, and so nobody replaced.

void weft_signals_save(weft_signals *s) {
    memset(s, 0, sizeof *s);
    for (int n = 1; n < NSIG; n++) (void)sigaction(n, NULL, &s->actions[n]);
}

void weft_signals_restore(const weft_signals *s) {
    for (int n = 1; n < NSIG; n++) {
        struct sigaction now;
        memset(&now, 0, sizeof now);
        if (sigaction(n, NULL, &now) != 0) continue;
        const struct sigaction *then = &s->actions[n];
        if (now.sa_handler != then->sa_handler || now.sa_flags != then->sa_flags) (void)sigaction(n, then, NULL);
    }
}
