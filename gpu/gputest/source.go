// Package gputest has stand-ins for GPUs and their driver, for tests.
package gputest

import (
	"fmt"
	"sync"
	"time"

	"github.com/weftserve/weft/gpu"
)

// Source is a gpu.Source that answers with the values it was given. Other quantities are not supported. The zero value
// knows nothing. Its methods are safe for concurrent use.
type Source struct {
	mu      sync.Mutex
	devices map[int]*device // guarded by mu
	delay   time.Duration   // guarded by mu
}

type device struct {
	known gpu.Sample
	fails map[gpu.Quantity]error
	quiet gpu.Quantity
	asked map[gpu.Quantity]int
	hold  chan struct{}
}

// of returns the state of a device. The caller holds the lock.
func (s *Source) of(number int) *device {
	if s.devices == nil {
		s.devices = map[int]*device{}
	}
	d := s.devices[number]
	if d == nil {
		d = &device{fails: map[gpu.Quantity]error{}, asked: map[gpu.Quantity]int{}}
		s.devices[number] = d
	}
	return d
}

// Set makes the values of the set those of known, from now on. They fail no more.
func (s *Source) Set(device int, set gpu.Quantity, known gpu.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.of(device)
	known.Known = set
	d.known.Set(set, &known)
	for q := gpu.Quantity(1); q <= gpu.AllQuantities; q <<= 1 {
		if set&q != 0 {
			delete(d.fails, q)
		}
	}
}

// Fail makes reading any of the set end with err; nil: no more.
func (s *Source) Fail(device int, set gpu.Quantity, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := gpu.Quantity(1); q <= gpu.AllQuantities; q <<= 1 {
		if set&q != 0 {
			s.of(device).fails[q] = err
		}
	}
}

// Hush makes the source answer nothing about the set, from now on, though asking does not fail.
func (s *Source) Hush(device int, set gpu.Quantity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(device).quiet = set
}

// Delay makes each reading take that long.
func (s *Source) Delay(each time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = each
}

// Hold makes every question about the device wait, as a driver that hangs does, until release is called.
func (s *Source) Hold(device int) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hold := make(chan struct{})
	s.of(device).hold = hold
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.of(device).hold = nil
		close(hold)
	}
}

// Asked returns how often one quantity was asked for.
func (s *Source) Asked(device int, q gpu.Quantity) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(device).asked[q]
}

// Read implements gpu.Source.
func (s *Source) Read(device int, q gpu.Quantity, into *gpu.Sample) error {
	s.mu.Lock()
	d := s.of(device)
	d.asked[q]++
	hold, known, quiet, err := d.hold, d.known, d.quiet, d.fails[q]
	delay := s.delay
	s.mu.Unlock()
	time.Sleep(delay)
	if hold != nil {
		<-hold
	}
	if err != nil {
		return err
	}
	if quiet&q != 0 {
		into.Set(q, &gpu.Sample{})
		return nil
	}
	if !known.Has(q) {
		return fmt.Errorf("%v: %w", q, gpu.ErrNotSupported)
	}
	into.Set(q, &known)
	return nil
}
