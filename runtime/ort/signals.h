#ifndef WEFT_SIGNALS_H
#define WEFT_SIGNALS_H

#include <signal.h>

// weft_signals is the handler of each signal of the process.
typedef struct {
    struct sigaction actions[NSIG];
} weft_signals;

void weft_signals_save(weft_signals *s);
// weft_signals_restore puts back each handler that is another now.
void weft_signals_restore(const weft_signals *s);

#endif
