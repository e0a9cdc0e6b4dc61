// Package progress shows how far a command is.
//
// On a terminal it rewrites one line several times a second. Elsewhere, such as in a log, it writes a line every few
// seconds. What else the command prints meanwhile goes through the Line, which takes the line of progress away first.
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

// Sequences for terminals. A line that is too long is cut by turning wrapping off, since only the last of several rows
// could be rewritten.
const (
	uncut, cut = "\x1b[?7h", "\x1b[?7l"
	toEnd      = "\x1b[K"
)

// Line shows progress: in one line that is rewritten on a terminal, and elsewhere in a line every few seconds. It is a
// writer for all other output of the command, which would otherwise end up within that line.
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

// Start shows what say returns until Close, beginning after one interval: a short command shows nothing. "" shows
// nothing. say is called from one goroutine.
func Start(out io.Writer, verb string, say func() string) *Line {
	return start(out, verb, say, Terminal(out))
}

// start is Start with the kind of output chosen.
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

// run shows progress until stop is closed.
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

// Close ends the progress and removes its line from the terminal. say is not called any more once it has returned. It
// may be called again, and Write works on.
func (l *Line) Close() {
	l.close.Do(func() { close(l.stop) })
	<-l.closed
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked()
}

// Write writes other output than progress, in whole lines. The next progress comes below it.
func (l *Line) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked()
	return l.out.Write(text)
}

// clearLocked removes the line from the terminal. An output that no longer takes anything is not the command's fault,
// so that errors of it are ignored here and below.
func (l *Line) clearLocked() {
	if l.lineIsThere {
		fmt.Fprint(l.out, "\r"+toEnd)
		l.lineIsThere = false
	}
}

// tell shows what say returns now. It calls say without the lock, so that Write does not wait for it.
func (l *Line) tell() {
	line := strings.Map(printed, l.say())
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case line == "":
		l.clearLocked()
	// The line is written over the one before, and the rest of that is erased.
	case l.terminal:
		fmt.Fprintf(l.out, "\r"+cut+"%s"+toEnd+uncut, line)
		l.lineIsThere = true
	default:
		fmt.Fprintf(l.out, "%s: %s\n", l.verb, line)
	}
}

// printed replaces characters that a terminal might act on: a line may have names of files in it.
func printed(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}
