package main

import (
	"bufio"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// known is the state of the decisions about the model walker that a server shows, or ought to show.
type known struct {
	Revision   uint64
	Source     string
	Split      map[int64]float64
	Labels     map[string]int64
	RolledBack []int64
	Baseline   int64 // of the latest rollout; 0: there was none
	Candidate  int64
	Stages     []float64
	Stage      int
	State      string
}

// set returns the state after the traffic was divided.
func (k known) set(source string, split map[int64]float64) known {
	k.Revision++
	k.Source, k.Split = source, split
	k.RolledBack = slices.DeleteFunc(slices.Clone(k.RolledBack),
		func(n int64) bool { _, named := split[n]; return named })
	if k.State == "RUNNING" && source != "rollout" {
		k.State = "ABORTED"
	}
	return k
}

// stage returns the state after the rollout entered a stage.
func (k known) stage(i int) known {
	k.State, k.Stage = "RUNNING", i
	return k.set("rollout", map[int64]float64{k.Baseline: 100 - k.Stages[i], k.Candidate: k.Stages[i]})
}

// end returns the state after the rollout ended.
func (k known) end(state string) known {
	if k.State = state; state == "PROMOTED" {
		return k.set("rollout", map[int64]float64{k.Candidate: 100})
	}
	k = k.set("rollout", map[int64]float64{k.Baseline: 100})
	k.RolledBack = append(slices.DeleteFunc(k.RolledBack, func(n int64) bool { return n == k.Candidate }), k.Candidate)
	slices.Sort(k.RolledBack)
	return k
}

// selfAsWeft returns the path of this program by the name weft, by which it is that.
func selfAsWeft(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "weft")
	itself, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(itself, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// victim is a server in a process of its own.
type victim struct {
	process     *exec.Cmd
	address     string
	conn, admin *grpc.ClientConn
	drained     chan struct{} // closed when its log has ended
	state       string        // its state directory
}

func startVictim(t *testing.T, program, repository, listen string, flags ...string) *victim {
	t.Helper()
	v := &victim{drained: make(chan struct{}), state: filepath.Join(repository, ".weft-state")}
	v.process = exec.CommandContext(t.Context(), program, append([]string{
		"serve", repository, "--listen=" + listen, "--http=", "--admin-listen=127.0.0.1:0",
		"--log-format=json", "--watch-interval=0",
	}, flags...)...)
	v.process.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=none")
	out, err := v.process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.process.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var said []string
	var admin string
	for lines.Scan() {
		var line struct{ Level, Event, GRPC, Admin string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Level == "ERROR" {
			t.Errorf("the log has %s", lines.Text())
		}
		said = append(said, lines.Text())
		if line.Admin != "" {
			admin = line.Admin
		}
		if line.Event != "ready" {
			continue
		}
		v.address = line.GRPC
		if v.conn, err = weftest.Dial(line.GRPC); err == nil {
			v.admin, err = weftest.Dial(admin)
		}
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(v.drained)
			for lines.Scan() {
			}
		}()
		return v
	}
	t.Fatalf("the server did not start: %s", strings.Join(said, "\n"))
	return nil
}

func (v *victim) kill(t *testing.T) {
	t.Helper()
	if err := v.process.Process.Kill(); err != nil {
		t.Error(err)
	}
	<-v.drained
	_ = v.process.Wait() // it was killed
	v.conn.Close()
	v.admin.Close()
}

// decided asks the server for the decisions.
func (v *victim) decided(t *testing.T) (k known) {
	t.Helper()
	models := weftv1.NewModelServiceClient(v.conn)
	traffic, err := models.GetTraffic(t.Context(), &weftv1.GetTrafficRequest{Model: "walker"})
	if err != nil {
		t.Fatal(err)
	}
	k.Revision, k.Source, k.Split = traffic.GetTraffic().GetRevision(), traffic.GetTraffic().GetSource(),
		map[int64]float64{}
	for _, s := range traffic.GetTraffic().GetSplit() {
		k.Split[s.GetVersion()] = s.GetWeight()
	}
	for _, r := range traffic.GetRolledBack() {
		k.RolledBack = append(k.RolledBack, r.GetVersion())
	}
	model, err := models.GetModel(t.Context(), &weftv1.GetModelRequest{Name: "walker"})
	if err != nil {
		t.Fatal(err)
	}
	k.Labels = model.GetModel().GetLabels()
	answer, err := models.GetRollout(t.Context(), &weftv1.GetRolloutRequest{Model: "walker"})
	if err != nil {
		t.Fatal(err)
	}
	if r := answer.GetRollout(); r != nil {
		k.Baseline, k.Candidate, k.Stages, k.Stage = r.GetBaselineVersion(), r.GetCandidateVersion(), r.GetStages(),
			int(r.GetStage())
		k.State = strings.TrimPrefix(r.GetState().String(), "ROLLOUT_STATE_")
		if steps := r.GetSteps(); steps[len(steps)-1].GetState() != r.GetState() {
			t.Errorf("the rollout is %v and its last step %v", r.GetState(), steps[len(steps)-1])
		}
		if k.State == "RUNNING" && k.Source != "rollout" {
			k.State = "ABORTED" // as its next look will find
		}
	}
	return k
}

// decision is a call that changes something, and the state afterwards.
type decision struct {
	what  string
	after known
	call  func(ctx context.Context, v *victim) error
}

// decide draws a decision that can be made now.
func (k known) decide(random *rand.Rand) decision {
	version := 1 + random.Int64N(3)
	choices := []decision{
		{"SetTraffic", k.set("SetTraffic", map[int64]float64{version: 1}), func(ctx context.Context, v *victim) error {
			traffic := &weftv1.Traffic{
				Revision: k.Revision,
				Split:    []*weftv1.TrafficSlot{{Slot: "a", Version: version, Weight: 1}},
			}
			_, err := weftv1.NewAdminServiceClient(v.admin).SetTraffic(ctx,
				&weftv1.SetTrafficRequest{Model: "walker", Traffic: traffic})
			return err
		}},
		{"SetLabel", k, func(ctx context.Context, v *victim) error {
			_, err := weftv1.NewAdminServiceClient(v.admin).SetLabel(ctx,
				&weftv1.SetLabelRequest{Model: "walker", Label: "stable", Version: version})
			return err
		}},
	}
	labels := maps.Clone(k.Labels)
	if labels == nil {
		labels = map[string]int64{}
	}
	labels["stable"] = version
	choices[1].after.Labels = labels
	if k.State != "RUNNING" {
		start := k.start(version, 1+version%3, false, 1, 50, 100)
		return append(choices, start, start)[random.IntN(4)]
	}
	advance := decision{call: func(ctx context.Context, v *victim) error {
		_, err := weftv1.NewAdminServiceClient(v.admin).AdvanceRollout(ctx,
			&weftv1.AdvanceRolloutRequest{Model: "walker"})
		return err
	}}
	if advance.what, advance.after = "promotion", k.end("PROMOTED"); k.Stage < len(k.Stages)-1 {
		advance.what, advance.after = "advance", k.stage(k.Stage+1)
	}
	// Mostly on with the rollout, so that it comes to its end.
	return append(choices, choices[1], choices[1], choices[1], advance, advance, advance, advance, advance, advance,
		advance, advance, k.abort())[random.IntN(14)]
}

func (k known) abort() decision {
	return decision{"abort", k.end("ABORTED"), func(ctx context.Context, v *victim) error {
		_, err := weftv1.NewAdminServiceClient(v.admin).AbortRollout(ctx, &weftv1.AbortRolloutRequest{Model: "walker"})
		return err
	}}
}

func (k known) start(baseline, candidate int64, automatic bool, stages ...float64) decision {
	after := k
	after.Baseline, after.Candidate, after.Stages = baseline, candidate, stages
	return decision{"start", after.stage(0), func(ctx context.Context, v *victim) error {
		_, err := weftv1.NewAdminServiceClient(v.admin).StartRollout(ctx,
			&weftv1.StartRolloutRequest{Rollout: &weftv1.Rollout{
				Model: "walker", BaselineVersion: baseline, CandidateVersion: candidate, Stages: stages,
				Automatic:     automatic,
				StageDuration: durationpb.New(time.Hour),
				Gate:          &weftv1.Gate{MinRequests: 10, MinEpisodes: 10, MaxLatencyRatio: 1000, Outcome: "reward"},
			}})
		return err
	}}
}

// rollBack is the decision of the gate of the running rollout, whose candidate does worse.
func (k known) rollBack() decision {
	return decision{"rollback", k.end("ROLLED_BACK"), func(ctx context.Context, v *victim) error {
		client, models := weftv1.NewPredictionServiceClient(v.conn), weftv1.NewModelServiceClient(v.conn)
		for i := 0; ; i++ {
			req := weftest.Request("walker", 1)
			req.EpisodeId = fmt.Sprint("e", i)
			answer, err := client.Predict(ctx, req)
			if err != nil {
				return err
			}
			reward := float64(i % 3)
			if answer.GetModel().GetVersion() == k.Candidate {
				reward -= 10
			}
			if _, err := client.ReportOutcome(ctx,
				&weftv1.ReportOutcomeRequest{
					Model: &weftv1.ModelSpec{Name: "walker"}, EpisodeId: req.GetEpisodeId(),
					Reward: &reward,
				}); err != nil {
				return err
			}
			now, err := models.GetRollout(ctx, &weftv1.GetRolloutRequest{Model: "walker"})
			if err != nil || now.GetRollout().GetState() == weftv1.RolloutState_ROLLOUT_STATE_ROLLED_BACK {
				return err
			}
		}
	}}
}

// outcomes counts decisions by their kind: how many were answered, how many were cut short, and how many of the latter
// were kept.
type outcomes struct{ told, cut, kept map[string]int }

// decideUntilKilled makes decisions until the server is killed. It returns the state after the last one that was
// answered, and the one that was being made.
func (v *victim) decideUntilKilled(t *testing.T, now known, random *rand.Rand, rollsBack bool,
	count outcomes,
) (known, decision) {
	t.Helper()
	rollingBack, rolledBack := make(chan struct{}), make(chan struct{})
	begin, end := sync.OnceFunc(func() { close(rollingBack) }), sync.OnceFunc(func() { close(rolledBack) })
	var plan []decision
	if rollsBack {
		after := now
		if now.State == "RUNNING" {
			plan = append(plan, now.abort())
			after = plan[0].after
		}
		start := after.start(1, 2, true, 50, 100)
		plan = append(plan, start, start.after.rollBack())
	}
	killed := make(chan struct{})
	moment := time.Duration(random.Int64N(int64(50 * time.Millisecond)))
	go func() {
		defer close(killed)
		if rollsBack { // which the server does in its own time: the moment is soon after it began to write
			<-rollingBack
			for over := false; !over && !exists(filepath.Join(v.state, "walker.json.tmp")); runtime.Gosched() {
				select {
				case <-rolledBack:
					over = true
				default:
				}
			}
		}
		<-time.After(moment)
		v.kill(t)
	}()
	for {
		d := now.decide(random)
		if len(plan) > 0 {
			if d, plan = plan[0], plan[1:]; d.what == "rollback" {
				begin()
			}
		}
		switch err := d.call(t.Context(), v); {
		case err == nil:
			now = d.after
			if count.told[d.what]++; d.what == "rollback" {
				end()
			}
		// the rollout before did not notice yet that it has ended
		case status.Code(err) == codes.FailedPrecondition && d.what == "start":
			if len(plan) > 0 {
				plan = slices.Insert(plan, 0, d)
			}
		default:
			begin()
			end()
			<-killed
			if code := status.Code(err); code != codes.Unavailable && code != codes.Canceled {
				t.Errorf("%s: %v", d.what, err)
			}
			count.cut[d.what]++
			return now, d
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// answers asks for new episodes: they go where the traffic says.
func (v *victim) answers(t *testing.T, k known) {
	t.Helper()
	for range 5 {
		req := weftest.Request("walker", 1)
		req.EpisodeId = crand.Text()
		answer, err := weftv1.NewPredictionServiceClient(v.conn).Predict(t.Context(), req)
		if n := answer.GetModel().GetVersion(); err != nil || len(k.Split) > 0 && k.Split[n] == 0 {
			t.Errorf("version %d answered, %v; the traffic is %v", n, err, k.Split)
		}
	}
}

// TestKilledAtAnyMoment kills servers with SIGKILL while decisions are being made. The next server knows the last one
// that was answered, or the one that was being made, whole, and there is no litter.
func TestKilledAtAnyMoment(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 4 seconds")
	}
	kills := weftest.Times(10, 30)
	repository, program := t.TempDir(), selfAsWeft(t)
	for version := 1; version <= 3; version++ {
		weftest.AddVersion(t, repository, "walker", version)
	}
	weftest.SetManifest(t, repository, "walker",
		`{synth: {base: 0s, `+weftest.Tensors+`}, batching: {mode: "on"}, versions: {policy: all}}`)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	count := outcomes{map[string]int{}, map[string]int{}, map[string]int{}}
	before := known{Revision: 1, Source: "default", Split: map[int64]float64{}}
	var during decision
	litter := 0
	for i := range kills + 1 {
		entries, err := os.ReadDir(filepath.Join(repository, ".weft-state"))
		if i > 0 && err != nil || len(entries) > 3 {
			t.Fatalf("left in the state directory: %v, %v", entries, err)
		}
		if len(entries) == 3 {
			litter++
		}
		v := startVictim(t, program, repository, "127.0.0.1:0")
		now := v.decided(t)
		switch isOld, isNew := same(before, now), same(during.after, now); {
		case isNew && !isOld:
			count.kept[during.what]++
		case !isOld:
			t.Fatalf("seed %d, kill %d: there was %+v, and %s was being made, to %+v; now there is %+v", seed, i,
				before, during.what, during.after, now)
		}
		v.answers(t, now)
		if entries, err := os.ReadDir(filepath.Join(repository, ".weft-state")); err != nil || len(entries) > 2 {
			t.Fatalf("a start leaves in the state directory: %v, %v", entries, err)
		}
		if i == kills {
			v.kill(t)
			break
		}
		before, during = v.decideUntilKilled(t, now, random, i%5 == 4, count)
		if t.Failed() {
			t.Fatalf("seed %d, kill %d", seed, i+1)
		}
	}
	t.Logf("%d kills, seed %d; told %v; cut short %v, of which kept %v; %d times a file was half written", kills, seed,
		count.told, count.cut, count.kept, litter)
}

// same reports whether two states are the same, where empty and missing parts are equal.
func same(a, b known) bool { return gocmp.Equal(a, b, cmpopts.EquateEmpty()) }
