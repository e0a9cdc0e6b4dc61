package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"

	"github.com/weftserve/weft/internal/ask"
	"github.com/weftserve/weft/internal/config"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Options are the flags.
type Options struct {
	Once bool            `help:"Print the table once, as text, and end."`
	JSON bool            `name:"json" help:"With --once: print it as JSON."`
	Demo bool            `help:"Show a simulated server."`
	Wait config.Duration `name:"timeout" default:"10s" help:"With --once: how long to wait for the server."`

	ask.Server
}

// check finds all mistakes in the flags.
func (o *Options) check() error {
	var faults config.Faults
	if o.JSON && !o.Once {
		faults.Addf("--json", "what is drawn on a terminal is no JSON; expected --once with it")
	}
	if o.Wait <= 0 {
		faults.Addf("--timeout", "expected a duration above 0, found %v", o.Wait)
	}
	return faults.Err()
}

// errNoTerminal is the error of drawing where there is nothing to draw on.
var errNoTerminal = errors.New("the output is no terminal to draw on; `weft top --once` prints one table, and " +
	"`weft top --once --json` prints it for programs")

// Run shows the server until the user quits, or prints it once. Only without --once it must be a terminal.
func Run(ctx context.Context, o *Options, out io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	s, end, err := o.source()
	if err != nil {
		return err
	}
	defer end()
	if o.Once {
		return o.once(ctx, s, out)
	}
	// A pipe would get sequences for a terminal, endlessly.
	if file, is := out.(*os.File); !is || !term.IsTerminal(file.Fd()) {
		return errNoTerminal
	}
	return show(ctx, s)
}

// source returns the server that the flags name, and what closes the connection to it.
func (o *Options) source() (source, func(), error) {
	if o.Demo {
		return newDemo(), func() {}, nil
	}
	l, err := connect(&o.Server)
	if err != nil {
		return nil, nil, err
	}
	return l, func() { _ = l.client.Close() }, nil // nothing is open
}

// once prints one report. The call ends with the first update, or with an error once --timeout has passed.
func (o *Options) once(ctx context.Context, s source, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.Wait))
	defer cancel()
	h := &history{}
	// With once the server ends the call after its first answer.
	err := s.watch(ctx, true, func(a *weftv1.Activity) bool {
		h.add(a)
		return false
	})
	// The error of a call that ran out of time does not say which flag chose the time.
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("within %v (--timeout): %w", o.Wait, err)
	}
	if err != nil {
		return err
	}
	if h.Activity == nil {
		return errors.New("the server ended the call without an answer; ask it again")
	}
	if o.JSON {
		return h.report(out)
	}
	_, err = io.WriteString(out, h.text())
	return err
}

// pause is the time between attempts to connect. A server that was restarted is seen soon, and one that is gone is not
// asked in a tight loop.
const pause = 500 * time.Millisecond

// show draws until the user quits. The terminal library owns the screen; a second goroutine receives updates and sends
// them to it as messages. When the picture ends the context ends too, and that goroutine with it.
func show(ctx context.Context, s source) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Thirty frames a second are more than the pictures, so that the library delays none.
	program := tea.NewProgram(newScreen(ctx, s), tea.WithContext(ctx), tea.WithFPS(30))
	ended := make(chan error, 1)
	go func() {
		err := follow(ctx, s, func(m any) { program.Send(m) })
		if err != nil {
			program.Quit()
		}
		ended <- err
	}()
	_, err := program.Run()
	cancel()
	// An error of the source explains more than that the program was made to quit.
	if wrong := <-ended; wrong != nil {
		return wrong
	}
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) { // a signal, as `q`
		return nil
	}
	return err
}

// follow sends the updates of a source to the screen until ctx ends, and connects again after each failure. It returns
// an error only if another attempt is of no use: the server does not know the call, or refuses the caller.
func follow(ctx context.Context, s source, send func(any)) error {
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		err := s.watch(ctx, false, func(a *weftv1.Activity) bool {
			send(a)
			return ctx.Err() == nil
		})
		// An error that the end of the context led to is none.
		if ctx.Err() != nil {
			return nil // the user quit
		}
		if _, is := errors.AsType[permanentError](err); is {
			return err
		}
		// A server that stops ends its calls without an error.
		if err == nil {
			err = errors.New("the server ended the call")
		}
		send(lostMsg{err})
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}
