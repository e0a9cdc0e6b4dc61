// Package threads reserves the threads that this program is going to need, and has them yield to executions that wait.
package threads

/*
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;

static void *wait_at_the_door(void *unused) {
    pthread_mutex_lock(&door);
    pthread_mutex_unlock(&door);
    return NULL;
}

// weft_threads starts up to most threads at once, and returns how many there were. They have ended then.
static int weft_threads(int most) {
    int made = 0;
    pthread_t *all = calloc(most, sizeof *all);
    pthread_mutex_lock(&door);
    while (all != NULL && made < most && pthread_create(&all[made], NULL, wait_at_the_door, NULL) == 0) made++;
    pthread_mutex_unlock(&door);
    for (int i = 0; i < made; i++) pthread_join(all[i], NULL);
    free(all);
    return made;
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
)

// TooFewError says that the system does not give this program the threads that it needs.
type TooFewError struct{ Had, Needed int }

func (e *TooFewError) Error() string {
	return fmt.Sprintf("the system has only %d more threads for this program, which needs %d; raise the limit of "+
		"processes and threads (ulimit -u, TasksMax of systemd, pids.max of the control group, --pids-limit of docker), "+
		"or end other programs of the user", e.Had, e.Needed)
}

// Reserve starts so many threads of its own, which this program keeps. Go's runtime starts a thread when one is
// missing, such as while others wait in system calls, and ends the program if the system gives it none; it never gives
// up an idle thread. The error is a *TooFewError if the system does not have these and `others` more, for programs that
// this one starts.
func Reserve(own, others int) error {
	// The threads of C can be asked for without the end of the program.
	if had := int(C.weft_threads(C.int(own + others))); had < own+others {
		return &TooFewError{had, own + others}
	}
	var begun, ended sync.WaitGroup
	begun.Add(own)
	open := make(chan struct{})
	for range own {
		ended.Go(func() {
			runtime.LockOSThread() // so that each has a thread of its own
			defer runtime.UnlockOSThread()
			begun.Done()
			<-open
		})
	}
	begun.Wait()
	close(open)
	ended.Wait()
	return nil
}
