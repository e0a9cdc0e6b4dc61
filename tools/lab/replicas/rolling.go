package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	pool    *pool
	between *balancer // nil: gRPC balances
	twice   int
	close   func() error
}

// kinds are what is sent while servers are replaced. Directly, callers send nothing a second time by themselves.
func (r *trial) kinds() (all []*kind) {
	for _, p := range []policy{
		{name: "gRPC", config: plainRoundRobin},
		{name: envoyName, through: envoyName, config: "weighted.yaml"},
		{name: haproxyName, through: haproxyName},
	} {
		if !r.picks(policy{name: roundRobin, through: p.through}) || r.Quick && p.through == haproxyName {
			continue
		}
		all = append(all,
			&kind{name: p.name + ", unary", policy: p}, &kind{name: p.name + ", streams", policy: p, streams: true})
	}
	return all
}

// balancers are those that run, by their names.
type balancers map[string]*balancer

func (b balancers) stop() {
	for _, each := range b {
		each.stop()
	}
}

// open makes the channels and streams of a kind. Kinds of the same policy share a balancer.
func (k *kind) open(r *trial, targets []target, shared balancers) (do func(i int, due time.Time), err error) {
	config := k.policy.config
	if k.policy.through != "" {
		if k.between = shared[k.policy.through]; k.between == nil {
			if k.policy.through == envoyName {
				k.between, err = r.envoy(k.policy.config, k.policy.other, targets)
			} else {
				k.between, err = r.haproxy(targets)
			}
			if err != nil {
				return nil, err
			}
			shared[k.policy.through] = k.between
		}
		config, targets = "{}", []target{{grpc: k.between.address}}
	}
	if k.pool, err = dial(rollingSlots, config, targets); err != nil {
		return nil, err
	}
	if !k.policy.idle {
		if err := k.pool.connect(r.ctx); err != nil {
			return nil, err
		}
	}
	k.close = func() error { k.pool.close(); return nil }
	if !k.streams {
		return k.pool.unary(r.ctx, modelName, &k.ledger), nil
	}
	do, end, err := k.pool.lines(r.ctx, &k.ledger)
	k.close = func() error {
		twice, err := end()
		k.twice = twice
		k.pool.close()
		return err
	}
	return do, err
}

// set tells all callers and balancers which servers there are.
func set(kinds []*kind, shared balancers, targets []target) error {
	var all []error
	for _, k := range kinds {
		if k.between == nil {
			all = append(all, k.pool.set(targets))
		}
	}
	for _, b := range shared {
		all = append(all, b.set(targets))
	}
	return errors.Join(all...)
}

// under does something while calls of some kinds are sent, until it has ended and enough calls of each have.
func (r *trial) under(kinds []*kind, f fleet, calls int, do func(shared balancers) error) (err error) {
	shared := balancers{}
	defer shared.stop()
	done := make(chan struct{})
	var loads sync.WaitGroup
	rate := rollingLoad * pods * capacity / float64(len(kinds))
	for i, k := range kinds {
		send, failed := k.open(r, f.targets(), shared)
		if failed != nil {
			err = failed
			break
		}
		loads.Go(func() { offer(r.ctx, rate, uint64(i), done, send) })
	}
	for first := true; err == nil && r.ctx.Err() == nil; first = false {
		if !first && !slices.ContainsFunc(kinds, func(k *kind) bool { return k.ledger.size() < calls }) {
			break
		}
		err = do(shared)
	}
	close(done)
	loads.Wait()
	for _, k := range kinds {
		if k.close != nil {
			err = errors.Join(err, k.close())
		}
	}
	return errors.Join(err, r.ctx.Err())
}

// replace replaces each server by a new one at another address, one after the other. A pod's address goes a while
// after its server was told to stop.
func (r *trial) replace(f fleet, late time.Duration, d device, set func([]target) error, flags ...string) error {
	for i, old := range f {
		next, err := r.start(r.ctx, old.pod, d, flags...)
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

// flags are those of servers that are replaced.
func (r *trial) flags() []string {
	if r.lameDuck == 0 {
		return nil
	}
	return []string{fmt.Sprintf("--lame-duck=%v", r.lameDuck)}
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
	f, err := r.startAll(r.ctx, slices.Repeat([]device{d}, pods), r.flags()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	kinds := r.kinds()
	replaced := 0
	err = r.under(kinds, f, r.calls, func(shared balancers) error {
		replaced += pods
		return r.replace(f, late, d, func(t []target) error { return set(kinds, shared, t) }, r.flags()...)
	})
	for _, k := range kinds {
		failed, codes := r.failed(&k.ledger)
		what := fmt.Sprintf("%s, address removed %v after SIGTERM", k.name, late)
		r.book.none(fmt.Sprintf("%s: calls that failed, of %d", what, k.ledger.size()), len(failed))
		if k.streams {
			r.book.none(what+": answers that nobody waited for", k.twice)
		}
		r.row(rollingTitle, k.name, late, replaced, k.ledger.size(), len(failed), said(codes),
			fmt.Sprintf("%.1f", 100*k.ledger.inTime()))
	}
	return err
}

// inTime is the part of calls that were answered within the limit.
func (l *ledger) inTime() float64 {
	var s sample
	s.count(l, limit, time.Time{}, time.Now())
	return s.inTime
}

// row notes a row of a table, and shows it.
func (r *trial) row(title string, cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	fmt.Fprintf(r.progress, "%s: %s\n", title, strings.Join(row, ", "))
	r.book.rows[title] = append(r.book.rows[title], row)
}

// said says how often which code was.
func said(codes map[string]int) string {
	var all []string
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		all = append(all, fmt.Sprintf("%d %s", codes[code], code))
	}
	return strings.Join(all, ", ")
}

const killTitle = "A server is killed"

// kill kills one of three servers under calls with and without retries.
func (r *trial) kill() (err error) {
	f, err := r.startAll(r.ctx, slices.Repeat([]device{slowed(1)}, pods))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	shipped, err := r.shipped("wrr")
	if err != nil {
		return err
	}
	kinds := []*kind{
		{name: "gRPC, without retries", policy: policy{config: plainRoundRobin}},
		{name: "gRPC, the shipped service config", policy: policy{config: shipped}},
	}
	if r.Envoy != "" {
		kinds = append(kinds, &kind{name: "Envoy", policy: policy{through: envoyName, config: "weighted.yaml"}})
	}
	victim := f[0].GRPC
	err = r.under(kinds, f, 0, func(balancers) error {
		pause(r.ctx, r.span/4)
		err := f[0].kill()
		pause(r.ctx, r.span/4)
		return err
	})
	for i, k := range kinds {
		failed, codes := r.failed(&k.ledger)
		r.row(killTitle, k.name, k.ledger.size(), len(failed), said(codes))
		wrong := len(failed)
		if i == 0 {
			wrong = len(slices.DeleteFunc(failed, func(c call) bool { return c.peer == victim }))
			k.name += ", but for those on it"
		}
		r.book.none(k.name+": calls that failed when a server was killed", wrong)
	}
	return err
}
