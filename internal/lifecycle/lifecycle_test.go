package lifecycle_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/lifecycle"
)

// program is a Run in a bubble, and its events.
type program struct {
	signals chan os.Signal
	events  []string
	result  chan error
}

// run runs a program with the given parts; start, if any, is called once they are started.
func run(drain time.Duration, start func(context.Context) error, parts ...func(*program) lifecycle.Part) *program {
	p := &program{signals: make(chan os.Signal), result: make(chan error, 1)}
	cfg := lifecycle.Config{
		Signals: p.signals, DrainTimeout: func() time.Duration { return drain },
		Logger: slog.New(slog.DiscardHandler),
	}
	go func() {
		p.result <- lifecycle.Run(cfg, func(ctx context.Context, g *lifecycle.Group) error {
			for _, part := range parts {
				g.Start(part(p))
			}
			if start != nil {
				return start(ctx)
			}
			return nil
		})
	}()
	synctest.Wait()
	return p
}

func (p *program) happened(event string) { p.events = append(p.events, event) }

// drains is a part that needs so long to finish.
func drains(name string, takes time.Duration) func(*program) lifecycle.Part {
	return func(p *program) lifecycle.Part {
		stop := make(chan struct{})
		return lifecycle.Part{
			Name: name,
			Run: func() error {
				<-stop
				return nil
			},
			Stop: func(ctx context.Context) error {
				defer close(stop)
				select {
				case <-time.After(takes):
					p.happened(name + " finished")
					return nil
				case <-ctx.Done():
					p.happened(name + " gave up")
					return context.Cause(ctx)
				}
			},
		}
	}
}

// fails is a part whose Run ends by itself after a second.
func fails(name string, with error) func(*program) lifecycle.Part {
	return func(p *program) lifecycle.Part {
		return lifecycle.Part{
			Name: name,
			Run:  func() error { time.Sleep(time.Second); return with },
			Stop: func(context.Context) error { p.happened(name + " stopped"); return nil },
		}
	}
}

func (p *program) expect(t *testing.T, events ...string) {
	t.Helper()
	if !slices.Equal(p.events, events) {
		t.Errorf("events %q, want %q", p.events, events)
	}
}

func TestFirstSignalStopsInOppositeOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(time.Minute, nil, drains("store", time.Second), drains("server", 10*time.Second))
		begin := time.Now()
		p.signals <- syscall.SIGTERM
		if err := <-p.result; err != nil {
			t.Errorf("error %v after an orderly stop", err)
		}
		p.expect(t, "server finished", "store finished")
		if took := time.Since(begin); took != 11*time.Second {
			t.Errorf("the stop took %v, want one part after the other: 11s", took)
		}
	})
}

func TestSecondSignalCutsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(time.Hour, nil, drains("store", time.Minute), drains("server", time.Minute))
		begin := time.Now()
		p.signals <- syscall.SIGTERM
		time.Sleep(time.Second)
		p.signals <- syscall.SIGINT
		err := <-p.result
		if !errors.Is(err, lifecycle.ErrCutShort) ||
			err.Error() != "the stop was cut short by a further signal (interrupt)" {
			t.Errorf("error %v", err)
		}
		p.expect(t, "server gave up", "store gave up")
		if took := time.Since(begin); took != time.Second {
			t.Errorf("ended after %v, want at the second signal", took)
		}
	})
}

// TestEchoOfTheFirstSignal: supervisors signal a process and its group, which is one wish and not two.
func TestEchoOfTheFirstSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(time.Hour, nil, drains("server", time.Minute))
		p.signals <- syscall.SIGTERM
		time.Sleep(100 * time.Millisecond)
		p.signals <- syscall.SIGTERM
		if err := <-p.result; err != nil {
			t.Errorf("error %v, want an orderly stop", err)
		}
		p.expect(t, "server finished")
	})
	synctest.Test(t, func(t *testing.T) {
		p := run(time.Hour, nil, drains("server", time.Minute))
		p.signals <- syscall.SIGTERM
		time.Sleep(time.Second)
		p.signals <- syscall.SIGTERM
		if err := <-p.result; !errors.Is(err, lifecycle.ErrCutShort) {
			t.Errorf("error %v, want the stop cut short by a later signal", err)
		}
		p.expect(t, "server gave up")
	})
}

func TestDrainTimeoutCutsShort(t *testing.T) {
	for _, timeout := range []time.Duration{0, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			p := run(timeout, nil, drains("server", time.Minute))
			begin := time.Now()
			p.signals <- syscall.SIGTERM
			if err := <-p.result; !errors.Is(err, lifecycle.ErrCutShort) ||
				!strings.Contains(err.Error(), "drain timeout of "+timeout.String()) {
				t.Errorf("error %v", err)
			}
			if took := time.Since(begin); took != timeout {
				t.Errorf("ended after %v, want %v", took, timeout)
			}
		})
	}
}

func TestPartThatEndsByItselfStopsTheProgram(t *testing.T) {
	broken := errors.New("listener broken")
	for want, with := range map[string]error{
		"server ended by itself: listener broken":   broken,
		"server ended by itself: it gave no reason": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := run(time.Minute, nil, drains("store", time.Second), fails("server", with))
			if err := <-p.result; err == nil || err.Error() != want || with != nil && !errors.Is(err, with) {
				t.Errorf("error %v, want %q", err, want)
			}
			p.expect(t, "server stopped", "store finished")
		})
	}
}

func TestStartThatFailsStopsWhatWasStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no model could be loaded")
		p := run(time.Minute, func(context.Context) error { return full }, drains("store", time.Second))
		if err := <-p.result; !errors.Is(err, full) || err.Error() != full.Error() {
			t.Errorf("error %v, want %v once", err, full)
		}
		p.expect(t, "store finished")
	})
}

func TestSignalInterruptsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		p := run(time.Minute, load, drains("store", time.Second))
		p.signals <- syscall.SIGINT
		if err := <-p.result; err != nil {
			t.Errorf("error %v, want none: that is what was asked for", err)
		}
		p.expect(t, "store finished")
	})
}

func TestFailureInStoppingIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("3 spans lost")
		p := run(time.Minute, nil, drains("store", time.Second), func(*program) lifecycle.Part {
			return lifecycle.Part{Name: "telemetry", Stop: func(context.Context) error { return lost }}
		})
		p.signals <- syscall.SIGTERM
		if err := <-p.result; !errors.Is(err, lost) || err.Error() != "stop telemetry: 3 spans lost" {
			t.Errorf("error %v", err)
		}
		p.expect(t, "store finished")
	})
}

func TestPartThatHangsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := run(time.Second, nil, drains("store", time.Minute), func(*program) lifecycle.Part {
			return lifecycle.Part{Name: "device", Stop: func(context.Context) error { <-release; return nil }}
		})
		p.signals <- syscall.SIGTERM
		err := <-p.result
		if !errors.Is(err, lifecycle.ErrCutShort) ||
			!strings.Contains(err.Error(), "stop device: it did not end within 5s") {
			t.Errorf("error %v", err)
		}
		p.expect(t, "store gave up")
		close(release)
	})
}

// TestPartThatLeavesSomethingBehind is not waited for.
func TestPartThatLeavesSomethingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := run(time.Second, nil, drains("store", time.Minute), func(*program) lifecycle.Part {
			return lifecycle.Part{
				Name: "device",
				Run:  func() error { <-release; return nil },
				Stop: func(ctx context.Context) error {
					<-ctx.Done()
					return errors.Join(context.Cause(ctx), lifecycle.ErrLeftBehind)
				},
			}
		})
		begin := time.Now()
		p.signals <- syscall.SIGTERM
		if err := <-p.result; !errors.Is(err, lifecycle.ErrCutShort) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("the stop took %v, want the drain timeout of 1s", took)
		}
		p.expect(t, "store gave up")
		close(release)
	})
}

func TestStopWaitsForRunAndReportsItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, late := make(chan struct{}), errors.New("late trouble")
		p := run(time.Minute, nil, func(p *program) lifecycle.Part {
			return lifecycle.Part{
				Name: "server",
				Run: func() error {
					<-stop
					time.Sleep(time.Second)
					p.happened("server ended")
					return late
				},
				Stop: func(context.Context) error { close(stop); return nil },
			}
		})
		p.signals <- syscall.SIGTERM
		if err := <-p.result; !errors.Is(err, late) {
			t.Errorf("error %v, want that of Run", err)
		}
		p.expect(t, "server ended")
	})
}
