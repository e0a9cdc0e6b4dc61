package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Recording counts how the requests ended that were to be recorded. It has the fields of record.Stats.
type Recording struct{ Written, Dropped, Lost, Pending, Bytes, Deleted int64 }

// Resident counts loads, failed loads and unloads of versions, and how often versions were taken out because they
// crash, and says how much memory the versions take. It has the fields of host.Counts.
type Resident struct {
	Loads, LoadFailures, Unloads, TakenOut uint64
	MemoryInUse, MemoryBudget              int64 // bytes; a budget of 0 is none
}

// Sources are the functions that are called when the metrics are read. Each of them may be nil.
type Sources struct {
	Episodes func() int
	// Utilization returns how loaded the server is, and whether there is such a number now.
	Utilization func() (float64, bool)
	// EpisodeStates returns how those stand whose state the server keeps.
	EpisodeStates func() EpisodeStates
	Breakers      func() []Breaker
	// Verdicts returns those of the latest rollouts.
	Verdicts func() []Verdict
	// Connections returns how those of gRPC stand.
	Connections func() Connections
	Recording   func() Recording
	Resident    func() Resident
	// ShadowLinesLost returns how many lines of the shadow log were lost.
	ShadowLinesLost func() int64
	GPUs            func() []GPU
	// Workers returns since when each worker has its process, zero if it has none, and how often their processes died.
	Workers func() (since map[string]time.Time, deaths map[WorkerDeath]uint64)
	// WorkerMemory returns how many bytes each worker's process takes, and how many it may; 0: any number.
	WorkerMemory func() (used map[string]int64, bound int64)
	// CertificateExpiry returns in how many seconds the first certificate of each role expires.
	CertificateExpiry func() map[string]float64
	// HandshakeFailures returns how many TLS handshakes failed, by reason.
	HandshakeFailures func() map[string]uint64
	// QuotasUsed returns which part of each quota is used, by identity and quota.
	QuotasUsed func() map[string]map[string]float64
	// HTTPRefused returns how many requests the HTTP port has refused, by reason.
	HTTPRefused func() map[string]uint64
}

// Connections are those of gRPC: how many are open, what is held for them, and how many were ended, by reason.
type Connections struct {
	Open, HeldBytes int64
	Ended           map[string]uint64
}

// EpisodeStates are the states of episodes: how many are kept, by model, how many bytes they take, those of shadows
// among them, and how many episodes have ended, by model and reason.
type EpisodeStates struct {
	Live         map[string]int
	Bytes, Spare int64
	Ended        map[EpisodeEnd]uint64
}

// EpisodeEnd is why episodes of a model ended.
type EpisodeEnd struct{ Model, Reason string }

// WorkerDeath is how a worker's process ended. It has the fields of worker.Death.
type WorkerDeath struct{ Worker, Signal string }

// WatchSources sets the sources, once and before the metrics are served.
func (t *Telemetry) WatchSources(s Sources) error {
	i := observed{meter: t.meter}
	episodes := i.gauge("weft_episodes", "Running episodes whose version is remembered.")
	states := i.gauge("weft_episode_states", "Episodes whose state is kept.")
	stateBytes := i.gauge("weft_episode_state_bytes",
		"Bytes of the states of all episodes, and of the answers that are kept for retries of their last steps.")
	spareBytes := i.gauge("weft_episode_shadow_bytes",
		"Bytes of states that shadows have, which give their room to episodes of callers.")
	stateEnds := i.counter("weft_episode_states_ended_total",
		"Episodes whose state was kept and that ended: by their last request (ended), begun anew (begun), without a "+
			"request for long (idle), or with their stream (stream).")
	utilization := i.floatGauge("weft_utilization",
		"How loaded the server is, as it reports to balancers: the part of the last second in which the devices worked, "+
			"and the work that waits as a part of the budget for it. Missing while no device has a model.")
	open := i.gauge("weft_breaker_open",
		"Whether a version's circuit breaker keeps requests of new episodes from it: 1 if it is open, 0 if it is "+
			"closed or trying.")
	verdict := i.gauge("weft_rollout_verdict",
		"What the latest rollout of a model says of its candidate: 0 while it runs, 1 if it promoted it, -1 if it ended "+
			"otherwise.")
	recorded := i.counter("weft_recorded_total",
		"Requests to be recorded: written, dropped because the disk was too slow, or lost to an error.")
	bytes := i.counter("weft_recorded_bytes_total", "Bytes of recordings written.")
	deleted := i.counter("weft_recordings_deleted_total", "Files of recordings deleted to keep the limit.")
	loads := i.counter("weft_model_loads_total", "Attempts to load a version of a model, by outcome: ready or failed.")
	unloads := i.counter("weft_model_unloads_total",
		"Versions that were unloaded, those that were replaced among them.")
	takenOut := i.counter("weft_versions_taken_out_total",
		"Times that a version was taken out because requests end the engine's process again and again.")
	memory := i.gauge("weft_model_memory_bytes",
		"Memory that loaded versions take: as estimated, or of the workers' processes if that is more.")
	budget := i.gauge("weft_model_memory_budget_bytes", "Memory that they may take together; 0: no limit.")
	linesLost := i.counter("weft_shadow_log_lines_lost_total",
		"Lines of the shadow log that were lost because the disk was too slow, or to an error.")
	workers := i.gauge("weft_worker_up",
		"Whether a worker has a process that runs models now: 1, or 0 while the next one is started.")
	deaths := i.counter("weft_worker_deaths_total",
		"Processes of a worker that died, by signal; an empty one: the process ended by itself.")
	workerStart := i.floatGauge("weft_worker_start_time_seconds",
		"When a worker's process was started, in seconds since 1970; missing while there is none.")
	quotas := i.floatGauge("weft_quota_used_ratio",
		"Part of a quota of the access file that an identity uses now, from 0 to 1.")
	workerMemory := i.gauge("weft_worker_memory_bytes",
		"Resident memory of a worker's process that it does not share with others.")
	workerBound := i.gauge("weft_worker_memory_bound_bytes",
		"How much of such memory each may take; 0: no limit.")
	connections := i.gauge("weft_connections", "Open connections, of gRPC and of HTTP.")
	held := i.gauge("weft_connection_held_bytes",
		"Bytes held for connections of gRPC: requests being received, answers not taken, open calls.")
	ended := i.counter("weft_connections_ended_total", "Connections that exceeded a limit, by reason.")
	expiry := i.floatGauge("weft_certificate_expiry_seconds",
		"Time until the first certificate of a role expires; negative once it has.")
	handshakes := i.counter("weft_tls_handshake_failures_total", "TLS handshakes that failed, by reason.")
	refused := i.counter("weft_http_refused_total", "Requests that the HTTP port has refused, by reason.")
	// A server that follows no GPUs does not declare their metrics.
	if s.GPUs != nil {
		if err := observeGPUs(i.meter, s.GPUs); err != nil {
			return err
		}
	}
	return i.by(func(o metric.Observer) {
		if s.Episodes != nil {
			o.ObserveInt64(episodes, int64(s.Episodes()))
		}
		if s.Utilization != nil {
			if now, is := s.Utilization(); is {
				o.ObserveFloat64(utilization, now)
			}
		}
		if s.EpisodeStates != nil {
			now := s.EpisodeStates()
			o.ObserveInt64(stateBytes, now.Bytes)
			o.ObserveInt64(spareBytes, now.Spare)
			for model, n := range now.Live {
				o.ObserveInt64(states, int64(n), metric.WithAttributes(attribute.String("model", model)))
			}
			for of, n := range now.Ended {
				o.ObserveInt64(stateEnds, int64(n), metric.WithAttributes(attribute.String("model", of.Model),
					attribute.String("reason", of.Reason)))
			}
		}
		if s.Breakers != nil {
			for _, b := range s.Breakers() {
				value := int64(0)
				if b.State == "open" {
					value = 1
				}
				o.ObserveInt64(open, value, versionOf(b.Model, b.Version))
			}
		}
		if s.Verdicts != nil {
			for _, v := range s.Verdicts() {
				o.ObserveInt64(verdict, v.Value, versionOf(v.Model, v.Version))
			}
		}
		if s.Connections != nil {
			c := s.Connections()
			o.ObserveInt64(connections, c.Open)
			o.ObserveInt64(held, c.HeldBytes)
			for reason, n := range c.Ended {
				o.ObserveInt64(ended, int64(n), metric.WithAttributes(attribute.String("reason", reason)))
			}
		}
		if s.Recording != nil {
			r := s.Recording()
			// All outcomes are there from the start, so that a rate of losses begins at 0.
			for outcome, n := range map[string]int64{"written": r.Written, "dropped": r.Dropped, "lost": r.Lost} {
				o.ObserveInt64(recorded, n, metric.WithAttributes(attribute.String("outcome", outcome)))
			}
			o.ObserveInt64(bytes, r.Bytes)
			o.ObserveInt64(deleted, r.Deleted)
		}
		if s.Resident != nil {
			r := s.Resident()
			o.ObserveInt64(loads, int64(r.Loads), metric.WithAttributes(attribute.String("outcome", "ready")))
			o.ObserveInt64(loads, int64(r.LoadFailures), metric.WithAttributes(attribute.String("outcome", "failed")))
			o.ObserveInt64(unloads, int64(r.Unloads))
			o.ObserveInt64(takenOut, int64(r.TakenOut))
			o.ObserveInt64(memory, r.MemoryInUse)
			o.ObserveInt64(budget, r.MemoryBudget)
		}
		if s.Workers != nil {
			since, died := s.Workers()
			for name, at := range since {
				worker, value := metric.WithAttributes(attribute.String("worker", name)), int64(0)
				if !at.IsZero() {
					value = 1
					o.ObserveFloat64(workerStart, float64(at.UnixMilli())/1e3, worker)
				}
				o.ObserveInt64(workers, value, worker)
			}
			for d, n := range died {
				o.ObserveInt64(deaths, int64(n),
					metric.WithAttributes(attribute.String("worker", d.Worker), attribute.String("signal", d.Signal)))
			}
		}
		if s.WorkerMemory != nil {
			used, bound := s.WorkerMemory()
			for name, n := range used {
				o.ObserveInt64(workerMemory, n, metric.WithAttributes(attribute.String("worker", name)))
			}
			o.ObserveInt64(workerBound, bound)
		}
		if s.CertificateExpiry != nil {
			for role, left := range s.CertificateExpiry() {
				o.ObserveFloat64(expiry, left, metric.WithAttributes(attribute.String("role", role)))
			}
		}
		if s.QuotasUsed != nil {
			for identity, parts := range s.QuotasUsed() {
				for quota, part := range parts {
					o.ObserveFloat64(quotas, part,
						metric.WithAttributes(attribute.String("identity", identity), attribute.String("quota", quota)))
				}
			}
		}
		observeByReason(o, handshakes, s.HandshakeFailures)
		observeByReason(o, refused, s.HTTPRefused)
		if s.ShadowLinesLost != nil {
			o.ObserveInt64(linesLost, s.ShadowLinesLost())
		}
	})
}

// observeByReason reports the counts of a source, if there is one.
func observeByReason(o metric.Observer, c metric.Int64ObservableCounter, counts func() map[string]uint64) {
	if counts == nil {
		return
	}
	for reason, n := range counts() {
		o.ObserveInt64(c, int64(n), metric.WithAttributes(attribute.String("reason", reason)))
	}
}

// observed makes instruments whose values are read together, and keeps their errors until by is called.
type observed struct {
	meter metric.Meter
	all   []metric.Observable
	errs  []error
}

// gauge and the methods below make instruments. The name must be that of testdata/metrics.txt.
func (i *observed) gauge(name, description string) metric.Int64ObservableGauge {
	g, err := i.meter.Int64ObservableGauge(name, metric.WithDescription(description))
	i.keep(g, err)
	return g
}

func (i *observed) counter(name, description string) metric.Int64ObservableCounter {
	c, err := i.meter.Int64ObservableCounter(name, metric.WithDescription(description))
	i.keep(c, err)
	return c
}

func (i *observed) floatGauge(name, description string) metric.Float64ObservableGauge {
	g, err := i.meter.Float64ObservableGauge(name, metric.WithDescription(description))
	i.keep(g, err)
	return g
}

func (i *observed) floatCounter(name, description string) metric.Float64ObservableCounter {
	c, err := i.meter.Float64ObservableCounter(name, metric.WithDescription(description))
	i.keep(c, err)
	return c
}

// keep notes an instrument, or why there is none.
func (i *observed) keep(instrument metric.Observable, err error) {
	i.all, i.errs = append(i.all, instrument), append(i.errs, err)
}

// by has the meter call observe whenever the metrics are read. It returns the errors of the instruments, too.
func (i *observed) by(observe func(metric.Observer)) error {
	err := errors.Join(i.errs...)
	if err == nil {
		_, err = i.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
			observe(o)
			return nil
		}, i.all...)
	}
	if err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	return nil
}
