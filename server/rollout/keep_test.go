package rollout

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// lastKept returns the latest record that the host was given to keep, as a later process finds it.
func (h *host) lastKept() map[string]Kept {
	h.mu.Lock()
	defer h.mu.Unlock()
	return map[string]Kept{"m": {h.kept[len(h.kept)-1].Rollout, h.model.Traffic.Revision}}
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
		for range 12 {
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
