package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weftserve/weft/tools/lab/affinity"
)

// phase is what a server showed for some seconds.
type phase struct {
	fared
	tally

	peak   use
	cpu    float64 // part of a processor
	broken bool    // off, for too much memory
}

// lead is how long an attack goes on before honest callers ask.
const lead = 500 * time.Millisecond

// measure has honest callers ask for a span, beside a strike unless that is "".
func (b *bout) measure(ctx context.Context, strike string, rate float64, span time.Duration) (p *phase, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	honest, err := start(ctx, b.clients, affinity.Foremost, "honest", "--target", b.server.GRPC,
		"--span", span.String())
	if err != nil {
		return nil, err
	}
	select {
	case <-honest.said:
	case <-time.After(2 * honestDeadline):
		return nil, fmt.Errorf("the honest callers were not ready: %s", honest.errs.String())
	}
	p = &phase{}
	_ = forgetPeak(b.server.PID()) // where it may not be, the peak is what is looked at ten times a second
	striking, stop := context.WithCancel(ctx)
	defer stop()
	watching, seen := context.WithCancel(ctx)
	defer seen()
	peak := watch(watching, b.server.PID(), float64(b.Most), func() { p.broken = true; stop() })
	var attacker *child
	if strike != "" {
		attacker, err = start(striking, b.clients, affinity.Usual, "strike", strike, "--target", b.server.GRPC,
			"--connections", strconv.Itoa(b.Connections), "--rate", fmt.Sprint(rate), "--span", (lead + span).String(),
			"--seed", strconv.FormatUint(b.Seed, 10))
		if err != nil {
			return nil, err
		}
		time.Sleep(lead)
	}
	before := useOf(b.server.PID())
	if _, err := honest.in.Write([]byte("go\n")); err != nil {
		return nil, err
	}
	time.Sleep(span)
	p.cpu = (useOf(b.server.PID()).seconds - before.seconds) / span.Seconds()
	if attacker != nil {
		err = attacker.result(&p.tally)
	}
	b.struck = time.Now()
	err = errors.Join(err, honest.result(&p.fared))
	seen()
	p.peak = <-peak
	return p, err
}
