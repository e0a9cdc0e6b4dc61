package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

var episodes atomic.Int64

// answerers asks often, each time for another episode, and returns how often each version answered.
func (r *running) answerers(t *testing.T, often int) map[int64]int {
	t.Helper()
	client, all := weftv1.NewPredictionServiceClient(r.conn), map[int64]int{}
	for range often {
		req := weftest.Request("walker", 1)
		req.EpisodeId = fmt.Sprint("e", episodes.Add(1)) // running ones stay where they are
		answer, err := client.Predict(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		all[answer.GetModel().GetVersion()]++
	}
	return all
}

func (r *running) traffic(t *testing.T) *weftv1.GetTrafficResponse {
	t.Helper()
	answer, err := weftv1.NewModelServiceClient(r.conn).GetTraffic(t.Context(),
		&weftv1.GetTrafficRequest{Model: "walker"})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// again runs one server after the other on a repository.
func again(t *testing.T, repository string, adjust func(*App), each ...func(t *testing.T, r *running)) {
	t.Helper()
	for i, do := range each {
		t.Run(fmt.Sprint("start ", i+1), func(t *testing.T) {
			r := serveFrom(t, repository, adjust)
			r.until(t, "all is loaded", func(m *weftv1.Model) bool {
				_, state := r.get(t, "/readyz")
				return state != "loading\n" && !slices.ContainsFunc(m.GetVersions(), func(v *weftv1.ModelVersion) bool {
					return v.GetState() == weftv1.VersionState_VERSION_STATE_LOADING
				})
			})
			do(t, r)
		})
	}
}

// TestARolledBackVersionStaysAway rolls the newest version back, by the gate, and starts the server again: with the
// traffic of the rollout, and without any, when the newest version would answer.
func TestARolledBackVersionStaysAway(t *testing.T) {
	repository := t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.AddVersion(t, repository, "walker", 2)
	weftest.SetManifest(t, repository, "walker", quickWith("versions: {policy: all}"))
	var revision uint64
	again(t, repository, nil,
		func(t *testing.T, r *running) {
			admin := weftv1.NewAdminServiceClient(r.admin)
			start := &weftv1.StartRolloutRequest{Rollout: &weftv1.Rollout{
				Model: "walker", BaselineVersion: 1, CandidateVersion: 2, Automatic: true, Stages: []float64{50, 100},
				StageDuration: durationpb.New(time.Hour),
				Gate:          &weftv1.Gate{MinRequests: 10, MinEpisodes: 10, MaxLatencyRatio: 1000, Outcome: "reward"},
			}}
			if _, err := admin.StartRollout(t.Context(), start); err != nil {
				t.Fatal(err)
			}
			client, models := weftv1.NewPredictionServiceClient(r.conn), weftv1.NewModelServiceClient(r.conn)
			for i := 0; ; i++ {
				req := weftest.Request("walker", 1)
				req.EpisodeId = fmt.Sprint("r", i)
				answer, err := client.Predict(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				reward := float64(-10*answer.GetModel().GetVersion()) + float64(i%3)
				outcome := &weftv1.ReportOutcomeRequest{
					Model:     &weftv1.ModelSpec{Name: "walker"},
					EpisodeId: req.GetEpisodeId(), Reward: &reward,
				}
				if _, err := client.ReportOutcome(t.Context(), outcome); err != nil {
					t.Fatal(err)
				}
				rollout, err := models.GetRollout(t.Context(), &weftv1.GetRolloutRequest{Model: "walker"})
				if err != nil {
					t.Fatal(err)
				}
				if state := rollout.GetRollout().GetState(); state == weftv1.RolloutState_ROLLOUT_STATE_ROLLED_BACK {
					break
				} else if state != weftv1.RolloutState_ROLLOUT_STATE_RUNNING {
					t.Fatalf("the worse version: %v", rollout)
				}
			}
			revision = r.traffic(t).GetTraffic().GetRevision()
		},
		func(t *testing.T, r *running) {
			if got := r.answerers(t, 50); got[1] != 50 {
				t.Errorf("after a rollback and a restart the versions answered so often: %v", got)
			}
			now := r.traffic(t)
			back := now.GetRolledBack()
			if now.GetTraffic().GetRevision() != revision || now.GetTraffic().GetSource() != "rollout" ||
				now.GetDecidedBy() != "gate" ||
				time.Since(now.GetDecidedAt().AsTime()) > weftest.Patience || len(back) != 1 ||
				back[0].GetVersion() != 2 ||
				!strings.Contains(back[0].GetReason(), "ROLLBACK") {
				t.Errorf("the traffic is %v, was revision %d", now, revision)
			}
			rollout, err := weftv1.NewModelServiceClient(r.conn).GetRollout(t.Context(),
				&weftv1.GetRolloutRequest{Model: "walker"})
			if steps := rollout.GetRollout().GetSteps(); err != nil || len(steps) != 2 || steps[1].GetBy() != "gate" ||
				steps[0].GetBy() == "gate" {
				t.Errorf("the rollout is %v, %v", rollout, err)
			}
			admin := weftv1.NewAdminServiceClient(r.admin)
			set, err := admin.SetTraffic(t.Context(),
				&weftv1.SetTrafficRequest{Model: "walker", Traffic: &weftv1.Traffic{Revision: revision}})
			if err != nil || set.GetTraffic().GetRevision() != revision+1 {
				t.Errorf("a change on the revision from before the restart: %v, %v", set, err)
			}
		},
		func(t *testing.T, r *running) {
			if got := r.answerers(t, 50); got[1] != 50 {
				t.Errorf("with no traffic, the versions answered so often: %v", got)
			}
			byNumber := weftest.Request("walker", 1)
			byNumber.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: 2}
			if _, err := weftv1.NewPredictionServiceClient(r.conn).Predict(t.Context(), byNumber); err != nil {
				t.Errorf("a request that names the version: %v", err)
			}
			admin := weftv1.NewAdminServiceClient(r.admin)
			named := &weftv1.Traffic{Split: []*weftv1.TrafficSlot{{Slot: "a", Version: 2, Weight: 1}}}
			if _, err := admin.SetTraffic(t.Context(),
				&weftv1.SetTrafficRequest{Model: "walker", Traffic: named}); err != nil {
				t.Fatal(err)
			}
		},
		func(t *testing.T, r *running) {
			if got := r.answerers(t, 50); got[2] != 50 || len(r.traffic(t).GetRolledBack()) != 0 {
				t.Errorf("an operator gave it the traffic, and the versions answered so often: %v", got)
			}
			weftest.SetManifest(t, repository,
				"walker", quickWith("versions: {policy: all}", "traffic: {split: [{slot: a, version: 1, weight: 1}]}"))
		},
		func(t *testing.T, r *running) { // the manifest's traffic changed while no server ran
			if got := r.answerers(t, 50); got[1] != 50 {
				t.Errorf("model.yaml gave the traffic to version 1, and the versions answered so often: %v", got)
			}
		},
	)
}

// TestDecisionsOutliveTheServer: traffic, labels, versions loaded and unloaded by an operator, and a rollout on its
// way.
func TestDecisionsOutliveTheServer(t *testing.T) {
	repository := t.TempDir()
	for version := 1; version <= 4; version++ {
		weftest.AddVersion(t, repository, "walker", version)
	}
	weftest.SetManifest(t, repository, "walker", quickWith("versions: {policy: {latest: 1}}"))
	again(t, repository, watched,
		func(t *testing.T, r *running) {
			if r.inForce != "" {
				t.Errorf("nothing was decided, and the log tells of %s", r.inForce)
			}
			admin := weftv1.NewAdminServiceClient(r.admin)
			for version := int64(1); version <= 3; version++ {
				if _, err := admin.LoadVersion(t.Context(),
					&weftv1.LoadVersionRequest{Model: "walker", Version: version}); err != nil {
					t.Fatal(err)
				}
			}
			label, err := admin.SetLabel(t.Context(),
				&weftv1.SetLabelRequest{Model: "walker", Label: "stable", Version: 1})
			if err != nil || !label.GetPersisted() {
				t.Fatal(label, err)
			}
			if _, err := admin.UnloadVersion(t.Context(),
				&weftv1.UnloadVersionRequest{Model: "walker", Version: 4}); err != nil {
				t.Fatal(err)
			}
			start := &weftv1.StartRolloutRequest{Rollout: &weftv1.Rollout{
				Model: "walker", BaselineVersion: 2,
				CandidateVersion: 3, Stages: []float64{1, 50, 100},
			}}
			if _, err := admin.StartRollout(t.Context(), start); err != nil {
				t.Fatal(err)
			}
			if _, err := admin.AdvanceRollout(t.Context(), &weftv1.AdvanceRolloutRequest{Model: "walker"}); err != nil {
				t.Fatal(err)
			}
		},
		func(t *testing.T, r *running) {
			const before, after = "model=walker split=[baseline: version 2, weight 50 candidate: version 3, weight " +
				"50] shadow=[] revision=3 source=rollout by=127.0.0.1:",
				"labels=map[stable:1] loaded_by_hand=[1 2 3] unloaded_by_hand=[4] "
			if !strings.HasPrefix(r.inForce, before) || !strings.HasSuffix(r.inForce, after) {
				t.Errorf("the log tells that in force is %s", r.inForce)
			}
			text, err := os.ReadFile(filepath.Join(repository, ".weft-state", "walker.json"))
			if by := "    \"4\": {\n      \"loaded\": false,\n      \"by\": \"127.0.0.1:"; err != nil ||
				!strings.Contains(string(text), by) {
				t.Errorf("who unloaded a version is not kept: %v\n%s", err, text)
			}
			r.until(t, "what was loaded by hand is ready, and what was unloaded is not", func(m *weftv1.Model) bool {
				return ready(m) == "[1 2 3]" && m.GetLabels()["stable"] == 1
			})
			if got := r.answerers(t, 50); got[2] < 10 || got[3] < 10 || got[2]+got[3] != 50 {
				t.Errorf("half way through a rollout the versions answered so often: %v", got)
			}
			answer, err := weftv1.NewModelServiceClient(r.admin).GetRollout(t.Context(),
				&weftv1.GetRolloutRequest{Model: "walker"})
			if err != nil {
				t.Fatal(err)
			}
			out := &strings.Builder{}
			out.WriteString(answer.GetRollout().GetState().String())
			for _, step := range answer.GetRollout().GetSteps() {
				fmt.Fprintf(out, "\n%s (%s)", step.GetReason(), step.GetBy())
			}
			for _, part := range []string{
				"RUNNING", "started by hand (127.0.0.1:", "asked for by hand (127.0.0.1:",
				"goes on with the evidence that was kept (weft)",
			} {
				if !strings.Contains(out.String(), part) {
					t.Errorf("the rollout does not tell %q:\n%s", part, out)
				}
			}
			if _, err := weftv1.NewAdminServiceClient(r.admin).AdvanceRollout(t.Context(),
				&weftv1.AdvanceRolloutRequest{Model: "walker"}); err != nil {
				t.Errorf("the rollout does not go on: %v", err)
			}
			// A version that the traffic names goes while no server runs.
			if err := os.RemoveAll(filepath.Join(repository, "walker", "3")); err != nil {
				t.Fatal(err)
			}
		},
		func(t *testing.T, r *running) {
			if got := r.answerers(t, 50); got[2] != 50 {
				t.Errorf("without the candidate the versions answered so often: %v", got)
			}
		},
	)
}

// TestAServerStartsWithNothingLoaded if that was decided: otherwise nobody could load anything any more.
func TestAServerStartsWithNothingLoaded(t *testing.T) {
	repository := t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.SetManifest(t, repository, "walker", quick)
	again(t, repository, nil,
		func(t *testing.T, r *running) {
			unload := &weftv1.UnloadVersionRequest{Model: "walker", Version: 1}
			if _, err := weftv1.NewAdminServiceClient(r.admin).UnloadVersion(t.Context(), unload); err != nil {
				t.Fatal(err)
			}
		},
		func(t *testing.T, r *running) {
			r.until(t, "nothing is loaded", func(m *weftv1.Model) bool { return ready(m) == "[]" })
			if code, state := r.get(t, "/readyz"); code != http.StatusServiceUnavailable || state != "unavailable\n" {
				t.Errorf("with no model: %d %s", code, state)
			}
			load := &weftv1.LoadVersionRequest{Model: "walker", Version: 1}
			if _, err := weftv1.NewAdminServiceClient(r.admin).LoadVersion(t.Context(), load); err != nil {
				t.Fatal(err)
			}
			r.answerers(t, 1)
			if code, state := r.get(t, "/readyz"); code != http.StatusOK || state != "ready\n" {
				t.Errorf("with a model: %d %s", code, state)
			}
		},
	)
}

// TestWhereTheStateMayBe: not where a scan would take it for a model, or for a part of one.
func TestWhereTheStateMayBe(t *testing.T) {
	dir := t.TempDir()
	repository, link := filepath.Join(dir, "models"), filepath.Join(dir, "link")
	if err := errors.Join(os.MkdirAll(filepath.Join(repository, "walker", "1"), 0o755),
		os.Symlink(repository, link)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	const model = "would be taken for model"
	for state, want := range map[string]string{
		"auto": "", "none": "", "": "", "state": "", "models/.state": "", "models/.state/of/one": "",
		"models/walker/../../x": "", "models-state": "",
		"models": "is the repository itself", "link": "is the repository itself",
		"models/.":     "is the repository itself",
		"models/state": model, "models/walker": model, "models/walker/1": model, "link/walker/.state": model,
		"models/not/there/yet": model,
	} {
		c := Settings{Repositories: []string{"elsewhere", link}, Server: config.DefaultServer()}
		c.StateDir = state
		err := c.Check()
		if want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), "--state-dir: "+state+" "+want)) {
			t.Errorf("--state-dir %s: %v; want %q", state, err, want)
		}
	}
}

// TestStateDirectory: another server's, one that cannot be made, and none.
func TestStateDirectory(t *testing.T) {
	repository, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.AddVersion(t, repository, "walker", 2)
	weftest.SetManifest(t, repository, "walker", quickWith("versions: {policy: all}"))
	keep := func(dir string) func(*App) { return func(c *App) { c.StateDir = dir } }
	fails := func(dir, want string) {
		t.Helper()
		c := &App{Settings: Settings{Repositories: []string{repository}, Server: config.DefaultServer()}}
		c.Listen, c.HTTP, c.AdminListen, c.StateDir = "127.0.0.1:0", "", "", dir
		if err := c.serve(make(chan os.Signal, 1), newLogger(os.Stderr, &c.Server, &c.level)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("--state-dir %s: %v; want that %s", dir, err, want)
		}
	}
	first := func(r *running) {
		t.Helper()
		traffic := &weftv1.Traffic{Split: []*weftv1.TrafficSlot{{Slot: "a", Version: 1, Weight: 1}}}
		if _, err := weftv1.NewAdminServiceClient(r.admin).SetTraffic(t.Context(),
			&weftv1.SetTrafficRequest{Model: "walker", Traffic: traffic}); err != nil {
			t.Fatal(err)
		}
	}
	again(t, repository, keep(state), func(t *testing.T, r *running) {
		first(r)
		fails(state, "is in use by another server; stop that one")
	})
	again(t, repository, keep(config.StateDirNone), func(t *testing.T, r *running) {
		if got := r.answerers(t, 5); got[2] != 5 {
			t.Errorf("without the state directory the versions answered so often: %v", got)
		}
		first(r)
		if got := r.answerers(t, 5); got[1] != 5 {
			t.Errorf("without a state directory, the traffic is not divided: %v", got)
		}
		label, err := weftv1.NewAdminServiceClient(r.admin).SetLabel(t.Context(),
			&weftv1.SetLabelRequest{Model: "walker", Label: "a", Version: 1})
		if err != nil || label.GetPersisted() || !strings.Contains(label.GetNotPersistedBecause(), "--state-dir") {
			t.Errorf("a label: %v, %v", label, err)
		}
		started, err := weftv1.NewAdminServiceClient(r.admin).StartRollout(t.Context(),
			&weftv1.StartRolloutRequest{Rollout: &weftv1.Rollout{
				Model: "walker", BaselineVersion: 1, CandidateVersion: 2, Stages: []float64{1, 100},
			}})
		if err != nil || !strings.Contains(started.GetNotPersistedBecause(), "the server has no state directory") {
			t.Errorf("starting a rollout: %v, %v", started, err)
		}
	})
	again(t, repository, keep(state), func(t *testing.T, r *running) {
		if got := r.answerers(t, 5); got[1] != 5 {
			t.Errorf("with the state directory the versions answered so often: %v", got)
		}
		// A disk that fails: nothing is changed, and the caller learns no path.
		if err := os.Mkdir(filepath.Join(state, "walker.json.tmp"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := weftv1.NewAdminServiceClient(r.admin).SetTraffic(t.Context(),
			&weftv1.SetTrafficRequest{Model: "walker"})
		if got := r.answerers(t, 5); status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), state) ||
			got[1] != 5 {
			t.Errorf("a change that cannot be kept: %v; the versions answered so often: %v", err, got)
		}
	})
	missing := filepath.Join(state, "not", "there")
	fails(missing, "--state-dir "+missing+" cannot be used: mkdir "+missing+
		": no such file or directory; name a directory that this server may write to")
	if entries, err := os.ReadDir(repository); err != nil || len(entries) != 1 {
		t.Errorf("in the repository there are %v, %v; want the model alone", entries, err)
	}
}

// These are behaviours of other servers that docs/MIGRATING.md maps to ours and that only the whole program shows.

// TestFullQueueMakesCallersWait: with on_full: wait a hundred callers of a queue of two are all answered.
func TestFullQueueMakesCallersWait(t *testing.T) {
	r := serve(t, map[string]string{"patient": `{synth: {base: 1ms, ` + tensors +
		`}, batching: {mode: "off", max_queue: 2, on_full: wait}}`})
	r.awaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	if ended, errs := weftest.Predict(ctx, r.conn, "patient", "x", 100); ended[codes.OK] != 100 {
		t.Errorf("ended %v: %v", ended, errs)
	}
}
