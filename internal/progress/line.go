// Package progress shows how far a command is.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// How often progress is shown.
const (
	onTerminal = 200 * time.Millisecond
	inLog      = 10 * time.Second
)

// Line shows progress: on a terminal in one line that is rewritten, else in a line now and then.
type Line struct {
	out      io.Writer
	verb     string // what is done, for the lines that stand alone
	say      func() string
	terminal bool

	mu           sync.Mutex // held while out is written
	lineIsThere  bool       // guarded by mu; on the terminal
	stop, closed chan struct{}
}

// Start shows what say returns until Close. say is called from one goroutine.
func Start(out io.Writer, verb string, say func() string) *Line {
	l := &Line{out: out, verb: verb, say: say, stop: make(chan struct{}), closed: make(chan struct{})}
	every := inLog
	if f, ok := out.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			l.terminal, every = true, onTerminal
		}
	}
	go l.run(every)
	return l
}

func (l *Line) run(every time.Duration) {
	defer close(l.closed)
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			l.tell()
		case <-l.stop:
			return
		}
	}
}

// Close ends it and removes its line from the terminal.
func (l *Line) Close() {
	close(l.stop)
	<-l.closed
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked()
}

// Write writes something else than progress.
func (l *Line) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked()
	return l.out.Write(text)
}

func (l *Line) clearLocked() {
	if l.lineIsThere {
		fmt.Fprint(l.out, "\r\x1b[K")
		l.lineIsThere = false
	}
}

func (l *Line) tell() {
	line := l.say()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terminal {
		fmt.Fprintf(l.out, "\r%s\x1b[K", line)
		l.lineIsThere = true
	} else {
		fmt.Fprintf(l.out, "%s: %s\n", l.verb, line)
	}
}
