//go:build linux

package worker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// deafPatience is how long a process may take to read a message, and to say that it lives. One that is stopped, or
	// hangs as a whole, never does. It would hold up whoever has something to say to it, such as the batch threads, and
	// as the spare one it would take the place of a worker that died, and serve nothing.
	deafPatience = 5 * time.Second
	// pulsePeriod is how often a process is asked whether it lives.
	pulsePeriod = time.Second
)

// watchPulse ends the process once it does not say that it lives. Its runs and openings do not keep it from that.
func (p *process) watchPulse() {
	for {
		select {
		case <-p.ended:
			return
		case <-time.After(pulsePeriod):
		}
		ctx, cancel := p.clock.WithTimeoutCause(context.Background(), deafPatience, context.DeadlineExceeded)
		_, err := p.ask(ctx, &message{Kind: pingMessage}, pongMessage, nil)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			p.kill(fmt.Sprintf("it did not answer within %v", deafPatience))
			return
		}
	}
}
