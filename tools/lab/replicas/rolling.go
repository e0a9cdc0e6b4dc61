package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	pods         = 3
	rollingLoad  = 0.4             // of what three servers can do
	rollingSlots = 16              // channels of each kind of calls
	settleNew    = 1 * time.Second // in which callers find a server that has started
)

// kind is a kind of calls, and what became of them.
type kind struct {
	name    string
	policy  policy
	streams bool
	ledger  ledger
	twice   int
	pool    *pool
}

// kinds are what is sent while servers are replaced. Directly, callers send nothing a second time by themselves.
func (r *trial) kinds() (all []*kind) {
	for _, p := range []policy{
		{name: "gRPC", config: plainRoundRobin, quick: true},
		{name: envoyName, through: envoyName, config: "weighted.yaml", quick: true},
		{name: haproxyName, through: haproxyName},
	} {
		if r.has(&p) && (!r.Quick || p.quick) {
			all = append(all,
				&kind{name: p.name + ", unary", policy: p}, &kind{name: p.name + ", streams", policy: p, streams: true})
		}
	}
	return all
}

// set tells all callers and balancers which servers there are.
func set(kinds []*kind, targets []target) error {
	var all []error
	for _, k := range kinds {
		all = append(all, k.pool.set(targets))
	}
	return errors.Join(all...)
}

// under does something while calls of some kinds are sent, until it has ended and enough calls of each have.
func (r *trial) under(kinds []*kind, f fleet, calls int, do func() error) (err error) {
	shared, done := balancers{}, make(chan struct{})
	var loads sync.WaitGroup
	var ends []func() error
	defer func() {
		close(done)
		loads.Wait()
		for _, end := range ends {
			err = errors.Join(err, end())
		}
		shared.stop()
	}()
	rate := rollingLoad * pods * capacity / float64(len(kinds))
	for i, k := range kinds {
		if k.pool, err = r.open(&k.policy, rollingSlots, f.targets(), shared); err != nil {
			return err
		}
		end := func() error { return nil }
		send := k.pool.unary(r.ctx, modelName, &k.ledger)
		if k.streams {
			if send, end, err = k.pool.lines(r.ctx, &k.ledger, &k.twice); err != nil {
				return err
			}
		}
		ends = append(ends, func() error { defer k.pool.close(); return end() })
		loads.Go(func() { offer(r.ctx, rate, uint64(i), done, send) })
	}
	few := func(k *kind) bool { return k.ledger.size() < calls }
	for err = do(); err == nil && slices.ContainsFunc(kinds, few); {
		err = do()
	}
	return errors.Join(err, r.ctx.Err())
}

// replace replaces each server by a new one at another address, one after the other. A pod's address goes a while
// after its server was told to stop.
func (r *trial) replace(f fleet, late time.Duration, d device, set func([]target) error) error {
	for i, old := range f {
		next, err := r.start(old.pod, d, r.flags...)
		if err != nil {
			return err
		}
		f[i] = next
		ended := make(chan error, 1)
		err = set(append(f.targets(), old.target()))
		pause(r.ctx, settleNew)
		go func() { ended <- old.Stop() }()
		pause(r.ctx, late)
		err = errors.Join(err, set(f.targets()), <-ended)
		if err != nil || r.ctx.Err() != nil {
			return errors.Join(err, r.ctx.Err())
		}
	}
	return nil
}

const rollingTitle = "Servers are replaced"

// rolling replaces servers under calls of all kinds, again and again, until enough of each were sent.
func (r *trial) rolling() error {
	for _, late := range r.late {
		if err := r.roll(late); err != nil {
			return err
		}
	}
	return nil
}

func (r *trial) roll(late time.Duration) (err error) {
	d := slowed(1)
	f, err := r.startAll(slices.Repeat([]device{d}, pods), r.flags...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	kinds := r.kinds()
	replaced := 0
	err = r.under(kinds, f, r.calls, func() error {
		replaced += pods
		return r.replace(f, late, d, func(t []target) error { return set(kinds, t) })
	})
	if err != nil {
		return err
	}
	for _, k := range kinds {
		failed, codes := r.failed(&k.ledger)
		var s sample
		s.count(&k.ledger, limit, time.Time{}, time.Now())
		what := fmt.Sprintf("%s, address removed %v after SIGTERM", k.name, late)
		r.book.none(fmt.Sprintf("%s: calls that failed, of %d", what, k.ledger.size()), len(failed))
		if k.streams {
			r.book.none(what+": answers that nobody waited for", k.twice)
		}
		r.row(rollingTitle, k.name, late, replaced, k.ledger.size(), len(failed), codes,
			fmt.Sprintf("%.1f", 100*s.inTime))
	}
	return nil
}

const killTitle = "A server is killed"

// kill kills one of three servers under calls with and without retries.
func (r *trial) kill() (err error) {
	f, err := r.startAll(slices.Repeat([]device{slowed(1)}, pods))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	kinds := []*kind{
		{name: "gRPC, without retries", policy: policy{config: plainRoundRobin}},
		{name: "gRPC, the shipped service config", policy: policy{config: weighted}},
	}
	if through := (policy{through: envoyName, config: "weighted.yaml"}); r.has(&through) {
		kinds = append(kinds, &kind{name: envoyName, policy: through})
	}
	victim := f[0].GRPC
	err = r.under(kinds, f, 0, func() error {
		pause(r.ctx, r.span/4)
		err := f[0].kill()
		pause(r.ctx, r.span/4)
		return err
	})
	if err != nil {
		return err
	}
	for i, k := range kinds {
		failed, codes := r.failed(&k.ledger)
		r.row(killTitle, k.name, k.ledger.size(), len(failed), codes)
		wrong := len(failed)
		if i == 0 {
			wrong = len(slices.DeleteFunc(failed, func(c call) bool { return c.peer == victim }))
			k.name += ", but for those on it"
		}
		r.book.none(k.name+": calls that failed when a server was killed", wrong)
	}
	return nil
}
