// Package progress shows how far a command is.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
)

// How often progress is shown.
const (
	onTerminal = 200 * time.Millisecond
	inLog      = 10 * time.Second
)

// What a terminal takes: a line that is too long for it is cut, since only the last of several rows could be rewritten.
const (
	uncut, cut = "\x1b[?7h", "\x1b[?7l"
	toEnd      = "\x1b[K"
)

// Line shows progress: on a terminal in one line that is rewritten, else in a line now and then.
type Line struct {
	out      io.Writer
	verb     string // what is done, for the lines that stand alone
	say      func() string
	terminal bool

	mu           sync.Mutex // held while out is written
	lineIsThere  bool       // guarded by mu; on the terminal
	close        sync.Once
	stop, closed chan struct{}
}

// Start shows what say returns until Close; "" is nothing to be shown. say is called from one goroutine.
func Start(out io.Writer, verb string, say func() string) *Line {
	return start(out, verb, say, Terminal(out))
}

func start(out io.Writer, verb string, say func() string, terminal bool) *Line {
	l := &Line{
		out: out, verb: verb, say: say, terminal: terminal, stop: make(chan struct{}), closed: make(chan struct{}),
	}
	every := inLog
	if terminal {
		every = onTerminal
	}
	go l.run(every)
	return l
}

// Terminal reports whether out is a terminal on which a line can be rewritten.
func Terminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // a character device, too
	return err != nil || !os.SameFile(info, null)
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

// Close ends it and removes its line from the terminal. It may be called again. Write works on.
func (l *Line) Close() {
	l.close.Do(func() { close(l.stop) })
	<-l.closed
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked()
}

// Write writes something else than progress, in whole lines.
func (l *Line) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked()
	return l.out.Write(text)
}

func (l *Line) clearLocked() {
	if l.lineIsThere {
		fmt.Fprint(l.out, "\r"+toEnd)
		l.lineIsThere = false
	}
}

func (l *Line) tell() {
	line := strings.Map(printed, l.say())
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case line == "":
		l.clearLocked()
	case l.terminal:
		fmt.Fprintf(l.out, "\r"+cut+"%s"+toEnd+uncut, line)
		l.lineIsThere = true
	default:
		fmt.Fprintf(l.out, "%s: %s\n", l.verb, line)
	}
}

// printed replaces what a terminal might act on: names in a line may be those of files.
func printed(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}
