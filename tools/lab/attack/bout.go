package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weftserve/weft/tools/lab/harness"
)

// bout is one attack on a server of its own, in rounds.
type bout struct {
	*runCommand
	attack   *attack
	effort   effort
	clients  []int // processors
	server   *harness.Server
	progress io.Writer
	cost     float64   // processor seconds of one ordinary request, as known so far
	latest   *phase    // of an attack
	struck   time.Time // when the latest strike ended
}

// round is what one turn showed.
type round struct {
	rest, after     use     // before, and some seconds after the attack
	afterCPU        float64 // part of a processor at the end of those seconds
	idle            *phase
	attack, control *phase
	died            bool
}

// fight starts a server, and measures the rounds. The error says what could not be measured.
func (b *bout) fight(ctx context.Context, folder string, cpus []int) (rounds []round, err error) {
	dir := filepath.Join(folder, b.attack.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if b.server, err = serve(ctx, b.Weft, dir, cpus, b.Flags...); err != nil {
		return nil, err
	}
	defer func() {
		if stopped := b.server.Stop(); stopped != nil {
			fmt.Fprintf(b.progress, "%s: %v\n", b.attack.name, stopped)
		}
	}()
	for n := range b.effort.rounds {
		r, err := b.round(ctx, n)
		if b.server.Died() {
			return append(rounds, round{died: true}), nil
		}
		if err != nil {
			return rounds, fmt.Errorf("%s, round %d: %w", b.attack.name, n+1, err)
		}
		rounds = append(rounds, r)
		fmt.Fprintf(b.progress, "%s, round %d: %s\n", b.attack.name, n+1, r)
	}
	return rounds, nil
}

// round measures the server at rest, attacked, some seconds later, and as busy with ordinary requests. Every other
// round has the control first: what it has to take is known from the attack before.
func (b *bout) round(ctx context.Context, number int) (r round, err error) {
	if r.idle, err = b.measure(ctx, "", 0, b.effort.idle); err != nil {
		return r, err
	}
	r.rest = useOf(b.server.PID())
	if number == 0 {
		const trial = 500 // requests a second
		p, err := b.measure(ctx, controlName, trial, time.Second)
		if err != nil {
			return r, err
		}
		b.learn(p, r.idle)
	}
	if number%2 == 1 {
		if err = b.control(ctx, &r, b.latest); err != nil {
			return r, err
		}
	}
	if err = b.strike(ctx, &r); err != nil || number%2 == 1 {
		return r, err
	}
	return r, b.control(ctx, &r, r.attack)
}

// strike measures an attack, and what is left of it.
func (b *bout) strike(ctx context.Context, r *round) (err error) {
	if r.attack, err = b.measure(ctx, b.attack.name, b.Rate, b.effort.span); err != nil {
		return err
	}
	b.latest = r.attack
	const look = time.Second
	time.Sleep(time.Until(b.struck.Add(b.effort.after - look)))
	before := useOf(b.server.PID())
	time.Sleep(look)
	r.after = useOf(b.server.PID())
	r.afterCPU = (r.after.seconds - before.seconds) / look.Seconds()
	return nil
}

// control measures ordinary requests that keep the server as busy as an attack did.
func (b *bout) control(ctx context.Context, r *round, attack *phase) (err error) {
	// What a request costs falls with their rate, since more are executed together: it is tried.
	for _, span := range []time.Duration{time.Second, time.Second, b.effort.span} {
		if r.control, err = b.measure(ctx, controlName, b.asBusy(attack, r.idle), span); err != nil {
			return err
		}
		b.learn(r.control, r.idle)
	}
	return nil
}

// asBusy returns the rate of ordinary requests that keeps the server as busy as an attack did.
func (b *bout) asBusy(attack, idle *phase) float64 {
	const whole = 0.95 // of a processor: then there is no more to have, and the control asks for as much as it can
	if attack.cpu > whole {
		return 1 / b.cost * 10
	}
	return max(1, (attack.cpu-idle.cpu)/b.cost)
}

// learn has the cost of an ordinary request from a control.
func (b *bout) learn(control, idle *phase) {
	rate := float64(control.Done) / max(control.Seconds, 1e-3)
	const least = 5e-6 // no request takes less: what was measured was the end of something else
	if cost := (control.cpu - idle.cpu) / max(rate, 1); cost > least && rate > 50 {
		b.cost = cost
	} else if b.cost == 0 {
		b.cost = 1e-4
	}
}

// String says the most important of it.
func (r round) String() string {
	return fmt.Sprintf("%.0f ops/s, processor %.0f %% (control %.0f %%, after %.0f %%), memory %.0f, %.0f, %.0f MiB, "+
		"p99 %.2f ms (control %.2f), lost %d of %d, ended %d",
		float64(r.attack.Done)/max(r.attack.Seconds, 1e-3), 100*r.attack.cpu, 100*r.control.cpu, 100*r.afterCPU,
		r.rest.memory(), r.attack.peak.memory(), r.after.memory(), quantile(r.attack.Ms, 0.99),
		quantile(r.control.Ms, 0.99), r.attack.Lost, r.attack.Sent, r.attack.Ended)
}
