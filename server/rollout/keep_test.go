package rollout

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
)

// lastKept returns the latest record that the host was given to keep, as a later process finds it.
func (h *host) lastKept() map[string]Kept {
	h.mu.Lock()
	defer h.mu.Unlock()
	return map[string]Kept{"m": {h.kept[len(h.kept)-1].Rollout, h.model.Traffic.Revision}}
}

// TestARolloutGoesOnAfterARestart in its stage, with the evidence that was kept, and an ended one is shown as it ended.
func TestARolloutGoesOnAfterARestart(t *testing.T) {
	for name, c := range map[string]struct {
		plan  func(*Plan)
		until func(b *bench)
		then  func(t *testing.T, b *bench)
	}{
		"on its way": {
			nil,
			func(b *bench) {
				b.serve(150, 1, 2)
				pass(40 * time.Second)
				b.serve(50, 1, 2)
				pass(12 * time.Second)
			},
			func(t *testing.T, b *bench) {
				r := b.state(t)
				if s, why := last(r); r.State != Running || r.Stage != 1 || s != Running ||
					!strings.Contains(why, "that was kept") || len(r.Steps) != 3 {
					t.Fatalf("%+v", r)
				}
				expectSplit(t, b, "baseline 1: 90, candidate 2: 10, 0 shadows by rollout")
				if c := named(r.Report, "episodes"); !strings.Contains(c.Reason, "counts of 200 episodes of the candidate") {
					t.Errorf("%+v", c)
				}
				pass(time.Minute)
				if r = b.state(t); r.Stage != 1 || r.Report.Verdict != Hold { // 50 requests in this stage
					t.Errorf("without evidence: %+v", r)
				}
				b.serve(100, 1, 2) // counted anew
				pass(2 * time.Second)
				expectSplit(t, b, "baseline 1: 50, candidate 2: 50, 0 shadows by rollout")
				if by := b.state(t).Steps; by[0].By != "somebody" || by[1].By != "gate" || by[2].By != "weft" ||
					by[3].By != "gate" {
					t.Errorf("by %+v", by)
				}
			},
		},
		"rolled back": {
			nil,
			func(b *bench) {
				b.serve(150, 3, 1)
				pass(2 * time.Second)
			},
			func(t *testing.T, b *bench) {
				expectEnd(t, b.state(t), RolledBack, "ROLLBACK")
				expectSplit(t, b, "prod 1: 100, 0 shadows by rollout")
			},
		},
		"aborted": {
			nil,
			func(b *bench) { _, _ = b.Abort("m") },
			func(t *testing.T, b *bench) { expectEnd(t, b.state(t), Aborted, "asked for by hand") },
		},
		"somebody else divided the traffic, and no look came between": {
			func(p *Plan) { p.Automatic = false },
			func(b *bench) {},
			func(t *testing.T, b *bench) {
				if _, err := b.host.SetTraffic("m",
					&catalog.Traffic{Source: "SetTraffic", Split: []catalog.Slot{{Name: "x", Version: 3, Weight: 1}}},
					0); err != nil {
					t.Fatal(err)
				}
				pass(2 * time.Second)
				expectEnd(t, b.state(t), Aborted, "changed by somebody else")
				expectSplit(t, b, "x 3: 1, 0 shadows by SetTraffic")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var before *bench
			var was Rollout
			within(t, nil, func(t *testing.T, b *bench) {
				b.start(t, c.plan)
				c.until(b)
				before, was = b, b.state(t)
			})
			model := before.host.model
			within(t, func(config *Config) {
				config.Kept = before.host.lastKept()
				config.Traffic.(*host).model = model
			}, func(t *testing.T, b *bench) {
				r, _ := b.Get("m")
				equal := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
				if diff := cmp.Diff(was.Steps, r.Steps[:len(was.Steps)], equal); diff != "" {
					t.Errorf("steps (-before +after):\n%s", diff)
				}
				if diff := cmp.Diff(was.Report, r.Report, equal); diff != "" && r.State != Running {
					t.Errorf("the report of one that has ended (-before +after):\n%s", diff)
				}
				if r.State != was.State || r.Stage != was.Stage || !cmp.Equal(r.Plan, was.Plan) {
					t.Errorf("%+v, was %+v", r, was)
				}
				c.then(t, b)
			})
		})
	}
}

// TestWhatIsKeptIsForPeople: names as in the API, durations with their unit, and each report once.
func TestWhatIsKeptIsForPeople(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.start(t, nil)
		text := string(b.host.kept[0].Rollout)
		for _, key := range regexp.MustCompile(`"([^"]*)":`).FindAllStringSubmatch(text, -1) {
			if !regexp.MustCompile(`^[a-z0-9_]+$`).MatchString(key[1]) {
				t.Errorf("a key is %q", key[1])
			}
		}
		if !strings.Contains(text, `"stage_duration":"30s"`) || strings.Count(text, `"checks":`) != 1 {
			t.Error(text)
		}
	})
}

// TestWhatARolloutDecidesIsOneDecision: each change of the traffic comes with the rollout's state afterwards, and
// giving the baseline everything comes with the candidate rolled back.
func TestWhatARolloutDecidesIsOneDecision(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.start(t, func(p *Plan) { p.Automatic = false })
		for range 2 {
			if _, err := b.Advance("m"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Abort("m"); err != nil {
			t.Fatal(err)
		}
		for i, want := range []State{Running, Running, Running, Aborted} {
			d := b.host.kept[i]
			r, _, err := decode("m", Kept{d.Rollout, 0})
			if err != nil || r.State != want || len(r.Steps) != i+1 || i < 3 && r.Stage != i || d.Traffic == nil ||
				d.Traffic.By != "somebody" {
				t.Errorf("decision %d: %+v, %v", i+1, d, err)
			}
			if back := d.RollBack; (back != nil) != (want == Aborted) || back != nil &&
				(back.Version != 2 || back.By != "somebody" || back.Why == "") {
				t.Errorf("decision %d rolls back %+v", i+1, back)
			}
		}
		if len(b.host.kept) != 4 {
			t.Errorf("%d decisions", len(b.host.kept))
		}
	})
}

// TestARolloutThatCannotBeKeptStays where it is, and goes on when it can.
func TestARolloutThatCannotBeKeptStays(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.start(t, nil)
		b.host.setRefusal(&catalog.KeepError{Model: "m", Cause: syscall.ENOSPC})
		b.serve(150, 1, 2)
		pass(40 * time.Second)
		if r := b.state(t); r.Stage != 0 || len(r.Steps) != 1 || r.State != Running {
			t.Errorf("with a full disk: %+v", r)
		}
		b.host.setRefusal(nil)
		pass(2 * time.Second)
		if r := b.state(t); r.Stage != 1 || len(r.Steps) != 2 {
			t.Errorf("with room again: %+v", r)
		}
	})
}

// TestAKeptRolloutThatCannotBeRead is forgotten, and the log says so.
func TestAKeptRolloutThatCannotBeRead(t *testing.T) {
	const good = `{"model":"m","baseline_version":1,"candidate_version":2,"stages":[1,100],"stage":0,"state":"RUNNING","stage_duration":"30s",` +
		`"steps":[{"at":"2026-05-04T03:02:01Z","percent":1,"state":"RUNNING"}]}`
	if _, _, err := decode("m", Kept{[]byte(good), 1}); err != nil {
		t.Fatal(err)
	}
	replaced := func(old, with string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("there is no %s", old)
		}
		return strings.Replace(good, old, with, 1)
	}
	for _, text := range []string{
		"", "[]", replaced(`"m"`, `"n"`), replaced(`"stage":0`, `"stage":2`),
		replaced(`"state":"RUNNING"`, `"state":"GONE"`),
		replaced(`"30s"`, `"30"`), replaced(`[{"at":"2026-05-04T03:02:01Z","percent":1,"state":"RUNNING"}]`, "[]"),
	} {
		within(t, func(c *Config) { c.Kept = map[string]Kept{"m": {[]byte(text), 1}} }, func(t *testing.T, b *bench) {
			synctest.Wait()
			if r, ok := b.Get("m"); ok || !strings.Contains(b.log.String(), "event=rollout_unreadable") ||
				!strings.Contains(b.log.String(), slog.LevelError.String()) {
				t.Errorf("%q: %+v, log %s", text, r, b.log)
			}
		})
	}
}

// TestARolloutOfAnEarlierRelease has no metrics and no history, and is shown as it ended, or goes on.
func TestARolloutOfAnEarlierRelease(t *testing.T) {
	const text = `{"model":"m","baseline_version":1,"candidate_version":2,"stages":[1,100],"automatic":true,` +
		`"gate":{"min_requests":100,"min_episodes":20,"max_error_rate":0.01,"max_latency_ratio":1.5,"min_agreement":0,` +
		`"max_failure_increase":0.01,"max_lost_increase":0.05,"outcome":"reward","lower_is_better":false,"margin":0.1,` +
		`"alpha":0.05},"state":"STATE","stage":0,"stage_since":"2026-05-04T03:02:01Z","steps":[{` +
		`"at":"2026-05-04T03:02:01Z","percent":1,"state":"STATE","by":"gate","reason":"why","report":{"verdict":"PROMOTE",` +
		`"checks":[{"name":"outcome","verdict":"PROMOTE","reason":"because"}],` +
		`"codes":[{"code":"OK","baseline":900,"candidate":100}],"baseline_episodes":{"begun":90,"reported":80,"waiting":1,` +
		`"unfinished":2,"lost":8},"candidate_episodes":{"begun":1,"reported":1,"waiting":0,"unfinished":0,"lost":0},` +
		`"at":"2026-05-04T03:02:01Z"}}],"stage_duration":"30s"}`
	for _, state := range []string{"RUNNING", "PROMOTED"} {
		within(t, func(c *Config) {
			c.Traffic.(*host).model.Traffic = &catalog.Traffic{Revision: 1}
			c.Kept = map[string]Kept{"m": {[]byte(strings.ReplaceAll(text, "STATE", state)), 1}}
		}, func(t *testing.T, b *bench) {
			r, ok := b.Get("m")
			if !ok {
				t.Fatalf("%s: %s", state, b.log)
			}
			was := r.Steps[0].Report
			if was.Verdict != Promote || was.Metrics != nil || was.Summary != "" || was.Split != (Split{}) ||
				was.BaselineEpisodes.Begun != 90 || was.Checks[0].Reason != "because" {
				t.Errorf("%s: %+v", state, was)
			}
			if r.State == Promoted && (len(r.History.Points) > 0 || len(r.History.Moments) > 0) {
				t.Errorf("%s: %+v", state, r.History)
			}
			if r.State == Running && (len(r.History.Moments) != 1 || len(r.Report.Metrics) != 5) {
				t.Errorf("%s: %+v, %+v", state, r.History, r.Report)
			}
		})
	}
}

// TestEvidenceOfAnotherReleaseBeginsAnew: the rollout goes on.
func TestEvidenceOfAnotherReleaseBeginsAnew(t *testing.T) {
	var kept map[string]Kept
	var model *catalog.Model
	within(t, nil, func(t *testing.T, b *bench) {
		b.start(t, nil)
		b.serve(50, 1, 2)
		pass(12 * time.Second)
		kept, model = b.host.lastKept(), b.host.model
	})
	k := kept["m"]
	k.Text = bytes.Replace(k.Text, []byte(`"errors":[{`), []byte(`"errors":[7,{`), 1)
	if bytes.Equal(k.Text, kept["m"].Text) {
		t.Fatalf("kept: %s", k.Text)
	}
	kept["m"] = k
	within(t, func(c *Config) { c.Kept, c.Traffic.(*host).model = kept, model }, func(t *testing.T, b *bench) {
		r := b.state(t)
		if _, why := last(r); r.State != Running || !strings.Contains(why, "begins anew") ||
			r.Report.CandidateEpisodes != (Episodes{}) {
			t.Errorf("%+v", r)
		}
	})
}

// TestTheHistoryIsKept, like the evidence that it is of.
func TestTheHistoryIsKept(t *testing.T) {
	for _, abort := range []bool{true, false} {
		var before *bench
		var was Rollout
		within(t, nil, func(t *testing.T, b *bench) {
			b.start(t, nil)
			b.serve(150, 1, 2)
			pass(12 * time.Second)
			if abort {
				if _, err := b.Abort("m"); err != nil {
					t.Fatal(err)
				}
			}
			before, was = b, b.state(t)
		})
		within(t, func(c *Config) {
			c.Kept = before.host.lastKept()
			c.Traffic.(*host).model = before.host.model
		}, func(t *testing.T, b *bench) {
			r, _ := b.Get("m")
			equal := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
			r.History.Moments = r.History.Moments[:len(was.History.Moments)] // and the restart
			if diff := cmp.Diff(was.History, r.History, equal); diff != "" || len(was.History.Points) == 0 {
				t.Errorf("history (-before +after):\n%s", diff)
			}
		})
	}
}

// TestRestartsAtAnyMoment change no verdict, and no rollout runs for ever for them.
func TestRestartsAtAnyMoment(t *testing.T) {
	if testing.Short() {
		t.Skip("it simulates many rollouts")
	}
	rng := rand.New(rand.NewPCG(36, 2))
	for _, c := range []struct {
		better float64
		want   State
	}{{1, Promoted}, {-1, RolledBack}} {
		for range 40 {
			kept, began := map[string]Kept(nil), (*catalog.Model)(nil)
			restarts, ended := 1+rng.IntN(4), State(0)
			for life := 0; ended == 0; life++ {
				var before *bench
				within(t, func(config *Config) {
					config.Kept = kept
					if began != nil {
						config.Traffic.(*host).model = began
					}
				}, func(t *testing.T, b *bench) {
					if life == 0 {
						b.start(t, func(p *Plan) { p.Stages, p.StageDuration = []float64{20, 50, 100}, 30*time.Second })
					}
					lives := time.Duration(rng.Int64N(int64(100 * time.Second)))
					if life >= restarts {
						lives = time.Hour
					}
					for at := time.Now(); time.Since(at) < lives; {
						if r := b.state(t); r.State != Running {
							ended = r.State
							break
						}
						b.serve(1, 1.5, 1.5+c.better)
						pass(time.Duration(rng.Int64N(int64(time.Second))))
					}
					before = b
				})
				if began = before.host.model; len(before.host.kept) > 0 {
					kept = before.host.lastKept()
				}
				if life > restarts {
					t.Fatal("a rollout runs on for more than an hour")
				}
			}
			if ended != c.want {
				t.Errorf("%v, want %v", ended, c.want)
			}
		}
	}
}
