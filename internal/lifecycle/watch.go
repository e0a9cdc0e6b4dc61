package lifecycle

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Probe asks a part of the process that must make progress for the process to be of use.
type Probe struct {
	Name string // for the log
	// Ask returns when the part has answered. It is cheap, and takes the locks without which nothing is done there.
	Ask func()
}

// Watch feeds the manager's watchdog until ctx ends, if WATCHDOG_USEC asks for that: twice in the time that it names,
// and only after all probes have answered. While one hangs there is no beat, and the manager ends the process.
func (s *Supervisor) Watch(ctx context.Context, probes ...Probe) {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.log.Warn("watchdog not fed", "event", "watchdog_not_fed", "cause", err)
	}
	if within > 0 {
		s.beat(ctx, within/2, probes)
	}
	<-ctx.Done()
}

// beat asks all probes and beats, at once and then at every interval. A probe that hangs stops it.
func (s *Supervisor) beat(ctx context.Context, every time.Duration, probes []Probe) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		for _, p := range probes {
			s.ask(p, every)
		}
		s.notify(daemon.SdNotifyWatchdog)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask asks one probe. The log says which one hangs, before the manager ends the process.
func (s *Supervisor) ask(p Probe, patience time.Duration) {
	late := time.AfterFunc(patience, func() {
		s.log.Error("no progress, the watchdog is not fed", "event", "no_progress", "part", p.Name, "waited", patience,
			"effect", "the service manager ends and restarts the server")
	})
	defer late.Stop()
	p.Ask()
}
