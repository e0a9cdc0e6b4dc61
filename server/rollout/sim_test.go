package rollout

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/race"
)

// world is how the callers and the two versions of a rollout behave. The candidate is worse by some times the limit of
// the gate in what that limits, and no worse otherwise.
type world struct {
	name  string
	gate  Gate
	limit float64
	// visit returns what the n-th unit does, for one run. on is the version that it is led to.
	visit func(r *rand.Rand) func(n int, on int) visit
}

// visit is what one unit does.
type visit struct {
	requests  int
	single    bool             // without an episode
	fault     func(i int) bool // of the i-th request; nil: none
	failed    func(i int) bool
	compute   func(i int) time.Duration // nil: 10 ms
	disagrees bool                      // in the shadow; only of the baseline
	lost      bool
	outcome   float64
	by        string // who reports it
	lasts     time.Duration
}

func always(int) bool { return true }

// clamp is for numbers that must lie in the range 0 to 1.
func clamp(x float64) float64 { return max(0, min(1, x)) }

// kinds draw worlds, in which the candidate is worse by so many times the limit. Just at it a promotion is as wrong as
// a rollback.
var kinds = []func(r *rand.Rand, times float64) world{
	func(r *rand.Rand, times float64) world { // successes
		p, margin := 0.3+0.65*r.Float64(), 0.05+0.05*r.Float64()
		return outcomes("success", p, margin, func(r *rand.Rand) func(int, int) float64 {
			return func(_, on int) float64 {
				if r.Float64() < p-float64(on)*times*margin {
					return 1
				}
				return 0
			}
		})
	},
	func(r *rand.Rand, times float64) world { // a rare catastrophe among constants
		p := 0.001 * math.Pow(100, r.Float64())
		margin := p
		return outcomes("a catastrophe", p, margin, func(r *rand.Rand) func(int, int) float64 {
			return func(_, on int) float64 {
				if on == candidate && r.Float64() < times*margin {
					return 0
				}
				return 1
			}
		})
	},
	func(r *rand.Rand, times float64) world { // a failure now and then among constants, of a range that must be learnt
		p := 0.01 + 0.03*r.Float64()
		w := outcomes("failures among constants", p, p*500, func(r *rand.Rand) func(int, int) float64 {
			return func(_, on int) float64 {
				if on == candidate && r.Float64() < times*p {
					return 0
				}
				return 500
			}
		})
		w.gate.OutcomeMin, w.gate.OutcomeMax = nil, nil
		return w
	},
	func(r *rand.Rand, times float64) world { // a heavy tail, cut at the declared end
		shape, margin := 0.8+r.Float64(), 0.05
		return outcomes("a heavy tail", shape, margin, func(r *rand.Rand) func(int, int) float64 {
			return func(_, on int) float64 {
				x := 1 - min(0.9, 0.02/math.Pow(1-r.Float64(), 1/shape))
				return x - float64(on)*times*margin
			}
		})
	},
	func(r *rand.Rand, times float64) world {
		period := 50 + 2000*r.Float64()
		return leveled("days", period, times, func(*rand.Rand) func(int) float64 {
			return func(n int) float64 { return 0.5 + 0.5*math.Sin(float64(n)/period) }
		})
	},
	func(r *rand.Rand, times float64) world {
		at := 1 + r.IntN(3000)
		return leveled("a jump", float64(at), times, func(*rand.Rand) func(int) float64 {
			return func(n int) float64 { return float64(min(n/at, 1)) }
		})
	},
	func(r *rand.Rand, times float64) world {
		length := 2 + r.IntN(300)
		return leveled("blocks", float64(length), times, func(r *rand.Rand) func(int) float64 {
			level := 0.0
			return func(n int) float64 {
				if n%length == 0 {
					level = r.Float64()
				}
				return level
			}
		})
	},
	func(r *rand.Rand, times float64) world {
		step := 0.01 + 0.1*r.Float64()
		return leveled("a walk", step, times, func(r *rand.Rand) func(int) float64 {
			state := 0.5
			return func(int) float64 {
				state = clamp(state + step*r.NormFloat64())
				return state
			}
		})
	},
	func(r *rand.Rand, times float64) world { // the level follows the last draw
		swing, margin := 0.2+0.4*r.Float64(), 0.05
		return outcomes("an adversary", swing, margin, func(r *rand.Rand) func(int, int) float64 {
			last := 0
			return func(_, on int) float64 {
				x := 0.2 + swing*float64(last) + 0.1*r.Float64() - float64(on)*times*margin + 0.1
				last = on
				return x
			}
		})
	},
	func(r *rand.Rand, times float64) world { // faults of requests without episodes, some of both versions
		p, limit := 0.05*r.Float64(), 0.02
		return world{
			name: fmt.Sprintf("faults, %.2g of both", p), gate: Gate{MaxErrorRate: limit}, limit: limit,
			visit: func(r *rand.Rand) func(int, int) visit {
				return func(_, on int) visit {
					failed := r.Float64() < p+float64(on)*times*limit
					return visit{requests: 1, single: true, fault: func(int) bool { return failed }}
				}
			},
		}
	},
	func(r *rand.Rand, times float64) world { // faults of whole episodes
		p, limit, most := 0.05*r.Float64(), 0.05, 2+r.IntN(20)
		return world{
			name: fmt.Sprintf("whole episodes, %.2g of both, up to %d requests", p, most), gate: Gate{MaxErrorRate: limit},
			limit: limit, visit: func(r *rand.Rand) func(int, int) visit {
				return func(_, on int) visit {
					v := visit{requests: 1 + r.IntN(most)}
					if r.Float64() < p+float64(on)*times*limit {
						v.fault = always
					}
					return v
				}
			},
		}
	},
	func(r *rand.Rand, times float64) world { // outages, in which most of everybody's requests fail
		length, limit := 20+r.IntN(200), 0.03
		return world{
			name: fmt.Sprintf("outages of %d", length), gate: Gate{MaxErrorRate: limit}, limit: limit,
			visit: func(r *rand.Rand) func(int, int) visit {
				out := false
				return func(n, on int) visit {
					if n%length == 0 {
						out = r.Float64() < 0.1
					}
					p := 0.0
					if out {
						p = 0.5
					}
					failed := r.Float64() < p+float64(on)*times*limit
					return visit{requests: 1, single: true, fault: func(int) bool { return failed }}
				}
			},
		}
	},
	func(r *rand.Rand, times float64) world { // callers' mistakes
		p, limit := 0.1*r.Float64(), 0.03
		return world{
			name: fmt.Sprintf("mistakes, %.2g of both", p), gate: Gate{MaxFailureIncrease: limit}, limit: limit,
			visit: func(r *rand.Rand) func(int, int) visit {
				return func(_, on int) visit {
					v := visit{requests: 1 + r.IntN(5)}
					v.failed = func(int) bool { return r.Float64() < p+float64(on)*times*limit }
					return v
				}
			},
		}
	},
	func(r *rand.Rand, times float64) world { // skewed latencies; so many of the candidate's are far beyond
		sigma, limit := 0.1+r.Float64(), 0.05
		return world{
			name: fmt.Sprintf("latency, sigma %.2g", sigma), gate: Gate{MaxErrorRate: limit, MaxLatencyRatio: 1}, limit: limit,
			visit: func(r *rand.Rand) func(int, int) visit {
				return func(_, on int) visit {
					return visit{requests: 1, single: true, compute: func(int) time.Duration {
						if on == candidate && r.Float64() < times*limit/0.95 {
							return time.Minute
						}
						return time.Duration(float64(10*time.Millisecond) * math.Exp(sigma*r.NormFloat64()))
					}}
				}
			},
		}
	},
	func(r *rand.Rand, times float64) world { // lost episodes
		p, limit := 0.1*r.Float64(), 0.05
		return world{
			name: fmt.Sprintf("lost, %.2g of both", p), limit: limit,
			gate: Gate{
				Outcome: "reward", OutcomeMin: new(0.0), OutcomeMax: new(1.0), Margin: 0.2, MaxErrorRate: 0.1,
				MaxFailureIncrease: 0.1, MaxLostIncrease: limit,
			},
			visit: func(r *rand.Rand) func(int, int) visit {
				return func(_, on int) visit {
					return visit{requests: 2, lost: r.Float64() < p+float64(on)*times*limit, outcome: r.Float64()}
				}
			},
		}
	},
	func(r *rand.Rand, times float64) world { // one of five callers says that the candidate is worse, or better
		good, margin := float64(r.IntN(2)), 0.1
		w := outcomes("a liar", good, margin, func(r *rand.Rand) func(int, int) float64 {
			return func(_, on int) float64 { return 0.5 + 0.3*r.Float64() - float64(on)*times*margin }
		})
		honest := w.visit
		w.visit = func(r *rand.Rand) func(int, int) visit {
			next := honest(r)
			return func(n, on int) visit {
				v := next(n, on)
				if v.by = []string{"a", "b", "c", "d", "liar"}[r.IntN(5)]; v.by == "liar" {
					v.outcome = math.Abs(float64(on) - 1 + good)
				}
				return v
			}
		}
		return w
	},
	func(r *rand.Rand, times float64) world { // the candidate disagrees in whole episodes
		limit, most := 0.05, 1+r.IntN(10)
		return world{
			name: fmt.Sprintf("disagreement, up to %d requests", most), limit: limit,
			gate: Gate{MinAgreement: 1 - limit, MaxErrorRate: 0.1, MaxFailureIncrease: 0.1},
			visit: func(r *rand.Rand) func(int, int) visit {
				return func(int, int) visit {
					return visit{requests: 1 + r.IntN(most), disagrees: r.Float64() < times*limit}
				}
			},
		}
	},
}

// outcomes is a world of outcomes from 0 to 1. A higher outcome is better.
func outcomes(name string, by, margin float64, draw func(*rand.Rand) func(n, on int) float64) world {
	return world{
		name: fmt.Sprintf("%s, %.3g", name, by), limit: margin,
		gate: Gate{
			Outcome: "reward", OutcomeMin: new(0.0), OutcomeMax: new(1.0), Margin: margin, MaxErrorRate: 0.1,
			MaxFailureIncrease: 0.1, MaxLostIncrease: 0.1,
		},
		visit: func(r *rand.Rand) func(int, int) visit {
			next := draw(r)
			return func(n, on int) visit {
				x := next(n, on)
				// Who does well goes on for longer.
				lasts := time.Duration(30 * clamp(x) * float64(time.Second))
				return visit{requests: 1 + int(4*clamp(x)), outcome: x, lasts: lasts}
			}
		},
	}
}

// leveled is a world of outcomes whose level both versions share.
func leveled(name string, by, times float64, draw func(*rand.Rand) func(n int) float64) world {
	const margin = 0.05
	return outcomes(name, by, margin, func(r *rand.Rand) func(n, on int) float64 {
		level := draw(r)
		return func(n, on int) float64 { return 0.3 + 0.5*level(n) + 0.2*(r.Float64()-0.5) - float64(on)*times*margin }
	})
}

// live leads one rollout through a world until it ends, or so many units came, and returns how it ended and after how
// many units.
func (w *world) live(t *testing.T, seed uint64, units int) (State, int) {
	t.Helper()
	const perSecond = 20
	r := rand.New(rand.NewPCG(seed, 61))
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	type running struct {
		id      string
		version int64
		by      string
		outcome float64
	}
	open := map[int][]running{} // by the second in which they end
	h := newHost(1, 2)
	m := New(Config{
		Traffic: h, Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler),
		Unfinished: func(string) (ids []string) {
			for _, all := range open {
				for i := range all {
					ids = append(ids, all[i].id)
				}
			}
			return ids
		},
	})
	plan := Plan{
		Model: "m", BaselineVersion: 1, CandidateVersion: 2, Automatic: true, Stages: []float64{10, 50, 100}, Gate: w.gate,
	}
	if _, err := m.Start(plan, "somebody"); err != nil {
		t.Fatal(err)
	}
	visit := w.visit(r)
	for n := range units {
		now = now.Add(time.Second / perSecond)
		if n%perSecond == 0 {
			m.look()
			for _, e := range []Episodes{m.runs["m"].Report.BaselineEpisodes, m.runs["m"].Report.CandidateEpisodes} {
				if e.Begun > e.Reported+e.Unfinished+e.Lost || e.Waiting > e.Reported || e.Lost < 0 {
					t.Errorf("after %d units: %+v does not add up", n, e)
				}
			}
			if m.runs["m"].State != Running {
				return m.runs["m"].State, n
			}
		}
		on := baseline
		if r.Float64() < m.runs["m"].stages[len(m.runs["m"].stages)-1].part {
			on = candidate
		}
		v := visit(n, on)
		id := strconv.Itoa(n)
		version := int64(on + 1)
		if v.single {
			id = ""
		} else {
			m.Begun("m", version, Beginning{Episode: id, By: v.by, Draw: uint64(n) + 1, At: now})
		}
		for i := range v.requests {
			e := Ending{Code: Answered, Episode: id, Drawn: true, Compute: 10 * time.Millisecond}
			if v.compute != nil {
				e.Compute = v.compute(i)
			}
			switch {
			case v.fault != nil && v.fault(i):
				e.Code, e.Fault = "Internal", true
			case v.failed != nil && v.failed(i):
				e.Code = "InvalidArgument"
			case on == baseline && w.gate.MinAgreement > 0:
				m.Shown("m", 2, id, "done", !v.disagrees)
			}
			m.Observe("m", version, e)
		}
		if !v.single && !v.lost {
			end := n/perSecond + int(v.lasts/time.Second)
			open[end] = append(open[end], running{id, version, v.by, v.outcome})
		}
		if n%perSecond == perSecond-1 {
			for _, o := range open[n/perSecond] {
				m.Report("m", o.id, o.version, map[string]float64{"reward": o.outcome}, nil, o.by)
			}
			delete(open, n/perSecond)
		}
	}
	return Running, units
}

// TestWholeRollouts: of rollouts whose candidate is at the limit of what is allowed, in whatever way, at most alpha end
// with a promotion, and at most alpha with a rollback; well within it or beyond, they end right.
func TestWholeRollouts(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("it computes for seconds")
	}
	seed, laws, most := asked(t, 1, len(kinds), 3)
	units := 3000
	if most > 3 {
		units = 6000
	}
	draws := rand.New(rand.NewPCG(seed, 62))
	for i := range laws {
		kind, parameters := kinds[i%len(kinds)], draws.Uint64()
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			for _, times := range []float64{1, 0, 3} {
				runs := most
				if times != 1 {
					runs = min(runs, max(6, runs/25)) // these are not at the limit
				}
				w := kind(rand.New(rand.NewPCG(parameters, 63)), times)
				w.judge(t, seed<<40|parameters>>32<<16, runs, units, times)
			}
		})
	}
}

// judge lives through many runs of a world.
func (w *world) judge(t *testing.T, seed uint64, runs, units int, times float64) {
	const alpha = 0.05
	ends, took := make([]State, runs), make([]int, runs)
	var group sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for run := range runs {
		free <- struct{}{}
		group.Go(func() {
			ends[run], took[run] = w.live(t, seed|uint64(run), units)
			<-free
		})
	}
	group.Wait()
	count := map[State]int{}
	var right []int
	for run, end := range ends {
		count[end]++
		if times < 1 && end == Promoted || times > 1 && end == RolledBack {
			right = append(right, took[run])
		}
	}
	slices.Sort(right)
	said := fmt.Sprintf("%s, %v times the limit of %.3g: promoted %d, rolled back %d of %d", w.name, times, w.limit,
		count[Promoted], count[RolledBack], runs)
	if n := len(right); n > 0 {
		said += fmt.Sprintf(", right after %d units in the median", right[n/2])
	}
	limit := alpha*float64(runs) + 3*math.Sqrt(alpha*(1-alpha)*float64(runs))
	if times >= 1 && float64(count[Promoted]) > limit || times <= 1 && float64(count[RolledBack]) > limit {
		t.Error(said)
	} else {
		t.Log(said)
	}
}
