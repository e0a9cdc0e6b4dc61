package ort

import (
	"sync"
	"time"
)

// gate lets many pass, and one shut it for a while. A sync.RWMutex would do if it could give up: a waiting writer holds
// back everybody who comes later, for as long as the longest stay of the ones before it. The zero gate is open.
type gate struct {
	mu     sync.Mutex
	inside int
	opened chan struct{} // not nil while the gate is shut: closed when it is opened
	empty  chan struct{} // not nil while somebody waits for those inside: closed when the last has left
}

// enter waits while the gate is shut. leave must follow.
func (g *gate) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.opened != nil {
		opened := g.opened
		g.mu.Unlock()
		<-opened
		g.mu.Lock()
	}
	g.inside++
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// shut keeps others out and waits until nobody is inside; then it reports true, and open must follow. It gives up at
// once if the gate is shut already, and when its patience ends, until which it holds up everybody who wants to enter.
func (g *gate) shut(patience time.Duration) bool {
	g.mu.Lock()
	if g.opened != nil {
		g.mu.Unlock()
		return false
	}
	g.opened = make(chan struct{})
	if g.inside == 0 {
		g.mu.Unlock()
		return true
	}
	empty := make(chan struct{})
	g.empty = empty
	g.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-empty:
		return true
	case <-timer.C:
		g.open()
		return false
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
	g.opened, g.empty = nil, nil
}

// seize shuts everybody else out of the CUDA devices for a capture, until end is called. It returns nil if it cannot
// until a time.
func seize(until time.Time) (end func()) {
	if !device.opening.shut(time.Until(until)) {
		return nil
	}
	if !device.running.shut(time.Until(until)) {
		device.opening.open()
		return nil
	}
	return func() {
		device.running.open()
		device.opening.open()
	}
}
